//! File systems labelled `boot` on other disks, which the initramfs may use instead of this disk's, and clones of
//! this disk, which the firmware may start instead.

use std::path::Path;

use formats::gpt::{ESP_TYPE, Partition};

use super::disk::Disk;
use super::{gpt, superblock};

/// The most other disks that are read.
const MAX_DISKS: usize = 256;
/// The most findings that are named.
const MAX_NAMED: usize = 16;

/// Looks for file systems labelled `boot` on other disks, and for an EFI system partition with the same GUID as
/// this disk's, as a clone has. Names the disks that cannot be read.
///
/// # Errors
/// In words: what was found.
pub(super) fn boot_labels(
    others: &[probes::block::Disk],
    own: &[Partition],
) -> Result<String, String> {
    let mut found = Vec::new();
    let mut unread = Vec::new();
    // A drive without a medium contains nothing.
    let others = others.iter().filter(|other| other.size_bytes != Some(0));
    for (number, other) in others.enumerate() {
        let opened = other
            .size_bytes
            .filter(|_| number < MAX_DISKS)
            .and_then(|size_bytes| Some((Disk::open(Path::new(&other.device)).ok()?, size_bytes)));
        match opened {
            Some((disk, size_bytes)) => found.extend(on_disk(other, disk, size_bytes, own)),
            None => unread.push(other.device.as_str()),
        }
    }
    if !found.is_empty() {
        found.truncate(MAX_NAMED);
        return Err(found.join(", "));
    }
    unread.truncate(MAX_NAMED);
    let unread = unread.join(", ");
    Ok(if unread.is_empty() { "none".into() } else { format!("none; not checked: {unread}") })
}

/// What one disk has.
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

    #[test]
    fn an_unreadable_other_disk_is_named_and_does_not_fail_the_check() {
        let disk = |device: &str, size_bytes| probes::block::Disk {
            device: device.into(),
            size_bytes,
            ..probes::block::Disk::default()
        };
        let empty_drive = disk("/dev/rci-empty", Some(0));
        let found = boot_labels(&[disk("/dev/rci-none", Some(1 << 30)), empty_drive.clone()], &[]);
        assert_eq!(found, Ok("none; not checked: /dev/rci-none".to_owned()));
        assert_eq!(boot_labels(&[empty_drive], &[]), Ok("none".to_owned()));
        let unknown = boot_labels(&[disk("/dev/null", None)], &[]);
        assert_eq!(unknown, Ok("none; not checked: /dev/null".to_owned()));
    }
}
