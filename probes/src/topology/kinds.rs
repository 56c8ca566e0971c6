//! What kind of memory a node has: DAX devices, NVIDIA's driver, memory tiers and bandwidths.

use std::collections::BTreeMap;

use super::Node;
use crate::cpuset::CpuSet;
use crate::machine::Machine;

const GPU: &str = "gpu";

/// Fills tier and kind of the memory of `nodes`.
pub(super) fn fill(machine: &Machine, nodes: &mut [Node]) {
    let named = named(machine);
    for (tier, tier_nodes) in tiers(machine) {
        for node in nodes.iter_mut().filter(|node| tier_nodes.contains(node.id)) {
            node.memory_tier = Some(tier);
        }
    }
    // The tier of plain memory is that of the nodes that have CPUs and memory.
    let is_plain = |node: &&Node| node.has_cpu == Some(true) && has_memory(node);
    let plain_tier = nodes.iter().filter(is_plain).filter_map(|node| node.memory_tier).max();
    let plain_bandwidth = nodes.iter().filter(is_plain).filter_map(bandwidth).max();
    for node in nodes.iter_mut().filter(|node| has_memory(node)) {
        let by_tier = || by_tier(node, plain_tier?);
        let by_bandwidth = || {
            let is_fast = bandwidth(node)? >= plain_bandwidth?.saturating_mul(2);
            (node.has_cpu == Some(false) && is_fast).then_some("hbm")
        };
        // Persistent or CXL memory may be brought into a node that has plain memory as well.
        let named = named.get(&node.id).copied();
        let named = named.filter(|kind| *kind == GPU || node.has_cpu == Some(false));
        let kind = named.or_else(by_bandwidth).or_else(by_tier);
        node.memory_kind = kind.map(str::to_owned);
    }
}

fn has_memory(node: &Node) -> bool {
    node.has_memory != Some(false) && node.memory_bytes.is_some_and(|bytes| bytes > 0)
}

fn bandwidth(node: &Node) -> Option<u64> {
    node.access.iter().find_map(|access| access.read_bandwidth_mb_s)
}

/// A slower tier than that of plain memory may be CXL or persistent, and stays without a kind.
fn by_tier(node: &Node, plain: u32) -> Option<&'static str> {
    match node.memory_tier?.cmp(&plain) {
        std::cmp::Ordering::Less if node.has_cpu == Some(false) => Some("hbm"),
        std::cmp::Ordering::Equal => Some("dram"),
        _ => None,
    }
}

/// The nodes of each memory tier.
fn tiers(machine: &Machine) -> Vec<(u32, CpuSet)> {
    let dir = "sys/devices/virtual/memory_tiering";
    let tier = |name: String| {
        let number = name.strip_prefix("memory_tier")?.parse().ok()?;
        Some((number, machine.parse(&format!("{dir}/{name}/nodelist"), CpuSet::parse)?))
    };
    machine.list(dir).into_iter().filter_map(tier).collect()
}

/// The kinds that someone names: by the DAX device that brought the memory into the node
/// (`Documentation/ABI/testing/sysfs-bus-dax`), or by NVIDIA's driver for a GPU's own memory. What
/// the firmware set apart without saying what it is (`hmem`) may be HBM or CXL, and has none here.
fn named(machine: &Machine) -> BTreeMap<u32, &'static str> {
    let dir = "sys/bus/dax/devices";
    let mut kinds = BTreeMap::new();
    for name in machine.list(dir) {
        let device = machine.device_path(&format!("{dir}/{name}"));
        // -1 is no node.
        let node = machine.number::<i64>(&format!("{device}/target_node"));
        let Some(node) = node.and_then(|node| u32::try_from(node).ok()) else { continue };
        let is_below = |part: &str| device.split('/').any(|name| name.starts_with(part));
        if is_below("ndbus") {
            kinds.insert(node, "pmem");
        } else if is_below("ACPI0017") || is_below("cxl") {
            kinds.insert(node, "cxl");
        }
    }
    let dir = "proc/driver/nvidia/gpus";
    for gpu in machine.list(dir) {
        let text = machine.text(&format!("{dir}/{gpu}/numa_status")).unwrap_or_default();
        let node = text.lines().find_map(|line| line.strip_prefix("Node:"));
        if let Some(node) = node.and_then(|node| node.trim().parse().ok()) {
            kinds.insert(node, GPU);
        }
    }
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree;
    use crate::topology::Access;

    fn node(id: u32, has_cpu: bool, bandwidth: Option<u64>) -> Node {
        let access = Access { read_bandwidth_mb_s: bandwidth, ..Access::default() };
        let (has_cpu, memory_bytes) = (Some(has_cpu), Some(1 << 30));
        Node { id, has_cpu, memory_bytes, access: vec![access], ..Node::default() }
    }

    fn kinds(files: &[(&str, &str)], mut nodes: Vec<Node>) -> Vec<Option<String>> {
        fill(&tree(files), &mut nodes);
        nodes.into_iter().map(|node| node.memory_kind).collect()
    }

    fn named(kinds: &[Option<&str>]) -> Vec<Option<String>> {
        kinds.iter().map(|kind| kind.map(str::to_owned)).collect()
    }

    #[test]
    fn memory_behind_dax_devices_and_on_gpus_is_not_taken_for_dram() {
        let devices = "sys/devices/platform";
        let pmem = format!("{devices}/ACPI0012:00/ndbus0/region0/dax0.0");
        let cxl = format!("{devices}/ACPI0017:00/root0/decoder0.0/region1/dax_region1/dax1.0");
        let files = [
            ("sys/bus/dax/devices/dax0.0".to_owned(), format!("-> /{pmem}")),
            ("sys/bus/dax/devices/dax1.0".to_owned(), format!("-> /{cxl}")),
            (format!("{pmem}/target_node"), "2".to_owned()),
            (format!("{cxl}/target_node"), "3".to_owned()),
            (
                "proc/driver/nvidia/gpus/0000:01:00.0/numa_status".to_owned(),
                "Node: 4\nStatus: online".to_owned(),
            ),
            (
                "sys/devices/virtual/memory_tiering/memory_tier4/nodelist".to_owned(),
                "0-4".to_owned(),
            ),
        ];
        let files: Vec<(&str, &str)> =
            files.iter().map(|(p, c)| (p.as_str(), c.as_str())).collect();
        let nodes = (0..5).map(|id| node(id, id < 2, None)).collect();
        let expected = [Some("dram"), Some("dram"), Some("pmem"), Some("cxl"), Some("gpu")];
        assert_eq!(kinds(&files, nodes), named(&expected));
    }

    #[test]
    fn a_faster_tier_or_twice_the_bandwidth_without_cpus_is_hbm_and_a_slower_tier_has_no_kind() {
        let dir = "sys/devices/virtual/memory_tiering";
        let files = [
            (format!("{dir}/memory_tier2/nodelist"), "1"),
            (format!("{dir}/memory_tier4/nodelist"), "0"),
            (format!("{dir}/memory_tier22/nodelist"), "2"),
        ];
        let files: Vec<(&str, &str)> = files.iter().map(|(p, c)| (p.as_str(), *c)).collect();
        let nodes = vec![node(0, true, None), node(1, false, None), node(2, false, None)];
        assert_eq!(kinds(&files, nodes), named(&[Some("dram"), Some("hbm"), None]));
        let nodes = vec![node(0, true, Some(100)), node(1, false, Some(400))];
        assert_eq!(kinds(&[], nodes), named(&[None, Some("hbm")]));
    }

    #[test]
    fn a_node_with_cpus_that_is_the_target_of_a_dax_device_is_not_persistent() {
        let files = [
            ("sys/bus/dax/devices/dax0.0", "-> /sys/devices/platform/ndbus0/dax0.0"),
            ("sys/devices/platform/ndbus0/dax0.0/target_node", "0"),
        ];
        assert_eq!(kinds(&files, vec![node(0, true, None)]), [None]);
        assert_eq!(kinds(&files, vec![node(0, false, None)]), named(&[Some("pmem")]));
    }

    #[test]
    fn a_target_node_of_minus_one_is_no_node() {
        let files = [
            ("sys/bus/dax/devices/dax0.0", "-> /sys/devices/platform/ndbus0/dax0.0"),
            ("sys/devices/platform/ndbus0/dax0.0/target_node", "-1"),
        ];
        assert_eq!(kinds(&files, vec![node(0, true, None)]), [None]);
    }
}
