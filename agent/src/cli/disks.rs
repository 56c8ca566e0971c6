//! Options of `disks`, which shows the choice of a disk without an install.

use std::path::PathBuf;

use clap::Args;

use super::Format;

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
    #[arg(long, value_name = "FILE")]
    pub instruction: Option<PathBuf>,
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
