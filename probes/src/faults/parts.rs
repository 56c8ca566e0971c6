//! The parts of a machine that can be at fault, found by the kind and key that findings have of them.

use std::collections::BTreeMap;

use formats::text::contains_word;

use super::{ReplaceableUnit, Suspect};
use crate::block::{Disk, RaidController};
use crate::collect::Inventory;
use crate::cpu::{Core, Socket};
use crate::cpuset::CpuSet;
use crate::findings::{Finding, card};
use crate::memory::{Dimm, candidates};
use crate::parts::{self, Detail, PartId, PartKind};
use crate::pci::PciDevice;

/// The registry of the parts that were named so far: kind, key, place and the unit to replace.
pub(super) struct Parts<'a> {
    inventory: &'a Inventory,
    /// The slot of each DIMM as it is printed.
    slots: Vec<Option<PartId>>,
    known: Vec<Suspect>,
    by_id: BTreeMap<(PartKind, String), usize>,
}

impl<'a> Parts<'a> {
    pub(super) fn new(inventory: &'a Inventory) -> Parts<'a> {
        let slots = parts::dimms(dimms(inventory));
        Parts { inventory, slots, known: Vec::new(), by_id: BTreeMap::new() }
    }

    pub(super) fn suspect(&self, part: usize, certainty_percent: u8) -> Option<Suspect> {
        Some(Suspect { certainty_percent, ..self.known.get(part)?.clone() })
    }

    /// Adds a part, whose name is that of the suspect, with the text printed at its place.
    fn add(&mut self, id: PartId, label: Option<String>, fru: Option<ReplaceableUnit>) -> usize {
        *self.by_id.entry((id.kind, id.key)).or_insert_with(|| {
            self.known.push(Suspect { part: id.name, label, fru, certainty_percent: 0 });
            self.known.len() - 1
        })
    }

    /// A part that is known only by its name.
    pub(super) fn other(&mut self, name: &str, label: Option<&str>) -> usize {
        self.add(PartId::new(PartKind::Other, name), label.map(str::to_owned), None)
    }

    /// The part that a finding is about.
    pub(super) fn named(&mut self, finding: &Finding) -> Vec<usize> {
        let Some(part) = &finding.locator else { return Vec::new() };
        let known = match part.kind {
            PartKind::Disk => self.disk(&part.key),
            PartKind::RaidDrive => self.drive(part),
            PartKind::Socket => self.socket(&part.key),
            PartKind::LogicalCpu => self.logical_cpu(part),
            PartKind::PowerSupply => self.power_supply(&part.key),
            PartKind::Dimm => self.only_dimm(part),
            _ => part.pci_address().and_then(|address| self.card(address)),
        };
        vec![known.unwrap_or_else(|| {
            let kind = match finding.component.as_str() {
                "bmc" => "sensor",
                "power" => "power supply",
                "memory" => "memory module",
                "disk" => "device",
                other => other,
            };
            self.other(&format!("{kind} {part}"), None)
        })]
    }

    /// The DIMMs that a finding suspects: the one in its slot or whose slot a sensor is named after, those that the
    /// driver's label may mean, or else all of them.
    pub(super) fn dimms(&mut self, finding: &Finding) -> Vec<usize> {
        let all = dimms(self.inventory);
        let populated =
            || all.iter().enumerate().filter(|(_, dimm)| dimm.is_populated != Some(false));
        let mut found = Vec::new();
        if let Some(part) = &finding.locator {
            let is_named =
                |name: &String| part.kind == PartKind::Dimm && contains_word(&part.key, name);
            found = self.slots_of(part);
            if found.len() != 1 {
                let by_name =
                    populated().filter(|(_, dimm)| dimm.locator.as_ref().is_some_and(is_named));
                found = by_name.map(|(index, _)| index).collect();
            }
        }
        let label = finding.driver_label.as_deref().filter(|_| found.is_empty());
        if let (Some(label), Some(memory)) = (label, &self.inventory.memory) {
            found = candidates(memory, label);
        }
        if found.is_empty() {
            found = populated().map(|(index, _)| index).collect();
        }
        found.into_iter().filter_map(|index| self.dimm(index)).collect()
    }

    /// The slots of this name.
    fn slots_of(&self, part: &PartId) -> Vec<usize> {
        let slots = self.slots.iter().enumerate();
        let meant = slots.filter(|(_, slot)| slot.as_ref().is_some_and(|slot| slot.is(part)));
        meant.map(|(index, _)| index).collect()
    }

    /// The DIMM in the only slot of this name.
    fn only_dimm(&mut self, part: &PartId) -> Option<usize> {
        let [index] = self.slots_of(part)[..] else { return None };
        self.dimm(index)
    }

    fn dimm(&mut self, index: usize) -> Option<usize> {
        let dimm = dimms(self.inventory).get(index)?;
        let label = self.slots.get(index)?.as_ref().map(PartId::to_string);
        let name =
            label.clone().unwrap_or_else(|| format!("in slot {index} of the firmware's table"));
        let name = if name.starts_with("DIMM") { name } else { format!("DIMM {name}") };
        let id = PartId::new(PartKind::Dimm, index.to_string()).named(name);
        let fru = unit([&dimm.manufacturer, &None, &dimm.part_number, &dimm.serial]);
        Some(self.add(id, label, fru))
    }

    /// All sockets with a processor.
    pub(super) fn processors(&mut self) -> Vec<usize> {
        let sockets = self.inventory.cpu.iter().flat_map(|cpu| &cpu.sockets);
        let populated = sockets.filter(|socket| socket.is_populated != Some(false));
        populated.filter_map(|socket| self.processor(socket)).collect()
    }

    fn socket(&mut self, locator: &str) -> Option<usize> {
        let mut sockets = self.inventory.cpu.iter().flat_map(|cpu| &cpu.sockets);
        let socket = sockets.find(|socket| socket.locator.as_deref() == Some(locator))?;
        self.processor(socket)
    }

    fn processor(&mut self, socket: &Socket) -> Option<usize> {
        let locator = socket.locator.as_ref()?;
        let id = PartId::new(PartKind::Socket, locator).named(format!("processor {locator}"));
        let fru =
            unit([&socket.manufacturer, &socket.version, &socket.part_number, &socket.serial]);
        Some(self.add(id, Some(locator.clone()), fru))
    }

    /// The processor with a logical CPU: the one in its socket if that is certain, else its core as the kernel numbers it.
    fn logical_cpu(&mut self, cpu: &PartId) -> Option<usize> {
        let place = parts::socket_of(self.inventory, &cpu.key);
        match place.kind {
            PartKind::Socket => self.socket(&place.key),
            PartKind::Package => {
                let core = core_of(self.inventory, &cpu.key)?;
                Some(self.other(&format!("core {core} of {place} ({cpu})"), None))
            }
            _ => None,
        }
    }

    fn disk(&mut self, name: &str) -> Option<usize> {
        let mut disks = self.inventory.block.iter().flat_map(|block| &block.disks);
        disks.find(|disk| disk.name == name).map(|disk| self.drive_of(disk))
    }

    fn drive_of(&mut self, disk: &Disk) -> usize {
        let id = PartId::new(PartKind::Disk, &disk.name).named(format!("disk {}", disk.name));
        // The vendor of a SATA disk is always `ATA`.
        let vendor = disk.vendor.clone().filter(|vendor| vendor != "ATA");
        let label = parts::disk(disk).bay().map(Detail::to_string);
        self.add(id, label, unit([&vendor, &disk.model, &None, &disk.serial]))
    }

    /// A drive that a RAID controller hides.
    fn drive(&mut self, part: &PartId) -> Option<usize> {
        let controllers = self.inventory.block.iter().flat_map(|block| &block.raid_controllers);
        let mut drives = controllers.flat_map(|controller| {
            RaidController::drives(controller).map(move |drive| (controller, drive))
        });
        let (controller, drive) =
            drives.find(|(controller, drive)| parts::drive(controller, drive) == *part)?;
        let (place, is_slot) = (&part.name, drive.slot.is_some());
        let place_of = if is_slot { "drive in " } else { "" };
        let name = format!("{place_of}{place} of RAID controller {}", controller.pci_address);
        let id = PartId::new(PartKind::RaidDrive, part.to_string()).named(name);
        let fru = unit([&drive.vendor, &drive.model, &None, &drive.serial]);
        Some(self.add(id, is_slot.then(|| place.clone()), fru))
    }

    fn power_supply(&mut self, name: &str) -> Option<usize> {
        let mut all = self.inventory.smbios.iter().flat_map(|table| &table.power_supplies);
        let supply =
            all.find(|supply| supply.location.as_deref().or(supply.name.as_deref()) == Some(name))?;
        let id = PartId::new(PartKind::PowerSupply, name).named(format!("power supply {name}"));
        let fru = unit([&supply.manufacturer, &supply.name, &supply.part_number, &supply.serial]);
        Some(self.add(id, supply.location.clone(), fru))
    }

    /// The card with the function at `address`; an NVMe drive is the disk that it holds.
    pub(super) fn card(&mut self, address: &str) -> Option<usize> {
        let is_here = |other: &Option<String>| {
            other.as_deref().is_some_and(|other| card(other) == card(address))
        };
        let mut disks = self.inventory.block.iter().flat_map(|block| &block.disks);
        let is_drive =
            |disk: &&Disk| disk.transport.as_deref() == Some("nvme") && is_here(&disk.pci_address);
        if let Some(disk) = disks.find(is_drive) {
            return Some(self.drive_of(disk));
        }
        let devices = self.inventory.pci.iter().flat_map(|pci| &pci.devices);
        let device = devices.clone().find(|device| device.address == address)?;
        let mut ports = self.inventory.network.iter().flat_map(|network| &network.interfaces);
        let port = ports.find(|port| is_here(&port.pci_address));
        let mut gpus = self.inventory.gpu.iter().flat_map(|gpu| &gpu.cards);
        let gpu = gpus.find(|gpu| gpu.address == address);
        let (part_number, serial) = match &device.vpd {
            Some(vpd) => (vpd.part_number.clone(), vpd.serial.clone()),
            None => (None, None),
        };
        let serial = serial.or_else(|| gpu?.serial.clone());
        let name = match (port, gpu) {
            (Some(port), _) => format!("NIC {} ({address})", port.name),
            (None, Some(_)) => format!("GPU {address}"),
            (None, None) => format!("PCI device {address}"),
        };
        let id = PartId::new(PartKind::Pci, card(address)).named(name);
        let fru = unit([&device.vendor_name, &device.device_name, &part_number, &serial]);
        Some(self.add(id, place(device), fru))
    }

    /// The slot of the card that a finding is about.
    pub(super) fn slot_of(&mut self, finding: &Finding) -> Option<usize> {
        let address = finding.locator.as_ref()?.pci_address()?;
        let mut devices = self.inventory.pci.iter().flat_map(|pci| &pci.devices);
        let slot = devices.find(|device| device.address == address)?.slot.as_ref()?;
        let label = format!("slot {slot}");
        Some(self.other(&format!("{label} or its riser"), Some(&label)))
    }

    /// The module or cable of the port that a finding is about.
    pub(super) fn module_of(&mut self, finding: &Finding) -> Option<usize> {
        let part = finding.locator.as_ref().filter(|part| part.kind == PartKind::Interface)?;
        let mut ports = self.inventory.network.iter().flat_map(|network| &network.interfaces);
        let module = ports.find(|port| port.name == part.key)?.module.as_ref()?;
        let name = format!("module or cable of {}", part.key);
        let id = PartId::new(PartKind::Interface, &part.key).named(name);
        let fru = unit([&module.vendor, &None, &module.part_number, &module.serial]);
        Some(self.add(id, None, fru))
    }
}

fn dimms(inventory: &Inventory) -> &[Dimm] {
    inventory.memory.as_ref().map_or(&[], |memory| &memory.dimms)
}

/// The kernel's number of the core with a logical CPU.
fn core_of(inventory: &Inventory, number: &str) -> Option<i64> {
    let one = CpuSet::parse(number).ok()?;
    let mut cores = inventory.cpu.iter().flat_map(|cpu| &cpu.packages).flat_map(|p| &p.cores);
    let has_it =
        |core: &&Core| CpuSet::parse(&core.logical_cpus).is_ok_and(|cpus| cpus.contains_all(&one));
    cores.find(has_it)?.id
}

/// Manufacturer, model, part number and serial number; `None` if all are unknown.
fn unit(
    [manufacturer, model, part_number, serial]: [&Option<String>; 4],
) -> Option<ReplaceableUnit> {
    let unit = ReplaceableUnit {
        manufacturer: manufacturer.clone(),
        model: model.clone(),
        part_number: part_number.clone(),
        serial: serial.clone(),
    };
    (unit != ReplaceableUnit::default()).then_some(unit)
}

/// The slot of a card, or the firmware's name of an on-board device.
fn place(device: &PciDevice) -> Option<String> {
    let slot = device.slot.as_ref().map(|slot| format!("slot {slot}"));
    slot.or_else(|| device.label.clone())
}
