//! GPU nodes of AMD's compute driver: `/sys/class/kfd/kfd/topology/nodes/`
//! (`drivers/gpu/drm/amd/amdkfd/kfd_topology.c`). A card in partition mode has several.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;

/// The class link and its target.
const TOPOLOGIES: [&str; 2] =
    ["sys/class/kfd/kfd/topology/nodes", "sys/devices/virtual/kfd/kfd/topology/nodes"];
/// A node has one bank, or one for each kind of memory.
const LIMIT_BANKS: usize = 64;

/// One GPU, or one partition of one.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ComputeNode {
    /// Number of the node; CPUs also have nodes, so the first GPU is seldom 0.
    pub id: u32,
    /// SIMD units.
    pub n_simd: u32,
    /// PCI vendor, four hexadecimal digits.
    pub vendor_id: Option<String>,
    /// PCI device, four hexadecimal digits.
    pub device_id: Option<String>,
    /// PCI address of the card.
    pub address: Option<String>,
    /// N of `/dev/dri/renderDN`.
    pub render_minor: Option<u32>,
    /// Version of the instruction set, e.g. `90010` for gfx90a.
    pub gfx_target_version: Option<u32>,
    /// Accelerator dies in the node. Since Linux 6.6.
    pub n_xcc: Option<u32>,
    /// Unique number of the chip, sixteen hexadecimal digits.
    pub unique_id: Option<String>,
    /// Memory of the node.
    pub memory_bytes: Option<u64>,
}

/// Reads the GPU nodes, by id; empty without the driver.
pub fn compute_nodes(machine: &Machine) -> Vec<ComputeNode> {
    let mut lists = TOPOLOGIES.into_iter().map(|topology| (topology, machine.list(topology)));
    let (topology, ids) = lists.find(|(_, ids)| !ids.is_empty()).unwrap_or_default();
    let ids = ids.iter().filter_map(|name| name.parse().ok());
    ids.filter_map(|id| node(machine, &format!("{topology}/{id}"), id)).collect()
}

/// Reads one node; `None` for one without SIMD units, such as a CPU.
fn node(machine: &Machine, path: &str, id: u32) -> Option<ComputeNode> {
    let text = machine.whole_text(&format!("{path}/properties"))?;
    let properties = parse(&text);
    let small = |name: &str| u32::try_from(*properties.get(name)?).ok();
    let set = |name: &str| small(name).filter(|number| *number != 0);
    let pci_id = |name: &str| Some(format!("{:04x}", u16::try_from(set(name)?).ok()?));
    let unique_id = properties.get("unique_id").filter(|id| **id != 0);
    let n_simd = set("simd_count")?;
    Some(ComputeNode {
        id,
        n_simd,
        vendor_id: pci_id("vendor_id"),
        device_id: pci_id("device_id"),
        address: small("domain").zip(set("location_id")).map(|(domain, id)| address(domain, id)),
        render_minor: set("drm_render_minor"),
        gfx_target_version: set("gfx_target_version"),
        n_xcc: small("num_xcc"),
        unique_id: unique_id.map(|id| format!("{id:016x}")),
        memory_bytes: memory_bytes(machine, path),
    })
}

/// Parses lines `NAME NUMBER` and skips others.
fn parse(text: &str) -> BTreeMap<&str, u64> {
    let pairs = text.lines().filter_map(|line| line.trim().split_once(' '));
    pairs.filter_map(|(name, value)| Some((name, value.trim().parse().ok()?))).collect()
}

/// `location_id` contains bus, device and function as in configuration requests. For a partition, the
/// low function bits are the number of the partition, and the card itself is function 0.
fn address(domain: u32, location: u32) -> String {
    let (bus, device) = ((location >> 8) & 0xff, (location >> 3) & 0x1f);
    format!("{domain:04x}:{bus:02x}:{device:02x}.0")
}

/// Sum of the banks in the card's own memory (`HSA_MEM_HEAP_TYPE_FB_PUBLIC` and `_PRIVATE`).
fn memory_bytes(machine: &Machine, path: &str) -> Option<u64> {
    let banks = machine.list(&format!("{path}/mem_banks"));
    let mut sum = 0_u64;
    for bank in banks.iter().take(LIMIT_BANKS) {
        // If one of them is unknown, so is the sum.
        let text = machine.whole_text(&format!("{path}/mem_banks/{bank}/properties"))?;
        let properties = parse(&text);
        if matches!(properties.get("heap_type"), Some(1 | 2)) {
            sum = sum.checked_add(*properties.get("size_in_bytes")?)?;
        }
    }
    (sum > 0).then_some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{tree, tree_in};

    #[test]
    fn only_nodes_with_simd_units_are_gpus_and_the_class_link_is_not_needed() {
        let nodes = "sys/devices/virtual/kfd/kfd/topology/nodes";
        let gpu = "simd_count 416\nvendor_id 4098\ndevice_id 29711\nlocation_id 25344\ndomain 1\n\
                   drm_render_minor 128\nunique_id 1801979520617338022\nbroken\n";
        let bank = "heap_type 1\nsize_in_bytes 68702699520\nflags 0\n";
        let machine = tree_in(&[
            (nodes, &[("0/properties", "cpu_cores_count 64\nsimd_count 0\n")]),
            (nodes, &[("10/properties", gpu), ("10/mem_banks/0/properties", bank)]),
            (nodes, &[("2/properties", "simd_count 8"), ("3/properties", "simd_count")]),
        ]);
        let nodes = compute_nodes(&machine);
        assert_eq!(nodes.iter().map(|n| n.id).collect::<Vec<_>>(), [2, 10]);
        let gpu = &nodes[1];
        assert_eq!(gpu.device_id.as_deref(), Some("740f"));
        assert_eq!(gpu.address.as_deref(), Some("0001:63:00.0"));
        assert_eq!((gpu.render_minor, gpu.memory_bytes), (Some(128), Some(68_702_699_520)));
    }

    #[test]
    fn truncated_bank_makes_total_unknown() {
        let node = "sys/devices/virtual/kfd/kfd/topology/nodes/1";
        let memory = |second: &str| {
            let machine = tree(&[
                (&format!("{node}/properties"), "simd_count 8\nvendor_id 4098\n"),
                (&format!("{node}/mem_banks/0/properties"), "heap_type 1\nsize_in_bytes 4096\n"),
                (&format!("{node}/mem_banks/1/properties"), second),
            ]);
            (compute_nodes(&machine)[0].memory_bytes, machine.problems().len())
        };
        assert_eq!(memory("heap_type 1\nsize_in_bytes 8192\n"), (Some(12_288), 0));
        assert_eq!(memory("heap_type 1\nsize_in_bytes 81"), (None, 1));
        assert_eq!(memory("heap_type 1\nflags 0\n"), (None, 0), "a missing size is not 0");
    }
}
