//! Superblocks of the file systems and encrypted volumes that an installed system consists of: kind, label, UUID, size,
//! and the copies that lie further back.
//!
//! ext4: `Documentation/filesystems/ext4/super.rst` (magic at 438h, label at 478h) and `blockgroup.rst` (which
//! groups have a copy). XFS: `xfs_sb` (magic at 0, label at 6Ch), a copy at the start of each allocation group.
//! Btrfs: on-disk format, "Superblock" (at 64 KiB, copies at 64 MiB and 256 GiB). FAT: Microsoft FAT
//! specification 1.03. LUKS: on-disk format specification 1.1.3, §5.

use crate::bytes::{array, le16, le32, le64};
use crate::guid::uuid_if_set;
use crate::text::to_nul;

/// Length of a volume's start that contains the superblock of every kind except Btrfs.
pub const FIRST_BYTES: usize = 2048;
/// Offset of the superblock of Btrfs.
pub const BTRFS_AT: u64 = 64 << 10;
/// Its length up to the end of the label.
pub const BTRFS_BYTES: usize = 0x22b;
/// Offsets of the copies of Btrfs.
const BTRFS_COPIES: [u64; 2] = [64 << 20, 256 << 30];
/// The most copies of a superblock that are listed.
const MAX_COPIES: u64 = 4096;

/// Features that ext3 does not know (`fs/ext4/ext4.h`): all but filetype, recover, journal device
/// and meta block groups; all but sparse superblocks, large files and B-tree directories.
const EXT3_INCOMPATIBLE: u32 = 0x1e;
const EXT3_READ_ONLY: u32 = 0x7;
const EXT_HAS_JOURNAL: u32 = 0x4;
const EXT_IS_JOURNAL: u32 = 0x8;
/// The number of blocks has 64 bits.
const EXT_64BIT: u32 = 0x80;
/// Copies lie only in groups whose number is 0, 1 or a power of 3, 5 or 7.
pub const EXT_SPARSE_SUPER: u32 = 0x1;
/// Copies lie only in two groups, which the superblock names.
pub const EXT_SPARSE_SUPER2: u32 = 0x200;

/// A file system or encrypted volume, as its superblock describes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Superblock {
    /// E.g. `ext4`, `xfs`, `btrfs`, `vfat`, `crypto_LUKS`, as udev names it.
    pub kind: &'static str,
    /// Label, if it has one.
    pub label: Option<String>,
    /// UUID, or the serial number of FAT; `None` if all its bytes are 0.
    pub uuid: Option<String>,
    /// Size in bytes; `None` if the superblock does not contain it, or contains nonsense.
    pub size_bytes: Option<u64>,
    /// Number of devices of a Btrfs.
    pub n_devices: Option<u64>,
    /// Offsets of the copies that must exist.
    pub copies: Vec<u64>,
    /// The offset of magic and UUID in each copy, and their bytes.
    pub marks: [(u64, Vec<u8>); 2],
}

/// XFS, by the first 2 KiB of a volume.
pub fn xfs(first: &[u8]) -> Option<Superblock> {
    if !first.starts_with(b"XFSB") {
        return None;
    }
    let be32 = |at| array(first, at).map_or(0, |bytes| u64::from(u32::from_be_bytes(bytes)));
    let n_blocks = array(first, 8).map(u64::from_be_bytes)?;
    let block_bytes = be32(4);
    let (group_bytes, n_groups) = (be32(0x54).saturating_mul(block_bytes), be32(0x58));
    let copies = (1..n_groups.min(MAX_COPIES)).map(|group| group.saturating_mul(group_bytes));
    Some(Superblock {
        kind: "xfs",
        label: to_nul(first.get(0x6c..0x78)?),
        uuid: uuid_if_set(first.get(0x20..0x30)?),
        size_bytes: Some(n_blocks.saturating_mul(block_bytes)),
        copies: copies.collect(),
        marks: [(0, first[..8].to_vec()), (0x20, first[0x20..0x30].to_vec())],
        ..Superblock::default()
    })
}

/// ext2, ext3, ext4 and their external journals, by the first 2 KiB of a volume.
pub fn ext(first: &[u8]) -> Option<Superblock> {
    let sb = first.get(0x400..0x800).filter(|sb| le16(sb, 0x38) == 0xef53)?;
    let (compatible, incompatible) = (le32(sb, 0x5c), le32(sb, 0x60));
    let is_ext4 = incompatible & !EXT3_INCOMPATIBLE != 0 || le32(sb, 0x64) & !EXT3_READ_ONLY != 0;
    let found = Superblock {
        kind: match () {
            () if incompatible & EXT_IS_JOURNAL != 0 => "jbd",
            () if is_ext4 => "ext4",
            () if compatible & EXT_HAS_JOURNAL != 0 => "ext3",
            () => "ext2",
        },
        label: to_nul(&sb[0x78..0x88]),
        uuid: uuid_if_set(&sb[0x68..0x78]),
        marks: [(0x38, sb[0x38..0x3a].to_vec()), (0x68, sb[0x68..0x78].to_vec())],
        ..Superblock::default()
    };
    let block_bytes = 1024_u64.checked_shl(le32(sb, 0x18)).filter(|bytes| *bytes <= 64 << 10);
    let Some(block_bytes) = block_bytes else { return Some(found) };
    let high = if incompatible & EXT_64BIT == 0 { 0 } else { u64::from(le32(sb, 0x150)) << 32 };
    let n_blocks = high | u64::from(le32(sb, 4));
    let (base, group_blocks) = (u64::from(le32(sb, 0x14)), u64::from(le32(sb, 0x20)));
    let in_groups = n_blocks.saturating_sub(base);
    let n_groups = if group_blocks == 0 { 0 } else { in_groups.div_ceil(group_blocks) };
    let place = |group: u64| group.saturating_mul(group_blocks).saturating_add(base);
    let groups = ext_groups(sb, n_groups).into_iter();
    Some(Superblock {
        size_bytes: Some(n_blocks.saturating_mul(block_bytes)),
        copies: groups.map(|group| place(group).saturating_mul(block_bytes)).collect(),
        ..found
    })
}

/// The groups after the first that have a copy of the superblock.
fn ext_groups(sb: &[u8], n_groups: u64) -> Vec<u64> {
    if le32(sb, 0x5c) & EXT_SPARSE_SUPER2 != 0 {
        let named = [le32(sb, 0x24c), le32(sb, 0x250)].map(u64::from);
        return named.into_iter().filter(|group| *group > 0 && *group < n_groups).collect();
    }
    if le32(sb, 0x64) & EXT_SPARSE_SUPER == 0 {
        return (1..n_groups.min(MAX_COPIES)).collect();
    }
    let powers = |base: u64| std::iter::successors(Some(base), move |n| n.checked_mul(base));
    let powers =
        [3, 5, 7].into_iter().flat_map(|base| powers(base).take_while(|group| *group < n_groups));
    let mut groups: Vec<u64> = powers.chain((n_groups > 1).then_some(1)).collect();
    groups.sort_unstable();
    groups
}

/// Btrfs, by its superblock at [`BTRFS_AT`].
pub fn btrfs(sb: &[u8]) -> Option<Superblock> {
    let magic = sb.get(0x40..0x48).filter(|magic| magic == b"_BHRfS_M")?;
    let size_bytes = le64(sb, 0x70);
    let is_inside = |at: &u64| at.saturating_add(4096) <= size_bytes;
    Some(Superblock {
        kind: "btrfs",
        label: to_nul(sb.get(0x12b..BTRFS_BYTES)?),
        uuid: uuid_if_set(&sb[0x20..0x30]),
        size_bytes: Some(size_bytes),
        n_devices: Some(le64(sb, 0x88)).filter(|n| *n > 0),
        copies: BTRFS_COPIES.into_iter().filter(is_inside).collect(),
        marks: [(0x40, magic.to_vec()), (0x20, sb[0x20..0x30].to_vec())],
    })
}

/// The header of an encrypted volume, by the first 2 KiB of a volume.
pub fn luks(first: &[u8]) -> Option<Superblock> {
    let version = first.strip_prefix(b"LUKS\xba\xbe")?.get(1)?;
    let label = if *version == 2 { to_nul(first.get(24..72)?) } else { None };
    let uuid = to_nul(first.get(0xa8..0xd0)?);
    Some(Superblock { kind: "crypto_LUKS", label, uuid, ..Superblock::default() })
}

/// FAT of any width, by the first 2 KiB of a volume: a jump, a likely geometry and the name of the type.
pub fn fat(first: &[u8]) -> Option<Superblock> {
    let (sector_bytes, n_fats) = (le16(first, 11), *first.get(16)?);
    let is_likely = matches!(first.first()?, 0xeb | 0xe9)
        && sector_bytes.is_power_of_two()
        && (512..=4096).contains(&sector_bytes)
        && first.get(13)?.is_power_of_two()
        && matches!(n_fats, 1 | 2);
    let (serial_at, label_at) = match () {
        () if !is_likely => return None,
        () if first.get(82..87)? == b"FAT32" => (67, 71),
        () if first.get(54..57)? == b"FAT" => (39, 43),
        () => return None,
    };
    let short = u64::from(le16(first, 19));
    let n_sectors = if short == 0 { u64::from(le32(first, 32)) } else { short };
    Some(Superblock {
        kind: "vfat",
        label: to_nul(first.get(label_at..label_at + 11)?).filter(|label| label != "NO NAME"),
        uuid: volume_serial(first, serial_at),
        size_bytes: Some(n_sectors.saturating_mul(u64::from(sector_bytes))),
        ..Superblock::default()
    })
}

/// The serial number of a FAT or exFAT volume at this place, as udev writes it; `None` if it is 0.
pub fn volume_serial(first: &[u8], at: usize) -> Option<String> {
    let serial = le32(first, at);
    (serial != 0).then(|| format!("{:04X}-{:04X}", serial >> 16, serial & 0xffff))
}
