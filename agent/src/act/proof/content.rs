//! The image's own table and blocks, compared with the disk. The digests were taken while the image was streamed to
//! coreos-installer, or are those of the live image's own image.
//!
//! coreos-installer copies an image byte by byte and then changes the boot file system: Ignition config, boot loader
//! entries, network profiles. With saved partitions it also writes a table for the whole disk (`src/download.rs`,
//! `image_copy_default`). On s390x, `zipl` writes a loader to the first blocks. Nothing else may differ.

use std::ops::Range;
use std::sync::mpsc::{Receiver, sync_channel};

use formats::gpt::Partition;
use probes::guard;
use sha2::{Digest as _, Sha256};
use tracing::info;

use super::disk::Disk;
use super::gpt::{self, Table};
use super::saved::{Saved, is_same};
use crate::act::stream_facts::StreamFacts;
use crate::act::{Order, Verify};

/// The most differences that are named.
const MAX_NAMED: usize = 8;
/// The length of a boot record, a header and 128 entries, rounded up: what a new table changes at either end.
const TABLE_BYTES: u64 = 32 << 10;
/// Number of bytes that `zipl` may change on s390x.
const ZIPL_BYTES: u64 = 1 << 20;
/// Progress is logged whenever so much more was compared.
const PERCENT_STEP: usize = 20;
/// Number of blocks that were read and wait to be digested.
const QUEUE: usize = 4;
/// Stack of the reading thread.
const STACK_BYTES: usize = 256 << 10;

/// Checks that the table is the image's, and lists saved partitions in addition. `None` if the image has no table.
pub(super) fn table(
    found: &Table,
    head: &[u8],
    sector_bytes: u64,
    saved: &[Saved],
) -> Option<Result<String, String>> {
    let image = gpt::read(&mut &*head, sector_bytes).ok()?;
    let mut wrong = Vec::new();
    for expected in &image.partitions {
        if !found.partitions.contains(expected) {
            let now = found.partitions.iter().find(|part| part.number == expected.number);
            let now = now.map_or_else(|| "missing".to_owned(), describe);
            wrong.push(format!("{} is {now}", describe(expected)));
        }
    }
    for part in &found.partitions {
        let is_saved = saved.iter().any(|saved| is_same(&saved.partition, part));
        if !image.partitions.contains(part) && !is_saved && wrong.is_empty() {
            wrong.push(format!("{} is not in the image", describe(part)));
        }
    }
    if saved.is_empty() && wrong.is_empty() && found.header != image.header {
        wrong.push(format!("the header is {:?}, the image has {:?}", found.header, image.header));
    }
    wrong.truncate(MAX_NAMED);
    Some(match &wrong[..] {
        [] => Ok(image.partitions.iter().map(describe).collect::<Vec<_>>().join(", ")),
        _ => Err(wrong.join("; ")),
    })
}

fn describe(part: &Partition) -> String {
    format!("{} {:?} ({} bytes at {})", part.number, part.name, part.size_bytes, part.start_bytes)
}

/// The parts of the disk that coreos-installer changes after it wrote the image.
pub(super) fn changed(
    boot: Option<&Partition>,
    has_saved: bool,
    disk_bytes: u64,
) -> Vec<Range<u64>> {
    let mut changed = Vec::new();
    if let Some(boot) = boot {
        changed.push(boot.start_bytes..boot.start_bytes.saturating_add(boot.size_bytes));
    }
    if has_saved {
        changed.push(0..TABLE_BYTES);
        changed.push(disk_bytes.saturating_sub(TABLE_BYTES)..disk_bytes);
    }
    if cfg!(target_arch = "s390x") {
        changed.push(0..ZIPL_BYTES);
    }
    changed
}

/// Compares the blocks of the disk with the image's. Blocks that overlap a changed part may differ. Returns what was found,
/// or the blocks that differ or the reason why nothing was compared; and whether the latter says something against the
/// disk: a comparison that nobody insisted on and that was not possible does not, nor does the medium of the live image.
pub(super) fn blocks(
    disk: &Disk,
    facts: Option<&StreamFacts>,
    order: &Order,
    changed: &[Range<u64>],
) -> (Result<String, String>, bool) {
    let is_needed = order.verify == Verify::Full && order.image.is_some();
    let Some(facts) = facts.filter(|facts| !facts.samples.is_empty()) else {
        let n_cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let is_spared = n_cpus == 1 && order.image.is_some() && order.verify == Verify::Sample;
        let why = if is_spared { ", since the machine has only one CPU" } else { "" };
        let why = format!("not compared: no digests of the image were taken{why}");
        return (Err(why), is_needed);
    };
    if is_needed && !facts.is_whole() {
        let why = "digests of a part of the image only, since it could not be unpacked";
        return (Err(why.into()), true);
    }
    match compare(disk, facts, changed) {
        Ok(None) => (Err("no block of the image was compared".into()), is_needed),
        Ok(Some(found)) => (Ok(found), true),
        Err(why) => (Err(why), true),
    }
}

/// Reads the blocks of the samples on a thread of its own, so that the disk is read while blocks are digested.
fn read(disk: &Disk, facts: &StreamFacts) -> Result<Receiver<Result<Vec<u8>, String>>, String> {
    let (sender, blocks) = sync_channel(QUEUE);
    let disk = disk.clone();
    let places: Vec<_> = facts.samples.iter().map(|one| (one.offset, one.n_bytes)).collect();
    let work = move || {
        let mut blocks = places.into_iter().map(|(offset, n_bytes)| disk.block(offset, n_bytes));
        // The other end is gone once a block could not be read.
        while blocks.next().is_some_and(|block| sender.send(block).is_ok()) {}
    };
    guard::ask("proof-read", STACK_BYTES, work)
        .map_err(|error| format!("no thread could be started: {error}"))?;
    Ok(blocks)
}

/// Returns the number of equal blocks in words; `None` if every block overlaps a changed part.
fn compare(
    disk: &Disk,
    facts: &StreamFacts,
    changed: &[Range<u64>],
) -> Result<Option<String>, String> {
    let (mut n_equal, mut equal_bytes, mut end_bytes, mut wrong) = (0_usize, 0, 0, Vec::new());
    let blocks = read(disk, facts)?;
    for (number, sample) in facts.samples.iter().enumerate() {
        let block = blocks.recv().map_err(|_| "the thread that reads the disk ended")??;
        let end = sample.offset.saturating_add(sample.n_bytes as u64);
        let percent = |number: usize| number * 100 / facts.samples.len();
        if percent(number + 1) / PERCENT_STEP > percent(number) / PERCENT_STEP {
            info!("compared with the image: {} %", percent(number + 1));
        }
        if changed.iter().any(|part| sample.offset < part.end && part.start < end) {
            continue;
        }
        if Sha256::digest(&block)[..] == sample.sha256 {
            n_equal += 1;
            equal_bytes += sample.n_bytes as u64;
            end_bytes = end;
        } else {
            wrong.push(format!("{} bytes at {}", sample.n_bytes, sample.offset));
        }
    }
    if !wrong.is_empty() {
        let n_wrong = wrong.len();
        wrong.truncate(MAX_NAMED);
        let (n_compared, first) = (n_equal + n_wrong, wrong.join(", "));
        return Err(format!(
            "{n_wrong} of {n_compared} blocks differ from the image, first {first}"
        ));
    }
    if n_equal == 0 {
        return Ok(None);
    }
    let rest = if facts.has_all_samples { "" } else { "; the rest of the image was not sampled" };
    let [equal_mib, end_mib] = [equal_bytes, end_bytes].map(|n_bytes| n_bytes.div_ceil(1 << 20));
    let found = format!("{n_equal} blocks equal, {equal_mib} MiB of the first {end_mib} MiB{rest}");
    Ok(Some(found))
}
