//! Reads of the running machine.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;

use nix::fcntl::OFlag;

/// A sysfs text attribute is at most one page and comes whole in one read (`fs/sysfs/file.c`).
pub(super) const SYSFS_PAGE_BYTES: usize = 4096;

pub(super) fn read(path: &str, limit_bytes: usize) -> io::Result<Vec<u8>> {
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(format!("/{path}"))?;
    read_bounded(&file, limit_bytes, path.starts_with("sys/"))
}

pub(super) fn list(path: &str) -> io::Result<Vec<String>> {
    fs::read_dir(format!("/{path}"))?
        .map(|entry| Ok(super::escape_non_utf8(entry?.file_name().as_encoded_bytes())))
        .collect()
}

pub(super) fn link(path: &str) -> io::Result<String> {
    let target = fs::read_link(format!("/{path}"))?;
    Ok(super::escape_non_utf8(target.as_os_str().as_encoded_bytes()))
}

/// Reads at most `limit_bytes`; more is an error, not a silent cut.
pub(super) fn read_bounded(
    mut file: &File,
    limit_bytes: usize,
    short_read_is_end: bool,
) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    let mut page = [0; SYSFS_PAGE_BYTES];
    loop {
        let n_read = match file.read(&mut page) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            result => result?,
        };
        content.extend_from_slice(&page[..n_read]);
        if content.len() > limit_bytes {
            return Err(super::too_large(limit_bytes));
        }
        if n_read == 0 || (short_read_is_end && n_read < SYSFS_PAGE_BYTES) {
            return Ok(content);
        }
    }
}
