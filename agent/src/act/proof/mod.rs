//! Reads the written disk back, without mounting anything.
//!
//! The partition table and its backup, the file systems labelled `boot` and `root`, the Ignition config and the
//! boot loader entries, the EFI system partition, and the labels of all other disks. A corrupt disk can neither hang nor crash
//! the agent: reads have a budget, and the work runs on threads of its own with a deadline.

mod arguments;
pub(super) mod armed;
pub mod before;
pub(super) mod boot;
mod content;
pub mod disk;
pub(super) mod earlier;
pub mod esp;
mod fat;
mod filesystems;
pub(super) mod fsck;
pub mod gpt;
mod grub;
mod initramfs;
mod kernel;
mod made;
pub mod network;
mod others;
mod remains;
pub mod saved;
pub mod superblock;
mod unchanged;
mod written;

use std::env::consts::ARCH;
use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use formats::gpt::{ESP_TYPE, Partition};

use super::stream_facts::StreamFacts;
use super::{Check, CheckName, Compared, Order, Proof, System};
use crate::ask::{Unanswered, ask_within};

use arguments::Entries;
use before::Before;
use disk::Disk;
use gpt::Table;
use made::Made;

/// Time limit for the checks of the disk, besides the comparison with the image.
const LIMIT: Duration = Duration::from_mins(2);
/// Minimum read speed of any disk, in bytes a second.
const SLOWEST_BYTES_S: u64 = 2 << 20;
/// While this file exists, the boot loader asks Ignition to run; its absence makes the node boot unconfigured.
const STAMP: &str = "/ignition.firstboot";

/// The expected content of the disk.
#[derive(Debug, Clone)]
pub struct Expected {
    /// The system whose disk was written.
    pub system: System,
    /// The disk that was written, open since before the write.
    pub disk: Arc<File>,
    /// Its logical block size in bytes.
    pub sector_bytes: u64,
    /// Digest of the Ignition config, `sha512-…`.
    pub ignition_digest: String,
    /// The order.
    pub order: Order,
    /// True if this machine was booted by UEFI, so that the disk must have a loader for it.
    pub is_uefi: bool,
    /// All other disks.
    pub others: Vec<probes::block::Disk>,
    /// The facts read before the write.
    pub before: Before,
    /// The facts of the image; `None` if none are known.
    pub image: Option<StreamFacts>,
}

/// The results of reading a disk back.
#[derive(Debug, Clone, PartialEq)]
pub struct Proved {
    /// The checks that were made.
    pub proof: Proof,
    /// True if a signal ended it before every check was made.
    pub is_interrupted: bool,
}

/// Reads the disk back.
///
/// A proof that does not finish or panics is a failed check, in addition to those that were made until then. One that
/// a signal interrupts is none: nothing is known to be wrong with the disk.
pub fn prove(mut expected: Expected) -> Proved {
    let (system, others) = (expected.system.clone(), std::mem::take(&mut expected.others));
    let n_bytes = expected.image.as_ref().map_or(0, StreamFacts::sampled_bytes);
    let limit = LIMIT + Duration::from_secs(n_bytes / SLOWEST_BYTES_S);
    let made = Made::default();
    let (here, mut is_interrupted) = (made.clone(), false);
    // A bug in the reader of a corrupt file system must not prevent the result from being reported.
    match ask_within("proof", limit, system.stop(), move || look_at(&expected, &here)) {
        // Last, on threads and with a limit of its own: a dying disk elsewhere says nothing about this one.
        Ok(Some(partitions)) => made.push(others::check(&others, &partitions, &system)),
        Ok(None) => {}
        Err(Unanswered::Stopped) => is_interrupted = true,
        Err(why) => made.fail(&format!("reading it: {why}")),
    }
    Proved { proof: made.proof(), is_interrupted }
}

/// The first failed check that prevents the reboot.
pub fn fatal(proof: &Proof) -> Option<&Check> {
    proof.checks.iter().find(|check| !check.ok && check.fatal)
}

/// A check for `expected`; the outcome is what was found.
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

/// Makes the checks of the disk itself; returns its partitions if it has any.
fn look_at(expected: &Expected, checks: &Made) -> Option<Vec<Partition>> {
    let mut disk = Disk::of(Arc::clone(&expected.disk));
    let table = match gpt::read(&mut disk, expected.sector_bytes) {
        Ok(table) => table,
        Err(error) => {
            checks.push(check(CheckName::PartitionTable, "a GUID partition table", Err(error)));
            return None;
        }
    };
    let (partitions, saved) = (&table.partitions, &expected.before.saved);
    if expected.order.reignite {
        let found = filesystems::Found::on(&disk, partitions);
        look_at_boot(expected, &disk, &found, checks);
        return Some(table.partitions);
    }
    look_at_table(expected, &mut disk, &table, checks);
    checks.make(CheckName::Signatures, "no metadata of an array or pool", || {
        remains::check(&disk, expected.sector_bytes, &table, saved)
    });
    checks.begin(CheckName::BootFilesystem);
    let found = filesystems::Found::on(&disk, partitions);
    look_at_boot(expected, &disk, &found, checks);
    checks.make(CheckName::RootFilesystem, "one file system labelled root", || found.root(&disk));
    checks.begin(CheckName::ImageContent);
    look_at_content(expected, &disk, found.boot_partition(), checks);
    if expected.is_uefi || partitions.iter().any(|part| part.type_guid == ESP_TYPE) {
        checks.begin(CheckName::EspLoader);
        let loaders = esp::loaders(&disk, partitions).map(|loaders| loaders.join(", "));
        let wanted = "a boot loader for this machine in the EFI system partition";
        let loader = check(CheckName::EspLoader, wanted, loaders);
        checks.push(Check { fatal: expected.is_uefi, ..loader });
    }
    Some(table.partitions)
}

/// The checks of the partition table.
fn look_at_table(expected: &Expected, disk: &mut Disk, table: &Table, checks: &Made) {
    let partitions = &table.partitions;
    let image_head = expected.image.as_ref().map_or(&[][..], |image| &image.head);
    let names: Vec<String> =
        partitions.iter().map(|part| format!("{} {:?}", part.number, part.name)).collect();
    let none = || Err("a table without partitions".into());
    let listed = if names.is_empty() { none() } else { Ok(names.join(", ")) };
    let listed = gpt::check_boot_record(disk, image_head).and(listed);
    let wanted = "a GUID partition table with partitions";
    checks.push(check(CheckName::PartitionTable, wanted, listed));
    let saved = &expected.before.saved;
    checks.make(CheckName::BackupTable, "a backup that lists the same partitions", || {
        // Only with saved partitions does coreos-installer write a table for the whole disk.
        let last_lba = match saved[..] {
            [] => None,
            _ => (disk.size()? / expected.sector_bytes).checked_sub(1),
        };
        gpt::check_backup(disk, expected.sector_bytes, table, last_lba)
    });
    let of_image = expected
        .image
        .as_ref()
        .and_then(|image| content::table(table, &image.head, expected.sector_bytes, saved));
    if let Some(outcome) = of_image {
        checks.push(check(CheckName::ImageTable, "the image's partitions", outcome));
    }
    if !saved.is_empty() {
        checks.make(CheckName::SavedPartitions, "the saved partitions as before", || {
            saved::check(disk, partitions, saved)
        });
    }
}

/// The comparison with the blocks of the image, and with its boot files.
fn look_at_content(expected: &Expected, disk: &Disk, boot: Option<&Partition>, checks: &Made) {
    let image = expected.image.as_ref();
    let n_bytes = image.map_or(0, StreamFacts::sampled_bytes);
    let disk = disk.clone().with_budget(n_bytes);
    let disk_bytes = disk.size().unwrap_or(u64::MAX);
    let changed = content::changed(boot, !expected.before.saved.is_empty(), disk_bytes);
    let (outcome, fatal) = content::blocks(&disk, image, &expected.order, &changed);
    let mut compared = Compared::Sample;
    let outcome = outcome.and_then(|found| match boot_files(&disk, boot, expected) {
        None => Ok(format!("{found}; the boot file system was not compared")),
        Some(files) => {
            // A block that the end of the boot partition cuts in two is not compared.
            let is_cut = boot.is_some_and(|boot| !boot.size_bytes.is_multiple_of(1 << 20));
            if image.is_some_and(StreamFacts::is_whole) && !is_cut {
                compared = Compared::Whole;
            }
            files.map(|files| format!("{found}; {files}"))
        }
    });
    if outcome.is_ok() {
        checks.set_compared(compared);
    }
    let checked = check(CheckName::ImageContent, "the image's blocks", outcome);
    checks.push(Check { fatal, ..checked });
}

/// The comparison of the boot files; `None` if they cannot be compared.
fn boot_files(
    disk: &Disk,
    boot: Option<&Partition>,
    expected: &Expected,
) -> Option<Result<String, String>> {
    let (boot, blocks) = (boot?, expected.image.as_ref()?.boot.as_ref()?);
    let window = disk.window(boot.start_bytes, boot.size_bytes).ok()?;
    let is_same = boot.start_bytes == blocks.start;
    if is_same { unchanged::check(&window, blocks, &expected.order) } else { None }
}

/// The checks of the file system labelled `boot`.
fn look_at_boot(expected: &Expected, disk: &Disk, found: &filesystems::Found<'_>, checks: &Made) {
    let wanted = "one file system labelled boot";
    let (files, description) = match found.boot(disk) {
        Ok(opened) => opened,
        Err(error) => return checks.push(check(CheckName::BootFilesystem, wanted, Err(error))),
    };
    let part = found.boot_partition();
    // e2fsck reports a mounted file system as unclean; what was not mounted is checked by the caller.
    let part = part.filter(|_| !expected.order.reignite);
    let sound = |part: &Partition| fsck::check(&expected.disk, part.start_bytes, &expected.system);
    let is_sound = part.map_or(Ok(()), sound);
    checks.push(check(CheckName::BootFilesystem, wanted, is_sound.map(|()| description)));
    let read = |path: &str, max_bytes| {
        files.read(path, max_bytes).map_err(|error| format!("{path}: {error}"))
    };
    let stamp = read(STAMP, boot::MAX_ENTRY_BYTES);
    let mut entries = files.entries();
    if let (Ok(entries), true) = (&mut entries, expected.order.reignite) {
        // Others start no system that Ignition configures.
        entries.retain(earlier::is_ostree);
    }
    let known = entries.as_deref().unwrap_or_default();
    let found = stamp.as_ref().map_err(Clone::clone);
    let found = found.and_then(|_| grub::check(&files, known)).map(|()| STAMP.to_owned());
    checks.push(check(CheckName::FirstbootStamp, STAMP, found));
    let wanted = &expected.ignition_digest;
    let config = read("/ignition/config.ign", crate::http::client::MAX_IGNITION_BYTES);
    let digest = config.map(|bytes| formats::digest::sha512(&bytes));
    let digest = digest.and_then(|found| if found == *wanted { Ok(found) } else { Err(found) });
    checks.push(check(CheckName::IgnitionDigest, wanted, digest));
    let stamp = stamp.unwrap_or_default();
    let found = Entries { entries: &entries, stamp: &String::from_utf8_lossy(&stamp) };
    checks.push(arguments::kernel_arguments(&expected.order, &found));
    checks.push(arguments::platform(&expected.order, &found));
    if expected.order.reignite {
        // The rest is not written, and may have been updated since it was.
        return;
    }
    if let Some(outcome) = kernel::architecture(&files, known) {
        let wanted = format!("kernels for {ARCH}");
        checks.push(check(CheckName::KernelArchitecture, &wanted, outcome));
    }
    checks.begin(CheckName::BootFiles);
    if let Some(outcome) = kernel::check(&files, known, expected.before.profiles.is_some()) {
        let wanted = "each kernel and initramfs as OSTree recorded it";
        checks.push(check(CheckName::BootFiles, wanted, outcome));
    }
    if let Some(profiles) = &expected.before.profiles {
        let wanted = profiles.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        let found = network::check(profiles, &files, &entries);
        checks.push(check(CheckName::NetworkFiles, &wanted, found));
    }
}
