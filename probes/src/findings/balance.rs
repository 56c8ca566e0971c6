//! Memory that is spread unevenly: over the sockets, or over the channels of a memory controller.

use std::collections::BTreeMap;

use super::memory::{are_all_plain, is_limited};
use super::{Finding, Severity, hypervisor, raise};
use crate::collect::Inventory;
use crate::cpu::{Cpu, Package};
use crate::cpuset::CpuSet;
use crate::memory::Memory;
use crate::parts;
use crate::topology::Node;

/// Sockets with different amounts of memory, and controllers whose channels differ. The memory of a guest is its host's
/// choice.
pub(super) fn uneven(inventory: &Inventory) -> Vec<Finding> {
    let Some(memory) = &inventory.memory else { return Vec::new() };
    if hypervisor(inventory).is_some() || is_limited(inventory) || !are_all_plain(memory) {
        return Vec::new();
    }
    let sockets = sockets(inventory, memory);
    sockets.into_iter().chain(channels(memory)).collect()
}

/// The package with the least memory, if it lacks about a DIMM or more. What the firmware reserves is missing from one
/// package only, so a little less than a DIMM counts.
fn sockets(inventory: &Inventory, memory: &Memory) -> Option<Finding> {
    let smallest = memory.dimms.iter().filter_map(|dimm| dimm.size_bytes).min()?;
    let nodes = inventory.topology.as_ref()?.nodes.as_ref()?;
    let sums = by_package(inventory.cpu.as_ref()?, nodes, memory)?;
    let (least, most) = (*sums.iter().min()?, *sums.iter().max()?);
    if most - least < smallest / 4 * 3 {
        return None;
    }
    let poorest = sums.iter().position(|sum| *sum == least)?;
    let texts = sums.iter().enumerate();
    let texts: Vec<String> =
        texts.map(|(at, sum)| format!("package {at} has {} MiB", sum >> 20)).collect();
    Some(raise("memory.unbalanced", Some(parts::package(poorest)), texts.join(", ")))
}

/// The memory of each package; `None` unless every node with CPUs certainly belongs to one package.
fn by_package(cpu: &Cpu, nodes: &[Node], memory: &Memory) -> Option<Vec<u64>> {
    let present = &memory.kernel_present_bytes_by_node;
    let packages: Vec<CpuSet> = cpu.packages.iter().map(cpus).collect::<Option<_>>()?;
    let mut sums = vec![None; packages.len()];
    // Memory without CPUs, such as that of CXL devices, is no socket's.
    for node in nodes.iter().filter(|node| node.has_cpu != Some(false)) {
        let own = CpuSet::parse(node.cpus.as_deref()?).ok()?;
        let at = packages.iter().position(|package| package.contains_all(&own))?;
        let sum: &mut Option<u64> = sums.get_mut(at)?;
        // The list has every node with present pages, so a node that it lacks has none.
        let bytes = present.get(&node.id).copied().unwrap_or_default();
        *sum = Some(sum.unwrap_or_default().checked_add(bytes)?);
    }
    sums.into_iter().collect::<Option<Vec<u64>>>().filter(|_| !present.is_empty())
}

fn cpus(package: &Package) -> Option<CpuSet> {
    let mut all = CpuSet::default();
    for core in &package.cores {
        all.insert_all(&CpuSet::parse(&core.logical_cpus).ok()?);
    }
    (!all.is_empty()).then_some(all)
}

/// Controllers whose channels differ. A note only: it costs bandwidth, and nothing is missing for certain.
fn channels(memory: &Memory) -> Option<Finding> {
    let mut controllers: BTreeMap<&str, BTreeMap<String, u64>> = BTreeMap::new();
    for row in &memory.ecc {
        // A row without a DIMM counts the errors of its controller.
        let Some((controller, _)) = row.name.split_once('/') else { continue };
        let channel = channel(row.location.as_deref()?)?;
        let sum = controllers.entry(controller).or_default().entry(channel).or_default();
        *sum = sum.checked_add(row.size_bytes?)?;
    }
    let uneven = controllers.iter().filter(|(_, sums)| sums.values().min() != sums.values().max());
    let uneven = uneven.map(|(controller, sums)| {
        let (shift, unit) = super::memory::unit(sums.values().copied());
        let sums = sums.iter().map(|(name, sum)| format!("{name} has {} {unit}", sum >> shift));
        format!("{controller}: {}", sums.collect::<Vec<_>>().join(", "))
    });
    let uneven: Vec<String> = uneven.collect();
    let finding = raise("memory.unbalanced", None, uneven.join("; "));
    (!uneven.is_empty()).then_some(Finding { severity: Severity::Info, ..finding })
}

/// `channel 1` of `channel 1 slot 0` or `csrow 2 channel 1`; `None` for a location without a channel.
fn channel(location: &str) -> Option<String> {
    let words: Vec<&str> = location.split_whitespace().collect();
    let pairs = words.chunks(2).filter(|pair| !matches!(pair.first(), Some(&("slot" | "csrow"))));
    let name = pairs.map(|pair| pair.join(" ")).collect::<Vec<_>>().join(" ");
    name.contains("channel").then_some(name)
}
