//! `topology (…)`: nodes with memory and distances, each cache under the node of its CPUs.

use probes::cpuset::CpuSet;
use probes::topology::{Cache, Node, Topology};

use super::memory::huge_pages;
use super::page::{Page, counted, heading, with};
use super::unit;

pub(super) fn topology(
    page: &mut Page,
    topology: &Topology,
    n_cores_of: impl Fn(&CpuSet) -> Option<usize>,
) {
    let kind = with(" ", topology.kind.as_ref().map(|kind| kind.to_uppercase()));
    let n_nodes = topology.nodes.as_ref().map(|nodes| counted(nodes.len(), "node"));
    let nodes = topology.nodes.as_deref().unwrap_or_default();
    let caches = topology.caches.as_deref().unwrap_or_default();
    page.section(&heading(&format!("topology{kind}"), n_nodes));
    let shared = |cache: &Cache| CpuSet::parse(&cache.shared_cpus).unwrap_or_default();
    let sets: Vec<CpuSet> = caches.iter().map(shared).collect();
    let mut shown = vec![false; caches.len()];
    for node in nodes {
        let cpus = node.cpus.as_deref().and_then(|cpus| CpuSet::parse(cpus).ok());
        let n_cores = cpus.as_ref().and_then(&n_cores_of).map(|n| counted(n, "core"));
        let cpus = cpus.unwrap_or_default();
        page.line(1, &heading(&format!("node #{}", node.id), n_cores));
        details(page, node);
        for ((cache, set), is_shown) in caches.iter().zip(&sets).zip(&mut shown) {
            // A cache that spans nodes is shown once, under the first of them.
            if !*is_shown && !set.intersection(&cpus).is_empty() {
                *is_shown = true;
                line(page, cache, set);
            }
        }
    }
    let caches = caches.iter().zip(&sets).zip(&shown);
    for ((cache, set), _) in caches.filter(|(_, is_shown)| !**is_shown) {
        line(page, cache, set);
    }
}

fn details(page: &mut Page, node: &Node) {
    let kind = with(" ", node.memory_kind.as_ref());
    if let Some(bytes) = node.memory_bytes {
        page.line(2, &format!("memory ({}{kind})", unit::memory(bytes)));
    }
    page.each(&node.side_caches, |page, cache| {
        let name = format!("memory-side cache L{}", cache.level);
        page.line(2, &heading(&name, cache.size_bytes.map(unit::memory)));
    });
    page.lines(2, node.hugepages.iter().filter_map(huge_pages));
    if !node.distances.is_empty() {
        let each = node.distances.iter().map(|(id, distance)| format!("#{id} {distance}"));
        page.line(2, &format!("distances to node {}", each.collect::<Vec<_>>().join(", ")));
    }
}

fn line(page: &mut Page, cache: &Cache, set: &CpuSet) {
    let letter = match cache.kind.as_deref() {
        Some("instruction") => "i",
        Some("data") => "d",
        _ => "",
    };
    let cpus: Vec<String> = set.iter().map(|cpu| cpu.to_string()).collect();
    let name = format!("L{}{letter} cache", cache.level);
    let name = heading(&name, cache.size_bytes.map(unit::cache));
    page.line(2, &format!("{name} shared with logical processors: {}", cpus.join(",")));
}
