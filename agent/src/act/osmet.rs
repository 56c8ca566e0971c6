//! The live image's own installable image: an osmet file, which contains what the live system's tree does not.
//!
//! The format is that of coreos-installer's `docs/osmet.md` and `src/osmet/`, version 1: a header, a list of
//! partitions with their extents, the digest and the size of the whole image. Numbers are bincode 1's: one byte
//! up to 250, else a byte that says how many follow, the lowest first. Only the size of the image and the sector
//! size that it is made for are read, so that a disk that is too small is refused before it is written; `start`
//! reads the beginning of the image.

pub mod start;

use std::fs::File;
use std::io::{BufReader, Error, ErrorKind, Read};
use std::path::{Path, PathBuf};

use probes::block::Disk;

use super::image::check_size;
use super::{Code, Failure, Say, Term, say};

const MAGIC: &[u8; 8] = b"OSMET\0\0\0";
const VERSION: u64 = 1;
/// At most this much of a file is read; the list of a real one has a few megabytes.
const MAX_BYTES: u64 = 64 << 20;
/// The longest text of a header.
const MAX_TEXT_BYTES: u64 = 4096;
const DIGEST_BYTES: u64 = 32;
/// More files than these do not lie in a live image.
const MAX_FILES: usize = 16;
/// The size that a disk must have if the osmet file is of another version, so that its size is unknown: the requirement
/// of Fedora `CoreOS` for the root file system alone.
const LEAST_DISK_BYTES: u64 = 8 << 30;

/// Facts that an osmet file contains about its image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Facts {
    /// Logical block size of the disks that it is for.
    sector_bytes: u64,
    /// Start of the first partition with files of the live system, in bytes; 0 if there is none.
    first_partition_at: u64,
    /// Size of the image as it is written.
    size_bytes: u64,
}

/// Why a file could not be used.
#[derive(Debug, PartialEq, Eq)]
enum Unread {
    /// It is one, in a form that this agent does not know; `coreos-installer` itself may know it.
    Form(String),
    /// It is not one, or the medium failed.
    Broken(String),
}

/// The size of the smallest image, which any disk must have room for; `None` if one is unknown.
pub fn least_bytes(dir: &Path) -> Option<u64> {
    let sizes = files(dir).ok()?.into_iter().map(|file| Some(open(&file).ok()?.size_bytes));
    sizes.collect::<Option<Vec<u64>>>()?.into_iter().min()
}

/// Checks that the live image carries an image for this disk, that its medium can be read, and that the
/// image fits. Returned are warnings.
///
/// # Errors
/// `MEDIUM_LOST`, `SECTOR_SIZE`, `DISK_TOO_SMALL`.
pub fn check(dir: &Path, disk: &Disk) -> Result<Vec<String>, Failure> {
    let mut warnings = Vec::new();
    let mut sizes = Vec::new();
    let mut sectors = Vec::new();
    for file in files(dir)? {
        match open(&file) {
            Ok(facts) => {
                sectors.push(facts.sector_bytes);
                let found = disk.logical_block_bytes.map(u64::from);
                if found.is_none_or(|bytes| bytes == facts.sector_bytes) {
                    sizes.push(facts.size_bytes);
                }
            }
            Err(Unread::Form(form)) => {
                sizes.push(LEAST_DISK_BYTES);
                warnings.push(format!(
                    "{} is {form}, so the size of the image is unknown; \
                     the disk was compared with {LEAST_DISK_BYTES} bytes instead",
                    file.display()
                ));
            }
            Err(Unread::Broken(what)) => return Err(lost(format!("{}: {what}", file.display()))),
        }
    }
    let Some(size_bytes) = sizes.into_iter().max() else {
        let found = disk.logical_block_bytes.map(|bytes| format!("{bytes} bytes"));
        let found = found.as_deref().unwrap_or("unknown size");
        let what = format!(
            "{} has sectors of {found}, the live image contains images for {sectors:?} only",
            disk.device
        );
        return Err(Failure::advised(Code::SectorSize, what));
    };
    check_size(disk, size_bytes, "the live image's own image")?;
    Ok(warnings)
}

fn lost(what: impl Into<Say>) -> Failure {
    Failure::new(Code::MediumLost, what)
        .advise(say![Term::NameImage, ", or keep the live medium inserted"])
}

/// The live image's osmet files.
fn files(dir: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries = std::fs::read_dir(dir).map_err(|error| {
        let why = format!("reading {}: {error}", dir.display());
        lost(say![Term::Order, " has no image and the live image has none: ", why])
    })?;
    let is_osmet = |path: &PathBuf| path.extension().is_some_and(|end| end == "osmet");
    let mut files: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(is_osmet).take(MAX_FILES).collect();
    files.sort();
    if files.is_empty() {
        let dir = format!("{} contains none", dir.display());
        return Err(lost(say![Term::Order, " has no image and ", dir]));
    }
    Ok(files)
}

fn open(path: &Path) -> Result<Facts, Unread> {
    let file = File::open(path).map_err(|error| Unread::Broken(error.to_string()))?;
    header(&mut Source(BufReader::new(file).take(MAX_BYTES)))
}

/// Reads everything before the packed image.
fn header<R: Read>(source: &mut Source<R>) -> Result<Facts, Unread> {
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
    let is_whole = facts.size_bytes > 0 && matches!(facts.sector_bytes, 512 | 4096);
    if is_whole { Ok(facts) } else { Err(Unread::Form(format!("of an unknown form ({facts:?})"))) }
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
struct Source<R: Read>(std::io::Take<R>);

impl<R: Read> Source<R> {
    /// Reads the fields after magic and version.
    fn facts(&mut self) -> std::io::Result<Facts> {
        self.skip_text()?;
        let sector_bytes = self.number()?;
        self.skip_text()?;
        self.skip_text()?;
        let mut first_partition_at = None;
        for _ in 0..self.number()? {
            let start = self.number()?;
            first_partition_at.get_or_insert(start);
            self.number()?;
            for _ in 0..self.number()? {
                for _ in 0..3 {
                    self.number()?;
                }
                self.skip(DIGEST_BYTES)?;
            }
        }
        self.skip(DIGEST_BYTES)?;
        let first_partition_at = first_partition_at.unwrap_or_default();
        Ok(Facts { sector_bytes, first_partition_at, size_bytes: self.number()? })
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
        let partition = [number(1 << 20), number(1 << 30)].concat();
        let mut out = [&MAGIC[..], &[version], b"\x060.27.0"].concat();
        out.extend(number(sector_bytes));
        out.extend(b"\x10Fedora CoreOS 44\x06x86_64\x02");
        out.extend([&partition[..], &[0], &partition, &[2], &extent(0), &extent(1 << 40)].concat());
        out.extend([7; 32]);
        out.extend(number(size_bytes));
        out.extend(b"\xfd7zXZ and so on");
        out
    }

    fn disk(size_bytes: u64, sector_bytes: u32) -> Disk {
        let logical_block_bytes = Some(sector_bytes);
        Disk { size_bytes: Some(size_bytes), logical_block_bytes, ..Disk::default() }
    }

    /// Returns the result of `check` for files in a directory.
    fn checked(files: &[&[u8]], disk: &Disk) -> Result<Vec<String>, Code> {
        let dir = tempfile::tempdir().unwrap();
        for (at, file) in files.iter().enumerate() {
            std::fs::write(dir.path().join(format!("{at}.osmet")), file).unwrap();
        }
        std::fs::write(dir.path().join("README"), "no image").unwrap();
        check(dir.path(), disk).map_err(|failure| failure.code)
    }

    fn read(source: impl Read) -> Result<Facts, Unread> {
        header(&mut Source(source.take(MAX_BYTES)))
    }

    #[test]
    fn a_disk_smaller_than_the_live_images_own_image_is_refused() {
        let files = [&osmet(1, 512, 4 << 30)[..], &osmet(1, 4096, 5 << 30)];
        for (size_bytes, sector_bytes, expected) in [
            (4 << 30, 512, Ok(vec![])),
            ((4 << 30) - 1, 512, Err(Code::DiskTooSmall)),
            ((5 << 30) - 1, 4096, Err(Code::DiskTooSmall)),
            (5 << 30, 4096, Ok(vec![])),
            (0, 512, Err(Code::DiskTooSmall)),
            (5 << 30, 520, Err(Code::SectorSize)),
        ] {
            let disk = disk(size_bytes, sector_bytes);
            assert_eq!(checked(&files, &disk), expected, "{disk:?}");
        }
        let only_4k = [&osmet(1, 4096, 5 << 30)[..]];
        assert_eq!(checked(&only_4k, &disk(8 << 30, 512)), Err(Code::SectorSize));
        let unknown = Disk { logical_block_bytes: None, ..disk(4 << 30, 0) };
        assert_eq!(checked(&files, &unknown), Err(Code::DiskTooSmall));
    }

    #[test]
    fn image_of_an_unknown_version_needs_a_minimum_size_and_gives_a_warning() {
        let newer = osmet(2, 512, 1);
        let found = checked(&[&newer], &disk(LEAST_DISK_BYTES, 512)).unwrap();
        assert!(found[0].contains("version 2") && found[0].contains("8589934592"), "{found:?}");
        let cut = checked(&[&newer[..9]], &disk(LEAST_DISK_BYTES, 512)).unwrap();
        assert_eq!(cut.len(), 1);
        let small = disk(LEAST_DISK_BYTES - 1, 512);
        assert_eq!(checked(&[&newer], &small), Err(Code::DiskTooSmall));
    }

    /// A medium that fails after these bytes, as a CD drive does.
    struct Failing<'a>(&'a [u8]);

    impl Read for Failing<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            match self.0.read(buffer)? {
                0 => Err(Error::from_raw_os_error(nix::errno::Errno::EIO as i32)),
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
    fn a_file_of_another_format_is_a_lost_medium_and_a_truncated_one_never_panics() {
        let good = osmet(1, 512, 4 << 30);
        let n_read = good.len() - b"\xfd7zXZ and so on".len();
        for length in 0..n_read {
            assert!(read(&good[..length]).is_err(), "{length}");
        }
        assert!(read(&good[..n_read]).is_ok());
        for at in 0..good.len() {
            let mut damaged = good.clone();
            damaged[at] ^= 0xff;
            read(&damaged[..]).ok();
        }
        assert_eq!(checked(&[b"osmet"], &disk(1 << 40, 512)), Err(Code::MediumLost));
        assert_eq!(checked(&[], &disk(1 << 40, 512)), Err(Code::MediumLost));
        let long = [&MAGIC[..], &[1, 253], &u64::MAX.to_le_bytes()].concat();
        assert!(matches!(read(&long[..]), Err(Unread::Form(_))));
    }
}
