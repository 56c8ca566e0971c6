//! Variables of UEFI firmware in efivarfs (`Documentation/filesystems/efivarfs.rst`; UEFI Specification 2.10, §8.2).
//!
//! The kernel makes a variable that it does not know immutable once it exists (`fs/efivarfs/super.c`), so that `rm -r` does not
//! brick a machine; that flag is taken off before a variable is written or removed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

use formats::efi;
use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};

use crate::bounded;

/// Non-volatile, boot service access, runtime access.
const ATTRIBUTES: [u8; 4] = [7, 0, 0, 0];
/// The largest variable that is read, in bytes.
const MAX_BYTES: u64 = 64 * 1024;

/// A variable's value, without the attributes that efivarfs puts before it; `None` if it cannot be read.
pub(super) fn read(path: &Path) -> Option<Vec<u8>> {
    let bytes = bounded::read_file(path, MAX_BYTES).ok()?;
    efi::value(&bytes).map(<[u8]>::to_vec)
}

/// Writes a variable in one call, as efivarfs asks for, and reads it back.
///
/// # Errors
/// A message with the variable's path.
pub(super) fn write(path: &Path, value: &[u8]) -> Result<(), String> {
    let bytes = [&ATTRIBUTES, value].concat();
    // Not truncated: an empty variable is one that is deleted. The files of a test are no variables.
    let open = || OpenOptions::new().write(true).create(true).truncate(cfg!(test)).open(path);
    unlock(path)
        .and_then(|()| open()?.write_all(&bytes))
        .map_err(|error| format!("writing {}: {error}", path.display()))?;
    match read(path) {
        Some(found) if found == value => Ok(()),
        _ => Err(format!("{} does not contain what was written", path.display())),
    }
}

/// Removes a variable.
///
/// # Errors
/// A message with the variable's path.
pub(super) fn remove(path: &Path) -> Result<(), String> {
    let removed = unlock(path).and_then(|()| fs::remove_file(path));
    removed.map_err(|error| format!("removing {}: {error}", path.display()))
}

/// Takes the flag off an existing variable.
fn unlock(path: &Path) -> io::Result<()> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    // A file system without such flags has nothing to take off.
    let Ok(flags) = ioctl_getflags(&file) else { return Ok(()) };
    if flags.contains(IFlags::IMMUTABLE) {
        ioctl_setflags(&file, flags - IFlags::IMMUTABLE)?;
    }
    Ok(())
}
