//! A node that cannot go on says so, and goes on as soon as it can: corrected instructions, frozen and missing disks.
//!
//! The frozen disk takes as long as the agent's own limits, which are the subject.

use std::fs::File;
use std::io::Read as _;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::artifacts::Artifact;
use crate::disk::{Disk, DiskKind};
use crate::install::{LIVE, check, check_rebooted, instruction, nonce, start_lab};
use crate::job::{digest, write_old_disk};
use crate::lab::Lab;
use crate::machine::Machine;
use crate::template::restore_live;

/// What the disks contain before.
const OLD_BYTES: u64 = 3 << 30;

#[test]
fn a_corrected_instruction_is_carried_out_without_a_power_cycle() -> Result<()> {
    let proof = nonce()?;
    let mut order = instruction(&proof, Artifact::IMAGE_SMALL)?;
    order["install"]["disk"] = json!({"device": "/dev/disk/by-id/virtio-TARGET-0"});
    let fault = "--fault reports=wrong_hash,times=1";
    let lab = start_lab("silence_corrected", &proof, &order, fault)?;
    let disk = lab.folder.join("target.raw");
    let before = write_old_disk(&disk, OLD_BYTES)?;
    let live = restore_live(&lab, &Machine::bare(2048), "")?;
    let refused = lab.wait_for("result", LIVE, |_| true)?;
    check(
        &refused,
        &json!({"outcome": "refused", "code": "IGNITION_HASH", "disk_state": "untouched"}),
    )?;
    // The node soon asks again and writes; reading the whole disk may take longer.
    let mut qmp = live.qmp()?;
    qmp.execute("stop", &json!({}))?;
    ensure!(digest(&disk)? == before, "the disk has changed");
    qmp.execute("cont", &json!({}))?;
    check_rebooted(live, &lab).map(drop)
}

#[test]
fn a_disk_that_freezes_during_the_write_is_reported_and_ends_the_job() -> Result<()> {
    let proof = nonce()?;
    let order = instruction(&proof, Artifact::IMAGE_512)?;
    let lab = start_lab("silence_frozen", &proof, &order, "")?;
    let live = restore_live(&lab, &Machine::bare(2048), "")?;
    wait_for_event(&lab, LIVE, is_writing)?;
    // One byte a second: requests never end, as with a controller whose firmware hangs.
    live.qmp()?.throttle("target", 1)?;
    let frozen = Instant::now();
    wait_for_event(&lab, Duration::from_secs(45), |event| {
        event["message"].as_str().is_some_and(|message| message.contains("no progress"))
    })?;
    let reported = frozen.elapsed();
    let result = lab.wait_for("result", Duration::from_mins(2), |_| true)?;
    let ended = frozen.elapsed();
    check(&result, &json!({"outcome": "failed", "disk_state": "half_written"}))?;
    ensure!(reported < Duration::from_secs(30), "reported after {reported:?}");
    ensure!(ended < Duration::from_mins(1), "the result came after {ended:?}");
    Ok(())
}

/// Sends SIGTERM to the agent once 50 MB are on the disk, and prints when, and when systemd saw it end.
const SIGTERM_DURING_THE_WRITE: &str = "#!/bin/sh -e
cat >/run/stop-agent <<'END'
written() { set -- $(cat /sys/block/vda/stat); [ $7 -gt 100000 ]; }
until written; do sleep 0.2; done
pid=$(systemctl show -P MainPID run-coreos-installer.service)
read begin _ </proc/uptime
kill -TERM $pid
while [ -e /proc/$pid ]; do sleep 0.1; done
left=$(cat /proc/[0-9]*/comm | grep -c coreos-install || :)
until end=$(systemctl show -P ExecMainExitTimestampMonotonic run-coreos-installer.service) && [ $end -gt 0 ]; do
  sleep 0.1
done
echo STOPPED begin=$begin end_us=$end left=$left >/dev/ttyS0
END
systemd-run -q --no-block -p DefaultDependencies=no -p IgnoreOnIsolate=yes sh /run/stop-agent
";

#[test]
fn sigterm_during_the_write_ends_the_agent_within_5_s_and_reports_a_half_written_disk() -> Result<()>
{
    let proof = nonce()?;
    let order = instruction(&proof, Artifact::IMAGE_512)?;
    let lab = start_lab("silence_stopped", &proof, &order, "")?;
    let mut live = restore_live(&lab, &Machine::bare(2048), SIGTERM_DURING_THE_WRITE)?;
    let shown = live.wait_for("STOPPED begin=")?.text;
    let result = lab.wait_for("result", Duration::from_secs(1), |_| true)?;
    drop(live);
    let value = |key: &str| {
        let found = shown.split_whitespace().find_map(|word| word.strip_prefix(key));
        found.with_context(|| format!("no {key} in {shown:?}"))
    };
    let ended_s = value("end_us=")?.parse::<f64>()? / 1e6;
    let took_s = ended_s - value("begin=")?.parse::<f64>()?;
    ensure!((0.0..5.0).contains(&took_s), "the agent ended {took_s} s after SIGTERM");
    ensure!(value("left=")? == "0", "coreos-installer outlived the agent: {shown:?}");
    check(
        &result,
        &json!({"outcome": "failed", "code": "INTERRUPTED", "disk_state": "half_written"}),
    )?;
    // coreos-installer writes the boot loader last; an empty partition table comes first.
    let mut loader = [1; 440];
    File::open(lab.folder.join("target.raw"))?.read_exact(&mut loader)?;
    ensure!(loader.iter().all(|byte| *byte == 0), "the disk has a boot loader");
    Ok(())
}

/// A SCSI disk, which QEMU can pull out.
fn scsi_disk(id: &'static str, serial: &'static str, wwn: u64) -> Disk {
    Disk::new(id, OLD_BYTES, 512, DiskKind::scsi(serial, wwn, ["SEAGATE", "ST4000"], 1, 1))
}

#[test]
fn a_disk_that_is_pulled_out_during_the_write_is_reported_and_no_other_is_touched() -> Result<()> {
    let proof = nonce()?;
    let mut order = instruction(&proof, Artifact::IMAGE_512)?;
    order["install"]["disk"] = json!({"hints": {"serial": "TARGET-0"}});
    let lab = start_lab("silence_pulled", &proof, &order, "")?;
    let second = lab.folder.join("second.raw");
    let before = write_old_disk(&second, OLD_BYTES)?;
    let disks = vec![
        scsi_disk("target", "TARGET-0", 0x5000_c500_15ea_71ad),
        scsi_disk("second", "SECOND-0", 0x5000_c500_15ea_71ae),
    ];
    let live = restore_live(&lab, &Machine::plain(2048, disks), "")?;
    wait_for_event(&lab, LIVE, is_writing)?;
    let mut qmp = live.qmp()?;
    let drives = qmp.execute("query-block", &json!({}))?;
    let drives = drives.as_array().context("no list of drives")?;
    let target = drives.iter().find(|drive| drive["device"] == "target");
    let path = target.map(|drive| &drive["qdev"]).context("the target is no drive of QEMU")?;
    qmp.execute("device_del", &json!({"id": path}))?;
    let pulled = Instant::now();
    let result = lab.wait_for("result", Duration::from_mins(2), |_| true)?;
    let ended = pulled.elapsed();
    check(
        &result,
        &json!({"outcome": "failed", "code": "TARGET_IO", "disk_state": "half_written"}),
    )?;
    check(&result["disk"], &json!({"serial": "TARGET-0"}))?;
    ensure!(ended < Duration::from_mins(1), "the result came after {ended:?}");
    drop(live);
    ensure!(digest(&second)? == before, "the other disk has changed");
    Ok(())
}

/// Whether an event shows that a part of the image has been written.
fn is_writing(event: &Value) -> bool {
    event["stage"] == "write" && event["percent"].as_u64().is_some_and(|percent| percent >= 5)
}

/// Waits until the node has sent an event for which `is_wanted` holds.
fn wait_for_event(lab: &Lab, within: Duration, is_wanted: impl Fn(&Value) -> bool) -> Result<()> {
    let has_it = |events: &Value| {
        events["events"].as_array().is_some_and(|events| events.iter().any(&is_wanted))
    };
    lab.wait_for("events", within, has_it).map(drop)
}
