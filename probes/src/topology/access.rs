//! Access to memory according to the firmware's HMAT: `nodeN/access{0,1}` and
//! `nodeN/memory_side_cache` (`Documentation/ABI/stable/sysfs-devices-node`,
//! `Documentation/admin-guide/mm/numaperf.rst`).

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;

/// The nodes that reach a node's memory best, and the figures for them.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Access {
    /// 0: among all initiators, such as GPUs; 1: among the nodes with CPUs.
    pub class: u32,
    /// The nodes, by id.
    pub initiators: Vec<u32>,
    /// Read bandwidth in MB/s, as the kernel reports it.
    pub read_bandwidth_mb_s: Option<u64>,
    /// Write bandwidth in MB/s, as the kernel reports it.
    pub write_bandwidth_mb_s: Option<u64>,
    /// Read latency in ns.
    pub read_latency_ns: Option<u64>,
    /// Write latency in ns.
    pub write_latency_ns: Option<u64>,
}

/// A cache in front of a node's memory, such as HBM in cache mode.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SideCache {
    /// Level, 1 next to the memory.
    pub level: u32,
    /// Size.
    pub size_bytes: Option<u64>,
    /// Size of a line in bytes.
    pub line_bytes: Option<u64>,
    /// `direct-mapped` or `complex`.
    pub indexing: Option<String>,
    /// `write-back` or `write-through`.
    pub write_policy: Option<String>,
}

/// Reads the access classes of the node whose directory `dir` contains `names`.
pub(super) fn access(machine: &Machine, dir: &str, names: &[String]) -> Vec<Access> {
    let classes = names.iter().filter_map(|name| name.strip_prefix("access")?.parse().ok());
    let classes: BTreeSet<u32> = classes.collect();
    let read = |class| read(machine, &format!("{dir}/access{class}/initiators"), class);
    classes.into_iter().map(read).collect()
}

fn read(machine: &Machine, dir: &str, class: u32) -> Access {
    let number = |name: &str| machine.number(&format!("{dir}/{name}")).filter(|n: &u64| *n > 0);
    let names = machine.list(dir);
    let node = |name: &String| name.strip_prefix("node")?.parse().ok();
    let has_figures = names.iter().any(|name| name == "read_bandwidth" || name == "read_latency");
    let figure = |name: &str| has_figures.then(|| number(name)).flatten();
    Access {
        class,
        initiators: names.iter().filter_map(node).collect(),
        read_bandwidth_mb_s: figure("read_bandwidth"),
        write_bandwidth_mb_s: figure("write_bandwidth"),
        read_latency_ns: figure("read_latency"),
        write_latency_ns: figure("write_latency"),
    }
}

/// Reads the memory-side caches of the node whose directory is `dir`.
pub(super) fn side_caches(machine: &Machine, dir: &str) -> Vec<SideCache> {
    let dir = format!("{dir}/memory_side_cache");
    let names = machine.list(&dir);
    let levels = names.iter().filter_map(|name| name.strip_prefix("index")?.parse().ok());
    let cache = |level: u32| {
        let at = |name: &str| format!("{dir}/index{level}/{name}");
        let word = |name: &str, words: [&'static str; 3]| {
            let index: usize = machine.number(&at(name))?;
            words.get(index).filter(|word| !word.is_empty()).map(|word| (*word).to_owned())
        };
        SideCache {
            level,
            size_bytes: machine.number(&at("size")).filter(|size| *size > 0),
            line_bytes: machine.number(&at("line_size")).filter(|size| *size > 0),
            // `enum cache_indexing` and `enum cache_write_policy`, include/linux/node.h.
            indexing: word("indexing", ["direct-mapped", "complex", ""]),
            write_policy: word("write_policy", ["write-back", "write-through", ""]),
        }
    };
    levels.map(cache).collect()
}
