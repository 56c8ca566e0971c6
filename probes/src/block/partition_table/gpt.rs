//! The GUID partition table (UEFI 2.10 §5.3): a header in block 1 with its entries, and a backup of both whose header
//! is in the last block. The kernel uses the backup only on request (`gpt` on its command line), but the partitions
//! that it describes are still on the disk.

use formats::gpt::{self as format, Header, Partition};

use super::{Entry, Found, Place, Table};

/// Reads the backup of a table whose primary header has the defect `damage`. The problem names both places.
pub(super) fn backup_of(damage: &str, place: &mut Place<'_>) -> Found {
    let block_bytes = u64::from(place.block_bytes);
    let blocks = place.size_bytes.and_then(|size_bytes| size_bytes.checked_div(block_bytes));
    // A disk without room for a table and its backup has none.
    let Some(last) = blocks.and_then(|n| n.checked_sub(1)).filter(|last| *last > 2) else {
        return Found { table: None, problem: Some(format!("{damage} at LBA 1")) };
    };
    let header = last.checked_mul(block_bytes).and_then(|at| (place.read)(at, format::BLOCK_BYTES));
    // A table that was copied with its disk's blocks states the other disk's last block.
    let backup = match header.filter(|block| format::has_signature(block)) {
        Some(block) => match Header::parse(&block) {
            Ok(header) if header.own_lba != last => None,
            header => Some(header.and_then(|header| gpt(&header, place))),
        },
        None => None,
    };
    let (table, backup) = match backup {
        Some(Ok(table)) => (Some(Table { is_backup: true, ..table }), "a sound backup".to_owned()),
        Some(Err(damage)) => (None, damage),
        None => (None, "no backup".to_owned()),
    };
    Found { table, problem: Some(format!("{damage} at LBA 1, and {backup} at LBA {last}")) }
}

/// The table of a header.
pub(super) fn gpt(header: &Header, place: &mut Place<'_>) -> Result<Table, String> {
    let block_bytes = u64::from(place.block_bytes);
    let (offset, n_bytes) = header.entries_place(block_bytes)?;
    let mut bytes = Vec::new();
    while bytes.len() < n_bytes {
        let next = (n_bytes - bytes.len()).min(crate::sys::disk::LIMIT_BYTES);
        match (place.read)(offset.saturating_add(bytes.len() as u64), next) {
            Some(part) if part.len() == next => bytes.extend(part),
            _ => return Err(format::UNREADABLE_ENTRIES.to_owned()),
        }
    }
    let partitions = header.partitions(&bytes, block_bytes)?;
    let entries = partitions.into_iter().map(entry).collect();
    Ok(Table { kind: "gpt", entries, is_backup: false })
}

fn entry(partition: Partition) -> Entry {
    Entry {
        number: partition.number,
        start_bytes: partition.start_bytes,
        size_bytes: partition.size_bytes,
        is_extended: false,
        label: Some(partition.name).filter(|name| !name.is_empty()),
        uuid: Some(partition.guid.to_string()),
        type_uuid: Some(partition.type_guid.to_string()),
    }
}
