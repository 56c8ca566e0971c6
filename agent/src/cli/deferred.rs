//! Options of a command that are made known to clap when the command is named, not before: to build
//! the options and help texts of all seven is a good part of what a short run costs.

use clap::error::Error;
use clap::{ArgMatches, Args, Command, FromArgMatches};

/// The options `T` of a command.
#[derive(Debug, Clone)]
pub struct Deferred<T>(pub T);

impl<T: Args> Args for Deferred<T> {
    fn augment_args(command: Command) -> Command {
        command.defer(options::<T>)
    }

    fn augment_args_for_update(command: Command) -> Command {
        command.defer(options::<T>)
    }
}

/// Adds the options. The doc comment of `T` describes a type, not the command: what the command
/// says of itself stays.
fn options<T: Args>(command: Command) -> Command {
    let about = command.get_about().cloned();
    let command = T::augment_args(command);
    match about {
        Some(about) => command.about(about),
        None => command,
    }
}

impl<T: FromArgMatches> FromArgMatches for Deferred<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Deferred<T>, Error> {
        T::from_arg_matches(matches).map(Deferred)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}
