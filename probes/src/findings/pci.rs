//! PCI: links with too few lanes, errors that devices counted, and devices that no longer respond.

use std::collections::BTreeSet;

use super::{Finding, raise};
use crate::collect::Inventory;
use crate::parts;
use crate::pci::{self, PciDevice};
use crate::smbios::Slot;

fn devices(inventory: &Inventory) -> &[PciDevice] {
    inventory.pci.as_ref().map_or(&[], |pci| &pci.devices)
}

fn name(device: &PciDevice) -> &str {
    device.device_name.as_deref().or(device.class_name.as_deref()).unwrap_or("a device")
}

/// Links that use fewer lanes than device, port and slot have. The speed may be low because the link is idle (ASPM, GPU
/// power states), so speed alone is not a finding. A port with 16 lanes may lead to a slot that is wired for 8: only
/// the firmware's table of slots shows that.
pub(super) fn link(inventory: &Inventory) -> Vec<Finding> {
    let slots = inventory.smbios.as_ref().map_or(&[][..], |table| &table.slots);
    let narrow = |device: &&PciDevice| {
        let link = device.link.as_ref()?;
        // An idle GPU is suspended; the width of its link counts again once it wakes up.
        if device.power_state.as_deref().is_some_and(|state| state != "D0") {
            return None;
        }
        let wired = slots.iter().find(|slot| is_in(device, slot)).and_then(|slot| slot.n_lanes);
        let (current, possible) = (link.current_width?, link.possible_width?);
        let possible = wired.map_or(possible, |wired| possible.min(u32::from(wired)));
        let evidence = format!("{} runs at x{current}; x{possible} is possible", name(device));
        let is_narrow = current > 0 && current < possible;
        is_narrow.then(|| raise("pci.link.width", Some(parts::device(device)), evidence))
    };
    // The functions of a card share its link.
    let mut ends = pci::lower_ends(devices(inventory));
    ends.dedup_by_key(|device| card(&device.address));
    ends.iter().filter_map(narrow).collect()
}

/// An address without its function: that of the card.
pub(crate) fn card(address: &str) -> &str {
    address.split_once('.').map_or(address, |(card, _)| card)
}

/// True if `device` is in `slot`: the names are equal, or the slot has the address of the device or of the port above
/// it.
fn is_in(device: &PciDevice, slot: &Slot) -> bool {
    let has_name = slot.designation.is_some() && slot.designation == device.slot;
    let has_address = slot.pci_address.as_deref().is_some_and(|address| {
        card(address) == card(&device.address) || Some(address) == device.parent.as_deref()
    });
    let is_empty = matches!(slot.usage.as_deref(), Some("available" | "unavailable"));
    has_name || (has_address && !is_empty)
}

/// Uncorrectable errors that devices counted.
pub(super) fn aer(inventory: &Inventory) -> Vec<Finding> {
    let counted = |device: &PciDevice| {
        let aer = device.aer.as_ref()?;
        let (code, n, what) = match (aer.n_fatal, aer.n_nonfatal) {
            (Some(n @ 1..), _) => ("pci.aer.fatal", n, "fatal"),
            (_, Some(n @ 1..)) => ("pci.aer.nonfatal", n, "nonfatal"),
            _ => return None,
        };
        let evidence = format!("{} counted {n} {what} PCIe errors since boot", name(device));
        Some(raise(code, Some(parts::device(device)), evidence))
    };
    devices(inventory).iter().filter_map(counted).collect()
}

/// Devices whose registers read as all ones. What is below such a device cannot respond either, and the functions of a
/// card fail together, so each fault is reported once.
pub(super) fn no_response(inventory: &Inventory) -> Vec<Finding> {
    let is_lost = |device: &&PciDevice| {
        device.link.as_ref().is_some_and(|link| link.reads_all_ones)
            // A device without power reads the same. Kernels before 5.8 do not report the power state.
            && device.power_state.as_deref() == Some("D0")
            && device.physical_function.is_none()
    };
    let mut lost: Vec<&PciDevice> = devices(inventory).iter().filter(is_lost).collect();
    let all: BTreeSet<&str> = lost.iter().map(|device| device.address.as_str()).collect();
    lost.retain(|device| !device.parent.as_deref().is_some_and(|above| all.contains(above)));
    lost.dedup_by_key(|device| card(&device.address));
    let finding = |device: &PciDevice| {
        let evidence = format!("{} has power, but its registers read as all ones", name(device));
        raise("pci.no_response", Some(parts::device(device)), evidence)
    };
    lost.into_iter().map(finding).collect()
}
