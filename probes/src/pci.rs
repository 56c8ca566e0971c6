//! PCI devices.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;

/// PCI devices.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Pci {}

/// Reads the PCI devices.
#[must_use]
pub fn pci(_machine: &Machine) -> Pci {
    Pci {}
}
