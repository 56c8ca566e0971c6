//! The GUID partition table (UEFI 2.10 §5.3): a header in block 1 with its entries, and a backup of both
//! whose header is in the last block. The kernel uses the backup only if it is told to (`gpt` on its
//! command line), but what it describes is still on the disk.

use super::{Entry, Found, Place, Table, crc32, guid, le32, le64};

/// Most entries that are read; tools write 128.
const MAX_ENTRIES: u32 = 512;

/// What the backup tells of a table whose first part is `damage`. Both places are named.
pub(super) fn backup_of(damage: &str, place: &mut Place<'_>) -> Found {
    let block_bytes = u64::from(place.block_bytes);
    let blocks = place.size_bytes.and_then(|size_bytes| size_bytes.checked_div(block_bytes));
    // A disk without room for a table and its backup has none.
    let Some(last) = blocks.and_then(|n| n.checked_sub(1)).filter(|last| *last > 2) else {
        return Found { table: None, problem: Some(format!("{damage} at LBA 1")) };
    };
    let header = last.checked_mul(block_bytes).and_then(|at| (place.read)(at, 512));
    let is_backup = |header: &Vec<u8>| header.starts_with(b"EFI PART") && le64(header, 24) == last;
    let table = match header.filter(is_backup) {
        Some(header) => gpt(&header, place),
        None => Err("no backup"),
    };
    let (table, backup) = match table {
        Ok(table) => (Some(Table { is_backup: true, ..table }), "a sound backup"),
        Err(damage) => (None, damage),
    };
    Found { table, problem: Some(format!("{damage} at LBA 1, and {backup} at LBA {last}")) }
}

/// The table of a header. `Err` says what is wrong with it.
pub(super) fn gpt(header: &[u8], place: &mut Place<'_>) -> Result<Table, &'static str> {
    let block_bytes = u64::from(place.block_bytes);
    let n_header = usize::try_from(le32(header, 12)).unwrap_or_default();
    let mut checked = header
        .get(..n_header)
        .filter(|h| h.len() >= 92)
        .ok_or("a GPT header of a wrong size")?
        .to_vec();
    checked[16..20].fill(0);
    if crc32(&checked) != le32(header, 16) {
        return Err("a GPT header with a wrong checksum");
    }
    let (n_entries, entry_bytes) = (le32(header, 80), le32(header, 84));
    if !(128..=1024).contains(&entry_bytes) || n_entries > MAX_ENTRIES {
        return Err("a GPT with entries of an unlikely number or size");
    }
    let entry_bytes = usize::try_from(entry_bytes).unwrap_or(128);
    let n_bytes = usize::try_from(n_entries).unwrap_or_default() * entry_bytes;
    let offset =
        le64(header, 72).checked_mul(block_bytes).ok_or("a GPT with entries behind the end")?;
    let mut bytes = Vec::new();
    while bytes.len() < n_bytes {
        let next = (n_bytes - bytes.len()).min(crate::sys::disk::LIMIT_BYTES);
        match (place.read)(offset.saturating_add(bytes.len() as u64), next) {
            Some(part) if part.len() == next => bytes.extend(part),
            _ => return Err("a GPT with entries that cannot be read"),
        }
    }
    if crc32(&bytes) != le32(header, 88) {
        return Err("a GPT with entries that have a wrong checksum");
    }
    let entries = (1..).zip(bytes.chunks_exact(entry_bytes));
    let entries =
        entries.filter_map(|(number, entry)| gpt_entry(number, entry, block_bytes)).collect();
    Ok(Table { kind: "gpt", entries, is_backup: false })
}

fn gpt_entry(number: u32, entry: &[u8], block_bytes: u64) -> Option<Entry> {
    if entry[..16].iter().all(|byte| *byte == 0) {
        return None;
    }
    let units: Vec<u16> =
        entry[56..128].chunks_exact(2).map(|u| u16::from_le_bytes([u[0], u[1]])).collect();
    let label: Vec<u16> = units.into_iter().take_while(|unit| *unit != 0).collect();
    let (first, last) = (le64(entry, 32), le64(entry, 40));
    Some(Entry {
        number,
        start_bytes: first.checked_mul(block_bytes)?,
        size_bytes: last.checked_sub(first)?.checked_add(1)?.checked_mul(block_bytes)?,
        is_extended: false,
        label: Some(String::from_utf16_lossy(&label)).filter(|label| !label.is_empty()),
        uuid: Some(guid(&entry[16..32])),
        type_uuid: Some(guid(&entry[..16])),
    })
}
