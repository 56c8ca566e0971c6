//! The command line: names, types and help of every option, and nothing else.
//!
//! The first line of a doc comment is the short help, the paragraph behind it the long help with
//! unit and default. Options are listed in the order in which they are declared. Help fits 80
//! columns; a test holds it to that.

mod live_config;

use std::path::PathBuf;

pub use live_config::{LiveConfigOptions, LiveFormat};

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::exit_status::ExitStatus;

/// Finds out what hardware a machine has, says whether it is fit, reports to a
/// VIM, and has coreos-installer write the right disk.
///
/// Without a command it does the whole job if a VIM is configured and standard
/// input is no terminal, as in the live image; else it prints this help.
///
/// Every option can also be set, weakest first, by a key of the configuration
/// file (`vim: …`), a kernel argument (`rci.vim=…`), the environment
/// (`RCI_VIM=…`) and the command line (`--vim …`). `--print-config` shows where
/// each value came from.
#[derive(Debug, Parser)]
#[command(
    name = "run-coreos-installer",
    version,
    max_term_width = 80,
    help_expected = true,
    disable_help_subcommand = true,
    after_help = ExitStatus::help()
)]
pub struct Cli {
    /// Options of every command.
    #[command(flatten)]
    pub common: Common,
    /// What to do
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// Heading of the options of every command, which come last.
const GENERAL: &str = "General options";

/// Options of every command.
#[derive(Debug, Args)]
pub struct Common {
    /// Configuration file [default: /etc/run-coreos-installer.yaml]
    ///
    /// YAML, one key per option, named as the option without the dashes in
    /// front (`allow-plain-http: true`; `_` serves as well as `-`). Only the
    /// default file may be absent.
    #[arg(long, global = true, help_heading = GENERAL, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Show every option, its value and where it came from, then stop
    #[arg(long, global = true, help_heading = GENERAL)]
    pub print_config: bool,
    /// How much is logged to standard error
    #[arg(long, global = true, help_heading = GENERAL, value_enum, default_value_t = LogLevel::Info)]
    pub log_level: LogLevel,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Report, receive an Ignition config, install, prove: the whole job
    Install(InstallOptions),
    /// Print what hardware this machine has
    Inspect(InspectOptions),
    /// Print only what is wrong; ends with 1 if that calls for attention
    Check(CheckOptions),
    /// Explain the code of a finding, or list all codes
    Explain(ExplainOptions),
    /// Post the report to the VIM and stop; nothing is installed
    Report(ReportOptions),
    /// Save what was read, to replay it elsewhere with --root
    Capture(CaptureOptions),
    /// Print the JSON Schema of a document, or the VIM API
    Schema(SchemaOptions),
    /// Make the live image's Ignition, Butane, kernel arguments or iPXE script
    LiveConfig(Box<LiveConfigOptions>),
}

/// Which machine is read, and how.
#[derive(Debug, Clone, Args)]
pub struct SourceOptions {
    /// Read a captured machine instead of this one
    ///
    /// A directory that holds `sys`, `proc` and so on, or a tar.zst file as
    /// `capture` writes it. Nothing of this machine is read then.
    #[arg(long, value_name = "DIR|FILE")]
    pub root: Option<PathBuf>,
    /// Collect only these sections, e.g. `cpu,block`
    ///
    /// Sections: cpu, memory, topology, block, network, `local_addresses`, pci, gpu,
    /// devices, chassis, baseboard, product, bios, firmware, bmc, smbios, os.
    #[arg(long, value_name = "SECTION", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Seconds after which collection ends with what is known
    #[arg(long, value_name = "SECONDS", default_value_t = 45, value_parser = seconds::<1, 3600>)]
    pub budget: u64,
    /// Read the state of every memory block as well: thousands of files
    #[arg(long)]
    pub memory_blocks: bool,
    /// Read the Vital Product Data of PCI devices as well; some are slow
    #[arg(long)]
    pub vpd: bool,
    /// Seconds to listen for LLDP [default: 31 for report, else 0]
    ///
    /// Switches send about every 30 s. Listening runs beside everything else
    /// and ends when every port with a link has heard its switch. Needs root.
    #[arg(long, value_name = "SECONDS", value_parser = seconds::<0, 3600>)]
    pub lldp_wait: Option<u64>,
    /// Bring ports up that are down, and put them back afterwards
    ///
    /// A port that is down shows neither link nor speed nor neighbour. This is
    /// the only option with which reading changes the machine. Needs root.
    #[arg(long)]
    pub bring_links_up: bool,
}

/// Options of `inspect`.
#[derive(Debug, Clone, Args)]
pub struct InspectOptions {
    /// Which machine is read.
    #[command(flatten)]
    pub source: SourceOptions,
    /// Form of the report
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// When the text is coloured
    #[arg(long, value_enum, default_value_t = Color::Auto)]
    pub color: Color,
}

/// Options of `check`.
#[derive(Debug, Clone, Args)]
pub struct CheckOptions {
    /// Which machine is read.
    #[command(flatten)]
    pub source: SourceOptions,
    /// Form of the findings
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// When the text is coloured
    #[arg(long, value_enum, default_value_t = Color::Auto)]
    pub color: Color,
}

/// Options of `explain`.
#[derive(Debug, Clone, Args)]
pub struct ExplainOptions {
    /// Code of the finding, e.g. `memory.ecc.uncorrectable`
    #[arg(value_name = "CODE")]
    pub code: Option<String>,
    /// Form of the explanation
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// How the VIM is reached.
#[derive(Debug, Clone, Args)]
pub struct VimOptions {
    /// Address of the VIM, e.g. `https://vim.example` or `http://[fd02::1]:8080`
    #[arg(long, value_name = "URL")]
    pub vim: Option<String>,
    /// Allow a VIM address, image or Ignition over plain HTTP
    ///
    /// Whoever can change packets on the way can then install what they like
    /// on this machine. Meant for closed networks.
    #[arg(long)]
    pub allow_plain_http: bool,
    /// Certificates (PEM) to trust beside the system's
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// File with the bearer token to send
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Client certificate (PEM) to present
    #[arg(long, value_name = "FILE", requires = "client_key_file")]
    pub client_cert_file: Option<PathBuf>,
    /// Key (PEM) of the client certificate
    #[arg(long, value_name = "FILE", requires = "client_cert_file")]
    pub client_key_file: Option<PathBuf>,
    /// Seconds to go on trying while the VIM does not answer [default: no end]
    #[arg(long, value_name = "SECONDS", value_parser = seconds::<0, { u64::MAX }>)]
    pub give_up_after: Option<u64>,
}

/// Options of `report`.
#[derive(Debug, Clone, Args)]
pub struct ReportOptions {
    /// How the VIM is reached.
    #[command(flatten)]
    pub vim: VimOptions,
    /// Which machine is read.
    #[command(flatten)]
    pub source: SourceOptions,
}

/// Options of `install`.
#[derive(Debug, Clone, Args)]
pub struct InstallOptions {
    /// How the VIM is reached.
    #[command(flatten)]
    pub vim: VimOptions,
    /// Do everything up to the write, then stop; nothing is changed
    ///
    /// Given on the command line it ends with status 0. From any other source it
    /// ends with 4 (not installed, disk untouched): that is how the live image's
    /// service would get it, which reboots after 0, and would begin again.
    #[arg(long)]
    pub dry_run: bool,
    /// Seconds after which collection ends with what is known
    #[arg(long, value_name = "SECONDS", default_value_t = 45, value_parser = seconds::<1, 3600>)]
    pub budget: u64,
    /// Seconds to listen for LLDP, beside everything else
    ///
    /// Ends when every port with a link has heard its switch.
    #[arg(long, value_name = "SECONDS", default_value_t = 31, value_parser = seconds::<0, 3600>)]
    pub lldp_wait: u64,
    /// Bring ports up that are down while collecting, and put them back
    #[arg(long, value_name = "true|false", default_value_t = true, num_args = 0..=1,
          require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set,
          value_parser = yes_or_no)]
    pub bring_links_up: bool,
    /// Seconds to wait for a disk that could be installed on to appear
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = seconds::<0, 3600>)]
    pub wait_for_disk: u64,
    /// The installer to run
    #[arg(long, value_name = "PROGRAM", default_value = "coreos-installer")]
    pub installer: PathBuf,
}

/// Options of `capture`.
#[derive(Debug, Clone, Args)]
pub struct CaptureOptions {
    /// File to write, a tar.zst archive
    ///
    /// It holds every file, link and answer of the kernel that was read, which
    /// reads failed and how, and the report that was made of them, report.json.
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,
    /// Replace what names this machine, its disks, its network and its owner
    ///
    /// Replaced, everywhere the same and by something of the same form: serial
    /// numbers, asset tags, UUIDs, MACs, WWNs and GUIDs (the maker's part
    /// stays), IP addresses (by reserved ones and those for documentation),
    /// names of hosts, domains, LVM volumes and iSCSI targets, texts of LLDP
    /// neighbours, and in the kernel's command line passwords, tokens, users
    /// and queries of URLs. The replacements are drawn with a random key that
    /// is forgotten. What stays: makers, models, versions, sizes, slots,
    /// labels of partitions and file systems, paths of URLs, values of fewer
    /// than four characters, and fields that only their maker understands.
    #[arg(long)]
    pub anonymize: bool,
    /// Which machine is read.
    #[command(flatten)]
    pub source: SourceOptions,
}

/// Options of `schema`.
#[derive(Debug, Clone, Args)]
pub struct SchemaOptions {
    /// The document
    #[arg(value_enum, default_value_t = Document::Report)]
    pub document: Document,
}

/// Form of a report on standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    Text,
    /// For programs; the form that is posted
    Json,
    /// The same content as JSON
    Yaml,
}

/// When output is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// How much is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    /// Only what ended the run
    Error,
    /// Also what was not read, and why
    Warn,
    /// Also a line per stage
    Info,
    /// Also every step
    Debug,
}

/// A document with a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Document {
    /// What `inspect --format json` prints and `report` posts
    Report,
    /// What the VIM answers
    Instruction,
    /// What is posted during the job
    Event,
    /// What is posted at its end
    Result,
    /// The whole VIM API v1, as OpenAPI 3.1
    Openapi,
}

/// A number of seconds, refused with what is expected.
fn seconds<const LEAST: u64, const MOST: u64>(text: &str) -> Result<u64, String> {
    let number = text.parse().ok().filter(|number| (LEAST..=MOST).contains(number));
    number.ok_or_else(|| match MOST {
        u64::MAX => "expected a whole number of seconds".to_owned(),
        _ => format!("expected a whole number of seconds from {LEAST} to {MOST}"),
    })
}

/// A flag that is on unless it is switched off; its words are those of every other flag.
fn yes_or_no(text: &str) -> Result<bool, &'static str> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Ok(true),
        "0" | "false" | "no" | "off" => Ok(false),
        _ => Err("expected true or false"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_help_page_fits_80_columns() {
        let mut command = Cli::command();
        command.build();
        let mut pages = vec![command.clone()];
        pages.extend(command.get_subcommands().cloned());
        for mut page in pages {
            for text in [page.render_help().to_string(), page.render_long_help().to_string()] {
                for line in text.lines() {
                    assert!(line.chars().count() <= 80, "{line}");
                }
            }
        }
    }
}
