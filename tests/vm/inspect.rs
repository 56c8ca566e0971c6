//! The report of a machine whose every part is known, compared with what QEMU was told: read there, and replayed here from a capture.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::agent::{agent_binary, agent_files};
use crate::artifacts::test_folder;
use crate::boot;
use crate::expect::differences;
use crate::guest::Guest;
use crate::machine::Machine;

/// What runs in the guest: the report in both forms, and captures, once the ports have agreed on a speed.
const SCRIPT: &str = "cd /results
for port in /sys/class/net/eth*; do
  n=0
  until [ \"$(cat $port/carrier)\" = 1 ] || [ $n -ge 60 ]; do sleep 0.5; n=$((n + 1)); done
done
run-coreos-installer inspect --format json >report.json 2>log; echo INSPECT $?
run-coreos-installer inspect --format text >report.txt 2>>log
run-coreos-installer capture -o capture.tar.zst 2>>log; echo CAPTURE $?";

/// Turns on the virtual functions that the description asks for, as an administrator would.
fn virtual_functions(machine: &Machine) -> String {
    let mut script = String::new();
    for port in machine.ports.iter().filter(|port| port.n_vfs > 0) {
        script += &format!(
            "for port in /sys/class/net/eth*; do
  [ \"$(cat $port/address)\" != {} ] || echo {} >$port/device/sriov_numvfs
done\n",
            port.mac, port.n_vfs
        );
    }
    if !script.is_empty() {
        script += "modprobe -a igbvf
for port in /sys/class/net/eth*; do ip link set ${port##*/} up; done\n";
    }
    script
}

/// Reads `machine` in the tiny system, replays its capture on this machine, and holds both reports against the description.
fn inspect(test: &str, machine: &Machine) -> Result<()> {
    let folder = test_folder(test)?;
    let script = virtual_functions(machine) + SCRIPT;
    let boot = boot::tiny("guest", &folder, machine, &script, &agent_files()?)?;
    let mut guest = Guest::start("guest", &folder, machine, &boot, Duration::from_mins(8))?;
    guest.wait_for("INSPECT 0")?;
    guest.wait_for("CAPTURE 0")?;
    guest.wait_for_end()?;
    let results = guest.results()?;
    let capture = results.join("capture.tar.zst");
    let live = std::fs::read(results.join("report.json"))?;
    check("the guest's report", machine, &live)?;
    let replayed = replay(&capture)?;
    check("the replay of its capture", machine, &replayed)?;
    let made = without_times(&file_of(&capture, "report.json")?)?;
    ensure!(
        made == without_times(&replayed)?,
        "the replay of {} differs from the report that was made with it",
        capture.display()
    );
    Ok(())
}

/// A report's bytes without the times, which differ from run to run.
fn without_times(report: &[u8]) -> Result<String> {
    let mut report: Value = serde_json::from_slice(report)?;
    let keys = report.as_object_mut().context("a report is an object")?;
    keys.retain(|key, _| !["collected_at", "duration_ms", "timings"].contains(&key.as_str()));
    Ok(serde_json::to_string_pretty(&report)?)
}

/// A file of an archive.
fn file_of(archive: &Path, name: &str) -> Result<Vec<u8>> {
    let output = Command::new("tar").args(["--zstd", "-xOf"]).arg(archive).arg(name).output()?;
    ensure!(output.status.success(), "{} holds no {name}", archive.display());
    Ok(output.stdout)
}

/// Holds a report against the machine.
fn check(what: &str, machine: &Machine, report: &[u8]) -> Result<()> {
    let report: Value =
        serde_json::from_slice(report).with_context(|| format!("{what} is no JSON"))?;
    let differences = differences(machine, &report);
    ensure!(differences.is_empty(), "{what}:\n{}", differences.join("\n"));
    Ok(())
}

/// The report that the agent makes on this machine of a capture.
fn replay(capture: &Path) -> Result<Vec<u8>> {
    let output = Command::new(agent_binary())
        .args(["inspect", "--format", "json", "--root"])
        .arg(capture)
        .output()?;
    let log = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "inspect --root {}: {}\n{log}",
        capture.display(),
        output.status
    );
    Ok(output.stdout)
}

#[test]
fn the_report_of_a_plain_guest_says_what_qemu_was_told() -> Result<()> {
    inspect("inspect_plain", &Machine::plain(512, vec![Machine::target_disk()]))
}

#[test]
fn the_report_of_a_two_socket_server_says_what_qemu_was_told() -> Result<()> {
    inspect("inspect_rich", &Machine::rich())
}

#[test]
fn the_report_of_a_crowded_server_says_what_qemu_was_told() -> Result<()> {
    inspect("inspect_crowded", &Machine::crowded())
}

#[test]
fn the_report_of_many_small_nodes_says_what_qemu_was_told() -> Result<()> {
    inspect("inspect_nodes", &Machine::many_nodes())
}
