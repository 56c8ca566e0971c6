//! The parts of a machine that can be at fault, found by the names that findings use: slots, serial
//! numbers, kernel names and PCI addresses.

use std::collections::BTreeMap;

use super::{ReplaceableUnit, Suspect};
use crate::block::{Disk, DiskBay, RaidController};
use crate::collect::Inventory;
use crate::cpu::{Core, Socket};
use crate::cpuset::CpuSet;
use crate::findings::{Finding, disk_locator, drive_locator, slot_names, socket_of};
use crate::memory::{Dimm, candidates};
use crate::network::Interface;
use crate::pci::PciDevice;
use crate::pci_address::Address;

/// One part, as a suspect describes it.
struct Part {
    /// What makes it the same part, whatever source names it.
    key: String,
    name: String,
    label: Option<String>,
    fru: Option<ReplaceableUnit>,
}

/// The parts that were named so far.
pub(super) struct Parts<'a> {
    inventory: &'a Inventory,
    /// The name that is printed at each DIMM's slot.
    slots: Vec<Option<String>>,
    known: Vec<Part>,
    by_key: BTreeMap<String, usize>,
}

impl<'a> Parts<'a> {
    pub(super) fn new(inventory: &'a Inventory) -> Parts<'a> {
        let dimms = inventory.memory.as_ref().map_or(&[][..], |memory| &memory.dimms);
        let slots = slot_names(dimms);
        Parts { inventory, slots, known: Vec::new(), by_key: BTreeMap::new() }
    }

    pub(super) fn suspect(&self, part: usize, certainty_percent: u8) -> Option<Suspect> {
        let Part { name, label, fru, .. } = self.known.get(part)?;
        Some(Suspect {
            part: name.clone(),
            label: label.clone(),
            fru: fru.clone(),
            certainty_percent,
        })
    }

    fn add(&mut self, part: Part) -> usize {
        *self.by_key.entry(part.key.clone()).or_insert_with(|| {
            self.known.push(part);
            self.known.len() - 1
        })
    }

    /// A part that is known only by its name.
    pub(super) fn other(&mut self, name: &str, label: Option<&str>) -> usize {
        let label = label.map(str::to_owned);
        self.add(Part { key: name.to_owned(), name: name.to_owned(), label, fru: None })
    }

    /// The part that a finding about `component` means by `locator`.
    pub(super) fn named(&mut self, component: &str, locator: Option<&str>) -> Vec<usize> {
        let Some(locator) = locator else { return Vec::new() };
        let known = match component {
            "disk" => self.disk(locator).or_else(|| self.drive(locator)),
            "cpu" => self.socket(locator).or_else(|| self.logical_cpu(locator)),
            "power" => self.power_supply(locator),
            "firmware" => self.dimm_in(locator),
            _ => None,
        };
        let known = known.or_else(|| address_in(locator).and_then(|address| self.card(address)));
        vec![known.unwrap_or_else(|| {
            let kind = match component {
                "bmc" => "sensor",
                "power" => "power supply",
                "memory" => "memory module",
                "disk" => "device",
                other => other,
            };
            self.other(&format!("{kind} {locator}"), None)
        })]
    }

    /// The DIMMs that a finding suspects: the one in the slot of its locator or whose slot a sensor is
    /// named after, those that the driver's label may mean, or else all of them.
    pub(super) fn dimms(&mut self, finding: &Finding) -> Vec<usize> {
        let all = self.inventory.memory.as_ref().map_or(&[][..], |memory| &memory.dimms);
        let populated =
            || all.iter().enumerate().filter(|(_, dimm)| dimm.is_populated != Some(false));
        let mut found = Vec::new();
        if let Some(locator) = &finding.locator {
            let is_slot =
                |index: &usize| self.slots.get(*index).is_some_and(|s| s.as_ref() == Some(locator));
            let is_named = |dimm: &Dimm| {
                dimm.locator.as_ref().is_some_and(|name| contains_name(locator, name))
            };
            let exact: Vec<usize> = (0..all.len()).filter(is_slot).collect();
            let by_name = || populated().filter(|(_, dimm)| is_named(dimm)).map(|(index, _)| index);
            found = if exact.len() == 1 { exact } else { by_name().collect() };
        }
        if let (true, Some(memory)) = (found.is_empty(), &self.inventory.memory) {
            found = candidates(memory, &finding.evidence);
        }
        if found.is_empty() {
            found = populated().map(|(index, _)| index).collect();
        }
        let described: Vec<Part> =
            found.into_iter().filter_map(|index| self.dimm_part(all, index)).collect();
        described.into_iter().map(|part| self.add(part)).collect()
    }

    /// The DIMM in the only slot of this name.
    fn dimm_in(&mut self, slot: &str) -> Option<usize> {
        let all = self.inventory.memory.as_ref().map_or(&[][..], |memory| &memory.dimms);
        let mut named = (0..all.len()).filter(|index| {
            self.slots.get(*index).is_some_and(|name| name.as_deref() == Some(slot))
        });
        let (Some(index), None) = (named.next(), named.next()) else { return None };
        let part = self.dimm_part(all, index)?;
        Some(self.add(part))
    }

    fn dimm_part(&self, all: &[Dimm], index: usize) -> Option<Part> {
        let dimm = all.get(index)?;
        let label = self.slots.get(index).cloned().flatten();
        let name =
            label.clone().unwrap_or_else(|| format!("in slot {index} of the firmware's table"));
        Some(Part {
            key: format!("dimm {index}"),
            name: if name.starts_with("DIMM") { name } else { format!("DIMM {name}") },
            label,
            fru: unit([&dimm.manufacturer, &None, &dimm.part_number, &dimm.serial]),
        })
    }

    /// All sockets with a processor.
    pub(super) fn processors(&mut self) -> Vec<usize> {
        let sockets = self.inventory.cpu.iter().flat_map(|cpu| &cpu.sockets);
        let populated = sockets.filter(|socket| socket.is_populated != Some(false));
        let parts: Vec<Part> = populated.filter_map(socket_part).collect();
        parts.into_iter().map(|part| self.add(part)).collect()
    }

    fn socket(&mut self, locator: &str) -> Option<usize> {
        let mut sockets = self.inventory.cpu.iter().flat_map(|cpu| &cpu.sockets);
        let socket = sockets.find(|socket| socket.locator.as_deref() == Some(locator))?;
        socket_part(socket).map(|part| self.add(part))
    }

    /// The processor with a logical CPU: the one in its socket if that is certain, else its core as the kernel numbers
    /// it. The prefix keeps the CPU's number apart from sockets that are named `CPU 1`.
    fn logical_cpu(&mut self, locator: &str) -> Option<usize> {
        let number = locator.strip_prefix("logical CPU ")?;
        let place = socket_of(self.inventory, number);
        let core = core_of(self.inventory, number).map(|core| format!("core {core} of "));
        self.socket(&place).or_else(|| {
            let core = core.filter(|_| place.starts_with("package "))?;
            Some(self.other(&format!("{core}{place} ({locator})"), None))
        })
    }

    fn disk(&mut self, locator: &str) -> Option<usize> {
        let mut disks = self.inventory.block.iter().flat_map(|block| &block.disks);
        let disk = disks.find(|disk| disk.name == locator || disk_locator(disk) == locator)?;
        Some(self.add(disk_part(disk)))
    }

    /// A drive that a RAID controller hides.
    fn drive(&mut self, locator: &str) -> Option<usize> {
        let controllers = self.inventory.block.iter().flat_map(|block| &block.raid_controllers);
        let mut drives = controllers.flat_map(|controller| {
            RaidController::drives(controller).map(move |drive| (controller, drive))
        });
        let (controller, drive) =
            drives.find(|(controller, drive)| drive_locator(controller, drive) == locator)?;
        let place = locator.split_once(" (").map_or(locator, |(place, _)| place);
        let part = Part {
            key: locator.to_owned(),
            name: match place.strip_prefix("drive") {
                Some(_) => format!("{place} of RAID controller {}", controller.pci_address),
                None => format!("drive in {place} of RAID controller {}", controller.pci_address),
            },
            label: Some(place.to_owned()).filter(|place| place.starts_with("slot")),
            fru: unit([&drive.vendor, &drive.model, &None, &drive.serial]),
        };
        Some(self.add(part))
    }

    fn power_supply(&mut self, locator: &str) -> Option<usize> {
        let mut all = self.inventory.smbios.iter().flat_map(|table| &table.power_supplies);
        let supply = all.find(|supply| {
            supply.location.as_deref().or(supply.name.as_deref()) == Some(locator)
        })?;
        let part = Part {
            key: format!("power supply {locator}"),
            name: format!("power supply {locator}"),
            label: supply.location.clone(),
            fru: unit([&supply.manufacturer, &supply.name, &supply.part_number, &supply.serial]),
        };
        Some(self.add(part))
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
            return Some(self.add(disk_part(disk)));
        }
        let devices = self.inventory.pci.iter().flat_map(|pci| &pci.devices);
        let device = devices.clone().find(|device| device.address == address)?;
        let mut ports = self.inventory.network.iter().flat_map(|network| &network.interfaces);
        let port = ports.find(|port| is_here(&port.pci_address));
        let mut gpus = self.inventory.gpu.iter().flat_map(|gpu| &gpu.cards);
        let gpu = gpus.find(|gpu| gpu.address == address);
        let vpd = device.vpd.as_ref();
        let gpu_serial = gpu.and_then(|gpu| gpu.serial.clone());
        let described = Part {
            key: format!("card {}", card(address)),
            name: match (port, gpu) {
                (Some(port), _) => format!("NIC {} ({address})", port.name),
                (None, Some(_)) => format!("GPU {address}"),
                (None, None) => format!("PCI device {address}"),
            },
            label: place(device),
            fru: unit([
                &device.vendor_name,
                &device.device_name,
                &vpd.and_then(|vpd| vpd.part_number.clone()),
                &vpd.and_then(|vpd| vpd.serial.clone()).or(gpu_serial),
            ]),
        };
        Some(self.add(described))
    }

    /// The slot of the card that `locator` names.
    pub(super) fn slot_of(&mut self, locator: Option<&str>) -> Option<usize> {
        let address = locator.and_then(address_in)?;
        let mut devices = self.inventory.pci.iter().flat_map(|pci| &pci.devices);
        let slot = devices.find(|device| device.address == address)?.slot.as_ref()?;
        let label = format!("slot {slot}");
        Some(self.other(&format!("{label} or its riser"), Some(&label)))
    }

    /// The module or cable of the port that `locator` names.
    pub(super) fn module_of(&mut self, locator: Option<&str>) -> Option<usize> {
        let name = locator?.split(' ').next()?;
        let mut ports = self.inventory.network.iter().flat_map(|network| &network.interfaces);
        let port: &Interface = ports.find(|port| port.name == name)?;
        let module = port.module.as_ref()?;
        Some(self.add(Part {
            key: format!("module {name}"),
            name: format!("module or cable of {name}"),
            label: None,
            fru: unit([&module.vendor, &None, &module.part_number, &module.serial]),
        }))
    }
}

fn socket_part(socket: &Socket) -> Option<Part> {
    let locator = socket.locator.as_ref()?;
    Some(Part {
        key: format!("processor {locator}"),
        name: format!("processor {locator}"),
        label: Some(locator.clone()),
        fru: unit([&socket.manufacturer, &socket.version, &socket.part_number, &socket.serial]),
    })
}

/// The kernel's number of the core with a logical CPU.
fn core_of(inventory: &Inventory, number: &str) -> Option<i64> {
    let one = CpuSet::parse(number).ok()?;
    let mut cores = inventory.cpu.iter().flat_map(|cpu| &cpu.packages).flat_map(|p| &p.cores);
    let has_it =
        |core: &&Core| CpuSet::parse(&core.logical_cpus).is_ok_and(|cpus| cpus.contains_all(&one));
    cores.find(has_it)?.id
}

fn disk_part(disk: &Disk) -> Part {
    let bay = disk.bay.as_ref().and_then(DiskBay::name).map(|bay| format!("bay {bay}"));
    Part {
        key: format!("disk {}", disk.name),
        name: format!("disk {}", disk.name),
        label: bay,
        // The vendor of a SATA disk is always `ATA`.
        fru: unit([
            &disk.vendor.clone().filter(|vendor| vendor != "ATA"),
            &disk.model,
            &None,
            &disk.serial,
        ]),
    }
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

/// An address without its function.
fn card(address: &str) -> &str {
    address.split_once('.').map_or(address, |(card, _)| card)
}

/// The first PCI address in a text.
pub(super) fn address_in(text: &str) -> Option<&str> {
    let is_part = |c: char| c.is_ascii_hexdigit() || c == ':' || c == '.';
    let words = text.split(|c: char| !is_part(c)).map(|word| word.trim_end_matches([':', '.']));
    let mut addresses = words.filter(|word| Address::parse(word).is_some());
    addresses.next()
}

/// Whether `text` contains `name` as a word: next to it are no further letters or digits.
fn contains_name(text: &str, name: &str) -> bool {
    let is_edge = |c: Option<char>| c.is_none_or(|c| !c.is_ascii_alphanumeric());
    !name.is_empty()
        && text.match_indices(name).any(|(at, _)| {
            let before = text.get(..at).and_then(|text| text.chars().next_back());
            let after = text.get(at + name.len()..).and_then(|text| text.chars().next());
            is_edge(before) && is_edge(after)
        })
}
