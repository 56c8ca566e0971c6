//! Digests of an image's blocks, taken while the image passes: on its way to coreos-installer, or from the live medium.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::ops::Range;

use formats::ext4::{self, Layout};
use formats::gpt::Partition;
use sha2::{Digest as _, Sha256};

use super::stream_facts::{BOOT_BLOCK_BYTES, BootBlocks, Sample, boot_digest};

/// Block of a full record, in bytes.
const BLOCK_BYTES: usize = 1 << 20;
/// The most blocks that are recorded: an image of 1 TiB.
const MAX_BLOCKS: u64 = 1 << 20;
/// The largest boot partition whose small blocks are recorded, in bytes; `CoreOS` makes one of 384 MiB.
const MAX_BOOT_BYTES: u64 = 1 << 30;
/// The most that is kept of it, in bytes: tables, directories and text.
const MAX_KEPT_BYTES: usize = 8 << 20;

/// The digests taken of an image.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    /// The digests, in ascending order.
    pub samples: Vec<Sample>,
    /// Size of the whole decompressed image; `None` if its end was not reached.
    pub image_bytes: Option<u64>,
    /// True if every planned block was sampled.
    pub is_complete: bool,
    /// The boot file system.
    pub boot: Option<BootBlocks>,
    /// Why the end was not reached.
    pub fault: Option<String>,
}

/// Digests every block of an image with these partitions.
///
/// # Errors
/// The image breaks off, or is too large; the record contains what was read until then.
pub fn whole(
    image: &mut dyn Read,
    partitions: &[Partition],
    record: &mut Record,
) -> io::Result<()> {
    let mut boot = partitions.iter().find(|part| part.name == "boot").and_then(Boot::new);
    let mut block = vec![0; BLOCK_BYTES];
    let zeros: [u8; 32] = Sha256::digest(&block).into();
    let mut offset = 0;
    for _ in 0..MAX_BLOCKS {
        let n = fill(image, &mut block)?;
        let bytes = &block[..n];
        if n > 0 {
            // A large image is mostly empty.
            let is_empty = n == BLOCK_BYTES && is_zero(bytes);
            let sha256 = if is_empty { zeros } else { Sha256::digest(bytes).into() };
            record.samples.push(Sample { offset, n_bytes: n, sha256 });
        }
        if let Some(boot) = &mut boot {
            boot.add(offset, bytes);
        }
        offset += n as u64;
        if n < BLOCK_BYTES {
            record.image_bytes = Some(offset);
            record.is_complete = true;
            record.boot = boot.and_then(|boot| boot.blocks);
            return Ok(());
        }
    }
    Err(io::ErrorKind::FileTooLarge.into())
}

/// The boot partition, as far as it was seen.
struct Boot {
    range: Range<u64>,
    zeros: [u8; 16],
    /// The blocks of the file system with its tables.
    tables: Vec<Range<u64>>,
    n_kept: usize,
    /// `None` until its superblock was seen, and if it is no ext4 that is supported.
    blocks: Option<BootBlocks>,
}

impl Boot {
    fn new(part: &Partition) -> Option<Self> {
        let (start, n_bytes) = (part.start_bytes, part.size_bytes);
        let fits = start.is_multiple_of(BLOCK_BYTES as u64) && n_bytes <= MAX_BOOT_BYTES;
        fits.then(|| Self {
            range: start..start.saturating_add(n_bytes),
            zeros: boot_digest(&[0; BOOT_BLOCK_BYTES]),
            tables: Vec::new(),
            n_kept: 0,
            blocks: None,
        })
    }

    /// Adds what lies in the partition of bytes at `offset` of the image.
    fn add(&mut self, offset: u64, bytes: &[u8]) {
        let left = usize::try_from(self.range.end.saturating_sub(offset)).unwrap_or(usize::MAX);
        let bytes = &bytes[..left.min(bytes.len())];
        let Some(at) = offset.checked_sub(self.range.start).filter(|_| !bytes.is_empty()) else {
            return;
        };
        if at == 0 {
            self.begin(bytes);
        }
        let Some(blocks) = &mut self.blocks else { return };
        for small in bytes.chunks(BOOT_BLOCK_BYTES) {
            // Most of the partition is empty.
            let is_empty = small.len() == BOOT_BLOCK_BYTES && is_zero(small);
            blocks.digests.push(if is_empty { self.zeros } else { boot_digest(small) });
        }
        let n_block = blocks.layout.block_bytes;
        for (number, block) in (at / n_block as u64..).zip(bytes.chunks(n_block)) {
            let is_in_table = self.tables.iter().any(|table| table.contains(&number));
            if !is_zero(block) && (is_in_table || leads_on(&blocks.layout, block)) {
                self.n_kept += n_block;
                blocks.kept.insert(number, block.to_vec());
            }
        }
        if self.n_kept > MAX_KEPT_BYTES {
            self.blocks = None;
        }
    }

    fn begin(&mut self, bytes: &[u8]) {
        let superblock = bytes.get(ext4::SUPERBLOCK_BYTES..).and_then(Layout::parse);
        let tables = superblock.and_then(|layout| Some((layout, layout.tables(bytes)?)));
        let Some((layout, tables)) = tables else { return };
        let (start, digests, kept) = (self.range.start, Vec::new(), BTreeMap::new());
        self.blocks = Some(BootBlocks { start, digests, layout, kept });
        self.tables = tables;
    }
}

/// True if a block is needed to find files, or is text, as the configuration of a boot loader is.
fn leads_on(layout: &Layout, block: &[u8]) -> bool {
    let text = block.iter().rposition(|byte| *byte != 0).map_or(block, |last| &block[..=last]);
    layout.is_directory_block(block)
        || ext4::branches(block).is_some()
        || text.iter().all(|byte| *byte >= b' ' || byte.is_ascii_whitespace())
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

/// Reads until the buffer is full or the source ends.
pub(super) fn fill(source: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut n = 0;
    while n < buffer.len() {
        match source.read(&mut buffer[n..]) {
            Ok(0) => break,
            Ok(more) => n += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::act::testing::gpt_partition;

    #[test]
    fn all_of_a_boot_file_system_is_digested_and_what_leads_to_its_files_is_kept() {
        let mut image: Vec<u8> = (0..900_000_u32).flat_map(u32::to_le_bytes).collect();
        let file_system = &mut image[1 << 20..][..8192];
        file_system.fill(0);
        let superblock = &mut file_system[1024..2048];
        for (at, value) in [(0, 8_u32), (0x14, 1), (0x28, 8), (0x60, 0x42)] {
            superblock[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        superblock[0x38..0x3a].copy_from_slice(&[0x53, 0xef]);
        superblock[0x59] = 1;
        // The inodes are in block 4, text in block 7; block 6 is neither.
        (file_system[2048 + 8], file_system[4096], file_system[6144]) = (4, 9, 1);
        file_system[7168..7173].copy_from_slice(b"title");
        let boot =
            Partition { start_bytes: 1 << 20, size_bytes: 8192, ..gpt_partition(1, "boot", 0, 0) };
        let mut record = Record::default();
        whole(&mut &image[..], &[boot], &mut record).unwrap();
        assert_eq!(record.image_bytes, Some(3_600_000));
        let found = record.boot.unwrap();
        let digests: Vec<_> = image[1 << 20..][..8192].chunks(1024).map(boot_digest).collect();
        assert!(found.start == 1 << 20 && found.digests == digests);
        assert_eq!(found.kept.keys().copied().collect::<Vec<_>>(), [1, 2, 4, 7]);
    }
}
