//! Options of the commands that install and post nothing: `inspect`, `check` and `explain`; `diff`, `expect` and `cohort`;
//! `disks`, which shows the choice of a disk; `locate`; `capture`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{BlockOptions, Color, DataOptions, Format, SourceOptions, seconds, yes_or_no};

/// Options of `inspect`.
#[derive(Debug, Clone, Args)]
pub struct InspectOptions {
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
    ///
    /// The forms of other programs contain what they have a place for, in their
    /// units; see docs/exports.md. They need all sections, so not --only.
    #[arg(long, value_enum, default_value_t = InspectFormat::Text)]
    pub format: InspectFormat,
    /// What to make of the format metal3
    #[arg(long = "as", value_enum, value_name = "FORM", default_value_t = Form::Resource)]
    pub form: Form,
    /// When to colour the text
    #[arg(long, value_enum, default_value_t = Color::Auto)]
    pub color: Color,
}

/// Form of the whole report on standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum InspectFormat {
    /// For people
    Text,
    /// For programs
    Json,
    /// The same as JSON, easier to read
    Yaml,
    /// Inspection data for Ironic, as JSON
    Ironic,
    /// `HardwareData` for Metal3, as JSON
    Metal3,
    /// Host inventory of assisted-service, as JSON
    Assisted,
}

/// What is made of the details that Metal3 reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// A resource, for `kubectl apply`; give it the name of the `BareMetalHost`
    Resource,
    /// One line for the annotation `inspect.metal3.io/hardwaredetails`
    Annotation,
}

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

/// Options of `diff`.
#[derive(Debug, Clone, Args)]
pub struct DiffOptions {
    /// The first machine: a report, a capture, a directory, or `-`
    ///
    /// A report is what `inspect --format json` prints; `-` reads one from
    /// standard input. A capture or a directory is read again, as with --root.
    #[arg(value_name = "A")]
    pub a: PathBuf,
    /// The second machine [default: this machine]
    #[arg(value_name = "B")]
    pub b: Option<PathBuf>,
    /// Also compare what varies between two reads of one machine
    ///
    /// Error counters, wear of disks, and speeds of PCI links, which power saving
    /// changes. Never compared: times, temperatures, the section `live`, USB
    /// devices, partitions, addresses and the operating system. LLDP neighbours
    /// are compared where both reports have them.
    #[arg(long)]
    pub counters: bool,
    /// Compare two machines that ought to be alike
    ///
    /// Parts are matched by their place alone, so another serial number, MAC or
    /// neighbour is no difference.
    #[arg(long)]
    pub ignore_serials: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t = DiffFormat::Text)]
    pub format: DiffFormat,
}

/// Options of `expect`.
#[derive(Debug, Clone, Args)]
pub struct ExpectOptions {
    /// The good machine: a report, a capture, a directory, or `-` [default:
    /// this machine]
    #[arg(value_name = "REPORT")]
    pub report: Option<PathBuf>,
    /// Read a captured machine instead, as for `inspect`
    #[arg(long, value_name = "DIR|FILE", conflicts_with = "report")]
    pub root: Option<PathBuf>,
}

/// Options of `cohort`.
#[derive(Debug, Clone, Args)]
pub struct CohortOptions {
    /// Reports, captures or directories, at least 3 of a model
    ///
    /// Machines of one maker and model are compared: what most of them have is
    /// the norm. Serial numbers, MACs and neighbours are not compared. Of several
    /// reports of one machine only the first counts.
    #[arg(value_name = "REPORT", required = true)]
    pub reports: Vec<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value_t = DiffFormat::Text)]
    pub format: DiffFormat,
}

/// Form of a comparison on standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DiffFormat {
    /// For people
    Text,
    /// For programs
    Json,
}

/// Options of `disks`.
#[derive(Debug, Clone, Args)]
pub struct DisksOptions {
    /// Choose this disk, as `install --disk` does
    #[arg(long, value_name = "DEVICE", conflicts_with_all = ["hints", "instruction"])]
    pub disk: Option<String>,
    /// Choose by these root device hints, e.g. `serial=S1` or JSON
    ///
    /// Keys and operators of Ironic, or those of Metal3, as in an instruction:
    /// `--hints model="<in> SSD" "size=>= 200"`, or
    /// `--hints '{"minSizeGigabytes": 200}'`. All must match.
    #[arg(long, value_name = "JSON|KEY=VALUE", num_args = 1.., conflicts_with = "instruction")]
    pub hints: Vec<String>,
    /// Choose as this instruction asks, a JSON file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["existing_data", "overrides"])]
    pub instruction: Option<PathBuf>,
    /// What may be overwritten, as for `install`.
    #[command(flatten)]
    pub data: DataOptions,
    /// Which findings prevent the install, as for `install`.
    #[command(flatten)]
    pub block: BlockOptions,
    /// Disks that are never written, as for `install`
    #[arg(long, value_name = "DISK", value_delimiter = ',')]
    pub protect: Vec<String>,
    /// Read a captured machine instead of this one
    ///
    /// A directory that contains sys/ or proc/, or a tar or tar.zst archive made
    /// by `capture`. Nothing is read from this machine then.
    #[arg(long, value_name = "DIR|FILE")]
    pub root: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// Which light blinks, and how long.
#[derive(Debug, Clone, Args)]
pub struct LocateOptions {
    /// `chassis`, a network port such as eno1, or a disk
    ///
    /// A disk is named by its device, serial number or WWN. Its light is that of
    /// a slot in an enclosure, or of a PCI Express port (NPEM); that of the
    /// chassis needs a BMC. All of them need root. Nothing on a disk is changed.
    #[arg(value_name = "PART")]
    pub part: String,
    /// How long the light blinks, in seconds; Ctrl-C ends it earlier
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = seconds::<1, 3600>)]
    pub seconds: u64,
}

/// Options of `capture`.
#[derive(Debug, Clone, Args)]
pub struct CaptureOptions {
    /// File to write, a tar.zst archive
    ///
    /// It contains every file, link and kernel reply that was read, which reads
    /// failed and why, and the resulting report as report.json.
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,
    /// Replace what identifies this machine, its disks, its network, its owner
    ///
    /// Each value is replaced by one of the same form, the same everywhere:
    /// serial numbers, asset tags, UUIDs, MACs, WWNs and GUIDs (the vendor part
    /// stays), IP addresses (by reserved and documentation addresses), names of
    /// hosts, domains, LVM volumes and iSCSI targets, texts of LLDP neighbours,
    /// and in the kernel command line passwords, tokens, and users and queries
    /// of URLs. The random key of the replacement is discarded. Kept: vendors,
    /// models, versions, sizes, slots, labels of partitions and file systems,
    /// paths of URLs, values of fewer than four characters, and vendor-specific
    /// fields.
    #[arg(long)]
    pub anonymize: bool,
    /// Which machine is read.
    #[command(flatten)]
    pub source: SourceOptions,
}
