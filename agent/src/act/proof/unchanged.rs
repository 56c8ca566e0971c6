//! The files of the boot file system that coreos-installer leaves alone, compared with the image block by block.
//!
//! A file that nobody writes keeps its blocks, so the blocks of its content have the digests that the image has at the same
//! places. The tables of the file system change when it is mounted; they are only read to find the blocks. Files may have
//! holes, as `mke2fs -d` makes them, so a block that is missing is no difference.

use std::collections::BTreeSet;

use formats::ext4::{self, Branch, INODE_BYTES, Inode, Kind, Layout, ROOT_INODE};

use super::disk::{ReadAt as _, Window};
use crate::act::Order;
use crate::act::stream_facts::{BOOT_BLOCK_BYTES, BootBlocks, boot_digest};

/// The most files and directories that are compared.
const MAX_FILES: usize = 100_000;
/// The largest directory.
const MAX_DIRECTORY_BYTES: usize = 16 << 20;
/// The most nodes of one extent tree.
const MAX_NODES: usize = 10_000;
/// The most differences that are named.
const MAX_NAMED: usize = 8;

/// The comparison.
struct Files<'a> {
    window: Window,
    layout: Layout,
    image: &'a BootBlocks,
    n_bytes: u64,
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
    Some(Files { window, layout, image, n_bytes: 0 }.check(order))
}

impl Files<'_> {
    fn check(mut self, order: &Order) -> Result<String, String> {
        let (mut wrong, mut n_files) = (Vec::new(), 0);
        let mut queue = vec![(ROOT_INODE, String::new())];
        let mut directories = BTreeSet::new();
        while let Some((number, path)) = queue.pop() {
            n_files += 1;
            if n_files + queue.len() > MAX_FILES {
                return Err(format!("more than {MAX_FILES} files"));
            }
            let in_file = |why| format!("{path}: {why}");
            let inode = self.inode(number).map_err(in_file)?;
            let is_other = inode.kind == Kind::Other || is_written(&path, order);
            if is_other && inode.kind != Kind::Directory {
                continue;
            }
            if inode.kind == Kind::Directory && !directories.insert(number) {
                return Err(format!("{path} is a directory that contains itself"));
            }
            let blocks = self.blocks(&inode).map_err(in_file)?;
            let (content, is_equal) = self.content(&inode, &blocks).map_err(in_file)?;
            if !is_equal && !is_other {
                wrong.push(if path.is_empty() { "/".to_owned() } else { path.clone() });
            }
            let block_bytes = usize::try_from(self.layout.block_bytes).unwrap_or(usize::MAX);
            for block in content.chunks(block_bytes) {
                let names = ext4::names(block).into_iter();
                queue.extend(names.map(|(number, name)| (number, format!("{path}/{name}"))));
            }
        }
        if wrong.is_empty() {
            let mib = self.n_bytes.div_ceil(1 << 20);
            return Ok(format!("{n_files} boot files, {mib} MiB as in the image"));
        }
        let n_wrong = wrong.len();
        wrong.sort();
        wrong.truncate(MAX_NAMED);
        Err(format!("{n_wrong} boot files differ from the image: {}", wrong.join(", ")))
    }

    fn inode(&mut self, number: u32) -> Result<Inode, String> {
        let missing = || format!("there is no inode {number}");
        let at = self.layout.descriptor_at(number).ok_or_else(missing)?;
        let descriptor = self.window.bytes_at(at, self.layout.descriptor_bytes)?;
        let at = self.layout.inode_at(number, &descriptor).ok_or_else(missing)?;
        Inode::parse(&self.window.bytes_at(at, INODE_BYTES)?).ok_or_else(missing)
    }

    /// The parts of the file's content: the first block of each, and their number.
    fn blocks(&mut self, inode: &Inode) -> Result<Vec<(u64, u64)>, String> {
        let root = inode.root.clone().ok_or("its blocks are not listed in an extent tree")?;
        let (mut found, mut nodes) = (Vec::new(), vec![root]);
        for _ in 0..MAX_NODES {
            let Some(node) = nodes.pop() else { return Ok(found) };
            for branch in ext4::branches(&node).ok_or("its extent tree is damaged")? {
                match branch {
                    Branch::Content(first, n) => found.push((first, n)),
                    Branch::Node(block) => {
                        let n_bytes = usize::try_from(self.layout.block_bytes);
                        let at = block.checked_mul(self.layout.block_bytes);
                        let (Ok(n_bytes), Some(at)) = (n_bytes, at) else {
                            return Err("its extent tree is damaged".into());
                        };
                        nodes.push(self.window.bytes_at(at, n_bytes)?);
                    }
                }
            }
        }
        Err("its extent tree has no end".into())
    }

    /// Returns the content of a directory, and whether all blocks are those of the image.
    fn content(&mut self, inode: &Inode, parts: &[(u64, u64)]) -> Result<(Vec<u8>, bool), String> {
        let block_bytes = self.layout.block_bytes;
        let mut content = Vec::new();
        let mut block = vec![0; BOOT_BLOCK_BYTES];
        let mut is_equal = true;
        for (first, n) in parts {
            let start = first.checked_mul(block_bytes).ok_or("its extent tree is damaged")?;
            for at in (start..start.saturating_add(n * block_bytes)).step_by(BOOT_BLOCK_BYTES) {
                self.window.read_at(at, &mut block)?;
                let number = usize::try_from(at / BOOT_BLOCK_BYTES as u64).unwrap_or(usize::MAX);
                is_equal &= self.image.digests.get(number) == Some(&boot_digest(&block));
                if inode.kind == Kind::Directory {
                    content.extend(&block);
                }
                if content.len() > MAX_DIRECTORY_BYTES {
                    return Err("the directory has no end".into());
                }
            }
            self.n_bytes += n * block_bytes;
        }
        Ok((content, is_equal))
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
