//! Decompresses parts of an image for a sample: all of it would cost as much CPU time as coreos-installer itself needs.
//!
//! An xz image that several threads packed, as those of Fedora CoreOS are, consists of blocks that name their sizes:
//! the beginning of each is decompressed and the rest skipped. Of any other compressed image only the beginning can
//! be reached at that price.

use std::io::{self, Read};

use formats::xz::{self, STREAM_HEADER_BYTES};
use sha2::{Digest as _, Sha256};

use super::tee::{Record, fill};
use crate::act::image::{Format, Head, decoder};
use crate::act::stream_facts::Sample;

/// Block of a sample, in bytes.
pub(super) const SAMPLE_BYTES: usize = 64 << 10;
/// One part in this many of the blocks of an xz image is decompressed: a sixteenth cost 9 % of coreos-installer's CPU
/// time, a thirty-second part 5.6 %, this 2 %.
const BLOCK_PARTS: u64 = 48;
/// At most one part in this many of any other image is.
const MAX_BEGINNING_PARTS: u64 = 4;
/// Assumed size of an image whose size is unknown, in bytes.
const UNKNOWN_BYTES: u64 = 256 << 20;
/// The smallest part, in bytes: small blocks take turns.
const MIN_PART_BYTES: u64 = 256 << 10;
/// Approximate number of blocks that are sampled.
const N_SAMPLES: u64 = 1024;
/// Most blocks that are sampled, whatever the image says about its size.
const MAX_SAMPLES: usize = 1 << 16;

/// Digests blocks at a fixed distance in the parts of an image.
#[derive(Debug)]
struct Sampler<'a> {
    record: &'a mut Record,
    stride: usize,
}

/// Decompresses parts of an image that begins with `head`, and digests blocks of them.
///
/// # Errors
/// The image breaks off or is damaged; the record contains the earlier samples.
pub(super) fn sample(packed: impl Read + Send, head: &Head, record: &mut Record) -> io::Result<()> {
    let beginning_bytes = beginning_bytes(head);
    let in_blocks = head.size_bytes.filter(|_| head.format == Format::Xz);
    let n_bytes = in_blocks.map_or(beginning_bytes, |size_bytes| size_bytes / BLOCK_PARTS);
    let n_blocks = n_bytes / SAMPLE_BYTES as u64;
    let stride = usize::try_from(n_blocks / N_SAMPLES).unwrap_or(usize::MAX).max(1);
    let mut sampler = Sampler { record, stride };
    if head.format == Format::Xz {
        sampler.blocks(packed, beginning_bytes)?;
    } else {
        sampler.part(decoder(packed)?, 0, beginning_bytes)?;
    }
    record.is_complete = true;
    Ok(())
}

/// Returns the length that is decompressed if only the beginning can be reached. The largest file system, that of the
/// root, is the last one.
fn beginning_bytes(head: &Head) -> u64 {
    let Some(size_bytes) = head.size_bytes else { return UNKNOWN_BYTES };
    let last = head.partitions.iter().map(|part| part.start_bytes).max().unwrap_or(0);
    let wanted = last.saturating_add(size_bytes / BLOCK_PARTS);
    wanted.min(size_bytes / MAX_BEGINNING_PARTS).max(MIN_PART_BYTES)
}

impl Sampler<'_> {
    /// Goes over the blocks of an xz image.
    fn blocks(&mut self, mut packed: impl Read + Send, beginning_bytes: u64) -> io::Result<()> {
        let mut start = [0; STREAM_HEADER_BYTES];
        packed.read_exact(&mut start)?;
        // The partition table is in the first block, which is never skipped.
        let (mut offset, mut due) = (0_u64, MIN_PART_BYTES);
        loop {
            let mut header = [0; 1].to_vec();
            packed.read_exact(&mut header)?;
            let Some(header_bytes) = xz::block_header_bytes(header[0]) else {
                self.record.image_bytes = Some(offset);
                return Ok(());
            };
            header.resize(header_bytes, 0);
            packed.read_exact(&mut header[1..])?;
            let Some(block) = xz::block(&start, &header) else {
                let rest = start.chain(&header[..]).chain(packed);
                return self.part(decoder(rest)?, offset, beginning_bytes);
            };
            due = due.saturating_add(block.unpacked_bytes / BLOCK_PARTS);
            let mut body = packed.by_ref().take(block.body_bytes);
            if due >= MIN_PART_BYTES {
                let n_bytes = due.min(block.unpacked_bytes);
                let block = start.chain(&header[..]).chain(&mut body);
                self.part(decoder(block)?.take(n_bytes), offset, n_bytes)?;
                due -= n_bytes;
            }
            io::copy(&mut body, &mut io::sink())?;
            if body.limit() > 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            offset = offset.saturating_add(block.unpacked_bytes);
        }
    }

    /// Digests blocks of the next `n_bytes`, which begin at `offset` of the image.
    fn part(&mut self, mut image: impl Read, offset: u64, n_bytes: u64) -> io::Result<()> {
        let mut block = vec![0; SAMPLE_BYTES];
        // A read that bypasses the page cache must begin at a multiple.
        let start = offset.next_multiple_of(SAMPLE_BYTES as u64);
        io::copy(&mut image.by_ref().take(start - offset), &mut io::sink())?;
        let (mut at, end) = (start, offset.saturating_add(n_bytes));
        for number in 0_usize.. {
            let is_short = at >= end || fill(&mut image, &mut block)? < block.len();
            if is_short || self.record.samples.len() >= MAX_SAMPLES {
                break;
            }
            if number.is_multiple_of(self.stride) {
                let sha256 = Sha256::digest(&block).into();
                self.record.samples.push(Sample { offset: at, n_bytes: block.len(), sha256 });
            }
            at += block.len() as u64;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use super::*;

    /// An image in which no two blocks are the same.
    fn image(n_bytes: u32) -> Vec<u8> {
        (0..n_bytes / 4).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect()
    }

    /// The output of a packer.
    fn packed(image: &[u8], program: &str, arguments: &[&str]) -> Vec<u8> {
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{program}: {error}"));
        let (mut stdin, image) = (child.stdin.take().unwrap(), image.to_owned());
        let writer = std::thread::spawn(move || stdin.write_all(&image).unwrap());
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        assert!(output.status.success(), "{program}");
        output.stdout
    }

    /// Counts the bytes that are read.
    struct Counted<'a>(&'a [u8], &'a mut usize);

    impl Read for Counted<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let n = self.0.read(buffer)?;
            *self.1 += n;
            Ok(n)
        }
    }

    fn sampled(packed: &[u8], size_bytes: Option<u64>) -> (Record, io::Result<()>, usize) {
        let mut head = Head::new(packed[..packed.len().min(4096)].to_vec(), None);
        head.size_bytes = size_bytes;
        let (mut record, mut n_read) = (Record::default(), 0);
        let outcome = sample(Counted(packed, &mut n_read), &head, &mut record);
        (record, outcome, n_read)
    }

    fn check(record: &Record, image: &[u8]) {
        for sample in &record.samples {
            let start = usize::try_from(sample.offset).unwrap();
            assert_eq!((sample.offset % 65536, sample.n_bytes), (0, SAMPLE_BYTES));
            let block = &image[start..start + SAMPLE_BYTES];
            assert_eq!(sample.sha256, <[u8; 32]>::from(Sha256::digest(block)), "{start}");
        }
        let mut offsets = record.samples.iter().map(|sample| sample.offset);
        assert!(offsets.clone().is_sorted() && offsets.next() == Some(0));
    }

    #[test]
    fn beginning_of_every_block_of_an_xz_image_is_sampled() {
        let image = image(25 << 20);
        // Of the small blocks the first is decompressed, and then every 48th.
        for (block_bytes, second) in [("13107200", 25 << 19), ("262144", 48 << 18)] {
            let block_size = format!("--block-size={block_bytes}");
            let packed = packed(&image, "xz", &["-0", "-T2", &block_size]);
            let (record, outcome, _) = sampled(&packed, Some(25 << 20));
            outcome.unwrap();
            assert!(record.is_complete && record.image_bytes == Some(25 << 20), "{block_bytes}");
            check(&record, &image);
            let offsets: Vec<u64> = record.samples.iter().map(|sample| sample.offset).collect();
            // A forty-eighth part, and the beginning.
            assert_eq!(offsets.len() * SAMPLE_BYTES, (512 + 256) << 10, "{offsets:x?}");
            assert!(offsets.contains(&second), "{offsets:x?}");
        }
    }

    #[test]
    fn only_the_beginning_of_other_images_is_decompressed() {
        let image = image(8 << 20);
        let packers: [(&str, &[&str]); 3] =
            [("xz", &["-0", "-T1"]), ("gzip", &["-1"]), ("zstd", &["-1", "-q"])];
        for (program, arguments) in packers {
            let packed = packed(&image, program, arguments);
            let (record, outcome, n_read) = sampled(&packed, Some(8 << 20));
            outcome.unwrap();
            check(&record, &image);
            assert!(record.is_complete && record.image_bytes.is_none(), "{program}");
            assert_eq!(record.samples.len(), 4, "{program}: 256 KiB, the least");
            assert!(n_read < packed.len() / 4, "{program}: {n_read} bytes of {}", packed.len());
        }
    }

    #[test]
    fn stream_that_breaks_off_in_a_skipped_block_is_not_complete() {
        let image = image(8 << 20);
        let arguments = ["-0", "-T2", "--block-size=4194304"];
        let packed = packed(&image, "xz", &arguments);
        let (record, outcome, _) = sampled(&packed[..packed.len() - 5000], Some(8 << 20));
        assert!(outcome.is_err() && !record.is_complete && record.image_bytes.is_none());
        check(&record, &image);
    }
}
