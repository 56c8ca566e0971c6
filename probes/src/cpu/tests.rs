//! Processors of unusual machines, from small trees.

use super::*;
use crate::testing::{has, tree_from};
use serde_json::json;

mod siblings;

/// Files of the CPUs in a table: the number of each, the ids of its package, die and core, the CPUs of its core and of
/// its package; a dot for a file that is not there.
fn files(table: &str) -> Vec<(String, String)> {
    let names = ["physical_package_id", "die_id", "core_id", "core_cpus_list", "package_cpus_list"];
    let mut files = Vec::new();
    for line in table.lines() {
        let mut cells = line.split_whitespace();
        let Some(cpu) = cells.next() else { continue };
        for (name, value) in names.into_iter().zip(cells).filter(|(_, value)| *value != ".") {
            files.push((format!("{CPU}/cpu{cpu}/topology/{name}"), value.to_owned()));
        }
    }
    files
}

/// Reads the CPUs of a table, and the files in `set`, below the directory of the CPUs unless they are in `/proc` or
/// `/sys`. Returns them with the number of problems.
fn read(set: &[(&str, &str)], table: &str) -> (Cpu, usize) {
    let mut all = files(table);
    for (path, text) in set {
        let is_whole = path.starts_with("proc/") || path.starts_with("sys/");
        let path = if is_whole { (*path).to_owned() } else { format!("{CPU}/{path}") };
        all.push((path, (*text).to_owned()));
    }
    let machine = tree_from(&all);
    (cpu(&machine), machine.problems().len())
}

/// The numbers of packages, cores and threads in a core.
fn counts(cpu: &Cpu) -> [Option<usize>; 3] {
    [cpu.n_packages, cpu.n_cores, cpu.threads_per_core]
}

const S390: (&str, &str) = ("proc/cpuinfo", "vendor_id : IBM/S390\n");

#[test]
fn cores_and_packages_are_distinct_sets_whatever_their_ids() {
    let table = "0 8442 . 0 0,2 .\n1 36 . 0 1,3 .";
    let (cpu, n_problems) = read(&[("online", "0-3"), ("possible", "0-7")], table);
    has(
        &cpu,
        &json!({
            "n_packages": 2, "n_cores": 2, "threads_per_core": 2, "offline": "4-7",
            "packages/0/id": 36, "packages/1/id": 8442, "packages/0/cores/0/logical_cpus": "1,3",
        }),
    );
    assert_eq!(n_problems, 0);
}

#[test]
fn packages_that_all_report_minus_1_are_distinguished_by_their_cpus() {
    let set = [
        ("online", "0-2"),
        ("cpu0/topology/core_siblings_list", "0-1"),
        ("cpu1/topology/core_siblings_list", "0-1"),
        ("cpu2/topology/core_siblings_list", "2"),
    ];
    let (cpu, _) = read(&set, "0 -1 . . 0 .\n1 -1 . . 1 .\n2 -1 . . 2 .");
    assert_eq!(counts(&cpu)[..2], [Some(2), Some(3)]);
}

#[test]
fn threads_per_core_is_absent_if_cores_differ_in_kind() {
    let table = "0 0 . . 0-1 .\n2 0 . . 2 .";
    let kinds = [("sys/devices/cpu_core/cpus", "0-1"), ("sys/devices/cpu_atom/cpus", "2")];
    let (hybrid, _) = read(&[("online", "0-2"), kinds[0], kinds[1]], table);
    has(
        &hybrid,
        &json!({
            "n_cores": 2, "threads_per_core": null, "packages/0/cores/0/kind": "performance",
            "packages/0/cores/1/kind": "efficiency",
        }),
    );
    let (offline, _) = read(&[("online", "0-2"), ("present", "0-3")], table);
    assert_eq!(offline.threads_per_core, Some(2), "the other thread is offline");
}

#[test]
fn offline_siblings_do_not_make_a_core_of_one_thread() {
    let table = "0 0 . . 0 .\n1 0 . . 1 .";
    for (control, present, expected) in [
        ("off", "0-3", None),
        ("forceoff", "0-3", None),
        ("on", "0-3", None),
        ("notsupported", "0-3", Some(1)),
        ("notimplemented", "0-3", None),
        // It is the sibling of one core at most.
        ("on", "0-2", Some(1)),
    ] {
        let set = [("online", "0-1"), ("present", present), ("smt/control", control)];
        let (cpu, _) = read(&set, table);
        assert_eq!(counts(&cpu), [Some(1), Some(2), expected], "{control} {present}");
    }
    let hybrid = "0 0 . . 0-1 .\n1 0 . . 0-1 .\n2 0 . . 2 .\n3 0 . . 3 .";
    // One is not the sibling of two cores.
    for (present, expected) in [("0-4", None), ("0-5", Some(2))] {
        let (cpu, _) = read(&[("online", "0-3"), ("present", present)], hybrid);
        assert_eq!(cpu.threads_per_core, expected, "{present}");
    }
}

#[test]
fn cpus_in_standby_on_ibm_z_are_listed_and_hide_no_threads() {
    let set =
        [("online", "0"), ("present", "0-2"), ("cpu1/configure", "0"), ("cpu2/configure", "0")];
    let (z, n_problems) = read(&[&set[..], &[S390]].concat(), "0 0 . . 0 .");
    assert_eq!((z.standby.as_deref(), z.threads_per_core), (Some("1-2"), Some(1)));
    assert_eq!(n_problems, 0);
    let (other, _) = read(&set, "0 0 . . 0 .");
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
fn books_and_drawers_are_read_on_ibm_z_only_and_equal_sockets_of_two_books_are_two_packages() {
    let set = [
        ("online", "0-2"),
        ("cpu0/topology/book_id", "1"),
        ("cpu0/topology/drawer_id", "0"),
        ("cpu1/topology/book_id", "2"),
        ("cpu1/topology/drawer_id", "0"),
        ("cpu2/topology/book_id", "2"),
        ("cpu2/topology/drawer_id", "0"),
    ];
    let table = "0 1 . 0 0 .\n1 1 . 1 1 .\n2 1 . 2 2 .";
    let (z, _) = read(&[&set[..], &[S390]].concat(), table);
    assert_eq!(counts(&z)[..2], [Some(2), Some(3)]);
    let place = json!({"packages/0/cores/0/book_id": 1, "packages/0/cores/0/drawer_id": 0});
    has(&z, &place);
    let (other, _) = read(&set, table);
    has(&other, &json!({"n_packages": 1, "packages/0/cores/0/book_id": null}));
}

#[test]
fn contradictory_sets_are_a_problem_and_the_ids_replace_them() {
    let sets = ["cpu0/topology/thread_siblings_list", "cpu1/topology/thread_siblings_list"];
    let set = [("online", "0-1"), (sets[0], "0"), (sets[1], "0")];
    let (cpu, n_problems) = read(&set, "0 0 . 0 . .\n1 0 . 1 . .");
    assert_eq!((counts(&cpu), n_problems), ([Some(1), Some(2), Some(1)], 1));
}

#[test]
fn cpu_without_a_known_core_makes_the_counts_unknown() {
    for (online, table) in [("0-1", "0 0 . . 0 ."), ("0-2", "0 0 0 0 0 0-2\n1 0 0 1 1 0-2")] {
        let (cpu, _) = read(&[("online", online)], table);
        let n_online = CpuSet::parse(online).unwrap().len();
        assert_eq!(cpu.n_logical_cpus_online, Some(n_online));
        assert_eq!(counts(&cpu)[..2], [None, None], "{table}");
    }
}

#[test]
fn empty_cpuinfo_is_a_problem() {
    let machine = crate::testing::tree_of_bytes(&[("proc/cpuinfo", b"")]);
    assert_eq!(cpu(&machine).n_logical_cpus_online, None);
    assert_eq!(machine.problems().len(), 1);
}

#[test]
fn cpus_missing_from_a_truncated_cpuinfo_are_not_counted_as_threads() {
    let block = |cpu: u32| {
        let core = cpu % 2;
        format!(
            "processor : {cpu}\nphysical id : 0\nsiblings : 4\ncore id : {core}\ncpu cores : 4\n\n"
        )
    };
    let text = |n: u32| (0..n).map(block).collect::<String>();
    let whole = text(4);
    // Truncated within the last block.
    let cut = whole.trim_end().strip_suffix("cpu cores : 4").unwrap().trim_end();
    for (cpuinfo, expected) in [(whole.as_str(), Some(4)), (&text(2), None), (cut, None)] {
        let set = [("online", "0-3"), ("proc/cpuinfo", cpuinfo)];
        let (cpu, _) = read(&set, "0 0 . 0 . .\n1 0 . 1 . .\n2 0 . 0 . .\n3 0 . 1 . .");
        assert_eq!(cpu.n_cores, expected, "{cpuinfo}");
    }
}

#[test]
fn cpuinfo_lists_cpus_cores_and_packages_if_sysfs_is_missing() {
    let block = |cpu: u32, package: u32| {
        format!(
            "processor : {cpu}\nvendor_id : GenuineIntel\nmodel name : Xeon\nphysical id : {package}\nsiblings : 2\ncore id : 0\ncpu cores : 1\nflags : fpu lm hypervisor\nmicrocode : 0x1\n\n"
        )
    };
    let text = [block(0, 0), block(1, 1), block(2, 0), block(3, 1)].concat();
    let (cpu, _) = read(&[("proc/cpuinfo", &text)], "");
    has(
        &cpu,
        &json!({
            "n_logical_cpus_online": 4, "online": "0-3", "n_packages": 2, "n_cores": 2,
            "threads_per_core": 2, "model_name": "Xeon", "architecture": "x86_64",
            "has_hypervisor_flag": true,
            // There is no source for the possible CPUs.
            "offline": null,
        }),
    );
}

#[test]
fn empty_machine_has_no_facts_and_no_problems() {
    assert_eq!(read(&[], ""), (Cpu::default(), 0));
}

#[test]
fn kernel_release_ends_in_the_architecture() {
    assert_eq!(architecture_of_release("5.14.0-427.el9.x86_64"), Some("x86_64"));
    assert_eq!(architecture_of_release("6.1.0-18-amd64"), Some("x86_64"));
    assert_eq!(architecture_of_release("6.12.0-55.el10.aarch64+64k"), Some("aarch64"));
    assert_eq!(architecture_of_release("6.1.0"), None);
}

#[test]
fn cpu_0_may_be_offline_and_is_no_template_for_the_others() {
    let cpuinfo = "processor : 1\nmodel name : Real\n\nprocessor : 2\nmodel name : Real\n";
    let sets = [("online", "1-3"), ("present", "0-3"), ("proc/cpuinfo", cpuinfo)];
    let (cpu, n_problems) = read(&sets, "1 0 0 1 1,3 1-3\n2 0 0 2 2 1-3");
    has(
        &cpu,
        &json!({
            "n_cores": 2, "n_packages": 1, "n_logical_cpus_online": 3, "model_name": "Real",
            "offline": null,
        }),
    );
    assert_eq!(n_problems, 0);
}

#[test]
fn ids_that_repeat_on_each_die_or_in_each_package_are_different_cores_and_dies() {
    let set = [
        ("online", "0-3"),
        ("cpu0/topology/die_cpus_list", "0-1"),
        ("cpu2/topology/die_cpus_list", "2-3"),
    ];
    let on_dies = "0 0 0 0 0 0-3\n1 0 0 1 1 0-3\n2 0 1 0 2 0-3\n3 0 1 1 3 0-3";
    let (cpu, n_problems) = read(&set, on_dies);
    assert_eq!((counts(&cpu), n_problems), ([Some(1), Some(4), Some(1)], 0));
    let dies: Vec<_> = cpu.packages[0].cores.iter().map(|core| core.die_id).collect();
    assert_eq!(dies, [Some(0), Some(0), Some(1), Some(1)]);
    let in_packages = "0 0 0 0 0 0-1\n1 0 0 1 1 0-1\n2 1 0 0 2 2-3\n3 1 0 1 3 2-3";
    let (cpu, n_problems) = read(&set, in_packages);
    assert_eq!((counts(&cpu), n_problems), ([Some(2), Some(4), Some(1)], 0));
}

#[test]
fn sockets_are_distinct_package_ids_whatever_the_siblings_would_give_by_division() {
    // Old kernels on new parts: every core claims to be all siblings of its package.
    let (cpu, _) = read(&[("online", "0-2")], "0 0 -1 0 0 0\n1 0 -1 1 1 1\n2 0 -1 2 2 2");
    assert_eq!(counts(&cpu), [Some(1), Some(3), Some(1)]);
    assert_eq!(cpu.packages[0].cores[0].die_id, None, "-1 means unknown");
}

#[test]
fn package_mask_with_cpus_of_another_package_is_a_problem() {
    let table = "0 0 0 0 0 0-3\n1 0 0 1 1 0-1\n2 1 0 0 2 2-3\n3 1 0 1 3 2-3";
    let (cpu, n_problems) = read(&[("online", "0-3")], table);
    assert_eq!((counts(&cpu), n_problems), ([Some(2), Some(4), Some(1)], 1));
    assert_eq!(cpu.packages[1].cores.len(), 2);
}

#[test]
fn package_takes_three_reads_whatever_its_number_of_cores() {
    // Only the first and the last CPU have the file, and no other is read.
    let line = |cpu: u32| {
        let package = if cpu == 0 || cpu == 63 { "36" } else { "." };
        format!("{cpu} {package} . 1 {cpu} 0-63\n")
    };
    let (cpu, n_problems) = read(&[("online", "0-63")], &(0..64).map(line).collect::<String>());
    assert_eq!((counts(&cpu), n_problems), ([Some(1), Some(64), Some(1)], 0));
    assert_eq!(cpu.packages[0].id, Some(36));
}

#[test]
fn most_and_least_capable_arm_cores_have_a_kind_and_a_part_name() {
    let block = |(cpu, part): (u32, &str)| {
        format!("processor : {cpu}\nCPU implementer : 0x41\nCPU part : {part}\n\n")
    };
    let text = [(0, "0xd05"), (1, "0xd05"), (2, "0xd0b")].map(block).concat();
    let set = [
        ("online", "0-2"),
        ("cpu0/cpu_capacity", "400"),
        ("cpu1/cpu_capacity", "400"),
        ("cpu2/cpu_capacity", "1024"),
        ("proc/cpuinfo", &text),
    ];
    let (cpu, _) = read(&set, "0 0 0 0 0 0-2\n1 0 0 1 1 0-2\n2 0 0 2 2 0-2");
    let cores: Vec<_> = cpu.packages[0].cores.iter().map(|core| core.kind.as_deref()).collect();
    assert_eq!(cores, [Some("efficiency"), Some("efficiency"), Some("performance")]);
    let parts: Vec<_> = cpu.packages[0].cores.iter().map(|c| c.part_name.as_deref()).collect();
    assert_eq!(parts, [Some("Cortex-A55"), Some("Cortex-A55"), Some("Cortex-A76")]);
}

#[test]
fn list_of_flags_starts_with_the_first_flag() {
    let text = "processor : 0\nvendor_id : GenuineIntel\ncpu family : 6\nmodel : 85\nstepping : 7\nflags : fpu vme de pse tsc msr pae\n";
    let (cpu, _) = read(&[("online", "0"), ("proc/cpuinfo", text)], "");
    let flags = ["fpu", "vme", "de", "pse", "tsc", "msr", "pae"];
    has(&cpu, &json!({"flags": flags, "family": 6, "model": 85, "stepping": 7}));
}

#[test]
fn missing_list_of_online_cpus_is_replaced_by_present_minus_offline() {
    let (cpu, _) = read(&[("present", "0-7"), ("offline", "6-7")], "0 . . . 0-1 .\n2 . . . 2-3 .");
    assert_eq!((cpu.online.as_deref(), cpu.n_logical_cpus_online), (Some("0-5"), Some(6)));
}

#[test]
fn packages_and_cores_are_sorted_numerically() {
    let (cpu, _) = read(&[("online", "0-2")], "0 10 -1 10 0 0\n1 2 -1 9 1 1\n2 2 -1 10 2 2");
    let ids: Vec<_> = cpu.packages.iter().map(|package| package.id).collect();
    assert_eq!(ids, [Some(2), Some(10)]);
    let cores: Vec<_> = cpu.packages[0].cores.iter().map(|core| core.id).collect();
    assert_eq!(cores, [Some(9), Some(10)]);
}

#[test]
fn offline_cpu_that_stopped_halfway_is_distinguished_from_one_that_is_down() {
    let cpuinfo = "processor : 0\nvendor_id : GenuineIntel\n";
    let set = [
        ("present", "0-3"),
        ("online", "0"),
        ("cpu0/hotplug/state", "238"),
        ("cpu1/hotplug/state", "0"),
        ("cpu2/hotplug/state", "72"),
        ("cpu3/hotplug/state", "238"),
        ("proc/cpuinfo", cpuinfo),
    ];
    let (cpu, n_problems) = read(&set, "");
    assert_eq!((cpu.stuck.as_deref(), n_problems), (Some("2"), 0));
}
