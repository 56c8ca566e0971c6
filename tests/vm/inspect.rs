//! Reports of fully known machines, compared with their descriptions: made in the guest, and replayed here from a capture.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::agent::agent_binary;
use crate::artifacts::test_folder;
use crate::boot::start_tiny;
use crate::disk::DiskKind;
use crate::expect::differences;
use crate::ipmi;
use crate::machine::{Machine, Port};

/// What runs in the guest: the report in both forms, and captures, once the ports have agreed on a speed.
const SCRIPT: &str = "cd /results
for port in /sys/class/net/eth*; do
  [ ! -e $port/device/physfn ] || continue
  n=0
  until [ \"$(cat $port/carrier)\" = 1 ] || [ $n -ge 60 ]; do sleep 0.5; n=$((n + 1)); done
done
run-coreos-installer inspect --format json >report.json 2>log; echo INSPECT $?
run-coreos-installer inspect --format text >report.txt 2>>log
run-coreos-installer capture -o capture.tar.zst 2>>log; echo CAPTURE $?
run-coreos-installer capture --anonymize -o anonymous.tar.zst 2>>log; echo ANONYMOUS $?
ls -A /dev >nodes";

/// Enables the virtual functions of the description, as an administrator would.
fn virtual_functions(machine: &Machine) -> String {
    let ports = machine.ports.iter().filter(|port| port.n_vfs > 0);
    let lines = ports.map(|Port { mac, n_vfs, .. }| {
        format!(
            "for port in /sys/class/net/eth*; do
  [ \"$(cat $port/address)\" != {mac} ] || echo {n_vfs} >$port/device/sriov_numvfs
done\n"
        )
    });
    let script: String = lines.collect();
    if script.is_empty() { script } else { script + "modprobe igbvf\n" }
}

/// Waits for the SD card, which is found a while after its controller.
fn sd_card(machine: &Machine) -> &'static str {
    let has_card = machine.disks.iter().any(|disk| matches!(disk.kind, DiskKind::SdCard));
    if has_card {
        "n=0; until [ -e /sys/block/mmcblk0 ] || [ $n -ge 60 ]; do sleep 0.5; n=$((n + 1)); done\n"
    } else {
        ""
    }
}

/// Inspects `machine` in the tiny system, replays its capture here, and compares both reports with the description.
fn inspect(test: &str, machine: &Machine) -> Result<()> {
    let folder = test_folder(test)?;
    let script = virtual_functions(machine) + sd_card(machine) + SCRIPT;
    let mut guest = start_tiny(&folder, machine, &script)?;
    for done in ["INSPECT 0", "CAPTURE 0", "ANONYMOUS 0"] {
        guest.wait_for(done)?;
    }
    guest.wait_for_end()?;
    let results = guest.results()?;
    let nodes = std::fs::read_to_string(results.join("nodes"))?;
    ensure!(
        nodes.contains("null") && !nodes.contains("run-coreos-installer"),
        "the agent left a node in /dev:\n{nodes}"
    );
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
    let log = std::fs::read_to_string(results.join("log"))?;
    ensure!(
        !log.contains("gives another value"),
        "a capture does not replay to its report:\n{log}"
    );
    hides(machine, &results.join("anonymous.tar.zst"))
}

/// Checks that an anonymised capture contains no identifier from the description of the machine.
fn hides(machine: &Machine, capture: &Path) -> Result<()> {
    let output = Command::new("zstd").arg("-dcq").arg(capture).output()?;
    let tar = output.stdout.to_ascii_lowercase();
    ensure!(tar.len() > 10_000, "{} is not an archive", capture.display());
    for name in names(machine) {
        let is_there = tar.windows(name.len()).any(|window| window == name.as_bytes());
        ensure!(!is_there, "{} contains {name}", capture.display());
    }
    Ok(())
}

/// The identifiers of this machine, in lower case: MACs with and without colons, serial numbers, WWNs, the UUID.
fn names(machine: &Machine) -> Vec<String> {
    let macs =
        machine.ports.iter().flat_map(|port| [port.mac.to_owned(), port.mac.replace(':', "")]);
    let serials = machine.disks.iter().filter_map(|disk| disk.serial().map(str::to_owned));
    let wwns = machine.disks.iter().filter_map(|disk| match disk.kind {
        DiskKind::Scsi { wwn, .. } | DiskKind::Sata { wwn, .. } | DiskKind::Raid { wwn, .. } => {
            Some(format!("{wwn:016x}"))
        }
        _ => None,
    });
    let controllers = machine.disks.iter().filter_map(|disk| match disk.kind {
        DiskKind::Raid { controller, .. } => Some(controller.to_owned()),
        _ => None,
    });
    let dimms = machine.slots.iter().filter_map(|slot| Some(slot.dimm.as_ref()?.serial.to_owned()));
    let product = machine.product.iter().flat_map(|p| {
        [p.serial, p.uuid, p.board_serial, p.chassis_serial, p.asset_tag].map(str::to_owned)
    });
    let parts = machine.bmc.iter().flat_map(|_| ipmi::SERIALS.map(str::to_owned));
    let names =
        macs.chain(serials).chain(wwns).chain(controllers).chain(dimms).chain(product).chain(parts);
    names.map(|name| name.to_lowercase()).collect()
}

/// A report's bytes without the times, which differ from run to run.
fn without_times(report: &[u8]) -> Result<String> {
    let mut report: Value = serde_json::from_slice(report)?;
    let keys = report.as_object_mut().context("a report is an object")?;
    keys.retain(|key, _| {
        !["collected_at", "duration_ms", "timings", "live"].contains(&key.as_str())
    });
    Ok(serde_json::to_string_pretty(&report)?)
}

/// A file of an archive.
fn file_of(archive: &Path, name: &str) -> Result<Vec<u8>> {
    let output = Command::new("tar").args(["--zstd", "-xOf"]).arg(archive).arg(name).output()?;
    ensure!(output.status.success(), "{} holds no {name}", archive.display());
    Ok(output.stdout)
}

/// Compares a report with the machine.
fn check(what: &str, machine: &Machine, report: &[u8]) -> Result<()> {
    let report: Value =
        serde_json::from_slice(report).with_context(|| format!("{what} is not JSON"))?;
    let differences = differences(machine, &report);
    ensure!(differences.is_empty(), "{what}:\n{}", differences.join("\n"));
    Ok(())
}

/// The report that the agent makes here from a capture.
fn replay(capture: &Path) -> Result<Vec<u8>> {
    let output = Command::new(agent_binary()?)
        // The agent refuses RCI_* variables that are no options, e.g. RCI_STATIC_AGENT.
        .env_clear()
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
fn the_report_of_a_plain_guest_matches_its_description() -> Result<()> {
    inspect("inspect_plain", &Machine::bare(512))
}

#[test]
fn the_report_of_a_two_socket_server_matches_its_description() -> Result<()> {
    inspect("inspect_rich", &Machine::rich())
}

#[test]
fn the_report_of_a_crowded_server_matches_its_description() -> Result<()> {
    inspect("inspect_crowded", &Machine::crowded())
}

#[test]
fn the_report_of_many_small_nodes_matches_its_description() -> Result<()> {
    inspect("inspect_nodes", &Machine::many_nodes())
}
