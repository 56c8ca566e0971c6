//! What the user reads about words that clap rejects.

use std::ffi::OsString;

use anyhow::anyhow;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use formats::text::nearest;

use super::{Failure, Setting, options};

/// Adds the option that was probably meant, where clap has no tip.
pub(super) fn with_tip(
    mut error: clap::Error,
    command: &mut clap::Command,
    words: &[OsString],
) -> clap::Error {
    let named = error.get(ContextKind::InvalidArg).map(ToString::to_string);
    let is_key = named.is_some_and(|named| named.starts_with("--vim-key"));
    if is_key && error.kind() == ErrorKind::ValueValidation {
        // It may be the private key.
        error.insert(ContextKind::InvalidValue, ContextValue::String("…".into()));
    }
    let tips = [ContextKind::SuggestedArg, ContextKind::Suggested];
    let has_tip = tips.into_iter().any(|kind| error.get(kind).is_some());
    let Some(ContextValue::String(found)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    if error.kind() != ErrorKind::UnknownArgument || has_tip {
        return error;
    }
    let found = found.clone();
    // clap adds the general options to each command when it is built.
    command.build();
    let read = command.clone().ignore_errors(true).try_get_matches_from(words);
    let named = read.ok().and_then(|read| command.find_subcommand(read.subcommand_name()?));
    let name = named.map_or("", clap::Command::get_name);
    let known: Vec<&str> = options(named.unwrap_or(command)).map(|(name, _)| name).collect();
    let has_root = known.contains(&"root");
    if let Some(written) = found.strip_prefix("--") {
        if let Some(near) = nearest(written, known) {
            let near = ContextValue::String(format!("--{near}"));
            error.insert(ContextKind::SuggestedArg, near);
        }
    } else if !found.starts_with('-') && has_root {
        let tip = format!("to read a captured machine, use '{name} --root {found}'");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// Names the source of a value that clap rejected: clap only sees a word that the user never typed.
pub(super) fn blame(failure: Failure, settings: &[Setting]) -> Failure {
    let Failure::Usage(error) = failure else { return failure };
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::Strings(texts)) => Some(texts.join(", ")),
        _ => None,
    };
    // clap names the option as its help does, e.g. `--budget <SECONDS>` or `--flag[=<true|false>]`.
    let named = text(ContextKind::InvalidArg).unwrap_or_default();
    let name = named.split([' ', '=', '[']).next().unwrap_or_default().trim_start_matches('-');
    let setting = settings.iter().find(|setting| setting.name == name && setting.is_elsewhere());
    let Some(Setting { origin, values, .. }) = setting else { return Failure::Usage(error) };
    let Some(value) = text(ContextKind::InvalidValue) else {
        return match error.kind() {
            ErrorKind::ArgumentConflict if values.len() > 1 => Failure::Source(anyhow!(
                "{origin} holds {} values for {name}, expected one",
                values.len()
            )),
            _ => Failure::Usage(error),
        };
    };
    let expected = match text(ContextKind::ValidValue) {
        Some(values) => format!("expected one of {values}"),
        None => std::error::Error::source(&error).map_or_else(String::new, ToString::to_string),
    };
    Failure::Source(anyhow!("{origin} holds \"{}\" for {name}, {expected}", value.escape_debug()))
}
