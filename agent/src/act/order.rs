//! An order: the image to write, the disk to write it to, and the checks. Each engine makes one from its own wire format.

use std::fmt;

use probes::block::Disk;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::confirm::Confirm;
use super::outcome::DiskIdentity;
use super::trace::{Request, is_one};

/// An install as ordered: the image, the disk, and the checks.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Order {
    /// The Ignition config that the installed system applies at its first boot.
    pub ignition: IgnitionSource,
    /// The operating system image; absent for the one in the live image.
    pub image: Option<ImageSource>,
    /// The disk to write; absent for the only one, which then must be blank or contain an earlier `CoreOS`.
    pub disk: Option<DiskChoice>,
    /// The expected properties of the chosen disk; otherwise nothing is installed.
    pub expect: Option<Expect>,
    /// Kernel arguments to add to the installed system.
    pub append_kargs: Vec<String>,
    /// Kernel arguments to remove from the installed system.
    pub delete_kargs: Vec<String>,
    /// Ignition platform id of the installed system, e.g. `metal`; absent for the image's own.
    pub platform: Option<String>,
    /// Consoles of the installed system, e.g. `ttyS0,115200n8`.
    pub console: Vec<String>,
    /// True to copy the live system's network profiles to the installed system.
    pub copy_network: bool,
    /// Kernel arguments for the first boot only; absent for the writer's choice.
    pub firstboot_args: Option<String>,
    /// Partitions to keep, by label (shell pattern).
    pub save_partlabel: Vec<String>,
    /// Partitions to keep, by number or range: `5`, `5-7`, `5-`, `-7`.
    pub save_partindex: Vec<String>,
    /// The least severity of findings that prevents the install; absent for the node's configuration, which says `critical` unless it is changed.
    pub block_on: Option<BlockOn>,
    /// Findings that prevent the install too, whatever their severity: `CODE` or `CODE@PART`, with `*` for any characters,
    /// e.g. `memory.ecc.*` or `disk.health.worn@sda`.
    pub block_also: Vec<String>,
    /// Findings that never prevent the install, in the same form.
    pub block_except: Vec<String>,
    /// The policy if the chosen disk contains data; absent for `wipe` if the order identifies the disk by serial, WWN,
    /// `/dev/disk/by-id/…` or `/dev/disk/by-path/…`, otherwise for `coreos`.
    pub existing_data: Option<ExistingDataPolicy>,
    /// What is allowed on a disk that the order identifies and whose existing data may all be overwritten.
    pub overrides: Vec<Override>,
    /// Disks that are never written, by serial, WWN, any path below `/dev`, or the name, label or UUID of a partition, file
    /// system, volume group, mapping or array on them.
    pub protect: Vec<String>,
    /// What follows if an entry of `protect` names no disk; absent for a warning, unless the node's configuration refuses.
    pub protect_missing: Option<ProtectMissing>,
    /// Kernel names of all disks whose content is given up together, as cleaning does.
    pub given_up: Vec<String>,
    /// The amount of the written disk that is read back.
    pub verify: Verify,
    /// Consequence for a disk that fails its verification.
    pub on_unproved: OnUnproved,
    /// The place of the disk in the firmware's boot order.
    pub boot_order: BootOrder,
    /// The request that ordered it, by which it is known again; `None` if it is carried out each time.
    pub request: Option<Request>,
    /// What follows if a disk carries the installed system of the request.
    pub again: Again,
    /// True to install even then, and after any number of rounds that led to no system.
    pub reinstall: bool,
    /// True to write no image, but to give the installed system of the disk this config for its next boot.
    pub reignite: bool,
    /// What the installed system confirms; `None` if it is not asked to.
    pub confirm: Option<Confirm>,
    /// The disk that an earlier install of this node left without a whole system.
    pub unfinished: Option<DiskIdentity>,
}

impl Order {
    /// True if an earlier install of this node left this disk without a whole system.
    pub(super) fn is_unfinished(&self, disk: &Disk) -> bool {
        self.unfinished.as_ref().is_some_and(|found| is_one(found, disk))
    }
}

/// The existing data that an install may overwrite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExistingDataPolicy {
    /// None: only a blank disk is written. If it does not report that nothing is allocated, all of it is read for up to five
    /// minutes; what could not be read in this time is refused.
    Refuse,
    /// An earlier `CoreOS`: a blank disk is written, too.
    Coreos,
    /// Any; of a disk that the order does not describe only what has no known owner, such as an empty partition table or bytes
    /// without a known signature. What is active on the disk is taken down first, and metadata of arrays and pools that the
    /// image does not overwrite is erased after the write.
    Wipe,
}

/// What follows if an entry of `protect` names no disk of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProtectMissing {
    /// A warning in the result.
    Warn,
    /// Nothing is installed: the entry may be misspelt, and the disk that it should protect be the target.
    Refuse,
}

/// One thing that would otherwise prevent an install. It is allowed only on a disk that is identified by serial, WWN,
/// `/dev/disk/by-id/…` or `/dev/disk/by-path/…`, and whose existing data is `wipe`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Override {
    /// A disk that says it is removable, as hot-plug bays and internal SD cards do.
    Removable,
    /// A damaged partition table: both copies, a protective boot record alone, a table of another sector size.
    DamagedTable,
    /// More partitions than the agent reads.
    ManyPartitions,
    /// The image of a live system that was once written to the disk. The medium of the running one stays excluded.
    LeftoverLiveMedium,
    /// An end of the disk that cannot be read. It must be readable after the write.
    UnreadableEnd,
    /// Another disk with the same identity; the path of the disk decides, `/dev/disk/by-path/…`.
    SameSerial,
    /// File systems on other disks with a label that the installed system searches for. The result names them.
    BootLabelElsewhere,
    /// File systems with the label `boot` on other disks, if they are ext4 in a partition that is not in use: they are renamed
    /// to `boot-old`.
    DisarmBootLabel,
}

impl fmt::Display for Override {
    /// Writes the word as orders spell it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// The amount of a written disk that is read back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verify {
    /// A sample of its blocks. It takes less CPU time where the image is compressed; the rest of the disk may contain
    /// anything.
    Sample,
    /// The whole image; of the boot file system every file, except for those that the writer changes, which have
    /// checks of their own.
    #[default]
    Full,
}

/// The action on a disk that fails its verification.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnUnproved {
    /// Its partition table is erased, so that the machine does not boot from it.
    #[default]
    Erase,
    /// It stays as it is.
    Keep,
}

/// What follows if a disk carries the installed system of the same request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Again {
    /// The disk is made the next to boot, and nothing is written.
    #[default]
    Boot,
    /// It is installed again.
    Install,
    /// Nothing is done; the failure `ALREADY_INSTALLED` says so.
    Ask,
}

/// The place of the installed disk in the boot order of UEFI firmware. Its boot entry is made if it is missing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BootOrder {
    /// First, and the next boot is from it whatever the order is. A second entry of an earlier install for this disk is removed.
    #[default]
    Disk,
    /// After all entries of the network, and before the others. A second entry of an earlier install for this disk is removed.
    Network,
    /// Where it is, or last. Nothing else is changed.
    Keep,
}

impl fmt::Display for BootOrder {
    /// Writes the word as orders spell it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// The location of the Ignition config: exactly one of `url` and `inline`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IgnitionSource {
    /// `http` or `https` address of the config.
    pub url: Option<String>,
    /// The config itself, as exact JSON text.
    pub inline: Option<String>,
    /// Digest of the config's bytes: `sha512-` and 128, or `sha256-` and 64 hexadecimal digits.
    pub hash: Option<String>,
    /// True to leave unread the configs that it names by their addresses.
    pub skip_pointers: bool,
}

/// The operating system image: exactly one of `url`, `file` and `stream`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageSource {
    /// `http` or `https` address of a raw disk image; xz, gzip and zstd are recognised.
    pub url: Option<String>,
    /// Path of a raw disk image on the live system.
    pub file: Option<String>,
    /// Stream metadata that names the image and its digest.
    pub stream: Option<StreamSource>,
    /// True to install without a signature; otherwise `URL.sig` must exist and be valid. Refused unless the node's
    /// configuration allows it.
    pub insecure: bool,
    /// Digest of the image as downloaded, as in `ignition.hash`.
    pub hash: Option<String>,
    /// Size of the uncompressed image in bytes; a smaller disk is refused.
    pub uncompressed_bytes: Option<u64>,
    /// Sector size that the image requires in bytes, 512 or 4096; other disks are refused.
    pub sector_bytes: Option<u64>,
}

/// `CoreOS` stream metadata, which lists the images of a release by architecture and artifact.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamSource {
    /// `http` or `https` address of the stream metadata JSON.
    pub url: String,
    /// Architecture of the image, e.g. `x86_64`; absent for the machine's own.
    pub architecture: Option<String>,
    /// Artifact of the image, e.g. `metal` or `metal4k`; absent for the one that fits the disk's sectors.
    pub artifact: Option<String>,
}

/// The disk to write: at most one of `device` and `hints`; without both, the only one.
///
/// The choice is made over all disks. If the disk that is meant cannot be written, no other one takes its place; only
/// disks that no order can mean are left out, such as optical drives, the live medium, and disks too small for
/// the image.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DiskChoice {
    /// A path below `/dev`: preferably `/dev/disk/by-id/…` or `/dev/disk/by-path/…`. A kernel name such as `/dev/sda` may
    /// mean another disk after the next boot, so it identifies none.
    pub device: Option<String>,
    /// Root device hints with the keys of Ironic (`size`, `wwn`, `by_path`, …, operators allowed)
    /// or of Metal3 (`deviceName`, `minSizeGigabytes`, …); all must match.
    pub hints: Option<Map<String, Value>>,
    /// The choice if several disks match.
    pub if_several: IfSeveral,
}

/// The choice among several disks that match.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum IfSeveral {
    /// Install nothing.
    #[default]
    Refuse,
    /// The smallest one; refused if two are equally small.
    Smallest,
    /// The largest one; refused if two are equally large.
    Largest,
    /// The first one in the order of the report.
    First,
    /// The first one in the order of `/dev/disk/by-path`.
    FirstByPath,
}

/// The expected properties of the chosen disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expect {
    /// Serial number.
    pub serial: Option<String>,
    /// World wide name.
    pub wwn: Option<String>,
    /// Size in bytes.
    pub size_bytes: Option<u64>,
}

/// The least severity of findings that prevents an install.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BlockOn {
    /// Critical findings.
    #[default]
    Critical,
    /// Warnings and critical findings.
    Warning,
    /// No findings.
    Never,
}
