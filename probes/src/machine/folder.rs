//! The directory that a thread listed last stays open, and what lies below it is opened from there.
//!
//! A probe lists a directory and then reads what lies in it. Opened from its directory, a file costs
//! the kernel a third less than by its whole path: fewer names to walk, no link on the way.

use std::cell::RefCell;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::RawDir;

/// Whose directory it is: two captured trees have the same paths.
pub(super) type Owner = u64;

/// The running machine.
pub(super) const LIVE: Owner = 0;

thread_local! {
    static LAST: RefCell<Option<Folder>> = const { RefCell::new(None) };
}

struct Folder {
    owner: Owner,
    path: String,
    dir: OwnedFd,
}

/// For the names of a directory: those of a few hundred entries at once.
const BUFFER_BYTES: usize = 16 << 10;

/// The names in `dir`, which lies at `path` and stays open from now on.
pub(super) fn list(owner: Owner, path: &str, dir: OwnedFd) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    let mut buffer = [MaybeUninit::uninit(); BUFFER_BYTES];
    let mut entries = RawDir::new(&dir, &mut buffer);
    while let Some(entry) = entries.next() {
        let name = super::escape_non_utf8(entry?.file_name().to_bytes());
        if name != "." && name != ".." {
            names.push(name);
        }
    }
    let folder = Folder { owner, path: path.to_owned(), dir };
    LAST.with(|last| drop(last.replace(Some(folder))));
    Ok(names)
}

/// Calls `open` with the open directory and the path from there, if `path` lies below it.
pub(super) fn below<T>(
    owner: Owner,
    path: &str,
    open: impl FnOnce(BorrowedFd<'_>, &str) -> T,
) -> Option<T> {
    LAST.with_borrow(|last| {
        let folder = last.as_ref().filter(|folder| folder.owner == owner)?;
        let rest = path.strip_prefix(folder.path.as_str())?.strip_prefix('/')?;
        (!rest.is_empty()).then(|| open(folder.dir.as_fd(), rest))
    })
}
