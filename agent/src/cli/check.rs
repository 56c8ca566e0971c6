//! The options of `check` and `explain`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{Color, Format, SourceOptions, seconds};

/// Options of `check`.
#[derive(Debug, Clone, Args)]
pub struct CheckOptions {
    /// Which machine is read.
    #[command(flatten)]
    pub source: SourceOptions,
    /// Also check that the machine has what this file expects
    ///
    /// Made by `expect`; see docs/expectations.md. Each deviation is a finding. To
    /// check neighbours, set --lldp-wait too.
    #[arg(long, value_name = "FILE")]
    pub expect: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value_t = CheckFormat::Text)]
    pub format: CheckFormat,
    /// File to write instead of standard output
    ///
    /// It is replaced as a whole: another program that reads it never finds a
    /// part of it. Anyone may read it.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Read twice, this many seconds apart, and mark what changed
    ///
    /// Most error counters count since the boot. The evidence of a finding that
    /// is new, or whose figures have changed since the first reading, says so:
    /// that fault goes on. Links whose errors rise, and processors that heat slows
    /// down meanwhile, are findings of their own. A signal ends the wait.
    #[arg(long, value_name = "SECONDS", conflicts_with = "root", value_parser = seconds::<1, 86_400>)]
    pub sample: Option<u64>,
    /// Compute on every CPU and test free memory for this many seconds
    ///
    /// A CPU that computes a wrong result is named, and so is memory that is read
    /// back differently. Half of the available memory is used at most. Each CPU
    /// is fully busy; what runs on the machine becomes slow. The machine is read
    /// before and under load, and what changed is marked, as with --sample. A
    /// short test finds a part that fails often: finding nothing proves nothing.
    #[arg(long, value_name = "SECONDS", conflicts_with_all = ["root", "sample"], value_parser = seconds::<1, 86_400>)]
    pub load: Option<u64>,
    /// Read 64 KiB at the start, in the middle and at the end of each disk
    ///
    /// A part that cannot be read is named with its sectors. Nothing is written.
    #[arg(long, value_name = "true|false", default_value_t = true, num_args = 0..=1,
          require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set,
          value_parser = yes_or_no)]
    pub read_disks: bool,
    /// Also show a QR code: which machine it is, and its worst faults
    ///
    /// A phone without a network reads it as plain text. It is as large as the
    /// text needs and the terminal allows; faults that do not fit are counted.
    /// Without colours it suits a dark background; for a light one, add
    /// `--color always`.
    #[arg(long, conflicts_with = "output")]
    pub qr: bool,
    /// When to colour the text
    #[arg(long, value_enum, default_value_t = Color::Auto)]
    pub color: Color,
}

/// Options of `explain`.
#[derive(Debug, Clone, Args)]
pub struct ExplainOptions {
    /// Code of the finding, e.g. `memory.ecc.uncorrectable`
    #[arg(value_name = "CODE")]
    pub code: Option<String>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// Form of the findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CheckFormat {
    /// For people
    Text,
    /// For programs
    Json,
    /// The same as JSON, easier to read
    Yaml,
    /// OCP Test & Validation, JSON lines: a step for each kind of part
    Ocptv,
    /// Metrics for the textfile collector of Prometheus's `node_exporter`
    Prometheus,
}

/// Parses a flag that is on by default. It accepts the same words as every other flag.
pub(super) fn yes_or_no(text: &str) -> Result<bool, &'static str> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Ok(true),
        "0" | "false" | "no" | "off" => Ok(false),
        _ => Err("expected true or false"),
    }
}
