//! A captured tree in a directory.
//!
//! Paths are resolved by the kernel with `RESOLVE_IN_ROOT` (`openat2(2)`, Linux 5.6): an absolute
//! symbolic link starts at the tree's root, `..` cannot leave it, a loop ends in `ELOOP`. So a
//! replay never reads the host, whatever links the tree contains.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat, openat2, readlinkat};
use nix::sys::stat::Mode;

use super::folder::{self, LIVE, Owner};
use super::live::{SYSFS_PAGE_BYTES, read_bounded};

/// A directory that holds a captured tree.
#[derive(Debug)]
pub(super) struct Directory {
    root: OwnedFd,
    owner: Owner,
}

impl Directory {
    pub(super) fn open(path: &Path) -> io::Result<Directory> {
        static LAST_OWNER: AtomicU64 = AtomicU64::new(LIVE);
        let owner = LAST_OWNER.fetch_add(1, Ordering::Relaxed) + 1;
        let directory = Directory { root: File::open(path)?.into(), owner };
        match directory.open_at(".", OFlag::O_PATH) {
            Err(Errno::ENOSYS) => Err(io::Error::other(
                "this kernel has no openat2 (Linux 5.6), so a directory cannot be read safely; \
                 pack it as a tar.zst and give that",
            )),
            result => result.map(|_| directory).map_err(io::Error::from),
        }
    }

    pub(super) fn read(&self, path: &str, limit_bytes: usize) -> io::Result<Vec<u8>> {
        let file = File::from(self.open_at(path, OFlag::O_NONBLOCK | OFlag::O_NOCTTY)?);
        let content = read_bounded(&file, limit_bytes, true)?;
        // Nearly all files are short texts, whose type needs no check: reading a directory fails, a pipe
        // without a writer is empty, and an endless device is not short.
        let is_short_text = !content.is_empty() && content.len() < SYSFS_PAGE_BYTES;
        if !is_short_text && !file.metadata()?.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        Ok(content)
    }

    pub(super) fn list(&self, path: &str) -> io::Result<Vec<String>> {
        let directory = self.open_at(path, OFlag::O_DIRECTORY)?;
        folder::list(self.owner, path, directory)
    }

    pub(super) fn link(&self, path: &str) -> io::Result<String> {
        // A single name cannot lead anywhere else.
        let near = folder::below(self.owner, path, |folder, name| {
            is_name(name).then(|| readlinkat(folder, name))
        });
        let whole = || {
            let link = self.open_at(path, OFlag::O_PATH | OFlag::O_NOFOLLOW)?;
            // An empty path names the link itself; ENOENT means that it is not a link.
            readlinkat(link.as_fd(), "").map_err(|error| match error {
                Errno::ENOENT => Errno::EINVAL,
                error => error,
            })
        };
        let target = near.flatten().unwrap_or_else(whole);
        Ok(super::escape_non_utf8(target?.as_encoded_bytes()))
    }

    /// Opens from the directory that was listed last, if `path` is below it and the rest contains no link;
    /// otherwise from the root.
    fn open_at(&self, path: &str, flags: OFlag) -> nix::Result<OwnedFd> {
        let how = OpenHow::new().flags(flags | OFlag::O_CLOEXEC);
        let beneath = ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS;
        let near = folder::below(self.owner, path, |folder, rest| {
            if is_name(rest) {
                // Cheaper, and a single name that is not a link cannot lead anywhere else.
                let flags = flags | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
                return openat(folder, rest, flags, Mode::empty());
            }
            openat2(folder, rest, how.resolve(beneath))
        });
        match near {
            // A link fails with ENOTDIR if a directory is required.
            None | Some(Err(Errno::ELOOP | Errno::EXDEV | Errno::ENOTDIR)) => {
                let in_root = ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS;
                openat2(&self.root, path, how.resolve(in_root))
            }
            Some(result) => result,
        }
    }
}

/// True if a path is a single name below its folder.
fn is_name(path: &str) -> bool {
    !path.contains('/') && path != ".."
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn tree(name: &str) -> (std::path::PathBuf, Directory) {
        let dir = std::env::temp_dir().join(format!("rci-{name}-{}", std::process::id()));
        fs::remove_dir_all(&dir).ok();
        fs::create_dir_all(dir.join("sys/a")).unwrap();
        fs::write(dir.join("sys/a/value"), "inside\n").unwrap();
        (dir.clone(), Directory::open(&dir).unwrap())
    }

    #[test]
    fn no_link_of_a_tree_leads_to_the_host() {
        let (dir, tree) = tree("links");
        symlink("/etc/passwd", dir.join("sys/absolute")).unwrap();
        symlink("../../../../../../../../../etc/passwd", dir.join("sys/climbing")).unwrap();
        symlink("/sys/a/value", dir.join("sys/own")).unwrap();
        symlink("loop2", dir.join("sys/loop1")).unwrap();
        symlink("loop1", dir.join("sys/loop2")).unwrap();
        for outside in ["sys/absolute", "sys/climbing", "../../../etc/passwd", "/etc/passwd"] {
            let error = tree.read(outside, 100).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotFound, "{outside}");
        }
        assert_eq!(tree.read("sys/own", 100).unwrap(), b"inside\n");
        let error = tree.read("sys/loop1", 100).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::ELOOP as i32));
        assert_eq!(tree.link("sys/climbing").unwrap(), "../../../../../../../../../etc/passwd");
        assert_eq!(
            tree.link("sys/a/value").unwrap_err().raw_os_error(),
            Some(Errno::EINVAL as i32)
        );
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn links_resolve_the_same_below_a_listed_directory_and_from_the_root() {
        let (dir, tree) = tree("listed");
        fs::create_dir_all(dir.join("sys/b/deep")).unwrap();
        fs::write(dir.join("sys/b/deep/value"), "deep\n").unwrap();
        symlink("/sys/b/deep", dir.join("sys/a/absolute")).unwrap();
        symlink("../b/deep", dir.join("sys/a/near")).unwrap();
        symlink("../b/deep/value", dir.join("sys/a/file")).unwrap();
        symlink("../../../../../etc/passwd", dir.join("sys/a/climbing")).unwrap();
        assert_eq!(tree.list("sys/a").unwrap().len(), 5);
        for path in
            ["sys/a/absolute/value", "sys/a/near/value", "sys/a/file", "sys/a/../b/deep/value"]
        {
            assert_eq!(tree.read(path, 100).unwrap(), b"deep\n", "{path}");
        }
        assert_eq!(tree.read("sys/a/value", 100).unwrap(), b"inside\n");
        let error = tree.read("sys/a/climbing", 100).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert_eq!(tree.link("sys/a/near").unwrap(), "../b/deep");
        let error = tree.link("sys/a/value").unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::EINVAL as i32));
        for path in ["sys/a/near", "sys/a/absolute"] {
            tree.list("sys/a").unwrap();
            assert_eq!(tree.list(path).unwrap(), ["value"], "{path}");
        }
        // A directory of the same path in another tree is not used for this one.
        let (other_dir, other) = self::tree("listed-other");
        tree.list("sys/a").unwrap();
        assert_eq!(other.read("sys/a/file", 100).unwrap_err().kind(), io::ErrorKind::NotFound);
        fs::remove_dir_all(dir).unwrap();
        fs::remove_dir_all(other_dir).unwrap();
    }

    #[test]
    fn fifo_or_a_directory_in_place_of_a_file_does_not_hang() {
        let (dir, tree) = tree("fifo");
        nix::unistd::mkfifo(&dir.join("sys/fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(tree.read("sys/fifo", 100).is_err());
        assert_eq!(tree.read("sys/a", 100).unwrap_err().raw_os_error(), Some(Errno::EISDIR as i32));
        assert!(tree.read("sys/a/value", 3).unwrap_err().to_string().contains("more than 3 bytes"));
        fs::remove_dir_all(dir).unwrap();
    }
}
