//! NUMA nodes and caches.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;

/// NUMA nodes and caches.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Topology {}

/// Reads NUMA nodes and caches.
#[must_use]
pub fn topology(_machine: &Machine) -> Topology {
    Topology {}
}
