//! How a job ended: `Result` of VIM API v1.

use probes::findings::Finding;
use probes::live::Live;
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
    /// The instruction that was carried out or refused; absent if none could be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The node.
    #[schemars(regex(pattern = "^[A-Za-z0-9._:-]{1,128}$"))]
    pub node_id: String,
    /// How it ended.
    pub outcome: Outcome,
    /// The stage in which it ended.
    pub stage: Stage,
    /// Stable code of what went wrong, e.g. `IGNITION_HASH`; absent if nothing did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[A-Z][A-Z0-9_]{1,63}$"))]
    pub code: Option<String>,
    /// What happened, for a person.
    pub message: String,
    /// What to do about it, for a person; absent if nothing is to be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
    /// The disk that was chosen; absent if none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskIdentity>,
    /// What has become of the disk.
    pub disk_state: DiskState,
    /// How often coreos-installer was run.
    pub attempts: u32,
    /// What was read back from the disk; absent if nothing was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<Proof>,
    /// What is faulty on this machine.
    #[serde(default)]
    pub findings: Vec<Finding>,
    /// What does no harm now but should be known, e.g. keys that nothing reads.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// The last lines that coreos-installer wrote.
    #[serde(default)]
    pub log_tail: Vec<String>,
    /// Uptime, load and memory of the node when the job ended, and what the agent has used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<Live>,
    /// When the job began, by the node's clock: RFC 3339, UTC.
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
    /// Written and proved.
    Installed,
    /// Not begun, for a reason that stands in the code.
    Refused,
    /// Begun and not finished.
    Failed,
    /// Written, but a check of what was written failed.
    Unproven,
}

/// What has become of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DiskState {
    /// Nothing was written to it.
    Untouched,
    /// It may hold part of the image; it does not boot.
    HalfWritten,
    /// It holds the whole image.
    Installed,
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

/// What was read back from the disk.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Proof {
    /// Every check that was made, in the order in which it was made.
    pub checks: Vec<Check>,
}

/// One thing that was read back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// What was looked at.
    pub name: CheckName,
    /// Whether it is as asked for.
    pub ok: bool,
    /// Whether the node must not be rebooted if it is not.
    pub fatal: bool,
    /// What was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// What is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
}

/// What a check looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckName {
    /// The partition table is whole and has partitions.
    PartitionTable,
    /// There is a file system labelled `boot` on the disk and it can be read.
    BootFilesystem,
    /// `/ignition/config.ign` holds exactly the bytes that were returned.
    IgnitionDigest,
    /// The boot loader entries hold the kernel arguments that were asked for.
    KernelArguments,
    /// The boot loader entries hold the Ignition platform that was asked for.
    Platform,
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
            Self::BootFilesystem => "boot_filesystem",
            Self::IgnitionDigest => "ignition_digest",
            Self::KernelArguments => "kernel_arguments",
            Self::Platform => "platform",
            Self::EspLoader => "esp_loader",
            Self::OtherBootLabels => "other_boot_labels",
            Self::EfiEntry => "efi_entry",
        }
    }
}
