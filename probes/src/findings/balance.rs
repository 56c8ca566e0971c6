//! Memory that is spread unevenly: over the sockets, or over the channels of a memory controller.

use std::collections::BTreeMap;

use super::memory::{are_all_plain, is_limited};
use super::table::MEMORY_UNBALANCED;
use super::{Finding, Severity, hypervisor};
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
    Some(MEMORY_UNBALANCED.finding(Some(parts::package(poorest)), texts.join(", ")))
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
    let differ = |sums: &BTreeMap<String, u64>| {
        let first = sums.values().next();
        sums.values().any(|sum| Some(sum) != first)
    };
    let uneven = controllers.iter().filter(|(_, sums)| differ(sums));
    let uneven: Vec<String> = uneven
        .map(|(controller, sums)| {
            let (shift, unit) = super::memory::unit(sums.values().copied());
            let sums = sums.iter().map(|(name, sum)| format!("{name} has {} {unit}", sum >> shift));
            format!("{controller}: {}", sums.collect::<Vec<_>>().join(", "))
        })
        .collect();
    let finding = MEMORY_UNBALANCED.finding(None, uneven.join("; "));
    (!uneven.is_empty()).then_some(Finding { severity: Severity::Info, ..finding })
}

/// `channel 1` of `channel 1 slot 0` or `csrow 2 channel 1`; `None` for a location without a channel.
fn channel(location: &str) -> Option<String> {
    let words: Vec<&str> = location.split_whitespace().collect();
    let pairs = words.chunks(2).filter(|pair| !matches!(pair.first(), Some(&("slot" | "csrow"))));
    let name = pairs.map(|pair| pair.join(" ")).collect::<Vec<_>>().join(" ");
    name.contains("channel").then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::EccCount;
    use serde_json::json;

    const GIB: u64 = 1 << 30;

    /// Two packages of two CPUs, with these nodes: CPUs and memory.
    fn machine(nodes: &[(&str, u64)]) -> Inventory {
        let package = |cpus: &str| json!({"cores": [{"logical_cpus": cpus}]});
        let all = nodes.iter().enumerate();
        let by_node: BTreeMap<String, u64> =
            all.clone().map(|(id, (_, gib))| (id.to_string(), gib * GIB)).collect();
        let node = |(id, (cpus, _)): (usize, &(&str, u64))| json!({"id": id, "cpus": cpus, "has_cpu": !cpus.is_empty()});
        serde_json::from_value(json!({
            "cpu": {"packages": [package("0-1"), package("2-3")]},
            "topology": {"nodes": all.map(node).collect::<Vec<_>>()},
            "memory": {"kernel_present_bytes_by_node": by_node, "dimms": [{"size_bytes": 16 * GIB}]},
        }))
        .unwrap()
    }

    fn locators(nodes: &[(&str, u64)]) -> Vec<Option<String>> {
        uneven(&machine(nodes))
            .into_iter()
            .map(|finding| finding.locator.map(String::from))
            .collect()
    }

    #[test]
    fn package_that_lacks_a_dimm_is_named_whatever_the_firmware_reserves() {
        let poorer = |at: &str| vec![Some(format!("package {at}"))];
        assert_eq!(locators(&[("0-1", 62), ("2-3", 48)]), poorer("1"));
        assert_eq!(locators(&[("0-1", 46), ("2-3", 64)]), poorer("0"));
        assert_eq!(locators(&[("0", 31), ("1", 31), ("2", 32), ("3", 16)]), poorer("1"));
        assert!(locators(&[("0-1", 61), ("2-3", 64)]).is_empty(), "only the firmware's part");
    }

    #[test]
    fn nodes_that_belong_to_no_package_for_certain_raise_nothing() {
        assert!(locators(&[("0-3", 64)]).is_empty(), "one node spans both");
        assert!(locators(&[("0-1", 64), ("2-3", 64), ("", 256)]).is_empty(), "a CXL node");
        assert!(locators(&[("0-1", 64)]).is_empty(), "the node of the other package is unknown");
        let mut without_table = machine(&[("0-1", 64), ("2-3", 16)]);
        without_table.memory.as_mut().unwrap().dimms.clear();
        assert!(uneven(&without_table).is_empty(), "the size of a DIMM is unknown");
    }

    fn counted(rows: &[(&str, &str, Option<u64>)]) -> Vec<Finding> {
        let row = |(name, location, gib): &(&str, &str, Option<u64>)| EccCount {
            name: (*name).to_owned(),
            location: Some((*location).to_owned()),
            size_bytes: gib.map(|gib| gib * GIB),
            ..EccCount::default()
        };
        let memory = Memory { ecc: rows.iter().map(row).collect(), ..Memory::default() };
        uneven(&Inventory { memory: Some(memory), ..Inventory::default() })
    }

    #[test]
    fn channels_are_compared_within_their_controller() {
        let two = ("mc0/dimm0", "channel 0 slot 0", Some(16));
        let found = counted(&[
            two,
            ("mc0/dimm1", "channel 0 slot 1", Some(16)),
            ("mc0/dimm2", "channel 1 slot 0", Some(16)),
        ]);
        assert_eq!(found[0].severity, Severity::Info);
        assert_eq!(found[0].evidence, "mc0: channel 0 has 32 GiB, channel 1 has 16 GiB");
        let even = [two, ("mc0/dimm2", "channel 1 slot 0", Some(16))];
        assert!(counted(&even).is_empty());
        assert!(counted(&[two, ("mc1/dimm0", "channel 0 slot 0", Some(8))]).is_empty());
        let unknown = ("mc0/dimm2", "channel 1 slot 0", None);
        assert!(counted(&[two, unknown]).is_empty(), "a size is unknown");
        let ranks = [("mc0/rank0", "csrow 0 channel 0", Some(8))];
        assert!(counted(&ranks).is_empty(), "a single channel");
        assert!(counted(&[two, ("mc0/dimm1", "memory 1", Some(8))]).is_empty(), "no channel");
    }
}
