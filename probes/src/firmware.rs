//! Boot mode, Secure Boot, boot entries.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;

/// How the firmware booted the machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Firmware {}

/// Reads how the firmware booted the machine.
#[must_use]
pub fn firmware(_machine: &Machine) -> Firmware {
    Firmware {}
}
