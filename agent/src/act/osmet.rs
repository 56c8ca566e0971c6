//! The live image's own installable image: an osmet file, which contains what the live system's tree does not.
//!
//! Its header has the size of the image and the sector size that it is made for, so that a disk that is too small is
//! refused before it is written; `whole` puts the image together from the file and the live system.

pub mod whole;

use std::fs::File;
use std::io::{BufReader, Read as _};
use std::path::{Path, PathBuf};

use formats::osmet::{Facts, Unread, header};
use probes::block::Disk;

use super::image::check_size;
use super::{Code, Failure, Say, Term, say};

/// At most this much of a file is read; the list of a real one has a few megabytes.
const MAX_BYTES: u64 = 64 << 20;
/// More files than these do not lie in a live image.
const MAX_FILES: usize = 16;
/// The size that a disk must have if the osmet file is of another version, so that its size is unknown: the requirement
/// of Fedora `CoreOS` for the root file system alone.
const LEAST_DISK_BYTES: u64 = 8 << 30;

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
    header(&mut BufReader::new(file).take(MAX_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An osmet file without partitions.
    fn osmet(version: u8, sector_bytes: u16, size_bytes: u64) -> Vec<u8> {
        let (sector, size) = (sector_bytes.to_le_bytes(), size_bytes.to_le_bytes());
        let head = [&b"OSMET\0\0\0"[..], &[version, 0, 251], &sector, &[0; 3]].concat();
        [&head[..], &[7; 32], &[253], &size].concat()
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

    #[test]
    fn a_file_of_another_format_and_a_missing_one_are_a_lost_medium() {
        assert_eq!(checked(&[b"osmet"], &disk(1 << 40, 512)), Err(Code::MediumLost));
        assert_eq!(checked(&[], &disk(1 << 40, 512)), Err(Code::MediumLost));
    }
}
