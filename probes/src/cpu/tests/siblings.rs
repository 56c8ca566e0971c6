//! Sets of sibling threads that contradict the core ids, the nodes or each other.

use super::*;

/// A package of AMD family 15h with two nodes of two compute units each: one set of sibling threads for
/// a unit, a core id for each thread, ids that start again on the second node
/// (hwloc's test machine `64amd64-4p2n4ca2co` is one).
fn compute_units(sets: [&str; 8]) -> (String, String) {
    let cpus = (0..8).zip(sets).map(|(cpu, set)| format!("{cpu} 0 0 {} {set} 0-7\n", cpu % 4));
    let block = |cpu: u32| {
        let id = cpu % 4;
        format!(
            "processor : {cpu}\nvendor_id : AuthenticAMD\ncpu family : 21\nphysical id : 0\nsiblings : 8\n\
             core id : {id}\ncpu cores : 4\nflags : fpu lm\n\n"
        )
    };
    (cpus.collect(), (0..8).map(block).collect())
}

const NODES: [(&str, &str); 2] = [
    ("sys/devices/system/node/node0/cpulist", "0-3"),
    ("sys/devices/system/node/node1/cpulist", "4-7"),
];

fn logical_cpus(cpu: &Cpu) -> Vec<&str> {
    let mut cores: Vec<&str> =
        cpu.packages.iter().flat_map(|p| &p.cores).map(|core| core.logical_cpus.as_str()).collect();
    cores.sort_unstable();
    cores
}

#[test]
fn compute_units_are_cores_although_their_threads_have_separate_core_ids() {
    let (cpus, cpuinfo) = compute_units(["0-1", "0-1", "2-3", "2-3", "4-5", "4-5", "6-7", "6-7"]);
    let set = [("online", "0-7"), ("proc/cpuinfo", &cpuinfo), NODES[0], NODES[1]];
    let (cpu, n_problems) = read(&set, &cpus);
    assert_eq!(logical_cpus(&cpu), ["0-1", "2-3", "4-5", "6-7"]);
    assert_eq!((cpu.n_cores, cpu.threads_per_core, n_problems), (Some(4), Some(2), 0));
}

#[test]
fn cpus_of_two_nodes_are_never_one_core_whatever_their_ids() {
    let (cpus, cpuinfo) = compute_units(["."; 8]);
    let set = [("online", "0-7"), ("proc/cpuinfo", &cpuinfo), NODES[0], NODES[1]];
    let (cpu, _) = read(&set, &cpus);
    assert_eq!(logical_cpus(&cpu), ["0", "1", "2", "3", "4", "5", "6", "7"]);
    let (cpu, _) = read(&[("online", "0-7"), ("proc/cpuinfo", &cpuinfo)], &cpus);
    assert_eq!(cpu.n_cores, Some(4), "without nodes there are only the ids");
}

#[test]
fn damaged_set_affects_only_its_own_cores() {
    // CPU 0 reports that it is alone and CPU 1 contradicts it: the ids decide for these two.
    let (cpus, cpuinfo) = compute_units(["0", "0-1", "2-3", "2-3", "4-5", "4-5", "6-7", "6-7"]);
    let set = [("online", "0-7"), ("proc/cpuinfo", &cpuinfo), NODES[0], NODES[1]];
    let (cpu, n_problems) = read(&set, &cpus);
    assert_eq!(logical_cpus(&cpu), ["0", "1", "2-3", "4-5", "6-7"]);
    assert_eq!(n_problems, 1);
}

#[test]
fn cpus_of_two_sibling_sets_are_never_one_core_even_with_equal_ids() {
    let (cpus, cpuinfo) = compute_units(["0,2", "1", "2", "3", "4,6", "5", "6", "7"]);
    let (cpu, n_problems) = read(&[("online", "0-7"), ("proc/cpuinfo", &cpuinfo)], &cpus);
    assert_eq!(logical_cpus(&cpu), ["0", "1", "2", "3", "4", "5", "6", "7"]);
    assert_eq!(n_problems, 1);
    let (cpus, cpuinfo) = compute_units(["0,4-5", "1", "2", "3", "4", "5", "6", "7"]);
    let (cpu, _) = read(&[("online", "0-7"), ("proc/cpuinfo", &cpuinfo)], &cpus);
    assert_eq!(logical_cpus(&cpu), ["0,4", "1", "2", "3", "5", "6", "7"], "CPU 0 names CPU 4");
}
