//! Renames the label `boot` of ext4 file systems on other disks to `boot-old`, if the override `disarm_boot_label` asks for
//! it: the only write of an install outside its target. It changes the 16 bytes of the label and the checksum of the
//! superblock, in one block that is checked before and read back after.
//!
//! The partition is opened exclusively for that time, so the kernel refuses if it is mounted, or if an array or mapping
//! uses it, and nothing can start to use it.
//!
//! Source: Linux `fs/ext4/ext4.h` (`struct ext4_super_block`) and `fs/ext4/super.c` (`ext4_superblock_csum`).

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use formats::bytes::le32;
use probes::block::{Disk, Partition};

use super::erase::replace;
use super::saved::Saved;
use super::{Code, Failure, System, labels, others};
use crate::ask::ask_within;

/// The label that is renamed, and the one that it gets.
const OLD: &str = "boot";
const NEW: &str = "boot-old";
/// Time limit for renaming one label.
const LIMIT: Duration = Duration::from_secs(30);

/// The superblock's place and size in bytes.
const SUPERBLOCK: (u64, usize) = (1024, 1024);
const MAGIC: usize = 0x38;
const INCOMPATIBLE: usize = 0x60;
const READ_ONLY_COMPATIBLE: usize = 0x64;
const LABEL: std::ops::Range<usize> = 0x78..0x88;
const CHECKSUM: usize = 0x3fc;
/// The journal has to be replayed, which may restore the old superblock.
const NEEDS_RECOVERY: u32 = 0x4;
/// The superblock has a checksum.
const HAS_CHECKSUM: u32 = 0x400;

/// True if a partition has a file system that is renamed.
fn is_renamed(part: &Partition) -> bool {
    let is_unused = part.holders.is_empty() && part.mounted_at.is_empty();
    let found = part.filesystem.as_ref();
    let is_boot =
        found.is_some_and(|found| found.kind == "ext4" && found.label.as_deref() == Some(OLD));
    is_unused && is_boot
}

/// The partitions that are renamed, with their disks.
pub(super) fn places<'d>(
    target: &'d Disk,
    disks: &'d [Disk],
) -> impl Iterator<Item = (&'d Disk, &'d Partition)> {
    // The paths of a LUN show the same partitions as the LUN. On a fabric it may be another host's `boot`, mounted there.
    let others = others(disks, target).filter(|disk| disk.unit().is_none() && !disk.is_on_fabric);
    others
        .flat_map(|disk| disk.partitions.iter().map(move |part| (disk, part)))
        .filter(|(_, part)| is_renamed(part))
}

/// The disks as they are once every label is renamed.
pub(super) fn renamed(target: &Disk, disks: &[Disk]) -> Vec<Disk> {
    let mut disks = disks.to_vec();
    let is_other = |disk: &Disk| {
        disk.name != target.name && disk.unit() != Some(&target.name) && !disk.is_on_fabric
    };
    let parts =
        disks.iter_mut().filter(|disk| is_other(disk)).flat_map(|disk| &mut disk.partitions);
    for part in parts.filter(|part| is_renamed(part)) {
        if let Some(filesystem) = &mut part.filesystem {
            filesystem.label = Some(NEW.to_owned());
        }
    }
    disks
}

/// True if renaming leaves no label that prevents the install.
pub(super) fn is_enough(target: &Disk, disks: &[Disk]) -> bool {
    labels::check(target, &renamed(target, disks), &Saved::default()).is_ok()
}

/// Renames the label of a partition.
///
/// # Errors
/// `DISK_CHANGED`, `DISK_BUSY` or `TARGET_IO`. The label is unchanged unless the failure says that it was written, or that
/// there was no answer in time: then it may be either.
pub(super) fn disarm(part: &Partition, system: &System) -> Result<String, Failure> {
    let device = format!("/dev/{}", part.name);
    let fail = |code: Code, why: &str| {
        let what = format!("renaming the label \"{OLD}\" of {device}: {why}");
        Failure::new(code, what).advise("rename it by hand (e2label), or remove that disk")
    };
    let handle = system.open(&device).map_err(|why| fail(Code::TargetIo, &why))?;
    let number = handle.number().map_err(|error| fail(Code::TargetIo, &error.to_string()))?;
    if number.is_none() || number != part.device_number {
        return Err(fail(Code::DiskChanged, "its name leads to another device now"));
    }
    let work = move || {
        let file = handle.exclusive().map_err(|error| {
            (Code::DiskBusy, format!("it is in use, or cannot be written: {error}"))
        })?;
        rename(&file).map_err(|why| (Code::TargetIo, why))
    };
    let done = ask_within("disarm", LIMIT, system.stop(), work);
    let done = done.unwrap_or_else(|why| Err((Code::TargetIo, why.to_string())));
    done.map_err(|(code, why)| fail(code, &why))?;
    Ok(format!("renaming the label \"{OLD}\" of {device} to \"{NEW}\""))
}

/// Renames the label of the file system in `file`.
fn rename(file: &File) -> Result<(), String> {
    let mut block = superblock(file)?;
    block[LABEL].copy_from_slice(&padded(NEW));
    if le32(&block, READ_ONLY_COMPATIBLE) & HAS_CHECKSUM != 0 {
        let checksum = checksum(&block).to_le_bytes();
        block[CHECKSUM..].copy_from_slice(&checksum);
    }
    replace(file, &[(SUPERBLOCK.0, block.as_slice())])
}

/// Reads the superblock of a file system whose label may be renamed.
fn superblock(file: &File) -> Result<Vec<u8>, String> {
    let block = read(file)?;
    let has_checksum = le32(&block, READ_ONLY_COMPATIBLE) & HAS_CHECKSUM != 0;
    let wrong = [
        (block[MAGIC..MAGIC + 2] != [0x53, 0xef], "it contains no ext4 file system"),
        (block[LABEL] != padded(OLD), "its label is another one now"),
        (
            le32(&block, INCOMPATIBLE) & NEEDS_RECOVERY != 0,
            "its journal must be replayed first (e2fsck)",
        ),
        (
            has_checksum && le32(&block, CHECKSUM) != checksum(&block),
            "the checksum of its superblock is wrong",
        ),
    ];
    let wrong = wrong.iter().find(|(is_wrong, _)| *is_wrong);
    wrong.map_or(Ok(block), |(_, why)| Err((*why).to_owned()))
}

fn padded(label: &str) -> [u8; 16] {
    std::array::from_fn(|at| label.as_bytes().get(at).copied().unwrap_or_default())
}

fn read(file: &File) -> Result<Vec<u8>, String> {
    let mut block = vec![0; SUPERBLOCK.1];
    let read = file.read_exact_at(&mut block, SUPERBLOCK.0);
    read.map_err(|error| format!("reading its superblock: {error}")).map(|()| block)
}

/// CRC-32C of everything before the checksum, without the final inversion.
fn checksum(block: &[u8]) -> u32 {
    block[..CHECKSUM].iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0x82f6_3b78 & 0u32.wrapping_sub(crc & 1))
        })
    })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::skipped::skipped;

    /// A file with a file system that the real tool made; `None` without the tool.
    fn made(features: &str) -> Option<tempfile::NamedTempFile> {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(8 << 20).unwrap();
        let mut mkfs = Command::new("mkfs.ext4");
        let Ok(status) = mkfs.args(["-q", "-L", OLD, "-O", features]).arg(file.path()).status()
        else {
            skipped("mkfs.ext4 is not there");
            return None;
        };
        assert!(status.success());
        Some(file)
    }

    fn open(file: &tempfile::NamedTempFile) -> File {
        File::options().read(true).write(true).open(file.path()).unwrap()
    }

    #[test]
    fn label_of_a_real_ext4_is_renamed_and_e2fsck_finds_no_fault() {
        for features in ["metadata_csum", "^metadata_csum"] {
            let Some(file) = made(features) else { return };
            let before = std::fs::read(file.path()).unwrap();
            rename(&open(&file)).unwrap();
            let after = std::fs::read(file.path()).unwrap();
            let changed = before.iter().zip(&after).enumerate().filter(|(_, (a, b))| a != b);
            let is_allowed = |at: usize| {
                LABEL.contains(&(at - 1024)) || (CHECKSUM..SUPERBLOCK.1).contains(&(at - 1024))
            };
            assert!(changed.map(|(at, _)| at).all(is_allowed), "{features}");
            let label = Command::new("e2label").arg(file.path()).output().unwrap();
            assert_eq!(label.stdout, b"boot-old\n", "{features}");
            let checked = Command::new("e2fsck").arg("-fn").arg(file.path()).output().unwrap();
            assert!(checked.status.success(), "{features}: {checked:?}");
            assert!(rename(&open(&file)).unwrap_err().contains("label"), "a second time");
        }
    }

    #[test]
    fn damaged_or_other_superblock_is_not_written() {
        for (at, why) in [
            (MAGIC, "no ext4 file system"),
            (LABEL.start, "its label is another one now"),
            (INCOMPATIBLE, "its journal must be replayed"),
            (0, "the checksum of its superblock is wrong"),
        ] {
            let Some(file) = made("metadata_csum") else { return };
            let mut bytes = std::fs::read(file.path()).unwrap();
            bytes[1024 + at] ^= 0x04;
            std::fs::write(file.path(), &bytes).unwrap();
            let found = rename(&open(&file)).unwrap_err();
            assert!(found.contains(why), "{found}");
            assert!(std::fs::read(file.path()).unwrap() == bytes, "{why}: it was written");
        }
    }

    #[test]
    fn partition_whose_name_leads_to_something_else_is_not_opened_for_writing() {
        let part = Partition {
            name: "null".into(),
            device_number: Some("8:1".into()),
            ..Partition::default()
        };
        let failure = disarm(&part, &System::default()).unwrap_err();
        assert_eq!(failure.code, Code::DiskChanged, "{failure}");
    }
}
