//! The kind of memory of a node, from DAX devices, CXL regions, NVIDIA's driver, memory tiers and HMAT
//! figures.

use std::collections::BTreeMap;

use super::Node;
use crate::cpuset::CpuSet;
use crate::machine::Machine;
use crate::memory::dax;

const GPU: &str = "gpu";

/// The first and the last memory block of each node without CPUs.
pub(super) type Blocks = BTreeMap<u32, (u64, u64)>;

/// Fills tier and kind of the memory of `nodes`.
pub(super) fn fill(machine: &Machine, nodes: &mut [Node], blocks: &Blocks) {
    let mut named = named(machine);
    for node in in_cxl_regions(machine, blocks) {
        named.entry(node).or_insert("cxl");
    }
    for (tier, tier_nodes) in tiers(machine) {
        for node in nodes.iter_mut().filter(|node| tier_nodes.contains(node.id)) {
            node.memory_tier = Some(tier);
        }
    }
    // Nodes with CPUs and memory define the tier of plain memory.
    let is_plain = |node: &&Node| node.has_cpu == Some(true) && has_memory(node);
    let plain_tier = nodes.iter().filter(is_plain).filter_map(|node| node.memory_tier).max();
    let plain_bandwidth = nodes.iter().filter(is_plain).filter_map(bandwidth).max();
    let plain_latency = nodes.iter().filter(is_plain).filter_map(latency).max();
    for node in nodes.iter_mut().filter(|node| has_memory(node)) {
        let is_as_plain = || {
            // CXL memory has twice the latency of DRAM; HBM has several times its bandwidth.
            let is_as_fast = latency(node)? <= plain_latency?.saturating_mul(5) / 4
                && bandwidth(node)? >= plain_bandwidth?.saturating_mul(3) / 4;
            Some(is_as_fast)
        };
        let by_tier = || match by_tier(node, plain_tier?) {
            // The kernel puts memory that it knows nothing about into the tier of DRAM.
            Some("dram") if node.has_cpu != Some(true) => is_as_plain()?.then_some("dram"),
            kind => kind,
        };
        let by_bandwidth = || {
            let is_fast = bandwidth(node)? >= plain_bandwidth?.saturating_mul(2);
            (node.has_cpu == Some(false) && is_fast).then_some("hbm")
        };
        // Persistent or CXL memory may be added to a node that also has plain memory.
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

fn latency(node: &Node) -> Option<u64> {
    node.access.iter().find_map(|access| access.read_latency_ns)
}

/// A tier slower than that of plain memory may be CXL or persistent, so its kind is unknown.
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

/// The kinds with an explicit source: the DAX device that added the memory to the node
/// (`Documentation/ABI/testing/sysfs-bus-dax`), or NVIDIA's driver for the memory of a GPU. Memory that
/// the firmware reserved without a description (`hmem`) may be HBM or CXL and is left out.
fn named(machine: &Machine) -> BTreeMap<u32, &'static str> {
    let dir = "sys/bus/dax/devices";
    let mut kinds = BTreeMap::new();
    for name in machine.list(dir) {
        let device = machine.device_path(&format!("{dir}/{name}"));
        // -1 means no node.
        let node = machine.number::<i64>(&format!("{device}/target_node"));
        let Some(node) = node.and_then(|node| u32::try_from(node).ok()) else { continue };
        // A device bound to `device_dax` keeps its memory out of every node.
        if machine.link_name(&format!("{device}/driver")).as_deref() == Some("device_dax") {
            continue;
        }
        if let Some(kind) = dax::origin(&device).filter(|origin| *origin != "hmem") {
            kinds.insert(node, kind);
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

/// The nodes whose memory lies in CXL regions (`Documentation/ABI/testing/sysfs-bus-cxl`). If the
/// firmware maps CXL memory as ordinary memory, no DAX device shows its origin.
fn in_cxl_regions(machine: &Machine, blocks: &Blocks) -> Vec<u32> {
    let dir = "sys/bus/cxl/devices";
    let names = if blocks.is_empty() { Vec::new() } else { machine.list(dir) };
    let region = |name: &String| {
        name.strip_prefix("region")?.parse::<u32>().ok()?;
        let number = |file: &str| machine.parse(&format!("{dir}/{name}/{file}"), parse_hex);
        let start = number("resource")?;
        Some(start..start.checked_add(number("size")?)?)
    };
    let regions: Vec<_> = names.iter().filter_map(region).filter(|r| !r.is_empty()).collect();
    if regions.is_empty() {
        return Vec::new();
    }
    let size = machine.parse("sys/devices/system/memory/block_size_bytes", parse_hex);
    let is_in = |block: u64| {
        let address = size.and_then(|size| block.checked_mul(size));
        address.is_some_and(|address| regions.iter().any(|region| region.contains(&address)))
    };
    let whole = blocks.iter().filter(|(_, (first, last))| is_in(*first) && is_in(*last));
    whole.map(|(node, _)| *node).collect()
}

/// Hexadecimal digits with or without `0x`.
fn parse_hex(text: &str) -> Result<u64, &'static str> {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).map_err(|_| "a hexadecimal number")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{tree_from, tree_in};
    use crate::topology::Access;

    fn node(id: u32, has_cpu: bool, bandwidth: Option<u64>) -> Node {
        let access = Access { read_bandwidth_mb_s: bandwidth, ..Access::default() };
        let (has_cpu, memory_bytes) = (Some(has_cpu), Some(1 << 30));
        Node { id, has_cpu, memory_bytes, access: vec![access], ..Node::default() }
    }

    fn kinds<P: AsRef<str>, C: AsRef<str>>(
        files: &[(P, C)],
        mut nodes: Vec<Node>,
    ) -> Vec<Option<String>> {
        fill(&tree_from(files), &mut nodes, &Blocks::new());
        nodes.into_iter().map(|node| node.memory_kind).collect()
    }

    fn named(kinds: &[Option<&str>]) -> Vec<Option<String>> {
        kinds.iter().map(|kind| kind.map(str::to_owned)).collect()
    }

    #[test]
    fn memory_of_dax_devices_and_gpus_is_not_dram() {
        let devices = "sys/devices/platform";
        let pmem = format!("{devices}/ACPI0012:00/ndbus0/region0/dax0.0");
        let cxl = format!("{devices}/ACPI0017:00/root0/decoder0.0/region1/dax_region1/dax1.0");
        let (pmem_link, cxl_link) = (format!("-> /{pmem}"), format!("-> /{cxl}"));
        let (pmem_node, cxl_node) = (format!("{pmem}/target_node"), format!("{cxl}/target_node"));
        let files = [
            ("sys/bus/dax/devices/dax0.0", pmem_link.as_str()),
            ("sys/bus/dax/devices/dax1.0", &cxl_link),
            (&pmem_node, "2"),
            (&cxl_node, "3"),
            ("proc/driver/nvidia/gpus/0000:01:00.0/numa_status", "Node: 4\nStatus: online"),
            ("sys/devices/virtual/memory_tiering/memory_tier4/nodelist", "0-4"),
        ];
        let nodes = (0..5).map(|id| node(id, id < 2, None)).collect();
        let expected = [Some("dram"), Some("dram"), Some("pmem"), Some("cxl"), Some("gpu")];
        assert_eq!(kinds(&files, nodes), named(&expected));
    }

    #[test]
    fn faster_tier_or_twice_the_bandwidth_is_hbm_and_a_slower_tier_has_no_kind() {
        let dir = "sys/devices/virtual/memory_tiering";
        let tiers = [(2, "1"), (4, "0"), (22, "2")];
        let files = tiers.map(|(tier, nodes)| (format!("{dir}/memory_tier{tier}/nodelist"), nodes));
        let nodes = vec![node(0, true, None), node(1, false, None), node(2, false, None)];
        assert_eq!(kinds(&files, nodes), named(&[Some("dram"), Some("hbm"), None]));
        let nodes = vec![node(0, true, Some(100)), node(1, false, Some(400))];
        assert_eq!(kinds::<&str, &str>(&[], nodes), named(&[None, Some("hbm")]));
    }

    #[test]
    fn node_without_cpus_in_the_dram_tier_is_dram_only_with_dram_figures() {
        let files = [("sys/devices/virtual/memory_tiering/memory_tier4/nodelist", "0-3")];
        let with = |id: u32, bandwidth: u64, latency: u64| {
            let mut node = node(id, id == 0, Some(bandwidth));
            node.access[0].read_latency_ns = Some(latency);
            node
        };
        let nodes = vec![
            with(0, 200_000, 100),
            with(1, 190_000, 110),
            with(2, 30_000, 250),
            node(3, false, None),
        ];
        assert_eq!(kinds(&files, nodes), named(&[Some("dram"), Some("dram"), None, None]));
    }

    #[test]
    fn mapped_memory_is_cxl_if_all_of_it_lies_in_a_cxl_region() {
        let machine = tree_in(&[
            ("sys/bus/cxl/devices/region0", &[("resource", "0x1000000000")]),
            ("sys/bus/cxl/devices", &[("region0/size", "0x400000000"), ("mem0/serial", "0x1")]),
            ("sys/devices/system/memory", &[("block_size_bytes", "80000000")]),
        ]);
        let kinds = |blocks: (u64, u64)| {
            let mut nodes = vec![node(0, true, None), node(1, false, None)];
            fill(&machine, &mut nodes, &Blocks::from([(1, blocks)]));
            nodes.remove(1).memory_kind
        };
        assert_eq!(kinds((32, 39)).as_deref(), Some("cxl"));
        assert_eq!((kinds((32, 40)), kinds((2, 31)), kinds((u64::MAX, 0))), (None, None, None));
        assert!(machine.problems().is_empty());
    }

    #[test]
    fn dax_device_names_only_the_memory_of_a_node_without_cpus_that_it_became() {
        let driver = "-> ../../../../bus/dax/drivers/device_dax";
        for (target, driver, has_cpu, expected) in [
            ("0", "", false, Some("pmem")),
            // Programs use the memory of this driver.
            ("0", driver, false, None),
            ("0", "", true, None),
            // No node.
            ("-1", "", true, None),
        ] {
            let files = [
                ("sys/bus/dax/devices/dax0.0", "-> /sys/devices/platform/ndbus0/dax0.0"),
                ("sys/devices/platform/ndbus0/dax0.0/target_node", target),
                ("sys/devices/platform/ndbus0/dax0.0/driver", driver),
            ];
            assert_eq!(kinds(&files, vec![node(0, has_cpu, None)]), named(&[expected]));
        }
    }
}
