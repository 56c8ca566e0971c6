//! The file systems of a disk by their labels: `boot` and `root`, by which the initramfs of `CoreOS` finds them.

use formats::gpt::Partition;
use formats::superblock::Superblock;

use super::boot::BootFiles;
use super::disk::{Disk, Window};
use super::superblock;

/// Name of the partition in images whose root file system is encrypted from the start (RHCOS up to 4.5).
const LUKS_ROOT: &str = "luks_root";

/// The partitions that contain a file system.
#[derive(Debug)]
pub(super) struct Found<'a>(Vec<(&'a Partition, Superblock)>);

impl<'a> Found<'a> {
    /// Reads the superblock of each partition.
    pub(super) fn on(disk: &Disk, table: &'a [Partition]) -> Self {
        let superblock = |part: &'a Partition| {
            let mut window = window(disk, part).ok()?;
            superblock::of(&mut window).map(|found| (part, found))
        };
        Self(table.iter().filter_map(superblock).collect())
    }

    /// The one file system with this label.
    fn labelled(&self, label: &str) -> Result<&(&'a Partition, Superblock), String> {
        let mut with_label =
            self.0.iter().filter(|(_, found)| found.label.as_deref() == Some(label));
        match (with_label.next(), with_label.count()) {
            (Some(found), 0) => Ok(found),
            (None, _) => Err("none".into()),
            (Some(_), more) => Err(format!("{} of them", more + 1)),
        }
    }

    /// The partition of the file system labelled `boot`, if there is one.
    pub(super) fn boot_partition(&self) -> Option<&'a Partition> {
        self.labelled("boot").ok().map(|(part, _)| *part)
    }

    /// Opens the file system labelled `boot`, and describes it.
    ///
    /// # Errors
    /// A message if there is none or several, it is incomplete, or it cannot be read.
    pub(super) fn boot(&self, disk: &Disk) -> Result<(BootFiles, String), String> {
        let (part, found) = self.labelled("boot")?;
        let description = checked(disk, part, found)?;
        Ok((BootFiles::open(window(disk, part)?)?, description))
    }

    /// Describes the file system labelled `root`.
    ///
    /// # Errors
    /// A message if there is none or several, or it is incomplete.
    pub(super) fn root(&self, disk: &Disk) -> Result<String, String> {
        let is_encrypted = |(part, found): &&(&Partition, Superblock)| {
            found.kind == "crypto_LUKS" && part.name == LUKS_ROOT
        };
        match (self.labelled("root"), self.0.iter().find(is_encrypted)) {
            (Err(_), Some((part, found))) => Ok(describe(part, found)),
            (root, _) => root.and_then(|(part, found)| checked(disk, part, found)),
        }
    }
}

fn checked(disk: &Disk, part: &Partition, found: &Superblock) -> Result<String, String> {
    let description = describe(part, found);
    superblock::check(found, &mut window(disk, part)?, part.size_bytes)
        .map(|()| description.clone())
        .map_err(|error| format!("{description}: {error}"))
}

fn describe(part: &Partition, found: &Superblock) -> String {
    format!("partition {}, {}", part.number, superblock::describe(found))
}

fn window(disk: &Disk, part: &Partition) -> Result<Window, String> {
    disk.window(part.start_bytes, part.size_bytes)
}
