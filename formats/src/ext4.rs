//! ext4: where the content of files lies, by number of the file system's blocks.
//!
//! Kernel `Documentation/filesystems/ext4/`: `super.rst`, `group_descr.rst`, `inodes.rst`, `ifork.rst` (extent tree) and
//! `directory.rst`. A journal that must be replayed first is not supported, nor are features that `mke2fs` does not use by default.

use std::ops::Range;

use crate::bytes::{le16, le32};

/// Offset of the superblock in a volume.
pub const SUPERBLOCK_AT: u64 = 1024;
/// Its length.
pub const SUPERBLOCK_BYTES: usize = 1024;
/// Number of the inode of the root directory.
pub const ROOT_INODE: u32 = 2;
/// Length of the part of an inode that is parsed.
pub const INODE_BYTES: usize = 128;
/// A file system with more groups is not supported: their descriptors may be that far from the superblock.
const MAX_GROUPS: u32 = 1 << 10;

/// `INCOMPAT_64BIT`: group descriptors may be longer than 32 bytes.
const WIDE: u32 = 0x80;
/// `INCOMPAT_EXTENTS`: the blocks of files are listed in extent trees.
const EXTENTS: u32 = 0x40;
/// The features whose presence changes nothing else here: filetype, flexible groups, checksum seed, large directories.
const SUPPORTED: u32 = 0x2 | EXTENTS | WIDE | 0x200 | 0x2000 | 0x4000;
/// `RO_COMPAT_BIGALLOC`: extents count clusters of blocks.
const CLUSTERS: u32 = 0x200;
/// `EXT4_EXTENTS_FL`.
const HAS_EXTENTS: u32 = 0x8_0000;
/// The most blocks of one extent; a larger number marks one that is allocated and not written.
const MAX_EXTENT_BLOCKS: u64 = 32_768;

/// The places of a file system's tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Length of a block.
    pub block_bytes: usize,
    inode_bytes: u64,
    inodes_per_group: u32,
    n_inodes: u32,
    descriptors_at: u64,
    /// Length of a group descriptor.
    pub descriptor_bytes: usize,
}

impl Layout {
    /// Parses a superblock; `None` if it is none, or has a feature that is not supported.
    pub fn parse(superblock: &[u8]) -> Option<Self> {
        let features = le32(superblock, 0x60);
        let log_block = le32(superblock, 0x18);
        let is_supported = features & !SUPPORTED == 0
            && features & EXTENTS != 0
            && le32(superblock, 0x64) & CLUSTERS == 0;
        if le16(superblock, 0x38) != 0xef53 || !is_supported || log_block > 6 {
            return None;
        }
        let block_bytes = 1024 << log_block;
        let wide_bytes = usize::from(le16(superblock, 0xfe));
        let layout = Self {
            block_bytes,
            inode_bytes: le16(superblock, 0x58).into(),
            inodes_per_group: le32(superblock, 0x28),
            n_inodes: le32(superblock, 0),
            descriptors_at: (u64::from(le32(superblock, 0x14)) + 1) * block_bytes as u64,
            descriptor_bytes: if features & WIDE == 0 { 32 } else { wide_bytes },
        };
        let is_sound = layout.inode_bytes >= INODE_BYTES as u64
            && layout.inodes_per_group > 0
            && layout.n_groups() <= MAX_GROUPS
            && matches!(layout.descriptor_bytes, 32..=1024);
        is_sound.then_some(layout)
    }

    /// Offset of the descriptor of the group that an inode belongs to; `None` if there is no such inode.
    pub fn descriptor_at(&self, inode: u32) -> Option<u64> {
        let index = inode.checked_sub(1).filter(|_| inode <= self.n_inodes)?;
        let group = u64::from(index / self.inodes_per_group);
        Some(self.descriptors_at + group * self.descriptor_bytes as u64)
    }

    /// Offset of an inode, by the descriptor of its group.
    pub fn inode_at(&self, inode: u32, descriptor: &[u8]) -> Option<u64> {
        let index = u64::from(inode.checked_sub(1)? % self.inodes_per_group);
        self.table(descriptor)?.checked_add(index * self.inode_bytes)
    }

    /// Offset of the inodes of a group, by its descriptor.
    fn table(&self, descriptor: &[u8]) -> Option<u64> {
        let high = if self.descriptor_bytes >= 64 { le32(descriptor, 0x28) } else { 0 };
        let table = u64::from(high) << 32 | u64::from(le32(descriptor, 8));
        table.checked_mul(self.block_bytes as u64)
    }

    fn n_groups(&self) -> u32 {
        self.n_inodes.div_ceil(self.inodes_per_group)
    }

    /// The blocks with the superblock, the descriptors and the inodes, by the beginning of the volume; `None` if that is
    /// too short or damaged.
    pub fn tables(&self, first: &[u8]) -> Option<Vec<Range<u64>>> {
        let block_bytes = self.block_bytes as u64;
        let n_groups = u64::from(self.n_groups());
        let end = self.descriptors_at + n_groups * self.descriptor_bytes as u64;
        let n_table = (u64::from(self.inodes_per_group) * self.inode_bytes).div_ceil(block_bytes);
        let descriptors =
            first.get(usize::try_from(self.descriptors_at).ok()?..usize::try_from(end).ok()?)?;
        let of_group = |descriptor| {
            let start = self.table(descriptor)? / block_bytes;
            Some(start..start.saturating_add(n_table))
        };
        let groups = descriptors.chunks_exact(self.descriptor_bytes).map(of_group);
        std::iter::once(Some(0..end.div_ceil(block_bytes))).chain(groups).collect()
    }

    /// True if a block is one of a directory: its entries fill it without a gap.
    pub fn is_directory_block(&self, block: &[u8]) -> bool {
        let mut at = 0;
        while let Some(entry) = block.get(at..).filter(|entry| entry.len() >= 8) {
            let (n_entry, n_name) = (usize::from(le16(entry, 4)), usize::from(entry[6]));
            // 0xde marks the checksum at the end.
            let is_entry = n_entry.is_multiple_of(4)
                && n_entry >= 8 + n_name
                && (entry[7] <= 7 || entry[7] == 0xde);
            if !is_entry {
                return false;
            }
            at += n_entry;
        }
        at == block.len() && at == self.block_bytes
    }
}

/// The kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A directory.
    Directory,
    /// A regular file or a symbolic link with a long target.
    File,
    /// Anything else, such as a symbolic link with its target in the inode.
    Other,
}

/// A file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inode {
    /// Its kind.
    pub kind: Kind,
    /// Type and permissions, owner and group, flags.
    pub facts: (u16, u16, u16, u32),
    /// Length of its content in bytes.
    pub n_bytes: u64,
    /// The root node of its extent tree; of [`Kind::Other`] the target or the device.
    pub root: Vec<u8>,
}

impl Inode {
    /// Parses the first [`INODE_BYTES`] of an inode; `None` if they are fewer, it is not in use, or its blocks are listed
    /// in another way.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let root = bytes.get(0x28..0x64)?.to_vec();
        let (mode, flags) = (le16(bytes, 0), le32(bytes, 0x20));
        let has_extents = flags & HAS_EXTENTS != 0;
        let kind = match mode >> 12 {
            4 if has_extents => Kind::Directory,
            8 | 10 if has_extents => Kind::File,
            0 | 4 | 8 => return None,
            _ => Kind::Other,
        };
        let n_bytes = u64::from(le32(bytes, 0x6c)) << 32 | u64::from(le32(bytes, 4));
        let facts = (mode, le16(bytes, 2), le16(bytes, 0x18), flags);
        Some(Self { kind, facts, n_bytes, root })
    }
}

/// An entry of an extent tree's node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Branch {
    /// The block of a node further down.
    Node(u64),
    /// Blocks with content of the file, and the number of the first one in it.
    Content(u64, Range<u64>),
}

/// The entries of a node; those of blocks that were allocated and not written are left out. `None` if it is damaged.
pub fn branches(node: &[u8]) -> Option<Vec<Branch>> {
    let (magic, n_entries, depth) = (le16(node, 0), le16(node, 2), le16(node, 6));
    let entries = node.get(12..12 + 12 * usize::from(n_entries)).filter(|_| magic == 0xf30a)?;
    let wide = |high: u16, low: u32| u64::from(high) << 32 | u64::from(low);
    let branch = |entry: &[u8]| match depth {
        0 => {
            let n_blocks = u64::from(le16(entry, 4));
            let first = wide(le16(entry, 6), le32(entry, 8));
            let in_file = le32(entry, 0).into();
            (n_blocks <= MAX_EXTENT_BLOCKS)
                .then(|| Branch::Content(in_file, first..first + n_blocks))
        }
        _ => Some(Branch::Node(wide(le16(entry, 8), le32(entry, 4)))),
    };
    Some(entries.chunks_exact(12).filter_map(branch).collect())
}

/// The names in a block of a directory, with the number of their inodes. Blocks of an index have none.
pub fn names(block: &[u8]) -> Vec<(u32, String)> {
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(entry) = block.get(at..).filter(|entry| entry.len() >= 8) {
        let (inode, n_name) = (le32(entry, 0), usize::from(entry[6]));
        let name = entry.get(8..8 + n_name).unwrap_or_default();
        if inode != 0 && !name.is_empty() && name != b"." && name != b".." {
            found.push((inode, String::from_utf8_lossy(name).into_owned()));
        }
        at += usize::from(le16(entry, 4)).max(8);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn superblock(features: u32) -> Vec<u8> {
        let mut sb = vec![0; SUPERBLOCK_BYTES];
        for (at, value) in [(0, 100_u32), (0x14, 1), (0x28, 40), (0x60, features)] {
            sb[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        sb[0x38..0x3a].copy_from_slice(&[0x53, 0xef]);
        sb[0x59] = 1;
        sb[0xfe] = 64;
        sb
    }

    #[test]
    fn inode_is_found_by_the_descriptor_of_its_group() {
        for (features, n_bytes) in [(0x42, 32), (0xc2, 64)] {
            let layout = Layout::parse(&superblock(features)).unwrap();
            assert_eq!(layout.descriptor_at(41), Some(2048 + n_bytes));
            assert_eq!((layout.descriptor_at(0), layout.descriptor_at(101)), (None, None));
            let mut descriptor = vec![0; 64];
            (descriptor[8], descriptor[0x28]) = (7, 1);
            let high = if n_bytes == 64 { 1 << 42 } else { 0 };
            assert_eq!(layout.inode_at(42, &descriptor), Some(high + 7 * 1024 + 256));
        }
    }

    #[test]
    fn block_of_a_directory_is_known_by_its_entries_and_tables_by_the_descriptors() {
        let layout = Layout::parse(&superblock(0x42)).unwrap();
        let mut block =
            [&[2, 0, 0, 0, 12, 0, 1, 2, b'.', 0, 0, 0][..], &[3, 0, 0, 0, 0, 0, 2, 2]].concat();
        block.resize(layout.block_bytes, 0);
        assert!(!layout.is_directory_block(&block));
        block[16..18].copy_from_slice(&1012_u16.to_le_bytes());
        assert!(layout.is_directory_block(&block) && !layout.is_directory_block(&block[..1000]));
        assert!(
            !layout.is_directory_block(&[0; 1024]) && !layout.is_directory_block(&[0xff; 1024])
        );
        let mut first = vec![0; 4096];
        (first[2048 + 8], first[2048 + 40], first[2048 + 72]) = (7, 20, 33);
        assert_eq!(layout.tables(&first), Some(vec![0..3, 7..17, 20..30, 33..43]));
        assert_eq!(layout.tables(&first[..2100]), None);
    }

    #[test]
    fn features_that_change_the_format_are_not_supported() {
        for feature in [0x4, 0x10, 0x8000, 0x1_0000] {
            assert_eq!(Layout::parse(&superblock(0x42 | feature)), None, "{feature:x}");
        }
        assert_eq!(Layout::parse(&[0; SUPERBLOCK_BYTES]), None);
        assert_eq!(Layout::parse(&[]), None);
    }

    #[test]
    fn extents_and_names_are_read_and_truncated_ones_end_early() {
        let mut leaf = vec![0x0a, 0xf3, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0];
        leaf.extend([0, 0, 0, 0, 3, 0, 1, 0, 9, 0, 0, 0]);
        leaf.extend([3, 0, 0, 0, 1, 0x80, 0, 0, 5, 0, 0, 0]);
        let content = Branch::Content(0, (1 << 32) + 9..(1 << 32) + 12);
        assert_eq!(branches(&leaf), Some(vec![content]));
        leaf[6] = 1;
        assert_eq!(branches(&leaf).unwrap()[0], Branch::Node(0x0009_0001_0003));
        assert_eq!(branches(&leaf[..35]), None);
        assert_eq!(branches(&[0; 60]), None);
        let block = [&[9, 0, 0, 0, 12, 0, 1, 1, b'a', 0, 0, 0][..], &[3, 0, 0, 0, 0, 0, 9, 1]];
        assert_eq!(names(&block.concat()), [(9, "a".to_owned())]);
    }
}
