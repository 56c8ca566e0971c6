//! Watchdogs: `/sys/class/watchdog/` (`Documentation/ABI/testing/sysfs-class-watchdog`). The device
//! itself is never opened, because that would start it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ancestors;
use crate::machine::Machine;

const CLASS: &str = "sys/class/watchdog";
/// `WDIOF_CARDRESET` (`include/uapi/linux/watchdog.h`).
const CARD_RESET: u32 = 0x20;

/// One watchdog.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Watchdog {
    /// Kernel name, e.g. `watchdog0`.
    pub name: String,
    /// The driver's name for it, e.g. `iTCO_wdt`.
    pub identity: Option<String>,
    /// Timeout in seconds, after which it resets the machine.
    pub timeout_s: Option<u32>,
    /// True if it runs now.
    pub is_active: Option<bool>,
    /// True if it cannot be stopped once it is running.
    pub no_way_out: Option<bool>,
    /// True if it caused the last reset, as far as the hardware remembers.
    pub caused_last_reset: Option<bool>,
    /// PCI address of its device.
    pub pci_address: Option<String>,
}

/// Reads the watchdogs, by name.
pub fn watchdogs(machine: &Machine) -> Vec<Watchdog> {
    machine.list(CLASS).into_iter().map(|name| watchdog(machine, name)).collect()
}

fn watchdog(machine: &Machine, name: String) -> Watchdog {
    let path = format!("{CLASS}/{name}");
    let at = |attribute: &str| format!("{path}/{attribute}");
    let status = machine.number::<u32>(&at("bootstatus"));
    Watchdog {
        identity: machine.text(&at("identity")),
        timeout_s: machine.number(&at("timeout")).filter(|seconds| *seconds > 0),
        is_active: machine.parse(&at("state"), |text| match text {
            "active" => Ok(true),
            "inactive" => Ok(false),
            _ => Err("active or inactive"),
        }),
        no_way_out: machine.flag(&at("nowayout")),
        caused_last_reset: status.map(|status| status & CARD_RESET != 0),
        pci_address: ancestors::pci_address(&machine.device_path(&path)),
        name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree_in;

    #[test]
    fn watchdog_has_its_facts_and_whether_it_reset_the_machine() {
        let machine = tree_in(&[
            ("sys/class/watchdog/watchdog0", &[("identity", "i6300ESB timer")]),
            ("sys/class/watchdog/watchdog0", &[("timeout", "30"), ("state", "inactive")]),
            ("sys/class/watchdog", &[("watchdog0/bootstatus", "32"), ("watchdog1/uevent", "x")]),
        ]);
        let watchdogs = watchdogs(&machine);
        assert_eq!(watchdogs[0].identity.as_deref(), Some("i6300ESB timer"));
        assert_eq!((watchdogs[0].timeout_s, watchdogs[0].is_active), (Some(30), Some(false)));
        assert_eq!(watchdogs[0].caused_last_reset, Some(true));
        assert_eq!(watchdogs[1], Watchdog { name: "watchdog1".to_owned(), ..Watchdog::default() });
    }
}
