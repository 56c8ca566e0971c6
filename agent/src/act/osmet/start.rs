//! The beginning of the live image's own image, up to the boot file system, for the proof.
//!
//! An osmet file holds what the live system does not contain: its packed part begins with the first bytes of the
//! image, which are the partition table, the BIOS boot partition and the EFI system partition (coreos-installer,
//! `src/osmet/mod.rs`, `write_packed_image`).

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use probes::block::Disk;
use sha2::{Digest as _, Sha256};

use super::{MAX_BYTES, files, header};
use crate::act::image::decoder;
use crate::act::stream_facts::{Sample, StreamFacts};

/// Maximum length that is unpacked; the boot file system of `CoreOS` begins at 129 MiB.
const MAX_START_BYTES: u64 = 512 << 20;
/// Length of the image that is kept: more than a partition table.
const HEAD_BYTES: usize = 64 << 10;
/// Block of a sample, in bytes.
const SAMPLE_BYTES: usize = 64 << 10;

/// Returns the known facts of the image that coreos-installer writes to this disk; `None` if that is not certain.
pub fn known(dir: &Path, disk: &Disk) -> Option<StreamFacts> {
    let sector_bytes = u64::from(disk.logical_block_bytes?);
    let files = files(dir).ok()?;
    let facts = files.iter().map(|file| super::open(file).ok()).collect::<Option<Vec<_>>>()?;
    let mut fitting =
        files.iter().zip(facts).filter(|(_, facts)| facts.sector_bytes == sector_bytes);
    // Of several, coreos-installer takes the one for its architecture.
    let ((file, _), None) = (fitting.next()?, fitting.next()) else { return None };
    read(BufReader::new(File::open(file).ok()?))
}

fn read(source: impl Read + Send) -> Option<StreamFacts> {
    let mut source = source.take(MAX_BYTES);
    let facts = header(&mut source).ok()?;
    source.set_limit(MAX_START_BYTES);
    let mut image = decoder(source).ok()?.take(facts.first_partition_at.min(MAX_START_BYTES));
    let mut known = StreamFacts::default();
    let mut block = vec![0; SAMPLE_BYTES];
    while image.read_exact(&mut block).is_ok() {
        if known.head.len() < HEAD_BYTES {
            known.head.extend(&block);
        }
        let offset = (known.samples.len() * SAMPLE_BYTES) as u64;
        let sha256 = Sha256::digest(&block).into();
        known.samples.push(Sample { offset, n_bytes: SAMPLE_BYTES, sha256 });
    }
    (!known.samples.is_empty()).then_some(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first MiB of an image with a partition table for 512-byte sectors, packed by `xz -9`.
    const PACKED: &[u8] = include_bytes!("../testdata/table.xz");

    /// An osmet file of one partition that begins at 1 MiB.
    fn osmet(packed: &[u8]) -> Vec<u8> {
        let header: &[u8] = &[1, 3, b'0', b'.', b'9', 251, 0, 2, 0, 0, 1];
        let partition: &[u8] = &[252, 0, 0, 0x10, 0, 252, 0, 0, 0x20, 0, 0];
        let size: &[u8] = &[252, 0, 0, 0x40, 0];
        [b"OSMET\0\0\0", header, partition, &[7; 32], size, packed].concat()
    }

    #[test]
    fn beginning_of_the_image_is_known_up_to_its_first_listed_partition() {
        let known = read(&osmet(PACKED)[..]).unwrap();
        assert_eq!((known.samples.len(), known.head.len()), (16, HEAD_BYTES));
        assert!(!known.has_all_samples);
        let header = formats::gpt::Header::parse(&known.head[512..]).unwrap();
        let partitions = header.partitions(&known.head[1024..1024 + 16_384], 512).unwrap();
        let names: Vec<&str> = partitions.iter().map(|part| part.name.as_str()).collect();
        assert_eq!(names, ["boot", "root"]);
        let zeros: [u8; 32] = Sha256::digest(vec![0; SAMPLE_BYTES]).into();
        assert_eq!((known.samples[15].offset, known.samples[15].sha256), (15 << 16, zeros));
    }

    #[test]
    fn only_one_file_for_the_disks_sectors_is_certain() {
        let temporary = tempfile::tempdir().unwrap();
        let dir = temporary.path();
        let disk = |bytes| Disk { logical_block_bytes: Some(bytes), ..Disk::default() };
        std::fs::write(dir.join("a.osmet"), osmet(PACKED)).unwrap();
        assert!(known(dir, &disk(512)).is_some());
        assert!(known(dir, &disk(4096)).is_none());
        std::fs::write(dir.join("b.osmet"), osmet(PACKED)).unwrap();
        assert!(known(dir, &disk(512)).is_none());
        assert!(known(&dir.join("none"), &disk(512)).is_none());
    }

    #[test]
    fn damaged_file_has_a_shorter_beginning_or_none_and_never_panics() {
        let good = osmet(PACKED);
        for at in (0..good.len()).step_by(11) {
            let mut damaged = good.clone();
            damaged[at] ^= 0xff;
            read(&damaged[..]);
            read(&good[..at]);
        }
        assert_eq!(read(&osmet(b"")[..]), None);
    }
}
