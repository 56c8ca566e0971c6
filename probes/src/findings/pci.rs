//! PCI: links narrower than both ends allow, errors that the devices counted.

use super::{Finding, Severity};
use crate::collect::Inventory;
use crate::pci::PciDevice;

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

/// A link that uses fewer lanes than device and port both have. The speed may be low because the
/// link is idle (ASPM, GPU power states), so speed alone is no finding.
pub(super) fn link(inventory: &Inventory) -> Vec<Finding> {
    let narrow = |device: &PciDevice| {
        let link = device.link.as_ref()?;
        let (current, possible) = (link.current_width?, link.possible_width?);
        (current > 0 && current < possible).then(|| Finding {
            code: "pci.link.width".to_owned(),
            severity: Severity::Warning,
            component: "pci".to_owned(),
            locator: Some(locator(device)),
            evidence: format!("{} runs on x{current}, x{possible} is possible", name(device)),
            advice: "reseat the card or riser; if it stays, try another slot".to_owned(),
        })
    };
    devices(inventory).iter().filter_map(narrow).collect()
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
