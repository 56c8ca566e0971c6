//! Memory: error counts, mismatched DIMMs, memory that the kernel does not have.

use std::collections::{BTreeMap, BTreeSet};

use super::{Finding, hypervisor, of_each, raise};
use crate::collect::Inventory;
use crate::dmi::is_placeholder;
use crate::memory::{Dimm, EccCount, Memory, slot_of};
use crate::parts::{self, PartId};

/// Errors that the memory controllers counted, by DIMM, rank or controller.
pub(super) fn ecc(inventory: &Inventory) -> Vec<Finding> {
    let memory = inventory.memory.iter();
    memory.flat_map(|memory| memory.ecc.iter().filter_map(|row| counted(memory, row))).collect()
}

fn counted(memory: &Memory, row: &EccCount) -> Option<Finding> {
    let (code, n, what) = match (row.uncorrectable, row.correctable) {
        (Some(n @ 1..), _) => ("memory.ecc.uncorrectable", n, "uncorrectable"),
        (_, Some(n @ 1..)) => ("memory.ecc.correctable", n, "corrected"),
        _ => return None,
    };
    let slot = slot_of(row, &memory.dimms).and_then(|index| slot(&memory.dimms, index));
    let evidence = format!("{n} {what} memory errors since boot, counted at {}", place(row));
    let finding =
        Finding { driver_label: row.label.clone(), ..raise(code, slot.clone(), evidence) };
    let Some(slot) = slot else { return Some(finding) };
    let advice = match what {
        "corrected" => format!("Watch the count. If it grows, replace the DIMM in slot {slot}."),
        _ => format!("Replace the DIMM in slot {slot}, then check that the count stays at 0."),
    };
    Some(Finding { advice, ..finding })
}

/// Each DIMM and its slot.
fn named(inventory: &Inventory) -> impl Iterator<Item = (&Dimm, Option<PartId>)> {
    let dimms = inventory.memory.as_ref().map_or(&[][..], |memory| &memory.dimms);
    dimms.iter().zip(parts::dimms(dimms))
}

/// One slot.
pub(super) fn slot(dimms: &[Dimm], index: usize) -> Option<PartId> {
    parts::dimms(dimms).into_iter().nth(index).flatten()
}

/// Place at which the driver counted. Its label is not a slot name: most drivers compose it of numbers, such as
/// `CPU_SrcID#0_MC#1_Chan#0_DIMM#0`, which are printed nowhere.
fn place(row: &EccCount) -> String {
    let controller = row.controller.as_ref().map(|name| format!("controller {name}"));
    let label = row.label.as_ref().filter(|label| !label.is_empty());
    let label = label.map(|label| format!("driver label {label}"));
    // A row of the controller itself counts errors at no known DIMM.
    let unknown = !row.name.contains('/') && label.is_none();
    let unknown = unknown.then(|| "the controller does not identify the DIMM".to_owned());
    let parts = [Some(row.name.clone()), controller, row.location.clone(), label, unknown];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Errors that the firmware recorded for a module.
pub(super) fn firmware_error(inventory: &Inventory) -> Vec<Finding> {
    let finding = |(dimm, name): (&Dimm, Option<PartId>)| {
        let error = dimm.firmware_error.as_ref()?;
        let evidence = format!("the firmware recorded: {error}");
        Some(raise("memory.firmware_error", name, evidence))
    };
    named(inventory).filter_map(finding).collect()
}

/// NVDIMMs that lost data or cannot keep it.
pub(super) fn nvdimm(inventory: &Inventory) -> Vec<Finding> {
    let memory = inventory.memory.as_ref().and_then(|memory| memory.persistent.as_ref());
    let modules = memory.iter().flat_map(|memory| &memory.modules);
    of_each(modules, "memory.nvdimm.failed", parts::nvdimm, |module| {
        let bad = ["save_fail", "restore_fail", "flush_fail", "not_armed", "map_fail"];
        let flags = module.flags.iter().map(String::as_str);
        let flags: Vec<&str> = flags.filter(|flag| bad.contains(flag)).collect();
        (!flags.is_empty()).then(|| format!("the module reports {}", flags.join(", ")))
    })
}

/// True if a hypervisor made up the DIMMs of its guest. QEMU, for one, describes 40 GiB as two DIMMs of 16 GiB and one
/// of 8 GiB (`hw/smbios/smbios.c`), without serial numbers. DIMMs with serial numbers are those of a host that shows
/// its tables to the guest, or were described by hand.
fn are_made_up(inventory: &Inventory) -> bool {
    let is_real = |dimm: &Dimm| {
        let is_virtual = dimm.manufacturer.as_deref().is_some_and(|name| name.contains("Virtual"));
        dimm.serial.is_some() && !is_virtual
    };
    let mut dimms = inventory.memory.iter().flat_map(|memory| &memory.dimms);
    hypervisor(inventory).is_some() && !dimms.any(is_real)
}

/// Populated DIMMs that differ from the others of their kind in size or configured speed. Persistent
/// memory and HBM always differ from plain DIMMs, so kinds are compared apart.
pub(super) fn mismatch(inventory: &Inventory) -> Vec<Finding> {
    if are_made_up(inventory) {
        return Vec::new();
    }
    let mut groups: BTreeMap<_, Vec<(&Dimm, Option<PartId>)>> = BTreeMap::new();
    for (dimm, name) in named(inventory).filter(|(dimm, _)| dimm.size_bytes.is_some()) {
        groups.entry((&dimm.kind, &dimm.technology)).or_default().push((dimm, name));
    }
    groups.into_values().flat_map(odd_ones).collect()
}

/// The modules of one kind that differ from most of `populated`.
fn odd_ones(populated: Vec<(&Dimm, Option<PartId>)>) -> Vec<Finding> {
    let shape = |dimm: &Dimm| (dimm.size_bytes, dimm.configured_speed_mt_s);
    let mut n_of: BTreeMap<_, usize> = BTreeMap::new();
    for (dimm, _) in &populated {
        *n_of.entry(shape(dimm)).or_default() += 1;
    }
    let most = n_of.into_iter().max_by_key(|(_, n)| *n);
    // Two halves of different DIMMs are a valid configuration: neither half is the odd one.
    let most = most.filter(|(_, n)| n * 2 > populated.len());
    let Some((usual, n_usual)) = most else { return Vec::new() };
    let odd = populated.into_iter().filter(|(dimm, _)| is_other(shape(dimm), usual));
    let finding = |(dimm, name)| {
        let odd = shape(dimm);
        let unit = unit([odd.0, usual.0].into_iter().flatten());
        let (odd, usual) = (describe(odd, unit), describe(usual, unit));
        let evidence = format!("{odd}; {n_usual} other DIMMs have {usual}");
        raise("memory.dimm.mismatch", name, evidence)
    };
    odd.map(finding).collect()
}

/// An unknown speed is not a different speed.
fn is_other(one: (Option<u64>, Option<u32>), usual: (Option<u64>, Option<u32>)) -> bool {
    one.0 != usual.0 || one.1.zip(usual.1).is_some_and(|(speed, usual)| speed != usual)
}

/// The largest unit in which all sizes are whole numbers, so that they are easy to compare: its shift and its name.
pub(super) fn unit(mut sizes: impl Iterator<Item = u64>) -> (u32, &'static str) {
    if sizes.all(|bytes| bytes.is_multiple_of(1 << 30)) { (30, "GiB") } else { (20, "MiB") }
}

fn describe(
    (size_bytes, speed_mt_s): (Option<u64>, Option<u32>),
    (shift, unit): (u32, &str),
) -> String {
    let size = size_bytes.map(|bytes| format!("{} {unit}", bytes >> shift));
    let speed = speed_mt_s.map(|speed| format!("{speed} MT/s"));
    size.into_iter().chain(speed).collect::<Vec<_>>().join(" at ")
}

/// Installed memory that the kernel does not have, if it is a whole DIMM or more. Machines with
/// modules that need not become system memory are skipped.
pub(super) fn lost(inventory: &Inventory) -> Vec<Finding> {
    let Some(memory) = &inventory.memory else { return Vec::new() };
    // Without the section os nobody knows whether a hypervisor or the command line keeps memory back.
    let is_counted = inventory.os.is_some() && are_all_plain(memory) && !has_twins(memory);
    let totals = totals(memory).filter(|_| is_counted && !is_limited(inventory));
    let Some((installed, present, smallest)) = totals else { return Vec::new() };
    // A guest that has less than any of its DIMMs was given the table of another machine.
    let is_foreign = hypervisor(inventory).is_some() && present < smallest;
    if is_foreign || installed.saturating_sub(present) < smallest {
        return Vec::new();
    }
    let (installed, present) = (installed >> 20, present >> 20);
    let evidence = format!("{installed} MiB are installed, but the kernel has {present} MiB");
    vec![raise("memory.lost", None, evidence)]
}

/// True if the kernel has less memory on purpose: limited by a hypervisor for its guest, or by the kernel command line.
/// The first domain of Xen sees the DIMMs of the host, but gets a part of them.
pub(super) fn is_limited(inventory: &Inventory) -> bool {
    let line = inventory.os.as_ref().and_then(|os| os.command_line.as_deref());
    let mut arguments = line.unwrap_or_default().split_whitespace();
    let limits = ["mem=", "memmap="];
    are_made_up(inventory)
        || hypervisor(inventory) == Some("xen")
        || arguments.any(|argument| limits.iter().any(|limit| argument.starts_with(limit)))
}

/// True if two modules have one serial number: the firmware lists a module twice, so its sum is wrong.
fn has_twins(memory: &Memory) -> bool {
    let serials = memory.dimms.iter().filter_map(|dimm| dimm.serial.as_ref());
    let mut known = BTreeSet::new();
    serials.filter(|serial| !is_placeholder(serial)).any(|serial| !known.insert(serial))
}

/// True if all modules become memory of the system.
pub(super) fn are_all_plain(memory: &Memory) -> bool {
    memory.dimms.iter().all(|dimm| dimm.is_populated == Some(false) || is_plain(dimm))
}

/// True if a module is plain memory. Persistent memory may be a disk, or use plain memory as its cache; HBM may be the
/// cache of the other memory.
fn is_plain(dimm: &Dimm) -> bool {
    let technology = dimm.technology.as_deref().unwrap_or_default();
    let kind = dimm.kind.as_deref().unwrap_or_default();
    !technology.starts_with("NVDIMM")
        && !technology.starts_with("Intel Optane")
        && kind != "Logical non-volatile device"
        && !kind.starts_with("HBM")
}

fn totals(memory: &Memory) -> Option<(u64, u64, u64)> {
    let present = memory.kernel_present_bytes.or(memory.usable_bytes)?;
    // Some firmware lists the chip with its own code.
    let is_code = |dimm: &&Dimm| {
        dimm.kind.as_deref().is_some_and(|kind| kind == "Flash" || kind.ends_with("ROM"))
    };
    let modules = memory.dimms.iter().filter(|dimm| !is_code(dimm));
    let smallest = modules.filter_map(|dimm| dimm.size_bytes).min()?;
    Some((memory.installed_bytes?, present, smallest))
}
