//! Tests of the whole job: an install, a slow VIM, a wrong digest.
//!
//! Only the first boots: it shows every step as a user has it, with Ignition's first boot of the live system.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use nix::errno::Errno;
use nix::unistd::{Whence, lseek};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::artifacts::test_folder;
use crate::guest::EMERGENCY;
use crate::install::{LIVE, check_proved, nonce, small_instruction, start_lab_with, whole_job};
use crate::machine::Machine;
use crate::narrator::Narrator;
use crate::template::restore_live;

const BLOCK_BYTES: usize = 4096;

#[test]
fn a_bare_machine_becomes_an_installed_one_with_the_ignition_that_the_vim_returned() -> Result<()> {
    whole_job("job_whole", &mut Narrator::silent())
}

#[test]
fn a_vim_that_is_late_and_then_busy_is_waited_for() -> Result<()> {
    let faults =
        ["reports=delay,delay_ms=8000", "instruction=status,status=503,retry_after=4,times=2"];
    let more = [
        "--answer",
        "later",
        "--polls",
        "1",
        "--retry-after",
        "2",
        "--fault",
        faults[0],
        "--fault",
        faults[1],
    ];
    let proof = nonce()?;
    let (folder, lab) = start_lab_with("job_late", &proof, &small_instruction(&proof)?, &more)?;
    let live = restore_live(&folder, &Machine::plain(2048, vec![Machine::target_disk()]), &lab)?;
    live.wait_for_reboot()?;
    lab.keep(&folder)?;
    check_proved(&lab)?;
    let requests = lab.requests()?;
    let requests = requests.as_array().context("no list of requests")?;
    let polls: Vec<_> = requests
        .iter()
        .filter(|request| {
            request["path"].as_str().is_some_and(|path| path.ends_with("/instruction"))
        })
        .collect();
    let statuses: Vec<_> = polls.iter().map(|poll| &poll["status"]).collect();
    ensure!(
        statuses.starts_with(&[&json!(503), &json!(503)]) && statuses.last() == Some(&&json!(200)),
        "the polls were answered {statuses:?}"
    );
    for pair in polls.windows(2).filter(|pair| pair[0]["status"] == 503) {
        let waited = seconds(&pair[1]["time"])? - seconds(&pair[0]["time"])?;
        ensure!(waited >= 3.5, "Retry-After was 4 s, the next poll came after {waited} s");
    }
    Ok(())
}

/// Seconds of the day in a time as `2026-11-20T10:00:00.123Z`.
fn seconds(time: &Value) -> Result<f64> {
    let time =
        time.as_str().and_then(|time| time.split_once('T')).context("a request without a time")?.1;
    let parts: Vec<f64> =
        time.trim_end_matches('Z').split(':').map(str::parse).collect::<Result<_, _>>()?;
    ensure!(parts.len() == 3, "time {time:?}, expected hours, minutes and seconds");
    Ok(parts[0] * 3600.0 + parts[1] * 60.0 + parts[2])
}

#[test]
fn a_wrong_ignition_hash_leaves_the_disk_byte_for_byte_as_it_was() -> Result<()> {
    let proof = nonce()?;
    let mut order = small_instruction(&proof)?;
    order["on_refusal"] = json!("stop");
    let fault = ["--fault", "reports=wrong_hash,times=forever"];
    let (folder, lab) = start_lab_with("job_refused", &proof, &order, &fault)?;
    let disk = folder.join("target.raw");
    let before = write_old_disk(&disk)?;
    let mut live =
        restore_live(&folder, &Machine::plain(2048, vec![Machine::target_disk()]), &lab)?;
    let result = lab.sent("result", LIVE)?;
    live.wait_for(EMERGENCY)?;
    lab.keep(&folder)?;
    ensure!(
        result["outcome"] == "refused" && result["code"] == "IGNITION_HASH",
        "the result says {result:#}"
    );
    ensure!(result["disk_state"] == "untouched", "the result says {result:#}");
    drop(live);
    ensure!(digest(&disk)? == before, "the disk has changed");
    Ok(())
}

/// A disk of the usual size with something on it that an install would destroy; returns its digest.
pub(crate) fn write_old_disk(disk: &Path) -> Result<Vec<u8>> {
    write_old_disk_of(disk, Machine::target_disk().size_bytes)
}

/// The same with another size.
pub(crate) fn write_old_disk_of(disk: &Path, size_bytes: u64) -> Result<Vec<u8>> {
    File::create(disk)?.set_len(size_bytes)?;
    let status = Command::new("mkfs.ext4")
        .args(["-q", "-L", "precious"])
        .arg(disk)
        .status()
        .context("running mkfs.ext4")?;
    ensure!(status.success(), "mkfs.ext4: {status}");
    digest(disk)
}

/// SHA-256 of the blocks of a sparse file that contain something, each with its place: reading 3 GiB of holes takes 14 s.
pub(crate) fn digest(path: &Path) -> Result<Vec<u8>> {
    let mut file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    let mut digest = Sha256::new();
    let mut end = 0;
    loop {
        let start = match lseek(&file, end, Whence::SeekData) {
            Err(Errno::ENXIO) => return Ok(digest.finalize().to_vec()),
            start => start?,
        };
        end = lseek(&file, start, Whence::SeekHole)?;
        file.seek(SeekFrom::Start(start.try_into()?))?;
        let mut data = vec![0; (end - start).try_into()?];
        file.read_exact(&mut data)?;
        for (at, block) in (start..).step_by(BLOCK_BYTES).zip(data.chunks(BLOCK_BYTES)) {
            if block.iter().any(|byte| *byte != 0) {
                digest.update(at.to_le_bytes());
                digest.update(block);
            }
        }
    }
}

#[test]
fn digest_changes_with_content_and_place_but_not_with_holes() -> Result<()> {
    let path = test_folder("job_digest")?.join("disk");
    let of = |parts: &[(u64, &[u8])]| {
        let mut file = File::create(&path)?;
        file.set_len(1 << 30)?;
        for (at, bytes) in parts {
            file.seek(SeekFrom::Start(*at))?;
            file.write_all(bytes)?;
        }
        digest(&path)
    };
    let one = of(&[(1 << 20, b"x")])?;
    ensure!(one == of(&[(1 << 20, b"x"), (1 << 29, &[0; 8192])])?, "zeros are as holes");
    ensure!(one != of(&[(1 << 20, b"y")])?, "other content");
    ensure!(one != of(&[(1 << 21, b"x")])?, "another place");
    ensure!(one != of(&[(1 << 20, b"x"), ((1 << 30) - 1, b"x")])?, "one byte more, at the end");
    Ok(())
}
