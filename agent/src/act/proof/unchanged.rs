//! The files of the boot file system, compared with the image's.
//!
//! The tables of a file system change when it is mounted, and coreos-installer changes a few files. So the image's files
//! are found by what was kept of its tables, and each is looked up on the disk by its name. Content is compared by digests.
//! Files may have holes, as `mke2fs -d` makes them: they count as zeros.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use formats::ext4::{self, Branch, INODE_BYTES, Inode, Kind, Layout, ROOT_INODE};
use tracing::warn;

use super::disk::{ReadAt as _, Window};
use super::written::{self, Change, change};
use crate::act::Order;
use crate::act::stream_facts::{BOOT_BLOCK_BYTES, BootBlocks, boot_digest};

/// The most files and directories that are compared.
const MAX_FILES: usize = 20_000;
/// The longest path; a directory that contains itself ends here, too.
const MAX_PATH_BYTES: usize = 1024;
/// The most blocks of a directory.
const MAX_DIRECTORY_BLOCKS: usize = 1024;
/// The most nodes of one extent tree.
const MAX_NODES: usize = 10_000;
/// The largest file that is compared as text, in bytes.
const MAX_TEXT_BYTES: u64 = 64 << 10;
/// The most differences that are named.
const MAX_NAMED: usize = 8;

/// Compares every file and directory. `None` if the image's file system is not supported, so that nothing is known of it.
///
/// # Errors
/// A message with the files that differ, or what is damaged.
pub(super) fn check(
    window: &Window,
    image: &BootBlocks,
    order: &Order,
) -> Option<Result<String, String>> {
    let files = files_of(image);
    if let Err(why) = &files {
        warn!("the boot files of the image cannot be compared with the disk: {why}");
    }
    let files = files.ok()?;
    let mut on_disk = window.clone();
    match on_disk.bytes_at(ext4::SUPERBLOCK_AT, ext4::SUPERBLOCK_BYTES) {
        Ok(superblock) if Layout::parse(&superblock) == Some(image.layout) => {}
        Ok(_) => {
            return Some(Err("the boot file system has another layout than the image's".into()));
        }
        Err(why) => return Some(Err(format!("the boot file system: {why}"))),
    }
    let n_bytes = image.layout.block_bytes;
    let read = move |number: u64| on_disk.bytes_at(number.saturating_mul(n_bytes as u64), n_bytes);
    let disk = Tree { layout: image.layout, read };
    Some(Comparison { disk, image, order }.all(&files))
}

/// A file of the image.
struct File {
    path: String,
    inode: Inode,
    blocks: BTreeMap<u64, u64>,
    /// What a directory contains.
    names: BTreeMap<String, u32>,
}

/// The image's file system, as far as it was kept.
fn tree_of(image: &BootBlocks) -> Tree<impl FnMut(u64) -> Result<Vec<u8>, String>> {
    let kept = |number: u64| {
        let block = image.kept.get(&number).cloned();
        block.ok_or_else(|| format!("block {number} of the image was not kept"))
    };
    Tree { layout: image.layout, read: kept }
}

/// The files of the image, directories before what they contain.
fn files_of(image: &BootBlocks) -> Result<Vec<File>, String> {
    let mut tree = tree_of(image);
    let (mut found, mut queue) = (Vec::new(), vec![(ROOT_INODE, String::new())]);
    while let Some((number, path)) = queue.pop() {
        if path.len() > MAX_PATH_BYTES || found.len() + queue.len() > MAX_FILES {
            return Err(format!("more than {MAX_FILES} files, or paths that are too long"));
        }
        let inode = tree.inode(number)?;
        let blocks = tree.blocks(&inode)?;
        let names = tree.names(&inode, &blocks)?;
        queue.extend(names.iter().map(|(name, number)| (*number, format!("{path}/{name}"))));
        found.push(File { path, inode, blocks, names });
    }
    Ok(found)
}

/// A file system whose blocks are read by their numbers.
struct Tree<R> {
    layout: Layout,
    read: R,
}

impl<R: FnMut(u64) -> Result<Vec<u8>, String>> Tree<R> {
    fn bytes(&mut self, at: u64, n_bytes: usize) -> Result<Vec<u8>, String> {
        let n_block = self.layout.block_bytes as u64;
        let block = (self.read)(at / n_block)?;
        let start = usize::try_from(at % n_block).unwrap_or_default();
        block.get(start..start + n_bytes).map(<[u8]>::to_vec).ok_or("a table is damaged".into())
    }

    fn inode(&mut self, number: u32) -> Result<Inode, String> {
        let missing = || format!("there is no inode {number}, or it has no extents");
        let at = self.layout.descriptor_at(number).ok_or_else(missing)?;
        let descriptor = self.bytes(at, self.layout.descriptor_bytes)?;
        let at = self.layout.inode_at(number, &descriptor).ok_or_else(missing)?;
        Inode::parse(&self.bytes(at, INODE_BYTES)?).ok_or_else(missing)
    }

    /// The block of each block of a file's content.
    fn blocks(&mut self, inode: &Inode) -> Result<BTreeMap<u64, u64>, String> {
        let (mut found, mut nodes) = (BTreeMap::new(), Vec::new());
        if inode.kind == Kind::Other {
            return Ok(found);
        }
        let mut node = inode.root.clone();
        for _ in 0..MAX_NODES {
            for branch in ext4::branches(&node).ok_or("an extent tree is damaged")? {
                match branch {
                    Branch::Content(first, blocks) => found.extend((first..).zip(blocks)),
                    Branch::Node(block) => nodes.push(block),
                }
            }
            let Some(block) = nodes.pop() else { return Ok(found) };
            node = (self.read)(block)?;
        }
        Err("an extent tree has no end".into())
    }

    /// What a directory contains; nothing if it is none.
    fn names(
        &mut self,
        inode: &Inode,
        blocks: &BTreeMap<u64, u64>,
    ) -> Result<BTreeMap<String, u32>, String> {
        let mut found = BTreeMap::new();
        if inode.kind != Kind::Directory {
            return Ok(found);
        }
        if blocks.len() > MAX_DIRECTORY_BLOCKS {
            return Err(format!("a directory of {} blocks", blocks.len()));
        }
        for number in blocks.values() {
            let names = ext4::names(&(self.read)(*number)?);
            found.extend(names.into_iter().map(|(inode, name)| (name, inode)));
        }
        Ok(found)
    }

    /// The content of a small file.
    fn text(&mut self, inode: &Inode, blocks: &BTreeMap<u64, u64>) -> Result<String, String> {
        if inode.n_bytes > MAX_TEXT_BYTES {
            return Err(format!("a text of {} bytes", inode.n_bytes));
        }
        let n_bytes = usize::try_from(inode.n_bytes).unwrap_or_default();
        let mut content = vec![0; n_bytes.next_multiple_of(self.layout.block_bytes)];
        for (to, number) in content.chunks_mut(self.layout.block_bytes).zip(0..) {
            if let Some(number) = blocks.get(&number) {
                to.copy_from_slice(&(self.read)(*number)?);
            }
        }
        content.truncate(n_bytes);
        Ok(String::from_utf8_lossy(&content).into_owned())
    }
}

/// The disk, compared with the image.
struct Comparison<'a, R> {
    disk: Tree<R>,
    image: &'a BootBlocks,
    order: &'a Order,
}

impl<R: FnMut(u64) -> Result<Vec<u8>, String>> Comparison<'_, R> {
    fn all(mut self, files: &[File]) -> Result<String, String> {
        let (mut numbers, mut wrong) = (BTreeMap::from([(String::new(), ROOT_INODE)]), Vec::new());
        for file in files {
            let path = &file.path;
            let Some(number) = numbers.remove(path) else {
                wrong.push(format!("{path} is missing"));
                continue;
            };
            let of_path = |why| format!("boot file {path}: {why}");
            let found = self.disk.inode(number).map_err(of_path)?;
            let blocks = self.disk.blocks(&found).map_err(of_path)?;
            let names = self.disk.names(&found, &blocks).map_err(of_path)?;
            if !self.is_as_expected(file, &found, &blocks, &names).map_err(of_path)? {
                wrong.push(path.clone());
            }
            numbers
                .extend(names.into_iter().map(|(name, number)| (format!("{path}/{name}"), number)));
        }
        if wrong.is_empty() {
            return Ok(format!("{} boot files compared", files.len()));
        }
        let n_wrong = wrong.len();
        wrong.sort();
        wrong.truncate(MAX_NAMED);
        Err(format!("{n_wrong} boot files differ from the image: {}", wrong.join(", ")))
    }

    fn is_as_expected(
        &mut self,
        file: &File,
        found: &Inode,
        blocks: &BTreeMap<u64, u64>,
        names: &BTreeMap<String, u32>,
    ) -> Result<bool, String> {
        let change = change(&file.path, self.order);
        if change == Change::Any {
            return Ok(true);
        }
        // A file that takes the place of another one has permissions of its own.
        let has_facts = found.facts == file.inode.facts || change == Change::More;
        if found.kind != file.inode.kind || !has_facts {
            return Ok(false);
        }
        Ok(match (file.inode.kind, change) {
            (Kind::Directory, Change::More) => {
                file.names.keys().all(|name| names.contains_key(name))
            }
            (Kind::Directory, _) => file.names.keys().eq(names.keys()),
            (Kind::Other, _) => file.inode.root == found.root,
            (Kind::File, Change::Entry | Change::Console) => {
                let before = tree_of(self.image).text(&file.inode, &file.blocks)?;
                written::is_allowed(change, &before, &self.disk.text(found, blocks)?, self.order)
            }
            (Kind::File, _) => {
                let is_longer = change == Change::More && found.n_bytes > file.inode.n_bytes;
                (is_longer || found.n_bytes == file.inode.n_bytes)
                    && self.is_same(file, blocks, is_longer)?
            }
        })
    }

    /// True if the content is the image's, as far as that goes. The last small block of a file that is longer now may differ.
    fn is_same(
        &mut self,
        file: &File,
        blocks: &BTreeMap<u64, u64>,
        is_longer: bool,
    ) -> Result<bool, String> {
        let n_block = self.disk.layout.block_bytes;
        let numbers: BTreeSet<&u64> = file.blocks.keys().chain(blocks.keys()).collect();
        let zeros = boot_digest(&[0; BOOT_BLOCK_BYTES]);
        let n_small = (n_block / BOOT_BLOCK_BYTES) as u64;
        for number in numbers {
            let block =
                blocks.get(number).map_or(Ok(vec![0; n_block]), |at| (self.disk.read)(*at))?;
            let start = number.saturating_mul(n_block as u64);
            let smalls: Range<u64> = 0..n_small;
            for (part, small) in smalls.zip(block.chunks(BOOT_BLOCK_BYTES)) {
                let end = start.saturating_add((part + 1) * BOOT_BLOCK_BYTES as u64);
                if end > file.inode.n_bytes.next_multiple_of(BOOT_BLOCK_BYTES as u64) {
                    break;
                }
                let digest =
                    |at: &u64| self.image.digests.get(usize::try_from(at * n_small + part).ok()?);
                let expected = file.blocks.get(number).map_or(Some(&zeros), digest);
                let may_differ = is_longer && end > file.inode.n_bytes;
                if expected != Some(&boot_digest(small)) && !may_differ {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}
