//! How a job ended: `Result` of VIM API v1.

use probes::findings::Finding;
use probes::live::Live;
use probes::network::Neighbours;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::{
    ConfirmDigests, DiskIdentity, DiskState, ExistingData, Proof, Stage, Trace, WriteCounters,
    WrittenImage,
};

/// How a job ended: the body of `POST /v1/nodes/{id}/result`.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Result")]
pub struct JobResult {
    /// Version of the API: `1`.
    #[schemars(extend("const" = "1"))]
    pub api_version: String,
    /// The instruction that was carried out or refused; absent if none could be parsed.
    pub request_id: Option<String>,
    /// Digest of the instruction's bytes as received: `sha256-` and 64 hexadecimal digits; absent if there was none.
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
    #[schemars(regex(pattern = "^[A-Z][A-Z0-9_]{1,63}$"))]
    pub code: Option<String>,
    /// What happened, for people.
    pub message: String,
    /// What to do about it, for people; absent if nothing needs to be done.
    pub advice: Option<String>,
    /// The disk that was chosen; absent if none was.
    pub disk: Option<DiskIdentity>,
    /// What was found on the chosen disk before it was written; absent if nothing was found or none was chosen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub existing_data: Vec<ExistingData>,
    /// The state of the disk.
    pub disk_state: DiskState,
    /// What was active on the disk and was taken down before the write, e.g. `removing the mapping dm-0`; absent if
    /// nothing was. Its content is not changed by that, but it has to be started again to be used. Also labels on other
    /// disks that were renamed, which does change their content.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taken_down: Vec<String>,
    /// Metadata of arrays and pools at the end of the disk that the image had not overwritten and that was erased after
    /// the write, e.g. `linux_raid_member at byte 3221159936`; absent if there was none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub erased: Vec<String>,
    /// The image that was fetched; absent if none was.
    pub image: Option<WrittenImage>,
    /// How much the disk had written before and after, by its own counters; absent if they could not be read.
    pub write: Option<WriteCounters>,
    /// How many times coreos-installer ran.
    pub attempts: u32,
    /// What was read back from the disk; absent if nothing was written.
    pub proof: Option<Proof>,
    /// The trace of the last install on this machine; absent if there is none.
    pub previous: Option<Trace>,
    /// The digests by which the confirmation of the installed system is known; absent unless the instruction has `confirm` and the
    /// disk was to be written.
    pub confirm: Option<ConfirmDigests>,
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
    /// The same request was carried out before, and nothing was written. `message` says whether the disk is the next to boot.
    AlreadyInstalled,
    /// The installed system got another config for its next boot, which was read back. No image was written.
    Reignited,
    /// Nothing was written; `code` says why.
    Refused,
    /// Writing started and failed.
    Failed,
    /// The disk was written, but its verification failed.
    Unproven,
}
