//! Reads of the running machine.

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::OwnedFd;

use nix::fcntl::{AT_FDCWD, OFlag, openat, readlinkat};
use nix::sys::stat::Mode;

use super::folder::{self, LIVE};

/// A sysfs text attribute has at most one page and is returned by one read (`fs/sysfs/file.c`).
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
    // Not `open`: musl's sets the close-on-exec flag again, with a system call of its own.
    near.unwrap_or_else(|| openat(AT_FDCWD, format!("/{path}").as_str(), flags, Mode::empty()))
}

/// Long files are read in pieces of this size.
const BUFFER_BYTES: usize = 64 << 10;

thread_local! {
    /// One for all files that a thread reads, so that each content is allocated at its exact size.
    static BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; BUFFER_BYTES].into());
}

/// Reads at most `limit_bytes`; a longer file is an error and never silently truncated.
pub(super) fn read_bounded(
    mut file: &File,
    limit_bytes: usize,
    short_read_is_end: bool,
) -> io::Result<Vec<u8>> {
    BUFFER.with_borrow_mut(|buffer| {
        let mut content = Vec::new();
        loop {
            let n_read = match file.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                result => result?,
            };
            content.extend_from_slice(&buffer[..n_read]);
            if content.len() > limit_bytes {
                return Err(super::too_large(limit_bytes));
            }
            // One call may return only a page, even into a larger buffer.
            if n_read == 0 || (short_read_is_end && n_read < SYSFS_PAGE_BYTES) {
                return Ok(content);
            }
        }
    })
}
