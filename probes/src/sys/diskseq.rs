//! The sequence number of a disk, by `ioctl(BLKGETDISKSEQ)` on an open descriptor (`uapi/linux/fs.h`, since
//! Linux 5.15).
//!
//! The kernel gives each disk that appears a number that it never uses again while it runs, and answers
//! from memory: the disk itself is not asked.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileTypeExt as _;

use nix::errno::Errno;
use nix::libc;

/// `BLKGETDISKSEQ`: `_IOR(0x12, 128, __u64)`.
const BLKGETDISKSEQ: libc::c_ulong = 0x8008_1280;

/// Reads the number of an open disk; `None` if the kernel is older than 5.15 or the file is not a block device.
///
/// # Errors
/// As the kernel answers.
pub fn diskseq(disk: &File) -> io::Result<Option<u64>> {
    // A terminal could give the same request another meaning.
    if !disk.metadata()?.file_type().is_block_device() {
        return Ok(None);
    }
    match ask(disk) {
        Ok(number) => Ok(Some(number)),
        Err(Errno::ENOTTY | Errno::EINVAL) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

#[expect(unsafe_code, reason = "this ioctl has no safe wrapper")]
fn ask(disk: &File) -> Result<u64, Errno> {
    let mut number: u64 = 0;
    // SAFETY: the descriptor is open for as long as `disk` is borrowed. The request writes 8 bytes
    // (`put_u64` in `block/ioctl.c`) to `number`, which is as large, aligned and lives longer than the call.
    let code =
        unsafe { libc::ioctl(disk.as_raw_fd(), BLKGETDISKSEQ as libc::Ioctl, &raw mut number) };
    Errno::result(code).map(|_| number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_that_is_no_disk_has_no_number() {
        for path in ["/dev/null", "/proc/self/stat"] {
            assert_eq!(diskseq(&File::open(path).unwrap()).unwrap(), None, "{path}");
        }
    }
}
