//! VIM API v1: the types of requests and responses, as in `agent/vim-api-v1.openapi.json`.
//!
//! The document's `components.schemas` are generated from these types, and a test compares both. An unknown
//! key of an instruction is refused; in every other body it is ignored.

pub mod install;
pub mod instruction;
pub(crate) mod mistyped;
pub mod openapi;
pub mod outcome;
pub mod parse;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

pub use crate::act::ConfirmDigests;
pub use crate::act::code::Code;
pub use crate::act::outcome::{
    Check, CheckName, DiskIdentity, DiskState, ExistingData, Proof, WriteCounters, WrittenImage,
};
pub use crate::act::stage::{Stage, State};
pub use crate::act::trace::Trace;
pub use crate::http::refusal::Problem;
pub use crate::http::{IGNITION_MEDIA_TYPE, JSON_MEDIA_TYPE};
pub use install::{
    BlockOn, DiskChoice, ExistingDataPolicy, Expect, IfSeveral, IgnitionSource, ImageSource,
    Install, OnUnproved, StreamSource, Verify,
};
pub use instruction::{Action, Instruction, OnRefusal};
pub use outcome::{JobResult, Outcome};
pub use parse::{Refusal, parse_instruction};
pub use probes::findings::{Finding, Severity};
pub use probes::network::Neighbours;

/// The version of the API that this crate speaks, as `api_version` carries it.
pub const API_VERSION: &str = "1";

/// The form of a node id; the agent uses no other in a path.
pub const NODE_ID_PATTERN: &str = "^[A-Za-z0-9._:-]{1,128}$";

/// Whether `id` is a valid node id: see [`NODE_ID_PATTERN`].
pub fn is_node_id(id: &str) -> bool {
    (1..=128).contains(&id.len())
        // In the path of an address these would lead elsewhere.
        && ![".", ".."].contains(&id)
        && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"._:-".contains(&b))
}

/// The body of a 202 response: the report is accepted, the instruction is not ready.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Accepted {
    /// The VIM's id for the node; the agent uses it from now on.
    #[schemars(regex(pattern = "^[A-Za-z0-9._:-]{1,128}$"))]
    pub node_id: String,
    /// Seconds after which to ask again, as in the `Retry-After` header.
    pub retry_after_s: Option<u64>,
}

/// LLDP neighbours that arrived after the report was posted: the body of `PUT /v1/nodes/{id}/neighbours`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NeighbourReport {
    /// Version of the API: `1`.
    #[schemars(extend("const" = "1"))]
    pub api_version: String,
    /// The neighbours of each port that was listened on, by the port's kernel name; empty for a port without one.
    pub neighbours: Neighbours,
}

/// A boot of the installed system: the body of `PUT /v1/nodes/{id}/boots/{n}`, where `n` is 1 or 2. The installed system sends it,
/// with the token of this install alone.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BootReport {
    /// Version of the API: `1`.
    #[schemars(extend("const" = "1"))]
    pub api_version: String,
    /// The instruction that was carried out.
    pub request_id: String,
    /// Id of the kernel's boot.
    pub boot_id: String,
    /// The disk from which it runs; absent if it cannot be compared.
    pub disk: Option<BootDisk>,
}

/// The disk of a running system, by serial number and world wide name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BootDisk {
    /// The disk that was installed.
    Same,
    /// Another one.
    Other,
}

/// A batch of events: the body of `POST /v1/nodes/{id}/events`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventBatch {
    /// Events in ascending order of `sequence`; the VIM ignores those it has already received.
    pub events: Vec<Event>,
}

/// One step of the job as it happens.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Number of the event, counted from 1 in each boot of the node.
    #[schemars(range(min = 1))]
    pub sequence: u64,
    /// When it happened, by the node's clock: RFC 3339, UTC.
    #[schemars(extend("format" = "date-time"))]
    pub time: String,
    /// The instruction that is carried out; absent before one was received.
    pub request_id: Option<String>,
    /// The stage that the event belongs to.
    pub stage: Stage,
    /// Whether the stage starts, continues or ends.
    pub state: State,
    /// Progress of the stage in percent; absent if it is not known.
    #[schemars(range(min = 0, max = 100))]
    pub percent: Option<u8>,
    /// What is happening, for people.
    pub message: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_id_is_short_and_safe_in_a_path() {
        assert!(is_node_id("uuid-4c4c4544-0031-3510-8043-b4c04f4e3232"));
        assert!(is_node_id("mac-0200000000a1"));
        for bad in ["", ".", "..", "a/b", "a b", "..%2f", "ä", &"x".repeat(129)] {
            assert!(!is_node_id(bad), "{bad:?}");
        }
    }

    #[test]
    fn event_omits_unknown_values() {
        let text =
            r#"{"sequence":1,"time":"2026-11-20T10:00:00Z","stage":"collect","state":"started"}"#;
        let event: Event = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&event).unwrap(), text);
    }
}
