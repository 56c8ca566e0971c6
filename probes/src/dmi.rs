//! Chassis, baseboard, product, BIOS.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;

/// The enclosure.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Chassis {}
/// The main board.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Baseboard {}
/// The machine as sold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Product {}
/// The firmware.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Bios {}

/// What the firmware says of the machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dmi {
    /// The enclosure.
    pub chassis: Chassis,
    /// The main board.
    pub baseboard: Baseboard,
    /// The machine as sold.
    pub product: Product,
    /// The firmware.
    pub bios: Bios,
}

/// Reads what the firmware says of the machine.
#[must_use]
pub fn dmi(_machine: &Machine) -> Dmi {
    Dmi::default()
}
