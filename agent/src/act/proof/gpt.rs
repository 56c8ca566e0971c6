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
    let block = disk.bytes_at(sector_bytes, BLOCK_BYTES)?;
    if has_signature(&block) { Err(failed) } else { Ok(None) }
}

fn read_at(source: &mut dyn ReadAt, sector_bytes: u64, lba: u64) -> Result<Table, String> {
    let at = lba.checked_mul(sector_bytes).ok_or("a GPT header beyond the end of any disk")?;
    let header = Header::parse(&source.bytes_at(at, BLOCK_BYTES)?)?;
    let (offset, n_bytes) = header.entries_place(sector_bytes)?;
    let entries = source.bytes_at(offset, n_bytes)?;
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
    use formats::gpt::build::build;
    use formats::guid::Guid;

    use super::*;

    /// An image of 10,000 sectors with a partition of 50 sectors.
    fn image(sector: usize) -> Vec<u8> {
        let size = |n_sectors: u64| n_sectors * sector as u64;
        let part = Partition {
            number: 1,
            type_guid: Guid([1; 16]),
            guid: Guid([0x11; 16]),
            attributes: 0,
            name: "boot".into(),
            first_block: 100,
            n_blocks: 50,
            start_bytes: size(100),
            size_bytes: size(50),
        };
        build(&[part], Guid([2; 16]), 10_000, sector).unwrap().start
    }

    #[test]
    fn a_table_is_read_with_either_sector_size() {
        for sector in [512, 4096] {
            let image = image(sector);
            let parts = read(&mut &image[..], sector as u64).unwrap().partitions;
            assert_eq!(parts.len(), 1);
            assert_eq!((parts[0].number, parts[0].name.as_str()), (1, "boot"));
            assert_eq!(parts[0].start_bytes, 100 * sector as u64);
            assert_eq!(parts[0].size_bytes, 50 * sector as u64);
        }
    }

    #[test]
    fn a_damaged_table_is_an_error_and_never_a_panic() {
        let image = image(512);
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
