//! The parts of an inventory, as findings name them. Source: the slots, bays, addresses and names in the inventory.

use std::collections::BTreeMap;

pub use formats::part::{Detail, PartId, PartKind};

use crate::block::{Disk, DiskBay, RaidController, RaidDrive, RaidVolume};
use crate::collect::Inventory;
use crate::cpuset::CpuSet;
use crate::memory::{Dimm, Nvdimm};
use crate::network::Interface;
use crate::pci::PciDevice;

/// A disk with its serial number and bay: the text on the label, and the place of the disk.
pub fn disk(disk: &Disk) -> PartId {
    let serial = disk.serial.clone().map(Detail::Serial);
    let bay = disk.bay.as_ref().and_then(DiskBay::name).map(Detail::Bay);
    PartId::new(PartKind::Disk, &disk.name).with(serial.into_iter().chain(bay))
}

/// A drive of a RAID controller, by slot and enclosure as they are printed.
pub fn drive(controller: &RaidController, drive: &RaidDrive) -> PartId {
    let place = match (drive.enclosure, drive.slot, drive.device_id) {
        (Some(enclosure), Some(slot), _) => format!("slot {slot} of enclosure {enclosure}"),
        (None, Some(slot), _) => format!("slot {slot}"),
        (_, None, Some(id)) => format!("drive {id}"),
        _ => format!("drive {}", drive.hctl.as_deref().unwrap_or_default()),
    };
    let serial = drive.serial.clone().map(Detail::Serial);
    let address = controller.pci_address.clone();
    PartId::new(PartKind::RaidDrive, format!("{address} {place}"))
        .named(place)
        .with(serial.into_iter().chain([Detail::Controller(address)]))
}

/// A volume of a RAID controller, with the disk that it is.
pub fn volume(controller: &RaidController, volume: &RaidVolume) -> PartId {
    let address = controller.pci_address.clone();
    let disk = volume.disk.clone().map(Detail::Other);
    PartId::new(PartKind::RaidVolume, format!("{address} {}", volume.id))
        .named(format!("volume {}", volume.id))
        .with(disk.into_iter().chain([Detail::Controller(address)]))
}

/// A RAID controller.
pub fn raid_controller(controller: &RaidController) -> PartId {
    let address = &controller.pci_address;
    PartId::new(PartKind::RaidController, address).named(format!("RAID controller {address}"))
}

/// The slot of each DIMM as it is printed, with its bank where several slots share the name.
pub fn dimms(dimms: &[Dimm]) -> Vec<Option<PartId>> {
    let mut n_slots: BTreeMap<&str, usize> = BTreeMap::new();
    for locator in dimms.iter().filter_map(|dimm| dimm.locator.as_deref()) {
        *n_slots.entry(locator).or_default() += 1;
    }
    let slot = |dimm: &Dimm| {
        let locator = dimm.locator.as_ref()?;
        Some(match &dimm.bank_locator {
            Some(bank) if n_slots.get(locator.as_str()) > Some(&1) => {
                PartId::new(PartKind::Dimm, format!("{locator} ({bank})"))
                    .named(locator)
                    .with([Detail::Other(bank.clone())])
            }
            _ => PartId::called(PartKind::Dimm, locator),
        })
    };
    dimms.iter().map(slot).collect()
}

/// A module of persistent memory.
pub fn nvdimm(module: &Nvdimm) -> PartId {
    let serial = module.serial.clone().map(Detail::Serial);
    PartId::new(PartKind::Nvdimm, &module.name).with(serial)
}

/// A network port with its PCI address.
pub fn port(nic: &Interface) -> PartId {
    let address = nic.pci_address.clone().map(Detail::Address);
    PartId::new(PartKind::Interface, &nic.name).with(address)
}

/// A PCI device by its slot, if that is known.
pub fn device(device: &PciDevice) -> PartId {
    let part = PartId::new(PartKind::Pci, &device.address);
    let address = [Detail::Address(device.address.clone())];
    match &device.slot {
        Some(slot) => part.named(format!("slot {slot}")).with(address),
        None => part,
    }
}

/// A logical CPU by its number. The text keeps it apart from sockets that are named `CPU 1`.
pub fn logical_cpu(number: &str) -> PartId {
    PartId::new(PartKind::LogicalCpu, number).named(format!("logical CPU {number}"))
}

/// A package by the kernel's order.
pub fn package(index: usize) -> PartId {
    PartId::new(PartKind::Package, index.to_string()).named(format!("package {index}"))
}

/// The socket of a logical CPU, if package and socket are certainly the same; else its package, or the CPU itself.
pub fn socket_of(inventory: &Inventory, number: &str) -> PartId {
    socket_or_package(inventory, number).unwrap_or_else(|| logical_cpu(number))
}

fn socket_or_package(inventory: &Inventory, number: &str) -> Option<PartId> {
    let (cpu, one) = (inventory.cpu.as_ref()?, number.parse().ok()?);
    let has_it = |cpus: &String| CpuSet::parse(cpus).is_ok_and(|set| set.contains(one));
    let mut packages = cpu.packages.iter();
    let index = packages.position(|p| p.cores.iter().any(|core| has_it(&core.logical_cpus)))?;
    let mut sockets = cpu.sockets.iter().filter(|socket| socket.is_populated != Some(false));
    // The order of packages and of sockets need not be the same: only a single one is certain.
    match (sockets.next(), sockets.next()) {
        (Some(only), None) => Some(PartId::called(PartKind::Socket, only.locator.as_ref()?)),
        _ => Some(package(index)),
    }
}
