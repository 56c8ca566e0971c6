//! The GUID partition table: UEFI Specification 2.10, §5.3. Sectors may have 512 or 4096 bytes.

use super::disk::ReadAt;

/// The most partition entries that are read.
const MAX_ENTRIES: u32 = 1024;
/// The largest partition entry that is read, in bytes.
const MAX_ENTRY_BYTES: u32 = 4096;

/// Type GUID of the EFI system partition.
pub const ESP_TYPE: &str = "c12a7328-f81f-11d2-ba4b-00a0c93ec93b";

/// The primary header, its checksum verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    alternate_lba: u64,
    last_usable_lba: u64,
    entries_lba: u64,
    n_entries: u32,
    entry_bytes: u32,
    entries_crc32: u32,
}

impl Header {
    /// How many sectors the disk had for which the table was made.
    #[must_use]
    pub fn n_sectors(&self) -> u64 {
        self.alternate_lba.max(self.last_usable_lba).saturating_add(1)
    }
}

/// A partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// Number, from 1.
    pub number: u32,
    /// Type GUID, lower case.
    pub type_guid: String,
    /// GUID of the partition itself, as it stands on the disk.
    pub guid_bytes: [u8; 16],
    /// Name, e.g. `EFI-SYSTEM`.
    pub name: String,
    /// First sector.
    pub first_sector: u64,
    /// Size in sectors.
    pub n_sectors: u64,
    /// Where it begins, in bytes.
    pub start_bytes: u64,
    /// Size in bytes.
    pub size_bytes: u64,
}

/// Reads the primary header.
///
/// # Errors
/// In words: no signature, an odd size, or a wrong checksum.
pub fn header(source: &mut dyn ReadAt, sector_bytes: u64) -> Result<Header, String> {
    let mut sector = [0; 512];
    source.read_at(sector_bytes, &mut sector)?;
    if &sector[..8] != b"EFI PART" {
        return Err(format!("no GPT signature at byte {sector_bytes}"));
    }
    let header_bytes = u32_at(&sector, 12) as usize;
    if !(92..=512).contains(&header_bytes) {
        return Err(format!("a GPT header of {header_bytes} bytes, expected 92 to 512"));
    }
    let (wanted, mut copy) = (u32_at(&sector, 16), sector);
    copy[16..20].fill(0);
    let found = crc32(&copy[..header_bytes]);
    if found != wanted {
        return Err(format!("the GPT header's checksum is {found:08x}, expected {wanted:08x}"));
    }
    Ok(Header {
        alternate_lba: u64_at(&sector, 32),
        last_usable_lba: u64_at(&sector, 48),
        entries_lba: u64_at(&sector, 72),
        n_entries: u32_at(&sector, 80),
        entry_bytes: u32_at(&sector, 84),
        entries_crc32: u32_at(&sector, 88),
    })
}

/// Reads the partitions, in the order of their numbers.
///
/// # Errors
/// In words: no valid header, entries of an odd size, or a wrong checksum.
pub fn read(source: &mut dyn ReadAt, sector_bytes: u64) -> Result<Vec<Partition>, String> {
    let header = header(source, sector_bytes)?;
    if header.n_entries > MAX_ENTRIES || !(128..=MAX_ENTRY_BYTES).contains(&header.entry_bytes) {
        return Err(format!(
            "a GPT of {} entries of {} bytes, expected at most {MAX_ENTRIES} of 128 to {MAX_ENTRY_BYTES}",
            header.n_entries, header.entry_bytes
        ));
    }
    let offset = header
        .entries_lba
        .checked_mul(sector_bytes)
        .ok_or_else(|| format!("GPT entries at sector {}", header.entries_lba))?;
    let mut bytes = vec![0; header.n_entries as usize * header.entry_bytes as usize];
    source.read_at(offset, &mut bytes)?;
    let found = crc32(&bytes);
    if found != header.entries_crc32 {
        return Err(format!(
            "the GPT entries' checksum is {found:08x}, expected {:08x}",
            header.entries_crc32
        ));
    }
    let entries = bytes.chunks_exact(header.entry_bytes as usize);
    Ok((1..)
        .zip(entries)
        .filter_map(|(number, entry)| partition(number, entry, sector_bytes))
        .collect())
}

/// One entry; `None` if it is unused or its bounds make no sense.
fn partition(number: u32, entry: &[u8], sector_bytes: u64) -> Option<Partition> {
    if entry[..16].iter().all(|byte| *byte == 0) {
        return None;
    }
    let (first, last) = (u64_at(entry, 32), u64_at(entry, 40));
    let n_sectors = last.checked_sub(first)?.checked_add(1)?;
    let units: Vec<u16> = entry[56..128]
        .chunks_exact(2)
        .map(|pair| u16::from_le_bytes([pair[0], pair[1]]))
        .take_while(|unit| *unit != 0)
        .collect();
    Some(Partition {
        number,
        type_guid: guid(&entry[..16]),
        guid_bytes: entry[16..32].try_into().ok()?,
        name: String::from_utf16_lossy(&units),
        first_sector: first,
        n_sectors,
        start_bytes: first.checked_mul(sector_bytes)?,
        size_bytes: n_sectors.checked_mul(sector_bytes)?,
    })
}

/// A GUID in text; its first three groups are little-endian.
fn guid(bytes: &[u8]) -> String {
    let order = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15].map(|at: usize| bytes[at]);
    let hex = crate::digest::hex(&order);
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut four = [0; 4];
    four.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(four)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut eight = [0; 8];
    eight.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(eight)
}

/// CRC-32 as GPT has it (reversed polynomial `EDB88320h`).
#[must_use]
pub fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc: u32, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
        })
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An image with a partition table: (type GUID in disk order, name, first sector, sectors).
    pub(crate) fn table(
        sector: usize,
        n_sectors: u64,
        parts: &[([u8; 16], &str, u64, u64)],
    ) -> Vec<u8> {
        let mut entries = vec![0_u8; 128 * 128];
        for (at, (kind, name, first, n)) in parts.iter().enumerate() {
            let entry = &mut entries[at * 128..][..128];
            entry[..16].copy_from_slice(kind);
            entry[16..32].fill(0x11);
            entry[32..40].copy_from_slice(&first.to_le_bytes());
            entry[40..48].copy_from_slice(&(first + n - 1).to_le_bytes());
            for (at, unit) in name.encode_utf16().enumerate() {
                entry[56 + at * 2..][..2].copy_from_slice(&unit.to_le_bytes());
            }
        }
        let mut header = [0_u8; 92];
        header[..8].copy_from_slice(b"EFI PART");
        header[8..12].copy_from_slice(&0x1_0000_u32.to_le_bytes());
        header[12..16].copy_from_slice(&92_u32.to_le_bytes());
        header[24..32].copy_from_slice(&1_u64.to_le_bytes());
        header[32..40].copy_from_slice(&(n_sectors - 1).to_le_bytes());
        header[48..56].copy_from_slice(&(n_sectors - 40).to_le_bytes());
        header[72..80].copy_from_slice(&2_u64.to_le_bytes());
        header[80..84].copy_from_slice(&128_u32.to_le_bytes());
        header[84..88].copy_from_slice(&128_u32.to_le_bytes());
        header[88..92].copy_from_slice(&crc32(&entries).to_le_bytes());
        let crc = crc32(&header);
        header[16..20].copy_from_slice(&crc.to_le_bytes());
        let mut image = vec![0; sector * 2 + entries.len()];
        image[sector..sector + 92].copy_from_slice(&header);
        image[sector * 2..].copy_from_slice(&entries);
        image
    }

    #[test]
    fn the_checksum_is_the_usual_one() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn a_table_is_read_with_either_sector_size() {
        for sector in [512, 4096] {
            let image = table(sector, 10_000, &[([1; 16], "boot", 100, 50)]);
            let parts = read(&mut &image[..], sector as u64).unwrap();
            assert_eq!(parts.len(), 1);
            assert_eq!((parts[0].number, parts[0].name.as_str()), (1, "boot"));
            assert_eq!(parts[0].start_bytes, 100 * sector as u64);
            assert_eq!(parts[0].size_bytes, 50 * sector as u64);
            assert_eq!(header(&mut &image[..], sector as u64).unwrap().n_sectors(), 10_000);
        }
    }

    #[test]
    fn a_damaged_table_is_an_error_and_never_a_panic() {
        let image = table(512, 10_000, &[([1; 16], "boot", 100, 50)]);
        for at in [512, 512 + 13, 512 + 16, 512 + 80, 512 + 84, 1024 + 40] {
            let mut damaged = image.clone();
            damaged[at] ^= 0xff;
            assert!(read(&mut &damaged[..], 512).is_err(), "{at}");
        }
        for length in [0, 100, 600, 1023, 2000] {
            assert!(read(&mut &image[..length], 512).is_err(), "{length}");
        }
        assert!(read(&mut &image[..], 4096).is_err());
    }

    #[test]
    fn entries_that_make_no_sense_are_left_out() {
        let image = table(
            512,
            10_000,
            &[([1; 16], "a", 100, 1), ([1; 16], "b", u64::MAX - 5, 3), ([0; 16], "unused", 1, 1)],
        );
        let parts = read(&mut &image[..], 512).unwrap();
        assert_eq!(parts.iter().map(|part| part.name.as_str()).collect::<Vec<_>>(), ["a"]);
    }
}
