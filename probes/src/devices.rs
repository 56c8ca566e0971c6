//! Devices without their own section: serial ports, watchdogs, TPM, sensors, power supplies.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::power_supplies::{KernelPowerSupply, power_supplies};
use crate::sensors::{Sensor, sensors};
use crate::serial_ports::{SerialPort, serial_ports};
use crate::tpm::{Tpm, tpm};
use crate::usb::UsbDevice;
use crate::watchdogs::{Watchdog, watchdogs};

/// Devices without a section of their own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Devices {
    /// USB devices, by name.
    pub usb: Vec<UsbDevice>,
    /// Serial ports that have hardware, by name.
    pub serial_ports: Vec<SerialPort>,
    /// Watchdogs, by name.
    pub watchdogs: Vec<Watchdog>,
    /// The Trusted Platform Module; `None` if neither kernel nor firmware shows one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tpm: Option<Tpm>,
    /// Temperatures, fans, voltages and powers, by chip, device and name.
    pub sensors: Vec<Sensor>,
    /// Batteries, mains adapters and UPSs with a driver, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub power_supplies: Vec<KernelPowerSupply>,
}

impl Devices {
    /// Takes everything from `other` except the USB devices, which have their own collector.
    pub fn merge(&mut self, other: Devices) {
        let usb = std::mem::take(&mut self.usb);
        *self = Devices { usb, ..other };
    }
}

/// Reads serial ports, watchdogs, TPM, sensors and power supplies.
pub fn devices(machine: &Machine) -> Devices {
    Devices {
        usb: Vec::new(),
        serial_ports: serial_ports(machine),
        watchdogs: watchdogs(machine),
        tpm: tpm(machine),
        sensors: sensors(machine),
        power_supplies: power_supplies(machine),
    }
}
