//! Disks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;

/// Disks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Block {}

/// Reads the disks.
#[must_use]
pub fn block(_machine: &Machine) -> Block {
    Block {}
}
