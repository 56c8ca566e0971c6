//! Reads a few bytes of a block device, e.g. its partition table or a superblock.
//!
//! The device is opened `O_RDONLY | O_NONBLOCK | O_CLOEXEC`: without waiting for a medium, without
//! claiming it (`O_EXCL`), and without the `close` after a write that would make udev probe it again.

use std::fs::{File, FileType};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, FileTypeExt as _};
use std::sync::OnceLock;

use nix::errno::Errno;
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};

use super::{Question, get_or_try, open_device};

/// Most bytes that one question may ask for.
pub const LIMIT_BYTES: usize = 64 << 10;

/// A block device below `/dev`, opened at the first question and kept open for the next ones: each open
/// can make the driver check whether the disk is present.
#[derive(Debug)]
pub struct DiskHandle {
    /// Path below `/dev`, e.g. `sda` or `cciss/c0d0`.
    device: String,
    file: OnceLock<File>,
}

impl DiskHandle {
    /// The device `/dev/<device>`, not opened yet.
    pub fn new(device: &str) -> DiskHandle {
        DiskHandle { device: device.to_owned(), file: OnceLock::new() }
    }

    /// The device as one name, e.g. `cciss!c0d0`.
    pub(super) fn name(&self) -> String {
        self.device.replace('/', "!")
    }

    /// The opened device.
    pub(super) fn file(&self) -> io::Result<&File> {
        get_or_try(&self.file, || self.open())
    }

    fn open(&self) -> io::Result<File> {
        let is_plain = |part: &str| !matches!(part, "" | "." | "..");
        if !self.device.split('/').all(is_plain) {
            return Err(Errno::EINVAL.into());
        }
        let path = format!("/dev/{}", self.device);
        open_device(&path, FileType::is_block_device, Errno::ENOTBLK)
    }
}

/// The question for `n_bytes` bytes at `offset_bytes` of a block device.
#[derive(Debug, Clone)]
pub struct DiskBytes<'a> {
    /// The device.
    pub disk: &'a DiskHandle,
    /// Start of the part, in bytes.
    pub offset_bytes: u64,
    /// Number of bytes; fewer are returned at the end of the device.
    pub n_bytes: usize,
}

impl Question for DiskBytes<'_> {
    fn name(&self) -> String {
        format!("disk/{}/{}-{}", self.disk.name(), self.offset_bytes, self.n_bytes)
    }

    fn ask_live(&self) -> io::Result<Vec<u8>> {
        if self.n_bytes > LIMIT_BYTES {
            return Err(Errno::EINVAL.into());
        }
        let device = self.disk.file()?;
        let mut bytes = vec![0; self.n_bytes];
        let mut n_read = 0;
        while n_read < bytes.len() {
            let offset_bytes = self.offset_bytes.saturating_add(n_read as u64);
            match device.read_at(&mut bytes[n_read..], offset_bytes) {
                Ok(0) => break,
                Ok(n) => n_read += n,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(read_error(error)),
            }
        }
        bytes.truncate(n_read);
        Ok(bytes)
    }
}

/// Asks whether a part of a block device can be read. The answer is empty: its content is of no interest.
#[derive(Debug, Clone)]
pub struct DiskSample<'a>(pub DiskBytes<'a>);

impl Question for DiskSample<'_> {
    fn name(&self) -> String {
        self.0.name().replacen("disk/", "disk-sample/", 1)
    }

    fn ask_live(&self) -> io::Result<Vec<u8>> {
        let (offset, n_bytes) = (self.0.offset_bytes.try_into(), self.0.n_bytes.try_into());
        let (Ok(offset), Ok(n_bytes)) = (offset, n_bytes) else { return Err(Errno::EINVAL.into()) };
        // What an earlier read left in memory says nothing about the disk now. Pages with changes stay.
        let advice = PosixFadviseAdvice::POSIX_FADV_DONTNEED;
        posix_fadvise(self.0.disk.file()?, offset, n_bytes, advice).ok();
        self.0.ask_live().map(|_| Vec::new())
    }
}

/// An unreadable sector gives `ENODATA` (`BLK_STS_MEDIUM`, `block/blk-core.c`), which is an I/O error here. For a
/// file in sysfs it and the other errors below mean that there is nothing to read. For a disk they mean that its
/// driver refuses the read: the content is unknown, which does not make the disk broken.
fn read_error(error: io::Error) -> io::Error {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENODATA) => Errno::EIO.into(),
        Some(errno @ (Errno::EINVAL | Errno::EOPNOTSUPP | Errno::ENOTTY | Errno::ENOSYS)) => {
            io::Error::other(format!("the driver refuses the read: {}", errno.desc()))
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreadable_sector_is_an_error_and_a_refused_read_is_none_of_the_disk() {
        for (errno, expected) in [
            (Errno::ENODATA, Some(Errno::EIO as i32)),
            (Errno::ENXIO, Some(Errno::ENXIO as i32)),
            (Errno::EINVAL, None),
            (Errno::EOPNOTSUPP, None),
        ] {
            let error = read_error(errno.into());
            let is_refused = error.to_string().starts_with("the driver refuses the read: ");
            assert_eq!((error.raw_os_error(), is_refused), (expected, expected.is_none()));
        }
    }

    #[test]
    fn only_block_devices_below_dev_are_read_and_within_the_limit() {
        for (device, n_bytes) in
            [("null", 16), ("../etc/passwd", 16), ("", 16), ("null", LIMIT_BYTES + 1)]
        {
            let disk = DiskHandle::new(device);
            let question = DiskBytes { disk: &disk, offset_bytes: 0, n_bytes };
            assert!(question.ask_live().is_err(), "{device}");
        }
    }

    #[test]
    fn name_is_one_file_per_device_and_place() {
        let disk = DiskHandle::new("cciss/c0d0");
        let question = DiskBytes { disk: &disk, offset_bytes: 4096, n_bytes: 512 };
        assert_eq!(question.name(), "disk/cciss!c0d0/4096-512");
    }
}
