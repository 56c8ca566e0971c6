//! Graphics cards and accelerators.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::pci::Pci;

/// Graphics cards and accelerators.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Gpu {}

/// Finds graphics cards and accelerators among the PCI devices.
#[must_use]
pub fn gpu(_machine: &Machine, _pci: &Pci) -> Gpu {
    Gpu {}
}
