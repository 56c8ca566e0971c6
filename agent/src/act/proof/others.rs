//! File systems labelled `boot` on other disks, which the initramfs may use instead of this disk's, and clones of
//! this disk, which the firmware may start instead.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use formats::gpt::{ESP_TYPE, Partition};

use super::disk::Disk;
use super::{gpt, superblock};
use crate::act::{Check, CheckName, System, device_number, list};
use crate::ask::ask_within;

/// Time limit for all of them, and for one of them. A disk that is dying can block each read for minutes.
const LIMIT: Duration = Duration::from_secs(30);
const DISK_LIMIT: Duration = Duration::from_secs(10);
/// The most other disks that are read.
const MAX_DISKS: usize = 256;

/// The check of all other disks. It does not prevent the reboot, and it names the disks that cannot be read.
pub(super) fn check(others: &[probes::block::Disk], own: &[Partition], system: &System) -> Check {
    let wanted =
        "no file system labelled boot, and none of this disk's partitions, on another disk";
    let outcome = boot_labels(others, own, system, DISK_LIMIT);
    Check { fatal: false, ..super::check(CheckName::OtherBootLabels, wanted, outcome) }
}

/// Looks for file systems labelled `boot` on other disks, and for an EFI system partition with the same GUID as
/// this disk's, as a clone has. Names the disks that cannot be read.
///
/// # Errors
/// A message with the findings, or with the disks that did not respond.
fn boot_labels(
    others: &[probes::block::Disk],
    own: &[Partition],
    system: &System,
    disk_limit: Duration,
) -> Result<String, String> {
    let (mut found, mut unread, mut silent) = (Vec::new(), Vec::new(), Vec::new());
    let own: Arc<[Partition]> = own.into();
    let started = system.clock().now_outside();
    // A drive without a medium contains nothing.
    let others = others.iter().filter(|other| other.size_bytes != Some(0));
    for (number, other) in others.enumerate() {
        let spent = system.clock().now_outside().saturating_duration_since(started);
        let left = LIMIT.saturating_sub(spent).min(disk_limit);
        let size_bytes = other.size_bytes.filter(|_| number < MAX_DISKS && !left.is_zero());
        let Some(size_bytes) = size_bytes else {
            unread.push(other.device.clone());
            continue;
        };
        let (disk, own) = (other.clone(), Arc::clone(&own));
        let read = move || open(&disk).map(|opened| on_disk(&disk, opened, size_bytes, &own));
        match ask_within("other disk", left, system.stop(), read) {
            Ok(Some(more)) => found.extend(more),
            Ok(None) => unread.push(other.device.clone()),
            Err(why) => silent.push(format!("{} ({why})", other.device)),
        }
    }
    let is_silent = !silent.is_empty();
    let not_checked: Vec<String> = silent.into_iter().chain(unread).collect();
    let rest = if not_checked.is_empty() {
        String::new()
    } else {
        format!("; not checked: {}", list(not_checked, ", "))
    };
    if !found.is_empty() {
        return Err(format!("{}{rest}", list(found, ", ")));
    }
    let text = format!("none{rest}");
    if is_silent { Err(text) } else { Ok(text) }
}

/// Opens a disk if its name still leads to it.
fn open(disk: &probes::block::Disk) -> Option<Disk> {
    let opened = Disk::open(Path::new(&disk.device)).ok()?;
    let found = device_number(&opened.metadata().ok()?);
    let is_other = found.zip(disk.device_number.as_ref()).is_some_and(|(now, then)| now != *then);
    (!is_other).then_some(opened)
}

/// Lists the boot file systems and cloned EFI system partitions on one disk.
fn on_disk(
    other: &probes::block::Disk,
    mut disk: Disk,
    size_bytes: u64,
    own: &[Partition],
) -> Vec<String> {
    let is_boot = |disk: &Disk, start, size_bytes| {
        let window = disk.window(start, size_bytes).ok();
        let found = window.and_then(|mut window| superblock::of(&mut window));
        found.is_some_and(|found| found.label.as_deref() == Some("boot"))
    };
    let is_clone = |part: &Partition| {
        let is_esp = |part: &Partition| part.type_guid == ESP_TYPE;
        is_esp(part) && own.iter().any(|own| is_esp(own) && own.guid == part.guid)
    };
    let mut found = Vec::new();
    if is_boot(&disk, 0, size_bytes) {
        found.push(other.device.clone());
    }
    let sector_bytes = other.logical_block_bytes.map_or(512, u64::from);
    let table = gpt::read(&mut disk, sector_bytes).map(|table| table.partitions);
    for part in table.unwrap_or_default() {
        if is_boot(&disk, part.start_bytes, part.size_bytes) {
            found.push(format!("{} partition {}", other.device, part.number));
        }
        if is_clone(&part) {
            found.push(format!(
                "{} partition {} has the GUID of this disk's EFI system partition",
                other.device, part.number
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(device: &str, size_bytes: Option<u64>) -> probes::block::Disk {
        probes::block::Disk { device: device.into(), size_bytes, ..Default::default() }
    }

    fn labels(others: &[probes::block::Disk]) -> Result<String, String> {
        boot_labels(others, &[], &System::default(), Duration::from_millis(300))
    }

    #[test]
    fn an_unreadable_other_disk_is_named_and_does_not_fail_the_check() {
        let empty_drive = disk("/dev/rci-empty", Some(0));
        let found = labels(&[disk("/dev/rci-none", Some(1 << 30)), empty_drive.clone()]);
        assert_eq!(found, Ok("none; not checked: /dev/rci-none".to_owned()));
        assert_eq!(labels(&[empty_drive]), Ok("none".to_owned()));
        let unknown = labels(&[disk("/dev/null", None)]);
        assert_eq!(unknown, Ok("none; not checked: /dev/null".to_owned()));
    }

    #[test]
    fn disk_that_does_not_respond_costs_its_own_check_and_is_named() {
        let root = tempfile::tempdir().unwrap();
        let (pipe, clone) = (root.path().join("pipe"), root.path().join("clone"));
        // Nobody writes to the pipe, so opening it never ends.
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        let mut bytes = vec![0; 1 << 20];
        bytes[..4].copy_from_slice(b"XFSB");
        bytes[0x6c..0x70].copy_from_slice(b"boot");
        std::fs::write(&clone, &bytes).unwrap();
        let hung = disk(pipe.to_str().unwrap(), Some(1 << 20));
        let alone = labels(std::slice::from_ref(&hung)).unwrap_err();
        assert!(alone.starts_with("none; not checked: ") && alone.contains("pipe (no answer"));
        let both = labels(&[hung, disk(clone.to_str().unwrap(), Some(1 << 20))]).unwrap_err();
        let words = format!("{}; not checked: ", clone.display());
        assert!(both.starts_with(&words), "{both}");
    }
}
