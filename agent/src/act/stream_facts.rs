//! Facts learned of an image while it was streamed to coreos-installer, for the proof.

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
}

impl StreamFacts {
    /// Length of all blocks together.
    pub fn sampled_bytes(&self) -> u64 {
        self.samples.iter().map(|sample| sample.n_bytes as u64).sum()
    }
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
