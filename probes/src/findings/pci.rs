//! PCI: links narrower than both ends allow, errors that the devices counted.

use super::{Finding, Severity};
use crate::collect::Inventory;
use crate::pci::{self, PciDevice};
use crate::smbios::Slot;

fn devices(inventory: &Inventory) -> &[PciDevice] {
    inventory.pci.as_ref().map_or(&[], |pci| &pci.devices)
}

/// Where a technician looks: the slot if it is known, else the address.
fn locator(device: &PciDevice) -> String {
    match &device.slot {
        Some(slot) => format!("slot {slot} ({})", device.address),
        None => device.address.clone(),
    }
}

fn name(device: &PciDevice) -> &str {
    device.device_name.as_deref().or(device.class_name.as_deref()).unwrap_or("a device")
}

/// A link that uses fewer lanes than device, port and slot have. The speed may be low because the
/// link is idle (ASPM, GPU power states), so speed alone is no finding. A port of 16 lanes may lead to
/// a slot to which 8 are wired: only the firmware's table of slots says so.
pub(super) fn link(inventory: &Inventory) -> Vec<Finding> {
    let slots = inventory.smbios.as_ref().map_or(&[][..], |table| &table.slots);
    let narrow = |device: &&PciDevice| {
        let link = device.link.as_ref()?;
        let wired = slots.iter().find(|slot| is_in(device, slot)).and_then(|slot| slot.n_lanes);
        let (current, possible) = (link.current_width?, link.possible_width?);
        let possible = wired.map_or(possible, |wired| possible.min(u32::from(wired)));
        (current > 0 && current < possible).then(|| Finding {
            code: "pci.link.width".to_owned(),
            severity: Severity::Warning,
            component: "pci".to_owned(),
            locator: Some(locator(device)),
            evidence: format!("{} runs on x{current}, x{possible} is possible", name(device)),
            advice: "reseat the card or riser; if it stays, try another slot".to_owned(),
        })
    };
    // The functions of a card share its link.
    let mut ends = pci::lower_ends(devices(inventory));
    ends.dedup_by_key(|device| card(&device.address));
    ends.iter().filter_map(narrow).collect()
}

/// An address without its function.
fn card(address: &str) -> &str {
    address.split_once('.').map_or(address, |(card, _)| card)
}

/// Whether `device` is in `slot`: it has its name, or the slot has its address or that of the port
/// above it.
fn is_in(device: &PciDevice, slot: &Slot) -> bool {
    let has_name = slot.designation.is_some() && slot.designation == device.slot;
    let has_address = slot.pci_address.as_deref().is_some_and(|address| {
        card(address) == card(&device.address) || Some(address) == device.parent.as_deref()
    });
    let is_empty = matches!(slot.usage.as_deref(), Some("available" | "unavailable"));
    has_name || (has_address && !is_empty)
}

/// Errors that devices reported (`Documentation/ABI/testing/sysfs-bus-pci-devices-aer_stats`).
pub(super) fn aer(inventory: &Inventory) -> Vec<Finding> {
    let counted = |device: &PciDevice| {
        let aer = device.aer.as_ref()?;
        let (severity, n, what) = match (aer.n_fatal, aer.n_nonfatal) {
            (Some(n @ 1..), _) => (Severity::Critical, n, "fatal"),
            (_, Some(n @ 1..)) => (Severity::Warning, n, "nonfatal"),
            _ => return None,
        };
        Some(Finding {
            code: format!("pci.aer.{what}"),
            severity,
            component: "pci".to_owned(),
            locator: Some(locator(device)),
            evidence: format!("{} counted {n} {what} PCIe errors since boot", name(device)),
            advice: "reseat the card or riser; if it goes on, replace the card".to_owned(),
        })
    };
    devices(inventory).iter().filter_map(counted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pci::{Aer, Link, Pci};
    use crate::smbios::SmbiosTable;

    fn inventory(device: PciDevice) -> Inventory {
        let pci = Pci { devices: vec![device], ..Pci::default() };
        Inventory { pci: Some(pci), ..Inventory::default() }
    }

    #[test]
    fn a_narrow_link_is_found_and_a_slow_one_is_not() {
        let device = |current_width, current_gt_s_x10| PciDevice {
            address: "0000:3b:00.0".to_owned(),
            slot: Some("4".to_owned()),
            link: Some(Link {
                current_width: Some(current_width),
                current_gt_s_x10: Some(current_gt_s_x10),
                possible_width: Some(8),
                possible_gt_s_x10: Some(160),
                ..Link::default()
            }),
            ..PciDevice::default()
        };
        let found = link(&inventory(device(4, 160)));
        assert_eq!(found[0].locator.as_deref(), Some("slot 4 (0000:3b:00.0)"));
        assert!(link(&inventory(device(8, 25))).is_empty());
    }

    fn narrow(address: &str, slot: Option<&str>) -> PciDevice {
        let link = Link { current_width: Some(8), possible_width: Some(16), ..Link::default() };
        PciDevice {
            address: address.to_owned(),
            slot: slot.map(str::to_owned),
            parent: Some("0000:3a:00.0".to_owned()),
            link: Some(link),
            ..PciDevice::default()
        }
    }

    #[test]
    fn a_card_of_x16_in_a_slot_that_is_wired_x8_is_as_it_should_be() {
        let slot = |designation: &str, address: &str, n_lanes| Slot {
            designation: Some(designation.to_owned()),
            pci_address: Some(address.to_owned()),
            n_lanes: Some(n_lanes),
            ..Slot::default()
        };
        let found = |slot: Slot, name: Option<&str>| {
            let smbios = SmbiosTable { slots: vec![slot], ..SmbiosTable::default() };
            let inventory = inventory(narrow("0000:3b:00.0", name));
            link(&Inventory { smbios: Some(smbios), ..inventory }).len()
        };
        let other = "0000:ff:00.0";
        assert_eq!(found(slot("PCIe 4", other, 8), Some("PCIe 4")), 0, "by name");
        assert_eq!(found(slot("PCIe 4", "0000:3b:00.0", 8), None), 0, "by address");
        assert_eq!(found(slot("PCIe 4", "0000:3a:00.0", 8), None), 0, "by the port above");
        assert_eq!(found(slot("PCIe 4", "0000:3b:00.0", 16), None), 1, "the slot has more");
        assert_eq!(found(slot("PCIe 5", other, 8), Some("PCIe 4")), 1, "another slot");
    }

    #[test]
    fn one_narrow_link_is_one_finding_whatever_functions_and_ports_say_it() {
        let mut devices = vec![
            narrow("0000:3a:00.0", None),
            narrow("0000:3b:00.0", None),
            narrow("0000:3b:00.1", None),
        ];
        (devices[0].class, devices[0].parent) = (Some("0604".to_owned()), None);
        let pci = Pci { devices, ..Pci::default() };
        let found = link(&Inventory { pci: Some(pci), ..Inventory::default() });
        let at: Vec<_> = found.iter().filter_map(|f| f.locator.as_deref()).collect();
        assert_eq!(at, ["0000:3b:00.0"]);
    }

    #[test]
    fn a_fatal_error_is_critical_and_correctable_ones_are_no_finding() {
        let device = |n_fatal| PciDevice {
            aer: Some(Aer { n_correctable: Some(9), n_fatal, ..Aer::default() }),
            ..PciDevice::default()
        };
        assert_eq!(aer(&inventory(device(Some(1))))[0].severity, Severity::Critical);
        assert!(aer(&inventory(device(Some(0)))).is_empty());
    }
}
