//! Options of `install` without a VIM. They say what a VIM's instruction says otherwise.

use std::path::PathBuf;

use clap::Args;

/// The action after an install without a VIM. No action follows a failure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum After {
    /// Exit with status 0, after which the unit of the live image reboots
    #[default]
    Reboot,
    /// Power the machine off
    Poweroff,
    /// Exit with status 7, after which nothing reboots
    Stay,
}

/// Heading of these options.
const OFFLINE: &str = "Install without a VIM";

/// What to install without a VIM, and where.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = OFFLINE)]
pub struct OfflineOptions {
    /// Ignition config of the installed system; installs without a VIM
    ///
    /// Every check, the choice of the disk and the proof are the same as with a
    /// VIM. A refused install ends with its exit status: nobody could correct it.
    #[arg(long, value_name = "FILE|URL")]
    pub ignition: Option<String>,
    /// Digest of that config, `sha256-…` or `sha512-…`
    #[arg(long, value_name = "DIGEST")]
    pub ignition_hash: Option<String>,
    /// Disk to write, preferably by its path below /dev/disk/by-id
    ///
    /// Without --disk and --hints: the only disk, if it is blank or contains an
    /// earlier CoreOS.
    #[arg(long, value_name = "DEVICE", conflicts_with = "hints")]
    pub disk: Option<String>,
    /// What the disk must be, e.g. `serial=S1,tran=sas`, or JSON
    ///
    /// The root device hints of Ironic or Metal3; all must match. `disks --hints`
    /// shows what they lead to.
    #[arg(long, value_name = "JSON|KEY=VALUE", num_args = 1..)]
    pub hints: Vec<String>,
    /// Image to write [default: the live image's own]
    ///
    /// An address that ends in .json is that of stream metadata, which name the
    /// image for this machine and its digest.
    #[arg(long, value_name = "FILE|URL")]
    pub image: Option<String>,
    /// Digest of that image as downloaded, `sha256-…` or `sha512-…`
    #[arg(long, value_name = "DIGEST", requires = "image")]
    pub image_hash: Option<String>,
    /// Which data on the disk may be overwritten
    ///
    /// Default: wipe if --disk or --hints identify the disk by serial, WWN, by-id
    /// or by-path, otherwise coreos.
    #[arg(long, value_name = "POLICY", value_parser = ["refuse", "coreos", "wipe"])]
    pub existing_data: Option<String>,
    /// Partitions to keep, by label (shell pattern)
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    pub save_partlabel: Vec<String>,
    /// Partitions to keep, by number or range: `5`, `5-7`, `5-`, `-7`
    #[arg(long, value_name = "RANGE", value_delimiter = ',', allow_hyphen_values = true)]
    pub save_partindex: Vec<String>,
    /// Kernel arguments to add to the installed system
    #[arg(long, value_name = "ARGUMENTS")]
    pub append_karg: Vec<String>,
    /// Kernel arguments to remove from the installed system
    #[arg(long, value_name = "ARGUMENTS")]
    pub delete_karg: Vec<String>,
    /// Kernel arguments of the first boot only, e.g. `rd.neednet=1 ip=dhcp`
    #[arg(long, value_name = "ARGUMENTS")]
    pub firstboot_args: Option<String>,
    /// Ignition platform of the installed system [default: the image's own]
    #[arg(long, value_name = "ID")]
    pub platform: Option<String>,
    /// Console of the installed system, e.g. `ttyS0,115200n8`
    #[arg(long, value_name = "CONSOLE")]
    pub console: Vec<String>,
    /// Copy the live system's network profiles to the installed system
    #[arg(long)]
    pub copy_network: bool,
    /// How much of the written disk is compared with the image [default: sample]
    #[arg(long, value_name = "EXTENT", value_parser = ["sample", "full"])]
    pub verify: Option<String>,
    /// What happens to the table of a disk that fails the proof [default: erase]
    #[arg(long, value_name = "ACTION", value_parser = ["erase", "keep"])]
    pub on_unproved: Option<String>,
    /// What happens after the install; after a failure nothing does
    #[arg(long, value_enum, value_name = "ACTION", default_value_t = After::Reboot)]
    pub after: After,
    /// File for the result, in the form that a VIM receives
    #[arg(long, value_name = "FILE", default_value = "/run/run-coreos-installer/result.json")]
    pub result: PathBuf,
}
