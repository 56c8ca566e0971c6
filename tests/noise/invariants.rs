//! What holds of every machine, whatever it is: parts lie in their wholes and sums add up.

use std::collections::{BTreeMap, BTreeSet};

use probes::block::{Disk, Partition};
use probes::collect::Inventory;
use probes::cpuset::CpuSet;
use serde_json::Value;

use crate::machines::all;
use crate::memory::alone;
use crate::replay::report_of;

/// Values that are measured or are differences, so that -1 is one of them.
const SIGNED: &[&str] = &[
    "_millicelsius",
    "_celsius",
    "_rpm",
    "_millivolts",
    "_milliamperes",
    "_milliwatts",
    "_millipercent",
    "_milli",
    "_offset_s",
];

#[test]
fn parts_of_every_captured_machine_lie_in_their_wholes_and_sums_add_up() {
    let _alone = alone();
    let mut wrong = Vec::new();
    for machine in all() {
        let report = report_of(machine.tree());
        let found = violations(&report.inventory);
        wrong.extend(found.into_iter().map(|what| format!("{}: {what}", machine.name)));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Words of a violation, and what brings it about.
type Case = (&'static str, fn(&mut Inventory));

#[test]
fn each_broken_invariant_is_noticed() {
    let sound = || report_of(crate::machines::own("two-socket-server")).inventory;
    let broken = |change: &dyn Fn(&mut Inventory)| {
        let mut inventory = sound();
        change(&mut inventory);
        violations(&inventory).join("; ")
    };
    assert_eq!(broken(&|_| {}), "");
    let cases: [Case; 6] = [
        ("is cut by node 0", |i| {
            let nodes = i.topology.as_mut().unwrap().nodes.as_mut().unwrap();
            nodes[0].cpus = Some("0".to_owned());
            nodes[1].cpus = Some("1-3".to_owned());
            let core = &mut i.cpu.as_mut().unwrap().packages[0].cores[0];
            core.logical_cpus = "0-1".to_owned();
        }),
        ("cache", |i| {
            let cache = &mut i.topology.as_mut().unwrap().caches.as_mut().unwrap()[0];
            cache.shared_cpus = "0-1".to_owned();
            let cpu = i.cpu.as_mut().unwrap();
            cpu.packages[0].cores[0].logical_cpus = "1-2".to_owned();
        }),
        ("ends after", |i| {
            let disk = &mut i.block.as_mut().unwrap().disks[0];
            let (start_bytes, size_bytes) = (disk.size_bytes, Some(512));
            disk.partitions.push(Partition { start_bytes, size_bytes, ..Partition::default() });
        }),
        ("slots", |i| drop(i.memory.as_mut().unwrap().dimms.pop())),
        ("/cpu/packages/0/id is -1", |i| i.cpu.as_mut().unwrap().packages[0].id = Some(-1)),
        ("disks", |i| i.block.as_mut().unwrap().physical_bytes = Some(1)),
    ];
    for (words, change) in cases {
        let found = broken(&change);
        assert!(found.contains(words), "{words}: {found}");
    }
}

/// What is wrong with the facts of a machine, in words.
fn violations(inventory: &Inventory) -> Vec<String> {
    let mut wrong = Vec::new();
    cpus(inventory, &mut wrong);
    memory(inventory, &mut wrong);
    disks(inventory, &mut wrong);
    minus_ones("", &serde_json::to_value(inventory).unwrap(), &mut wrong);
    wrong
}

fn set(list: &str) -> CpuSet {
    CpuSet::parse(list).unwrap()
}

/// Whether one of the sets contains the other, or they have nothing in common.
fn are_nested(a: &CpuSet, b: &CpuSet) -> bool {
    a.intersection(b).is_empty() || a.contains_all(b) || b.contains_all(a)
}

fn cpus(inventory: &Inventory, wrong: &mut Vec<String>) {
    let Some(cpu) = &inventory.cpu else { return };
    let online = cpu.online.as_deref().map(set);
    let cores: Vec<CpuSet> = cpu
        .packages
        .iter()
        .flat_map(|package| &package.cores)
        .map(|core| set(&core.logical_cpus))
        .collect();
    let mut covered = CpuSet::default();
    for core in &cores {
        if core.is_empty() || !covered.intersection(core).is_empty() {
            wrong.push(format!("core {core} is empty or shares a CPU with another"));
        }
        covered.insert_all(core);
    }
    if online.as_ref().is_some_and(|online| !online.contains_all(&covered)) {
        wrong.push(format!("cores have the CPUs {covered}, but some are not online"));
    }
    let mut sum = |what: &str, said: Option<usize>, counted: usize| {
        if said.is_some_and(|said| said != counted) {
            wrong.push(format!("{what}: {said:?} said, {counted} counted"));
        }
    };
    sum("online CPUs", cpu.n_logical_cpus_online, online.as_ref().map_or(0, CpuSet::len));
    if cpu.n_packages.is_some() {
        sum("packages", cpu.n_packages, cpu.packages.len());
        sum("cores", cpu.n_cores, cores.len());
        sum("CPUs of cores", cpu.n_logical_cpus_online, covered.len());
    }
    nodes_and_caches(inventory, &cores, wrong);
}

fn nodes_and_caches(inventory: &Inventory, cores: &[CpuSet], wrong: &mut Vec<String>) {
    let Some(topology) = &inventory.topology else { return };
    for node in topology.nodes.iter().flatten() {
        let Some(cpus) = node.cpus.as_deref().map(set) else { continue };
        for core in cores {
            if !core.intersection(&cpus).is_empty() && !cpus.contains_all(core) {
                wrong.push(format!("core {core} is cut by node {}, which has {cpus}", node.id));
            }
        }
    }
    for cache in topology.caches.iter().flatten() {
        let cpus = set(&cache.shared_cpus);
        // A thread of an AMD compute unit has a data cache of its own within its core.
        for core in cores.iter().filter(|core| !are_nested(core, &cpus)) {
            wrong.push(format!("core {core} is cut by the level {} cache {cpus}", cache.level));
        }
    }
}

fn memory(inventory: &Inventory, wrong: &mut Vec<String>) {
    let Some(memory) = &inventory.memory else { return };
    let by_node = &memory.kernel_present_bytes_by_node;
    if memory.kernel_present_bytes.unwrap_or_default() != by_node.values().sum::<u64>() {
        wrong.push("present memory of the nodes is not that of the machine".to_owned());
    }
    let nodes = inventory.topology.iter().flat_map(|topology| topology.nodes.iter().flatten());
    let of_nodes: BTreeMap<u32, u64> =
        nodes.filter_map(|node| Some((node.id, node.memory_bytes?))).collect();
    let n_nodes = of_nodes.values().sum::<u64>();
    if memory.kernel_present_bytes.is_some_and(|present| n_nodes > present) {
        wrong.push(format!("nodes have {n_nodes} bytes, more than are present"));
    }
    for (node, bytes) in &of_nodes {
        if by_node.get(node).is_some_and(|present| bytes > present) {
            wrong.push(format!("node {node} has {bytes} bytes, more than are present"));
        }
    }
    if memory.usable_bytes > memory.kernel_present_bytes && memory.kernel_present_bytes.is_some() {
        wrong.push("more memory is usable than is present".to_owned());
    }
    let n_populated = memory.dimms.iter().filter(|dimm| dimm.is_populated == Some(true)).count();
    if memory.n_slots.is_some_and(|n| n != memory.dimms.len())
        || memory.n_slots_populated.is_some_and(|n| n != n_populated)
    {
        wrong.push(format!("{:?} memory slots, {} listed", memory.n_slots, memory.dimms.len()));
    }
    let installed = memory.dimms.iter().filter_map(|dimm| dimm.size_bytes).sum::<u64>();
    if memory.installed_bytes.is_some_and(|bytes| bytes != installed) {
        wrong.push(format!("{:?} bytes installed, {installed} listed", memory.installed_bytes));
    }
}

fn disks(inventory: &Inventory, wrong: &mut Vec<String>) {
    let Some(block) = &inventory.block else { return };
    for disk in &block.disks {
        partitions(disk, wrong);
    }
    let sizes: Vec<u64> = block.disks.iter().filter_map(|disk| disk.size_bytes).collect();
    let most = sizes.iter().fold(0, |sum: u64, size| sum.saturating_add(*size));
    let n_most = block.disks.len();
    if block.n_disks.is_some_and(|n| n > n_most) || block.physical_bytes.is_some_and(|n| n > most) {
        wrong.push(format!(
            "{:?} disks of {:?} bytes are more than listed",
            block.n_disks, block.physical_bytes
        ));
    }
    // Where every device counts, the sum is that of all.
    let all_count = block.n_disks == Some(n_most) && sizes.len() == n_most;
    if all_count && block.physical_bytes.is_some_and(|bytes| bytes != most) {
        wrong.push(format!("disks have {most} bytes, {:?} said", block.physical_bytes));
    }
}

fn partitions(disk: &Disk, wrong: &mut Vec<String>) {
    let mut numbers = BTreeSet::new();
    for partition in &disk.partitions {
        if partition.number.is_some_and(|number| !numbers.insert(number)) {
            wrong.push(format!("{} has a number that another partition has", partition.name));
        }
        let end = partition.start_bytes.zip(partition.size_bytes);
        let end = end.map(|(start, size)| start.saturating_add(size));
        if let (Some(end), Some(size)) = (end, disk.size_bytes)
            && end > size
        {
            wrong.push(format!("{} ends after {size} bytes of {}", partition.name, disk.name));
        }
    }
}

/// Numbers and texts of -1, the kernel's value for unknown.
fn minus_ones(path: &str, value: &Value, wrong: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            map.iter().for_each(|(key, value)| minus_ones(&format!("{path}/{key}"), value, wrong));
        }
        Value::Array(list) => {
            let items = list.iter().enumerate();
            items.for_each(|(i, value)| minus_ones(&format!("{path}/{i}"), value, wrong));
        }
        value => {
            let is_minus_1 = value.as_i64() == Some(-1) || value.as_str() == Some("-1");
            if is_minus_1 && !SIGNED.iter().any(|end| path.ends_with(end)) {
                wrong.push(format!("{path} is -1"));
            }
        }
    }
}
