//! Superblocks of file systems: kind, label, UUID, size, and the copies that lie further back.
//!
//! ext4: `Documentation/filesystems/ext4/super.rst` (magic at 438h, label at 478h) and `blockgroup.rst` (which
//! groups have a copy). XFS: `xfs_sb` (magic at 0, label at 6Ch), a copy at the start of each allocation group.
//! btrfs: on-disk format, "Superblock" (at 64 KiB, copies at 64 MiB and 256 GiB). FAT: Microsoft FAT
//! specification 1.03. LUKS: on-disk format specification 1.1.3, §5.

use formats::bytes::{array, le16, le32, le64};
use formats::guid::uuid;

use super::disk::ReadAt;

/// The most copies of a superblock that are read.
const MAX_COPIES: u64 = 4096;
/// Where btrfs has its superblock and the copies.
const BTRFS_AT: [u64; 3] = [64 << 10, 64 << 20, 256 << 30];
/// ext4: copies only in groups whose number is 0, 1 or a power of 3, 5 or 7.
const SPARSE_SUPER: u32 = 0x1;
/// ext4: copies only in two groups, which the superblock names.
const SPARSE_SUPER2: u32 = 0x200;
/// ext4: the number of blocks has 64 bits.
const INCOMPAT_64BIT: u32 = 0x80;
/// ext4: one of these makes it ext4 and not ext2 or ext3: extents, 64 bits, flexible groups.
const INCOMPAT_EXT4: u32 = 0x40 | INCOMPAT_64BIT | 0x200;

/// A file system, as its superblock describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Superblock {
    /// E.g. `ext4`, `xfs`, `btrfs`, `vfat`, `crypto_LUKS`, as udev names it.
    pub kind: &'static str,
    /// Label, if it has one.
    pub label: Option<String>,
    /// UUID, or the serial number of FAT; `None` if all its bytes are 0.
    pub uuid: Option<String>,
    /// Size in bytes; `None` if the superblock does not contain it.
    pub size_bytes: Option<u64>,
    /// The copies that must exist.
    copies: Vec<Copy>,
}

/// A copy of the superblock: bytes that must lie at a place.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Copy {
    at: u64,
    magic: (u64, Vec<u8>),
    uuid: (u64, Vec<u8>),
}

/// The superblock at the start of `source`; `None` if there is none of a known kind.
pub fn of(source: &mut dyn ReadAt) -> Option<Superblock> {
    let mut start = [0; 4096];
    source.read_at(0, &mut start[..2048]).ok()?;
    xfs(&start)
        .or_else(|| ext(&start))
        .or_else(|| luks(&start))
        .or_else(|| fat(&start))
        .or_else(|| btrfs(source))
}

impl Superblock {
    /// Checks that the file system fits into its partition and that every copy of its superblock exists: a
    /// file system whose end was not written lacks them.
    ///
    /// # Errors
    /// In words: what is missing.
    pub fn check(&self, source: &mut dyn ReadAt, partition_bytes: u64) -> Result<(), String> {
        if let Some(size_bytes) = self.size_bytes.filter(|size_bytes| *size_bytes > partition_bytes)
        {
            return Err(format!(
                "{size_bytes} bytes large, in a partition of {partition_bytes} bytes"
            ));
        }
        if self.uuid.is_none() {
            return Err("without a UUID".into());
        }
        for copy in &self.copies {
            let mut read = |(at, expected): &(u64, Vec<u8>)| {
                let mut found = vec![0; expected.len()];
                source.read_at(copy.at.saturating_add(*at), &mut found).map(|()| found == *expected)
            };
            if !(read(&copy.magic)? && read(&copy.uuid)?) {
                return Err(format!("without the copy of its superblock at {}", copy.at));
            }
        }
        Ok(())
    }

    /// The file system in words: `xfs "root", UUID 910678ff-…, 2147483648 bytes`.
    #[must_use]
    pub fn describe(&self) -> String {
        let label = self.label.as_ref().map(|label| format!(" {label:?}")).unwrap_or_default();
        let uuid = self.uuid.as_ref().map(|uuid| format!(", UUID {uuid}")).unwrap_or_default();
        let size = self.size_bytes.map(|size| format!(", {size} bytes")).unwrap_or_default();
        format!("{}{label}{uuid}{size}", self.kind)
    }
}

/// Text up to the first NUL, without blanks at its end.
fn label(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let label = String::from_utf8_lossy(&bytes[..end]).trim_end().to_owned();
    (!label.is_empty() && label != "NO NAME").then_some(label)
}

fn id(bytes: &[u8]) -> Option<String> {
    bytes.iter().any(|byte| *byte != 0).then(|| uuid(bytes))
}

fn be32(bytes: &[u8], at: usize) -> u64 {
    array(bytes, at).map(u32::from_be_bytes).unwrap_or_default().into()
}

fn be64(bytes: &[u8], at: usize) -> u64 {
    array(bytes, at).map(u64::from_be_bytes).unwrap_or_default()
}

fn xfs(start: &[u8; 4096]) -> Option<Superblock> {
    if !start.starts_with(b"XFSB") {
        return None;
    }
    let (block_bytes, group_blocks, n_groups) =
        (be32(start, 4), be32(start, 0x54), be32(start, 0x58));
    let group_bytes = group_blocks.saturating_mul(block_bytes);
    let copy = |group: u64| Copy {
        at: group.saturating_mul(group_bytes),
        magic: (0, start[..8].to_vec()),
        uuid: (0x20, start[0x20..0x30].to_vec()),
    };
    Some(Superblock {
        kind: "xfs",
        label: label(&start[0x6c..0x78]),
        uuid: id(&start[0x20..0x30]),
        size_bytes: Some(be64(start, 8).saturating_mul(block_bytes)),
        copies: (1..n_groups.min(MAX_COPIES)).map(copy).collect(),
    })
}

fn ext(start: &[u8; 4096]) -> Option<Superblock> {
    let sb = &start[0x400..0x800];
    if sb[0x38..0x3a] != [0x53, 0xef] {
        return None;
    }
    let (compat, incompat) = (le32(sb, 0x5c), le32(sb, 0x60));
    let high = if incompat & INCOMPAT_64BIT == 0 { 0 } else { u64::from(le32(sb, 0x150)) << 32 };
    let n_blocks = high | u64::from(le32(sb, 4));
    let block_bytes = 1024_u64.checked_shl(le32(sb, 0x18)).filter(|bytes| *bytes <= 64 << 10)?;
    let (first, group_blocks) = (u64::from(le32(sb, 0x14)), u64::from(le32(sb, 0x20)));
    let n_groups = n_blocks.saturating_sub(first).checked_div(group_blocks).unwrap_or_default()
        + u64::from(
            n_blocks.saturating_sub(first).checked_rem(group_blocks).is_some_and(|n| n > 0),
        );
    let copy = |group: u64| Copy {
        at: group.saturating_mul(group_blocks).saturating_add(first).saturating_mul(block_bytes),
        magic: (0x38, vec![0x53, 0xef]),
        uuid: (0x68, sb[0x68..0x78].to_vec()),
    };
    let groups = ext_groups(sb, compat, n_groups);
    Some(Superblock {
        kind: if incompat & INCOMPAT_EXT4 == 0 { "ext2" } else { "ext4" },
        label: label(&sb[0x78..0x88]),
        uuid: id(&sb[0x68..0x78]),
        size_bytes: Some(n_blocks.saturating_mul(block_bytes)),
        copies: groups.into_iter().map(copy).collect(),
    })
}

/// The groups after the first that have a copy of the superblock.
fn ext_groups(sb: &[u8], compat: u32, n_groups: u64) -> Vec<u64> {
    if compat & SPARSE_SUPER2 != 0 {
        let named = [le32(sb, 0x24c), le32(sb, 0x250)].map(u64::from);
        return named.into_iter().filter(|group| *group > 0 && *group < n_groups).collect();
    }
    if le32(sb, 0x64) & SPARSE_SUPER == 0 {
        return (1..n_groups.min(MAX_COPIES)).collect();
    }
    let powers = |base: u64| std::iter::successors(Some(base), move |n| n.checked_mul(base));
    let mut groups = vec![1];
    for base in [3, 5, 7] {
        groups.extend(powers(base).take_while(|group| *group < n_groups));
    }
    groups.retain(|group| *group < n_groups);
    groups.sort_unstable();
    groups
}

fn btrfs(source: &mut dyn ReadAt) -> Option<Superblock> {
    let mut sb = [0; 0x22b];
    source.read_at(BTRFS_AT[0], &mut sb).ok()?;
    if &sb[0x40..0x48] != b"_BHRfS_M" {
        return None;
    }
    let size_bytes = le64(&sb, 0x70);
    let copy = |at: u64| Copy {
        at,
        magic: (0x40, sb[0x40..0x48].to_vec()),
        uuid: (0x20, sb[0x20..0x30].to_vec()),
    };
    let is_inside = |at: &u64| at.saturating_add(4096) <= size_bytes;
    Some(Superblock {
        kind: "btrfs",
        label: label(&sb[0x12b..0x22b]),
        uuid: id(&sb[0x20..0x30]),
        size_bytes: Some(size_bytes),
        copies: BTRFS_AT[1..].iter().copied().filter(is_inside).map(copy).collect(),
    })
}

fn luks(start: &[u8; 4096]) -> Option<Superblock> {
    let label_of_2 = (start[7] == 2).then(|| label(&start[24..72])).flatten();
    start.starts_with(b"LUKS\xba\xbe").then(|| Superblock {
        kind: "crypto_LUKS",
        label: label_of_2,
        uuid: label(&start[0xa8..0xd0]),
        size_bytes: None,
        copies: Vec::new(),
    })
}

fn fat(start: &[u8; 4096]) -> Option<Superblock> {
    let is_32 = &start[0x52..0x57] == b"FAT32";
    if start[510..512] != [0x55, 0xaa] || !(is_32 || &start[0x36..0x39] == b"FAT") {
        return None;
    }
    let (serial, name) = if is_32 { (0x43, 0x47) } else { (0x27, 0x2b) };
    let short = u64::from(le16(start, 0x13));
    let n_sectors = if short == 0 { u64::from(le32(start, 0x20)) } else { short };
    let number = le32(start, serial);
    Some(Superblock {
        kind: "vfat",
        label: label(&start[name..name + 11]),
        uuid: (number != 0).then(|| format!("{:04X}-{:04X}", number >> 16, number & 0xffff)),
        size_bytes: Some(n_sectors.saturating_mul(u64::from(le16(start, 0x0b)))),
        copies: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: [u8; 16] = [7; 16];

    /// A volume of `n` bytes with these bytes at these places.
    fn volume(n: usize, parts: &[(usize, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![0_u8; n];
        for (at, text) in parts {
            bytes[*at..at + text.len()].copy_from_slice(text);
        }
        bytes
    }

    fn found(bytes: &[u8]) -> Option<Superblock> {
        of(&mut &bytes[..])
    }

    fn checked(bytes: &[u8]) -> Result<(), String> {
        found(bytes).unwrap().check(&mut &bytes[..], bytes.len() as u64)
    }

    /// XFS of four groups of 64 blocks of 4 KiB.
    fn xfs_volume(n_written: usize) -> Vec<u8> {
        let mut bytes = vec![0_u8; 4 * 64 * 4096];
        for group in 0..n_written {
            let sb = &mut bytes[group * 64 * 4096..][..512];
            sb[..4].copy_from_slice(b"XFSB");
            sb[4..8].copy_from_slice(&4096_u32.to_be_bytes());
            sb[8..16].copy_from_slice(&256_u64.to_be_bytes());
            sb[0x20..0x30].copy_from_slice(&UUID);
            sb[0x54..0x58].copy_from_slice(&64_u32.to_be_bytes());
            sb[0x58..0x5c].copy_from_slice(&4_u32.to_be_bytes());
            sb[0x6c..0x70].copy_from_slice(b"root");
        }
        bytes
    }

    #[test]
    fn xfs_without_one_of_its_groups_is_incomplete() {
        let whole = found(&xfs_volume(4)).unwrap();
        assert_eq!((whole.kind, whole.label.as_deref()), ("xfs", Some("root")));
        assert_eq!(whole.size_bytes, Some(1 << 20));
        assert_eq!(checked(&xfs_volume(4)), Ok(()));
        let error = checked(&xfs_volume(3)).unwrap_err();
        assert!(error.contains("copy of its superblock at 786432"), "{error}");
    }

    #[test]
    fn file_system_larger_than_its_partition_is_detected() {
        let bytes = xfs_volume(4);
        let error = found(&bytes).unwrap().check(&mut &bytes[..], 1 << 19).unwrap_err();
        assert_eq!(error, "1048576 bytes large, in a partition of 524288 bytes");
        let mut nameless = xfs_volume(4);
        nameless[0x20..0x30].fill(0);
        assert_eq!(checked(&nameless).unwrap_err(), "without a UUID");
    }

    /// An ext4 superblock of blocks of 1 KiB in groups of 64.
    fn ext_superblock(n_blocks: u32, compat: u32, ro_compat: u32) -> Vec<u8> {
        let mut sb = vec![0_u8; 1024];
        sb[4..8].copy_from_slice(&n_blocks.to_le_bytes());
        sb[0x14] = 1;
        sb[0x20..0x24].copy_from_slice(&64_u32.to_le_bytes());
        sb[0x38..0x3a].copy_from_slice(&[0x53, 0xef]);
        sb[0x5c..0x60].copy_from_slice(&compat.to_le_bytes());
        sb[0x60] = 0x40;
        sb[0x64..0x68].copy_from_slice(&ro_compat.to_le_bytes());
        sb[0x68..0x78].copy_from_slice(&UUID);
        sb[0x78..0x7c].copy_from_slice(b"boot");
        sb
    }

    fn ext_volume(compat: u32, ro_compat: u32, copies_in: &[usize]) -> Vec<u8> {
        let sb = ext_superblock(10 * 64 + 1, compat, ro_compat);
        let mut bytes = volume(10 * 64 * 1024 + 1024, &[(1024, &sb)]);
        for group in copies_in {
            let at = (group * 64 + 1) * 1024;
            bytes[at..at + 1024].copy_from_slice(&sb);
        }
        bytes
    }

    #[test]
    fn ext4_has_copies_in_the_groups_that_its_features_name() {
        assert_eq!(checked(&ext_volume(0, SPARSE_SUPER, &[1, 3, 5, 7, 9])), Ok(()));
        for missing in [1, 3, 5, 7, 9] {
            let mut groups = vec![1, 3, 5, 7, 9];
            groups.retain(|group| *group != missing);
            let error = checked(&ext_volume(0, SPARSE_SUPER, &groups)).unwrap_err();
            assert!(error.contains(&((missing * 64 + 1) * 1024).to_string()), "{error}");
        }
        assert!(checked(&ext_volume(0, 0, &[1, 3, 5, 7, 9])).is_err());
        assert_eq!(checked(&ext_volume(0, 0, &[1, 2, 3, 4, 5, 6, 7, 8, 9])), Ok(()));
        // Groups 0 and 0: no copies.
        assert_eq!(checked(&ext_volume(SPARSE_SUPER2, 0, &[])), Ok(()));
    }

    #[test]
    fn labels_of_the_other_file_systems_are_read() {
        let fat32: &[(usize, &[u8])] = &[
            (510, &[0x55, 0xaa]),
            (0x0b, &[0, 2]),
            (0x20, &[0, 1]),
            (0x43, &[0x88, 0x16, 0x2c, 0x09]),
            (0x52, b"FAT32"),
            (0x47, b"EFI-SYSTEM "),
        ];
        let fat = found(&volume(4096, fat32)).unwrap();
        assert_eq!(fat.describe(), "vfat \"EFI-SYSTEM\", UUID 092C-1688, 131072 bytes");
        let btrfs = volume(
            128 << 10,
            &[
                (0x10020, &UUID),
                (0x10040, b"_BHRfS_M"),
                (0x10070, &(128_u64 << 10).to_le_bytes()),
                (0x1012b, b"root"),
            ],
        );
        assert_eq!(found(&btrfs).unwrap().label.as_deref(), Some("root"));
        assert_eq!(checked(&btrfs), Ok(()));
        let luks = volume(4096, &[(0, b"LUKS\xba\xbe\0\x02"), (24, b"crypt"), (0xa8, b"abcd")]);
        assert_eq!(found(&luks).unwrap().describe(), "crypto_LUKS \"crypt\", UUID abcd");
    }

    #[test]
    fn btrfs_without_its_second_superblock_is_incomplete() {
        let mut bytes = volume(
            65 << 20,
            &[(0x10020, &UUID), (0x10040, b"_BHRfS_M"), (0x10070, &(65_u64 << 20).to_le_bytes())],
        );
        assert!(checked(&bytes).unwrap_err().contains("at 67108864"));
        let first = bytes[0x10000..0x11000].to_vec();
        bytes[64 << 20..(64 << 20) + 4096].copy_from_slice(&first);
        assert_eq!(checked(&bytes), Ok(()));
    }

    #[test]
    fn zeros_and_odd_numbers_are_no_file_system_and_never_a_panic() {
        assert_eq!(found(&[0; 4096]), None);
        assert_eq!(found(&[0; 100]), None);
        let odd = volume(4096, &[(0x400, &[0xff; 1024]), (0x438, &[0x53, 0xef])]);
        assert_eq!(found(&odd), None);
        let mut all = xfs_volume(1);
        all[4..0x20].fill(0xff);
        all[0x54..0x5c].fill(0xff);
        checked(&all).unwrap_err();
    }
}
