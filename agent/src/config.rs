//! Where options come from: configuration file, kernel arguments, environment, command line.
//!
//! The weaker sources are turned into command-line words and parsed by the same parser, so an option means the same
//! and is checked in the same way wherever it is set.

mod file;
mod rejected;
mod unknown;

pub use file::parse_file;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, CommandFactory as _, FromArgMatches as _};
use probes::machine::{Machine, Source};

use crate::cli::Cli;
use crate::http::url::has_possible_port;
use crate::secret::{Secret, redact_setting};

/// What an address of the agent's own begins with.
const SCHEMES: [&str; 3] = ["http://", "https://", "socks"];

/// The configuration file that is read unless another one is named.
pub const DEFAULT_FILE: &str = "/etc/run-coreos-installer.yaml";

/// Options whose values of all sources count: a disk that one source protects must not lose this by another.
const JOINED: [&str; 1] = ["protect"];

/// The kernel argument with the address of Ironic for ironic-python-agent.
const API_URL: &str = "ipa-api-url";
/// The same for the inspector, or for Ironic's own inspection.
const CALLBACK_URL: &str = "ipa-inspection-callback-url";
/// The kernel argument that allows any server. Here it allows plain HTTP; certificates are verified all the same.
const INSECURE: &str = "ipa-insecure";
/// The kernel argument with the port for Ironic's commands.
const LISTEN_PORT: &str = "ipa-listen-port";
/// The kernel argument with the token of the agent, on virtual media that carry one.
const AGENT_TOKEN: &str = "ipa-agent-token";

/// The values of an option, and where they came from.
type Found = (Vec<String>, Origin);

/// All sources except the command line; they are read before it is parsed.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// Content of the configuration file by option name.
    pub file: BTreeMap<String, Vec<String>>,
    /// The name of the configuration file, for messages.
    pub file_name: String,
    /// The text of the configuration file, to find the line of a key.
    pub file_text: String,
    /// The arguments `rci.NAME=VALUE` on the kernel command line.
    pub kernel: Vec<(String, String)>,
    /// Environment variables whose names start with `RCI_`.
    pub environment: BTreeMap<String, String>,
    /// Defaults from kernel arguments of ironic-python-agent: option, argument and value.
    pub ramdisk: Vec<(&'static str, &'static str, String)>,
}

/// Where the value of an option came from, the weakest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// No source set it.
    Default,
    /// This configuration file.
    File(String),
    /// This kernel argument.
    KernelArgument(String),
    /// This environment variable.
    Environment(String),
    /// The command line.
    CommandLine,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => write!(f, "default"),
            Origin::File(name) => write!(f, "configuration file {name}"),
            Origin::KernelArgument(name) => write!(f, "kernel argument {name}"),
            Origin::Environment(name) => write!(f, "environment variable {name}"),
            Origin::CommandLine => write!(f, "command line"),
        }
    }
}

/// One option with its value and where it came from, for `--print-config`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// The option's name without the leading dashes.
    pub name: String,
    /// Its value, or values if the option may be repeated; empty if it is not set.
    pub values: Vec<String>,
    /// Where the value came from.
    pub origin: Origin,
    /// True for an option that is on or off.
    is_flag: bool,
}

/// The command line with all sources applied.
#[derive(Debug)]
pub struct Configuration {
    /// What to do, and how.
    pub cli: Cli,
    /// Every option of the command with its origin.
    pub settings: Vec<Setting>,
}

/// Why there is no configuration.
#[derive(Debug)]
pub enum Failure {
    /// clap's own message: help, version or a usage error.
    Usage(clap::Error),
    /// A source is malformed, or holds an unknown option or a wrong value.
    Source(anyhow::Error),
}

/// Applies all sources to the words of the command line.
///
/// Without a command, `install` is the default if a VIM or an Ignition config is configured and `may_install` (standard
/// input is not a terminal), and for `--print-config`, which runs nothing.
///
/// # Errors
/// [`Failure::Usage`] for the command line, [`Failure::Source`] for every other source.
pub fn configure(
    words: &[OsString],
    sources: &Sources,
    may_install: bool,
) -> Result<Configuration, Failure> {
    let mut words = words.to_vec();
    let mut command = Cli::command();
    let mut matches = parse(&mut command, &words)?;
    let has_job = sources.names("vim") || sources.names("ignition");
    let is_default = (may_install && has_job) || matches.get_flag("print_config");
    if matches.subcommand_name().is_none() && is_default {
        words.push("install".into());
        matches = parse(&mut command, &words)?;
    }
    let Some((name, inner)) = matches.subcommand() else {
        let cli = Cli::from_arg_matches(&matches).map_err(Failure::Usage)?;
        return Ok(Configuration { cli, settings: Vec::new() });
    };
    let is_typed = |id: &&str| {
        inner.try_contains_id(id).is_ok()
            && inner.value_source(id) == Some(ValueSource::CommandLine)
    };
    // The kernel arguments of another agent say nothing about a server that is typed.
    let typed = Sources { ramdisk: Vec::new(), ..sources.clone() };
    let is_own = ["vim", "ignition", "backend"].iter().any(is_typed);
    let sources = if is_own { &typed } else { sources };
    let known = command.find_subcommand(name).into_iter().flat_map(options);
    let settings: Vec<Setting> =
        known.flat_map(|(name, option)| sources.settings(name, option, inner)).collect();
    if !sources.is_empty() {
        // clap adds the options of the other commands only when they are built.
        command.build();
        let all = command.get_subcommands().flat_map(options).map(|(name, _)| name.to_owned());
        sources.check_names(&all.collect::<Vec<String>>()).map_err(Failure::Source)?;
        settings.iter().try_for_each(Setting::check_flag).map_err(Failure::Source)?;
        words.extend(settings.iter().flat_map(Setting::words));
        matches =
            parse(&mut command, &words).map_err(|failure| rejected::blame(failure, &settings))?;
    }
    settings.iter().try_for_each(Setting::check_port).map_err(Failure::Source)?;
    let cli = Cli::from_arg_matches(&matches).map_err(Failure::Usage)?;
    Ok(Configuration { cli, settings })
}

fn parse(command: &mut clap::Command, words: &[OsString]) -> Result<ArgMatches, Failure> {
    let result = command.try_get_matches_from_mut(words);
    result.map_err(|error| Failure::Usage(rejected::with_tip(error, command, words)))
}

/// The options of a command that every source may set, by name.
fn options(command: &clap::Command) -> impl Iterator<Item = (&str, &clap::Arg)> {
    let named = command.get_arguments().filter_map(|arg| Some((arg.get_long()?, arg)));
    named.filter(|(name, _)| !["help", "version", "print-config", "config"].contains(name))
}

impl Setting {
    /// The option as the user wrote it: `--ssh-key`, `RCI_SSH_KEY`, `rci.ssh-key`, or the key and its file.
    pub fn written(&self) -> String {
        match &self.origin {
            Origin::Default | Origin::CommandLine => format!("--{}", self.name),
            Origin::Environment(name) | Origin::KernelArgument(name) => name.clone(),
            Origin::File(file) => format!("{} in {file}", self.name),
        }
    }

    /// True if a source sets the option, other than a flag to false.
    pub fn is_set(&self) -> bool {
        let is_off = self.is_flag && self.values.iter().all(|value| is_false(value));
        self.origin != Origin::Default && !self.values.is_empty() && !is_off
    }

    /// Whether the value comes from a source other than the command line.
    fn is_elsewhere(&self) -> bool {
        !matches!(self.origin, Origin::CommandLine | Origin::Default)
    }

    /// Refuses a value that is neither yes nor no: a misspelt dry run would become an install.
    fn check_flag(&self) -> anyhow::Result<()> {
        let Self { name, origin, .. } = self;
        match self.values.iter().find(|value| !is_true(value) && !is_false(value)) {
            Some(odd) if self.is_flag && self.is_elsewhere() => {
                let odd = odd.escape_debug();
                bail!("{origin} holds \"{odd}\" for {name}, expected true or false")
            }
            _ => Ok(()),
        }
    }

    /// Refuses an address whose port cannot exist: nothing would ever answer there. A value that only contains an address, such
    /// as a kernel argument, is not the agent's to judge.
    fn check_port(&self) -> anyhow::Result<()> {
        let is_address = |value: &&String| SCHEMES.iter().any(|scheme| value.starts_with(scheme));
        match self.values.iter().filter(is_address).find(|value| !has_possible_port(value)) {
            Some(address) => bail!(
                "{} is {:?}, expected a port from 1 to 65535",
                self.written(),
                redact_setting(address)
            ),
            None => Ok(()),
        }
    }

    /// The command-line words that set the values of a weaker source.
    fn words(&self) -> Vec<OsString> {
        let name = &self.name;
        let word = |value: &String| match (self.is_flag, is_true(value)) {
            (false, _) => Some(format!("--{name}={value}").into()),
            (true, is_on) => is_on.then(|| format!("--{name}").into()),
        };
        self.values.iter().filter(|_| self.is_elsewhere()).filter_map(word).collect()
    }
}

fn is_true(value: &str) -> bool {
    ["", "1", "true", "t", "yes", "y", "on"].contains(&value.to_ascii_lowercase().as_str())
}

fn is_false(value: &str) -> bool {
    ["0", "false", "f", "no", "n", "off"].contains(&value.to_ascii_lowercase().as_str())
}

impl Sources {
    /// Reads all sources of this machine; `file` is the configuration file that the user named.
    ///
    /// # Errors
    /// If a configuration file that was named cannot be read, or any is malformed.
    pub fn read(file: Option<&Path>) -> anyhow::Result<Sources> {
        let path = file.unwrap_or(Path::new(DEFAULT_FILE));
        let file_name = path.display().to_string();
        let text = match file::read(path) {
            Err(error) if file.is_none() && error.kind() == std::io::ErrorKind::NotFound => None,
            result => Some(
                result.with_context(|| format!("reading the configuration file {file_name}"))?,
            ),
        };
        let file_text = text.unwrap_or_default();
        let file = parse_file(&file_text, &file_name)?;
        let machine = Machine::new(Arc::new(Source::live()), "config");
        let line = command_line(&machine);
        let kernel = kernel_arguments(&line);
        let lossy = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        let variables = std::env::vars_os().map(|(name, value)| (lossy(name), lossy(value)));
        let environment = variables.filter(|(name, _)| name.starts_with("RCI_")).collect();
        let ramdisk = Vec::new();
        let sources = Sources { file, file_name, file_text, kernel, environment, ramdisk };
        Ok(sources.with_ramdisk(&line))
    }

    /// Takes defaults from the kernel arguments of ironic-python-agent, if the back end is its Ironic or inspector. An
    /// address of Ironic alone makes this program the agent of the node, unless a source orders an install.
    pub fn with_ramdisk(mut self, line: &str) -> Sources {
        let given = |name: &'static str| ramdisk_argument(line, name).map(|value| (name, value));
        let backend = self.find("backend").next().and_then(|(values, _)| values.first().cloned());
        let is_address = |found: &(&str, String)| found.1.to_ascii_lowercase().starts_with("http");
        let (api, callback) =
            (given(API_URL).filter(is_address), given(CALLBACK_URL).filter(is_address));
        let address = match backend.as_deref() {
            Some("inspector") => callback,
            Some("ironic") => callback.or(api),
            Some("ironic-agent") => api.or(callback),
            None if !self.names("vim") && !self.names("ignition") && api.is_some() => {
                self.ramdisk.push(("backend", API_URL, "ironic-agent".to_owned()));
                api
            }
            _ => return self,
        };
        // Other words mean false there, as does an empty one.
        let is_insecure = |found: &(&str, String)| !found.1.is_empty() && is_true(&found.1);
        let options = [
            ("vim", address),
            ("allow-plain-http", given(INSECURE).filter(is_insecure)),
            ("agent-port", given(LISTEN_PORT)),
        ];
        let found = options.into_iter();
        let found =
            found.filter_map(|(option, given)| given.map(|(name, value)| (option, name, value)));
        self.ramdisk.extend(found);
        self
    }

    /// Whether no source sets anything.
    fn is_empty(&self) -> bool {
        self.file.is_empty()
            && self.kernel.is_empty()
            && self.environment.is_empty()
            && self.ramdisk.is_empty()
    }

    /// Whether any source names the option `name`.
    pub fn names(&self, name: &str) -> bool {
        self.find(name).next().is_some()
    }

    /// The strongest source that sets the option; every source of one of [`JOINED`].
    fn settings(&self, name: &str, option: &clap::Arg, matches: &ArgMatches) -> Vec<Setting> {
        let id = option.get_id().as_str();
        let is_typed = matches.value_source(id) == Some(ValueSource::CommandLine);
        let typed = is_typed.then(|| {
            let raw = matches.get_raw(id).into_iter().flatten();
            (raw.map(|v| v.to_string_lossy().into_owned()).collect(), Origin::CommandLine)
        });
        let mut found: Vec<Found> = typed.into_iter().chain(self.find(name)).collect();
        if found.is_empty() {
            let default = option.get_default_values().first();
            let default = default.map(|value| value.to_string_lossy().into_owned());
            found.push((default.into_iter().collect(), Origin::Default));
        } else if !JOINED.contains(&name) {
            found.truncate(1);
        }
        let is_flag = matches!(option.get_action(), ArgAction::SetTrue);
        let setting = |(values, origin)| Setting { name: name.to_owned(), values, origin, is_flag };
        found.into_iter().map(setting).collect()
    }

    /// The values of `name` in each source other than the command line, the strongest first.
    fn find(&self, name: &str) -> impl Iterator<Item = Found> {
        let variable = unknown::variable_of_option(name);
        let of_environment = self.environment.get(&variable).cloned();
        let of_environment =
            of_environment.map(|value| (vec![value], Origin::Environment(variable)));
        let arguments = self.kernel.iter().rev().filter(move |(key, _)| option_name(key) == name);
        let arguments = arguments.map(|(written, value)| {
            (vec![value.clone()], Origin::KernelArgument(format!("rci.{written}")))
        });
        let of_file = self.file.get(name).cloned();
        let of_file = of_file.map(|values| (values, Origin::File(self.file_name.clone())));
        let of_ramdisk = self.ramdisk.iter().filter(move |(option, ..)| *option == name);
        let of_ramdisk = of_ramdisk.map(|(_, argument, value)| {
            (vec![value.clone()], Origin::KernelArgument((*argument).to_owned()))
        });
        of_environment.into_iter().chain(arguments).chain(of_file).chain(of_ramdisk)
    }
}

/// The name of an option as the command line spells it: `allow_plain_http` is `allow-plain-http`.
fn option_name(written: &str) -> String {
    written.replace('_', "-")
}

/// The arguments `rci.NAME=VALUE` and `rci.NAME` of the kernel's command line.
pub fn kernel_arguments(line: &str) -> Vec<(String, String)> {
    let ours = formats::command_line::arguments(line)
        .filter_map(|argument| Some((argument.name.strip_prefix("rci.")?, argument.value)));
    ours.map(|(name, value)| (name.to_owned(), value.unwrap_or("true").to_owned())).collect()
}

/// The value of a kernel argument of ironic-python-agent; the last one counts, as there.
fn ramdisk_argument(line: &str, name: &str) -> Option<String> {
    let found = formats::command_line::arguments(line).filter(|argument| argument.name == name);
    found.last().map(|argument| argument.value.unwrap_or("true").to_owned())
}

/// The token of ironic-python-agent on the kernel command line of this machine.
pub fn ramdisk_token() -> Option<Secret> {
    let machine = Machine::new(Arc::new(Source::live()), "config");
    let token = ramdisk_argument(&command_line(&machine), AGENT_TOKEN);
    // An argument without a value, which a template leaves, is no token.
    token.filter(|token| !token.is_empty() && token != "true").map(Secret::new)
}

/// The kernel command line; other arguments may hold any bytes.
fn command_line(machine: &Machine) -> String {
    machine.text("proc/cmdline").unwrap_or_default()
}

#[cfg(test)]
mod tests;
