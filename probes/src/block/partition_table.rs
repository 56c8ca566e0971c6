//! Partition tables as they stand on the disk: GPT (UEFI 2.10 §5.3) and DOS (the classic master boot
//! record, whose logical partitions are in `logical`).

mod logical;

use crate::hex::hex;
use crate::machine::escape_non_utf8;

/// Most entries of a GPT that are read; tools write 128.
const MAX_ENTRIES: u32 = 512;

/// A partition table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Table {
    /// `gpt` or `dos`.
    pub kind: &'static str,
    /// The used entries.
    pub entries: Vec<Entry>,
}

/// One used entry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Entry {
    /// From 1.
    pub number: u32,
    pub start_bytes: u64,
    pub size_bytes: u64,
    /// Whether it only holds the logical partitions of a DOS table.
    pub is_extended: bool,
    pub label: Option<String>,
    pub uuid: Option<String>,
    pub type_uuid: Option<String>,
}

/// Reads the table with `read(offset_bytes, n_bytes)`. `Err` says what is wrong with a table that is
/// there and damaged.
pub(super) fn table(
    first: &[u8],
    block_bytes: u32,
    read: &mut dyn FnMut(u64, usize) -> Option<Vec<u8>>,
) -> Result<Option<Table>, &'static str> {
    let block_bytes = u64::from(block_bytes);
    let header = match usize::try_from(block_bytes).ok().and_then(|at| first.get(at..at + 512)) {
        Some(header) => Some(header.to_vec()),
        None if is_protective(first) => read(block_bytes, 512),
        None => None,
    };
    match header.filter(|header| header.starts_with(b"EFI PART")) {
        Some(header) => gpt(&header, block_bytes, read).map(Some),
        None if is_protective(first) => Err("no GPT header behind the protective boot record"),
        None => Ok(dos(first, block_bytes, read)),
    }
}

fn gpt(
    header: &[u8],
    block_bytes: u64,
    read: &mut dyn FnMut(u64, usize) -> Option<Vec<u8>>,
) -> Result<Table, &'static str> {
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
        match read(offset.saturating_add(bytes.len() as u64), next) {
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
    Ok(Table { kind: "gpt", entries })
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

/// Whether the boot record only says that a GPT follows.
fn is_protective(first: &[u8]) -> bool {
    has_boot_mark(first) && (0..4).any(|i| first[446 + 16 * i + 4] == 0xee)
}

fn has_boot_mark(first: &[u8]) -> bool {
    first.get(510..512) == Some(&[0x55, 0xaa])
}

/// A boot record is a table only if all four entries are well-formed and one is used: a FAT or NTFS
/// volume has the same mark at its end.
fn dos(
    first: &[u8],
    block_bytes: u64,
    read: &mut dyn FnMut(u64, usize) -> Option<Vec<u8>>,
) -> Option<Table> {
    if !has_boot_mark(first) {
        return None;
    }
    let is_volume = &first[3..7] == b"NTFS" || &first[3..8] == b"EXFAT";
    let is_volume = is_volume || &first[54..57] == b"FAT" || &first[82..85] == b"FAT";
    let records: Vec<&[u8]> = first[446..510].chunks_exact(16).collect();
    if is_volume || records.iter().any(|record| record[0] & 0x7f != 0) {
        return None;
    }
    let signature = le32(first, 440);
    let used = (1..).zip(records).filter(|(_, record)| record[4] != 0 && le32(record, 12) != 0);
    let mut entries: Vec<Entry> =
        used.map(|(number, record)| dos_entry(number, record, 0, block_bytes, signature)).collect();
    let extended = entries.iter().find(|entry| entry.is_extended).map(|entry| entry.start_bytes);
    if let Some(start_bytes) = extended {
        entries.extend(logical::entries(start_bytes, block_bytes, signature, read));
    }
    (!entries.is_empty()).then_some(Table { kind: "dos", entries })
}

/// A record of 16 bytes; its start counts from `base_bytes`. Blocks are logical ones, as in a GPT
/// (`block/partitions/msdos.c`).
fn dos_entry(
    number: u32,
    record: &[u8],
    base_bytes: u64,
    block_bytes: u64,
    signature: u32,
) -> Entry {
    let kind = record.get(4).copied().unwrap_or_default();
    Entry {
        number,
        start_bytes: base_bytes.saturating_add(u64::from(le32(record, 8)) * block_bytes),
        size_bytes: u64::from(le32(record, 12)) * block_bytes,
        is_extended: matches!(kind, 0x05 | 0x0f | 0x85),
        label: None,
        uuid: (signature != 0).then(|| format!("{signature:08x}-{number:02x}")),
        type_uuid: Some(format!("0x{kind:x}")),
    }
}

/// A GUID with its first three fields in little-endian order, as UEFI stores it.
fn guid(b: &[u8]) -> String {
    let order = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    let bytes: Vec<u8> = order.iter().filter_map(|i| b.get(*i).copied()).collect();
    uuid(&bytes)
}

/// Sixteen bytes as a UUID.
pub(super) fn uuid(bytes: &[u8]) -> String {
    let digits = hex(bytes);
    match digits.len() {
        32 => format!(
            "{}-{}-{}-{}-{}",
            &digits[..8],
            &digits[8..12],
            &digits[12..16],
            &digits[16..20],
            &digits[20..]
        ),
        _ => digits,
    }
}

/// Two, four or eight bytes at `at` in little-endian order; 0 behind the end.
pub(super) fn le16(bytes: &[u8], at: usize) -> u16 {
    array(bytes, at).map(u16::from_le_bytes).unwrap_or_default()
}
/// As [`le16`].
pub(super) fn le32(bytes: &[u8], at: usize) -> u32 {
    array(bytes, at).map(u32::from_le_bytes).unwrap_or_default()
}
/// As [`le16`].
pub(super) fn le64(bytes: &[u8], at: usize) -> u64 {
    array(bytes, at).map(u64::from_le_bytes).unwrap_or_default()
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// Text up to the first NUL, without blanks around it.
pub(super) fn text(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let text = escape_non_utf8(&bytes[..end]).trim().to_owned();
    (!text.is_empty()).then_some(text)
}

/// CRC-32 of IEEE 802.3, as UEFI uses it.
pub(super) fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpt_disk(block_bytes: usize) -> Vec<u8> {
        let mut disk = vec![0; 8 * block_bytes + 128 * 128];
        (disk[510], disk[511], disk[446 + 4]) = (0x55, 0xaa, 0xee);
        let entries = 2 * block_bytes;
        disk[entries..entries + 4].copy_from_slice(&0xC12A_7328_u32.to_le_bytes());
        disk[entries + 16] = 7;
        disk[entries + 32..entries + 40].copy_from_slice(&2048_u64.to_le_bytes());
        disk[entries + 40..entries + 48].copy_from_slice(&4095_u64.to_le_bytes());
        disk[entries + 56..entries + 60].copy_from_slice(b"E\0F\0");
        let crc = crc32(&disk[entries..entries + 128 * 128]);
        let mut header = vec![0; 92];
        header[..8].copy_from_slice(b"EFI PART");
        header[12..16].copy_from_slice(&92_u32.to_le_bytes());
        header[72..80].copy_from_slice(&2_u64.to_le_bytes());
        header[80..84].copy_from_slice(&128_u32.to_le_bytes());
        header[84..88].copy_from_slice(&128_u32.to_le_bytes());
        header[88..92].copy_from_slice(&crc.to_le_bytes());
        let crc = crc32(&header);
        header[16..20].copy_from_slice(&crc.to_le_bytes());
        disk[block_bytes..block_bytes + 92].copy_from_slice(&header);
        disk
    }

    fn of(disk: &[u8], block_bytes: u32) -> Result<Option<Table>, &'static str> {
        let mut read =
            |at: u64, n: usize| disk.get(usize::try_from(at).ok()?..)?.get(..n).map(<[u8]>::to_vec);
        table(&disk[..disk.len().min(4096)], block_bytes, &mut read)
    }

    #[test]
    fn a_gpt_is_read_for_both_block_sizes() {
        for block_bytes in [512_u32, 4096] {
            let table = of(&gpt_disk(block_bytes as usize), block_bytes).unwrap().unwrap();
            assert_eq!((table.kind, table.entries.len()), ("gpt", 1));
            let entry = &table.entries[0];
            assert_eq!(entry.label.as_deref(), Some("EF"));
            assert_eq!(entry.start_bytes, 2048 * u64::from(block_bytes));
            assert_eq!(entry.size_bytes, 2048 * u64::from(block_bytes));
            assert_eq!(entry.type_uuid.as_deref(), Some("c12a7328-0000-0000-0000-000000000000"));
        }
    }

    #[test]
    fn a_damaged_gpt_is_named_and_not_used() {
        for at in [512 + 20, 512 + 80, 1024 + 40, 512] {
            let mut disk = gpt_disk(512);
            disk[at] ^= 0x55;
            assert!(of(&disk, 512).is_err(), "{at}");
        }
        assert!(of(&gpt_disk(512)[..2048], 512).is_err());
    }

    #[test]
    fn a_boot_record_is_a_table_and_a_fat_volume_is_none() {
        let mut disk = vec![0; 4096];
        (disk[510], disk[511]) = (0x55, 0xaa);
        assert_eq!(of(&disk, 512), Ok(None));
        disk[440..444].copy_from_slice(&0x55fe_f5a1_u32.to_le_bytes());
        (disk[446 + 4], disk[446 + 9], disk[446 + 12]) = (0x0c, 8, 1);
        let table = of(&disk, 512).unwrap().unwrap();
        assert_eq!(table.entries[0].uuid.as_deref(), Some("55fef5a1-01"));
        assert_eq!(table.entries[0].type_uuid.as_deref(), Some("0xc"));
        assert_eq!(table.entries[0].start_bytes, 2048 * 512);
        assert_eq!(of(&disk, 4096).unwrap().unwrap().entries[0].start_bytes, 2048 * 4096);
        disk[54..57].copy_from_slice(b"FAT");
        assert_eq!(of(&disk, 512), Ok(None));
        assert_eq!(of(&[], 512), Ok(None));
    }

    #[test]
    fn the_checksum_is_that_of_the_standard() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }
}
