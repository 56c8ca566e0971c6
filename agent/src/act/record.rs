//! Digests of an image's blocks, taken while the image passes: on its way to coreos-installer, or from the live medium.

use std::io::{self, Read};
use std::ops::Range;

use formats::gpt::Partition;
use sha2::{Digest as _, Sha256};

use super::stream_facts::{BOOT_BLOCK_BYTES, BootBlocks, Sample, boot_digest};

/// Block of a full record, in bytes.
const BLOCK_BYTES: usize = 1 << 20;
/// The most blocks that are recorded: an image of 1 TiB.
const MAX_BLOCKS: u64 = 1 << 20;
/// The largest boot partition whose small blocks are recorded, in bytes; `CoreOS` makes one of 384 MiB.
const MAX_BOOT_BYTES: u64 = 1 << 30;

/// The digests taken of an image.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) samples: Vec<Sample>,
    /// Size of the whole decompressed image; `None` if its end was not reached.
    pub(super) image_bytes: Option<u64>,
    /// True if every planned block was sampled.
    pub(super) is_complete: bool,
    /// The small blocks of the boot partition.
    pub(super) boot: Option<BootBlocks>,
}

/// Digests every block of an image with these partitions.
///
/// # Errors
/// The image breaks off, or is too large; the record contains what was read until then.
pub(super) fn whole(
    image: &mut dyn Read,
    partitions: &[Partition],
    record: &mut Record,
) -> io::Result<()> {
    let mut boot = partitions.iter().find(|part| part.name == "boot").and_then(Boot::new);
    let mut block = vec![0; BLOCK_BYTES];
    let mut offset = 0;
    for _ in 0..MAX_BLOCKS {
        let n = fill(image, &mut block)?;
        let bytes = &block[..n];
        if n > 0 {
            let sha256 = Sha256::digest(bytes).into();
            record.samples.push(Sample { offset, n_bytes: n, sha256 });
        }
        if let Some(boot) = &mut boot {
            boot.add(offset, bytes);
        }
        offset += n as u64;
        if n < BLOCK_BYTES {
            record.image_bytes = Some(offset);
            record.is_complete = true;
            record.boot = boot.map(|boot| boot.blocks);
            return Ok(());
        }
    }
    Err(io::ErrorKind::FileTooLarge.into())
}

/// The small blocks of the boot partition, as far as they were seen.
struct Boot {
    range: Range<u64>,
    zeros: [u8; 16],
    blocks: BootBlocks,
}

impl Boot {
    fn new(part: &Partition) -> Option<Self> {
        let (start, n_bytes) = (part.start_bytes, part.size_bytes);
        let fits = start.is_multiple_of(BOOT_BLOCK_BYTES as u64) && n_bytes <= MAX_BOOT_BYTES;
        fits.then(|| Self {
            range: start..start.saturating_add(n_bytes),
            zeros: boot_digest(&[0; BOOT_BLOCK_BYTES]),
            blocks: BootBlocks { start, digests: Vec::new() },
        })
    }

    /// Adds what lies in the partition of bytes at `offset` of the image.
    fn add(&mut self, offset: u64, bytes: &[u8]) {
        for (at, block) in (offset..).step_by(BOOT_BLOCK_BYTES).zip(bytes.chunks(BOOT_BLOCK_BYTES))
        {
            if self.range.contains(&at) {
                // Most of the partition is empty.
                let is_empty = block.len() == BOOT_BLOCK_BYTES && block.iter().all(|b| *b == 0);
                let digest = if is_empty { self.zeros } else { boot_digest(block) };
                self.blocks.digests.push(digest);
            }
        }
    }
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
    fn small_blocks_are_those_of_the_boot_partition_wherever_it_begins() {
        let image: Vec<u8> = (0..900_000_u32).flat_map(u32::to_le_bytes).collect();
        let start = (1 << 20) - 2048;
        let boot =
            Partition { start_bytes: start, size_bytes: 6144, ..gpt_partition(1, "boot", 0, 0) };
        let mut record = Record::default();
        whole(&mut &image[..], &[boot], &mut record).unwrap();
        assert_eq!(record.image_bytes, Some(3_600_000));
        let blocks = record.boot.unwrap();
        let from = usize::try_from(start).unwrap();
        let expected = image[from..from + 6144].chunks(1024).map(boot_digest);
        assert_eq!(blocks, BootBlocks { start, digests: expected.collect() });
    }
}
