//! By what a machine can be recognised, and which of it looks wrong.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One identifier of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Identifier {
    /// What it is: `smbios_uuid`, `product_serial`, `baseboard_serial`, `chassis_serial`,
    /// `permanent_mac`, `bmc_mac`.
    pub kind: String,
    /// The value as found.
    pub value: String,
    /// Why it should not be trusted: `placeholder`, `zero`, `known duplicate`, `usb bmc`.
    pub suspicious: Option<String>,
}

/// Lists the identifiers of the machine, in the order in which they should be trusted.
#[must_use]
pub fn identity(_inventory: &crate::collect::Inventory) -> Vec<Identifier> {
    Vec::new()
}
