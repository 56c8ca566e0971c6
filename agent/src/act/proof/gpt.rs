//! Reads the GUID partition table of a disk or image; `formats::gpt` checks and parses it.

use formats::gpt::{BLOCK_BYTES, Header, Partition, has_signature};

use super::disk::{Disk, ReadAt};

/// A partition table with the header that describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// The header, with the positions of the table and its backup.
    pub header: Header,
    /// The partitions, in the order of their numbers.
    pub partitions: Vec<Partition>,
}

/// Reads the table at the start of a disk or image.
///
/// # Errors
/// A message if the disk cannot be read, the header is invalid, entries have an odd size, or a checksum is wrong.
pub fn read(source: &mut dyn ReadAt, sector_bytes: u64) -> Result<Table, String> {
    read_at(source, sector_bytes, 1)
}

/// Reads the table, or its backup in the last block; `None` if the disk has neither.
///
/// # Errors
/// A message if the disk cannot be read, or if its table is damaged.
pub fn read_any(disk: &mut Disk, sector_bytes: u64) -> Result<Option<Table>, String> {
    let failed = match read(disk, sector_bytes) {
        Ok(table) => return Ok(Some(table)),
        Err(failed) => failed,
    };
    let last_lba = (disk.size()? / sector_bytes).saturating_sub(1);
    if let Ok(backup) = read_at(disk, sector_bytes, last_lba) {
        return Ok(Some(backup));
    }
    let mut block = [0; BLOCK_BYTES];
    disk.read_at(sector_bytes, &mut block)?;
    if has_signature(&block) { Err(failed) } else { Ok(None) }
}

fn read_at(source: &mut dyn ReadAt, sector_bytes: u64, lba: u64) -> Result<Table, String> {
    let mut block = [0; BLOCK_BYTES];
    let at = lba.checked_mul(sector_bytes).ok_or("a GPT header beyond the end of any disk")?;
    source.read_at(at, &mut block)?;
    let header = Header::parse(&block)?;
    let (offset, n_bytes) = header.entries_place(sector_bytes)?;
    let mut entries = vec![0; n_bytes];
    source.read_at(offset, &mut entries)?;
    Ok(Table { header, partitions: header.partitions(&entries, sector_bytes)? })
}

/// Checks the backup of `table`, and that it lies in block `last_lba` if that is known. Returns where it lies.
///
/// coreos-installer copies the table of an image as it is, so that the backup lies at the end of the image
/// until the first boot moves it. Only if it saves partitions does it write a table for the whole disk
/// (`src/download.rs`, `image_copy_default`).
///
/// # Errors
/// A message if it cannot be read, is damaged, lies elsewhere, or differs from the table.
pub fn check_backup(
    source: &mut dyn ReadAt,
    sector_bytes: u64,
    table: &Table,
    last_lba: Option<u64>,
) -> Result<String, String> {
    let at = table.header.alternate_lba;
    if let Some(last_lba) = last_lba.filter(|last_lba| *last_lba != at) {
        return Err(format!("in block {at}, the last block of the disk is {last_lba}"));
    }
    let backup =
        read_at(source, sector_bytes, at).map_err(|error| format!("block {at}: {error}"))?;
    if backup.header.own_lba != at || backup.header.alternate_lba != table.header.own_lba {
        return Err(format!("block {at} contains a header of another place"));
    }
    if backup.partitions != table.partitions {
        return Err(format!("block {at} lists other partitions"));
    }
    Ok(format!("block {at}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CRC-32 bit by bit, so that the images of these tests share nothing with the parser.
    fn crc32(bytes: &[u8]) -> u32 {
        !bytes.iter().fold(!0, |crc: u32, byte| {
            (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
                (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
            })
        })
    }

    /// An image with a partition table: (type GUID in disk order, name, first sector, sectors).
    fn table(sector: usize, n_sectors: u64, parts: &[([u8; 16], &str, u64, u64)]) -> Vec<u8> {
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
    fn a_table_is_read_with_either_sector_size() {
        for sector in [512, 4096] {
            let image = table(sector, 10_000, &[([1; 16], "boot", 100, 50)]);
            let parts = read(&mut &image[..], sector as u64).unwrap().partitions;
            assert_eq!(parts.len(), 1);
            assert_eq!((parts[0].number, parts[0].name.as_str()), (1, "boot"));
            assert_eq!(parts[0].start_bytes, 100 * sector as u64);
            assert_eq!(parts[0].size_bytes, 50 * sector as u64);
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
}
