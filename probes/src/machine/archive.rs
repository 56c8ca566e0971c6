//! Reads of a captured tree in a `tar.zst` file, unpacked in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use nix::errno::Errno;

/// Largest tree that is unpacked; the largest captured machine has about 40 MiB.
const LIMIT_BYTES: u64 = 512 << 20;
/// Largest number of files, directories and links.
const LIMIT_ENTRIES: usize = 1_000_000;
/// As many symbolic links are followed in one path as the kernel follows (`MAXSYMLINKS`).
const LIMIT_LINKS: usize = 40;

/// A captured tree in memory, by path relative to its root.
///
/// It can be changed before it is replayed: so tests make thousands of damaged machines of one.
#[derive(Debug, Clone, Default)]
pub struct Archive {
    nodes: BTreeMap<String, Node>,
    children: BTreeMap<String, BTreeSet<String>>,
}

/// What stands at a path of an archive, other than a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    /// A file and its content.
    File(Arc<[u8]>),
    /// A symbolic link and its target.
    Link(String),
    /// What cannot be read, listed or followed, with the `errno` that says why.
    Error(i32),
}

impl Archive {
    /// Unpacks the `tar.zst` file at `path`.
    ///
    /// # Errors
    /// If it cannot be read, is damaged, or is larger than any captured machine.
    pub fn open(path: &Path) -> io::Result<Archive> {
        Archive::unpack(BufReader::new(File::open(path)?))
    }

    /// Unpacks a `tar.zst` file.
    ///
    /// # Errors
    /// As [`Archive::open`].
    pub fn unpack(packed: impl Read) -> io::Result<Archive> {
        let plain = ruzstd::decoding::StreamingDecoder::new(packed).map_err(|error| {
            io::Error::other(format!("neither a directory nor a tar.zst file: {error}"))
        })?;
        Archive::unpack_tar(plain)
    }

    /// All files and links, sorted by path.
    pub fn nodes(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.nodes.iter().map(|(path, node)| (path.as_str(), node))
    }

    /// The file or link at `path`; links on the way are not followed.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<&Node> {
        self.nodes.get(path)
    }

    /// The paths of all directories, sorted; the root's path is empty.
    pub fn directories(&self) -> impl Iterator<Item = &str> {
        self.children.keys().map(String::as_str)
    }

    /// Puts a node at `path`, or an empty directory where there is `None`, in place of what stood
    /// there with all below it.
    pub fn set(&mut self, path: &str, node: Option<Node>) {
        self.remove(path);
        self.add(&clean(path), node);
    }

    /// Removes what stands at `path`, with all below it.
    pub fn remove(&mut self, path: &str) {
        let path = clean(path);
        let below = format!("{path}/");
        // `0` follows `/` in ASCII, so this is the range of all paths below.
        let range = below.clone()..format!("{path}0");
        let inner: Vec<String> = self.nodes.range(range.clone()).map(|(p, _)| p.clone()).collect();
        for path in inner {
            self.nodes.remove(&path);
        }
        let inner: Vec<String> = self.children.range(range).map(|(p, _)| p.clone()).collect();
        for path in inner {
            self.children.remove(&path);
        }
        self.nodes.remove(&path);
        self.children.remove(&path);
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", &path));
        if let Some(names) = self.children.get_mut(parent) {
            names.remove(name);
        }
    }

    fn unpack_tar(tar: impl Read) -> io::Result<Archive> {
        let mut archive = Archive::default();
        let mut packed = tar::Archive::new(tar.take(LIMIT_BYTES));
        let mut n_entries = 0;
        for entry in packed.entries()? {
            let mut entry = entry?;
            n_entries += 1;
            if n_entries > LIMIT_ENTRIES {
                return Err(io::Error::other(format!("more than {LIMIT_ENTRIES} files")));
            }
            let name = clean(&super::escape_non_utf8(&entry.path_bytes()));
            let kind = entry.header().entry_type();
            if kind.is_symlink() {
                let target = entry.link_name_bytes().unwrap_or_default();
                archive.add(&name, Some(Node::Link(super::escape_non_utf8(&target))));
            } else if kind.is_file() {
                let mut content = Vec::new();
                entry.read_to_end(&mut content)?;
                archive.add(&name, Some(Node::File(content.into())));
            } else if kind.is_dir() {
                archive.add(&name, None);
            }
        }
        archive.strip_single_folder();
        Ok(archive)
    }

    /// Adds a file, a link or (without `node`) a directory, and the directories above it.
    fn add(&mut self, name: &str, node: Option<Node>) {
        match node {
            Some(node) => drop(self.nodes.insert(name.to_owned(), node)),
            None => drop(self.children.entry(name.to_owned()).or_default()),
        }
        let mut below = name;
        while let Some((parent, child)) = below.rsplit_once('/').or_else(|| top_level(below)) {
            if !self.children.entry(parent.to_owned()).or_default().insert(child.to_owned()) {
                break;
            }
            below = parent;
        }
    }

    /// A tree that was packed as one folder (`root/sys/…`) is read from inside that folder.
    fn strip_single_folder(&mut self) {
        let top = self.children.get("").cloned().unwrap_or_default();
        let Some(only) = top.first().filter(|_| top.len() == 1) else { return };
        if ["sys", "proc", "kernel", "run", "etc"].contains(&only.as_str()) {
            return;
        }
        let prefix = format!("{only}/");
        let nodes = std::mem::take(&mut self.nodes);
        let directories = std::mem::take(&mut self.children);
        for (name, node) in nodes {
            if let Some(inner) = name.strip_prefix(&prefix) {
                self.add(inner, Some(node));
            }
        }
        for inner in directories.keys().filter_map(|name| name.strip_prefix(&prefix)) {
            self.add(inner, None);
        }
    }

    pub(super) fn read(&self, path: &str, limit_bytes: usize) -> io::Result<Vec<u8>> {
        let path = self.resolve(path, true)?;
        match self.nodes.get(&path) {
            Some(Node::File(content)) if content.len() > limit_bytes => {
                Err(super::too_large(limit_bytes))
            }
            Some(Node::File(content)) => Ok(content.to_vec()),
            Some(Node::Error(code)) => Err(io::Error::from_raw_os_error(*code)),
            Some(Node::Link(_)) => Err(Errno::ELOOP.into()),
            None if self.children.contains_key(&path) => Err(Errno::EISDIR.into()),
            None => Err(Errno::ENOENT.into()),
        }
    }

    pub(super) fn list(&self, path: &str) -> io::Result<Vec<String>> {
        let path = self.resolve(path, true)?;
        if let Some(Node::Error(code)) = self.nodes.get(&path) {
            return Err(io::Error::from_raw_os_error(*code));
        }
        match self.children.get(&path) {
            Some(names) if !self.nodes.contains_key(&path) => Ok(names.iter().cloned().collect()),
            _ if self.nodes.contains_key(&path) => Err(Errno::ENOTDIR.into()),
            _ => Err(Errno::ENOENT.into()),
        }
    }

    pub(super) fn link(&self, path: &str) -> io::Result<String> {
        let path = self.resolve(path, false)?;
        match self.nodes.get(&path) {
            Some(Node::Link(target)) => Ok(target.clone()),
            Some(Node::File(_) | Node::Error(_)) => Err(Errno::EINVAL.into()),
            None if self.children.contains_key(&path) => Err(Errno::EINVAL.into()),
            None => Err(Errno::ENOENT.into()),
        }
    }

    /// Follows the links in `path`, all inside the tree; with `last` also the last component's.
    fn resolve(&self, path: &str, last: bool) -> io::Result<String> {
        let mut todo: Vec<String> = path.split('/').rev().map(str::to_owned).collect();
        let mut done: Vec<String> = Vec::new();
        let mut n_links = 0;
        while let Some(part) = todo.pop() {
            match part.as_str() {
                "" | "." => continue,
                ".." => {
                    done.pop();
                    continue;
                }
                _ => done.push(part),
            }
            let here = done.join("/");
            let is_last = todo.iter().all(String::is_empty);
            let target = match self.nodes.get(&here) {
                Some(Node::Link(target)) => target,
                Some(Node::Error(code)) if !is_last => {
                    return Err(io::Error::from_raw_os_error(*code));
                }
                _ => continue,
            };
            if is_last && !last {
                break;
            }
            n_links += 1;
            if n_links > LIMIT_LINKS {
                return Err(Errno::ELOOP.into());
            }
            done.pop();
            if target.starts_with('/') {
                done.clear();
            }
            todo.extend(target.split('/').rev().map(str::to_owned));
        }
        Ok(done.join("/"))
    }
}

fn top_level(name: &str) -> Option<(&str, &str)> {
    (!name.is_empty()).then_some(("", name))
}

/// The name of an entry without `./`, `..` and leading slashes.
fn clean(name: &str) -> String {
    let parts = name.split('/').filter(|part| !matches!(*part, "" | "." | ".."));
    parts.collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(links: &[(&str, &str)], files: &[(&str, &str)]) -> Archive {
        let mut archive = Archive::default();
        for (name, target) in links {
            archive.add(name, Some(Node::Link((*target).to_owned())));
        }
        for (name, content) in files {
            archive.add(name, Some(Node::File(content.as_bytes().into())));
        }
        archive
    }

    #[test]
    fn links_are_followed_inside_the_tree_only() {
        let tree = archive(
            &[
                ("sys/class/net/eno1", "../../devices/eno1"),
                ("sys/up", "../../../../sys/devices/eno1/mtu"),
                ("sys/loop", "loop"),
                ("sys/host", "/etc/passwd"),
            ],
            &[("sys/devices/eno1/mtu", "1500\n")],
        );
        assert_eq!(tree.read("sys/class/net/eno1/mtu", 10).unwrap(), b"1500\n");
        assert_eq!(tree.read("sys/up", 10).unwrap(), b"1500\n");
        assert_eq!(tree.list("sys/class/net/eno1").unwrap(), ["mtu"]);
        assert_eq!(tree.link("sys/class/net/eno1").unwrap(), "../../devices/eno1");
        assert_eq!(
            tree.read("sys/loop", 10).unwrap_err().raw_os_error(),
            Some(Errno::ELOOP as i32)
        );
        assert_eq!(tree.read("sys/host", 10).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_tree_packed_in_one_folder_is_read_from_inside_it() {
        let mut tree = archive(&[], &[("root/sys/a", "1"), ("root/proc/b", "2")]);
        tree.strip_single_folder();
        assert_eq!(tree.read("sys/a", 10).unwrap(), b"1");
        assert_eq!(tree.list("").unwrap(), ["proc", "sys"]);
    }

    #[test]
    fn a_changed_tree_reads_as_the_changed_machine_would() {
        let files = [("sys/a/x", "1"), ("sys/a/y", "2"), ("sys/ab", "3"), ("sys/c/z", "4")];
        let mut tree = archive(&[("sys/l", "a")], &files);
        let whole = tree.clone();
        tree.set("sys/a", Some(Node::Error(Errno::EACCES as i32)));
        for error in [tree.read("sys/a/x", 9).unwrap_err(), tree.list("sys/l").unwrap_err()] {
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        }
        assert_eq!(tree.read("sys/ab", 9).unwrap(), b"3");
        tree.set("sys/ab", None);
        assert_eq!(tree.read("sys/ab", 9).unwrap_err().raw_os_error(), Some(Errno::EISDIR as i32));
        tree.remove("sys/c");
        assert_eq!(tree.list("sys").unwrap(), ["a", "ab", "l"]);
        assert_eq!(whole.read("sys/l/y", 9).unwrap(), b"2");
    }

    #[test]
    fn damaged_archives_are_refused_without_panic() {
        for bytes in [&b""[..], b"not an archive", &[0x28, 0xb5, 0x2f, 0xfd, 1, 2, 3]] {
            let path = std::env::temp_dir().join(format!("rci-damaged-{}", std::process::id()));
            std::fs::write(&path, bytes).unwrap();
            assert!(Archive::open(&path).is_err());
            std::fs::remove_file(path).unwrap();
        }
    }
}
