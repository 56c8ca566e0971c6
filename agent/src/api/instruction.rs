//! `Instruction` of VIM API v1: what a node is to do. `parse` checks what these types do not express.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::Install;

/// What the VIM orders a node to do. An unknown key anywhere in it is refused.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Instruction {
    /// Version of the API: `1`.
    #[schemars(extend("const" = "1"))]
    pub api_version: String,
    /// Id of this instruction; events and the result repeat it.
    #[schemars(length(min = 1, max = 128))]
    pub request_id: String,
    /// The node that the instruction is for. An instruction for another node is refused.
    #[schemars(regex(pattern = "^[A-Za-z0-9._:-]{1,128}$"))]
    pub node_id: Option<String>,
    /// What to do.
    pub action: Action,
    /// Why, for people; shown on the node's console.
    pub reason: Option<String>,
    /// `wait`, `reinspect`: seconds until the node asks or reports again.
    pub retry_after_s: Option<u64>,
    /// `wait`: allows the node to compute on every CPU and to test free memory for at most this many seconds, once after
    /// each report, and again after this permission was withdrawn. When they are over, the node reads its hardware under load
    /// and posts another report. Another instruction, or a 202, withdraws the permission and ends the load within seconds; if
    /// the load has found a fault, the node reports it at once. Absent: no load, unless this answers a report.
    #[schemars(range(min = 1, max = 86_400))]
    pub load_s: Option<u64>,
    /// What the node does if it refuses this instruction; absent for what its configuration says.
    pub on_refusal: Option<OnRefusal>,
    /// What the machine must have, by kind of part, e.g. `{"dimm": {"count": 16, "size": "32 GiB"}}`; see
    /// docs/expectations.md. Each deviation is a finding of the result, and `install.block_on` decides which prevent
    /// an install. `install.expect` is about the chosen disk only.
    pub expect: Option<serde_json::Map<String, serde_json::Value>>,
    /// `install`: what to write and where. `reignite`: the Ignition config, the disk, kernel arguments and policies; nothing that
    /// is about an image or the data on the disk. Absent otherwise.
    pub install: Option<Install>,
}

/// What a node can be ordered to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Write the disk, verify it, reboot.
    Install,
    /// Ask again after `retry_after_s`.
    Wait,
    /// Read the hardware again and post a new report.
    Reinspect,
    /// Reboot without touching a disk.
    Reboot,
    /// Power the machine off without touching a disk.
    Poweroff,
    /// Do nothing and stay up, so that a person can investigate.
    Stop,
    /// Give the installed system a new Ignition config for its next boot.
    Reignite,
}

impl fmt::Display for Action {
    /// Writes the action as the API spells it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// What a node does after it refused an instruction and touched no disk.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum,
)]
#[serde(rename_all = "snake_case")]
pub enum OnRefusal {
    /// Ask again, ever more slowly, and try the same instruction again only after a fault outside of it.
    #[default]
    #[value(help = "Ask the VIM again, ever more slowly")]
    Retry,
    /// Exit with status 4, so that systemd opens the emergency shell.
    #[value(help = "Exit, so that systemd opens the emergency shell")]
    Stop,
}
