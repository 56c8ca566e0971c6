//! Memory.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;

/// The memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Memory {}

/// Reads the memory.
#[must_use]
pub fn memory(_machine: &Machine) -> Memory {
    Memory {}
}
