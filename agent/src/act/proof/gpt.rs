//! Reads the GUID partition table of a disk or image; `formats::gpt` checks and parses it.

use formats::gpt::{BLOCK_BYTES, Header, Partition, has_signature};

use super::disk::{Disk, ReadAt};

/// Length of the program for BIOS in a boot record.
const BOOT_PROGRAM_BYTES: usize = 440;
/// Offset of the four partitions of a boot record.
const PARTITIONS_AT: usize = 446;
/// Offset of its signature.
const SIGNATURE_AT: usize = 510;

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

/// Checks the boot record before the table (UEFI Specification 2.10, §5.2.3): without it firmware and kernel take the disk for
/// one without a table. Its program for BIOS must be the image's, if `head` has one.
///
/// # Errors
/// A message with the fault.
pub fn check_boot_record(source: &mut dyn ReadAt, head: &[u8]) -> Result<(), String> {
    let record = source.bytes_at(0, BLOCK_BYTES)?;
    let entries = record[PARTITIONS_AT..SIGNATURE_AT].chunks_exact(16);
    let is_protective = entries.clone().any(|entry| entry[4] == 0xee);
    if record[SIGNATURE_AT..] != [0x55, 0xaa] || !is_protective {
        return Err("no protective boot record in block 0".into());
    }
    match head.get(..BOOT_PROGRAM_BYTES) {
        Some(program) if record[..BOOT_PROGRAM_BYTES] != *program => {
            Err("the boot program in block 0 is not the image's".into())
        }
        _ => Ok(()),
    }
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
