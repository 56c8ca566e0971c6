//! Decompresses an image as coreos-installer does: gzip (RFC 1952), xz (tukaani.org, "The .xz File Format" 1.2.1) and
//! zstd (RFC 8878), recognised by their first bytes; anything else is a raw image.
//!
//! coreos-installer accepts one gzip member, xz stream or zstd frame; so does this.

use std::io::{self, BufRead as _, BufReader, Read};

use flate2::read::GzDecoder;
use lzma_rust2::{Action, Status, XzStream};
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

/// The most memory for the dictionary of an xz image, in KiB: `xz -9` needs 64 MiB.
const MAX_XZ_KIB: u32 = 80 << 10;
/// The largest window of a zstd image, in bytes: zstd accepts no more unless asked (`ZSTD_WINDOWLOG_LIMIT_DEFAULT`).
const MAX_ZSTD_WINDOW_BYTES: u64 = 128 << 20;
/// Size of the pieces in which an xz image is decoded, in bytes.
const PIECE_BYTES: usize = 64 << 10;
/// Number of bytes needed to recognise a format.
const MAGIC_BYTES: usize = 6;

/// The storage format of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// As it is written to the disk.
    Raw,
    /// gzip.
    Gzip,
    /// xz.
    Xz,
    /// zstd.
    Zstd,
}

impl Format {
    /// The format of an image that begins with `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        match bytes {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Self::Xz,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Self::Zstd,
            _ => Self::Raw,
        }
    }

    /// The file name extension of this format.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Raw => "",
            Self::Gzip => ".gz",
            Self::Xz => ".xz",
            Self::Zstd => ".zst",
        }
    }
}

/// The decompressed content of `packed`.
///
/// # Errors
/// `packed` cannot be read, or does not begin as its format demands.
pub(in crate::act) fn decoder<'a>(
    mut packed: impl Read + Send + 'a,
) -> io::Result<Box<dyn Read + 'a>> {
    let mut first = Vec::with_capacity(MAGIC_BYTES);
    packed.by_ref().take(MAGIC_BYTES as u64).read_to_end(&mut first)?;
    let format = Format::of(&first);
    let whole = io::Cursor::new(first).chain(packed);
    Ok(match format {
        Format::Raw => Box::new(whole),
        Format::Gzip => Box::new(GzDecoder::new(whole)),
        Format::Xz => Box::new(XzReader {
            packed: BufReader::with_capacity(PIECE_BYTES, whole),
            stream: XzStream::new_mem_limit(false, MAX_XZ_KIB),
            is_at_end: false,
        }),
        Format::Zstd => {
            let decoder = StreamingDecoder::<_, FrameDecoder>::new_with_max_window_size(
                whole,
                MAX_ZSTD_WINDOW_BYTES,
            );
            Box::new(decoder.map_err(io::Error::other)?)
        }
    })
}

/// Reads xz through the decoder that is not generic: it is compiled with its crate, for speed, and not with this one.
struct XzReader<R> {
    packed: BufReader<R>,
    stream: XzStream,
    is_at_end: bool,
}

impl<R: Read> Read for XzReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !self.is_at_end && !buffer.is_empty() {
            let packed = self.packed.fill_buf()?;
            let action = if packed.is_empty() { Action::Finish } else { Action::Run };
            let result = self.stream.process(packed, buffer, action).map_err(io::Error::other)?;
            self.is_at_end = result.status == Status::StreamEnd;
            let is_stuck = result.bytes_consumed == 0 && result.bytes_produced == 0;
            self.packed.consume(result.bytes_consumed);
            if result.bytes_produced > 0 {
                return Ok(result.bytes_produced);
            }
            if is_stuck && !self.is_at_end {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(0)
    }
}

/// The first `max_bytes` of an image that begins with `packed`, or as many as can be decompressed.
pub(in crate::act) fn first_bytes(packed: &[u8], max_bytes: usize) -> Vec<u8> {
    let mut unpacked = Vec::new();
    if let Ok(decoder) = decoder(packed) {
        // Only the beginning is known, so the decoder fails after what it could decompress.
        decoder.take(max_bytes as u64).read_to_end(&mut unpacked).ok();
    }
    unpacked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn format_is_recognised_by_its_first_bytes() {
        for (bytes, expected) in [
            (&b""[..], Format::Raw),
            (b"\x1f\x8b\x08", Format::Gzip),
            (b"\xfd7zXZ\0\0\x04", Format::Xz),
            (b"\xfd7zX", Format::Raw),
            (b"\x28\xb5\x2f\xfd", Format::Zstd),
            (b"EFI PART", Format::Raw),
        ] {
            assert_eq!(Format::of(bytes), expected, "{bytes:?}");
        }
    }

    /// 70,000 bytes that `xz -9` packed: `0123456789` over and over.
    const XZ: &[u8] = include_bytes!("testdata/digits.xz");
    /// The same by zstd.
    const ZSTD: &[u8] = include_bytes!("testdata/digits.zst");
    /// The same by gzip.
    const GZIP: &[u8] = include_bytes!("testdata/digits.gz");

    fn digits() -> Vec<u8> {
        b"0123456789".repeat(7000)
    }

    #[test]
    fn every_format_gives_the_same_content() {
        for packed in [XZ, ZSTD, GZIP, &digits()] {
            assert_eq!(first_bytes(packed, 1 << 20), digits());
            assert_eq!(first_bytes(packed, 1000), digits()[..1000]);
        }
    }

    #[test]
    fn truncated_or_damaged_image_never_panics() {
        for packed in [XZ, ZSTD, GZIP] {
            for length in 0..packed.len() {
                assert!(first_bytes(&packed[..length], 1 << 20).len() <= 1 << 20);
                let mut damaged = packed.to_vec();
                damaged[length] ^= 0xff;
                assert!(first_bytes(&damaged, 1 << 20).len() <= 1 << 20);
            }
        }
    }
}
