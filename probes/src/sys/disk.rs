//! Reads of a few bytes of a block device, e.g. its partition table or a superblock.
//!
//! The device is opened `O_RDONLY | O_NONBLOCK | O_CLOEXEC`: without waiting for a medium, without
//! claiming it (`O_EXCL`) and without the `close` after a write that would make udev look again.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};

use nix::errno::Errno;
use nix::fcntl::OFlag;

use super::Question;

/// Most bytes that one question may ask for.
pub const LIMIT_BYTES: usize = 64 << 10;

/// The question for `n_bytes` bytes at `offset_bytes` of the block device `/dev/<device>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskBytes {
    /// Path below `/dev`, e.g. `sda` or `cciss/c0d0`.
    pub device: String,
    /// Where to begin, in bytes.
    pub offset_bytes: u64,
    /// How many bytes; fewer are answered at the end of the device.
    pub n_bytes: usize,
}

impl Question for DiskBytes {
    fn name(&self) -> String {
        format!("disk/{}/{}-{}", self.device.replace('/', "!"), self.offset_bytes, self.n_bytes)
    }

    fn ask_live(&self) -> io::Result<Vec<u8>> {
        let is_plain = |part: &str| !matches!(part, "" | "." | "..");
        if self.n_bytes > LIMIT_BYTES || !self.device.split('/').all(is_plain) {
            return Err(Errno::EINVAL.into());
        }
        let flags = OFlag::O_NONBLOCK | OFlag::O_CLOEXEC | OFlag::O_NOCTTY;
        let path = format!("/dev/{}", self.device);
        let device = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path)?;
        if !device.metadata()?.file_type().is_block_device() {
            return Err(Errno::ENOTBLK.into());
        }
        let mut bytes = vec![0; self.n_bytes];
        let mut n_read = 0;
        while n_read < bytes.len() {
            let offset_bytes = self.offset_bytes.saturating_add(n_read as u64);
            match device.read_at(&mut bytes[n_read..], offset_bytes) {
                Ok(0) => break,
                Ok(n) => n_read += n,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        bytes.truncate(n_read);
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(device: &str, n_bytes: usize) -> io::Result<Vec<u8>> {
        DiskBytes { device: device.to_owned(), offset_bytes: 0, n_bytes }.ask_live()
    }

    #[test]
    fn only_block_devices_below_dev_are_read_and_never_much() {
        for (device, n_bytes) in
            [("null", 16), ("../etc/passwd", 16), ("", 16), ("null", LIMIT_BYTES + 1)]
        {
            assert!(ask(device, n_bytes).is_err(), "{device}");
        }
    }

    #[test]
    fn the_name_is_one_file_per_device_and_place() {
        let question =
            DiskBytes { device: "cciss/c0d0".to_owned(), offset_bytes: 4096, n_bytes: 512 };
        assert_eq!(question.name(), "disk/cciss!c0d0/4096-512");
    }
}
