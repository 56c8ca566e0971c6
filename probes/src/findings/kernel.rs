//! Faults that the kernel log reports, by the part that it names.

use std::collections::BTreeMap;

use super::disk::disks;
use super::{Finding, hypervisor, memory, nic, pci, raise};
use crate::block::Disk;
use crate::collect::Inventory;
use crate::kernel_log::KernelMessages;
use crate::memory::{slot_named, slot_of};
use crate::parts::{self, PartId, PartKind};

/// The codes of messages, in the order of their findings.
const CODES: [&str; 10] = [
    "disk.kernel_errors",
    "memory.kernel_errors",
    "cpu.kernel_errors",
    "cpu.thermal",
    "pci.kernel_errors",
    "nic.kernel_errors",
    "os.lockup",
    "firmware.bug",
    "pci.aer.fatal",
    "pci.aer.nonfatal",
];

/// One finding for each kind of message about one part.
pub(super) fn messages(inventory: &Inventory) -> Vec<Finding> {
    let groups = inventory.os.iter().flat_map(|os| &os.kernel_log);
    // Two names can mean one part: a disk and its controller, two CPUs of a package.
    let mut by_part: BTreeMap<(usize, String), (u32, Option<PartId>, &KernelMessages)> =
        BTreeMap::new();
    for group in groups {
        let Some(at) = CODES.iter().position(|code| *code == group.code) else { continue };
        let About::Part(part) = about(inventory, group) else { continue };
        let text = part.as_ref().map(PartId::to_string).unwrap_or_default();
        let known = by_part.entry((at, text)).or_insert((0, part, group));
        known.0 = known.0.saturating_add(group.n);
    }
    let mut found = Vec::new();
    for ((at, _), (n, part, group)) in by_part {
        let plural = if n == 1 { "" } else { "s" };
        let evidence = format!("{n} message{plural} in the kernel log, first: {}", group.first);
        found.extend(CODES.get(at).map(|code| Finding {
            raw: Some(group.first.clone()),
            driver_label: group.subject.clone(),
            ..raise(code, part, evidence)
        }));
    }
    found
}

/// Subject of messages.
enum About {
    /// This part, if it is known.
    Part(Option<PartId>),
    /// No fault of this machine.
    Nothing,
}

fn about(inventory: &Inventory, group: &KernelMessages) -> About {
    // The host of a guest can withhold its CPUs for seconds.
    if group.code == "os.lockup" && hypervisor(inventory).is_some() {
        return About::Nothing;
    }
    let Some(subject) = group.subject.as_deref() else { return About::Part(None) };
    // A part that is not in the list is none of this machine, but only if the list was read.
    let listed = |is_listed: bool, kind: PartKind, part: Option<PartId>| match part {
        None if is_listed => About::Nothing,
        part => About::Part(part.or_else(|| Some(PartId::called(kind, subject)))),
    };
    match group.code.as_str() {
        "disk.kernel_errors" => {
            let has_disks = inventory.block.as_ref().is_some_and(|block| block.n_disks.is_some());
            // Optical drives and floppies.
            let is_no_disk = subject.starts_with("sr") || subject.starts_with("fd");
            let is_listed = has_disks || is_no_disk;
            listed(is_listed, PartKind::Disk, disk(inventory, subject))
        }
        "nic.kernel_errors" => {
            let mut ports = nic::physical(inventory);
            let port = ports.find(|port| port.name == subject).map(parts::port);
            listed(inventory.network.is_some(), PartKind::Interface, port)
        }
        "memory.kernel_errors" => About::Part(slot(inventory, subject)),
        "cpu.kernel_errors" | "cpu.thermal" => {
            About::Part(Some(parts::socket_of(inventory, subject)))
        }
        "pci.kernel_errors" => About::Part(Some(device(inventory, subject))),
        "pci.aer.fatal" | "pci.aer.nonfatal" => {
            let part = device(inventory, subject);
            // The counter of the device, where there is one, has led to the same finding, or to a worse one.
            let is_counted = pci::aer(inventory).iter().any(|found| {
                let is_as_bad =
                    found.code.as_str() == group.code || group.code == "pci.aer.nonfatal";
                is_as_bad && found.locator.as_ref() == Some(&part)
            });
            if is_counted { About::Nothing } else { About::Part(Some(part)) }
        }
        _ => About::Part(None),
    }
}

/// A disk by its name or SCSI address, or by the name of a partition or of its NVMe controller. Optical drives,
/// floppies and media that have gone are not disks of the machine. A port or controller without a disk keeps its name.
fn disk(inventory: &Inventory, subject: &str) -> Option<PartId> {
    let block = inventory.block.as_ref()?;
    let controller = block.nvme_controllers.iter().find(|one| one.name == subject);
    let is_it =
        |name: &str, hctl: &Option<String>| name == subject || hctl.as_deref() == Some(subject);
    let is_meant = |disk: &&Disk| {
        is_it(&disk.name, &disk.hctl)
            || disk.partitions.iter().any(|partition| partition.name == subject)
            || disk.paths.iter().any(|path| is_it(&path.name, &path.hctl))
            || controller.is_some_and(|one| one.namespaces.contains(&disk.name))
    };
    let Some(disk) = disks(inventory).iter().find(is_meant) else {
        let is_port = subject.starts_with("ata") || subject.starts_with("nvme");
        return is_port.then(|| PartId::called(PartKind::Disk, subject));
    };
    (disk.is_storage() && disk.is_removable != Some(true)).then(|| parts::disk(disk))
}

/// The slot of the DIMM that the memory controller's driver or the firmware names.
fn slot(inventory: &Inventory, label: &str) -> Option<PartId> {
    let memory = inventory.memory.as_ref()?;
    let index = match memory.ecc.iter().find(|row| row.label.as_deref() == Some(label)) {
        // It knows more than the name, such as a size that belongs to no such slot.
        Some(row) => slot_of(row, &memory.dimms),
        None => slot_named(label, &memory.dimms),
    };
    memory::slot(&memory.dimms, index?)
}

/// The device at an address; NVIDIA's driver leaves out the function.
fn device(inventory: &Inventory, subject: &str) -> PartId {
    let devices = inventory.pci.as_ref().map_or(&[][..], |pci| &pci.devices);
    let subject = subject.to_ascii_lowercase();
    let with_function = format!("{subject}.0");
    let device = devices.iter().find(|d| d.address == subject || d.address == with_function);
    device.map_or_else(|| PartId::called(PartKind::Pci, &subject), parts::device)
}
