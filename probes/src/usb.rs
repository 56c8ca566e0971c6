//! USB devices.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;

/// One USB device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct UsbDevice {}

/// Reads the USB devices.
#[must_use]
pub fn usb(_machine: &Machine) -> Vec<UsbDevice> {
    Vec::new()
}
