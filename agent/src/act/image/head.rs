//! Reads the beginning of an image: its format, and by its partition table its size and sector size.

use formats::gpt::{Header, Partition};

use super::decode::{Format, first_bytes};

/// The sector sizes that disks have, in bytes.
pub(super) const SECTOR_SIZES: [u64; 2] = [512, 4096];
/// Length of the decompressed image that is kept, in bytes: the primary partition table needs at most 34 sectors of
/// 4096 bytes.
const UNPACKED_BYTES: usize = 256 * 1024;

/// The beginning of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The first bytes as stored.
    pub packed: Vec<u8>,
    /// Size of the stored image in bytes, if the source reports it.
    pub total_bytes: Option<u64>,
    /// The storage format of the image.
    pub format: Format,
    /// The first bytes of the decompressed image.
    pub unpacked: Vec<u8>,
    /// Sector size of the disks that the image is for, by its partition table.
    pub sector_bytes: Option<u64>,
    /// Size of the decompressed image in bytes, by its partition table or, if it is not compressed, also by its source.
    pub size_bytes: Option<u64>,
    /// Size of the decompressed image in bytes, by its partition table.
    pub table_bytes: Option<u64>,
    /// The partitions of the image; none if its table cannot be read.
    pub partitions: Vec<Partition>,
}

impl Head {
    /// Reads the beginning of an image.
    pub fn new(packed: Vec<u8>, total_bytes: Option<u64>) -> Self {
        let format = Format::of(&packed);
        let unpacked = first_bytes(&packed, UNPACKED_BYTES);
        let table = SECTOR_SIZES.into_iter().find_map(|sector_bytes| {
            let at = usize::try_from(sector_bytes).ok()?;
            Some((sector_bytes, Header::parse(unpacked.get(at..)?).ok()?))
        });
        let table_bytes = table.as_ref().and_then(|(bytes, of)| of.n_blocks().checked_mul(*bytes));
        let partitions = table.as_ref().and_then(|(bytes, of)| partitions(of, *bytes, &unpacked));
        Self {
            sector_bytes: table.map(|(sector_bytes, _)| sector_bytes),
            size_bytes: table_bytes.max(total_bytes.filter(|_| format == Format::Raw)),
            table_bytes,
            partitions: partitions.unwrap_or_default(),
            packed,
            total_bytes,
            format,
            unpacked,
        }
    }

    /// Size in bytes that the image itself must have at least, if it is not compressed: its partition table ends there.
    pub fn least_bytes(&self) -> Option<u64> {
        self.table_bytes.filter(|_| self.format == Format::Raw)
    }

    /// True if the agent can decompress it; coreos-installer may accept more than that, such as a larger dictionary.
    pub fn is_readable(&self) -> bool {
        self.format == Format::Raw || !self.unpacked.is_empty()
    }
}

fn partitions(header: &Header, sector_bytes: u64, image: &[u8]) -> Option<Vec<Partition>> {
    let (offset, n_bytes) = header.entries_place(sector_bytes).ok()?;
    let start = usize::try_from(offset).ok()?;
    header.partitions(image.get(start..start.checked_add(n_bytes)?)?, sector_bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_that_cannot_be_decompressed_is_not_readable() {
        let head = |packed: &[u8]| Head::new(packed.to_vec(), None);
        assert!(
            head(b"raw").is_readable() && head(include_bytes!("testdata/digits.xz")).is_readable()
        );
        // An xz header whose only filter is unknown.
        assert!(!head(b"\xfd7zXZ\0\0\x04\xe6\xd6\xb4\x46\x02\x00\x7f\x01").is_readable());
    }

    #[test]
    fn length_of_a_compressed_image_is_not_its_size() {
        for packed in [&b"\xfd7zXZ\0rest"[..], b"\x1f\x8b", b"\x28\xb5\x2f\xfd"] {
            let head = Head::new(packed.to_vec(), Some(5));
            assert_eq!(
                (head.size_bytes, head.sector_bytes, head.least_bytes()),
                (None, None, None)
            );
        }
        assert_eq!(Head::new(b"raw".to_vec(), Some(5)).size_bytes, Some(5));
        assert_eq!(Head::new(b"raw".to_vec(), None).size_bytes, None);
    }
}
