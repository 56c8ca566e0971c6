//! An image in a file of the live system, or on a block device of the machine, e.g. a partition of a USB stick.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use nix::fcntl::OFlag;
use nix::sys::stat::{major, minor};
use probes::block::Disk;

use super::head::Head;
use crate::act::{Code, Failure, System};
use crate::bounded;
use crate::http::fetch::IMAGE_HEAD_BYTES;

/// Opens an image for reading; returns its size in bytes.
///
/// # Errors
/// It cannot be opened, or is neither a regular file nor a block device.
pub(in crate::act) fn open(path: &Path) -> io::Result<(File, u64)> {
    // A pipe would block without O_NONBLOCK; files and block devices ignore it.
    let flags = OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let mut file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path)?;
    let kind = file.metadata()?.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        let what = "expected a regular file or a block device";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    let size_bytes = file.seek(SeekFrom::End(0))?;
    file.rewind()?;
    Ok((file, size_bytes))
}

/// The beginning of the image at `path`.
///
/// # Errors
/// `IMAGE_FETCH`: it cannot be read, or lies on the disk that is to be written.
pub(super) fn head(path: &Path, disk: &Disk, system: &System) -> Result<Head, Failure> {
    let refuse = |what: String| {
        Failure::new(Code::ImageFetch, format!("checking the image {}: {what}", path.display()))
            .advise("give the path of an image on the live system that can be read")
    };
    let unread = |error: io::Error| refuse(error.to_string());
    let (file, size_bytes) = open(path).map_err(unread)?;
    let metadata = file.metadata().map_err(unread)?;
    if is_on(&metadata, disk, system).map_err(refuse)? {
        return Err(refuse(format!("it is on {}, which is to be written", disk.device)));
    }
    let mut bytes = Vec::new();
    file.take(IMAGE_HEAD_BYTES).read_to_end(&mut bytes).map_err(unread)?;
    Ok(Head::new(bytes, Some(size_bytes)))
}

/// True if a file or device lies on `disk`.
fn is_on(metadata: &Metadata, disk: &Disk, system: &System) -> Result<bool, String> {
    let is_device = metadata.file_type().is_block_device();
    let number = if is_device { metadata.rdev() } else { metadata.dev() };
    let link = format!("sys/dev/block/{}:{}", major(number), minor(number));
    // `../../devices/…/block/sda/sda1`; a file system without a device, e.g. tmpfs, has no such link.
    let device = system.ask(move |machine| machine.link(&link))?;
    Ok(device.is_some_and(|path| path.split('/').any(|part| part == disk.name)))
}

/// A small file; `None` if there is none.
///
/// # Errors
/// A message if it cannot be read or is larger than `max_bytes`.
pub(super) fn if_present(path: &Path, max_bytes: u64) -> Result<Option<Vec<u8>>, String> {
    if matches!(path.try_exists(), Ok(false)) {
        return Ok(None);
    }
    bounded::read_file(path, max_bytes).map(Some).map_err(|error| format!("{error:#}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_and_block_devices_are_images() {
        for path in ["/dev/null", "/dev", "/nonexistent"] {
            assert!(open(Path::new(path)).is_err(), "{path}");
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, "image").unwrap();
        assert_eq!(open(file.path()).unwrap().1, 5);
    }
}
