//! The management controller.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;

/// The management controller.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Bmc {}

/// Reads the management controller.
#[must_use]
pub fn bmc(_machine: &Machine) -> Option<Bmc> {
    None
}
