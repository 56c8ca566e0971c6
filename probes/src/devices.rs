//! Devices that have no section of their own: serial ports, watchdogs, TPM, sensors.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::sensors::{Sensor, sensors};
use crate::serial_ports::{SerialPort, serial_ports};
use crate::tpm::{Tpm, tpm};
use crate::usb::UsbDevice;
use crate::watchdogs::{Watchdog, watchdogs};

/// Devices that have no section of their own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Devices {
    /// USB devices, by name.
    pub usb: Vec<UsbDevice>,
    /// Serial ports with hardware behind them, by name.
    pub serial_ports: Vec<SerialPort>,
    /// Watchdogs, by name.
    pub watchdogs: Vec<Watchdog>,
    /// The Trusted Platform Module; `None` if neither kernel nor firmware shows one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tpm: Option<Tpm>,
    /// Temperatures, fans, voltages and powers, by chip, device and name.
    pub sensors: Vec<Sensor>,
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
pub fn devices(machine: &Machine) -> Devices {
    Devices {
        usb: Vec::new(),
        serial_ports: serial_ports(machine),
        watchdogs: watchdogs(machine),
        tpm: tpm(machine),
        sensors: sensors(machine),
    }
}
