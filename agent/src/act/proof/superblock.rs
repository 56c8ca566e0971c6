//! Reads the superblocks of an installed disk and checks that all copies are there; `formats::superblock` parses them.

use formats::superblock::{self, BTRFS_AT, BTRFS_BYTES, FIRST_BYTES, Superblock};

use super::disk::ReadAt;

/// The kind of an encrypted volume, whose header does not contain its size.
const LUKS: &str = "crypto_LUKS";

/// The superblock at the start of `source`; `None` if there is none of a known kind, or one of nonsense.
pub fn of(source: &mut dyn ReadAt) -> Option<Superblock> {
    let first = source.bytes_at(0, FIRST_BYTES).ok()?;
    let kinds = [superblock::xfs, superblock::ext, superblock::luks, superblock::fat];
    let found = kinds.into_iter().find_map(|kind| kind(&first));
    let is_sound = |found: &Superblock| found.size_bytes.is_some() || found.kind == LUKS;
    found
        .filter(is_sound)
        .or_else(|| superblock::btrfs(&source.bytes_at(BTRFS_AT, BTRFS_BYTES).ok()?))
}

/// Checks that the file system fits into its partition and that every copy of its superblock exists: a
/// file system whose end was not written lacks them.
///
/// # Errors
/// A message with the missing parts.
pub fn check(
    found: &Superblock,
    source: &mut dyn ReadAt,
    partition_bytes: u64,
) -> Result<(), String> {
    if let Some(size_bytes) = found.size_bytes.filter(|size_bytes| *size_bytes > partition_bytes) {
        return Err(format!("{size_bytes} bytes large, in a partition of {partition_bytes} bytes"));
    }
    if found.uuid.is_none() {
        return Err("without a UUID".into());
    }
    for copy in &found.copies {
        for (at, mark) in &found.marks {
            if source.bytes_at(copy.saturating_add(*at), mark.len())? != *mark {
                return Err(format!("without the copy of its superblock at {copy}"));
            }
        }
    }
    Ok(())
}

/// Describes the file system: `xfs "root", UUID 910678ff-…, 2147483648 bytes`.
pub fn describe(found: &Superblock) -> String {
    let label = found.label.as_ref().map(|label| format!(" {label:?}")).unwrap_or_default();
    let uuid = found.uuid.as_ref().map(|uuid| format!(", UUID {uuid}")).unwrap_or_default();
    let size = found.size_bytes.map(|size| format!(", {size} bytes")).unwrap_or_default();
    format!("{}{label}{uuid}{size}", found.kind)
}

#[cfg(test)]
mod tests {
    use formats::superblock::{EXT_SPARSE_SUPER, EXT_SPARSE_SUPER2};

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
        check(&found(bytes).unwrap(), &mut &bytes[..], bytes.len() as u64)
    }

    /// XFS with four groups, each with 64 blocks of 4 KiB.
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
    fn file_system_larger_than_its_partition_is_detected() {
        let bytes = xfs_volume(4);
        let error = check(&found(&bytes).unwrap(), &mut &bytes[..], 1 << 19).unwrap_err();
        assert_eq!(error, "1048576 bytes large, in a partition of 524288 bytes");
        let mut nameless = xfs_volume(4);
        nameless[0x20..0x30].fill(0);
        assert_eq!(checked(&nameless).unwrap_err(), "without a UUID");
    }

    /// An ext4 superblock with 1 KiB blocks in groups of 64.
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
        assert_eq!(checked(&ext_volume(0, EXT_SPARSE_SUPER, &[1, 3, 5, 7, 9])), Ok(()));
        for missing in [1, 3, 5, 7, 9] {
            let mut groups = vec![1, 3, 5, 7, 9];
            groups.retain(|group| *group != missing);
            let error = checked(&ext_volume(0, EXT_SPARSE_SUPER, &groups)).unwrap_err();
            assert!(error.contains(&((missing * 64 + 1) * 1024).to_string()), "{error}");
        }
        assert!(checked(&ext_volume(0, 0, &[1, 3, 5, 7, 9])).is_err());
        assert_eq!(checked(&ext_volume(0, 0, &[1, 2, 3, 4, 5, 6, 7, 8, 9])), Ok(()));
        // Groups 0 and 0: no copies.
        assert_eq!(checked(&ext_volume(EXT_SPARSE_SUPER2, 0, &[])), Ok(()));
    }

    #[test]
    fn labels_of_the_other_file_systems_are_read() {
        let fat32: &[(usize, &[u8])] = &[
            (0, &[0xeb]),
            (0x0b, &[0, 2, 1, 32, 0, 2]),
            (0x20, &[0, 1]),
            (0x43, &[0x88, 0x16, 0x2c, 0x09]),
            (0x52, b"FAT32"),
            (0x47, b"EFI-SYSTEM "),
        ];
        let fat = found(&volume(4096, fat32)).unwrap();
        assert_eq!(describe(&fat), "vfat \"EFI-SYSTEM\", UUID 092C-1688, 131072 bytes");
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
        assert_eq!(describe(&found(&luks).unwrap()), "crypto_LUKS \"crypt\", UUID abcd");
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
