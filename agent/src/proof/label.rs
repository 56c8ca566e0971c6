//! The label of a file system, from its superblock: ext2/3/4, XFS, FAT.
//!
//! ext4: `Documentation/filesystems/ext4/super.rst` (magic at 438h, label at 478h). XFS: `xfs_sb` (magic at 0,
//! label at 6Ch). FAT: Microsoft FAT specification 1.03 (label at 2Bh or 47h).

use super::disk::ReadAt;

/// The label; `None` if there is none or the file system is another one.
pub fn of(mut source: impl ReadAt) -> Option<String> {
    let mut start = [0; 2048];
    source.read_at(0, &mut start).ok()?;
    let bytes: &[u8] = if start[0x438..0x43a] == [0x53, 0xef] {
        &start[0x478..0x488]
    } else if start.starts_with(b"XFSB") {
        &start[0x6c..0x78]
    } else if start[510..512] == [0x55, 0xaa] && &start[0x52..0x57] == b"FAT32" {
        &start[0x47..0x52]
    } else if start[510..512] == [0x55, 0xaa] && &start[0x36..0x39] == b"FAT" {
        &start[0x2b..0x36]
    } else {
        return None;
    };
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let label = String::from_utf8_lossy(&bytes[..end]).trim_end().to_owned();
    (!label.is_empty() && label != "NO NAME").then_some(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(parts: &[(usize, &[u8])]) -> Option<String> {
        let mut bytes = [0_u8; 4096];
        for (at, text) in parts {
            bytes[*at..at + text.len()].copy_from_slice(text);
        }
        of(&bytes[..])
    }

    #[test]
    fn labels_of_three_file_systems_are_read() {
        assert_eq!(with(&[(0x438, &[0x53, 0xef]), (0x478, b"boot")]).as_deref(), Some("boot"));
        assert_eq!(with(&[(0, b"XFSB"), (0x6c, b"root")]).as_deref(), Some("root"));
        let fat: &[(usize, &[u8])] =
            &[(510, &[0x55, 0xaa]), (0x52, b"FAT32"), (0x47, b"EFI-SYSTEM ")];
        assert_eq!(with(fat).as_deref(), Some("EFI-SYSTEM"));
    }

    #[test]
    fn what_is_none_of_them_has_no_label() {
        assert_eq!(with(&[]), None);
        assert_eq!(with(&[(0x438, &[0x53, 0xef])]), None);
        assert_eq!(of(&[0_u8; 100][..]), None);
    }
}
