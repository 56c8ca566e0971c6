//! Limits the cost of a report by counting opened files, since a count is the same on every machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::skipped::skipped;
use crate::util::{scratch, write};

/// Two packages of 16 cores with two threads each, numbered as the kernel numbers them.
const N_PACKAGES: usize = 2;
const N_CORES: usize = 16;
const N_CPUS: usize = N_PACKAGES * N_CORES * 2;
/// `lscpu` needs 35 to 52, `lstopo` 28 to 43.
const MOST_OPENS_FOR_A_CPU: usize = 9;

#[test]
fn cpus_caches_and_topology_of_a_machine_with_smt_cost_at_most_nine_opens_for_each_cpu() {
    let Some(strace) = strace() else { return };
    let dir = scratch("opens-cpu");
    write_machine(&dir);
    let at_start = opened(&strace, &dir, &["--version"]).len();
    let root = dir.join("root");
    let root = root.to_str().unwrap();
    let words = ["inspect", "--root", root, "--only", "cpu,topology", "--format", "json"];
    let n = opened(&strace, &dir, &words).len() - at_start;
    assert!(n > N_CPUS, "{n} opens are too few");
    assert!(n <= N_CPUS * MOST_OPENS_FOR_A_CPU, "{n} opens for {N_CPUS} CPUs");
}

#[test]
fn slow_files_are_opened_only_on_request() {
    let Some(strace) = strace() else { return };
    let dir = scratch("opens-slow");
    write_machine(&dir);
    let root = dir.join("root");
    let whole = ["inspect", "--root", root.to_str().unwrap(), "--format", "json"];
    let slow = ["acpi_cppc", "scaling_cur_freq", "/vpd", "\"vpd", "memory/memory", "\"memory"];
    let slow_ones = |words: &[&str]| -> Vec<String> {
        let is_slow = |line: &String| slow.iter().any(|name| line.contains(name));
        opened(&strace, &dir, words).into_iter().filter(is_slow).collect()
    };
    assert_eq!(slow_ones(&whole), Vec::<String>::new());
    let asked = [&whole[..], &["--vpd", "--memory-blocks"]].concat();
    let found = slow_ones(&asked);
    assert!(found.iter().any(|line| line.contains("vpd")), "{found:?}");
    assert!(found.iter().any(|line| line.contains("memory1/state")), "{found:?}");
}

#[test]
fn quick_test_of_a_disk_is_three_reads_and_can_be_turned_off() {
    let Some(strace) = strace() else { return };
    let dir = scratch("opens-disk");
    let root = dir.join("root");
    for (path, text) in [
        ("sys/block/sda/size", "2097152\n"),
        ("proc/self/mountinfo", "1 0 0:1 / / rw - tmpfs none rw\n"),
        ("proc/swaps", "Filename\n"),
        ("etc/fstab", ""),
    ] {
        write(&root.join(path), text);
    }
    write(&root.join("kernel/disk/sda/0-4096"), [1; 4096]);
    let samples = |more: &[&str]| -> Vec<String> {
        let words = ["check", "--only", "block", "--root", root.to_str().unwrap()];
        let all = opened(&strace, &dir, &[&words[..], more].concat());
        let samples = all.iter().filter_map(|line| line.split_once("disk-sample/sda/"));
        let mut names: Vec<String> =
            samples.filter_map(|(_, rest)| rest.split('"').next().map(str::to_owned)).collect();
        names.sort();
        names.dedup();
        names
    };
    assert_eq!(samples(&[]), ["0-65536", "1073676288-65536", "536870912-65536"]);
    assert_eq!(samples(&["--read-disks=false"]), [""; 0]);
}

/// The calls that open a file in a run of the program with `words`, including failed ones.
fn opened(strace: &Path, dir: &Path, words: &[&str]) -> Vec<String> {
    let traces = dir.join("traces");
    fs::remove_dir_all(&traces).ok();
    fs::create_dir_all(&traces).unwrap();
    let status = Command::new(strace)
        .args(["-ff", "-e", "trace=open,openat,openat2", "-e", "signal=none", "-o"])
        .arg(traces.join("thread"))
        .arg(env!("CARGO_BIN_EXE_run-coreos-installer"))
        .args(words)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .unwrap();
    let is_check = words.first() == Some(&"check");
    assert!(status.success() || is_check && status.code() == Some(1), "{words:?}: {status}");
    let traces = fs::read_dir(&traces).unwrap().map(|trace| trace.unwrap().path());
    let text: String = traces.map(|path| fs::read_to_string(path).unwrap()).collect();
    text.lines().filter(|line| line.starts_with("open")).map(str::to_owned).collect()
}

fn strace() -> Option<PathBuf> {
    let found = ["/usr/bin/strace", "/bin/strace"].iter().map(PathBuf::from).find(|p| p.exists());
    let is_required = std::env::var_os("RCI_REQUIRE_TOOLS").is_some();
    assert!(found.is_some() || !is_required, "strace is missing, but RCI_REQUIRE_TOOLS is set");
    if found.is_none() {
        skipped("strace is missing");
    }
    found
}

/// Writes to `dir/root` what the kernel shows of CPUs, caches, nodes and memory, and a device with
/// VPD.
fn write_machine(dir: &Path) {
    let write = |path: &str, text: &str| write(&dir.join("root").join(path), format!("{text}\n"));
    let half = N_CPUS / 2;
    let all = format!("0-{}", N_CPUS - 1);
    for name in ["online", "possible", "present"] {
        write(&format!("sys/devices/system/cpu/{name}"), &all);
    }
    (0..N_CPUS).for_each(|cpu| write_cpu(&write, cpu));
    for node in 0..N_PACKAGES {
        let (first, last) = (node * N_CORES, node * N_CORES + N_CORES - 1);
        let at = |name: &str| format!("sys/devices/system/node/node{node}/{name}");
        write(&at("cpulist"), &format!("{first}-{last},{}-{}", first + half, last + half));
        write(&at("distance"), if node == 0 { "10 21" } else { "21 10" });
        write(&at("meminfo"), &format!("Node {node} MemTotal:       65536000 kB"));
    }
    write("sys/devices/system/node/online", "0-1");
    write("sys/devices/system/memory/block_size_bytes", "8000000");
    for block in 0..64 {
        write(&format!("sys/devices/system/memory/memory{block}/state"), "online");
    }
    write("proc/meminfo", "MemTotal:       131072000 kB");
    write("sys/bus/pci/devices/0000:3b:00.0/uevent", "PCI_CLASS=20000\nPCI_ID=8086:10FB");
    write("sys/bus/pci/devices/0000:3b:00.0/vpd", "\u{78}");
}

/// Writes what the kernel shows of one CPU.
fn write_cpu(write: &dyn Fn(&str, &str), cpu: usize) {
    let half = N_CPUS / 2;
    let (core, package) = (cpu % half % N_CORES, cpu % half / N_CORES);
    let threads = format!("{},{}", cpu % half, cpu % half + half);
    let (first, last) = (package * N_CORES, package * N_CORES + N_CORES - 1);
    let whole = format!("{first}-{last},{}-{}", first + half, last + half);
    let cpu_file = |name: &str, text: &str| {
        write(&format!("sys/devices/system/cpu/cpu{cpu}/{name}"), text);
    };
    for (name, text) in [
        ("core_id", core.to_string()),
        ("physical_package_id", package.to_string()),
        ("die_id", "0".to_owned()),
        ("cluster_id", "65535".to_owned()),
        ("core_cpus_list", threads.clone()),
        ("thread_siblings_list", threads.clone()),
        ("cluster_cpus_list", threads.clone()),
        ("die_cpus_list", whole.clone()),
        ("package_cpus_list", whole.clone()),
        ("core_siblings_list", whole.clone()),
    ] {
        cpu_file(&format!("topology/{name}"), &text);
    }
    for (index, level, kind, size, shared) in [
        (0, "1", "Data", "48K", &threads),
        (1, "1", "Instruction", "32K", &threads),
        (2, "2", "Unified", "2048K", &threads),
        (3, "3", "Unified", "61440K", &whole),
    ] {
        for (name, text) in [
            ("level", level),
            ("type", kind),
            ("size", size),
            ("shared_cpu_list", shared.as_str()),
            ("coherency_line_size", "64"),
            ("ways_of_associativity", "12"),
        ] {
            cpu_file(&format!("cache/index{index}/{name}"), text);
        }
    }
    cpu_file("online", "1");
    cpu_file("cpufreq/cpuinfo_max_freq", "3500000");
    cpu_file("cpufreq/base_frequency", "2000000");
    cpu_file("cpufreq/scaling_cur_freq", "800000");
    cpu_file("acpi_cppc/highest_perf", "35");
}
