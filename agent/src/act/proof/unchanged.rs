//! The files of the boot file system that coreos-installer leaves alone, compared with the image block by block.
//!
//! A file that nobody writes keeps its blocks, so the blocks of its content have the digests that the image has at the same
//! places. The tables of the file system change when it is mounted; they are only read to find the blocks. Files may have
//! holes, as `mke2fs -d` makes them, so a block that is missing is no difference.

use std::ops::Range;

use formats::ext4::{self, Branch, INODE_BYTES, Inode, Kind, Layout, ROOT_INODE};

use super::disk::{ReadAt as _, Window};
use crate::act::Order;
use crate::act::stream_facts::{BOOT_BLOCK_BYTES, BootBlocks, boot_digest};

/// The most files and directories that are compared. A directory that contains itself ends here, too.
const MAX_FILES: usize = 20_000;
/// The most nodes of one extent tree.
const MAX_NODES: usize = 10_000;
/// The most differences that are named.
const MAX_NAMED: usize = 8;

/// The comparison.
struct Files<'a> {
    window: Window,
    layout: Layout,
    image: &'a BootBlocks,
}

/// Compares every file and directory, except for what the writer changes by this order. `None` if it is no ext4, or one
/// that is not supported.
///
/// # Errors
/// A message with the files that differ, or what is damaged.
pub(super) fn check(
    mut window: Window,
    image: &BootBlocks,
    order: &Order,
) -> Option<Result<String, String>> {
    let superblock = window.bytes_at(ext4::SUPERBLOCK_AT, ext4::SUPERBLOCK_BYTES).ok()?;
    let layout = Layout::parse(&superblock)?;
    Some(Files { window, layout, image }.check(order))
}

impl Files<'_> {
    fn check(mut self, order: &Order) -> Result<String, String> {
        let (mut wrong, mut n_files) = (Vec::new(), 0);
        let mut queue = vec![(ROOT_INODE, String::new())];
        while let Some((number, path)) = queue.pop() {
            n_files += 1;
            if n_files + queue.len() > MAX_FILES {
                return Err(format!("more than {MAX_FILES} boot files"));
            }
            let file = self.file(number).map_err(|why| format!("boot file {path}: {why}"));
            let (names, is_equal) = file?;
            let names = names.into_iter();
            queue.extend(names.map(|(number, name)| (number, format!("{path}/{name}"))));
            if !is_equal && !is_written(&path, order) {
                wrong.push(path);
            }
        }
        if wrong.is_empty() {
            return Ok(format!("{n_files} boot files compared"));
        }
        let n_wrong = wrong.len();
        wrong.sort();
        wrong.truncate(MAX_NAMED);
        Err(format!("{n_wrong} boot files differ from the image: {}", wrong.join(", ")))
    }

    /// Returns the names in a directory, and whether all blocks of the content are those of the image.
    fn file(&mut self, number: u32) -> Result<(Vec<(u32, String)>, bool), String> {
        let inode = self.inode(number)?;
        let (mut names, mut is_equal) = (Vec::new(), true);
        if inode.kind == Kind::Other {
            return Ok((names, is_equal));
        }
        let small_blocks = self.layout.block_bytes / BOOT_BLOCK_BYTES;
        for number in self.parts(&inode)?.into_iter().flatten() {
            let block = self.block(number)?;
            let first = usize::try_from(number).unwrap_or(usize::MAX).saturating_mul(small_blocks);
            let image = self.image.digests.iter().skip(first);
            let found = block.chunks(BOOT_BLOCK_BYTES).map(boot_digest);
            is_equal &= image.take(small_blocks).copied().eq(found);
            if inode.kind == Kind::Directory {
                names.extend(ext4::names(&block));
            }
        }
        Ok((names, is_equal))
    }

    fn inode(&mut self, number: u32) -> Result<Inode, String> {
        let missing = || format!("there is no inode {number}");
        let at = self.layout.descriptor_at(number).ok_or_else(missing)?;
        let descriptor = self.window.bytes_at(at, self.layout.descriptor_bytes)?;
        let at = self.layout.inode_at(number, &descriptor).ok_or_else(missing)?;
        Inode::parse(&self.window.bytes_at(at, INODE_BYTES)?).ok_or_else(missing)
    }

    /// The numbers of the blocks of the file's content, part by part.
    fn parts(&mut self, inode: &Inode) -> Result<Vec<Range<u64>>, String> {
        let mut node = inode.root.clone().ok_or("its blocks are not listed in an extent tree")?;
        let (mut found, mut nodes) = (Vec::new(), Vec::new());
        for _ in 0..MAX_NODES {
            for branch in ext4::branches(&node).ok_or("its extent tree is damaged")? {
                match branch {
                    Branch::Content(blocks) => found.push(blocks),
                    Branch::Node(block) => nodes.push(block),
                }
            }
            let Some(block) = nodes.pop() else { return Ok(found) };
            node = self.block(block)?;
        }
        Err("its extent tree has no end".into())
    }

    fn block(&mut self, number: u64) -> Result<Vec<u8>, String> {
        let n_bytes = self.layout.block_bytes;
        self.window.bytes_at(number.saturating_mul(n_bytes as u64), n_bytes)
    }
}

/// True if coreos-installer may write this file, or the directory that contains it: the Ignition config, the stamp, network
/// profiles (appended to the initramfs since 0.27), the options of an entry, and the console settings of GRUB.
fn is_written(path: &str, order: &Order) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let has_console = !order.console.is_empty() || order.platform.is_some();
    let has_options =
        has_console || !order.append_kargs.is_empty() || !order.delete_kargs.is_empty();
    let is_entry = path.starts_with("/loader") && path.contains("/entries/");
    match path {
        "" | "/ignition" | "/ignition/config.ign" | "/ignition.firstboot" => true,
        "/grub2/grub.cfg" | "/grub2/console.cfg" => has_console,
        _ if path.starts_with("/coreos-firstboot-network") => order.copy_network,
        _ if is_entry => has_options,
        // `zipl` writes its map, and on a secure host a new image.
        _ if cfg!(target_arch = "s390x") => ["bootmap", "sdboot"].contains(&name),
        _ => order.copy_network && name.starts_with("initramfs"),
    }
}
