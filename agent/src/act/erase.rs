//! Makes a disk that failed its proof unbootable: without a partition table neither a firmware nor a BIOS finds
//! anything to start on it.
//!
//! With partitions to keep, a table that lists only these takes the place of the image's; coreos-installer does the
//! same when it fails (`src/install.rs`, `reset_partition_table`). Nothing else on the disk is changed.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use formats::gpt::build::{Built, build};
use formats::gpt::{BLOCK_BYTES, Header, Partition};
use formats::guid::Guid;
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};

use super::takedown::reread_table;

/// The length of a table's entries in bytes.
const ENTRIES_BYTES: u64 = 16 << 10;

/// A disk that is open for reading and writing.
#[derive(Debug)]
pub struct Erasure<'a> {
    /// The disk.
    pub file: &'a File,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Its logical block size in bytes.
    pub sector_bytes: u64,
    /// The partitions to keep.
    pub keep: &'a [Partition],
}

impl Erasure<'_> {
    /// Erases the partition tables, or writes one that lists only the partitions to keep. Returns a description of the
    /// change.
    ///
    /// # Errors
    /// A message if it could not be written, or does not read back.
    pub fn run(&self, disk_guid: Guid) -> Result<String, String> {
        let (built, what) = if self.keep.is_empty() {
            (self.zeros()?, "its partition tables were erased".to_owned())
        } else {
            let block_bytes = usize::try_from(self.sector_bytes).unwrap_or_default();
            let n_blocks = self.size_bytes.checked_div(self.sector_bytes).unwrap_or_default();
            let table = build(self.keep, disk_guid, n_blocks, block_bytes)
                .ok_or("the partitions to keep do not fit into a table")?;
            let kept = match self.keep.len() {
                1 => "the partition to keep".to_owned(),
                n_kept => format!("the {n_kept} partitions to keep"),
            };
            (table, format!("its partition table lists only {kept}"))
        };
        let end_at = self.size_bytes.checked_sub(built.end.len() as u64);
        let end_at = end_at.ok_or("the disk is too small")?;
        let backup = self.backup_elsewhere().filter(|at| *at < end_at);
        // The start first: from then on the disk does not boot, whatever happens next.
        let tables = [(0, built.start.as_slice()), (end_at, &built.end)].into_iter();
        let pieces = tables.chain(backup.map(|at| (at, &[0; BLOCK_BYTES][..])));
        replace(self.file, &pieces.collect::<Vec<_>>())?;
        // The kernel keeps the partitions of the old table, and udev their links, until it reads the table again.
        let kernel = match reread_table(self.file) {
            Ok(()) => "and the kernel no longer has the old partitions".to_owned(),
            Err(error) => {
                format!("but the kernel has the old partitions until the next boot: {error}")
            }
        };
        Ok(format!("{what}, so that it does not boot, {kernel}"))
    }

    fn zeros(&self) -> Result<Built, String> {
        let zeros = |n_sectors: u64| {
            let n_bytes = n_sectors.checked_mul(self.sector_bytes)?.checked_add(ENTRIES_BYTES)?;
            Some(vec![0; usize::try_from(n_bytes).ok()?])
        };
        let (start, end) = (zeros(2), zeros(1));
        let built = start.zip(end).map(|(start, end)| Built { start, end });
        built.ok_or_else(|| "the size of its blocks is unknown".to_owned())
    }

    /// Returns the position of the image's backup header if it is not at the end of the disk: coreos-installer leaves
    /// it at the end of the image.
    fn backup_elsewhere(&self) -> Option<u64> {
        let mut block = [0; BLOCK_BYTES];
        self.file.read_exact_at(&mut block, self.sector_bytes).ok()?;
        let at = Header::parse(&block).ok()?.alternate_lba.checked_mul(self.sector_bytes)?;
        self.file.read_exact_at(&mut block, at).ok()?;
        let is_backup = Header::parse(&block).is_ok_and(|backup| backup.alternate_lba == 1);
        let is_elsewhere = at > 2 * self.sector_bytes + ENTRIES_BYTES
            && !self.keep.iter().any(|part| {
                at >= part.start_bytes && at < part.start_bytes.saturating_add(part.size_bytes)
            });
        (is_backup && is_elsewhere).then_some(at)
    }
}

/// Writes these pieces at their offsets in order, and checks that the disk has them.
///
/// # Errors
/// A message if one could not be written, or does not read back.
pub(crate) fn replace(file: &File, pieces: &[(u64, &[u8])]) -> Result<(), String> {
    for (at, bytes) in pieces {
        let written = file.write_all_at(bytes, *at).and_then(|()| file.sync_all());
        written.map_err(|error| format!("writing {} bytes at {at}: {error}", bytes.len()))?;
    }
    // Otherwise the page cache would be read.
    posix_fadvise(file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED).ok();
    for (at, bytes) in pieces {
        let mut found = vec![0; bytes.len()];
        let read = file.read_exact_at(&mut found, *at);
        read.map_err(|error| format!("reading back {} bytes at {at}: {error}", bytes.len()))?;
        if found != *bytes {
            return Err(format!("what was written at {at} is not there"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::act::testing::gpt_partition;

    const SIZE: u64 = 8 << 20;

    /// A disk of ones with a table whose backup lies in the block `backup_lba`.
    fn disk(backup_lba: u64) -> File {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&vec![1; usize::try_from(SIZE).unwrap()], 0).unwrap();
        let table = build(&[], Guid([9; 16]), backup_lba + 1, 512).unwrap();
        file.write_all_at(&table.start, 0).unwrap();
        file.write_all_at(&table.end, (backup_lba + 1) * 512 - 33 * 512).unwrap();
        file
    }

    fn content(file: &File) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(SIZE).unwrap()];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    }

    fn erase(file: &File, keep: &[Partition]) -> Result<String, String> {
        Erasure { file, size_bytes: SIZE, sector_bytes: 512, keep }.run(Guid([3; 16]))
    }

    fn kept() -> Partition {
        gpt_partition(4, "data", 12_000, 1_000)
    }

    #[test]
    fn disk_without_partitions_to_keep_loses_every_copy_of_its_table_and_nothing_else() {
        for backup_lba in [10_000, SIZE / 512 - 1] {
            let file = disk(backup_lba);
            let what = erase(&file, &[]).unwrap();
            // A file has no partitions, so the kernel has none to read again.
            let expected = "its partition tables were erased, so that it does not boot, but";
            assert!(what.starts_with(expected), "{what}");
            let bytes = content(&file);
            assert!(!bytes.windows(8).any(|window| window == b"EFI PART"));
            assert!(bytes[..34 * 512].iter().all(|byte| *byte == 0));
            assert_eq!(bytes[34 * 512], 1);
            let end = bytes.len() - 33 * 512;
            assert!(bytes[end..].iter().all(|byte| *byte == 0) && bytes[end - 1] == 1);
        }
    }

    #[test]
    fn partitions_to_keep_stay_in_the_table_and_as_they_are() {
        let (file, keep) = (disk(10_000), [kept()]);
        assert!(erase(&file, &keep).unwrap().contains("only the partition to keep"));
        let bytes = content(&file);
        let header = Header::parse(&bytes[512..]).unwrap();
        assert_eq!(header.partitions(&bytes[1024..1024 + 16_384], 512).unwrap(), keep);
        assert_eq!(header.alternate_lba, SIZE / 512 - 1);
        assert!(bytes[12_000 * 512..13_000 * 512].iter().all(|byte| *byte == 1));
        assert!(bytes[..446].iter().all(|byte| *byte == 0), "boot code");
        let n_headers = bytes.windows(8).filter(|window| window == b"EFI PART").count();
        assert_eq!(n_headers, 2);
    }

    #[test]
    fn header_inside_a_partition_to_keep_is_left_alone() {
        let file = disk(12_500);
        let before = content(&file);
        erase(&file, &[kept()]).unwrap();
        let after = content(&file);
        assert_eq!(after[12_000 * 512..13_000 * 512], before[12_000 * 512..13_000 * 512]);
    }

    #[test]
    fn disk_that_cannot_be_written_is_an_error() {
        let path = tempfile::NamedTempFile::new().unwrap();
        let file = File::open(path.path()).unwrap();
        assert!(erase(&file, &[]).unwrap_err().contains("writing"));
    }
}
