//! The command line: names, types and help of every option, and nothing else.
//!
//! The first line of a doc comment is the short help, the paragraph after it is the long help with unit
//! and default. Options are listed in the order of their declaration. A test checks that the help fits 80 columns.

mod install;
mod live_config;
mod read;

use std::path::PathBuf;

pub use install::*;
pub use live_config::*;
pub use read::*;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::api::OnRefusal;
use crate::exit_status::ExitStatus;
use crate::http::signature::VimKey;

/// Reads what hardware a machine has, checks its health, reports to a VIM, and
/// runs coreos-installer on the right disk.
///
/// Without a command it runs `install` if a VIM or an Ignition config is
/// configured and standard input is not a terminal, as in the live image.
/// Otherwise it prints this help.
///
/// Every option can be set in four places, the weakest first: the configuration
/// file (`vim: …`), a kernel argument (`rci.vim=…`), the environment
/// (`RCI_VIM=…`) and the command line (`--vim …`). The strongest counts; of
/// `protect` all do. `--print-config` shows where each value came from.
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

/// Heading of the options that every command has; they come last.
const GENERAL: &str = "General options";

/// Options of every command.
#[derive(Debug, Args)]
pub struct Common {
    /// Configuration file [default: /etc/run-coreos-installer.yaml]
    ///
    /// YAML with one key per option, without the leading dashes:
    /// `allow-plain-http: true`. `_` is the same as `-`. A file that is named
    /// must exist; the default file need not.
    #[arg(long, global = true, help_heading = GENERAL, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print every option with its value and source, then exit
    #[arg(long, global = true, help_heading = GENERAL)]
    pub print_config: bool,
    /// How much to log to standard error
    #[arg(long, global = true, help_heading = GENERAL, value_enum, default_value_t = LogLevel::Info)]
    pub log_level: LogLevel,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Install what the VIM asks for, or --ignition; verify the disk
    ///
    /// Everything that can be checked is checked before the disk is written, and
    /// the disk is read back afterwards. --dry-run stops before the write.
    Install(Box<InstallOptions>),
    /// Give the installed system another Ignition config; write no image
    ///
    /// On the installed system itself, or in a live image. The config is checked
    /// as for an install and put in place so that the next boot applies it, then
    /// it is read back. What Ignition finds on the disk stays unless the config
    /// says otherwise.
    Reignite(ReigniteOptions),
    /// Print the hardware of this machine
    Inspect(InspectOptions),
    /// Print only what is wrong; exit status 1, or 7 if critical
    ///
    /// Each finding names the part, its place and what to do; `explain CODE` says
    /// more. Nothing is changed, unless --bring-links-up is given.
    Check(CheckOptions),
    /// Explain the code of a finding, or list all codes
    Explain(ExplainOptions),
    /// Show what differs between two reports; exit status like diff
    Diff(DiffOptions),
    /// Write what a machine must have, from a good machine's report
    Expect(ExpectOptions),
    /// Show which of several like machines departs from the others
    Cohort(CohortOptions),
    /// List the disks and show which one an install would choose
    Disks(DisksOptions),
    /// Blink the light of the chassis, a network port or a disk's bay
    Locate(LocateOptions),
    /// Post the report to a VIM or to Ironic; install nothing
    Report(ReportOptions),
    /// Save everything that is read, for replay with --root
    Capture(CaptureOptions),
    /// Print the JSON Schema of a document, or the VIM API
    Schema(SchemaOptions),
    /// Make the Ignition config or boot loader's configuration of a live image
    ///
    /// It is printed. It needs --vim, or --install without a VIM; the agent, such
    /// as --binary with --binary-url; and a way to look into the node, such as
    /// --ssh-key. Warnings name what would not work. docs/first-node.md has every
    /// way to boot, step by step.
    LiveConfig(Box<LiveConfigOptions>),
    /// Write network profiles from a cloud's metadata
    Network(NetworkOptions),
}

/// Which machine is read, and how.
#[derive(Debug, Clone, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct SourceOptions {
    /// Read a captured machine instead of this one
    ///
    /// A directory that contains sys/ or proc/, or a tar or tar.zst archive made
    /// by `capture`. Nothing is read from this machine then.
    #[arg(long, value_name = "DIR|FILE")]
    pub root: Option<PathBuf>,
    /// Collect only these sections, e.g. `cpu,block`
    ///
    /// Sections: cpu, memory, topology, block, network, `local_addresses`, pci, gpu,
    /// devices, chassis, baseboard, product, bios, firmware, bmc, smbios, os.
    #[arg(long, value_name = "SECTION", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Time limit for reading the hardware, in seconds
    ///
    /// What was not read by then is listed under problems.
    #[arg(long, value_name = "SECONDS", default_value_t = 45, value_parser = seconds::<1, 3600>)]
    pub budget: u64,
    /// Also read the state of every memory block: thousands of files
    #[arg(long)]
    pub memory_blocks: bool,
    /// Also read the Vital Product Data of PCI devices; some are slow
    #[arg(long)]
    pub vpd: bool,
    /// Seconds to listen for LLDP [default: 31 for report, 0 otherwise]
    ///
    /// Switches send about every 30 s. Listening runs in parallel with all other
    /// reads and ends once every port with a link has a neighbour. Needs root.
    #[arg(long, value_name = "SECONDS", value_parser = seconds::<0, 3600>)]
    pub lldp_wait: Option<u64>,
    /// Bring up ports that are down, and restore them afterwards
    ///
    /// A port that is down shows no link, speed or neighbour. This is the only
    /// option that changes the machine while it is read. Needs root.
    #[arg(long)]
    pub bring_links_up: bool,
    /// Whether parts of each disk are read as a test: an option of `check`.
    #[arg(skip)]
    pub disk_samples: bool,
}

/// How the VIM is reached.
#[derive(Debug, Clone, Default, Args)]
pub struct VimOptions {
    /// Address of the VIM, e.g. `https://vim.example` or `http://[fd02::1]:8080`
    ///
    /// The virtualised infrastructure manager: the server that receives reports
    /// and decides what each node installs.
    #[arg(long, value_name = "URL")]
    pub vim: Option<String>,
    /// Allow a VIM address, image or Ignition over plain HTTP
    ///
    /// Anyone who can alter packets on the way can then install anything on this
    /// machine. For closed networks only.
    #[arg(long)]
    pub allow_plain_http: bool,
    /// Public key (Ed25519) that must have signed what the VIM answers
    ///
    /// The base64 line that `openssl pkey -in KEY.pem -pubout` prints. Nothing else
    /// that arrives in the VIM's name is obeyed, also over plain HTTP; docs/wire.md
    /// describes the signature. Files that an instruction names need a digest.
    #[arg(long, value_name = "KEY", value_parser = VimKey::parse, allow_hyphen_values = true)]
    pub vim_key: Option<VimKey>,
    /// CA certificates (PEM) to trust in addition to the system's
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// File that contains the bearer token
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Client certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "client_key_file")]
    pub client_cert_file: Option<PathBuf>,
    /// Private key (PEM) of the client certificate
    #[arg(long, value_name = "FILE", requires = "client_cert_file")]
    pub client_key_file: Option<PathBuf>,
    /// Proxy for everything that is fetched or posted [default: as for curl]
    ///
    /// E.g. `http://user:password@proxy.example:3128`, for the VIM, images,
    /// their metadata and Ignition configs. Without it the variables
    /// `https_proxy`, `all_proxy` and `http_proxy` are used. In a live image
    /// (`live-config`) Ignition also uses it, once it has its config.
    #[arg(long, value_name = "URL")]
    pub proxy: Option<String>,
    /// Hosts, domains and addresses to reach without the proxy
    ///
    /// `*` for all. Without it the variable `no_proxy` is used.
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    pub no_proxy: Vec<String>,
    /// Seconds after which a job without an install ends [default: forever]
    ///
    /// They count from the start, over the report, every request for an
    /// instruction, and refused instructions. When they have passed, the agent
    /// asks once more.
    #[arg(long, value_name = "SECONDS", value_parser = seconds::<0, { u64::MAX }>)]
    pub give_up_after: Option<u64>,
}

/// Options of `install`.
#[derive(Debug, Clone, Args)]
pub struct InstallOptions {
    /// How the VIM is reached.
    #[command(flatten)]
    pub vim: VimOptions,
    /// Do everything up to the write, then stop; nothing is changed
    ///
    /// The VIM receives the report and is asked what to install, but gets no
    /// events and no result, which it could mistake for those of an install: what
    /// would happen is logged on this machine.
    ///
    /// On the command line the exit status is 0. From any other source it is 4
    /// (no disk was touched): the service of the live image reboots after 0, and
    /// would dry-run forever.
    #[arg(long)]
    pub dry_run: bool,
    /// Time limit for reading the hardware, in seconds
    ///
    /// What was not read by then is listed under problems.
    #[arg(long, value_name = "SECONDS", default_value_t = 45, value_parser = seconds::<1, 3600>)]
    pub budget: u64,
    /// Refuse to install on a machine that lacks what this file expects
    ///
    /// Made by `expect`; see docs/expectations.md. Deviations are findings of the
    /// report, and `block_on` decides which prevent an install. To check
    /// neighbours, set --lldp-wait too.
    #[arg(long, value_name = "FILE")]
    pub expect: Option<PathBuf>,
    /// Seconds to listen for LLDP before the report is posted
    ///
    /// For a VIM that needs the neighbours first; ends early once every port
    /// with a link has one. Without this option the report is posted at once,
    /// and the neighbours follow after 31 s. With 0 the agent does not listen.
    #[arg(long, value_name = "SECONDS", value_parser = seconds::<0, 3600>)]
    pub lldp_wait: Option<u64>,
    /// Bring up ports that are down, and restore them
    ///
    /// The report is posted before, and again once their links are up; with
    /// --lldp-wait it waits for them.
    #[arg(long, value_name = "true|false", default_value_t = true, num_args = 0..=1,
          require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set,
          value_parser = yes_or_no)]
    pub bring_links_up: bool,
    /// Seconds that an install waits for a disk that can be written
    ///
    /// The report does not wait: it is posted at once, and again once more disks
    /// have appeared.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = seconds::<0, 3600>)]
    pub wait_for_disk: u64,
    /// Disks that are never written, whatever is asked for
    ///
    /// Serial, WWN, path below /dev, or the name, label or UUID of what is on the
    /// disk: partition, file system, volume group, array. May be repeated. The disks of every source count:
    /// file, kernel argument, environment and command line.
    #[arg(long, value_name = "DISK", value_delimiter = ',')]
    pub protect: Vec<String>,
    /// What follows if an entry of --protect names no disk [default: warn]
    ///
    /// With `refuse` nothing is installed: a misspelt entry protects nothing. The
    /// lists of an instruction count too.
    #[arg(long, value_name = "ACTION", value_parser = ["warn", "refuse"])]
    pub protect_missing: Option<String>,
    /// Allow the VIM to ask for an image without a signature
    ///
    /// Otherwise `image.insecure` in an instruction is refused. Without a VIM:
    /// --image needs no signature.
    #[arg(long)]
    pub allow_insecure_image: bool,
    /// After a refused instruction: ask again, or stop in the emergency shell
    ///
    /// The instruction may say otherwise. Without a VIM a refusal ends the run.
    #[arg(long, value_enum, value_name = "ACTION", default_value_t = OnRefusal::Retry)]
    pub on_refusal: OnRefusal,
    /// The installer to run
    #[arg(long, value_name = "PROGRAM", default_value = "coreos-installer")]
    pub installer: PathBuf,
    /// Which findings prevent the install.
    #[command(flatten)]
    pub block: BlockOptions,
    /// What the console of a blocked node shows.
    #[command(flatten)]
    pub console: ConsoleOptions,
    /// The back end, and what Ironic needs.
    #[command(flatten)]
    pub ironic: IronicOptions,
    /// What assisted-service needs.
    #[command(flatten)]
    pub assisted: AssistedOptions,
    /// What to install without a VIM.
    #[command(flatten)]
    pub offline: OfflineOptions,
}

/// Options of `schema`.
#[derive(Debug, Clone, Args)]
pub struct SchemaOptions {
    /// The document to print
    #[arg(value_enum, default_value_t = Document::Report)]
    pub document: Document,
}

/// Form of a report on standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    Text,
    /// For programs
    Json,
    /// The same as JSON, easier to read
    Yaml,
}

/// When output is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set or TERM is dumb
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// How much is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    /// Only what made the run fail
    Error,
    /// Also what could not be read, and why
    Warn,
    /// Also one line per stage
    Info,
    /// Also every step
    Debug,
}

/// A document with a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Document {
    /// What `inspect --format json` prints and `report` posts
    Report,
    /// What the VIM responds
    Instruction,
    /// What is posted during the job
    Event,
    /// What is posted when the job ends
    Result,
    /// The whole VIM API v1, as OpenAPI 3.1
    Openapi,
}

/// Parses a number of seconds; the error says what is expected.
fn seconds<const LEAST: u64, const MOST: u64>(text: &str) -> Result<u64, String> {
    let number = text.parse().ok().filter(|number| (LEAST..=MOST).contains(number));
    number.ok_or_else(|| match MOST {
        u64::MAX => "expected a whole number of seconds".to_owned(),
        _ => format!("expected a whole number of seconds from {LEAST} to {MOST}"),
    })
}

/// Parses a flag that is on by default. It accepts the same words as every other flag.
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
    fn command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn help_pages_fit_80_columns() {
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
