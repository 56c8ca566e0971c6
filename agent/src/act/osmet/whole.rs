//! The live image's own image, for the proof: put together as coreos-installer does, or its beginning only.
//!
//! An osmet file holds what the live system does not contain: packed, and in the order of the image, everything
//! except parts of files that are objects of the live system's `OSTree` repository (coreos-installer,
//! `src/osmet/unpacker.rs`). It begins with the partition table, the BIOS boot partition and the EFI system partition.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use formats::digest::{Algorithm, Hasher};
use formats::hex::hex;
use formats::osmet::Extent;
use probes::block::Disk;
use tracing::warn;

use super::{Facts, MAX_BYTES, files, header};
use crate::act::Verify;
use crate::act::image::{Head, decoder};
use crate::act::record::{self, Record, fill};
use crate::act::stream_facts::StreamFacts;

/// Length of the image that is kept: more than a partition table.
const HEAD_BYTES: usize = 256 << 10;

/// Returns the known facts of the image that coreos-installer writes to this disk; `None` if that is not certain. `repo` is
/// the live system's `OSTree` repository. A sample is the beginning of the image, up to its first partition with files of the
/// live system, or as much as can be read.
pub fn known(dir: &Path, repo: &Path, disk: &Disk, verify: Verify) -> Option<StreamFacts> {
    let sector_bytes = u64::from(disk.logical_block_bytes?);
    let files = files(dir).ok()?;
    let facts = files.iter().map(|file| super::open(file).ok()).collect::<Option<Vec<_>>>()?;
    let mut fitting =
        files.iter().zip(facts).filter(|(_, facts)| facts.sector_bytes == sector_bytes);
    // Of several, coreos-installer takes the one for its architecture.
    let ((file, _), None) = (fitting.next()?, fitting.next()) else { return None };
    read(BufReader::new(File::open(file).ok()?), repo, verify)
}

fn read(source: impl Read + Send, repo: &Path, verify: Verify) -> Option<StreamFacts> {
    let mut source = source.take(MAX_BYTES);
    let Facts { first_partition_at, extents, sha256, size_bytes, .. } = header(&mut source).ok()?;
    source.set_limit(size_bytes);
    let image = Image {
        packed: decoder(source).ok()?,
        extents: extents.into_iter().peekable(),
        object: None,
        at: 0,
        hasher: Hasher::new(Algorithm::Sha256),
        repo: repo.to_owned(),
    };
    let n_bytes = if verify == Verify::Full { size_bytes } else { first_partition_at };
    let mut image = image.take(n_bytes);
    let mut head = vec![0; HEAD_BYTES];
    let n = fill(&mut image, &mut head).ok()?;
    head.truncate(n);
    let partitions = Head::new(head.clone(), None).partitions;
    let mut found = Record::default();
    let ended = record::whole(&mut head.as_slice().chain(&mut image), &partitions, &mut found);
    if let Err(why) = ended {
        warn!("only a part of the live image's own image is compared with the disk: {why}");
    }
    let is_whole = found.image_bytes == Some(size_bytes);
    if is_whole && image.into_inner().hasher.finish() != format!("sha256-{}", hex(&sha256)) {
        warn!("the live image's own image cannot be compared with the disk: its digest is wrong");
        return None;
    }
    if !is_whole {
        // Files of the medium that are not proved by the digest say nothing against the disk.
        found.samples.retain(|one| one.offset + one.n_bytes as u64 <= first_partition_at);
    }
    (!found.samples.is_empty()).then(|| StreamFacts {
        head,
        samples: found.samples,
        has_all_samples: is_whole,
        image_bytes: found.image_bytes.filter(|_| is_whole),
        boot: found.boot.filter(|_| is_whole),
        ..StreamFacts::default()
    })
}

/// Reads the image from packed bytes and objects in turns.
struct Image<R> {
    packed: R,
    extents: std::iter::Peekable<std::vec::IntoIter<Extent>>,
    /// The extent that is being read, with zeros after the end of its file.
    object: Option<Box<dyn Read>>,
    /// Offset in the image.
    at: u64,
    /// Digests what was read.
    hasher: Hasher,
    repo: PathBuf,
}

impl<R> Image<R> {
    fn open(&self, extent: &Extent) -> io::Result<Box<dyn Read>> {
        let name = hex(&extent.object);
        let (first, rest) = name.split_at(2);
        let path = self.repo.join(format!("objects/{first}/{rest}.file"));
        let named = |error| io::Error::other(format!("{}: {error}", path.display()));
        let mut file = File::open(&path).map_err(named)?;
        file.seek(SeekFrom::Start(extent.file_at)).map_err(named)?;
        Ok(Box::new(file.chain(io::repeat(0)).take(extent.n_bytes)))
    }
}

impl<R: Read> Read for Image<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !buffer.is_empty() {
            let mut n = 0;
            if let Some(object) = &mut self.object {
                n = object.read(buffer)?;
                if n == 0 {
                    self.object = None;
                    continue;
                }
            } else {
                let next_at = self.extents.peek().map_or(u64::MAX, |extent| extent.at);
                let left = next_at.saturating_sub(self.at);
                if left > 0 {
                    n = self.packed.by_ref().take(left).read(buffer)?;
                } else if let Some(extent) = self.extents.next() {
                    self.object = Some(self.open(&extent)?);
                    continue;
                }
            }
            self.at += n as u64;
            self.hasher.update(&buffer[..n]);
            return Ok(n);
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use sha2::{Digest as _, Sha256};

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
        let known = read(&osmet(PACKED)[..], Path::new("/none"), Verify::Sample).unwrap();
        assert_eq!((known.samples.len(), known.head.len()), (1, HEAD_BYTES));
        assert!(!known.has_all_samples);
        let header = formats::gpt::Header::parse(&known.head[512..]).unwrap();
        let partitions = header.partitions(&known.head[1024..1024 + 16_384], 512).unwrap();
        let names: Vec<&str> = partitions.iter().map(|part| part.name.as_str()).collect();
        assert_eq!(names, ["boot", "root"]);
        assert_eq!((known.samples[0].n_bytes, known.image_bytes), (1 << 20, None));
    }

    #[test]
    fn image_is_put_together_from_packed_bytes_and_objects_and_must_have_its_digest() {
        let repo = tempfile::tempdir().unwrap();
        let objects = repo.path().join("objects/05");
        std::fs::create_dir_all(&objects).unwrap();
        std::fs::write(objects.join(format!("{}.file", "05".repeat(31))), b"-middle").unwrap();
        // The table and zeros, then 6 bytes of the object from its second on, then zeros up to a block; then the table again.
        let table = crate::act::image::decoder(PACKED).and_then(|mut image| {
            let mut bytes = Vec::new();
            image.read_to_end(&mut bytes).map(|_| bytes)
        });
        let table = table.unwrap();
        let object = [&b"middle"[..], &[0; 4090]].concat();
        let image = [&table[..], &object].concat();
        let file = |sha256: &[u8]| {
            let header: &[u8] = &[1, 3, b'0', b'.', b'9', 251, 0, 2, 0, 0, 1];
            let partition: &[u8] = &[252, 0, 0, 0x08, 0, 252, 0, 0, 0x20, 0, 1];
            let extent: &[u8] = &[1, 252, 0, 0, 0x08, 0, 251, 0, 0x10];
            let size = [&[252], &u32::try_from(image.len()).unwrap().to_le_bytes()[..]].concat();
            [b"OSMET\0\0\0", header, partition, extent, &[5; 32], sha256, &size, PACKED].concat()
        };
        let read = |file: &[u8], repo: &Path| read(file, repo, Verify::Full);
        let good = file(&Sha256::digest(&image));
        let found = read(&good, repo.path()).unwrap();
        assert!(found.is_whole() && found.image_bytes == Some(image.len() as u64));
        assert_eq!(found.samples[1].sha256, <[u8; 32]>::from(Sha256::digest(&object)));
        assert_eq!(read(&file(&[7; 32]), repo.path()), None);
        // The first partition of that begins before the end of the first block.
        assert_eq!(read(&good, Path::new("/none")), None);
    }

    #[test]
    fn only_one_file_for_the_disks_sectors_is_certain() {
        let temporary = tempfile::tempdir().unwrap();
        let dir = temporary.path();
        let disk = |bytes| Disk { logical_block_bytes: Some(bytes), ..Disk::default() };
        std::fs::write(dir.join("a.osmet"), osmet(PACKED)).unwrap();
        assert!(known(dir, dir, &disk(512), Verify::Sample).is_some());
        assert!(known(dir, dir, &disk(4096), Verify::Sample).is_none());
        std::fs::write(dir.join("b.osmet"), osmet(PACKED)).unwrap();
        assert!(known(dir, dir, &disk(512), Verify::Sample).is_none());
        assert!(known(&dir.join("none"), dir, &disk(512), Verify::Full).is_none());
    }

    #[test]
    fn damaged_file_has_a_shorter_beginning_or_none_and_never_panics() {
        let good = osmet(PACKED);
        for at in (0..good.len()).step_by(11) {
            let mut damaged = good.clone();
            damaged[at] ^= 0xff;
            for bytes in [&damaged[..], &good[..at]] {
                read(bytes, Path::new("/none"), Verify::Full);
            }
        }
        assert_eq!(read(&osmet(b"")[..], Path::new("/none"), Verify::Full), None);
    }
}
