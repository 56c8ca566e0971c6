//! The stages of a job, and how each goes.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A stage of the job. Stages run in this order.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The machine's hardware is read.
    #[default]
    Collect,
    /// The report is posted.
    Report,
    /// The instruction is requested and parsed.
    Instruction,
    /// Everything that can be checked before the disk is touched.
    Preflight,
    /// The disk is written.
    Write,
    /// What was written is read back.
    Proof,
    /// The outcome is posted.
    Result,
    /// The node waits, as the VIM asked.
    Wait,
}

impl fmt::Display for Stage {
    /// Writes the stage as the API spells it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// What an event says about its stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The stage starts.
    Started,
    /// The stage continues.
    Progress,
    /// The stage succeeded.
    Done,
    /// The stage failed; the message says why.
    Failed,
}
