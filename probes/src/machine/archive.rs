//! A captured tree in a `tar` or `tar.zst` file, unpacked in memory.
//!
//! No error text of the libraries leaves this file: the error is always that the archive is cut short or damaged.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use nix::errno::Errno;

/// Largest tree that is unpacked; the largest captured machine has about 40 MiB.
const LIMIT_BYTES: u64 = 512 << 20;
/// Largest number of files, directories and links, including those that only the paths of others contain: each
/// directory costs most of a kilobyte, and one path of an archive can name a hundred.
const LIMIT_ENTRIES: usize = 300_000;
/// Nesting of folders; sysfs has at most about thirty levels.
const LIMIT_DEPTH: usize = 200;
/// Longest path and longest target of a link, as in the kernel (`PATH_MAX`).
const LIMIT_PATH_BYTES: usize = 4096;
/// Most symbolic links that are followed in one path, as in the kernel (`MAXSYMLINKS`).
const LIMIT_LINKS: usize = 40;

/// A tar archive is a sequence of blocks and ends with two blocks of zeros (POSIX.1-2001, `pax`).
const TAR_BLOCK_BYTES: usize = 512;
/// Offset of `ustar` in the first block of a tar archive.
const TAR_MAGIC_OFFSET: usize = 257;
/// The first bytes of a zstd frame (RFC 8878 §3.1.1).
const ZSTD_MAGIC: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// A captured tree in memory.
///
/// It can be changed before a replay: tests turn one machine into thousands of damaged ones.
#[derive(Debug, Clone, Default)]
pub struct Archive {
    top: Folder,
}

type Folder = BTreeMap<Box<str>, Entry>;

/// A file or link; a folder if there is no node.
#[derive(Debug, Clone, Default)]
struct Entry {
    node: Option<Node>,
    inner: Folder,
}

/// The entry at a path of an archive, other than a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    /// A file and its content.
    File(Arc<[u8]>),
    /// A symbolic link and its target.
    Link(String),
    /// An entry that cannot be read, listed or followed, with its `errno`.
    Error(i32),
}

impl Archive {
    /// Unpacks the `tar` or `tar.zst` file at `path`.
    ///
    /// # Errors
    /// If it cannot be read, is damaged, or is larger than any captured machine.
    pub fn open(path: &Path) -> io::Result<Archive> {
        Archive::unpack(BufReader::new(File::open(path)?))
    }

    /// Unpacks a `tar` or `tar.zst` file.
    ///
    /// # Errors
    /// As [`Archive::open`].
    pub fn unpack(mut packed: impl Read) -> io::Result<Archive> {
        let mut head = Vec::new();
        packed.by_ref().take(TAR_BLOCK_BYTES as u64).read_to_end(&mut head)?;
        let whole = head.as_slice().chain(packed);
        if head.is_empty() {
            return Err(io::Error::other("the file is empty"));
        }
        if head.starts_with(ZSTD_MAGIC) {
            let mut plain =
                ruzstd::decoding::StreamingDecoder::new(whole).map_err(|_| damaged())?;
            let archive = Archive::unpack_tar(&mut plain)?;
            // RFC 8878 §3.1.1: an optional checksum follows the last block.
            let expected = plain.decoder.get_checksum_from_data();
            if expected.is_some() && expected != plain.decoder.get_calculated_checksum() {
                return Err(damaged());
            }
            return match plain.get_mut().read(&mut [0])? {
                0 => Ok(archive),
                _ => Err(more_follows()),
            };
        }
        match head.get(TAR_MAGIC_OFFSET..) {
            Some(rest) if rest.starts_with(b"ustar") => Archive::unpack_tar(whole),
            _ if head.starts_with(b"\x1f\x8b") => {
                Err(io::Error::other("the file is compressed with gzip; unpack it first"))
            }
            _ => Err(io::Error::other("the file is not an archive")),
        }
    }

    /// All files and links with their paths.
    pub fn nodes(&self) -> impl Iterator<Item = (String, &Node)> {
        let nodes = self.entries().into_iter();
        nodes.filter_map(|(path, entry)| Some((path, entry.node.as_ref()?)))
    }

    /// The paths of all directories below the root, each before the directories in it.
    pub fn directories(&self) -> impl Iterator<Item = String> {
        let folders = self.entries().into_iter();
        folders.filter_map(|(path, entry)| entry.node.is_none().then_some(path))
    }

    /// The file or link at `path`; links on the way are not followed.
    pub fn get(&self, path: &str) -> Option<&Node> {
        let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
        let mut parts = folders.split('/').filter(|part| !part.is_empty());
        let folder = parts.try_fold(&self.top, |folder, part| Some(&folder.get(part)?.inner));
        folder?.get(name)?.node.as_ref()
    }

    /// Replaces the entry at `path`, with everything below it, by `node`, or by an empty directory for `None`.
    pub fn set(&mut self, path: &str, node: Option<Node>) {
        self.remove(path);
        let _ = self.add(&clean(path), node);
    }

    /// Removes the entry at `path`, with everything below it.
    pub fn remove(&mut self, path: &str) {
        let path = clean(path);
        let (folders, name) = path.rsplit_once('/').unwrap_or(("", &path));
        let mut folder = &mut self.top;
        for part in folders.split('/').filter(|part| !part.is_empty()) {
            let Some(entry) = folder.get_mut(part) else { return };
            folder = &mut entry.inner;
        }
        folder.remove(name);
    }

    /// All entries with their paths, each folder before its content.
    fn entries(&self) -> Vec<(String, &Entry)> {
        fn walk<'a>(folder: &'a Folder, path: &str, all: &mut Vec<(String, &'a Entry)>) {
            for (name, entry) in folder {
                let inner =
                    if path.is_empty() { name.to_string() } else { format!("{path}/{name}") };
                all.push((inner.clone(), entry));
                walk(&entry.inner, &inner, all);
            }
        }
        let mut all = Vec::new();
        walk(&self.top, "", &mut all);
        all
    }

    fn unpack_tar(tar: impl Read) -> io::Result<Archive> {
        let mut archive = Archive::default();
        let mut end = End::default();
        let unpacked = archive
            .add_all(EndReader { inner: tar.take(LIMIT_BYTES), end: &mut end }, LIMIT_ENTRIES);
        if end.n_bytes >= LIMIT_BYTES {
            return Err(too_many_bytes());
        }
        // The tar crate accepts an archive that ends between two files, and zeros may be the content of the last one.
        let n_after = end.n_bytes.saturating_sub(unpacked?);
        if n_after < TAR_BLOCK_BYTES as u64 {
            return Err(damaged());
        }
        if (end.n_zeros as u64) < n_after {
            return Err(more_follows());
        }
        archive.strip_single_folder();
        Ok(archive)
    }

    /// Adds the archive's entries, reads the rest, and returns the offset at which the last entry ends.
    fn add_all(&mut self, tar: impl Read, limit_entries: usize) -> io::Result<u64> {
        let mut packed = tar::Archive::new(tar);
        let (mut n_entries, mut n_created, mut end_bytes) = (0, 0, 0);
        for entry in packed.entries().map_err(|_| damaged())? {
            let mut entry = entry.map_err(|_| damaged())?;
            n_entries += 1;
            if n_entries.max(n_created) > limit_entries {
                return Err(io::Error::other(format!(
                    "more than {limit_entries} files and folders"
                )));
            }
            if entry.size() > LIMIT_BYTES {
                return Err(too_many_bytes());
            }
            let n_bytes = entry.size().next_multiple_of(TAR_BLOCK_BYTES as u64);
            end_bytes = entry.raw_file_position().saturating_add(n_bytes);
            let target = entry.link_name_bytes().unwrap_or_default();
            if entry.path_bytes().len().max(target.len()) > LIMIT_PATH_BYTES {
                let found = format!("a path of more than {LIMIT_PATH_BYTES} bytes");
                return Err(io::Error::other(found));
            }
            let name = clean(&super::escape_non_utf8(&entry.path_bytes()));
            if name.split('/').count() > LIMIT_DEPTH {
                return Err(io::Error::other(format!("more than {LIMIT_DEPTH} folders deep")));
            }
            let kind = entry.header().entry_type();
            let node = if kind.is_symlink() {
                Some(Node::Link(super::escape_non_utf8(&target)))
            } else if kind.is_file() {
                let mut content = Vec::new();
                entry.read_to_end(&mut content).map_err(|_| damaged())?;
                Some(Node::File(content.into()))
            } else if kind.is_dir() {
                None
            } else {
                continue;
            };
            n_created += self.add(&name, node);
        }
        io::copy(&mut packed.into_inner(), &mut io::sink()).map_err(|_| damaged())?;
        Ok(end_bytes)
    }

    /// Adds a file, a link or (without `node`) a directory, and the directories above it, which replace
    /// files of the same path. Returns how many entries are new.
    fn add(&mut self, name: &str, node: Option<Node>) -> usize {
        let (folders, name) = name.rsplit_once('/').unwrap_or(("", name));
        let mut folder = &mut self.top;
        let mut n_new = 0;
        for part in folders.split('/').filter(|part| !part.is_empty()) {
            n_new += usize::from(!folder.contains_key(part));
            folder = folder_in(folder, part);
        }
        if name.is_empty() {
            return n_new;
        }
        n_new += usize::from(!folder.contains_key(name));
        match node {
            Some(node) => {
                let inner = Folder::new();
                folder.insert(name.into(), Entry { node: Some(node), inner });
            }
            None => drop(folder_in(folder, name)),
        }
        n_new
    }

    /// A tree that was packed as one folder (`root/sys/…`) is read from inside that folder.
    fn strip_single_folder(&mut self) {
        let mut top = self.top.iter_mut();
        let (Some((name, only)), None) = (top.next(), top.next()) else { return };
        if only.node.is_none() && !["sys", "proc", "kernel", "run", "etc"].contains(&&**name) {
            self.top = std::mem::take(&mut only.inner);
        }
    }

    pub(super) fn read(&self, path: &str, limit_bytes: usize) -> io::Result<Vec<u8>> {
        match self.find(path, true)? {
            Found::Node(Node::File(content)) if content.len() > limit_bytes => {
                Err(super::too_large(limit_bytes))
            }
            Found::Node(Node::File(content)) => Ok(content.to_vec()),
            Found::Node(Node::Error(code)) => Err(io::Error::from_raw_os_error(*code)),
            Found::Node(Node::Link(_)) => Err(Errno::ELOOP.into()),
            Found::Folder(_) => Err(Errno::EISDIR.into()),
        }
    }

    pub(super) fn list(&self, path: &str) -> io::Result<Vec<String>> {
        match self.find(path, true)? {
            Found::Folder(folder) => Ok(folder.keys().map(ToString::to_string).collect()),
            Found::Node(Node::Error(code)) => Err(io::Error::from_raw_os_error(*code)),
            Found::Node(_) => Err(Errno::ENOTDIR.into()),
        }
    }

    pub(super) fn link(&self, path: &str) -> io::Result<String> {
        match self.find(path, false)? {
            Found::Node(Node::Link(target)) => Ok(target.clone()),
            Found::Node(_) | Found::Folder(_) => Err(Errno::EINVAL.into()),
        }
    }

    /// Follows `path` and the links in it, all inside the tree; with `last` also a link in the last part.
    fn find<'a>(&'a self, path: &'a str, last: bool) -> io::Result<Found<'a>> {
        let mut todo: Vec<&str> = path.split('/').rev().collect();
        let mut above = Vec::new();
        let mut folder = &self.top;
        let mut n_links = 0;
        while let Some(part) = todo.pop() {
            match part {
                "" | "." => continue,
                ".." => {
                    folder = above.pop().unwrap_or(folder);
                    continue;
                }
                _ => {}
            }
            let entry = folder.get(part).ok_or(Errno::ENOENT)?;
            let Some(node) = &entry.node else {
                above.push(std::mem::replace(&mut folder, &entry.inner));
                continue;
            };
            let is_last = todo.iter().all(|part| part.is_empty());
            match node {
                Node::Link(target) if last || !is_last => {
                    n_links += 1;
                    if n_links > LIMIT_LINKS {
                        return Err(Errno::ELOOP.into());
                    }
                    if target.starts_with('/') {
                        above.clear();
                        folder = &self.top;
                    }
                    todo.extend(target.split('/').rev());
                }
                node if is_last => return Ok(Found::Node(node)),
                Node::Error(code) => return Err(io::Error::from_raw_os_error(*code)),
                Node::File(_) | Node::Link(_) => return Err(Errno::ENOTDIR.into()),
            }
        }
        Ok(Found::Folder(folder))
    }
}

fn too_many_bytes() -> io::Error {
    io::Error::other(format!("the tree has more than {LIMIT_BYTES} bytes"))
}

fn more_follows() -> io::Error {
    io::Error::other("more data follow its end; they would not be read")
}

fn damaged() -> io::Error {
    io::Error::other("the archive is cut short or damaged")
}

/// Number of bytes read from an archive, and of zero bytes at its end.
#[derive(Debug, Default)]
struct End {
    n_bytes: u64,
    n_zeros: usize,
}

/// Watches where an archive ends.
struct EndReader<'a, R> {
    inner: R,
    end: &'a mut End,
}

impl<R: Read> Read for EndReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer)?;
        let new = &buffer[..n];
        self.end.n_bytes += n as u64;
        match new.iter().rev().position(|byte| *byte != 0) {
            Some(n_zeros) => self.end.n_zeros = n_zeros,
            None => self.end.n_zeros = self.end.n_zeros.saturating_add(n),
        }
        Ok(n)
    }
}

/// Target of a path.
enum Found<'a> {
    Folder(&'a Folder),
    Node(&'a Node),
}

/// The folder `name` in `folder`, created if there is none.
fn folder_in<'a>(folder: &'a mut Folder, name: &str) -> &'a mut Folder {
    let entry = folder.entry(name.into()).or_default();
    entry.node = None;
    &mut entry.inner
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
    fn tree_packed_in_one_folder_is_read_from_inside_it() {
        let mut tree = archive(&[], &[("root/sys/a", "1"), ("root/proc/b", "2")]);
        tree.strip_single_folder();
        assert_eq!(tree.read("sys/a", 10).unwrap(), b"1");
        assert_eq!(tree.list("").unwrap(), ["proc", "sys"]);
    }

    #[test]
    fn changed_tree_reads_like_the_changed_machine() {
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
    fn paths_and_links_beyond_the_kernels_limits_are_refused() {
        let unpacked = |path: &str, target: &str| {
            let mut tar = tar::Builder::new(Vec::new());
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(tar::EntryType::Symlink);
            header.set_size(0);
            tar.append_link(&mut header, path, target).unwrap();
            Archive::unpack_tar(tar.into_inner().unwrap().as_slice())
        };
        let (short, long) = ("a".repeat(4096), "a".repeat(4097));
        assert_eq!(unpacked("sys/x", &short).unwrap().link("sys/x").unwrap(), short);
        let refused = |path: &str, target: &str| unpacked(path, target).unwrap_err().to_string();
        let found = [refused("sys/x", &long), refused(&long, "x"), refused(&"a/".repeat(300), "x")];
        let path = "a path of more than 4096 bytes";
        assert_eq!(found, [path, path, "more than 200 folders deep"]);
    }

    #[test]
    fn folders_that_only_paths_name_count_as_entries() {
        let mut tar = tar::Builder::new(Vec::new());
        for n in 0..10 {
            let mut header = tar::Header::new_gnu();
            header.set_size(0);
            let path = format!("{n}/{}x", "a/".repeat(99));
            tar.append_data(&mut header, path, &[][..]).unwrap();
        }
        let tar = tar.into_inner().unwrap();
        let unpacked = |limit| Archive::default().add_all(tar.as_slice(), limit);
        let error = unpacked(500).unwrap_err().to_string();
        assert_eq!(error, "more than 500 files and folders");
        unpacked(1010).unwrap();
    }

    /// Two files, the last one full of zeros, and the end of an archive.
    fn packed() -> Vec<u8> {
        let mut packed = tar::Builder::new(Vec::new());
        for (path, content) in [("proc/version", &b"Linux"[..]), ("sys/zeros", &[0; 4096])] {
            let mut header = tar::Header::new_ustar();
            header.set_size(content.len() as u64);
            packed.append_data(&mut header, path, content).unwrap();
        }
        packed.into_inner().unwrap()
    }

    #[test]
    fn archive_that_is_cut_short_or_followed_by_another_is_refused() {
        let whole = packed();
        assert_eq!(Archive::unpack(whole.as_slice()).unwrap().nodes().count(), 2);
        let refused = |bytes: &[u8]| Archive::unpack(bytes).unwrap_err().to_string();
        for n_bytes in (512..whole.len() - 1024).step_by(512) {
            let found = refused(&whole[..n_bytes]);
            assert_eq!(found, "the archive is cut short or damaged", "{n_bytes} bytes");
        }
        assert!(refused(&[whole.clone(), whole.clone()].concat()).contains("more data follow"));
        let level = ruzstd::encoding::CompressionLevel::Fastest;
        let small = ruzstd::encoding::compress_to_vec(whole.as_slice(), level);
        assert_eq!(Archive::unpack(small.as_slice()).unwrap().nodes().count(), 2);
        assert!(refused(&[small.clone(), small].concat()).contains("more data follow"));
    }

    #[test]
    fn bit_that_changed_in_a_compressed_archive_is_found_by_its_checksum() {
        let level = ruzstd::encoding::CompressionLevel::Uncompressed;
        let whole = ruzstd::encoding::compress_to_vec(packed().as_slice(), level);
        let at = whole.windows(5).position(|bytes| bytes == b"Linux").unwrap();
        let mut changed = whole.clone();
        changed[at] ^= 1;
        assert!(Archive::unpack(whole.as_slice()).is_ok());
        let error = Archive::unpack(changed.as_slice()).unwrap_err().to_string();
        assert_eq!(error, "the archive is cut short or damaged");
    }

    #[test]
    fn file_that_claims_to_be_larger_than_any_machine_is_refused_before_it_is_read() {
        let mut header = tar::Header::new_gnu();
        header.set_path("proc/cpuinfo").unwrap();
        header.set_size(8 << 30);
        header.set_cksum();
        let endless = header.as_bytes().chain(io::repeat(0).take(1 << 20));
        let error = Archive::unpack(endless).unwrap_err().to_string();
        assert!(error.contains("the tree has more than"), "{error}");
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
