//! Processors of odd machines, from small trees.

use super::*;
use crate::testing::tree;

fn files(cpus: &[(u32, &str, &str)]) -> Vec<(String, String)> {
    let mut files = Vec::new();
    for (cpu, name, value) in cpus {
        let path = format!("sys/devices/system/cpu/cpu{cpu}/topology/{name}");
        files.push((path, (*value).to_owned()));
    }
    files
}

fn read(set: &[(&str, &str)], cpus: &[(u32, &str, &str)]) -> (Cpu, usize) {
    let files = files(cpus);
    let mut all: Vec<(&str, &str)> =
        files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    all.extend(set);
    let machine = tree(&all);
    (cpu(&machine), machine.problems().len())
}

const ONLINE: &str = "sys/devices/system/cpu/online";

#[test]
fn cores_and_packages_are_distinct_sets_whatever_their_ids() {
    let (cpu, n_problems) = read(
        &[(ONLINE, "0-3"), ("sys/devices/system/cpu/possible", "0-7")],
        &[
            (0, "core_cpus_list", "0,2"),
            (0, "core_id", "0"),
            (0, "physical_package_id", "8442"),
            (1, "core_cpus_list", "1,3"),
            (1, "core_id", "0"),
            (1, "physical_package_id", "36"),
        ],
    );
    assert_eq!((cpu.n_packages, cpu.n_cores, cpu.threads_per_core), (Some(2), Some(2), Some(2)));
    assert_eq!(cpu.offline.as_deref(), Some("4-7"));
    let ids: Vec<_> = cpu.packages.iter().map(|package| package.id).collect();
    assert_eq!(ids, [Some(36), Some(8442)]);
    assert_eq!(cpu.packages[0].cores[0].logical_cpus, "1,3");
    assert_eq!(n_problems, 0);
}

#[test]
fn packages_that_all_say_minus_1_are_told_by_their_cpus() {
    let place = |cpu: u32, core: &'static str, package: &'static str| {
        [
            (cpu, "core_cpus_list", core),
            (cpu, "core_siblings_list", package),
            (cpu, "physical_package_id", "-1"),
        ]
    };
    let cpus = [place(0, "0", "0-1"), place(1, "1", "0-1"), place(2, "2", "2")].concat();
    let (cpu, _) = read(&[(ONLINE, "0-2")], &cpus);
    assert_eq!((cpu.n_packages, cpu.n_cores), (Some(2), Some(3)));
}

#[test]
fn threads_per_core_is_not_said_where_cores_differ_by_nature() {
    let sets = [(0, "core_cpus_list", "0-1"), (2, "core_cpus_list", "2")];
    let ids = [(0, "physical_package_id", "0"), (2, "physical_package_id", "0")];
    let cpus = [sets, ids].concat();
    let kinds = [("sys/devices/cpu_core/cpus", "0-1"), ("sys/devices/cpu_atom/cpus", "2")];
    let (hybrid, _) = read(&[&[(ONLINE, "0-2")], &kinds[..]].concat(), &cpus);
    assert_eq!((hybrid.n_cores, hybrid.threads_per_core), (Some(2), None));
    let kinds: Vec<_> = hybrid.packages[0].cores.iter().map(|core| core.kind.as_deref()).collect();
    assert_eq!(kinds, [Some("performance"), Some("efficiency")]);
    let (offline, _) = read(&[(ONLINE, "0-2"), ("sys/devices/system/cpu/present", "0-3")], &cpus);
    assert_eq!(offline.threads_per_core, Some(2), "the other thread is offline");
}

#[test]
fn sets_that_contradict_each_other_give_way_to_the_ids_and_are_a_problem() {
    let (cpu, n_problems) = read(
        &[(ONLINE, "0-1")],
        &[
            (0, "thread_siblings_list", "0"),
            (0, "core_id", "0"),
            (0, "physical_package_id", "0"),
            (1, "thread_siblings_list", "0"),
            (1, "core_id", "1"),
            (1, "physical_package_id", "0"),
        ],
    );
    assert_eq!((cpu.n_cores, cpu.threads_per_core, n_problems), (Some(2), Some(1), 1));
}

#[test]
fn a_core_that_nothing_tells_makes_the_count_unknown_and_not_wrong() {
    let (cpu, _) =
        read(&[(ONLINE, "0-1")], &[(0, "core_cpus_list", "0"), (0, "physical_package_id", "0")]);
    assert_eq!((cpu.n_logical_cpus_online, cpu.n_cores, cpu.n_packages), (Some(2), None, None));
}

#[test]
fn without_sysfs_cpuinfo_tells_cpus_cores_and_packages() {
    let block = |cpu: u32, package: u32, core: u32| {
        format!(
            "processor : {cpu}\nvendor_id : GenuineIntel\nmodel name : Xeon\nphysical id : {package}\nsiblings : 2\ncore id : {core}\ncpu cores : 1\nflags : fpu lm hypervisor\nmicrocode : 0x1\n\n"
        )
    };
    let text = [block(0, 0, 0), block(1, 1, 0), block(2, 0, 0), block(3, 1, 0)].concat();
    let (cpu, _) = read(&[("proc/cpuinfo", &text)], &[]);
    assert_eq!((cpu.n_logical_cpus_online, cpu.online.as_deref()), (Some(4), Some("0-3")));
    assert_eq!((cpu.n_packages, cpu.n_cores, cpu.threads_per_core), (Some(2), Some(2), Some(2)));
    assert_eq!(cpu.model_name.as_deref(), Some("Xeon"));
    assert_eq!(
        (cpu.architecture.as_deref(), cpu.has_hypervisor_flag),
        (Some("x86_64"), Some(true))
    );
    assert_eq!(cpu.offline, None, "nothing says which CPUs could be online");
}

#[test]
fn an_empty_machine_has_no_facts_and_no_problems() {
    let (cpu, n_problems) = read(&[], &[]);
    assert_eq!((cpu, n_problems), (Cpu::default(), 0));
}

#[test]
fn the_architecture_stands_at_the_end_of_the_release() {
    assert_eq!(architecture_of_release("5.14.0-427.el9.x86_64"), Some("x86_64"));
    assert_eq!(architecture_of_release("6.1.0-18-amd64"), Some("x86_64"));
    assert_eq!(architecture_of_release("6.1.0"), None);
}

#[test]
fn a_missing_list_of_online_cpus_is_made_of_those_that_are_present_and_not_offline() {
    let (cpu, _) = read(
        &[("sys/devices/system/cpu/present", "0-7"), ("sys/devices/system/cpu/offline", "6-7")],
        &[(0, "core_cpus_list", "0-1"), (2, "core_cpus_list", "2-3")],
    );
    assert_eq!((cpu.online.as_deref(), cpu.n_logical_cpus_online), (Some("0-5"), Some(6)));
}
