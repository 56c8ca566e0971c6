//! The running system.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;

/// The running system.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Os {}

/// Reads what system runs.
#[must_use]
pub fn os(_machine: &Machine) -> Os {
    Os {}
}
