//! Checks that a device number still belongs to the chosen disk, by what the kernel says now
//! (`probes::block::current`).

use formats::wwn;
use probes::block::{CurrentDisk, Disk};

use super::choose::wwns;
use super::{Code, Failure, Say, describe};

/// Compares a disk of the report with the kernel's present data.
///
/// # Errors
/// `DISK_CHANGED` with every difference; also if the disk is gone.
pub(super) fn compare(disk: &Disk, now: Option<&CurrentDisk>) -> Result<(), Failure> {
    let Some(now) = now else {
        return Err(changed(format!("{} no longer exists", describe(disk))));
    };
    let mut differences = Vec::new();
    if now.name != disk.name {
        differences.push(format!("its kernel name is {}", now.name));
    }
    // An unknown size is never the same as another unknown one.
    if now.size_bytes.is_none() || now.size_bytes != disk.size_bytes {
        let size = now.size_bytes.map_or_else(|| "unknown".into(), |size| size.to_string());
        differences.push(format!("its size is {size}"));
    }
    if now.is_read_only == Some(true) && disk.is_read_only != Some(true) {
        differences.push("it is read-only".into());
    }
    if let (Some(then), Some(now)) = (&disk.serial, &now.serial)
        && !same_text(then, now)
    {
        differences.push(format!("its serial is {now:?}"));
    }
    if let (Some(then), Some(now)) = (disk.diskseq, now.diskseq)
        && then != now
    {
        differences.push(format!("it is disk number {now} of this boot, not {then}"));
    }
    if let Some(wwn) = other_wwn(disk, &now.wwns) {
        differences.push(format!("its WWN is {wwn:?}"));
    }
    if differences.is_empty() {
        return Ok(());
    }
    Err(changed(format!("{} has changed: {}", describe(disk), differences.join("; "))))
}

/// The failure if a disk is no longer the chosen one.
pub(super) fn changed(what: impl Into<Say>) -> Failure {
    Failure::new(Code::DiskChanged, what)
        .advise("the disk was swapped, removed or renamed while the job ran; start again")
}

/// An identifier that the disk has now and that is not among those of the report.
///
/// Only identifiers of one kind are compared: hexadecimal with hexadecimal, `nvme.…` with `nvme.…`.
fn other_wwn<'a>(disk: &Disk, now: &'a [String]) -> Option<&'a String> {
    let then: Vec<&String> = wwns(disk).collect();
    let kind = |text: &str| match wwn::forms(text) {
        Some(_) => Some("hex".to_owned()),
        None => text.split_once('.').map(|(kind, _)| kind.to_ascii_lowercase()),
    };
    let mut comparable =
        now.iter().filter(|now| then.iter().any(|then| kind(then) == kind(now))).peekable();
    let first = comparable.peek().copied()?;
    let is_same = comparable.any(|now| then.iter().any(|then| wwn::is_same(then, now)));
    (!is_same).then_some(first)
}

/// True if one text equals or contains the other, ignoring blanks and case.
///
/// sysfs, udev and SCSI pages pad and prefix serial numbers differently.
fn same_text(one: &str, other: &str) -> bool {
    let (one, other) = (one.trim().to_lowercase(), other.trim().to_lowercase());
    one == other
        || (one.len() >= 4 && other.contains(&one))
        || (other.len() >= 4 && one.contains(&other))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk() -> (Disk, CurrentDisk) {
        let reported = Disk {
            name: "sda".into(),
            device: "/dev/sda".into(),
            size_bytes: Some(4096),
            serial: Some("S1".into()),
            wwn: Some("0x5000c500a1b2c3d4".into()),
            ..Disk::default()
        };
        let now = CurrentDisk {
            name: "sda".into(),
            size_bytes: Some(4096),
            is_read_only: Some(false),
            serial: Some("S1 ".into()),
            wwns: vec!["naa.5000c500a1b2c3d4".into()],
            diskseq: None,
        };
        (reported, now)
    }

    #[test]
    fn the_same_disk_passes_even_if_sysfs_reports_less() {
        let (disk, mut now) = disk();
        assert_eq!(compare(&disk, Some(&now)), Ok(()));
        now.serial = None;
        now.wwns = vec!["t10.ATA     QEMU HARDDISK   QM00005".into()];
        assert_eq!(compare(&disk, Some(&now)), Ok(()));
        let nvme = Disk { wwn: Some("nvme.1b36-53".into()), ..disk };
        now.wwns = vec!["nvme.1b36-53".into()];
        assert_eq!(compare(&nvme, Some(&now)), Ok(()));
        now.wwns = vec!["nvme.1b36-54".into()];
        assert!(compare(&nvme, Some(&now)).is_err());
    }

    #[test]
    fn every_kind_of_change_is_detected() {
        let (disk, now) = disk();
        let check = |change: fn(&mut CurrentDisk)| {
            let mut now = now.clone();
            change(&mut now);
            compare(&disk, Some(&now)).map_err(|failure| failure.code)
        };
        let changes: [fn(&mut CurrentDisk); 7] = [
            |now| now.name = "sdb".into(),
            |now| now.size_bytes = Some(8192),
            |now| now.size_bytes = None,
            |now| now.serial = Some("S2".into()),
            |now| now.wwns = vec!["naa.5".into()],
            // A LUN behind multipath has no serial number here.
            |now| (now.serial, now.wwns) = (None, vec!["5000c500a1b2c3d5".into()]),
            |now| now.is_read_only = Some(true),
        ];
        for (number, change) in changes.into_iter().enumerate() {
            assert_eq!(check(change), Err(Code::DiskChanged), "{number}");
        }
        let swapped = Disk { diskseq: Some(7), serial: None, wwn: None, ..disk.clone() };
        let now = CurrentDisk { diskseq: Some(9), serial: None, wwns: Vec::new(), ..now.clone() };
        assert_eq!(compare(&swapped, Some(&now)).unwrap_err().code, Code::DiskChanged);
        assert!(compare(&Disk { diskseq: Some(9), ..swapped }, Some(&now)).is_ok());
        assert!(compare(&disk, None).is_err());
        let unsized_disk = Disk { size_bytes: None, ..disk.clone() };
        assert!(compare(&unsized_disk, Some(&CurrentDisk { size_bytes: None, ..now })).is_err());
    }
}
