//! Options of `capture`.

use std::path::PathBuf;

use clap::Args;

use super::SourceOptions;

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
