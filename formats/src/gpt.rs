//! The GUID partition table: UEFI Specification 2.10, §5.3. Blocks have 512 or 4096 bytes.
//!
//! A header lies in block 1 and its backup in the last block. Both point to an array of entries.

use std::ops::RangeInclusive;

use crate::bytes::{array, le32, le64};
use crate::guid::Guid;
use crate::{Encoding, Field, Kind, utf16};

pub mod build;

pub use crc32fast::hash as crc32;

/// Number of bytes of a header's block that are read; no header is longer.
pub const BLOCK_BYTES: usize = 512;
/// The length that a header states for itself.
const HEADER_BYTES: RangeInclusive<u32> = 92..=512;
/// The most entries of a table; tools write 128.
const MAX_ENTRIES: u32 = 1024;
/// The size of one entry; tools write 128.
const ENTRY_BYTES: RangeInclusive<u32> = 128..=4096;

/// The damage of a table whose entries are not as many bytes as its header states, or cannot be read.
pub const UNREADABLE_ENTRIES: &str = "a GPT with entries that cannot be read";

const SIGNATURE: &[u8; 8] = b"EFI PART";
/// Type of the EFI system partition, `c12a7328-f81f-11d2-ba4b-00a0c93ec93b`.
pub const ESP_TYPE: Guid = Guid([
    0x28, 0x73, 0x2a, 0xc1, 0x1f, 0xf8, 0xd2, 0x11, 0xba, 0x4b, 0x00, 0xa0, 0xc9, 0x3e, 0xc9, 0x3b,
]);

/// A header whose checksum was verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    length: usize,
    /// The block in which this header lies.
    pub own_lba: u64,
    /// The block of the other header.
    pub alternate_lba: u64,
    /// The last block that a partition may use.
    pub last_usable_lba: u64,
    /// First block of the entries.
    pub entries_lba: u64,
    n_entries: u32,
    entry_bytes: u32,
    entries_crc32: u32,
}

impl Header {
    /// Reads the header at the start of `block`.
    ///
    /// # Errors
    /// The damage: no signature, an odd length or a wrong checksum.
    pub fn parse(block: &[u8]) -> Result<Header, String> {
        let header = Header::unverified(block)?;
        let bytes = block.get(..header.length).unwrap_or_default();
        let (found, stated) = (header_crc32(bytes), le32(bytes, 16));
        if found != stated {
            let sums = format!("{found:08x}, expected {stated:08x}");
            return Err(format!("a GPT header with a wrong checksum ({sums})"));
        }
        Ok(header)
    }

    /// Reads the header at the start of `block` without its checksum: a damaged header reveals as much.
    ///
    /// # Errors
    /// The damage: no signature or an odd length.
    pub fn unverified(block: &[u8]) -> Result<Header, String> {
        if !has_signature(block) {
            return Err("no GPT signature".to_owned());
        }
        let n_bytes = le32(block, 12);
        let length = usize::try_from(n_bytes).ok().filter(|_| HEADER_BYTES.contains(&n_bytes));
        let header = length.and_then(|length| block.get(..length));
        let header = header.ok_or_else(|| {
            format!("a GPT header of a wrong size ({n_bytes} bytes, expected 92 to 512)")
        })?;
        Ok(Header {
            length: header.len(),
            own_lba: le64(header, 24),
            alternate_lba: le64(header, 32),
            last_usable_lba: le64(header, 48),
            entries_lba: le64(header, 72),
            n_entries: le32(header, 80),
            entry_bytes: le32(header, 84),
            entries_crc32: le32(header, 88),
        })
    }

    /// Number of blocks that the disk had when the table was made.
    pub fn n_blocks(&self) -> u64 {
        self.alternate_lba.max(self.last_usable_lba).saturating_add(1)
    }

    /// Place of the entries on a disk with such blocks: offset and length in bytes.
    ///
    /// # Errors
    /// The damage: an unlikely number or size, or a place beyond the end of any disk.
    pub fn entries_place(&self, block_bytes: u64) -> Result<(u64, usize), String> {
        let (n, bytes) = (self.n_entries, self.entry_bytes);
        let n_bytes = n.checked_mul(bytes).and_then(|n_bytes| usize::try_from(n_bytes).ok());
        let is_likely = n <= MAX_ENTRIES && ENTRY_BYTES.contains(&bytes);
        let n_bytes = n_bytes.filter(|_| is_likely).ok_or_else(|| {
            format!("a GPT with entries of an unlikely number or size ({n} of {bytes} bytes)")
        })?;
        let lba = self.entries_lba;
        let offset = lba.checked_mul(block_bytes);
        let offset = offset.filter(|offset| offset.checked_add(n_bytes as u64).is_some());
        let far = || format!("a GPT with entries beyond the end of the disk (LBA {lba})");
        Ok((offset.ok_or_else(far)?, n_bytes))
    }

    /// The used entries among `bytes`, which were read from [`Header::entries_place`], in the order of
    /// their numbers. An entry that ends before it begins or lies beyond the end of any disk is skipped.
    ///
    /// # Errors
    /// The damage: bytes of another number, or a wrong checksum.
    pub fn partitions(&self, bytes: &[u8], block_bytes: u64) -> Result<Vec<Partition>, String> {
        let (_, n_bytes) = self.entries_place(block_bytes)?;
        if bytes.len() != n_bytes {
            return Err(UNREADABLE_ENTRIES.to_owned());
        }
        let (found, stated) = (crc32(bytes), self.entries_crc32);
        if found != stated {
            let sums = format!("{found:08x}, expected {stated:08x}");
            return Err(format!("a GPT with entries that have a wrong checksum ({sums})"));
        }
        let entry_bytes = usize::try_from(self.entry_bytes).unwrap_or(usize::MAX);
        let entries = (1..).zip(bytes.chunks_exact(entry_bytes));
        let partition = |(number, entry)| Partition::parse(number, entry, block_bytes);
        Ok(entries.filter_map(partition).collect())
    }

    /// Lists the places in the header's block that reveal something.
    pub fn fields(&self) -> Vec<Field> {
        vec![Field { span: 56..72, kind: Kind::Serial, encoding: Encoding::Guid }]
    }

    /// Lists the places in `entries` that reveal something: the GUIDs of the partitions. `entries` may be damaged or
    /// end too early. The type gives only a partition's purpose, and its name is as plain as the label of a file
    /// system: both show where CoreOS is installed.
    pub fn entry_fields(&self, entries: &[u8]) -> Vec<Field> {
        let Some(entry_bytes) = usize::try_from(self.entry_bytes).ok().filter(|n| *n >= 128) else {
            return Vec::new();
        };
        let is_used = |entry: &[u8]| {
            entry.len() >= 128 && array(entry, 0).map(Guid).is_some_and(|kind| !kind.is_nil())
        };
        let guid = |entry: &[u8]| {
            let used = entry.get(16..32).filter(|_| is_used(entry));
            used.map(|guid| Field::within(entries, guid, Kind::Serial, Encoding::Guid))
        };
        entries.chunks(entry_bytes).filter_map(guid).collect()
    }

    /// Writes the checksum of the entries, if it is known, and then the header's own into the header
    /// at the start of `block`, from which this one was read.
    pub fn seal(&self, block: &mut [u8], entries_crc32: Option<u32>) {
        let Some(header) = block.get_mut(..self.length) else { return };
        if let Some(sum) = entries_crc32 {
            header[88..92].copy_from_slice(&sum.to_le_bytes());
        }
        let sum = header_crc32(header);
        header[16..20].copy_from_slice(&sum.to_le_bytes());
    }
}

/// True if a header may begin here.
pub fn has_signature(block: &[u8]) -> bool {
    block.starts_with(SIGNATURE)
}

/// The checksum of a header, whose own field counts as 0.
fn header_crc32(header: &[u8]) -> u32 {
    let mut header = header.to_vec();
    header[16..20].fill(0);
    crc32(&header)
}

/// A partition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Partition {
    /// Number, from 1.
    pub number: u32,
    /// Type, which gives its purpose.
    pub type_guid: Guid,
    /// The GUID of the partition itself.
    pub guid: Guid,
    /// Flags, e.g. bit 2 for a partition that a BIOS boots.
    pub attributes: u64,
    /// Name, e.g. `EFI-SYSTEM`; often empty.
    pub name: String,
    /// First block.
    pub first_block: u64,
    /// Size in blocks.
    pub n_blocks: u64,
    /// Its offset on the disk, in bytes.
    pub start_bytes: u64,
    /// Size in bytes.
    pub size_bytes: u64,
}

impl Partition {
    /// One entry; `None` if it is unused or its bounds make no sense.
    fn parse(number: u32, entry: &[u8], block_bytes: u64) -> Option<Partition> {
        let type_guid = Guid(array(entry, 0)?);
        if type_guid.is_nil() {
            return None;
        }
        let (first_block, last_block) = (le64(entry, 32), le64(entry, 40));
        let n_blocks = last_block.checked_sub(first_block)?.checked_add(1)?;
        Some(Partition {
            number,
            type_guid,
            guid: Guid(array(entry, 16)?),
            attributes: le64(entry, 48),
            name: utf16::decode_to_nul(entry.get(56..128)?),
            first_block,
            n_blocks,
            start_bytes: first_block.checked_mul(block_bytes)?,
            size_bytes: n_blocks.checked_mul(block_bytes)?,
        })
    }
}

#[cfg(test)]
mod tests;
