//! The trace in an UEFI variable (UEFI Specification 2.10, §8.2).
//!
//! The kernel makes a variable that it does not know immutable once it exists (`fs/efivarfs/super.c`), so that `rm -r` does not
//! brick a machine; that flag is taken off for the write.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use formats::efi;
use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};

use super::{MAX_BYTES, Trace};
use crate::bounded;

/// The variable's name, with a GUID of ours.
const NAME: &str = "RunCoreosInstaller-5b9ea8a2-6f2c-4d0e-9d3f-0a6f6b7f4d11";
/// The variable's length is a multiple of this.
const BLOCK_BYTES: usize = 1024;
/// Non-volatile, boot service access, runtime access.
const ATTRIBUTES: [u8; 4] = [7, 0, 0, 0];

fn file(efivars: &Path) -> PathBuf {
    efivars.join(NAME)
}

/// Reads the trace.
pub(super) fn recall(efivars: &Path) -> Option<Trace> {
    let bytes = bounded::read_file(&file(efivars), MAX_BYTES as u64 + 4).ok()?;
    Trace::parse(efi::value(&bytes)?)
}

/// Writes the trace, and reads it back.
///
/// # Errors
/// A message with the variable's path.
pub(in crate::act) fn remember(efivars: &Path, trace: &Trace) -> Result<(), String> {
    let path = file(efivars);
    let mut text = trace.bytes()?;
    // A new value then covers an old one, in a firmware that does not clear it and in the folder of a test.
    text.resize(text.len().next_multiple_of(BLOCK_BYTES), b' ');
    let bytes = [&ATTRIBUTES[..], &text].concat();
    let fail = |error: io::Error| format!("writing {}: {error}", path.display());
    unlock(&path).map_err(fail)?;
    // efivarfs wants all of a variable in one call, and takes an empty one for one that is deleted.
    let open = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
    open.and_then(|mut file| file.write_all(&bytes)).map_err(fail)?;
    match recall(efivars) {
        Some(found) if found == *trace => Ok(()),
        _ => Err(format!("{} does not contain what was written", path.display())),
    }
}

/// Removes the trace.
///
/// # Errors
/// A message with the variable's path.
pub(in crate::act) fn forget(efivars: &Path) -> Result<(), String> {
    let path = file(efivars);
    let removed = unlock(&path).and_then(|()| std::fs::remove_file(&path));
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

#[cfg(test)]
mod tests {
    use super::super::testing::trace;
    use super::*;
    use crate::act::DiskState;

    #[test]
    fn newest_trace_is_recalled_and_a_damaged_one_is_none() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(recall(dir.path()), None);
        for stage in [DiskState::Installed, DiskState::Erased] {
            remember(dir.path(), &trace(stage)).unwrap();
            assert_eq!(recall(dir.path()), Some(trace(stage)));
        }
        for damaged in ["", "{}", "\u{0}", r#"{"request": 1}"#] {
            let content = [&ATTRIBUTES[..], damaged.as_bytes()].concat();
            std::fs::write(file(dir.path()), content).unwrap();
            assert_eq!(recall(dir.path()), None, "{damaged}");
        }
        forget(dir.path()).unwrap();
        assert_eq!(recall(dir.path()), None);
        let error = remember(Path::new("/nonexistent"), &trace(DiskState::Erased)).unwrap_err();
        assert!(error.starts_with("writing /nonexistent/RunCoreosInstaller-"), "{error}");
    }
}
