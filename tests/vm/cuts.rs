//! A live job that ends at 21 points, by SIGKILL or by a power cut: the next live boot does what docs/safety.md ("The next boot")
//! says.
//!
//! QEMU logs what the first boot writes, so that a power cut also loses what the disk was never asked to flush.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::arguments::words;
use crate::artifacts::Artifact;
use crate::boot;
use crate::disk::Disk;
use crate::guest::{Boot, EMERGENCY, Guest};
use crate::install::{
    LIVE, check, check_ignition, check_proved, instruction, live_config_of, nonce, start_lab,
};
use crate::job::digest;
use crate::lab::Lab;
use crate::machine::Machine;
use crate::template::restore;

/// Size of the disk.
const DISK_BYTES: u64 = 512 << 20;
/// A sector of the disk and of the log of its writes.
const SECTOR: usize = 512;
/// The flag of a flush in that log.
const FLUSH: u64 = 1;
/// Serves the image and accepts the result slowly enough for a cut in between.
const SLOWLY: &str = "--fault /files/coreos-small.raw.gz=drip,bytes=8192,delay_ms=60,times=forever \
                      --fault result=delay,delay_ms=3000,times=forever --after-install install";

/// How a job ends.
#[derive(Debug, Clone, Copy)]
enum Cut {
    /// The process that does the job is killed. Its parent reports this state of the disk.
    Job(&'static str),
    /// Every process of the unit is killed.
    Unit,
    /// Power is lost.
    Power(Kept),
}

/// What a disk keeps of the writes after its last flush.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kept {
    All,
    EverySecond,
    Nothing,
}

/// The line of the agent's log and the time after it at which the job ends, how it ends, and what the next boot may end with.
type Point = (&'static str, u64, Cut, &'static [&'static str]);

const INSTALLS: &[&str] = &["installed"];
const KNOWS_IT: &[&str] = &["already_installed"];
const EITHER: &[&str] = &["installed", "already_installed"];

const KILLS: &[Point] = &[
    ("report posted", 0, Cut::Job("untouched"), INSTALLS),
    ("asks for install", 0, Cut::Job("untouched"), INSTALLS),
    ("written: ", 0, Cut::Job("half_written"), INSTALLS),
    ("reading /dev/vda back", 0, Cut::Unit, EITHER),
    ("left a trace", 0, Cut::Unit, KNOWS_IT),
];

const POWER_CUTS: &[Point] = &[
    ("reading the machine", 0, Cut::Power(Kept::All), INSTALLS),
    ("asks for install", 0, Cut::Power(Kept::All), INSTALLS),
    ("writing /dev/vda", 0, Cut::Power(Kept::All), INSTALLS),
    ("writing /dev/vda", 1500, Cut::Power(Kept::EverySecond), INSTALLS),
    ("written: ", 0, Cut::Power(Kept::EverySecond), INSTALLS),
    ("written: 100 %", 0, Cut::Power(Kept::Nothing), INSTALLS),
    ("written: 100 %", 1000, Cut::Power(Kept::EverySecond), INSTALLS),
    ("compared with the image", 0, Cut::Power(Kept::Nothing), INSTALLS),
    ("proved by", 0, Cut::Power(Kept::EverySecond), EITHER),
    ("left a trace", 0, Cut::Power(Kept::Nothing), KNOWS_IT),
    ("result posted", 0, Cut::Power(Kept::All), KNOWS_IT),
];

/// Waits for the disk.
const PREPARE: &str = "#!/bin/sh
until [ -e /dev/disk/by-id/virtio-TARGET-0 ]; do sleep 0.1; done
udevadm settle
";

/// Kills as soon as the journal has `{line}`.
const KILL: &str = "cat >/run/kill-it <<'END'
until journalctl -m | grep -q '{line}'; do sleep 0.1; done
{kill}
END
systemd-run -q --no-block sh /run/kill-it
";
/// Kills the second process of the unit; the first one is its parent.
const KILL_JOB: &str = "kill -KILL \
                        $(sed -n 2p /sys/fs/cgroup/system.slice/run-coreos-installer.service/cgroup.procs)";
const KILL_UNIT: &str = "systemctl kill -s KILL run-coreos-installer";

/// A machine with the target disk, whose writes QEMU logs from now on.
fn logged(folder: &Path) -> Result<Machine> {
    let (disk, log) = (folder.join("target.raw"), folder.join("writes.log"));
    if !disk.exists() {
        File::create(&disk)?.set_len(DISK_BYTES)?;
    }
    File::create(&log)?;
    copy(&disk, &folder.join("before.raw"))?;
    let more = format!(
        "-drive if=none,id=target,driver=blklogwrites,file.driver=file,file.filename={},log.driver=file,log.filename={} \
         -device virtio-blk-pci,drive=target,serial=TARGET-0,discard=off,write-zeroes=off",
        disk.display(),
        log.display()
    );
    Ok(Machine { more: words(&more), ..Machine::plain(2048, Vec::new()) })
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let status = Command::new("cp").arg("--sparse=always").args([from, to]).status()?;
    ensure!(status.success(), "copying {}: {status}", from.display());
    Ok(())
}

/// Ends the guest, and takes from its disk what was not flushed (QEMU: `block/blklogwrites.c`).
fn lose_power(guest: Guest, folder: &Path, line: &str, kept: Kept) -> Result<()> {
    drop(guest);
    if kept == Kept::All {
        return Ok(());
    }
    let log = std::fs::read(folder.join("writes.log"))?;
    let (mut writes, mut n_flushed, mut at) = (Vec::new(), 0, SECTOR);
    while let Some(header) = log.get(at..at + SECTOR) {
        let number = |n: usize| header[8 * n..].first_chunk().map(|b| u64::from_le_bytes(*b));
        let (sector, n_sectors, flags) = (number(0), number(1), number(2));
        let data = at + SECTOR;
        at = data + usize::try_from(n_sectors.context("a short header")?)? * SECTOR;
        match (flags, log.get(data..at)) {
            (Some(FLUSH), _) => n_flushed = writes.len(),
            (_, Some([])) => {}
            // The end of the log, or a truncated entry.
            (_, None) => break,
            (_, Some(bytes)) => writes.push((sector.context("a short header")?, bytes)),
        }
    }
    // The image reaches the disk only when coreos-installer or the guest's kernel says so.
    ensure!(n_flushed > 0 || line.starts_with("writ"), "the log has no flush of the disk");
    let target = folder.join("target.raw");
    copy(&folder.join("before.raw"), &target)?;
    let disk = File::options().write(true).open(&target)?;
    for (n, (sector, bytes)) in writes.iter().enumerate() {
        if n < n_flushed || (kept == Kept::EverySecond && n & 1 == 0) {
            disk.write_all_at(bytes, sector * SECTOR as u64)?;
        }
    }
    Ok(())
}

/// A lab VIM that forgets each install, and its order with this id for the disk that these keys mean.
fn start(test: &str, proof: &str, disk: &Value) -> Result<(Lab, Value)> {
    let mut order = instruction(proof, Artifact::IMAGE_SMALL)?;
    order["install"]["disk"] = disk.clone();
    order["on_refusal"] = json!("stop");
    Ok((start_lab(test, proof, &order, SLOWLY)?, order))
}

/// Orders an install by a request of its own.
fn request(lab: &Lab, order: &Value, id: &str) -> Result<()> {
    let mut order = order.clone();
    order["request_id"] = json!(id);
    lab.put("/lab/default/instruction", &order)
}

/// Ends a job at each of these points, and checks the next boot.
fn cut(test: &str, points: &[Point]) -> Result<()> {
    let proof = nonce()?;
    let (lab, order) = start(test, &proof, &json!({"hints": {"serial": "TARGET-0"}}))?;
    for (n, (line, delay_ms, how, outcomes)) in points.iter().enumerate() {
        let id = format!("cut-{n}");
        let at = || format!("{id}: {how:?} {delay_ms} ms after \"{line}\"");
        request(&lab, &order, &id)?;
        std::fs::remove_file(lab.folder.join("target.raw")).ok();
        end_job(&lab, &id, (*line, *delay_ms), *how).with_context(at)?;
        check_next_boot(&lab, &id, outcomes, &proof).with_context(at)?;
    }
    Ok(())
}

/// Boots the machine with a blank disk, and ends its job.
fn end_job(lab: &Lab, id: &str, (line, delay_ms): (&str, u64), how: Cut) -> Result<()> {
    let folder = &lab.folder;
    let kill = match how {
        Cut::Job(_) => KILL.replace("{kill}", KILL_JOB),
        Cut::Unit => KILL.replace("{kill}", KILL_UNIT),
        Cut::Power(_) => String::new(),
    };
    let script = format!("{PREPARE}{}", kill.replace("{line}", line));
    let mut guest = restore(id, folder, &logged(folder)?, &live_config_of(lab, "")?, &script)?;
    guest.wait_for(line)?;
    std::thread::sleep(Duration::from_millis(delay_ms));
    let Cut::Power(kept) = how else {
        guest.wait_for(EMERGENCY)?;
        if let Cut::Job(state) = how {
            let expected = json!({"code": "AGENT_BUG", "disk_state": state});
            check(&lab.sent("result")?, &expected)?;
        }
        return Ok(());
    };
    lose_power(guest, folder, line, kept)
}

/// Boots the machine with the disk as it was left.
fn check_next_boot(lab: &Lab, id: &str, outcomes: &[&str], proof: &str) -> Result<()> {
    let (folder, target) = (&lab.folder, lab.folder.join("target.raw"));
    let before = digest(&target)?;
    let disk = Disk { size_bytes: DISK_BYTES, ..Machine::target_disk() };
    let machine = Machine::plain(2048, vec![disk]);
    let name = format!("{id}-next");
    restore(&name, folder, &machine, &live_config_of(lab, "")?, "")?.wait_for_reboot()?;
    let result = lab.sent("result")?;
    check(&result, &json!({"request_id": id}))?;
    let outcome = result["outcome"].as_str().unwrap_or_default();
    ensure!(outcomes.contains(&outcome), "expected {outcomes:?}, found {result:#}");
    if outcome == "installed" {
        check_proved(lab)?;
    } else {
        check_known(&result, id)?;
        ensure!(digest(&target)? == before, "the second boot has written the disk");
    }
    check_ignition(&target, proof)
}

/// Checks that nothing was written because this request has installed the disk and proved it.
fn check_known(result: &Value, id: &str) -> Result<()> {
    check(result, &json!({"outcome": "already_installed", "disk_state": "untouched"}))?;
    check(&result["previous"], &json!({"request": id, "stage": "installed", "proved": true}))
}

#[test]
fn job_that_is_killed_ends_as_the_table_says_at_the_next_boot() -> Result<()> {
    cut("cuts_kill", KILLS)
}

#[test]
fn job_that_loses_its_power_is_carried_out_by_the_next_boot() -> Result<()> {
    cut("cuts_power", POWER_CUTS)
}

/// The request, the line at which power is lost, what the disk keeps, and the trace that the boot before it left.
type Round = (&'static str, &'static str, Kept, Option<&'static str>);

const ROUNDS: &[Round] = &[
    ("u1", "asks for install", Kept::All, None),
    ("u1", "written: ", Kept::EverySecond, None),
    ("u1", "reading /dev/vda back", Kept::Nothing, Some("half_written")),
    ("u1", "compared with the image", Kept::All, Some("half_written")),
    ("u2", "left a trace", Kept::Nothing, Some("half_written")),
];

#[test]
fn uefi_machine_that_loses_its_power_goes_on_unasked_three_times_and_knows_its_install()
-> Result<()> {
    let proof = nonce()?;
    // A disk that nobody named, so only the trace in the firmware allows its remains to be overwritten.
    let (lab, order) = start("cuts_uefi", &proof, &json!({}))?;
    let (folder, config) = (&lab.folder, live_config_of(&lab, "")?);
    let target = folder.join("target.raw");
    let boot = |name: &str| -> Result<Guest> {
        let machine = Machine { has_uefi: true, ..logged(folder)? };
        let boot = Boot::Kernel(boot::live(name, folder, &machine, &config)?);
        Guest::start(name, folder, &machine, &boot, LIVE)
    };
    request(&lab, &order, "u1")?;
    for (n, (id, line, kept, left)) in ROUNDS.iter().enumerate() {
        let mut guest = boot(&format!("round-{n}"))?;
        if *id != "u1" {
            guest.wait_for("report posted")?;
            let refused = lab.wait_for("result", LIVE, |_| true)?;
            check(&refused, &json!({"code": "ROUNDS_EXHAUSTED", "disk_state": "untouched"}))?;
            ensure!(digest(&target)? == digest(&folder.join("before.raw"))?, "it was written");
            guest.wait_for(EMERGENCY)?;
            drop(guest);
            request(&lab, &order, id)?;
            guest = boot(&format!("round-{n}-{id}"))?;
        }
        guest.wait_for(line)?;
        let left = left.map(|stage| json!({"request": "u1", "stage": stage}));
        check(&lab.sent("report")?["previous"], &left.unwrap_or_default())?;
        lose_power(guest, folder, line, *kept)?;
    }
    let before = digest(&target)?;
    boot("last")?.wait_for_reboot()?;
    check_known(&lab.sent("result")?, "u2")?;
    ensure!(digest(&target)? == before, "the last boot has written the disk");
    check_ignition(&target, &proof)
}
