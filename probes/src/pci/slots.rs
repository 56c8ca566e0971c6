//! Physical slots: `/sys/bus/pci/slots` (`Documentation/ABI/testing/sysfs-bus-pci`), and the names
//! from SMBIOS type 9 if the kernel knows no slots.

use std::collections::{BTreeMap, BTreeSet};

use super::{Address, Pci};
use crate::machine::Machine;
use crate::smbios;

/// Names of the kernel's slots by the address of the device in them, without function.
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
    slots.unwrap_or_default().into_iter().filter_map(named).collect()
}

/// The address of an empty slot belongs to no device, or by chance to an unrelated one.
fn named(slot: smbios::Slot) -> Option<(String, String)> {
    let is_empty = matches!(slot.usage.as_deref(), Some("available" | "unavailable"));
    Some((slot.pci_address.filter(|_| !is_empty)?, slot.designation?))
}

/// Names the slots of devices that are in no slot of the kernel after the firmware's table: `names` are pairs of a PCI
/// address and a designation. Vendors write the address of the card or the port above it; an address that several slots
/// claim is ignored.
pub fn name_slots(pci: &mut Pci, names: &[(String, String)]) {
    let bridges = pci.devices.iter().filter(|port| port.class.as_deref() == Some("0604"));
    let ports: BTreeSet<Address> =
        bridges.filter_map(|port| Address::parse(&port.address)).collect();
    // The functions of a card share its slot; those of a root complex are separate ports.
    let place = |address: Address| {
        let function = if ports.contains(&address) { address.function } else { 0 };
        (ports.contains(&address), Address { function, ..address })
    };
    let mut by_place: BTreeMap<(bool, Address), Option<&str>> = BTreeMap::new();
    for (address, name) in names {
        let Some(address) = Address::parse(address) else { continue };
        let known = by_place.entry(place(address)).or_insert(Some(name));
        *known = known.filter(|other| other == name);
    }
    let name_at = |address: &str| *by_place.get(&place(Address::parse(address)?))?;
    for entry in pci.devices.iter_mut().filter(|entry| entry.slot.is_none()) {
        let is_port = |parent: &&String| Address::parse(parent).is_some_and(|a| ports.contains(&a));
        let above = || entry.parent.as_ref().filter(is_port).and_then(|port| name_at(port));
        entry.slot = name_at(&entry.address).or_else(above).map(str::to_owned);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pci::PciDevice;

    /// The slots of devices with these addresses, classes and parents (`-` for none) after the firmware's names. The
    /// kernel has named that of the address `kernels`.
    fn slots(devices: &[&str], kernels: &str, names: &[(&str, &str)]) -> Vec<Option<String>> {
        let device = |device: &&str| {
            let [address, class, parent] = device.split(' ').collect::<Vec<_>>()[..] else {
                panic!()
            };
            PciDevice {
                address: address.to_owned(),
                class: Some(class.to_owned()),
                parent: Some(parent.to_owned()).filter(|parent| parent != "-"),
                slot: (address == kernels).then(|| "the kernel's".to_owned()),
                ..PciDevice::default()
            }
        };
        let devices: Vec<PciDevice> = devices.iter().map(device).collect();
        let mut pci = Pci { n_devices: Some(devices.len()), devices };
        let names = names.iter().map(|(address, name)| ((*address).to_owned(), (*name).to_owned()));
        name_slots(&mut pci, &names.collect::<Vec<_>>());
        pci.devices.into_iter().map(|device| device.slot).collect()
    }

    fn named(names: &[Option<&str>]) -> Vec<Option<String>> {
        names.iter().map(|name| name.map(str::to_owned)).collect()
    }

    #[test]
    fn firmware_names_a_slot_by_its_card_or_the_port_above() {
        let devices = [
            "0000:00:01.0 0604 -",
            "0000:3b:00.0 0200 0000:3a:00.0",
            "0000:3b:00.1 0200 0000:3a:00.0",
            "0000:01:00.0 0108 0000:00:01.0",
        ];
        let names = [("0000:3b:00.0", "PCIe 3"), ("0000:00:01.0", "NVMe 1")];
        let expected = [Some("NVMe 1"), Some("PCIe 3"), Some("the kernel's"), Some("NVMe 1")];
        assert_eq!(slots(&devices, "0000:3b:00.1", &names), named(&expected));
    }

    #[test]
    fn root_port_has_its_own_slot_not_its_neighbours() {
        let devices = [
            "0000:00:1c.0 0604 -",
            "0000:00:1c.4 0604 -",
            "0000:02:00.0 0200 0000:00:1c.0",
            "0000:03:00.0 0200 0000:00:1c.4",
            "0000:00:1c.7 0c05 -",
        ];
        let expected = [Some("Slot 1"), None, Some("Slot 1"), None, None];
        assert_eq!(slots(&devices, "", &[("0000:00:1c.0", "Slot 1")]), named(&expected));
    }

    #[test]
    fn empty_slot_names_no_device() {
        let slot = |usage: Option<&str>| smbios::Slot {
            designation: Some("PCIe 1".to_owned()),
            pci_address: Some("0000:3b:00.0".to_owned()),
            usage: usage.map(str::to_owned),
            ..smbios::Slot::default()
        };
        for (usage, is_named) in [
            (Some("available"), false),
            (Some("unavailable"), false),
            (Some("in use"), true),
            (None, true),
        ] {
            assert_eq!(super::named(slot(usage)).is_some(), is_named, "{usage:?}");
        }
    }

    #[test]
    fn address_claimed_by_two_slots_names_neither() {
        let names = [("0000:00:00.0", "1"), ("0000:00:00.0", "2"), ("x", "3")];
        assert_eq!(slots(&["0000:00:00.0 0600 -"], "", &names), [None]);
    }
}
