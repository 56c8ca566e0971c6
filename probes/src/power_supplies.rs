//! Batteries, mains adapters and UPSs with a kernel driver: `/sys/class/power_supply`
//! (`Documentation/ABI/testing/sysfs-class-power`). The power supplies of a server are in
//! `smbios.power_supplies`, and their health is among the management controller's sensors.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;

const CLASS: &str = "sys/class/power_supply";
/// A machine has a handful, and with many adapters on a bus some dozens.
const LIMIT: usize = 64;

/// A battery, an adapter or a UPS.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct KernelPowerSupply {
    /// Kernel name, e.g. `AC`, `BAT0`.
    pub name: String,
    /// As the kernel spells it: `Mains`, `Battery`, `UPS`, `USB`, `Wireless`.
    pub kind: Option<String>,
    /// True if it supplies power now; absent for batteries.
    pub is_online: Option<bool>,
    /// `Charging`, `Discharging`, `Full` and the like (batteries only).
    pub status: Option<String>,
    /// Charge in percent.
    pub charge_percent: Option<u8>,
    /// Manufacturer.
    pub manufacturer: Option<String>,
    /// Model name.
    pub model: Option<String>,
    /// Serial number.
    pub serial: Option<String>,
}

/// Reads the power supplies, by name.
pub fn power_supplies(machine: &Machine) -> Vec<KernelPowerSupply> {
    let names = machine.list(CLASS).into_iter().take(LIMIT);
    names.map(|name| power_supply(machine, name)).collect()
}

fn power_supply(machine: &Machine, name: String) -> KernelPowerSupply {
    let at = |attribute: &str| format!("{CLASS}/{name}/{attribute}");
    let text = |attribute: &str| {
        let text = machine.text(&at(attribute))?.trim().to_owned();
        (!text.is_empty() && text != "Unknown").then_some(text)
    };
    KernelPowerSupply {
        kind: text("type"),
        // 2 means that a programmable supply delivers power.
        is_online: machine.parse(&at("online"), |text| match text {
            "0" => Ok(false),
            "1" | "2" => Ok(true),
            _ => Err("0, 1 or 2"),
        }),
        status: text("status"),
        charge_percent: machine.number(&at("capacity")).filter(|percent| *percent <= 100),
        manufacturer: text("manufacturer"),
        model: text("model_name"),
        serial: text("serial_number"),
        name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{tree, tree_in};

    #[test]
    fn adapter_and_battery_have_their_facts_and_unknown_is_absent() {
        let machine = tree_in(&[
            (CLASS, &[("BAT0/type", "Battery")]),
            (CLASS, &[("BAT0/status", "Unknown"), ("BAT0/capacity", "97")]),
            (CLASS, &[("BAT0/serial_number", " 1234"), ("AC/type", "Mains"), ("AC/online", "1")]),
        ]);
        let found = power_supplies(&machine);
        assert_eq!((found[0].name.as_str(), found[0].is_online), ("AC", Some(true)));
        assert_eq!((found[1].status.as_deref(), found[1].charge_percent), (None, Some(97)));
        assert_eq!(found[1].serial.as_deref(), Some("1234"));
        assert!(power_supplies(&tree(&[("sys/class/net/lo/mtu", "1\n")])).is_empty());
    }
}
