//! Options of the commands that compare reports.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

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
