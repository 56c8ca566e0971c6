//! An earlier `CoreOS`, before a disk that nobody named is overwritten because of it. Labels alone may be anyone's, so its
//! file systems must be there, and in `boot` an entry of the boot loader that starts Ignition's system from `OSTree`.
//!
//! Only `boot` is opened: `root` may be encrypted, a half of a mirror, or not made yet after an interrupted first boot.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use formats::text::is_number;
use probes::block::Partition;

use super::STAMP;
use super::boot::{BootFiles, Entry};
use super::disk::{Disk, ReadAt as _, Window};
use crate::ask::ask_within;
use crate::signals::Stop;

/// Time limit for reading them.
const LIMIT: Duration = Duration::from_secs(30);
/// Number of bytes at the start of an empty `root` that are read.
const START_BYTES: u64 = 1 << 20;
/// Content of `root`: file systems, encryption, a half of a mirror.
const ROOT: [&str; 5] = ["xfs", "ext4", "btrfs", "crypto_LUKS", "linux_raid_member"];
/// Kernel arguments that each `CoreOS` has, the second one up to RHEL `CoreOS` 4.2.
const PLATFORM: [&str; 2] = ["ignition.platform.id=", "coreos.oem.id="];

/// Checks that an open disk with these partitions, which are labelled as those of a `CoreOS`, contains one.
///
/// # Errors
/// A message with what is there instead, or could not be read.
pub(in crate::act) fn check(
    file: File,
    partitions: Vec<Partition>,
    stop: &Stop,
) -> Result<(), String> {
    let work = move || examine(&Disk::of(Arc::new(file)), &partitions);
    ask_within("coreos", LIMIT, stop, work).map_err(|why| why.to_string())?
}

/// True if the system on an open disk with these partitions has not come up yet: the stamp for its first boot is left in `boot`.
///
/// # Errors
/// A message if no system is there, or `boot` cannot be read.
pub(in crate::act) fn awaits_first_boot(
    file: Arc<File>,
    partitions: Vec<Partition>,
    stop: &Stop,
) -> Result<bool, String> {
    let work = move || {
        let boot = partitions.iter().find(|part| has_label(part, &["boot"]));
        let boot = boot.ok_or("it has no partition \"boot\"")?;
        let files = BootFiles::open(window(&Disk::of(file), boot)?)?;
        if files.entries()?.is_empty() {
            return Err(format!("{} has no boot loader entry", name(boot)));
        }
        Ok(files.size(STAMP).is_ok())
    };
    ask_within("stamp", LIMIT, stop, work).map_err(|why| why.to_string())?
}

fn examine(disk: &Disk, partitions: &[Partition]) -> Result<(), String> {
    let labelled = |wanted: &[&str]| partitions.iter().find(|part| has_label(part, wanted));
    if let Some(part) = labelled(&["EFI-SYSTEM", "esp"]).filter(|part| kind(part) != Some("vfat")) {
        return Err(format!("{} contains {}, expected vfat", name(part), content(part)));
    }
    let root = labelled(&["root", "luks_root"]).ok_or("it has no partition \"root\"")?;
    match kind(root) {
        Some(kind) if ROOT.contains(&kind) => {}
        None if is_empty(disk, root)? => {}
        _ => {
            let expected = "expected the file system of CoreOS";
            return Err(format!("{} contains {}, {expected}", name(root), content(root)));
        }
    }
    let boot = labelled(&["boot"]).ok_or("it has no partition \"boot\"")?;
    let unread = |why: String| format!("{} cannot be read: {why}", name(boot));
    let entries = window(disk, boot).and_then(BootFiles::open).and_then(|files| files.entries());
    if entries.map_err(unread)?.iter().any(is_coreos) {
        return Ok(());
    }
    Err(format!("{} has no boot loader entry of CoreOS", name(boot)))
}

/// True if the partition has one of these labels, or one with a number after it, as in a mirror.
fn has_label(part: &Partition, wanted: &[&str]) -> bool {
    let label = part.label.as_deref().unwrap_or_default();
    wanted.iter().any(|wanted| match label.strip_prefix(wanted) {
        Some("") => true,
        Some(rest) => rest.strip_prefix('-').is_some_and(is_number),
        None => false,
    })
}

fn kind(part: &Partition) -> Option<&str> {
    part.filesystem.as_ref().map(|filesystem| filesystem.kind.as_str())
}

fn content(part: &Partition) -> &str {
    kind(part).unwrap_or("data without a known signature")
}

fn name(part: &Partition) -> String {
    format!("{} ({:?})", part.name, part.label.as_deref().unwrap_or_default())
}

fn window(disk: &Disk, part: &Partition) -> Result<Window, String> {
    let place = part.start_bytes.zip(part.size_bytes);
    let (start, size) = place.ok_or_else(|| format!("the location of {} is unknown", part.name))?;
    // The file system in a half of a mirror begins where the half does (metadata 1.0).
    disk.window(start, size)
}

fn is_empty(disk: &Disk, part: &Partition) -> Result<bool, String> {
    let n_bytes = part.size_bytes.unwrap_or_default().min(START_BYTES);
    let n_bytes = usize::try_from(n_bytes).map_err(|error| error.to_string())?;
    let bytes = window(disk, part)?.bytes_at(0, n_bytes)?;
    Ok(bytes.iter().all(|byte| *byte == 0) || bytes.iter().all(|byte| *byte == 0xff))
}

/// True if the entry starts a system of `OSTree` that Ignition has configured.
fn is_coreos(entry: &Entry) -> bool {
    is_ostree(entry) && PLATFORM.iter().any(|name| has(entry, name))
}

/// True if the entry starts a system of `OSTree`.
pub(super) fn is_ostree(entry: &Entry) -> bool {
    has(entry, "ostree=") || entry.linux.as_ref().is_some_and(|path| path.contains("/ostree/"))
}

fn has(entry: &Entry, name: &str) -> bool {
    let options = entry.options.as_deref().unwrap_or_default();
    options.split_whitespace().any(|option| option.starts_with(name))
}
