//! Reads of the running machine.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::OwnedFd;

use nix::fcntl::{OFlag, openat, readlinkat};
use nix::sys::stat::Mode;

use super::folder::{self, LIVE};

/// A sysfs text attribute is at most one page and comes whole in one read (`fs/sysfs/file.c`).
pub(super) const SYSFS_PAGE_BYTES: usize = 4096;

pub(super) fn read(path: &str, limit_bytes: usize) -> io::Result<Vec<u8>> {
    let file = File::from(open(path, OFlag::O_NONBLOCK | OFlag::O_NOCTTY)?);
    read_bounded(&file, limit_bytes, path.starts_with("sys/"))
}

pub(super) fn list(path: &str) -> io::Result<Vec<String>> {
    let directory = open(path, OFlag::O_DIRECTORY | OFlag::O_NONBLOCK)?;
    folder::list(LIVE, path, directory)
}

pub(super) fn link(path: &str) -> io::Result<String> {
    let near = folder::below(LIVE, path, |folder, rest| readlinkat(folder, rest));
    let target = match near {
        Some(target) => target?,
        None => fs::read_link(format!("/{path}"))?.into_os_string(),
    };
    Ok(super::escape_non_utf8(target.as_encoded_bytes()))
}

fn open(path: &str, flags: OFlag) -> nix::Result<OwnedFd> {
    let flags = flags | OFlag::O_CLOEXEC;
    let near = folder::below(LIVE, path, |folder, rest| openat(folder, rest, flags, Mode::empty()));
    near.unwrap_or_else(|| nix::fcntl::open(format!("/{path}").as_str(), flags, Mode::empty()))
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
