//! NUMA nodes.

use std::collections::BTreeMap;

use super::{Node, access, kinds};
use crate::cpu::cpus_of_node;
use crate::cpuset::{CpuSet, LIMIT};
use crate::machine::Machine;
use crate::memory::{hugepages_in, mem_total_bytes};

const NODE: &str = "sys/devices/system/node";

/// The nodes by id. A kernel without NUMA has no node directory: then all CPUs and all memory are
/// one node 0. `None` where sysfs has neither nodes nor CPUs.
pub(super) fn nodes(machine: &Machine, online: Option<&CpuSet>) -> Option<Vec<Node>> {
    let names = machine.list(NODE);
    let ids: CpuSet = names.iter().filter_map(|name| id(name, "node")).collect();
    if ids.is_empty() {
        let cpus = online?;
        return Some(vec![Node {
            id: 0,
            cpus: Some(cpus.to_string()),
            has_cpu: Some(true),
            memory_bytes: machine.text("proc/meminfo").and_then(|text| mem_total_bytes(&text)),
            ..Node::default()
        }]);
    }
    // The columns of `distance` are the online nodes. A node without memory and CPUs can have a
    // directory without being online.
    let columns = machine.parse(&format!("{NODE}/online"), CpuSet::parse);
    let columns = columns.unwrap_or_else(|| ids.clone());
    let with_memory = machine.parse(&format!("{NODE}/has_memory"), CpuSet::parse);
    let with_normal = machine.parse(&format!("{NODE}/has_normal_memory"), CpuSet::parse);
    let (taken, blocks) = Default::default();
    let mut reader = Reader { machine, online, columns, with_memory, with_normal, taken, blocks };
    let mut nodes: Vec<Node> = ids.iter().map(|id| reader.node(id, ids.len())).collect();
    kinds::fill(machine, &mut nodes, &reader.blocks);
    Some(nodes)
}

struct Reader<'a> {
    machine: &'a Machine,
    online: Option<&'a CpuSet>,
    columns: CpuSet,
    with_memory: Option<CpuSet>,
    with_normal: Option<CpuSet>,
    /// The node of each CPU so far.
    taken: BTreeMap<u32, u32>,
    blocks: kinds::Blocks,
}

impl Reader<'_> {
    fn node(&mut self, id: u32, n_nodes: usize) -> Node {
        let dir = format!("{NODE}/node{id}");
        let cpus = self.cpus(id, &dir, n_nodes);
        let memory = self.machine.text(&format!("{dir}/meminfo"));
        // Unsorted, because a node of a large machine has thousands of memory blocks.
        let names = self.machine.names(&dir);
        if cpus.as_ref().is_some_and(CpuSet::is_empty) {
            let blocks =
                || names.iter().filter_map(|name| name.strip_prefix("memory")?.parse().ok());
            self.blocks.extend(blocks().min().zip(blocks().max()).map(|ends| (id, ends)));
        }
        let has = |name: &str| names.iter().any(|other| other == name);
        let pages =
            has("hugepages").then(|| hugepages_in(self.machine, &format!("{dir}/hugepages")));
        let caches = has("memory_side_cache").then(|| access::side_caches(self.machine, &dir));
        Node {
            id,
            has_cpu: cpus.as_ref().map(|cpus| !cpus.is_empty()),
            cpus: cpus.map(|cpus| cpus.to_string()),
            memory_bytes: memory.and_then(|text| mem_total_bytes(&text)),
            has_memory: self.with_memory.as_ref().map(|nodes| nodes.contains(id)),
            has_normal_memory: self.with_normal.as_ref().map(|nodes| nodes.contains(id)),
            access: access::access(self.machine, &dir, &names),
            side_caches: caches.unwrap_or_default(),
            hugepages: pages.unwrap_or_default(),
            distances: self.distances(&format!("{dir}/distance")),
            ..Node::default()
        }
    }

    /// The online CPUs of the node, from the list, else the mask, else the links to the CPUs.
    fn cpus(&mut self, id: u32, dir: &str, n_nodes: usize) -> Option<CpuSet> {
        let links = || (dir.to_owned(), self.links(dir));
        let (path, cpus) = cpus_of_node(self.machine, dir)
            .or_else(|| Some(links()).filter(|(_, cpus)| !cpus.is_empty()))?;
        let cpus = self.online.map(|online| cpus.intersection(online)).unwrap_or(cpus);
        let other = cpus.iter().find(|cpu| self.taken.contains_key(cpu));
        if let (Some(cpu), true) = (other, n_nodes > 1) {
            let node = self.taken.get(&cpu).copied().unwrap_or_default();
            let found = format!("CPU {cpu}, which is also in node {node}");
            self.machine.problem(&path, found, "CPUs that belong to one node each");
        }
        for cpu in cpus.iter() {
            self.taken.entry(cpu).or_insert(id);
        }
        Some(cpus)
    }

    fn links(&self, dir: &str) -> CpuSet {
        self.machine.names(dir).iter().filter_map(|name| id(name, "cpu")).collect()
    }

    fn distances(&self, path: &str) -> BTreeMap<u32, u32> {
        let parse = |text: &str| {
            let values: Result<Vec<u32>, _> = text.split_whitespace().map(str::parse).collect();
            match values {
                Ok(values) if values.len() == self.columns.len() => Ok(values),
                _ => Err("a whole number for each online node"),
            }
        };
        let values = self.machine.parse(path, parse).unwrap_or_default();
        self.columns.iter().zip(values).collect()
    }
}

/// The number in a name such as `node3`.
fn id(name: &str, prefix: &str) -> Option<u32> {
    name.strip_prefix(prefix)?.parse().ok().filter(|id| *id <= LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{tree, tree_in};

    fn online(text: &str) -> CpuSet {
        CpuSet::parse(text).unwrap()
    }

    #[test]
    fn distances_are_keyed_by_id_and_nodes_may_be_sparse_or_have_no_cpu() {
        let machine = tree_in(&[
            ("sys/devices/system/node", &[("online", "0,8")]),
            ("sys/devices/system/node/node0", &[("cpulist", "0-3"), ("distance", "10 40")]),
            ("sys/devices/system/node/node0", &[("meminfo", "Node 0 MemTotal: 4 kB")]),
            ("sys/devices/system/node/node8", &[("cpulist", ""), ("distance", "40 10")]),
        ]);
        let nodes = nodes(&machine, Some(&online("0-2"))).unwrap();
        assert_eq!(nodes[0].cpus.as_deref(), Some("0-2"), "CPU 3 is offline");
        assert_eq!(nodes[0].memory_bytes, Some(4096));
        assert_eq!(nodes[0].distances, BTreeMap::from([(0, 10), (8, 40)]));
        assert_eq!((nodes[1].id, nodes[1].cpus.as_deref()), (8, Some("")));
        assert_eq!((nodes[1].has_cpu, nodes[1].memory_bytes), (Some(false), None));
        assert!(machine.problems().is_empty(), "{:?}", machine.problems());
    }

    #[test]
    fn missing_file_costs_its_own_fact_and_not_the_section() {
        let machine = tree_in(&[(
            "sys/devices/system/node",
            &[("node0/cpulist", "0-1"), ("node1/distance", "21 10")],
        )]);
        let nodes = nodes(&machine, Some(&online("0-1"))).unwrap();
        assert_eq!((nodes.len(), nodes[0].memory_bytes, &nodes[1].cpus), (2, None, &None));
        assert_eq!(nodes[1].distances, BTreeMap::from([(0, 21), (1, 10)]));
        assert!(nodes[0].hugepages.is_empty() && machine.problems().is_empty());
    }

    #[test]
    fn node_without_memory_and_cpu_without_a_node_are_both_possible() {
        let machine = tree_in(&[
            ("sys/devices/system/node", &[("has_memory", "0"), ("node0/cpulist", "0-1")]),
            ("sys/devices/system/node/node0", &[("meminfo", "Node 0 MemTotal: 4 kB")]),
            ("sys/devices/system/node/node1", &[("cpulist", "2-3")]),
            ("sys/devices/system/node/node1", &[("meminfo", "Node 1 MemTotal: 0 kB")]),
        ]);
        let nodes = nodes(&machine, Some(&online("0-4"))).unwrap();
        assert_eq!((nodes[1].memory_bytes, nodes[1].has_memory), (Some(0), Some(false)));
        assert!(nodes.iter().all(|node| !node.cpus.as_deref().unwrap_or_default().contains('4')));
        assert!(machine.problems().is_empty());
    }

    #[test]
    fn distances_that_do_not_match_the_nodes_are_a_problem() {
        let machine = tree_in(&[
            ("sys/devices/system/node", &[("online", "0-1"), ("node0/cpumap", "00000003")]),
            ("sys/devices/system/node", &[("node0/distance", "10 20 20"), ("node1/cpu1", "x")]),
        ]);
        let nodes = nodes(&machine, Some(&online("0-1"))).unwrap();
        assert!(nodes[0].distances.is_empty());
        let found: Vec<_> = machine.problems().into_iter().map(|p| p.found).collect();
        assert_eq!(found, ["\"10 20 20\"", "CPU 1, which is also in node 0"]);
    }

    #[test]
    fn kernel_without_numa_has_one_node() {
        let machine = tree(&[("proc/meminfo", "MemTotal: 8 kB")]);
        let one = nodes(&machine, Some(&online("0-3"))).unwrap();
        assert_eq!((one.len(), one[0].memory_bytes), (1, Some(8192)));
        assert_eq!(nodes(&machine, None), None);
    }

    #[test]
    fn huge_pages_initiators_and_side_caches_of_a_node_are_read() {
        let node = "sys/devices/system/node/node1";
        let below = ["hugepages/hugepages-2048kB", "access0/initiators", "memory_side_cache"];
        let below = below.map(|name| format!("{node}/{name}"));
        let [huge, access, caches] = below.each_ref().map(String::as_str);
        let machine = tree_in(&[
            ("sys/devices/system/node", &[("has_memory", "1")]),
            ("sys/devices/system/node", &[("has_normal_memory", "0"), ("node0/cpulist", "0-3")]),
            ("sys/bus/cxl/devices/region0", &[("resource", "0x80000000"), ("size", "0x80000000")]),
            ("sys/devices/system/memory", &[("block_size_bytes", "40000000")]),
            (node, &[("cpulist", ""), ("meminfo", "Node 1 MemTotal: 4 kB")]),
            (node, &[("memory2/state", "online"), ("memory3/state", "online")]),
            (huge, &[("nr_hugepages", "512"), ("free_hugepages", "500")]),
            (access, &[("node0/x", ""), ("read_bandwidth", "250000"), ("read_latency", "0")]),
            (caches, &[("index1/size", "17179869184"), ("index1/write_policy", "0")]),
            (caches, &[("index1/indexing", "7"), ("index2/indexing", "0")]),
            (caches, &[("index3/indexing", "1"), ("index4/indexing", "2")]),
        ]);
        let nodes = nodes(&machine, Some(&online("0-3"))).unwrap();
        let far = &nodes[1];
        assert_eq!((nodes[0].has_memory, far.has_memory), (Some(false), Some(true)));
        assert_eq!(far.has_normal_memory, Some(false), "all of it is removable");
        assert_eq!(far.hugepages[0].n_total, Some(512));
        assert_eq!(far.memory_kind.as_deref(), Some("cxl"));
        assert_eq!((far.access[0].class, far.access[0].initiators.as_slice()), (0, &[0][..]));
        assert_eq!(far.access[0].read_bandwidth_mb_s, Some(250_000));
        assert_eq!(far.access[0].read_latency_ns, None, "0 means unknown");
        let cache = &far.side_caches[0];
        assert_eq!((cache.level, cache.size_bytes), (1, Some(16 << 30)));
        assert_eq!(cache.write_policy.as_deref(), Some("write-back"));
        let kinds: Vec<_> = far.side_caches.iter().map(|cache| cache.indexing.as_deref()).collect();
        assert_eq!(kinds, [None, Some("direct-mapped"), Some("complex"), None]);
    }
}
