//! The trace in a variable of UEFI firmware.

use std::path::{Path, PathBuf};

use tracing::warn;

use super::Trace;
use crate::act::efivar;

/// The variable's name, with a GUID of ours.
const NAME: &str = "RunCoreosInstaller-5b9ea8a2-6f2c-4d0e-9d3f-0a6f6b7f4d11";
/// The variable's length is a multiple of this.
const BLOCK_BYTES: usize = 1024;

fn file(efivars: &Path) -> PathBuf {
    efivars.join(NAME)
}

/// Reads the trace.
pub(super) fn recall(efivars: &Path) -> Option<Trace> {
    let path = file(efivars);
    let trace = Trace::parse(&efivar::read(&path)?);
    if trace.is_none() {
        warn!("{} contains no trace that this agent can read", path.display());
    }
    trace
}

/// Writes the trace, and reads it back.
///
/// # Errors
/// A message with the variable's path.
pub(in crate::act) fn remember(efivars: &Path, trace: &Trace) -> Result<(), String> {
    let mut text = trace.bytes()?;
    // A new value then covers an old one, in a firmware that does not clear it and in the folder of a test.
    text.resize(text.len().next_multiple_of(BLOCK_BYTES), b' ');
    efivar::write(&file(efivars), &text)
}

/// Removes the trace.
///
/// # Errors
/// A message with the variable's path.
pub(in crate::act) fn forget(efivars: &Path) -> Result<(), String> {
    efivar::remove(&file(efivars))
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
            efivar::write(&file(dir.path()), damaged.as_bytes()).unwrap();
            assert_eq!(recall(dir.path()), None, "{damaged}");
        }
        forget(dir.path()).unwrap();
        assert_eq!(recall(dir.path()), None);
        let error = remember(Path::new("/nonexistent"), &trace(DiskState::Erased)).unwrap_err();
        assert!(error.starts_with("writing /nonexistent/RunCoreosInstaller-"), "{error}");
    }
}
