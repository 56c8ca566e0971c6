//! Whether a disk is in use: mounted, swapped to, held by a mapping or array, or opened exclusively.
//!
//! Sources: `/proc/self/mountinfo`, `/proc/swaps` (`Documentation/filesystems/proc.rst`),
//! `/sys/dev/block/<n>/holders`, and `open(2)` with `O_EXCL`, which fails with `EBUSY` for a block device
//! that the kernel itself uses, in whatever mount namespace.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::OFlag;

use super::{Candidate, Failure, SystemPaths};
use crate::api::Code;
use crate::bounded;

/// How many partitions of a disk are looked at.
const MAX_PARTITIONS: usize = 512;

/// A disk or partition.
struct Part {
    name: String,
    number: String,
    dir: PathBuf,
}

/// Refuses a disk that is in use.
///
/// # Errors
/// `DISK_BUSY` with every use; `TARGET_IO` if it cannot be opened for another reason.
pub fn check_not_busy(disk: &Candidate, paths: &SystemPaths) -> Result<(), Failure> {
    let mut uses = Vec::new();
    for part in parts(disk, &paths.sys) {
        uses.extend(mounts(&part, &paths.proc));
        uses.extend(swaps(&part, &paths.proc));
        uses.extend(holders(&part));
    }
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags((OFlag::O_EXCL | OFlag::O_CLOEXEC).bits())
        .open(&disk.device);
    match opened {
        Ok(_) => {}
        Err(error) if error.raw_os_error() == Some(Errno::EBUSY as i32) => {
            uses.push(format!("{} is held by the kernel", disk.device));
        }
        Err(error) => {
            return Err(Failure::new(Code::TargetIo, format!("opening {}: {error}", disk.device))
                .advise("the disk cannot even be read; look at the kernel log"));
        }
    }
    if uses.is_empty() {
        return Ok(());
    }
    Err(Failure::new(Code::DiskBusy, format!("{} is in use: {}", disk.device, uses.join("; ")))
        .advise(
            "unmount it, stop the array or volume group, or boot without device auto-activation",
        ))
}

/// The disk and its partitions as sysfs shows them.
fn parts(disk: &Candidate, sys: &Path) -> Vec<Part> {
    let Some(number) = &disk.device_number else { return Vec::new() };
    let dir = sys.join("dev/block").join(number);
    let mut parts =
        vec![Part { name: disk.name.clone(), number: number.clone(), dir: dir.clone() }];
    let Ok(entries) = std::fs::read_dir(&dir) else { return parts };
    for entry in entries.flatten().take(4096) {
        let dir = entry.path();
        if parts.len() < MAX_PARTITIONS
            && dir.join("partition").exists()
            && let Some(number) = bounded::read_text(&dir.join("dev"))
        {
            parts.push(Part { name: entry.file_name().to_string_lossy().into(), number, dir });
        }
    }
    parts.sort_by(|a, b| a.name.cmp(&b.name));
    parts
}

fn mounts(part: &Part, proc: &Path) -> Vec<String> {
    let bytes = bounded::read_file(&proc.join("self/mountinfo"), 4 << 20).unwrap_or_default();
    mounts_of(&String::from_utf8_lossy(&bytes), &part.number)
        .into_iter()
        .map(|at| format!("{} is mounted at {at}", part.name))
        .collect()
}

/// Where a device number is mounted, by `mountinfo` (field 3 and field 5).
fn mounts_of(mountinfo: &str, number: &str) -> Vec<String> {
    mountinfo
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(' ');
            (fields.nth(2)? == number).then_some(())?;
            fields.nth(1).map(str::to_owned)
        })
        .take(8)
        .collect()
}

fn swaps(part: &Part, proc: &Path) -> Option<String> {
    let text = bounded::read_text(&proc.join("swaps"))?;
    is_swap(&text, &part.name).then(|| format!("{} is swap space", part.name))
}

/// Whether a device is swap space, by `/proc/swaps`.
fn is_swap(swaps: &str, name: &str) -> bool {
    swaps.lines().skip(1).any(|line| {
        line.split_ascii_whitespace().next().and_then(|path| path.strip_prefix("/dev/"))
            == Some(name)
    })
}

fn holders(part: &Part) -> Option<String> {
    let names: Vec<String> = std::fs::read_dir(part.dir.join("holders"))
        .ok()?
        .flatten()
        .take(16)
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    (!names.is_empty()).then(|| format!("{} is held by {}", part.name, names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_found_by_its_device_number_and_not_by_a_longer_one() {
        let text = "22 1 8:1 / /boot rw - ext4 /dev/sda1 rw\n23 1 8:17 / /mnt rw - xfs /dev/sdb1 rw\nodd\n";
        assert_eq!(mounts_of(text, "8:1"), ["/boot"]);
        assert!(mounts_of(text, "8:0").is_empty());
    }

    #[test]
    fn a_swap_partition_is_found_by_its_whole_name() {
        let text = "Filename Type Size Used Priority\n/dev/sda2 partition 1 0 -2\n";
        assert!(is_swap(text, "sda2"));
        assert!(!is_swap(text, "sda"));
        assert!(!is_swap("", "sda"));
    }
}
