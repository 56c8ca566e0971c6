//! `check`: the findings alone, for people or for another program, and an exit status by the worst of them.

use std::time::{Duration, SystemTime};

use anyhow::ensure;
use probes::findings::{Finding, Severity};
use tracing::info;

use crate::check::load::Load;
use crate::check::sample::Earlier;
use crate::check::{ocptv, prometheus};
use crate::cli::{CheckFormat, CheckOptions, SourceOptions};
use crate::exit_status::ExitStatus;
use crate::links::BroughtUp;
use crate::output::draft::{Draft, READABLE};
use crate::qr::{self, Screen, Summary};
use crate::report::Report;
use crate::secret::redact_setting;
use crate::{expect, output, text};

/// Interval at which a wait between two readings logs its progress.
const PROGRESS_S: u64 = 10;

/// Prints the findings.
///
/// # Errors
/// If the options are wrong, the machine cannot be read, or the file cannot be written.
pub(super) fn check(options: &CheckOptions, links: &BroughtUp) -> anyhow::Result<ExitStatus> {
    let is_text = options.format == CheckFormat::Text;
    ensure!(is_text || !options.qr, "--qr needs --format text: a QR code is for people");
    let expectations = options.expect.as_deref().map(expect::read).transpose()?;
    let source = super::source(&options.source)?;
    let reads = SourceOptions { disk_samples: options.read_disks, ..options.source.clone() };
    let window = options.sample.or(options.load);
    let first = window.map(|_| super::read(&source, &reads, super::NO_WAIT, links));
    let earlier = first.transpose()?.map(|first| Earlier::new(&source, first));
    let load = options.load.map(Load::start);
    let seconds = window.unwrap_or_default();
    wait(seconds);
    // Before the second reading, which may set links up and down.
    let risen = earlier.as_ref().map(|earlier| earlier.risen(&source, seconds));
    let mut report = super::read(&source, &reads, super::NO_WAIT, links)?;
    super::require_hardware(&report, &options.source)?;
    if let (Some(earlier), Some(risen)) = (earlier, risen) {
        earlier.compare(&mut report, risen, seconds);
    }
    if let Some(load) = load {
        let verdict = load.finish();
        info!("{}", verdict.summary());
        verdict.add_to(&mut report);
    }
    // Later, since an expectation is not a counter.
    expect::add(expectations.as_ref(), &mut report)?;
    let is_colored = options.output.is_none() && output::is_colored(options.color);
    let text = match options.format {
        CheckFormat::Text => text::findings(&report, &options.source.only, is_colored),
        CheckFormat::Json => output::json(&report.findings)?,
        CheckFormat::Yaml => output::yaml(&report.findings)?,
        CheckFormat::Ocptv => ocptv::lines(&report, &command_line(), SystemTime::now()),
        CheckFormat::Prometheus => prometheus::metrics(&report, SystemTime::now()),
    };
    match &options.output {
        Some(file) => Draft::new(file, READABLE, text.as_bytes())?.keep()?,
        None => output::print(&text)?,
    }
    if options.qr {
        show_qr(&report, is_colored)?;
    }
    warn_of_problems(&report, options.format);
    if let Some(note) = text::left_out(&options.source.only).filter(|_| !is_text) {
        info!("{note}");
    }
    Ok(status(&report.findings))
}

/// Waits between two readings. Nothing catches signals here, so one ends the program at once.
fn wait(seconds: u64) {
    let mut left = seconds;
    while left > 0 {
        tracing::info!("reading the machine again in {left} s");
        let step = left.min(PROGRESS_S);
        std::thread::sleep(Duration::from_secs(step));
        left -= step;
    }
}

/// Shows the worst faults as a QR code below the findings.
fn show_qr(report: &Report, is_colored: bool) -> anyhow::Result<()> {
    let screen = Screen::of(&std::io::stdout(), is_colored);
    if let Some(code) = qr::draw(&Summary::of(report), &screen) {
        return output::print(&code);
    }
    let (columns, rows) = (screen.columns, screen.rows + 1);
    let locale = if screen.is_utf8 { "" } else { ", or choose a locale with UTF-8" };
    tracing::warn!(
        "no QR code: it does not fit {columns} columns and {rows} rows; enlarge the terminal{locale}"
    );
    Ok(())
}

/// JSON and YAML contain only findings: without this warning an unreadable machine would look healthy.
fn warn_of_problems(report: &Report, format: CheckFormat) {
    if !matches!(format, CheckFormat::Json | CheckFormat::Yaml) {
        return;
    }
    let missing = report.kinds_without_data();
    if !missing.is_empty() {
        tracing::warn!("nothing was found about {}", missing.join(", "));
    }
    if let Some(first) = report.problems.first() {
        tracing::warn!(
            n_problems = report.problems.len(),
            "some data was unreadable, so faults there may be missed; `inspect` lists it, e.g. {}: {}",
            first.path,
            first.found
        );
    }
}

/// The status that the worst finding calls for.
fn status(findings: &[Finding]) -> ExitStatus {
    match findings.iter().map(|finding| finding.severity).max() {
        Some(Severity::Critical) => ExitStatus::Critical,
        Some(Severity::Warning) => ExitStatus::Findings,
        Some(Severity::Info) | None => ExitStatus::Done,
    }
}

/// Returns the command line as typed, without passwords in addresses.
fn command_line() -> String {
    let words: Vec<String> =
        std::env::args_os().map(|word| redact_setting(&word.to_string_lossy())).collect();
    words.join(" ")
}
