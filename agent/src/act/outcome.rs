//! The facts of an install at its end: the state of the disk, and the data read back from it.

use std::fmt;

use probes::block::Disk;
use probes::findings::Finding;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::Failure;
use super::confirm::ConfirmDigests;
use super::readable::Unreadable;
use super::seen::Seen;
use super::stage::Stage;
use super::trace::Trace;
use crate::exit_status::ExitStatus;

/// The outcome of an install.
#[derive(Debug, Clone, Default, PartialEq)]
#[must_use]
pub struct Outcome {
    /// The stage in which it ended.
    pub stage: Stage,
    /// The disk that was chosen; `None` if none was.
    pub disk: Option<Box<Disk>>,
    /// The state of the disk.
    pub state: DiskState,
    /// Why it did not succeed.
    pub failure: Option<Failure>,
    /// The results of reading the disk back; `None` if it was not written.
    pub proof: Option<Proof>,
    /// Number of times the writer was started.
    pub tries: u32,
    /// The last lines of its output.
    pub log_tail: Vec<String>,
    /// The disk's own write counters.
    pub counters: Option<WriteCounters>,
    /// The image that was fetched; `None` for the live image's own.
    pub image: Option<WrittenImage>,
    /// Descriptions of what was active on the disk and was taken down before the write.
    pub taken_down: Vec<String>,
    /// Descriptions of the metadata that was erased after the write because the image does not overwrite it.
    pub erased: Vec<String>,
    /// The trace of the last install on this machine, if there is one.
    pub previous: Option<Trace>,
    /// The digests of what the installed system confirms; `None` if it does not.
    pub confirm: Option<ConfirmDigests>,
    /// Set if the same request was carried out before, and nothing was written.
    pub installed_before: Option<NextBoot>,
    /// True if no image was written, and the installed system got another config.
    pub is_reignited: bool,
    /// Harmless facts that are worth knowing.
    pub warnings: Vec<String>,
    /// The findings that prevented it.
    pub blocking: Vec<Finding>,
    /// The node when the disk was chosen; `None` if preflight did not come that far, or passed.
    pub seen: Option<Seen>,
    /// Set if the chosen disk cannot be read.
    pub unreadable: Option<Unreadable>,
}

impl Outcome {
    /// The exit status of a program that only installs.
    pub fn exit_status(&self) -> ExitStatus {
        match self.state {
            _ if self.failure.is_none() => ExitStatus::Done,
            DiskState::Untouched => ExitStatus::Untouched,
            DiskState::HalfWritten => ExitStatus::HalfWritten,
            DiskState::Written | DiskState::Erased => ExitStatus::Unproven,
            DiskState::Installed => ExitStatus::NotReported,
        }
    }
}

/// What is known of the next boot of a machine whose disk was installed before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextBoot {
    /// It is from that disk.
    Disk,
    /// The firmware decides: it has no boot entries, or they could not be written.
    Firmware,
}

/// The words for an installed disk, by how much of the image was compared with it. Only the whole image proves it.
pub fn certainty(proof: Option<&Proof>) -> &'static str {
    match proof.and_then(|proof| proof.compared) {
        Some(Compared::Whole) => "installed and proved",
        Some(Compared::Sample) => "installed and sampled",
        None => "installed, but was not compared with its image",
    }
}

/// The state of the disk after the job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DiskState {
    /// Nothing was written to it.
    #[default]
    Untouched,
    /// It may contain part of the image; it does not boot.
    HalfWritten,
    /// It was written, but it is not proved that it contains the whole image: its verification failed or was
    /// interrupted. It may boot.
    Written,
    /// It was written, and its verification passed. `proof.compared` says how much of the image was compared.
    Installed,
    /// It was written and failed its verification, so its partition table was erased; it does not boot. Partitions
    /// to keep are still listed.
    Erased,
}

/// Which disk it was.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiskIdentity {
    /// Device file, e.g. `/dev/nvme0n1`.
    pub device: String,
    /// Serial number, if the disk has one.
    pub serial: Option<String>,
    /// World wide name, if the disk has one.
    pub wwn: Option<String>,
    /// Size in bytes.
    pub size_bytes: Option<u64>,
}

/// Data that was found on a disk.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExistingData {
    /// Kernel name of the disk or partition, e.g. `sda3`.
    pub name: String,
    /// What it contains, e.g. `LVM physical volume of vg0`.
    pub what: String,
}

/// The image that was written.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WrittenImage {
    /// Address or path that it came from, without user and query.
    pub source: String,
    /// Digest of its bytes as received; absent if not all arrived.
    pub digest: Option<String>,
    /// Size as received, in bytes.
    pub size_bytes: Option<u64>,
}

/// Write counters of a disk.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WriteCounters {
    /// Bytes written to it since it appeared, when the install started.
    pub bytes_written_before: u64,
    /// The same when the install ended; absent if the disk did not respond.
    pub bytes_written_after: Option<u64>,
}

/// What was read back from the disk.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Proof {
    /// Every check, in the order in which they were made.
    pub checks: Vec<Check>,
    /// How much of the image was compared with the disk and is the same; absent if nothing was compared, or it differs.
    pub compared: Option<Compared>,
}

/// How much of an image was compared with the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Compared {
    /// All of it; of the boot file system every file, except for those that the writer changes, which have checks of their
    /// own.
    Whole,
    /// A sample; the rest of the disk may contain anything.
    Sample,
}

/// One check of what was read back.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// What was checked.
    pub name: CheckName,
    /// Whether it matches the instruction.
    pub ok: bool,
    /// Whether a failure forbids a reboot.
    pub fatal: bool,
    /// What was expected.
    pub expected: Option<String>,
    /// What was found.
    pub found: Option<String>,
}

/// What a check verifies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckName {
    /// The partition table is intact and has partitions.
    PartitionTable,
    /// The backup of the partition table is intact and lists the same partitions.
    BackupTable,
    /// The partitions have the places and sizes that the image gives them.
    ImageTable,
    /// The saved partitions have the same places and content as before.
    SavedPartitions,
    /// The blocks of the disk have the digests of the image's blocks.
    ImageContent,
    /// Nothing makes the disk or one of its partitions a member of an array or pool. Saved partitions may be members.
    Signatures,
    /// The disk has a file system labelled `boot` that can be read.
    BootFilesystem,
    /// The disk has a whole file system labelled `root`.
    RootFilesystem,
    /// `/ignition.firstboot`, which makes Ignition run, exists; GRUB and every boot loader entry use it.
    FirstbootStamp,
    /// `/ignition/config.ign` contains exactly the bytes that the VIM sent, or with `confirm` the config that contains them.
    IgnitionDigest,
    /// Every boot loader entry contains the requested kernel arguments.
    KernelArguments,
    /// Every boot loader entry contains the requested Ignition platform.
    Platform,
    /// The kernel and the initramfs of every boot loader entry have the digest that `OSTree` recorded in the image. Only if
    /// the entries name such a digest.
    BootFiles,
    /// The kernel of every boot loader entry is for this machine. Only if one is of a known form.
    KernelArchitecture,
    /// The installed system has the network profiles that were to be copied.
    NetworkFiles,
    /// The EFI system partition has a boot loader for this machine.
    EspLoader,
    /// No other disk has a file system labelled `boot`.
    OtherBootLabels,
    /// The firmware has a boot entry for the disk.
    EfiEntry,
    /// The firmware tries the disk's boot entry first, or after those of the network, as ordered.
    EfiOrder,
}

impl fmt::Display for CheckName {
    /// Writes the name as the API spells it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}
