//! Reads back what was written to the disk, without mounting anything.
//!
//! The partition table and its backup, the file systems labelled `boot` and `root`, the Ignition config and the
//! boot loader entries, the EFI system partition, and the labels of all other disks. A corrupt disk can neither hang nor crash
//! the agent: reads have a budget, and the work runs on a thread of its own with a deadline.

mod arguments;
pub mod before;
mod boot;
mod content;
pub mod disk;
pub mod esp;
mod filesystems;
pub mod gpt;
mod initramfs;
pub mod network;
mod others;
pub mod saved;
pub mod superblock;

use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, Instant};

use formats::gpt::Partition;
use probes::guard;

use crate::api::{Check, CheckName, Install, Proof};
use crate::signals::Stop;
use crate::stream_facts::StreamFacts;

use arguments::Entries;
use before::Before;
use disk::Disk;
use gpt::Table;

/// How long the whole proof may take, besides the comparison with the image.
const LIMIT: Duration = Duration::from_mins(2);
/// How fast any disk can be read, in bytes a second.
const SLOWEST_BYTES_S: u64 = 8 << 20;
/// How often to look for a signal meanwhile.
const TICK: Duration = Duration::from_millis(100);
/// Stack of the thread that reads the disk: the default of Rust's threads.
const STACK_BYTES: usize = 2 << 20;
/// While this file exists, the boot loader asks Ignition to run; its absence makes the node boot unconfigured.
const STAMP: &str = "/ignition.firstboot";

/// What the disk must contain.
#[derive(Debug, Clone)]
pub struct Expected {
    /// Whether the agent is to end.
    pub stop: Stop,
    /// The disk that was written, open since before the write.
    pub disk: Arc<File>,
    /// Its logical block size in bytes.
    pub sector_bytes: u64,
    /// Digest of the Ignition config, `sha512-…`.
    pub ignition_digest: String,
    /// The instruction.
    pub install: Install,
    /// Whether this machine was booted by UEFI, so that the disk must have a loader for it.
    pub is_uefi: bool,
    /// All other disks.
    pub others: Vec<probes::block::Disk>,
    /// What was read before the write.
    pub before: Before,
    /// What is known of the image; `None` if nothing is.
    pub image: Option<StreamFacts>,
}

/// Reads the disk back.
///
/// A proof that does not finish, panics, or is interrupted by a signal is a failed check and does not end the program.
#[must_use]
pub fn prove(expected: Expected) -> Proof {
    let stop = expected.stop.clone();
    let samples = expected.image.iter().flat_map(|image| &image.samples);
    let n_bytes: u64 = samples.map(|sample| sample.n_bytes as u64).sum();
    let limit = LIMIT + Duration::from_secs(n_bytes / SLOWEST_BYTES_S);
    // A bug in the reader of a corrupt file system must not prevent the result from being reported.
    let answer = guard::ask("proof", STACK_BYTES, move || {
        let mut checks = Vec::new();
        look_at(&expected, &mut checks);
        checks
    });
    let broken = |found: &str| Proof {
        checks: vec![Check {
            name: CheckName::PartitionTable,
            ok: false,
            fatal: true,
            expected: Some("a disk that can be read".into()),
            found: Some(found.into()),
        }],
    };
    let Ok(answer) = answer else { return broken("could not start a thread to read it") };
    let started = Instant::now();
    loop {
        match answer.recv_timeout(TICK) {
            Ok(Ok(checks)) => return Proof { checks },
            Ok(Err(panic)) => return broken(&format!("reading it failed: {panic}")),
            // systemd kills the agent a minute after the signal, before a long proof could be reported.
            Err(_) if stop.is_stopped() => return broken("reading it was interrupted by a signal"),
            Err(_) if started.elapsed() < limit => {}
            Err(_) => return broken("reading it did not finish"),
        }
    }
}

/// The first failed check that prevents the reboot.
#[must_use]
pub fn fatal(proof: &Proof) -> Option<&Check> {
    proof.checks.iter().find(|check| !check.ok && check.fatal)
}

/// A check for `expected`; the outcome is what was found.
#[must_use]
pub fn check(name: CheckName, expected: &str, outcome: Result<String, String>) -> Check {
    let ok = outcome.is_ok();
    Check {
        name,
        ok,
        fatal: true,
        expected: (!expected.is_empty()).then(|| expected.to_owned()),
        found: Some(outcome.unwrap_or_else(|error| error)),
    }
}

fn look_at(expected: &Expected, checks: &mut Vec<Check>) {
    let mut disk = Disk::of(Arc::clone(&expected.disk));
    let table = match gpt::read(&mut disk, expected.sector_bytes) {
        Ok(table) => table,
        Err(error) => {
            checks.push(check(CheckName::PartitionTable, "a GUID partition table", Err(error)));
            return;
        }
    };
    look_at_table(expected, &mut disk, &table, checks);
    let partitions = &table.partitions;
    let found = filesystems::Found::on(&disk, partitions);
    look_at_boot(expected, &disk, &found, checks);
    let root = found.root(&disk);
    checks.push(check(CheckName::RootFilesystem, "one file system labelled root", root));
    look_at_content(expected, &disk, found.boot_partition(), checks);
    let mut loader = check(
        CheckName::EspLoader,
        "a boot loader in the EFI system partition",
        esp::loaders(&disk, partitions).map(|loaders| loaders.join(", ")),
    );
    loader.fatal = expected.is_uefi;
    checks.push(loader);
    let mut labels = check(
        CheckName::OtherBootLabels,
        "no file system labelled boot, and none of this disk's partitions, on another disk",
        others::boot_labels(&expected.others, partitions),
    );
    labels.fatal = false;
    checks.push(labels);
}

/// The checks of the partition table.
fn look_at_table(expected: &Expected, disk: &mut Disk, table: &Table, checks: &mut Vec<Check>) {
    let partitions = &table.partitions;
    let names: Vec<String> =
        partitions.iter().map(|part| format!("{} {:?}", part.number, part.name)).collect();
    checks.push(check(
        CheckName::PartitionTable,
        "a GUID partition table with partitions",
        if names.is_empty() {
            Err("a table without partitions".into())
        } else {
            Ok(names.join(", "))
        },
    ));
    let saved = &expected.before.saved;
    // Only with saved partitions does coreos-installer write a table for the whole disk.
    let last_lba = match saved[..] {
        [] => Ok(None),
        _ => disk.size().map(|size| (size / expected.sector_bytes).checked_sub(1)),
    };
    checks.push(check(
        CheckName::BackupTable,
        "a backup that lists the same partitions",
        last_lba.and_then(|last| gpt::check_backup(disk, expected.sector_bytes, table, last)),
    ));
    let of_image = expected
        .image
        .as_ref()
        .and_then(|image| content::table(table, &image.head, expected.sector_bytes, saved));
    if let Some(outcome) = of_image {
        checks.push(check(CheckName::ImageTable, "the image's partitions", outcome));
    }
    if !saved.is_empty() {
        let outcome = saved::check(disk, partitions, saved);
        checks.push(check(CheckName::SavedPartitions, "the saved partitions as before", outcome));
    }
}

/// The comparison with the blocks of the image.
fn look_at_content(
    expected: &Expected,
    disk: &Disk,
    boot: Option<&Partition>,
    checks: &mut Vec<Check>,
) {
    let image = expected.image.as_ref();
    let n_bytes = image.map_or(0, |image| image.samples.iter().map(|s| s.n_bytes as u64).sum());
    let mut disk = disk.clone().with_budget(n_bytes);
    let disk_bytes = disk.size().unwrap_or(u64::MAX);
    let changed = content::changed(boot, !expected.before.saved.is_empty(), disk_bytes);
    let verify = expected.install.verify.unwrap_or_default();
    if let Some(outcome) = content::blocks(&mut disk, image, verify, &changed) {
        checks.push(check(CheckName::ImageContent, "the image's blocks", outcome));
    }
}

/// The checks of the file system labelled `boot`.
fn look_at_boot(
    expected: &Expected,
    disk: &Disk,
    found: &filesystems::Found<'_>,
    checks: &mut Vec<Check>,
) {
    let (files, description) = match found.boot(disk) {
        Ok(opened) => opened,
        Err(error) => {
            let wanted = "one file system labelled boot";
            checks.push(check(CheckName::BootFilesystem, wanted, Err(error)));
            return;
        }
    };
    let wanted = "one file system labelled boot";
    checks.push(check(CheckName::BootFilesystem, wanted, Ok(description)));
    let stamp = files.read(STAMP, boot::MAX_ENTRY_BYTES);
    checks.push(check(
        CheckName::FirstbootStamp,
        STAMP,
        match &stamp {
            Ok(_) => Ok(STAMP.to_owned()),
            Err(error) => Err(format!("{STAMP}: {error}")),
        },
    ));
    let digest = files.read("/ignition/config.ign", crate::vim::client::MAX_IGNITION_BYTES);
    let digest = digest.map(|bytes| formats::digest::sha512(&bytes));
    checks.push(check(
        CheckName::IgnitionDigest,
        &expected.ignition_digest,
        match digest {
            Ok(found) if found == expected.ignition_digest => Ok(found),
            Ok(found) => Err(found),
            Err(error) => Err(format!("/ignition/config.ign: {error}")),
        },
    ));
    let stamp = stamp.unwrap_or_default();
    let entries = files.entries();
    let found = Entries { entries: &entries, stamp: &String::from_utf8_lossy(&stamp) };
    checks.push(arguments::kernel_arguments(&expected.install, &found));
    checks.push(arguments::platform(&expected.install, &found));
    if let Some(profiles) = &expected.before.profiles {
        checks.push(check(
            CheckName::NetworkFiles,
            &profiles.keys().map(String::as_str).collect::<Vec<_>>().join(", "),
            network::check(profiles, &files, &entries),
        ));
    }
}
