//! How a job ended: `Result` of VIM API v1.

use probes::findings::Finding;
use probes::live::Live;
use probes::network::Neighbours;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Stage;

/// How a job ended: the body of `POST /v1/nodes/{id}/result`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Result")]
pub struct JobResult {
    /// Version of the API: `1`.
    #[schemars(extend("const" = "1"))]
    pub api_version: String,
    /// The instruction that was carried out or refused; absent if none could be parsed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Digest of the instruction's bytes as received: `sha256-` and 64 hexadecimal digits; absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^sha256-[0-9a-f]{64}$"))]
    pub request_digest: Option<String>,
    /// The node.
    #[schemars(regex(pattern = "^[A-Za-z0-9._:-]{1,128}$"))]
    pub node_id: String,
    /// How it ended.
    pub outcome: Outcome,
    /// The stage in which it ended.
    pub stage: Stage,
    /// Stable error code, e.g. `IGNITION_HASH`; absent on success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[A-Z][A-Z0-9_]{1,63}$"))]
    pub code: Option<String>,
    /// What happened, for people.
    pub message: String,
    /// What to do about it, for people; absent if nothing needs to be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
    /// The disk that was chosen; absent if none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskIdentity>,
    /// What was found on the chosen disk before it was written; absent if nothing was found or none was chosen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub existing_data: Vec<ExistingData>,
    /// The state of the disk.
    pub disk_state: DiskState,
    /// What was active on the disk and was taken down before the write, e.g. `removing the mapping dm-0`; absent if
    /// nothing was. Its content is not changed by that, but it has to be started again to be used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taken_down: Vec<String>,
    /// Metadata of arrays and pools at the end of the disk that the image had not overwritten and that was erased after
    /// the write, e.g. `linux_raid_member at byte 3221159936`; absent if there was none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub erased: Vec<String>,
    /// The image that was fetched; absent if none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<WrittenImage>,
    /// How much the disk had written before and after, by its own counters; absent if they could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write: Option<WriteCounters>,
    /// How many times coreos-installer ran.
    pub attempts: u32,
    /// What was read back from the disk; absent if nothing was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<Proof>,
    /// What is wrong with this machine.
    #[serde(default)]
    pub findings: Vec<Finding>,
    /// What is harmless but worth knowing, e.g. what could not be checked.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// The last lines of coreos-installer's output.
    #[serde(default)]
    pub log_tail: Vec<String>,
    /// LLDP neighbours by port, if they arrived after the report was posted.
    #[serde(default, skip_serializing_if = "Neighbours::is_empty")]
    pub neighbours: Neighbours,
    /// Uptime, load and memory of the node when the job ended, and what the agent has used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<Live>,
    /// When the job started, by the node's clock: RFC 3339, UTC.
    #[schemars(extend("format" = "date-time"))]
    pub started_at: String,
    /// When the job ended, by the node's clock: RFC 3339, UTC.
    #[schemars(extend("format" = "date-time"))]
    pub finished_at: String,
}

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The disk was written and verified.
    Installed,
    /// Nothing was written; `code` says why.
    Refused,
    /// Writing started and failed.
    Failed,
    /// The disk was written, but its verification failed.
    Unproven,
}

/// The state of the disk after the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DiskState {
    /// Nothing was written to it.
    Untouched,
    /// It may contain part of the image; it does not boot.
    HalfWritten,
    /// It was written, but it is not proved that it contains the whole image: its verification failed or was
    /// interrupted. It may boot.
    Written,
    /// It contains the whole image, and its verification passed.
    Installed,
    /// It was written and failed its verification, so its partition table was erased; it does not boot. Partitions
    /// to keep are still listed.
    Erased,
}

/// Which disk it was.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiskIdentity {
    /// Device file, e.g. `/dev/nvme0n1`.
    pub device: String,
    /// Serial number, if the disk has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// World wide name, if the disk has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wwn: Option<String>,
    /// Size in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WrittenImage {
    /// Address or path that it came from, without user and query.
    pub source: String,
    /// Digest of its bytes as received; absent if not all arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Size as received, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
}

/// Write counters of a disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WriteCounters {
    /// Bytes written to it since it appeared, when the install started.
    pub bytes_written_before: u64,
    /// The same when the install ended; absent if the disk did not respond.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_written_after: Option<u64>,
}

/// What was read back from the disk.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Proof {
    /// Every check, in the order in which they were made.
    pub checks: Vec<Check>,
}

/// One check of what was read back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// What was checked.
    pub name: CheckName,
    /// Whether it matches the instruction.
    pub ok: bool,
    /// Whether a failure forbids a reboot.
    pub fatal: bool,
    /// What was expected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// What was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
    /// `/ignition.firstboot`, which makes Ignition run, exists.
    FirstbootStamp,
    /// `/ignition/config.ign` contains exactly the bytes that the VIM sent.
    IgnitionDigest,
    /// Every boot loader entry contains the requested kernel arguments.
    KernelArguments,
    /// Every boot loader entry contains the requested Ignition platform.
    Platform,
    /// The kernel and the initramfs of every boot loader entry have the digest that `OSTree` recorded in the image. Only if
    /// the entries name such a digest.
    BootFiles,
    /// The installed system has the network profiles that were to be copied.
    NetworkFiles,
    /// The EFI system partition has a boot loader.
    EspLoader,
    /// No other disk has a file system labelled `boot`.
    OtherBootLabels,
    /// The firmware has a boot entry for the disk.
    EfiEntry,
}

impl CheckName {
    /// The name as the API spells it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PartitionTable => "partition_table",
            Self::BackupTable => "backup_table",
            Self::ImageTable => "image_table",
            Self::SavedPartitions => "saved_partitions",
            Self::ImageContent => "image_content",
            Self::Signatures => "signatures",
            Self::BootFilesystem => "boot_filesystem",
            Self::RootFilesystem => "root_filesystem",
            Self::FirstbootStamp => "firstboot_stamp",
            Self::IgnitionDigest => "ignition_digest",
            Self::KernelArguments => "kernel_arguments",
            Self::Platform => "platform",
            Self::BootFiles => "boot_files",
            Self::NetworkFiles => "network_files",
            Self::EspLoader => "esp_loader",
            Self::OtherBootLabels => "other_boot_labels",
            Self::EfiEntry => "efi_entry",
        }
    }
}
