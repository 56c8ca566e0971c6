//! The header of an osmet file, which contains what the live image's own tree lacks of its installable image.
//!
//! The format is that of coreos-installer's `docs/osmet.md` and `src/osmet/`, version 1: a header, a list of
//! partitions with their extents, the digest and the size of the whole image. Numbers are bincode 1's: one byte
//! up to 250, else a byte that says how many follow, the lowest first.

use std::io::{Error, ErrorKind, Read};

const MAGIC: &[u8; 8] = b"OSMET\0\0\0";
const VERSION: u64 = 1;
/// The longest text of a header.
const MAX_TEXT_BYTES: u64 = 4096;
const DIGEST_BYTES: usize = 32;

/// Facts that an osmet file contains about its image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Logical block size of the disks that it is for.
    pub sector_bytes: u64,
    /// Start of the first partition with files of the live system, in bytes; 0 if there is none.
    pub first_partition_at: u64,
    /// The parts of the image that are files of the live system, in the order of their places.
    pub extents: Vec<Extent>,
    /// SHA-256 digest of the image.
    pub sha256: [u8; DIGEST_BYTES],
    /// Size of the image as it is written.
    pub size_bytes: u64,
}

/// A part of the image that is part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Its start in the file.
    pub file_at: u64,
    /// Its start in the image.
    pub at: u64,
    /// Its length.
    pub n_bytes: u64,
    /// The name of the file in the repository of `OSTree`.
    pub object: [u8; DIGEST_BYTES],
}

/// Why a file could not be used.
#[derive(Debug, PartialEq, Eq)]
pub enum Unread {
    /// It is one, in a form that this agent does not know; `coreos-installer` itself may know it.
    Form(String),
    /// It is not one, or the medium failed.
    Broken(String),
}

/// Reads everything before the packed image.
///
/// # Errors
/// It is not an osmet file, of another form, or cannot be read.
pub fn header(source: &mut impl Read) -> Result<Facts, Unread> {
    let mut source = Source(source);
    let mut magic = [0; MAGIC.len()];
    let is_osmet = match source.0.read_exact(&mut magic) {
        Ok(()) => magic == *MAGIC,
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => false,
        Err(error) => return Err(unread(error)),
    };
    if !is_osmet {
        return Err(Unread::Broken("not an osmet file (wrong first bytes)".into()));
    }
    let version = source.number().map_err(unread)?;
    if version != VERSION {
        return Err(Unread::Form(format!("of version {version}")));
    }
    let facts = source.facts().map_err(unread)?;
    let Facts { sector_bytes, size_bytes, .. } = facts;
    if size_bytes > 0 && matches!(sector_bytes, 512 | 4096) {
        return Ok(facts);
    }
    let form = format!("of an unknown form ({size_bytes} bytes, sectors of {sector_bytes} bytes)");
    Err(Unread::Form(form))
}

/// Classifies a read error: the data is malformed, or the medium failed.
#[expect(clippy::needless_pass_by_value, reason = "map_err gives it away")]
fn unread(error: Error) -> Unread {
    match error.kind() {
        ErrorKind::UnexpectedEof | ErrorKind::InvalidData => {
            Unread::Form(format!("truncated or of an unknown form ({error})"))
        }
        _ => Unread::Broken(format!("reading it: {error}")),
    }
}

fn unknown(what: String) -> Error {
    Error::new(ErrorKind::InvalidData, what)
}

/// Reads numbers and texts of bincode.
struct Source<'a, R: Read>(&'a mut R);

impl<R: Read> Source<'_, R> {
    /// Reads the fields after magic and version.
    fn facts(&mut self) -> std::io::Result<Facts> {
        self.skip_text()?;
        let sector_bytes = self.number()?;
        self.skip_text()?;
        self.skip_text()?;
        let (mut first_partition_at, mut extents) = (None, Vec::new());
        for _ in 0..self.number()? {
            let start = self.number()?;
            first_partition_at.get_or_insert(start);
            self.number()?;
            for _ in 0..self.number()? {
                let (file_at, in_partition) = (self.number()?, self.number()?);
                let (at, n_bytes) = (start.saturating_add(in_partition), self.number()?);
                extents.push(Extent { file_at, at, n_bytes, object: self.digest()? });
            }
        }
        let first_partition_at = first_partition_at.unwrap_or_default();
        let sha256 = self.digest()?;
        Ok(Facts { sector_bytes, first_partition_at, extents, sha256, size_bytes: self.number()? })
    }

    fn digest(&mut self) -> std::io::Result<[u8; DIGEST_BYTES]> {
        let mut digest = [0; DIGEST_BYTES];
        self.0.read_exact(&mut digest).map(|()| digest)
    }

    fn number(&mut self) -> std::io::Result<u64> {
        let mut first = [0];
        self.0.read_exact(&mut first)?;
        let n_bytes = match first[0] {
            251 => 2,
            252 => 4,
            253 => 8,
            254 | 255 => return Err(unknown("a number of more than 64 bits".into())),
            small => return Ok(u64::from(small)),
        };
        let mut bytes = [0; 8];
        let (low, _) = bytes.split_at_mut(n_bytes);
        self.0.read_exact(low)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn skip_text(&mut self) -> std::io::Result<()> {
        let n_bytes = self.number()?;
        if n_bytes > MAX_TEXT_BYTES {
            return Err(unknown(format!("a text of {n_bytes} bytes")));
        }
        self.skip(n_bytes)
    }

    fn skip(&mut self, n_bytes: u64) -> std::io::Result<()> {
        let n = std::io::copy(&mut (&mut self.0).take(n_bytes), &mut std::io::sink())?;
        if n == n_bytes { Ok(()) } else { Err(ErrorKind::UnexpectedEof.into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An osmet file of two partitions, one of them with two extents.
    fn osmet(version: u8, sector_bytes: u64, size_bytes: u64) -> Vec<u8> {
        let number = |number: u64| [&[253][..], &number.to_le_bytes()].concat();
        let extent = |at: u64| [&[0][..], &number(at), &number(300), &[3; 32]].concat();
        let partition = |start: u64| [number(start), number(1 << 30)].concat();
        let mut out = [&MAGIC[..], &[version], b"\x060.27.0"].concat();
        out.extend(number(sector_bytes));
        out.extend(b"\x10Fedora CoreOS 44\x06x86_64\x02");
        out.extend([partition(1 << 20), vec![0], partition(1 << 31), vec![2]].concat());
        out.extend([extent(0), extent(1 << 40)].concat());
        out.extend([7; 32]);
        out.extend(number(size_bytes));
        out.extend(b"\xfd7zXZ and so on");
        out
    }

    fn read(mut source: impl Read) -> Result<Facts, Unread> {
        header(&mut source)
    }

    /// A medium that fails after these bytes, as a CD drive does.
    struct Failing<'a>(&'a [u8]);

    impl Read for Failing<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            match self.0.read(buffer)? {
                0 => Err(Error::from_raw_os_error(5)),
                n => Ok(n),
            }
        }
    }

    #[test]
    fn medium_that_fails_during_the_read_is_lost_and_not_an_unknown_form() {
        let good = osmet(1, 512, 4 << 30);
        for length in [0, 4, 9, 20, 60] {
            let found = read(Failing(&good[..length]));
            let Err(Unread::Broken(what)) = found else { panic!("{length}: {found:?}") };
            assert!(what.starts_with("reading it: Input/output error"), "{what}");
        }
    }

    #[test]
    fn truncated_or_damaged_header_is_unread_and_never_panics() {
        let good = osmet(1, 512, 4 << 30);
        let n_read = good.len() - b"\xfd7zXZ and so on".len();
        for length in 0..n_read {
            assert!(read(&good[..length]).is_err(), "{length}");
        }
        let extent = |at| Extent { file_at: 0, at, n_bytes: 300, object: [3; 32] };
        let facts = Facts {
            sector_bytes: 512,
            first_partition_at: 1 << 20,
            extents: vec![extent(1 << 31), extent((1 << 31) + (1 << 40))],
            sha256: [7; 32],
            size_bytes: 4 << 30,
        };
        assert_eq!(read(&good[..n_read]), Ok(facts));
        for at in 0..good.len() {
            let mut damaged = good.clone();
            damaged[at] ^= 0xff;
            read(&damaged[..]).ok();
        }
        let long = [&MAGIC[..], &[1, 253], &u64::MAX.to_le_bytes()].concat();
        assert!(matches!(read(&long[..]), Err(Unread::Form(_))));
    }
}
