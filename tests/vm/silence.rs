//! A node that cannot go on says so, and goes on as soon as it can: corrected instructions, stalled images, frozen disks.
//!
//! The stalled image and the frozen disk take as long as the agent's own limits, which are the subject.

use std::fs::File;
use std::io::Read as _;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::disk::{Disk, DiskKind};
use crate::guest::Guest;
use crate::install::{
    LIVE, check_proved, instruction, nonce, small_instruction, start_lab, start_lab_with,
};
use crate::job::{digest, write_old_disk};
use crate::lab::Lab;
use crate::machine::Machine;
use crate::template::{restore_live, restore_live_with};

#[test]
fn a_corrected_instruction_is_carried_out_without_a_power_cycle() -> Result<()> {
    let proof = nonce()?;
    let mut order = small_instruction(&proof)?;
    order["install"]["disk"] = json!({"device": "/dev/disk/by-id/virtio-TARGET-0"});
    let fault = ["--fault", "reports=wrong_hash,times=1"];
    let (folder, lab) = start_lab_with("silence_corrected", &proof, &order, &fault)?;
    let disk = folder.join("target.raw");
    let before = write_old_disk(&disk)?;
    let live = restore_live(&folder, &Machine::plain(2048, vec![Machine::target_disk()]), &lab)?;
    let refused = lab.sent("result", LIVE)?;
    ensure!(
        refused["outcome"] == "refused" && refused["code"] == "IGNITION_HASH",
        "the result says {refused:#}"
    );
    // The node soon asks again and writes; reading the whole disk may take longer.
    let mut qmp = live.qmp()?;
    qmp.execute("stop", &json!({}))?;
    ensure!(digest(&disk)? == before, "the disk has changed");
    qmp.execute("cont", &json!({}))?;
    live.wait_for_reboot()?;
    lab.keep(&folder)?;
    check_proved(&lab)
}

#[test]
fn an_image_that_stalls_is_reported_and_then_fetched_again() -> Result<()> {
    let proof = nonce()?;
    let fault = "/files/coreos-small.raw.gz=hang,bytes=100000,skip=1,times=1";
    let order = small_instruction(&proof)?;
    let (folder, lab) = start_lab_with("silence_stalled", &proof, &order, &["--fault", fault])?;
    let mut live =
        restore_live(&folder, &Machine::plain(2048, vec![Machine::target_disk()]), &lab)?;
    wait_for_event(&lab, &mut live, LIVE, |event| says(event, "no byte of the image"))?;
    live.wait_for_reboot()?;
    lab.keep(&folder)?;
    check_proved(&lab)
}

#[test]
fn a_disk_that_freezes_during_the_write_is_reported_and_ends_the_job() -> Result<()> {
    let proof = nonce()?;
    let (folder, lab) = start_lab_with("silence_frozen", &proof, &instruction(&proof)?, &[])?;
    let mut live =
        restore_live(&folder, &Machine::plain(2048, vec![Machine::target_disk()]), &lab)?;
    wait_for_event(&lab, &mut live, LIVE, |event| {
        event["stage"] == "write" && event["percent"].as_u64().is_some_and(|percent| percent >= 5)
    })?;
    // One byte a second: requests never end, as with a controller whose firmware hangs.
    let limits = json!({
        "device": "target", "bps": 1, "bps_rd": 0, "bps_wr": 0, "iops": 0, "iops_rd": 0, "iops_wr": 0,
    });
    live.qmp()?.execute("block_set_io_throttle", &limits)?;
    let frozen = Instant::now();
    wait_for_event(&lab, &mut live, Duration::from_secs(45), |event| says(event, "no progress"))?;
    let reported = frozen.elapsed();
    let result = lab.sent("result", Duration::from_mins(2))?;
    let ended = frozen.elapsed();
    lab.keep(&folder)?;
    ensure!(result["outcome"] == "failed", "the result says {result:#}");
    ensure!(result["disk_state"] == "half_written", "the result says {result:#}");
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
    let (folder, lab) = start_lab("silence_stopped", &nonce()?, &[])?;
    let machine = Machine::plain(2048, vec![Machine::target_disk()]);
    let mut live = restore_live_with(&folder, &machine, &lab, &[], SIGTERM_DURING_THE_WRITE)?;
    let shown = live.wait_for("STOPPED begin=")?.text;
    let result = lab.sent("result", Duration::from_secs(1))?;
    drop(live);
    lab.keep(&folder)?;
    let value = |key: &str| {
        let found = shown.split_whitespace().find_map(|word| word.strip_prefix(key));
        found.with_context(|| format!("no {key} in {shown:?}"))
    };
    let ended_s = value("end_us=")?.parse::<f64>()? / 1e6;
    let took_s = ended_s - value("begin=")?.parse::<f64>()?;
    ensure!((0.0..5.0).contains(&took_s), "the agent ended {took_s} s after SIGTERM");
    ensure!(value("left=")? == "0", "coreos-installer outlived the agent: {shown:?}");
    ensure!(
        result["outcome"] == "failed"
            && result["code"] == "INTERRUPTED"
            && result["disk_state"] == "half_written",
        "the result says {result:#}"
    );
    // coreos-installer writes the boot loader last; an empty partition table comes first.
    let mut loader = [1; 440];
    File::open(folder.join("target.raw"))?.read_exact(&mut loader)?;
    ensure!(loader.iter().all(|byte| *byte == 0), "the disk has a boot loader");
    Ok(())
}

/// A SCSI disk, which QEMU can pull out.
fn scsi_disk(id: &'static str, serial: &'static str, wwn: u64) -> Disk {
    let kind = DiskKind::Scsi {
        serial,
        wwn,
        vendor: "SEAGATE",
        product: "ST4000",
        rotation: 1,
        n_paths: 1,
    };
    Disk { id, kind, ..Machine::target_disk() }
}

#[test]
fn a_disk_that_is_pulled_out_during_the_write_is_reported_and_no_other_is_touched() -> Result<()> {
    let proof = nonce()?;
    let mut order = instruction(&proof)?;
    order["install"]["disk"] = json!({"hints": {"serial": "TARGET-0"}});
    let (folder, lab) = start_lab_with("silence_pulled", &proof, &order, &[])?;
    let second = folder.join("second.raw");
    let before = write_old_disk(&second)?;
    let disks = vec![
        scsi_disk("target", "TARGET-0", 0x5000_c500_15ea_71ad),
        scsi_disk("second", "SECOND-0", 0x5000_c500_15ea_71ae),
    ];
    let mut live = restore_live(&folder, &Machine::plain(2048, disks), &lab)?;
    wait_for_event(&lab, &mut live, LIVE, |event| {
        event["stage"] == "write" && event["percent"].as_u64().is_some_and(|percent| percent >= 5)
    })?;
    let mut qmp = live.qmp()?;
    let drives = qmp.execute("query-block", &json!({}))?;
    let drives = drives.as_array().context("no list of drives")?;
    let target = drives.iter().find(|drive| drive["device"] == "target");
    let path = target.map(|drive| &drive["qdev"]).context("the target is no drive of QEMU")?;
    qmp.execute("device_del", &json!({"id": path}))?;
    let pulled = Instant::now();
    let result = lab.sent("result", Duration::from_mins(2))?;
    let ended = pulled.elapsed();
    lab.keep(&folder)?;
    ensure!(
        result["outcome"] == "failed" && result["disk_state"] == "half_written",
        "the result says {result:#}"
    );
    ensure!(result["disk"]["serial"] == "TARGET-0", "the result names {}", result["disk"]);
    ensure!(result["code"] == "TARGET_IO", "the result says {result:#}");
    ensure!(ended < Duration::from_mins(1), "the result came after {ended:?}");
    drop(live);
    ensure!(digest(&second)? == before, "the other disk has changed");
    Ok(())
}

/// Whether an event's message contains this text.
fn says(event: &Value, text: &str) -> bool {
    event["message"].as_str().is_some_and(|message| message.contains(text))
}

/// Waits until the node has sent an event for which `is_wanted` holds.
fn wait_for_event(
    lab: &Lab,
    live: &mut Guest,
    within: Duration,
    is_wanted: impl Fn(&Value) -> bool,
) -> Result<()> {
    let until = Instant::now() + within;
    let asker = lab.asker();
    loop {
        let events = asker.events()?;
        if events["events"].as_array().is_some_and(|events| events.iter().any(&is_wanted)) {
            return Ok(());
        }
        if Instant::now() > until {
            let last = events["events"].as_array().and_then(|events| events.last().cloned());
            let last = last.context("no event at all")?;
            bail!(
                "no such event within {} s at age {:?}; the last: {last}",
                within.as_secs(),
                live.age()
            );
        }
        std::thread::sleep(Duration::from_millis(500));
    }
}
