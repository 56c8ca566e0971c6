//! `topology (…)`: nodes with their memory and distances, and every cache under the node of its CPUs.

use probes::cpuset::CpuSet;
use probes::topology::{Cache, Node, Topology};

use super::page::{Page, counted};
use super::unit;

pub(super) fn topology(
    page: &mut Page,
    topology: &Topology,
    n_cores_of: impl Fn(&CpuSet) -> usize,
) {
    let kind = topology.kind.as_deref().unwrap_or_default().to_uppercase();
    let nodes = topology.nodes.as_deref().unwrap_or_default();
    let caches = topology.caches.as_deref().unwrap_or_default();
    page.section(&format!("topology {kind} ({})", counted(nodes.len(), "node")));
    let mut shown = vec![false; caches.len()];
    for node in nodes {
        let cpus = node.cpus.as_deref().and_then(|cpus| CpuSet::parse(cpus).ok());
        let cpus = cpus.unwrap_or_default();
        page.line(1, &format!("node #{} ({})", node.id, counted(n_cores_of(&cpus), "core")));
        details(page, node);
        for (index, cache) in caches.iter().enumerate() {
            // A cache that spans nodes is shown once, under the first of them.
            if !shown[index] && !shared(cache).intersection(&cpus).is_empty() {
                shown[index] = true;
                line(page, cache);
            }
        }
    }
    for (cache, _) in caches.iter().zip(&shown).filter(|(_, shown)| !**shown) {
        line(page, cache);
    }
}

fn details(page: &mut Page, node: &Node) {
    let kind = node.memory_kind.as_ref().map(|kind| format!(" {kind}")).unwrap_or_default();
    if let Some(bytes) = node.memory_bytes {
        page.line(2, &format!("memory ({}{kind})", unit::memory(bytes)));
    }
    if !node.distances.is_empty() {
        let each = node.distances.iter().map(|(id, distance)| format!("#{id} {distance}"));
        page.line(2, &format!("distances to node {}", each.collect::<Vec<_>>().join(", ")));
    }
}

fn line(page: &mut Page, cache: &Cache) {
    let letter = match cache.kind.as_deref() {
        Some("instruction") => "i",
        Some("data") => "d",
        _ => "",
    };
    let size = cache.size_bytes.map(|bytes| format!(" ({})", unit::cache(bytes)));
    let cpus: Vec<String> = shared(cache).iter().map(|cpu| cpu.to_string()).collect();
    let line = format!(
        "L{}{letter} cache{} shared with logical processors: {}",
        cache.level,
        size.unwrap_or_default(),
        cpus.join(",")
    );
    page.line(2, &line);
}

fn shared(cache: &Cache) -> CpuSet {
    CpuSet::parse(&cache.shared_cpus).unwrap_or_default()
}
