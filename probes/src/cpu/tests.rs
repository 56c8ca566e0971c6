//! Processors of unusual machines, from small trees.

use super::*;
use crate::testing::{tree, tree_from};

mod siblings;

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
fn packages_that_all_report_minus_1_are_distinguished_by_their_cpus() {
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
fn threads_per_core_is_absent_if_cores_differ_in_kind() {
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
fn offline_siblings_do_not_make_a_core_of_one_thread() {
    let cpus = [(0, "core_cpus_list", "0"), (1, "core_cpus_list", "1")];
    let ids = [(0, "physical_package_id", "0"), (1, "physical_package_id", "0")];
    let cpus = [cpus, ids].concat();
    let with = |control: &str| {
        let present = ("sys/devices/system/cpu/present", "0-3");
        let control = ("sys/devices/system/cpu/smt/control", control);
        read(&[(ONLINE, "0-1"), present, control], &cpus).0
    };
    for control in ["off", "forceoff", "on"] {
        assert_eq!((with(control).n_cores, with(control).threads_per_core), (Some(2), None));
    }
    assert_eq!(with("notsupported").threads_per_core, Some(1));
    assert_eq!(with("notimplemented").threads_per_core, None);
    let one_offline = [(ONLINE, "0-1"), ("sys/devices/system/cpu/present", "0-2")];
    let one_offline = read(&one_offline, &cpus).0;
    assert_eq!(one_offline.threads_per_core, Some(1), "it is the sibling of one core at most");
    let mut hybrid = vec![(0, "core_cpus_list", "0-1"), (1, "core_cpus_list", "0-1")];
    hybrid.extend([(2, "core_cpus_list", "2"), (3, "core_cpus_list", "3")]);
    hybrid.extend((0..4).map(|cpu| (cpu, "physical_package_id", "0")));
    let with = |present: &str| {
        let sets = [(ONLINE, "0-3"), ("sys/devices/system/cpu/present", present)];
        read(&sets, &hybrid).0.threads_per_core
    };
    assert_eq!((with("0-4"), with("0-5")), (None, Some(2)), "one is not the sibling of two cores");
}

#[test]
fn cpus_in_standby_on_ibm_z_are_listed_and_hide_no_threads() {
    let cpus = [(0, "core_cpus_list", "0"), (0, "physical_package_id", "0")];
    let set = [
        (ONLINE, "0"),
        ("sys/devices/system/cpu/present", "0-2"),
        ("sys/devices/system/cpu/cpu1/configure", "0"),
        ("sys/devices/system/cpu/cpu2/configure", "0"),
    ];
    let z = [&set[..], &[("proc/cpuinfo", "vendor_id : IBM/S390\n")]].concat();
    let (z, n_problems) = read(&z, &cpus);
    assert_eq!((z.standby.as_deref(), z.threads_per_core), (Some("1-2"), Some(1)));
    assert_eq!(n_problems, 0);
    let (other, _) = read(&set, &cpus);
    assert_eq!((other.standby, other.threads_per_core), (None, None));
}

#[test]
fn socket_with_a_short_structure_is_neither_empty_nor_populated() {
    use crate::smbios::tests::{smbios, structure};
    let with = |n_bytes: usize| {
        let mut fields = vec![0; n_bytes];
        if let Some(status) = fields.get_mut(0x18 - 4) {
            *status = 0x41;
        }
        sockets(&smbios(&[structure(4, &fields, &[])])).remove(0).is_populated
    };
    assert_eq!((with(0x10), with(0x20)), (None, Some(true)));
}

#[test]
fn equal_socket_numbers_in_two_ibm_z_books_are_two_packages() {
    let of = |cpu: u32, list: &'static str, book: &'static str| {
        [
            (cpu, "core_cpus_list", list),
            (cpu, "physical_package_id", "1"),
            (cpu, "core_id", list),
            (cpu, "book_id", book),
            (cpu, "drawer_id", "0"),
        ]
    };
    let cpus = [of(0, "0", "1"), of(1, "1", "2"), of(2, "2", "2")].concat();
    let (z, _) = read(&[(ONLINE, "0-2"), ("proc/cpuinfo", "vendor_id : IBM/S390\n")], &cpus);
    assert_eq!((z.n_packages, z.n_cores), (Some(2), Some(3)));
    let (other, _) = read(&[(ONLINE, "0-2")], &cpus);
    assert_eq!(other.n_packages, Some(1));
}

#[test]
fn contradictory_sets_are_a_problem_and_the_ids_replace_them() {
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
fn cpu_without_a_known_core_makes_the_count_unknown() {
    let (cpu, _) =
        read(&[(ONLINE, "0-1")], &[(0, "core_cpus_list", "0"), (0, "physical_package_id", "0")]);
    assert_eq!((cpu.n_logical_cpus_online, cpu.n_cores, cpu.n_packages), (Some(2), None, None));
}

#[test]
fn empty_cpuinfo_is_a_problem() {
    let machine = crate::testing::tree_of_bytes(&[("proc/cpuinfo", b"")]);
    assert_eq!(cpu(&machine).n_logical_cpus_online, None);
    assert_eq!(machine.problems().len(), 1);
}

#[test]
fn cpus_missing_from_a_truncated_cpuinfo_are_not_counted_as_threads() {
    let text = |n: u32| -> String {
        let block = |cpu: u32| {
            format!(
                "processor : {cpu}\nphysical id : 0\nsiblings : 4\ncore id : {}\ncpu cores : 4\n\n",
                cpu % 2
            )
        };
        (0..n).map(block).collect()
    };
    let cores = |cpuinfo: &str| {
        let mut files = vec![("sys/devices/system/cpu/online".to_owned(), "0-3".to_owned())];
        for cpu in 0..4 {
            let at = |name: &str| format!("sys/devices/system/cpu/cpu{cpu}/topology/{name}");
            files.push((at("physical_package_id"), "0".to_owned()));
            files.push((at("core_id"), (cpu % 2).to_string()));
        }
        files.push(("proc/cpuinfo".to_owned(), cpuinfo.to_owned()));
        cpu(&tree_from(&files)).n_cores
    };
    assert_eq!(cores(&text(4)), Some(4));
    assert_eq!(cores(&text(2)), None);
    let whole = text(4);
    let cut = whole.trim_end().strip_suffix("cpu cores : 4").unwrap();
    assert_eq!(cores(cut.trim_end()), None, "truncated within the last block");
}

#[test]
fn cpuinfo_lists_cpus_cores_and_packages_if_sysfs_is_missing() {
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
    assert_eq!(cpu.offline, None, "no source for the possible CPUs");
}

#[test]
fn empty_machine_has_no_facts_and_no_problems() {
    let (cpu, n_problems) = read(&[], &[]);
    assert_eq!((cpu, n_problems), (Cpu::default(), 0));
}

#[test]
fn kernel_release_ends_in_the_architecture() {
    assert_eq!(architecture_of_release("5.14.0-427.el9.x86_64"), Some("x86_64"));
    assert_eq!(architecture_of_release("6.1.0-18-amd64"), Some("x86_64"));
    assert_eq!(architecture_of_release("6.1.0"), None);
}

/// Topology files of a CPU: package, die, core id, the CPUs in its core and package.
fn place(
    cpu: u32,
    ids: [&'static str; 3],
    sets: [&'static str; 2],
) -> [(u32, &'static str, &'static str); 5] {
    [
        (cpu, "physical_package_id", ids[0]),
        (cpu, "die_id", ids[1]),
        (cpu, "core_id", ids[2]),
        (cpu, "core_cpus_list", sets[0]),
        (cpu, "package_cpus_list", sets[1]),
    ]
}

#[test]
fn cpu_0_may_be_offline_and_is_no_template_for_the_others() {
    let cpus = [place(1, ["0", "0", "1"], ["1,3", "1-3"]), place(2, ["0", "0", "2"], ["2", "1-3"])];
    let cpuinfo = "processor : 1\nmodel name : Real\n\nprocessor : 2\nmodel name : Real\n";
    let sets =
        [(ONLINE, "1-3"), ("sys/devices/system/cpu/present", "0-3"), ("proc/cpuinfo", cpuinfo)];
    let (cpu, n_problems) = read(&sets, &cpus.concat());
    assert_eq!(
        (cpu.n_cores, cpu.n_packages, cpu.n_logical_cpus_online),
        (Some(2), Some(1), Some(3))
    );
    assert_eq!(cpu.model_name.as_deref(), Some("Real"));
    assert_eq!((cpu.offline.as_deref(), n_problems), (None, 0));
}

#[test]
fn core_ids_that_repeat_on_each_die_are_different_cores() {
    let cpus = [
        place(0, ["0", "0", "0"], ["0", "0-3"]),
        place(1, ["0", "0", "1"], ["1", "0-3"]),
        place(2, ["0", "1", "0"], ["2", "0-3"]),
        place(3, ["0", "1", "1"], ["3", "0-3"]),
    ];
    let dies = [(0, "die_cpus_list", "0-1"), (2, "die_cpus_list", "2-3")];
    let (cpu, n_problems) = read(&[(ONLINE, "0-3")], &[cpus.concat(), dies.to_vec()].concat());
    assert_eq!((cpu.n_cores, cpu.n_packages, n_problems), (Some(4), Some(1), 0));
    let dies: Vec<_> = cpu.packages[0].cores.iter().map(|core| core.die_id).collect();
    assert_eq!(dies, [Some(0), Some(0), Some(1), Some(1)]);
}

#[test]
fn die_ids_that_repeat_in_each_package_are_different_dies() {
    let cpus = [
        place(0, ["0", "0", "0"], ["0", "0-1"]),
        place(1, ["0", "0", "1"], ["1", "0-1"]),
        place(2, ["1", "0", "0"], ["2", "2-3"]),
        place(3, ["1", "0", "1"], ["3", "2-3"]),
    ];
    let dies = [(0, "die_cpus_list", "0-1"), (2, "die_cpus_list", "2-3")];
    let (cpu, n_problems) = read(&[(ONLINE, "0-3")], &[cpus.concat(), dies.to_vec()].concat());
    assert_eq!((cpu.n_cores, cpu.n_packages, n_problems), (Some(4), Some(2), 0));
}

#[test]
fn sockets_are_distinct_package_ids_whatever_the_siblings_would_give_by_division() {
    // Old kernels on new parts: every core claims to be all siblings of its package.
    let cpus = [
        place(0, ["0", "-1", "0"], ["0", "0"]),
        place(1, ["0", "-1", "1"], ["1", "1"]),
        place(2, ["0", "-1", "2"], ["2", "2"]),
    ];
    let (cpu, _) = read(&[(ONLINE, "0-2")], &cpus.concat());
    assert_eq!((cpu.n_packages, cpu.n_cores, cpu.threads_per_core), (Some(1), Some(3), Some(1)));
    assert_eq!(cpu.packages[0].cores[0].die_id, None, "-1 means unknown");
}

#[test]
fn package_mask_with_cpus_of_another_package_is_a_problem() {
    let cpus = [
        place(0, ["0", "0", "0"], ["0", "0-3"]),
        place(1, ["0", "0", "1"], ["1", "0-1"]),
        place(2, ["1", "0", "0"], ["2", "2-3"]),
        place(3, ["1", "0", "1"], ["3", "2-3"]),
    ];
    let (cpu, n_problems) = read(&[(ONLINE, "0-3")], &cpus.concat());
    assert_eq!((cpu.n_packages, cpu.n_cores, n_problems), (Some(2), Some(4), 1));
    assert_eq!(cpu.packages[1].cores.len(), 2);
}

#[test]
fn package_takes_three_reads_whatever_its_number_of_cores() {
    let mut cpus = Vec::new();
    for cpu in 0..64_u32 {
        cpus.extend([(cpu, "core_id", "1"), (cpu, "package_cpus_list", "0-63")]);
    }
    let lists: Vec<String> = (0..64).map(|cpu| cpu.to_string()).collect();
    cpus.extend(lists.iter().zip(0..64).map(|(list, cpu)| (cpu, "core_cpus_list", list.as_str())));
    // Only the first and the last CPU have the file, and no other is read.
    cpus.extend([(0, "physical_package_id", "36"), (63, "physical_package_id", "36")]);
    let (cpu, n_problems) = read(&[(ONLINE, "0-63")], &cpus);
    assert_eq!((cpu.n_packages, cpu.n_cores, n_problems), (Some(1), Some(64), 0));
    assert_eq!(cpu.packages[0].id, Some(36));
}

#[test]
fn cpus_without_a_topology_directory_leave_the_count_unknown() {
    let cpus = [place(0, ["0", "0", "0"], ["0", "0-2"]), place(1, ["0", "0", "1"], ["1", "0-2"])];
    let (cpu, _) = read(&[(ONLINE, "0-2")], &cpus.concat());
    assert_eq!((cpu.n_logical_cpus_online, cpu.n_cores), (Some(3), None));
}

#[test]
fn most_and_least_capable_arm_cores_have_a_kind_and_a_part_name() {
    let file = |cpu: u32, name: &str| format!("sys/devices/system/cpu/cpu{cpu}/{name}");
    let cpuinfo = |cpu: u32, part: &str| {
        format!("processor : {cpu}\nCPU implementer : 0x41\nCPU part : {part}\n\n")
    };
    let text = [cpuinfo(0, "0xd05"), cpuinfo(1, "0xd05"), cpuinfo(2, "0xd0b")].concat();
    let capacities = [(0, "400"), (1, "400"), (2, "1024")];
    let files: Vec<(String, &str)> =
        capacities.iter().map(|(cpu, value)| (file(*cpu, "cpu_capacity"), *value)).collect();
    let mut set: Vec<(&str, &str)> = files.iter().map(|(p, c)| (p.as_str(), *c)).collect();
    set.extend([(ONLINE, "0-2"), ("proc/cpuinfo", text.as_str())]);
    let cpus = [
        place(0, ["0", "0", "0"], ["0", "0-2"]),
        place(1, ["0", "0", "1"], ["1", "0-2"]),
        place(2, ["0", "0", "2"], ["2", "0-2"]),
    ];
    let (cpu, _) = read(&set, &cpus.concat());
    let cores: Vec<_> = cpu.packages[0].cores.iter().map(|core| core.kind.as_deref()).collect();
    assert_eq!(cores, [Some("efficiency"), Some("efficiency"), Some("performance")]);
    let parts: Vec<_> = cpu.packages[0].cores.iter().map(|c| c.part_name.as_deref()).collect();
    assert_eq!(parts, [Some("Cortex-A55"), Some("Cortex-A55"), Some("Cortex-A76")]);
}

#[test]
fn books_and_drawers_are_read_on_ibm_z_only() {
    let ids = [(0, "book_id", "2"), (0, "drawer_id", "1")];
    let cpus = [place(0, ["0", "-1", "0"], ["0", "0"]).to_vec(), ids.to_vec()].concat();
    let (z, _) = read(&[(ONLINE, "0"), ("proc/cpuinfo", "vendor_id : IBM/S390\n")], &cpus);
    let core = &z.packages[0].cores[0];
    assert_eq!((core.book_id, core.drawer_id), (Some(2), Some(1)));
    let (other, _) = read(&[(ONLINE, "0")], &cpus);
    assert_eq!(other.packages[0].cores[0].book_id, None);
}

#[test]
fn list_of_flags_starts_with_the_first_flag() {
    let text = "processor : 0\nvendor_id : GenuineIntel\ncpu family : 6\nmodel : 85\nstepping : 7\nflags : fpu vme de pse tsc msr pae\n";
    let (cpu, _) = read(&[(ONLINE, "0"), ("proc/cpuinfo", text)], &[]);
    assert_eq!(cpu.flags, ["fpu", "vme", "de", "pse", "tsc", "msr", "pae"]);
    assert_eq!((cpu.family, cpu.model, cpu.stepping), (Some(6), Some(85), Some(7)));
}

#[test]
fn missing_list_of_online_cpus_is_replaced_by_present_minus_offline() {
    let (cpu, _) = read(
        &[("sys/devices/system/cpu/present", "0-7"), ("sys/devices/system/cpu/offline", "6-7")],
        &[(0, "core_cpus_list", "0-1"), (2, "core_cpus_list", "2-3")],
    );
    assert_eq!((cpu.online.as_deref(), cpu.n_logical_cpus_online), (Some("0-5"), Some(6)));
}

#[test]
fn packages_and_cores_are_sorted_numerically() {
    let place = |cpu: u32, package: &'static str, core: &'static str, set: &'static str| {
        place(cpu, [package, "-1", core], [set, set])
    };
    let cpus = [place(0, "10", "10", "0"), place(1, "2", "9", "1"), place(2, "2", "10", "2")];
    let (cpu, _) = read(&[(ONLINE, "0-2")], &cpus.concat());
    let ids: Vec<_> = cpu.packages.iter().map(|package| package.id).collect();
    assert_eq!(ids, [Some(2), Some(10)]);
    let cores: Vec<_> = cpu.packages[0].cores.iter().map(|core| core.id).collect();
    assert_eq!(cores, [Some(9), Some(10)]);
}

#[test]
fn offline_cpu_that_stopped_halfway_is_distinguished_from_one_that_is_down() {
    let at = |cpu: u32| format!("sys/devices/system/cpu/cpu{cpu}/hotplug/state");
    let machine = tree(&[
        ("sys/devices/system/cpu/present", "0-3"),
        ("sys/devices/system/cpu/online", "0"),
        (&at(0), "238"),
        (&at(1), "0"),
        (&at(2), "72"),
        (&at(3), "238"),
        ("proc/cpuinfo", "processor : 0\nvendor_id : GenuineIntel\n"),
    ]);
    assert_eq!(cpu(&machine).stuck.as_deref(), Some("2"));
    assert!(machine.problems().is_empty());
}
