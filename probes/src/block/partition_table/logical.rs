//! Logical partitions of a DOS table: a chain of boot records in the extended partition
//! (`parse_extended`, `block/partitions/msdos.c`). Each describes its partitions from itself on, and
//! the next record from the start of the extended partition on.

use formats::mbr;

use super::{Entry, dos_entry};

/// The first logical partition is 5, however many primary ones there are.
const FIRST: u32 = 5;
/// Most records that are read: a chain may lead round in a circle.
const MAX_RECORDS: usize = 64;

/// The logical partitions, and the fault in their chain.
pub(super) fn entries(
    extended_bytes: u64,
    block_bytes: u64,
    disk_number: u32,
    read: &mut dyn FnMut(u64, usize) -> Option<Vec<u8>>,
) -> (Vec<Entry>, Option<&'static str>) {
    let mut chain = Vec::new();
    let (mut at, mut number) = (extended_bytes, FIRST);
    for _ in 0..MAX_RECORDS {
        let block = read(at, mbr::RECORD_BYTES);
        let Some(records) = block.and_then(|block| mbr::entries(&block)) else {
            return (chain, None);
        };
        let mut next = None;
        // The last two records of a block are not used.
        for record in records.into_iter().take(2) {
            if record.n_blocks == 0 {
                continue;
            }
            // No partition, but the kernel counts it as one.
            if record.kind == 0 {
                number += 1;
                continue;
            }
            let entry = dos_entry(number, record, at, block_bytes, disk_number);
            if entry.is_extended {
                let from_start = u64::from(record.first_block) * block_bytes;
                next = next.or(extended_bytes.checked_add(from_start));
            } else {
                chain.push(entry);
                number += 1;
            }
        }
        match next {
            Some(next) => at = next,
            None => return (chain, None),
        }
    }
    (chain, Some("more than 64 logical partitions, or a chain that leads round in a circle"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::bytes::reader;

    /// A boot record with a partition and the next record, each as start and number of blocks.
    fn record(disk: &mut [u8], at: usize, partition: (u32, u32), next: Option<(u32, u32)>) {
        let at = at * 512;
        (disk[at + 510], disk[at + 511]) = (0x55, 0xaa);
        let records = [Some((0x83, partition)), next.map(|next| (0x05, next))];
        for (index, (kind, (start, n_blocks))) in records.into_iter().flatten().enumerate() {
            let record = &mut disk[at + 446 + 16 * index..][..16];
            record[4] = kind;
            record[8..12].copy_from_slice(&start.to_le_bytes());
            record[12..16].copy_from_slice(&n_blocks.to_le_bytes());
        }
    }

    fn of(disk: &[u8]) -> Vec<(u32, u64, u64)> {
        let (found, problem) = entries(8 * 512, 512, 1, &mut reader(disk));
        assert_eq!(problem.is_some(), found.len() >= MAX_RECORDS);
        found.iter().map(|e| (e.number, e.start_bytes / 512, e.size_bytes / 512)).collect()
    }

    #[test]
    fn logical_partitions_are_counted_from_five_and_from_their_own_record() {
        let mut disk = vec![0; 64 * 512];
        record(&mut disk, 8, (1, 3), Some((16, 8)));
        record(&mut disk, 24, (2, 4), None);
        assert_eq!(of(&disk), [(5, 9, 3), (6, 26, 4)]);
    }

    #[test]
    fn more_logical_partitions_than_the_limit_are_a_problem() {
        let mut disk = vec![0; 2 * MAX_RECORDS * 512];
        for index in 0..u32::try_from(MAX_RECORDS).unwrap() {
            let at = 8 + usize::try_from(index).unwrap();
            record(&mut disk, at, (1, 1), Some((index + 1, 1)));
        }
        // `of` asserts that the chain is reported as too long.
        assert_eq!(of(&disk).len(), MAX_RECORDS);
    }

    #[test]
    fn entry_of_type_zero_is_not_a_partition_but_uses_a_number() {
        let mut disk = vec![0; 64 * 512];
        record(&mut disk, 8, (1, 3), Some((16, 8)));
        record(&mut disk, 24, (2, 4), None);
        disk[8 * 512 + 446 + 4] = 0;
        assert_eq!(of(&disk), [(6, 26, 4)]);
    }

    #[test]
    fn cyclic_or_overlong_chain_of_logical_partitions_ends() {
        let mut disk = vec![0; 64 * 512];
        record(&mut disk, 8, (1, 3), Some((0, 8)));
        assert_eq!(of(&disk).len(), MAX_RECORDS);
        record(&mut disk, 8, (1, 3), Some((u32::MAX, 8)));
        assert_eq!(of(&disk), [(5, 9, 3)]);
        assert_eq!(of(&[]), []);
    }
}
