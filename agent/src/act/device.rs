//! A device file that is held open, and what the kernel and the device answer through it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};

use nix::fcntl::OFlag;
use nix::sys::stat::{major, minor};
use probes::block::Disk;
use probes::guard;
use probes::sys::allocation::allocated;
use probes::sys::diskseq::diskseq;

use super::system::Handle;

/// Of the thread that closes it.
const STACK_BYTES: usize = 64 << 10;

/// The number of a block device, e.g. `8:0`; `None` if it is not one.
pub(super) fn device_number(metadata: &fs::Metadata) -> Option<String> {
    let rdev = metadata.rdev();
    metadata.file_type().is_block_device().then(|| format!("{}:{}", major(rdev), minor(rdev)))
}

/// A device file that is open.
#[derive(Debug)]
pub(super) struct OpenDevice {
    /// Always there until it is dropped.
    file: Option<File>,
}

impl OpenDevice {
    pub(super) fn of(file: File) -> Self {
        Self { file: Some(file) }
    }

    fn file(&self) -> io::Result<&File> {
        self.file.as_ref().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Opens the same device once more: through the descriptor and not by name, which could lead to another disk.
    fn reopen(&self, options: &OpenOptions) -> io::Result<File> {
        let held = self.file()?;
        let file = options.open(format!("/proc/self/fd/{}", held.as_raw_fd()))?;
        let id =
            |file: &File| file.metadata().map(|found| (found.rdev(), found.dev(), found.ino()));
        if id(held)? == id(&file)? {
            Ok(file)
        } else {
            Err(io::Error::other("another device was opened"))
        }
    }
}

impl Handle for OpenDevice {
    fn number(&self) -> io::Result<Option<String>> {
        self.file()?.metadata().map(|metadata| device_number(&metadata))
    }

    fn diskseq(&self) -> io::Result<Option<u64>> {
        diskseq(self.file()?)
    }

    fn allocated(&self, disk: &Disk) -> Option<Vec<Range<u64>>> {
        // Bridges of USB disks may hang on commands that they do not know.
        let is_scsi =
            ["fc", "iscsi", "raid", "sas", "scsi"].map(Some).contains(&disk.transport.as_deref());
        let file = self.file().ok().filter(|_| is_scsi || disk.namespace_id.is_some())?;
        allocated(file, disk.namespace_id, disk.logical_block_bytes?.into(), disk.size_bytes?)
    }

    fn flush(&self) -> io::Result<()> {
        self.file()?.sync_all()
    }

    fn file(&self) -> io::Result<File> {
        self.file()?.try_clone()
    }

    fn direct(&self) -> io::Result<File> {
        self.reopen(OpenOptions::new().read(true).custom_flags(OFlag::O_DIRECT.bits()))
    }

    fn writable(&self) -> io::Result<File> {
        self.reopen(OpenOptions::new().read(true).write(true))
    }

    fn exclusive(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        self.reopen(options.read(true).write(true).custom_flags(OFlag::O_EXCL.bits()))
    }
}

impl Drop for OpenDevice {
    /// The last `close` of a block device writes what the page cache holds for it, so a disk that hangs would
    /// block the thread that closes it (`blkdev_flush_mapping` in `block/bdev.c`).
    fn drop(&mut self) {
        let file = self.file.take();
        guard::spawn("close", STACK_BYTES, move || drop(file), |_| {}).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::act::System;

    #[test]
    fn handle_of_a_file_has_neither_number_nor_sequence() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let (system, path) = (System::default(), file.path().to_str().unwrap().to_owned());
        fs::write(&path, "content").unwrap();
        let handle = system.open(&path).unwrap();
        assert_eq!((handle.number().unwrap(), handle.diskseq().unwrap()), (None, None));
        // What was opened stays readable whatever its name leads to.
        drop(file);
        let text = io::read_to_string(handle.file().unwrap()).unwrap();
        assert_eq!(text, "content");
        handle.writable().unwrap().set_len(0).unwrap();
        assert_eq!(handle.file().unwrap().metadata().unwrap().len(), 0);
        assert!(system.open(&path).is_err());
    }
}
