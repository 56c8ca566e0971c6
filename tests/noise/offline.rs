//! A core that is taken offline: the kernel removes its CPUs from every list, and their
//! `topology` and `cache` folders (`kernel/cpu.c`, `drivers/base/topology.c`, `cacheinfo.c`).

use probes::cpuset::CpuSet;
use probes::machine::{Archive, Node, Problem};

use crate::machines::all;
use crate::memory::alone;
use crate::replay::report_of;

const CPU: &str = "sys/devices/system/cpu";

#[test]
fn a_core_taken_offline_is_one_core_less_and_its_cpus_are_offline() {
    let _alone = alone();
    let mut n_machines = 0;
    for machine in all() {
        let whole = machine.tree();
        let Some(core) = last_core(&whole) else { continue };
        let report = report_of(whole.clone());
        let problems = of_hardware(&report.problems);
        let Some(before) = report.inventory.cpu else { continue };
        // Machines that contradict themselves prove nothing here.
        if before.n_cores.is_none_or(|n| n < 2) || !problems.is_empty() {
            continue;
        }
        let report = report_of(offline(&whole, &core));
        let (name, after) = (&machine.name, report.inventory.cpu.unwrap());
        let less = |n: Option<usize>, by: usize| n.map(|n| n - by);
        assert_eq!(after.n_cores, less(before.n_cores, 1), "{name}: cores without {core}");
        let n_online = less(before.n_logical_cpus_online, core.len());
        assert_eq!(after.n_logical_cpus_online, n_online, "{name}: logical CPUs without {core}");
        assert_eq!(after.n_logical_cpus_present, before.n_logical_cpus_present, "{name}: present");
        let known = after.offline.as_deref().map(|list| CpuSet::parse(list).unwrap());
        let is_offline = known.is_none_or(|offline| core.difference(&offline).is_empty());
        assert!(is_offline, "{name}: {core} is not among {:?}", after.offline);
        assert_eq!(of_hardware(&report.problems), [], "{name}: problems without {core}");
        n_machines += 1;
    }
    eprintln!("{n_machines} machines with a core offline");
    assert!(n_machines > 0);
}

/// The problems apart from the one that a tree without an identifier has.
fn of_hardware(problems: &[Problem]) -> Vec<Problem> {
    problems.iter().filter(|problem| problem.collector != "identity").cloned().collect()
}

fn text(tree: &Archive, path: &str) -> Option<String> {
    let Some(Node::File(content)) = tree.get(path) else { return None };
    Some(String::from_utf8_lossy(content).trim_end().to_owned())
}

fn set(tree: &Archive, path: &str) -> Option<CpuSet> {
    CpuSet::parse(&text(tree, path)?).ok()
}

/// The CPUs of the core of the last online CPU, if the tree has this for every CPU.
fn last_core(tree: &Archive) -> Option<CpuSet> {
    let online = set(tree, &format!("{CPU}/online"))?;
    // The second is the name before Linux 5.3; later kernels have both, but a capture only what was read.
    let siblings = |cpu: u32| {
        let folder = format!("{CPU}/cpu{cpu}/topology");
        ["core_cpus_list", "thread_siblings_list"]
            .iter()
            .find_map(|name| set(tree, &format!("{folder}/{name}")))
    };
    if online.iter().any(|cpu| siblings(cpu).is_none()) {
        return None;
    }
    let core = siblings(online.iter().last()?)?.intersection(&online);
    (!core.is_empty() && core.len() < online.len()).then_some(core)
}

/// The machine with the CPUs of `core` offline.
fn offline(whole: &Archive, core: &CpuSet) -> Archive {
    let mut tree = whole.clone();
    for cpu in core.iter() {
        for folder in ["topology", "cache"] {
            tree.remove(&format!("{CPU}/cpu{cpu}/{folder}"));
        }
        if whole.get(&format!("{CPU}/cpu{cpu}/online")).is_some() {
            put(&mut tree, &format!("{CPU}/cpu{cpu}/online"), "0\n");
        }
    }
    let lists: Vec<(String, String)> = tree
        .nodes()
        .filter(|(path, _)| is_list(path))
        .filter_map(|(path, _)| {
            let list = text(whole, &path)?;
            Some((path, list))
        })
        .collect();
    for (path, list) in lists {
        // A file of the same name in another folder shows the form.
        let parsed = if is_mask(&path) { CpuSet::parse_mask(&list) } else { CpuSet::parse(&list) };
        let Ok(cpus) = parsed else { continue };
        let cpus = cpus.difference(core);
        let list = if is_mask(&path) { mask(&cpus, list.len()) } else { cpus.to_string() };
        put(&mut tree, &path, &(list + "\n"));
    }
    let list = format!("{CPU}/offline");
    if let Some(already) = text(whole, &list) {
        let all = format!("{already},{core}");
        put(&mut tree, &list, &(all.trim_start_matches(',').to_owned() + "\n"));
    }
    without_blocks(&mut tree, core);
    tree
}

fn put(tree: &mut Archive, path: &str, text: &str) {
    tree.set(path, Some(Node::File(text.as_bytes().into())));
}

fn is_list(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let is_of_cpu = path.contains("/topology/") || path.contains("/cache/");
    path == format!("{CPU}/online")
        || (path.starts_with("sys/devices/system/node/") && matches!(name, "cpulist" | "cpumap"))
        || (is_of_cpu && (name.ends_with("_list") || is_mask(path)))
}

fn is_mask(path: &str) -> bool {
    let masks = ["_siblings", "_cpus", "_map", "cpumap"];
    masks.iter().any(|ending| path.ends_with(ending))
}

/// The mask of `cpus`, with as many groups as a mask of `n_digits` characters.
fn mask(cpus: &CpuSet, n_digits: usize) -> String {
    let n_groups = u32::try_from(n_digits.div_ceil(9)).unwrap();
    let group = |group: u32| {
        let bits = cpus.iter().filter(|cpu| cpu / 32 == group);
        format!("{:08x}", bits.fold(0_u32, |mask, cpu| mask | 1 << (cpu % 32)))
    };
    (0..n_groups).rev().map(group).collect::<Vec<_>>().join(",")
}

/// Removes the blocks of `core` from `/proc/cpuinfo`.
fn without_blocks(tree: &mut Archive, core: &CpuSet) {
    let Some(info) = text(tree, "proc/cpuinfo") else { return };
    let is_gone = |block: &&str| {
        let line = block.lines().find(|line| line.starts_with("processor"));
        let cpu = line.and_then(|line| line.split_once(':')?.1.trim().parse().ok());
        cpu.is_some_and(|cpu| core.contains(cpu))
    };
    let blocks: Vec<&str> = info.split("\n\n").filter(|block| !is_gone(block)).collect();
    put(tree, "proc/cpuinfo", &(blocks.join("\n\n") + "\n"));
}
