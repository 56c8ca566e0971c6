//! FAT file systems (Microsoft's FAT specification 1.03), read without being mounted.
//!
//! The library believes what a disk says: damaged sizes and cluster numbers overflow in it. So each question is asked
//! on a thread of its own for a limited time, and a panic there becomes a message.

use std::io;
use std::time::Duration;

use super::disk::Window;
use crate::ask::ask_within;
use crate::signals::Stop;

/// Time limit for a question; the largest file that is read has some hundred MiB.
const LIMIT: Duration = Duration::from_mins(2);

/// The root directory of a file system.
pub(super) type Root<'a> = fatfs::Dir<'a, Window>;

/// A file system.
#[derive(Debug, Clone)]
pub(super) struct Fat(Window);

impl Fat {
    /// Reads the boot sector.
    ///
    /// # Errors
    /// A message if there is no such file system.
    pub(super) fn open(window: Window) -> Result<Self, String> {
        let fat = Self(window);
        fat.ask(|_| Ok(()))?;
        Ok(fat)
    }

    /// Asks a question, from the root directory on.
    ///
    /// # Errors
    /// The message of the question, or one that explains the missing answer.
    pub(super) fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Root<'_>) -> io::Result<T> + Send + 'static,
    ) -> Result<T, String> {
        let window = self.0.clone();
        let work = move || {
            let fat = fatfs::FileSystem::new(window, fatfs::FsOptions::new())?;
            let root = fat.root_dir();
            question(&root)
        };
        ask_within("fat", LIMIT, &Stop::default(), work)
            .map_err(|why| why.to_string())?
            .map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write as _};

    use super::super::disk::Disk;
    use super::*;

    const SECTOR: usize = 512;

    /// A file system with the directory `EFI` and one file in it, changed by `damage`.
    fn damaged(damage: impl FnOnce(&mut Vec<u8>)) -> Result<Vec<String>, String> {
        let mut bytes = Cursor::new(vec![0; 8 << 20]);
        fatfs::format_volume(&mut bytes, fatfs::FormatVolumeOptions::new()).unwrap();
        {
            let fat = fatfs::FileSystem::new(&mut bytes, fatfs::FsOptions::new()).unwrap();
            let efi = fat.root_dir().create_dir("EFI").unwrap();
            efi.create_file("A.EFI").unwrap().write_all(b"MZ").unwrap();
        }
        let mut bytes = bytes.into_inner();
        damage(&mut bytes);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, &bytes).unwrap();
        let window = Disk::open(file.path()).unwrap().window(0, bytes.len() as u64).unwrap();
        Fat::open(window).and_then(|fat| {
            fat.ask(|root| {
                root.open_dir("EFI")?.iter().map(|entry| Ok(entry?.file_name())).collect()
            })
        })
    }

    fn u16_at(bytes: &[u8], at: usize) -> usize {
        usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]))
    }

    #[test]
    fn whole_file_system_is_read() {
        assert_eq!(damaged(|_| ()).unwrap(), [".", "..", "A.EFI"]);
    }

    #[test]
    fn sizes_that_overflow_in_the_library_are_an_error() {
        let error = damaged(|bytes| {
            // Without BPB_RootEntCnt, BPB_TotSec16 and BPB_FATSz16 it is FAT32, whose BPB_FATSz32 is too large to be multiplied.
            bytes[17..21].fill(0);
            bytes[22..24].fill(0);
            bytes[32..40].fill(0xff);
            bytes[40..44].fill(0);
        });
        let error = error.unwrap_err();
        assert!(
            error.starts_with("a bug in the agent: attempt to multiply with overflow"),
            "{error}"
        );
    }

    #[test]
    fn directory_that_continues_in_itself_ends_with_the_reads_that_are_granted() {
        let error = damaged(|bytes| {
            let fat_at = u16_at(bytes, 14) * SECTOR;
            let fats = usize::from(bytes[16]) * u16_at(bytes, 22) * SECTOR;
            let root_bytes = u16_at(bytes, 17) * 32;
            let cluster_bytes = usize::from(bytes[13]) * SECTOR;
            // The directory has the first cluster, number 2. All its entries are deleted ones, and the next cluster is 2.
            let at = fat_at + fats + root_bytes;
            bytes[at..at + cluster_bytes].fill(0xe5);
            bytes[fat_at + 4..fat_at + 6].copy_from_slice(&2_u16.to_le_bytes());
        });
        let error = error.unwrap_err();
        assert!(error.contains("refer to each other in a circle"), "{error}");
    }
}
