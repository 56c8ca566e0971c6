//! Groups of options of `install`: the findings that prevent it, the back ends of Ironic and assisted-service, and what an
//! instruction would say if there were a VIM. Also the options of `report` and `network`; `InstallOptions` is in `cli.rs`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{SourceOptions, VimOptions};

/// Which findings prevent an install.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Faulty hardware")]
pub struct BlockOptions {
    /// Least severity of findings that prevents the install [default: critical]
    ///
    /// A blocked node posts the result, names the part on its console, reads the
    /// hardware again every minute, and goes on once the fault is gone or the VIM
    /// allows it. The `block_on` of an instruction replaces this severity.
    #[arg(long, value_name = "SEVERITY", value_parser = ["critical", "warning", "never"])]
    pub block_on: Option<String>,
    /// Findings that prevent it too, as `CODE` or `CODE@PART`
    ///
    /// `*` stands for any characters: `memory.ecc.*`, `disk.health.worn@sda`.
    /// `explain` lists the codes. The list of an instruction is added to this one.
    #[arg(long, value_name = "FINDING", value_delimiter = ',')]
    pub block_also: Vec<String>,
    /// Findings that never prevent it, in the same form
    #[arg(long, value_name = "FINDING", value_delimiter = ',')]
    pub block_except: Vec<String>,
}

/// What the console of a blocked node shows.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Faulty hardware")]
pub struct ConsoleOptions {
    /// Show a QR code on the console of a blocked or failed node
    ///
    /// A phone without a network reads it as plain text: which machine it is, why
    /// nothing was installed, and the worst faults. A blocked node shows it again
    /// every minute.
    #[arg(long)]
    pub console_qr: bool,
}

/// Who orders installs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Backend {
    /// A VIM with VIM API v1
    #[default]
    Vim,
    /// Ironic, which only inspects this machine
    Ironic,
    /// Ironic, as the node's agent: inspects, cleans, installs
    IronicAgent,
    /// ironic-inspector, which only inspects this machine
    Inspector,
    /// assisted-service, as the agent of a host
    Assisted,
}

/// Who gets a report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Recipient {
    /// A VIM with VIM API v1
    #[default]
    Vim,
    /// Ironic, as inspection data
    Ironic,
    /// ironic-inspector, as the data of its ramdisk
    Inspector,
}

/// Options of `install` with a back end for Ironic.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Ironic")]
pub struct IronicOptions {
    /// Who orders the install; for Ironic --vim is the address of its API
    ///
    /// With `ironic-agent` this program takes the place of ironic-python-agent:
    /// the steps `install_coreos` and `erase_devices_metadata`. --token-file then
    /// holds the agent token, if the image brings one. Several addresses of
    /// the API are separated by commas. The kernel arguments `ipa-api-url`,
    /// `ipa-inspection-callback-url`, `ipa-insecure` (plain HTTP only),
    /// `ipa-listen-port` and `ipa-agent-token` are defaults.
    #[arg(long, value_enum, value_name = "BACKEND", default_value_t = Backend::Vim)]
    pub backend: Backend,
    /// Address for Ironic's commands [default: this machine's, port 9999]
    ///
    /// `https://HOST:PORT`, where Ironic reaches this agent, e.g. through a port
    /// forwarding. The default is the address from which Ironic is reached.
    #[arg(long, value_name = "URL")]
    pub callback_url: Option<String>,
    /// Port on which commands are expected
    #[arg(long, value_name = "PORT", default_value_t = crate::engines::ironic::PORT)]
    pub agent_port: u16,
    /// Disk that cleaning erases, by path or hints such as `serial=S1`
    ///
    /// Several are separated by commas. The disk of the node's root device hints
    /// is erased, too. Without either, the only disk is erased if it is blank or
    /// contains an earlier CoreOS; otherwise cleaning fails, with the line to set.
    #[arg(long, value_name = "DISK", value_delimiter = ',')]
    pub clean_disk: Vec<String>,
}

/// Options of `report`.
#[derive(Debug, Clone, Args)]
pub struct ReportOptions {
    /// Who gets the report
    #[arg(long, value_enum, value_name = "RECIPIENT", default_value_t = Recipient::Vim)]
    pub to: Recipient,
    /// Address of the recipient, instead of --vim
    #[arg(value_name = "URL")]
    pub url: Option<String>,
    /// How the VIM is reached.
    #[command(flatten)]
    pub vim: VimOptions,
    /// Which machine is read.
    #[command(flatten)]
    pub source: SourceOptions,
}

/// Options for assisted-service.
#[derive(Debug, Clone, Args)]
pub struct AssistedOptions {
    /// Id of the infra-env of assisted-service, with --backend assisted
    ///
    /// --vim is then the address of the service, and --token-file contains the
    /// token of the infra-env.
    #[arg(long, value_name = "UUID")]
    pub infra_env_id: Option<String>,
}

/// The action after an install without a VIM. No action follows a failure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum After {
    /// Exit with status 0, after which the unit of the live image reboots
    #[default]
    Reboot,
    /// Power the machine off
    Poweroff,
    /// Exit with status 7, after which nothing reboots
    Stay,
}

/// What to install without a VIM, and where.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Install without a VIM")]
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
    /// Leave unread the configs that this one names by their addresses
    ///
    /// Otherwise each is fetched and checked; one that cannot be reached yet is a
    /// warning.
    #[arg(long)]
    pub skip_pointers: bool,
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
    /// Which data on the disk may be overwritten, and what else is allowed.
    #[command(flatten)]
    pub data: DataOptions,
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
    /// How much of the written disk is compared with the image [default: full]
    #[arg(long, value_name = "EXTENT", value_parser = ["sample", "full"])]
    pub verify: Option<String>,
    /// What happens to the table of a disk that fails the proof [default: erase]
    #[arg(long, value_name = "ACTION", value_parser = ["erase", "keep"])]
    pub on_unproved: Option<String>,
    /// Where the disk is in the boot order of UEFI firmware [default: disk]
    ///
    /// disk: first, and the next boot is from it. network: after the entries of the
    /// network. keep: the order stays, and a new entry is the last.
    #[arg(long, value_name = "PLACE", value_parser = ["disk", "network", "keep"])]
    pub boot_order: Option<String>,
    /// What follows if a disk carries the system of the same configuration [default: boot]
    ///
    /// boot: it is the next to boot, and nothing is written. install: it is installed
    /// again. ask: the agent ends with a failure.
    #[arg(long, value_name = "ACTION", value_parser = ["boot", "install", "ask"])]
    pub again: Option<String>,
    /// Install even if a disk carries the system of the same configuration
    #[arg(long)]
    pub reinstall: bool,
    /// What happens after the install; after a failure nothing does
    #[arg(long, value_enum, value_name = "ACTION", default_value_t = After::Reboot)]
    pub after: After,
    /// File for the result, in the form that a VIM receives
    #[arg(long, value_name = "FILE", default_value = "/run/run-coreos-installer/result.json")]
    pub result: PathBuf,
}

/// Options of `reignite`.
#[derive(Debug, Clone, Args)]
pub struct ReigniteOptions {
    /// The Ignition config
    #[arg(long, value_name = "FILE|URL")]
    pub ignition: String,
    /// Digest of that config, `sha256-…` or `sha512-…`
    #[arg(long, value_name = "DIGEST")]
    pub ignition_hash: Option<String>,
    /// Leave unread the configs that this one names by their addresses
    #[arg(long)]
    pub skip_pointers: bool,
    /// Disk with the system [default: the only one with a CoreOS]
    #[arg(long, value_name = "DEVICE", conflicts_with = "hints")]
    pub disk: Option<String>,
    /// What the disk must be, e.g. `serial=S1,tran=sas`, or JSON
    #[arg(long, value_name = "JSON|KEY=VALUE", num_args = 1..)]
    pub hints: Vec<String>,
    /// Kernel arguments to add to the installed system
    #[arg(long, value_name = "ARGUMENTS", allow_hyphen_values = true)]
    pub append_karg: Vec<String>,
    /// Kernel arguments to remove from the installed system
    #[arg(long, value_name = "ARGUMENTS", allow_hyphen_values = true)]
    pub delete_karg: Vec<String>,
    /// Kernel arguments for the next boot only
    #[arg(long, value_name = "ARGUMENTS", allow_hyphen_values = true)]
    pub firstboot_args: Option<String>,
    /// Ignition platform [default: that of the installed system]
    #[arg(long, value_name = "ID")]
    pub platform: Option<String>,
    /// Disks that are never written, as for `install`
    #[arg(long, value_name = "DISK", value_delimiter = ',')]
    pub protect: Vec<String>,
    /// Allow an Ignition config over plain HTTP
    #[arg(long)]
    pub allow_plain_http: bool,
    /// CA certificates (PEM) to trust in addition to the system's
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// Do everything up to the write, then stop; nothing is changed
    #[arg(long)]
    pub dry_run: bool,
}

/// What may be overwritten.
#[derive(Debug, Clone, Default, Args)]
pub struct DataOptions {
    /// Which data on the disk may be overwritten
    ///
    /// Default: wipe if --disk or --hints identify the disk by serial, WWN, by-id
    /// or by-path, otherwise coreos.
    #[arg(long, value_name = "POLICY", value_parser = ["refuse", "coreos", "wipe"])]
    pub existing_data: Option<String>,
    /// What is allowed on a disk that is identified and may be wiped
    ///
    /// Needs --disk or --hints that identify the disk. docs/wire.md explains the
    /// words.
    #[arg(
        long = "override",
        value_name = "WORD",
        value_delimiter = ',',
        value_parser = [
            "removable", "damaged_table", "many_partitions", "leftover_live_medium",
            "unreadable_end", "same_serial", "boot_label_elsewhere", "disarm_boot_label",
        ]
    )]
    pub overrides: Vec<String>,
}

/// Where the metadata is, and where the profiles go.
#[derive(Debug, Clone, Args)]
pub struct NetworkOptions {
    /// Address of Packet's (Equinix Metal's) metadata
    ///
    /// E.g. `https://metadata.platformequinix.com/metadata`. It is tried for five
    /// minutes.
    #[arg(long, value_name = "URL")]
    pub metadata: String,
    /// Allow plain HTTP
    #[arg(long)]
    pub allow_plain_http: bool,
    /// Directory for the profiles; the network that is up does not change
    #[arg(long, value_name = "DIR", default_value = "/etc/NetworkManager/system-connections")]
    pub output: PathBuf,
}
