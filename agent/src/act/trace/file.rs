//! The trace in a file on the EFI system partition of an installed disk, or in `boot` if it has none.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::time::Duration;

use formats::gpt::{ESP_TYPE, Partition};
use probes::block;

use super::{MAX_BYTES, Trace};
use crate::act::proof::disk::Disk;
use crate::act::proof::{boot, esp, gpt};
use crate::act::prove::sector_bytes;
use crate::act::target::Target;
use crate::act::{Failure, NewFile, System, Volume};
use crate::ask::ask_within;

/// Time limit for reading or writing the trace on one disk.
pub(in crate::act) const LIMIT: Duration = Duration::from_secs(30);
/// The folder of the file, and its name.
const FOLDER: [&str; 2] = ["EFI", "run-coreos-installer"];
const NAME: &str = "trace.json";

/// A file in the place of a trace that is none.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Damaged;

/// The trace on a disk.
///
/// # Errors
/// A message if it cannot be read.
pub(super) fn of(
    system: &System,
    disk: &block::Disk,
) -> Result<Option<Result<Trace, Damaged>>, String> {
    let is_esp = |part: &block::Partition| {
        let kind = part.type_uuid.as_deref();
        kind.is_some_and(|kind| kind.eq_ignore_ascii_case(&ESP_TYPE.to_string()))
    };
    let has_esp = disk.partitions.iter().any(is_esp);
    let boot = Volume::of_boot(disk).ok().filter(|_| !has_esp);
    if boot.is_none() && !has_esp {
        return Ok(None);
    }
    let handle = system.open(&disk.device)?;
    let in_words = |error: io::Error| error.to_string();
    let number = handle.number().map_err(in_words)?;
    if number.is_some() && number != disk.device_number {
        return Err("its name leads to another device now".to_owned());
    }
    let file = handle.file().map_err(in_words)?;
    let file = Disk::cached(Arc::new(file));
    let Some((_, (start, size))) = boot else { return read(&file, sector_bytes(disk)) };
    let window = file.window(start, size)?;
    let content = boot::content(window, (FOLDER[1], NAME), MAX_BYTES as u64)?;
    Ok(content.map(|content| Trace::parse(&content).ok_or(Damaged)))
}

fn read(disk: &Disk, sector_bytes: u64) -> Result<Option<Result<Trace, Damaged>>, String> {
    let path = format!("{}/{NAME}", FOLDER.join("/"));
    let content = esp::content(disk, sector_bytes, path, MAX_BYTES)?;
    Ok(content.map(|content| Trace::parse(&content).ok_or(Damaged)))
}

impl Trace {
    /// The trace as a file of the file system `boot`, for disks without an EFI system partition.
    ///
    /// # Errors
    /// It is too long.
    pub(in crate::act) fn file(&self) -> Result<NewFile, String> {
        Ok(NewFile {
            path: format!("{}/{NAME}", FOLDER[1]),
            mode: 0o644,
            bytes: self.bytes()?,
            before: None,
        })
    }
}

/// Writes the trace to the EFI system partition of the installed disk, unless that is one of those to `keep`, and reads it back.
/// Returns false if the disk has none.
///
/// # Errors
/// A message with what could not be read or written.
pub(in crate::act) fn leave(target: &Target, keep: &[u32], trace: &Trace) -> Result<bool, String> {
    let sector_bytes = sector_bytes(target.disk());
    let (bytes, target, stop) = (trace.bytes()?, target.clone(), target.system().stop().clone());
    let (keep, wanted) = (keep.to_vec(), trace.clone());
    let work = move || -> Result<bool, String> {
        let failed = |failure: Failure| failure.message.to_string();
        let disk = || target.direct().map(|file| Disk::of(Arc::new(file))).map_err(failed);
        let table = gpt::read(&mut disk()?, sector_bytes)?.partitions;
        let mut all = table.iter().filter(|part| part.type_guid == ESP_TYPE).peekable();
        if all.peek().is_none() {
            return Ok(false);
        }
        let part = all.find(|part| !keep.contains(&part.number));
        let part = part.ok_or("its EFI system partition is mounted, or one to keep")?;
        let file = target.writable().map_err(failed)?;
        write(&file, part, &bytes).map_err(|error| error.to_string())?;
        match read(&disk()?, sector_bytes)? {
            Some(Ok(found)) if found == wanted => Ok(true),
            _ => Err("it does not contain what was written".to_owned()),
        }
    };
    ask_within("trace", LIMIT, &stop, work).map_err(|why| why.to_string())?
}

/// Writes the file into the file system of a partition.
fn write(file: &File, part: &Partition, bytes: &[u8]) -> io::Result<()> {
    let volume = BlockVolume { file, start: part.start_bytes, size: part.size_bytes, at: 0 };
    let system = fatfs::FileSystem::new(volume, fatfs::FsOptions::new())?;
    let folder = FOLDER.iter().try_fold(system.root_dir(), |at, name| at.create_dir(name))?;
    let mut content = folder.create_file(NAME)?;
    content.truncate()?;
    content.write_all(bytes)?;
    content.flush()?;
    drop((content, folder));
    system.unmount()?;
    file.sync_all()
}

/// A part of a disk.
struct BlockVolume<'f> {
    file: &'f File,
    start: u64,
    size: u64,
    at: u64,
}

impl BlockVolume<'_> {
    /// The first of `length` bytes on the disk, and how many of them are in this part.
    fn place(&self, length: usize) -> (u64, usize) {
        let left = self.size.saturating_sub(self.at);
        (self.start + self.at, length.min(usize::try_from(left).unwrap_or(usize::MAX)))
    }
}

impl Read for BlockVolume<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (from, length) = self.place(buffer.len());
        let n = self.file.read_at(&mut buffer[..length], from)?;
        self.at += n as u64;
        Ok(n)
    }
}

impl Write for BlockVolume<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (to, length) = self.place(bytes.len());
        let n = self.file.write_at(&bytes[..length], to)?;
        self.at += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for BlockVolume<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => self.size.checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

#[cfg(test)]
mod tests {
    use formats::gpt::build::build;
    use formats::guid::Guid;

    use super::super::testing::trace;
    use super::*;
    use crate::act::DiskState;
    use crate::act::testing::gpt_partition;

    const N_BLOCKS: u64 = 40 << 10;

    /// A disk whose EFI system partition has a loader.
    fn disk() -> (File, Partition) {
        let file = tempfile::tempfile().unwrap();
        file.set_len(N_BLOCKS * 512).unwrap();
        let part = gpt_partition(2, "EFI-SYSTEM", 2048, 32 << 10);
        let part = Partition { type_guid: ESP_TYPE, ..part };
        let table = build(std::slice::from_ref(&part), Guid([9; 16]), N_BLOCKS, 512).unwrap();
        file.write_all_at(&table.start, 0).unwrap();
        let volume =
            || BlockVolume { file: &file, start: part.start_bytes, size: part.size_bytes, at: 0 };
        fatfs::format_volume(volume(), fatfs::FormatVolumeOptions::new()).unwrap();
        let fat = fatfs::FileSystem::new(volume(), fatfs::FsOptions::new()).unwrap();
        let boot = fat.root_dir().create_dir("EFI").unwrap().create_dir("BOOT").unwrap();
        boot.create_file("BOOTX64.EFI").unwrap().write_all(b"MZ").unwrap();
        drop(boot);
        fat.unmount().unwrap();
        (file, part)
    }

    fn read_back(file: &File) -> Option<Trace> {
        read(&Disk::of(Arc::new(file.try_clone().unwrap())), 512).unwrap().map(Result::unwrap)
    }

    #[test]
    fn trace_is_written_again_and_read_and_the_loader_stays() {
        let (file, part) = disk();
        assert_eq!(read_back(&file), None);
        let long = Trace { failures: vec!["x".repeat(150); 3], ..trace(DiskState::Installed) };
        for trace in [long, trace(DiskState::Installed)] {
            write(&file, &part, &trace.bytes().unwrap()).unwrap();
            assert_eq!(read_back(&file), Some(trace));
        }
        let disk = Disk::of(Arc::new(file.try_clone().unwrap()));
        let loader = esp::content(&disk, 512, "EFI/BOOT/BOOTX64.EFI".into(), 9).unwrap();
        assert_eq!(loader.unwrap(), b"MZ");
    }

    #[test]
    fn nothing_outside_of_the_partition_is_written() {
        let (file, part) = disk();
        let mut volume =
            BlockVolume { file: &file, start: part.start_bytes, size: part.size_bytes, at: 0 };
        volume.seek(SeekFrom::End(-2)).unwrap();
        assert_eq!(volume.write(b"abcd").unwrap(), 2);
        assert_eq!(volume.write(b"cd").unwrap(), 0);
        volume.seek(SeekFrom::Start(part.size_bytes + 9)).unwrap();
        assert_eq!((volume.write(b"x").unwrap(), volume.read(&mut [0; 4]).unwrap()), (0, 0));
        let mut damaged = [0; 512];
        file.write_all_at(&damaged, part.start_bytes).unwrap();
        assert!(write(&file, &part, b"{}").is_err());
        file.read_exact_at(&mut damaged, part.start_bytes).unwrap();
        assert_eq!(damaged, [0; 512]);
    }
}
