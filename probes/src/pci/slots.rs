//! Physical slots: `/sys/bus/pci/slots` (`Documentation/ABI/testing/sysfs-bus-pci`), and the names
//! that the firmware prints in SMBIOS type 9 where the kernel knows no slots.

use std::collections::{BTreeMap, BTreeSet};

use super::{Address, Pci};
use crate::machine::Machine;
use crate::smbios;

/// Names of the kernel's slots by the address of what is in them, without function.
pub(super) fn by_address(machine: &Machine) -> BTreeMap<String, String> {
    let mut slots = BTreeMap::new();
    for name in machine.list("sys/bus/pci/slots") {
        if let Some(text) = machine.text(&format!("sys/bus/pci/slots/{name}/address")) {
            let device = text.trim().split('.').next().unwrap_or_default().to_ascii_lowercase();
            slots.entry(device).or_insert(name);
        }
    }
    slots
}

/// The slots in use that the firmware names: address and designation (SMBIOS type 9).
pub(super) fn firmware_names(machine: &Machine) -> Vec<(String, String)> {
    let slots = smbios::read(machine).map(|table| smbios::slots(&table));
    let pair = |slot: smbios::Slot| Some((slot.pci_address?, slot.designation?));
    slots.unwrap_or_default().into_iter().filter_map(pair).collect()
}

/// Gives devices that are in no slot of the kernel the name that the firmware gives the slot:
/// `names` are pairs of a PCI address and a designation. Makers write the address of the card, or
/// that of the port above it; an address that several slots claim names none of them.
pub fn name_slots(pci: &mut Pci, names: &[(String, String)]) {
    let device = |address: &str| Address::parse(address).map(Address::without_function);
    let mut by_device: BTreeMap<String, &str> = BTreeMap::new();
    let mut twice = BTreeSet::new();
    for (address, name) in names {
        let Some(address) = device(address) else { continue };
        if by_device.get(&address).is_some_and(|other| other != name) {
            twice.insert(address.clone());
        }
        by_device.insert(address, name);
    }
    by_device.retain(|address, _| !twice.contains(address));
    let is_bridge = |class: Option<&str>| class == Some("0604");
    let ports: BTreeSet<String> = pci
        .devices
        .iter()
        .filter(|port| is_bridge(port.class.as_deref()))
        .map(|port| port.address.clone())
        .collect();
    for entry in pci.devices.iter_mut().filter(|entry| entry.slot.is_none()) {
        let own = device(&entry.address).and_then(|own| by_device.get(&own));
        let port = entry.parent.as_ref().filter(|parent| ports.contains(*parent));
        let above = port.and_then(|port| device(port)).and_then(|port| by_device.get(&port));
        entry.slot = own.or(above).map(|name| (*name).to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pci::PciDevice;

    fn device(address: &str, class: &str, parent: Option<&str>) -> PciDevice {
        PciDevice {
            address: address.to_owned(),
            class: Some(class.to_owned()),
            parent: parent.map(str::to_owned),
            ..PciDevice::default()
        }
    }

    fn pair(address: &str, name: &str) -> (String, String) {
        (address.to_owned(), name.to_owned())
    }

    #[test]
    fn the_firmware_names_a_slot_by_its_card_or_by_the_port_above_it() {
        let mut pci = Pci {
            n_devices: Some(4),
            devices: vec![
                device("0000:00:01.0", "0604", None),
                device("0000:3b:00.0", "0200", Some("0000:3a:00.0")),
                device("0000:3b:00.1", "0200", Some("0000:3a:00.0")),
                device("0000:01:00.0", "0108", Some("0000:00:01.0")),
            ],
        };
        pci.devices[2].slot = Some("the kernel's".to_owned());
        name_slots(&mut pci, &[pair("0000:3b:00.0", "PCIe 3"), pair("0000:00:01.0", "NVMe 1")]);
        let slots: Vec<_> = pci.devices.iter().map(|device| device.slot.as_deref()).collect();
        assert_eq!(slots, [Some("NVMe 1"), Some("PCIe 3"), Some("the kernel's"), Some("NVMe 1")]);
    }

    #[test]
    fn an_address_that_two_slots_claim_names_neither() {
        let mut pci =
            Pci { n_devices: Some(1), devices: vec![device("0000:00:00.0", "0600", None)] };
        name_slots(
            &mut pci,
            &[pair("0000:00:00.0", "1"), pair("0000:00:00.0", "2"), pair("x", "3")],
        );
        assert_eq!(pci.devices[0].slot, None);
    }
}
