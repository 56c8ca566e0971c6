//! The SMBIOS table.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;

/// The raw table.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SmbiosTable {}

/// Reads the raw table.
#[must_use]
pub fn table(_machine: &Machine) -> Option<SmbiosTable> {
    None
}
