//! Makes a GUID partition table for a whole disk, with its protective boot record and its backup.

use super::{Partition, SIGNATURE, crc32, header_crc32};
use crate::guid::Guid;
use crate::utf16;

/// Number of entries in a table, and the size of each.
const N_ENTRIES: u8 = 128;
const ENTRY_BYTES: u8 = 128;
/// The length of a header.
const HEADER_BYTES: u8 = 92;

/// The bytes of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Built {
    /// From the start of the disk: boot record, header and entries.
    pub start: Vec<u8>,
    /// Up to the end of the disk: entries and header of the backup.
    pub end: Vec<u8>,
}

/// Makes a table with these partitions and no boot code. `None` if a partition has a number beyond 128, or the disk
/// has too few blocks for the table or one of the partitions.
pub fn build(
    partitions: &[Partition],
    disk_guid: Guid,
    n_blocks: u64,
    block_bytes: usize,
) -> Option<Built> {
    let entries = entries(partitions)?;
    let entry_blocks = entries.len().div_ceil(block_bytes);
    let last_lba = n_blocks.checked_sub(1)?;
    let backup_at = last_lba.checked_sub(entry_blocks as u64)?;
    let usable = (2 + entry_blocks as u64, backup_at.checked_sub(1)?);
    let fits = |part: &Partition| {
        let end = part.first_block.checked_add(part.n_blocks);
        part.first_block >= usable.0 && end.is_some_and(|end| end <= backup_at)
    };
    if usable.0 > usable.1 || !partitions.iter().all(fits) {
        return None;
    }
    let header = |own_lba: u64, other_lba: u64, entries_lba: u64| {
        let revision_and_length = [0, 0, 1, 0, HEADER_BYTES, 0, 0, 0];
        let lbas = [own_lba, other_lba, usable.0, usable.1].map(u64::to_le_bytes).concat();
        let shape = [u32::from(N_ENTRIES), ENTRY_BYTES.into(), crc32(&entries)];
        let entries = [&entries_lba.to_le_bytes()[..], &shape.map(u32::to_le_bytes).concat()];
        let start = [&SIGNATURE[..], &revision_and_length, &[0; 8]].concat();
        let mut header = [&start, &lbas, &disk_guid.0[..], &entries.concat()].concat();
        let sum = header_crc32(&header);
        header[16..20].copy_from_slice(&sum.to_le_bytes());
        header.resize(block_bytes, 0);
        header
    };
    let mut start = boot_record(last_lba, block_bytes);
    start.extend(header(1, last_lba, 2));
    start.extend(&entries);
    start.resize((2 + entry_blocks) * block_bytes, 0);
    let mut end = entries.clone();
    end.resize(entry_blocks * block_bytes, 0);
    end.extend(header(last_lba, 1, backup_at));
    Some(Built { start, end })
}

/// A boot record whose only entry covers the disk, so that programs that know no GPT leave it alone (UEFI
/// Specification 2.10, §5.2.3).
fn boot_record(last_lba: u64, block_bytes: usize) -> Vec<u8> {
    let mut record = vec![0; block_bytes];
    let n_blocks = u32::try_from(last_lba).unwrap_or(u32::MAX);
    record[446..458].copy_from_slice(&[0, 0, 2, 0, 0xee, 0xff, 0xff, 0xff, 1, 0, 0, 0]);
    record[458..462].copy_from_slice(&n_blocks.to_le_bytes());
    record[510..512].copy_from_slice(&[0x55, 0xaa]);
    record
}

fn entries(partitions: &[Partition]) -> Option<Vec<u8>> {
    let entry_bytes = usize::from(ENTRY_BYTES);
    let mut entries = vec![0; usize::from(N_ENTRIES) * entry_bytes];
    for part in partitions {
        let index = usize::try_from(part.number).ok()?.checked_sub(1)?;
        let entry = entries.chunks_exact_mut(entry_bytes).nth(index)?;
        let last = part.first_block.checked_add(part.n_blocks)?.checked_sub(1)?;
        let numbers = [part.first_block, last, part.attributes].map(u64::to_le_bytes).concat();
        let name = utf16::encode(&part.name);
        let bytes = [&part.type_guid.0[..], &part.guid.0, &numbers, &name].concat();
        entry.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
    }
    Some(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpt::Header;

    fn partition(number: u32, first_block: u64, n_blocks: u64) -> Partition {
        Partition {
            number,
            type_guid: Guid([1; 16]),
            guid: Guid([2; 16]),
            attributes: 4,
            name: "data".into(),
            first_block,
            n_blocks,
            start_bytes: first_block.saturating_mul(512),
            size_bytes: n_blocks * 512,
        }
    }

    #[test]
    fn both_copies_of_a_built_table_are_read_back() {
        let parts = [partition(5, 100, 50), partition(7, 9_000, 967)];
        let built = build(&parts, Guid([3; 16]), 10_000, 512).unwrap();
        assert_eq!((built.start.len(), built.end.len()), (34 * 512, 33 * 512));
        assert!(crate::mbr::is_protective(&built.start));
        let primary = Header::parse(&built.start[512..]).unwrap();
        let backup = Header::parse(&built.end[32 * 512..]).unwrap();
        assert_eq!((primary.own_lba, primary.alternate_lba), (1, 9_999));
        assert_eq!((backup.own_lba, backup.alternate_lba), (9_999, 1));
        assert_eq!((primary.entries_lba, backup.entries_lba), (2, 9_967));
        assert_eq!(primary.last_usable_lba, 9_966);
        for (header, entries) in [(primary, &built.start[1024..]), (backup, &built.end[..16_384])] {
            assert_eq!(header.partitions(entries, 512).unwrap(), parts);
        }
    }

    #[test]
    fn blocks_of_4096_bytes_hold_the_entries_in_four() {
        let built = build(&[], Guid([3; 16]), 1_000, 4096).unwrap();
        assert_eq!((built.start.len(), built.end.len()), (6 * 4096, 5 * 4096));
        assert_eq!(Header::parse(&built.end[4 * 4096..]).unwrap().entries_lba, 995);
    }

    #[test]
    fn partition_that_the_table_or_the_disk_cannot_hold_is_refused() {
        for bad in [
            partition(129, 100, 1),
            partition(0, 100, 1),
            partition(1, 33, 1),
            partition(1, 9_966, 2),
            partition(1, u64::MAX, 2),
        ] {
            assert_eq!(build(&[bad], Guid([3; 16]), 10_000, 512), None);
        }
        assert_eq!(build(&[], Guid([3; 16]), 67, 512), None);
        assert!(build(&[], Guid([3; 16]), 68, 512).is_some());
    }
}
