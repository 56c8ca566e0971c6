//! NUMA nodes and caches: `/sys/devices/system/node` (`Documentation/ABI/stable/sysfs-devices-node`)
//! and `/sys/devices/system/cpu/cpuN/cache` (`Documentation/ABI/testing/sysfs-devices-system-cpu`).
//!
//! A node may have no CPU or no memory, ids may be sparse, and the columns of `distance` follow the
//! online nodes. A cache belongs to the machine: it may span nodes (SNC) or cover a part of a package
//! (CCX), so the set of CPUs that share it identifies it.

mod access;
mod caches;
mod kinds;
mod nodes;

use std::collections::BTreeMap;

pub use access::{Access, SideCache};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cpu::CpuSets;
use crate::machine::Machine;
use crate::memory::HugePages;

/// NUMA nodes and caches.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Topology {
    /// `smp` with one node, `numa` with more.
    pub kind: Option<String>,
    /// Nodes by id; `None` without a source.
    pub nodes: Option<Vec<Node>>,
    /// Caches of the online CPUs, by level, kind and first CPU; `None` if the kernel reports none.
    pub caches: Option<Vec<Cache>>,
}

/// A NUMA node.
#[serde_with::apply(Vec => #[serde(skip_serializing_if = "Vec::is_empty")])]
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Node {
    /// Its id; ids may be sparse.
    pub id: u32,
    /// Its online CPUs; empty for a node of memory only, `None` if unknown.
    pub cpus: Option<String>,
    /// True if it has CPUs.
    pub has_cpu: Option<bool>,
    /// True if it has memory (`/sys/devices/system/node/has_memory`); `None` if the kernel does
    /// not report it.
    pub has_memory: Option<bool>,
    /// True if it has memory that the kernel may use for itself (`has_normal_memory`); `false` together
    /// with `has_memory` for removable memory, as CXL memory often is.
    pub has_normal_memory: Option<bool>,
    /// Memory that the kernel can allocate there (`MemTotal`); 0 for a node of CPUs only.
    pub memory_bytes: Option<u64>,
    /// `pmem` or `cxl` if a DAX device reports it, `cxl` if all of it lies in CXL regions, `gpu` if
    /// NVIDIA's driver reports it, `dram` in the memory tier of the nodes with CPUs (without CPUs only
    /// if the firmware gives it the figures of DRAM), `hbm` in a faster tier or if the firmware gives
    /// the node at least twice the bandwidth; `None` if nothing shows the kind.
    pub memory_kind: Option<String>,
    /// Number of the memory tier, lower is faster
    /// (`Documentation/ABI/testing/sysfs-kernel-mm-memory-tiers`), since Linux 6.1.
    pub memory_tier: Option<u32>,
    /// The nodes that reach this node's memory best, and their speed.
    pub access: Vec<Access>,
    /// Caches in front of the node's memory, by level.
    pub side_caches: Vec<SideCache>,
    /// Huge pages of the node by size.
    pub hugepages: Vec<HugePages>,
    /// Distance to each online node, by its id; 10 is local.
    #[serde(
        deserialize_with = "crate::by_number::deserialize",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub distances: BTreeMap<u32, u32>,
}

/// A cache.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Cache {
    /// Level, 1 next to the core.
    pub level: u32,
    /// `data`, `instruction` or `unified`.
    pub kind: Option<String>,
    /// Size.
    pub size_bytes: Option<u64>,
    /// The online CPUs that share it.
    pub shared_cpus: String,
    /// Size of a line in bytes.
    pub line_bytes: Option<u32>,
    /// Ways of associativity; also `None` for a fully associative cache.
    pub ways: Option<u32>,
    /// Number of sets (`number_of_sets`).
    pub n_sets: Option<u32>,
}

/// Reads NUMA nodes and caches.
pub fn topology(machine: &Machine) -> Topology {
    let online = CpuSets::from_sysfs(machine).online;
    let nodes = nodes::nodes(machine, online.as_ref());
    let caches = online.map(|online| caches::caches(machine, &online)).unwrap_or_default();
    let kind = nodes.as_ref().map(|nodes| if nodes.len() == 1 { "smp" } else { "numa" });
    Topology {
        kind: kind.map(str::to_owned),
        nodes,
        caches: Some(caches).filter(|caches| !caches.is_empty()),
    }
}
