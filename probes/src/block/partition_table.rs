//! Partition tables on the disk: GPT (UEFI 2.10 §5.3) and DOS (the classic master boot
//! record, whose logical partitions are in `logical`). Where the first GPT is damaged, its backup in the
//! last block is read (`gpt`).

mod gpt;
mod logical;

use formats::gpt::{self as format, Header};
use formats::mbr;

/// A partition table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Table {
    /// `gpt` or `dos`.
    pub kind: &'static str,
    /// The used entries.
    pub entries: Vec<Entry>,
    /// True if it was found by its backup alone; the kernel does not look for that, and so does not have any
    /// partitions.
    pub is_backup: bool,
}

/// Result of the search for a partition table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// The table, if one can be read.
    pub table: Option<Table>,
    /// Description of the fault in it.
    pub problem: Option<String>,
}

impl Found {
    /// True if there is a table that cannot be read.
    pub(super) fn is_lost(&self) -> bool {
        self.table.is_none() && self.problem.is_some()
    }
}

/// Source of a table.
pub(super) struct Place<'a> {
    /// Size of a logical block in bytes.
    pub block_bytes: u32,
    /// Size of the disk in bytes.
    pub size_bytes: Option<u64>,
    /// Reads bytes at an offset; `None` if they cannot be read.
    pub read: &'a mut dyn FnMut(u64, usize) -> Option<Vec<u8>>,
}

/// One used entry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Entry {
    /// From 1.
    pub number: u32,
    pub start_bytes: u64,
    pub size_bytes: u64,
    /// True if it only holds the logical partitions of a DOS table.
    pub is_extended: bool,
    pub label: Option<String>,
    pub uuid: Option<String>,
    pub type_uuid: Option<String>,
}

/// Reads the table; `first` are the first 4 KiB of the disk.
pub(super) fn table(first: &[u8], place: &mut Place<'_>) -> Found {
    let at = usize::try_from(place.block_bytes).ok();
    let header = match at.and_then(|at| first.get(at..at.checked_add(format::BLOCK_BYTES)?)) {
        Some(header) => Some(header.to_vec()),
        None if mbr::is_protective(first) => {
            (place.read)(u64::from(place.block_bytes), format::BLOCK_BYTES)
        }
        None => None,
    };
    match header.filter(|header| format::has_signature(header)) {
        Some(header) => match Header::parse(&header).and_then(|header| gpt::gpt(&header, place)) {
            Ok(table) => Found { table: Some(table), problem: None },
            Err(damage) => gpt::backup_of(&damage, place),
        },
        None if mbr::is_protective(first) => {
            gpt::backup_of("no GPT header after the protective boot record", place)
        }
        None => dos(first, place),
    }
}

/// Looks for the backup of a GPT whose first blocks are gone altogether.
pub(super) fn backup_alone(place: &mut Place<'_>) -> Found {
    let found = gpt::backup_of("nothing", place);
    if found.table.is_some() { found } else { Found::default() }
}

/// A boot record is a table only if all four entries are well-formed and one is used: a FAT or NTFS
/// volume has the same mark at its end.
fn dos(first: &[u8], place: &mut Place<'_>) -> Found {
    let Some(records) = mbr::entries(first).filter(|_| !mbr::is_volume(first)) else {
        return Found::default();
    };
    if records.iter().any(|record| record.status & 0x7f != 0) {
        return Found::default();
    }
    let block_bytes = u64::from(place.block_bytes);
    let number = mbr::disk_number(first);
    let used = (1..).zip(records).filter(|(_, record)| record.kind != 0 && record.n_blocks != 0);
    let mut entries: Vec<Entry> =
        used.map(|(n, record)| dos_entry(n, record, 0, block_bytes, number)).collect();
    let extended = entries.iter().find(|entry| entry.is_extended).map(|entry| entry.start_bytes);
    let mut problem = None;
    if let Some(start_bytes) = extended {
        let (chain, fault) = logical::entries(start_bytes, block_bytes, number, place.read);
        entries.extend(chain);
        problem = fault.map(str::to_owned);
    }
    let table = Table { kind: "dos", entries, is_backup: false };
    Found { table: (!table.entries.is_empty()).then_some(table), problem }
}

/// An entry of a boot record; its start counts from `base_bytes`. Blocks are logical ones, as in a GPT
/// (`block/partitions/msdos.c`).
fn dos_entry(
    number: u32,
    record: mbr::Entry,
    base_bytes: u64,
    block_bytes: u64,
    disk_number: u32,
) -> Entry {
    let start_bytes = u64::from(record.first_block) * block_bytes;
    Entry {
        number,
        start_bytes: base_bytes.saturating_add(start_bytes),
        size_bytes: u64::from(record.n_blocks) * block_bytes,
        is_extended: record.is_extended(),
        label: None,
        uuid: (disk_number != 0).then(|| format!("{disk_number:08x}-{number:02x}")),
        type_uuid: Some(format!("0x{:x}", record.kind)),
    }
}

#[cfg(test)]
mod tests {
    use formats::gpt::{ESP_TYPE, Partition, build::build};
    use formats::guid::Guid;

    use super::*;
    use crate::testing::bytes::reader;

    const N_BLOCKS: usize = 200;

    /// A disk with a table of one partition, and its backup.
    fn backed_up_disk(block_bytes: usize) -> Vec<u8> {
        let partition = Partition {
            number: 1,
            type_guid: ESP_TYPE,
            guid: Guid([7; 16]),
            name: "EF".to_owned(),
            first_block: 64,
            n_blocks: 32,
            ..Partition::default()
        };
        let table = build(&[partition], Guid([9; 16]), N_BLOCKS as u64, block_bytes).unwrap();
        let mut disk = table.start;
        disk.resize(N_BLOCKS * block_bytes - table.end.len(), 0);
        disk.extend(table.end);
        disk
    }

    /// The same disk without the backup.
    fn gpt_disk(block_bytes: usize) -> Vec<u8> {
        let mut disk = backed_up_disk(block_bytes);
        disk[128 * block_bytes..].fill(0);
        disk
    }

    fn of(disk: &[u8], block_bytes: u32) -> Found {
        let (size_bytes, read) = (Some(disk.len() as u64), &mut reader(disk));
        let first = &disk[..disk.len().min(4096)];
        table(first, &mut Place { block_bytes, size_bytes, read })
    }

    #[test]
    fn damaged_or_lost_gpt_is_found_by_its_backup_and_both_places_are_named() {
        for (block_bytes, damaged) in [(512, 512 + 20), (512, 512), (512, 1024 + 40), (4096, 4096)]
        {
            let mut disk = backed_up_disk(block_bytes);
            disk[damaged] ^= 0x55;
            let found = of(&disk, u32::try_from(block_bytes).unwrap());
            let table = found.table.unwrap();
            assert!(table.is_backup && table.entries[0].label.as_deref() == Some("EF"));
            let problem = found.problem.unwrap();
            assert!(problem.contains("at LBA 1, and"), "{problem}");
            assert!(problem.ends_with("at LBA 199"), "{problem}");
        }
    }

    #[test]
    fn gpt_without_a_sound_backup_or_its_entries_is_lost() {
        for at in [16, 20, 24, 40, 72] {
            let mut disk = backed_up_disk(512);
            let at_backup = 199 * 512 + at;
            (disk[512], disk[at_backup]) = (0, disk[at_backup] ^ 0x55);
            let found = of(&disk, 512);
            assert!(found.is_lost(), "{at}");
        }
        assert!(of(&gpt_disk(512)[..2048], 512).is_lost(), "without its entries");
        let mut disk = backed_up_disk(512);
        // A disk that has grown has its backup no longer in its last block.
        disk.resize(disk.len() + 4096, 0);
        disk[512] = 0;
        assert!(of(&disk, 512).is_lost());
    }

    #[test]
    fn table_with_wiped_first_blocks_is_found_by_its_backup() {
        let mut disk = backed_up_disk(512);
        disk[..17_408].fill(0);
        let (size_bytes, read) = (Some(disk.len() as u64), &mut reader(&disk));
        let found = backup_alone(&mut Place { block_bytes: 512, size_bytes, read });
        assert!(found.table.is_some_and(|table| table.is_backup) && found.problem.is_some());
        let (size_bytes, mut read) = (Some(8192), |_, n: usize| Some(vec![0; n]));
        let mut blank = Place { block_bytes: 512, size_bytes, read: &mut read };
        assert_eq!(backup_alone(&mut blank), Found::default());
    }

    #[test]
    fn valid_table_or_boot_record_costs_no_read_of_the_last_block() {
        let disk = gpt_disk(512);
        let mut places = Vec::new();
        let mut read = |at: u64, n: usize| {
            places.push(at);
            reader(&disk)(at, n)
        };
        let mut place = Place { block_bytes: 512, size_bytes: Some(1 << 30), read: &mut read };
        assert!(table(&disk[..4096], &mut place).table.is_some());
        assert_eq!(places, [1024]);
    }

    #[test]
    fn entries_of_type_zero_are_no_partitions() {
        let mut disk = vec![0; 4096];
        (disk[510], disk[511]) = (0x55, 0xaa);
        (disk[446 + 9], disk[446 + 12]) = (8, 1);
        assert_eq!(of(&disk, 512), Found::default());
        (disk[462 + 4], disk[462 + 9], disk[462 + 12]) = (0x83, 16, 1);
        let table = of(&disk, 512).table.unwrap();
        assert_eq!((table.entries.len(), table.entries[0].number), (1, 2));
    }

    #[test]
    fn gpt_is_read_for_both_block_sizes() {
        for block_bytes in [512_u32, 4096] {
            let table = of(&gpt_disk(block_bytes as usize), block_bytes).table.unwrap();
            assert_eq!((table.kind, table.entries.len()), ("gpt", 1));
            let entry = &table.entries[0];
            assert_eq!(entry.label.as_deref(), Some("EF"));
            assert_eq!(entry.start_bytes, 64 * u64::from(block_bytes));
            assert_eq!(entry.size_bytes, 32 * u64::from(block_bytes));
            let esp = "c12a7328-f81f-11d2-ba4b-00a0c93ec93b";
            assert_eq!(entry.type_uuid.as_deref(), Some(esp));
        }
    }

    #[test]
    fn boot_record_is_a_table_but_fat_volume_is_not() {
        let mut disk = vec![0; 4096];
        (disk[510], disk[511]) = (0x55, 0xaa);
        assert_eq!(of(&disk, 512), Found::default());
        disk[440..444].copy_from_slice(&0x55fe_f5a1_u32.to_le_bytes());
        (disk[446 + 4], disk[446 + 9], disk[446 + 12]) = (0x0c, 8, 1);
        let table = of(&disk, 512).table.unwrap();
        assert_eq!(table.entries[0].uuid.as_deref(), Some("55fef5a1-01"));
        assert_eq!(table.entries[0].type_uuid.as_deref(), Some("0xc"));
        assert_eq!(table.entries[0].start_bytes, 2048 * 512);
        assert_eq!(of(&disk, 4096).table.unwrap().entries[0].start_bytes, 2048 * 4096);
        disk[54..57].copy_from_slice(b"FAT");
        assert_eq!(of(&disk, 512), Found::default());
        assert_eq!(of(&[], 512), Found::default());
    }
}
