//! The boot record of a disk with a DOS partition table, and of each of its logical partitions
//! (`struct msdos_partition`, Linux `include/linux/msdos_partition.h`; UEFI Specification 2.10, §5.2).

use crate::bytes::le32;
use crate::{Encoding, Field, Kind};

/// The length of a boot record, whatever the size of the disk's blocks.
pub const RECORD_BYTES: usize = 512;
/// Offset of the four entries.
const ENTRIES_AT: usize = 446;
const ENTRY_BYTES: usize = 16;
/// Type of the entry that covers a disk with a GPT.
const PROTECTIVE: u8 = 0xee;

/// One entry of a boot record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// 0x80 if the BIOS boots it, else 0; anything else is not an entry.
    pub status: u8,
    /// Type of the partition; 0 if unused.
    pub kind: u8,
    /// First block, counted from the disk's start or from another record.
    pub first_block: u32,
    /// Size in blocks.
    pub n_blocks: u32,
}

impl Entry {
    /// True if it only holds the logical partitions.
    pub fn is_extended(&self) -> bool {
        matches!(self.kind, 0x05 | 0x0f | 0x85)
    }
}

/// The four entries of the boot record at the start of `block`; `None` if it is not a boot record.
pub fn entries(block: &[u8]) -> Option<[Entry; 4]> {
    if block.get(510..RECORD_BYTES) != Some(&[0x55, 0xaa]) {
        return None;
    }
    let entry = |index: usize| {
        let at = ENTRIES_AT + ENTRY_BYTES * index;
        Entry {
            status: block[at],
            kind: block[at + 4],
            first_block: le32(block, at + 8),
            n_blocks: le32(block, at + 12),
        }
    };
    Some([0, 1, 2, 3].map(entry))
}

/// True if the boot record only announces a GPT.
pub fn is_protective(block: &[u8]) -> bool {
    entries(block).is_some_and(|entries| entries.iter().any(|entry| entry.kind == PROTECTIVE))
}

/// True if a FAT, exFAT or NTFS volume begins here: such a volume has the mark of a boot record too.
pub fn is_volume(block: &[u8]) -> bool {
    let has = |at: usize, name: &[u8]| block.get(at..).is_some_and(|rest| rest.starts_with(name));
    has(3, b"NTFS") || has(3, b"EXFAT") || has(54, b"FAT") || has(82, b"FAT")
}

/// The number that identifies the disk; 0 if it was never set.
pub fn disk_number(block: &[u8]) -> u32 {
    le32(block, 440)
}

/// Lists the places in a boot record that reveal something.
pub fn fields(block: &[u8]) -> Vec<Field> {
    let is_set = entries(block).is_some() && !is_volume(block) && disk_number(block) != 0;
    let number = Field { span: 440..444, kind: Kind::Serial, encoding: Encoding::LittleEndian };
    is_set.then_some(number).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_need_the_mark_at_the_end() {
        let mut block = [0; RECORD_BYTES];
        (block[450], block[454], block[458]) = (0x0f, 8, 1);
        assert_eq!(entries(&block), None);
        (block[510], block[511]) = (0x55, 0xaa);
        let first = entries(&block).unwrap()[0];
        assert_eq!(first, Entry { status: 0, kind: 0x0f, first_block: 8, n_blocks: 1 });
        assert!(first.is_extended() && !is_protective(&block));
        block[450 + 48] = 0xee;
        assert!(is_protective(&block));
        assert_eq!(entries(&block[..511]), None);
    }

    #[test]
    fn the_number_of_a_disk_is_a_field_and_that_of_a_volume_is_code() {
        let mut block = [0; RECORD_BYTES];
        (block[510], block[511], block[440]) = (0x55, 0xaa, 7);
        assert_eq!(fields(&block)[0].bytes(&block), [7, 0, 0, 0]);
        block[54..57].copy_from_slice(b"FAT");
        assert_eq!(fields(&block), []);
    }
}
