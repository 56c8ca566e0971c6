//! One function per command: options in, exit status out.

mod check;
mod compare;
mod disks;
mod explain;
mod inspect;
mod job;
mod network;
mod reignite;

use std::io::{ErrorKind, IsTerminal as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use clap::CommandFactory as _;
use formats::command_line::without_secrets;
use probes::collect::{Options, sections};
use probes::machine::{Extras, Source};
use serde::Serialize;

use crate::ask::{Unanswered, ask_within};
use crate::check::load::Task;
use crate::cli::{
    CaptureOptions, Cli, Command, Document, Format, LocateOptions, SchemaOptions, SourceOptions,
};
use crate::config::{Configuration, Origin, Setting};
use crate::exit_status::ExitStatus;
use crate::links::BroughtUp;
use crate::live_config::live_config;
use crate::process::Process;
use crate::report::{Report, report};
use crate::secret::redact_setting;
use crate::signals::Stop;
use crate::{api, capture, expect, locate, output};

/// For `inspect` and similar commands a person is waiting: no LLDP unless asked for.
const NO_WAIT: Duration = Duration::ZERO;

/// Runs the command that the configuration names and returns its exit status.
///
/// # Errors
/// If the options are wrong or contradict the machine; the caller exits with status 2.
pub fn run(configuration: &Configuration, process: &Process) -> anyhow::Result<ExitStatus> {
    if let Some(task) = Task::of_environment() {
        task.run();
        return Ok(ExitStatus::Done);
    }
    let cli = &configuration.cli;
    let Some(command) = &cli.command else {
        output::print(&Cli::command().render_help().to_string())?;
        // In a live image nobody asked for the help: it is what a missing or misplaced setting looks like.
        if !std::io::stdin().is_terminal() {
            tracing::error!(
                "nothing to do: neither a VIM nor an Ignition config is configured; set the VIM's address by the kernel \
                 argument rci.vim=URL, by `vim: URL` in {}, by RCI_VIM or by `install --vim URL`",
                crate::config::DEFAULT_FILE
            );
        }
        return Ok(ExitStatus::Usage);
    };
    if cli.common.print_config {
        output::print(&settings_table(&configuration.settings))?;
        return Ok(ExitStatus::Done);
    }
    match command {
        Command::Inspect(options) => inspect::inspect(options, &process.links),
        Command::Check(options) => check::check(options, &process.links),
        Command::Diff(options) => compare::diff(options),
        Command::Expect(options) => compare::expect(options),
        Command::Cohort(options) => compare::cohort(options),
        Command::Explain(options) => explain::explain(options),
        Command::Disks(options) => disks::disks(options),
        Command::Locate(options) => locate(options),
        Command::Capture(options) => capture(options, &process.links),
        Command::Schema(options) => schema(options),
        Command::LiveConfig(options) => {
            let live = live_config(options, &configuration.settings)?;
            for warning in &live.warnings {
                tracing::warn!("{warning}");
            }
            output::print(&live.text)?;
            Ok(ExitStatus::Done)
        }
        Command::Network(options) => network::network(options),
        Command::Install(options) => {
            let offline = crate::engines::offline::offline(options, &configuration.settings)?;
            let expectations = options.expect.as_deref().map(expect::read).transpose()?;
            let is_typed = is_typed(&configuration.settings, "dry-run");
            Ok(job::install(options, offline, is_typed, expectations.as_ref(), process))
        }
        Command::Reignite(options) => reignite::reignite(options),
        Command::Report(options) => job::send_report(options, process),
    }
}

fn capture(options: &CaptureOptions, links: &BroughtUp) -> anyhow::Result<ExitStatus> {
    let source = Arc::new(open(options.source.root.as_deref())?.recording());
    let collection = collection(&options.source, NO_WAIT)?;
    let report = read(&source, &options.source, NO_WAIT, links)?;
    if let Err(error) = require_hardware(&report, &options.source) {
        tracing::warn!("{error:#}");
    }
    // From here on a signal waits until the unfinished file is removed.
    let stop = Stop::on_signals().context("catching signals")?;
    let (recorded, file) = (source.recorded(), &options.output);
    let written = capture::write(&recorded, &report, &collection, file, options.anonymize, &stop);
    stop.release();
    let differing = written?;
    for key in differing {
        tracing::warn!("a replay of the capture gives a different value for {key}");
    }
    // Without a field, which would be appended to the command.
    tracing::info!(
        "captured; replay it with: run-coreos-installer inspect --root {}",
        options.output.display()
    );
    Ok(ExitStatus::Done)
}

/// Makes the light blink and waits until it is off.
fn locate(options: &LocateOptions) -> anyhow::Result<ExitStatus> {
    let stop = Stop::on_signals().context("catching signals")?;
    let result = locate::locate(&options.part, options.seconds, &stop);
    stop.release();
    result.context("locate").map(|()| ExitStatus::Done)
}

fn schema(options: &SchemaOptions) -> anyhow::Result<ExitStatus> {
    let schema = match options.document {
        Document::Report => api::openapi::schema("Report"),
        Document::Instruction => api::openapi::schema("Instruction"),
        Document::Event => api::openapi::schema("EventBatch"),
        Document::Result => api::openapi::schema("Result"),
        Document::Openapi => api::openapi::document(),
    };
    output::print(&output::json(&schema?)?)?;
    Ok(ExitStatus::Done)
}

/// Prints `value` in a format; `text` is its form for people.
fn show<T: Serialize>(
    format: Format,
    value: &T,
    text: impl FnOnce(&T) -> String,
) -> anyhow::Result<()> {
    output::print(&match format {
        Format::Text => text(value),
        Format::Json => output::json(value)?,
        Format::Yaml => output::yaml(value)?,
    })
}

/// Reads the machine. `lldp_wait` is the time to listen for neighbours if the options do not set it.
///
/// A signal ends the program, so nothing is printed or posted after one. Ports that were brought up, which `links` has,
/// are restored first.
fn read(
    source: &Arc<Source>,
    options: &SourceOptions,
    lldp_wait: Duration,
    links: &BroughtUp,
) -> anyhow::Result<Report> {
    let collection = collection(options, lldp_wait)?;
    if source.is_live() && !collection.extras.lldp_wait.is_zero() {
        tracing::info!(
            "listening to LLDP for {} s; --lldp-wait changes that",
            collection.extras.lldp_wait.as_secs()
        );
    }
    if !options.bring_links_up || !source.is_live() {
        return Ok(report(source, &collection));
    }
    let stop = Stop::on_signals().context("catching signals")?;
    let links = links.bring_up(&stop);
    let source = Arc::clone(source);
    let read = move || report(&source, &collection);
    let found = ask_within("collect", Duration::MAX, &stop, read).map_err(|error| match error {
        Unanswered::Bug(panic) => {
            anyhow!("a bug ended the reading of the hardware; please report it: {panic}")
        }
        Unanswered::Stopped => anyhow!("interrupted by a signal"),
        error => anyhow!("{error}"),
    });
    drop(links);
    stop.release();
    found
}

fn collection(options: &SourceOptions, lldp_wait: Duration) -> anyhow::Result<Options> {
    let known = sections();
    if let Some(unknown) = options.only.iter().find(|only| !known.contains(&only.as_str())) {
        bail!("--only names \"{}\", expected one of {}", unknown.escape_debug(), known.join(", "));
    }
    let budget = Duration::from_secs(options.budget);
    let extras = Extras {
        memory_blocks: options.memory_blocks,
        vpd: options.vpd,
        disk_samples: options.disk_samples,
        lldp_wait: options.lldp_wait.map_or(lldp_wait, Duration::from_secs),
    };
    Ok(Options { only: options.only.clone(), budget, extras, ..Options::default() })
}

fn source(options: &SourceOptions) -> anyhow::Result<Arc<Source>> {
    open(options.root.as_deref()).map(Arc::new)
}

/// Opens the machine that `--root` names; without it, this one.
fn open(root: Option<&Path>) -> anyhow::Result<Source> {
    root.map_or_else(|| Ok(Source::live()), |root| captured(root, "--root "))
}

/// Opens the captured machine at `root`; `option` precedes it in an error.
fn captured(root: &Path, option: &str) -> anyhow::Result<Source> {
    Source::captured(root).map_err(|error| {
        let found = match error.kind() {
            ErrorKind::NotFound => "there is no such file or directory".to_owned(),
            ErrorKind::PermissionDenied => "permission denied".to_owned(),
            _ => error.to_string(),
        };
        anyhow!(
            "{option}{}: {found}; expected a directory that contains sys/ or proc/, or a tar or \
             tar.zst archive made by `run-coreos-installer capture`",
            root.display()
        )
    })
}

/// Fails if nothing could be read about the hardware of the machine in `options`.
fn require_hardware(report: &Report, options: &SourceOptions) -> anyhow::Result<()> {
    let found = report.require_hardware(&options.only);
    match &options.root {
        Some(root) => found.with_context(|| format!("--root {}", root.display())),
        None => found,
    }
}

/// Returns true if the option was given on the command line, not by a weaker source.
fn is_typed(settings: &[Setting], name: &str) -> bool {
    settings.iter().any(|s| s.name == name && s.origin == Origin::CommandLine)
}

/// `--print-config`: every option with its value and source.
fn settings_table(settings: &[Setting]) -> String {
    let width = settings.iter().map(|setting| setting.name.len()).max().unwrap_or_default();
    let line = |setting: &Setting| {
        let values = setting.values.iter().map(|value| shown(&setting.name, value));
        let values: Vec<String> = values.collect();
        let value = if values.is_empty() { "(not set)".to_owned() } else { values.join(",") };
        format!("{:width$}  {value}  [{}]\n", setting.name, setting.origin)
    };
    settings.iter().map(line).collect()
}

/// The value of an option without its secrets: an address may contain a password or a token, as may kernel arguments and
/// options for the agent of a live image.
fn shown(name: &str, value: &str) -> String {
    // A whole document, such as an Ignition config in place of its path, alone or after the name of an argument.
    if value.split('=').any(|part| part.trim_start().starts_with('{')) {
        return "…".to_owned();
    }
    let has_arguments =
        name.ends_with("karg") || ["firstboot-args", "agent-option"].contains(&name);
    if has_arguments { redact_setting(&without_secrets(value)) } else { redact_setting(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn document_in_place_of_a_value_is_not_shown() {
        for (name, value, expected) in [
            ("ignition", r#"{"hash":"hunter2"}"#, "…"),
            ("live-karg", r#"rci.ignition={"a":"hunter2"}"#, "…"),
            ("live-karg", "session=hunter2", "session=<redacted>"),
            ("live-karg", "quiet", "quiet"),
        ] {
            assert_eq!(shown(name, value), expected);
        }
    }

    #[test]
    fn help_of_only_lists_every_section_once() {
        let mut command = Cli::command();
        command.build();
        let inspect = command.find_subcommand("inspect").unwrap();
        let only = inspect.get_arguments().find(|arg| arg.get_id() == "only").unwrap();
        let help = only.get_long_help().unwrap().to_string().replace('\n', " ").replace('`', "");
        let list = help.split("Sections: ").nth(1).unwrap().trim_end_matches('.').to_owned();
        assert_eq!(list, sections().join(", "));
        let once: std::collections::BTreeSet<&str> = sections().into_iter().collect();
        assert_eq!(once.len(), sections().len());
    }
}
