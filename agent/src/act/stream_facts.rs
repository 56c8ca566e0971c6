//! Facts learned of an image while it was streamed to coreos-installer, for the proof.

use std::collections::BTreeMap;

use formats::ext4::Layout;
use sha2::{Digest as _, Sha256};

/// The facts learned of an image.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamFacts {
    /// Digest of the stored bytes, e.g. `sha256-…`.
    pub digest: String,
    /// Number of stored bytes.
    pub n_bytes: u64,
    /// The first bytes of the decompressed image; they include the primary partition table.
    pub head: Vec<u8>,
    /// Digests of blocks of the decompressed image, in ascending order.
    pub samples: Vec<Sample>,
    /// True if every planned block was sampled; otherwise decompressing was too slow, and later ones are absent.
    pub has_all_samples: bool,
    /// Size of the whole decompressed image in bytes, if its end was reached.
    pub image_bytes: Option<u64>,
    /// The partition named `boot`, if all of the image was recorded.
    pub boot: Option<BootBlocks>,
}

impl StreamFacts {
    /// Length of all blocks together.
    pub fn sampled_bytes(&self) -> u64 {
        self.samples.iter().map(|sample| sample.n_bytes as u64).sum()
    }

    /// True if the samples are the whole image, without a gap.
    pub fn is_whole(&self) -> bool {
        let mut end = 0;
        let is_next = |sample: &Sample| {
            sample.offset == std::mem::replace(&mut end, sample.offset + sample.n_bytes as u64)
        };
        self.samples.iter().all(is_next) && self.image_bytes.is_some_and(|n_bytes| n_bytes == end)
    }
}

/// The image's boot file system, an ext4. coreos-installer changes a few files there after the copy, so its files are
/// compared one by one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BootBlocks {
    /// Start of the partition, in bytes.
    pub start: u64,
    /// The digest of each block of [`BOOT_BLOCK_BYTES`], in order: ext4 has no smaller blocks.
    pub digests: Vec<[u8; 16]>,
    /// The places of its tables.
    pub layout: Layout,
    /// The blocks of the file system that lead to its files, and those with text, by their number.
    pub kept: BTreeMap<u64, Vec<u8>>,
}

/// Length of a small block.
pub const BOOT_BLOCK_BYTES: usize = 1 << 10;

/// The digest of a small block: the first half of its SHA-256 digest, which halves the memory for a boot partition.
pub fn boot_digest(block: &[u8]) -> [u8; 16] {
    let whole: [u8; 32] = Sha256::digest(block).into();
    whole.first_chunk().copied().unwrap_or_default()
}

/// The digest of one block of a decompressed image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Start of the block, in bytes.
    pub offset: u64,
    /// Its length in bytes; only the last one of an image may be shorter than the others.
    pub n_bytes: usize,
    /// Its SHA-256 digest.
    pub sha256: [u8; 32],
}
