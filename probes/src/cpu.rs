//! Logical CPUs, cores and packages.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;

/// The processors.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Cpu {}

/// Reads the processors.
#[must_use]
pub fn cpu(_machine: &Machine) -> Cpu {
    Cpu {}
}
