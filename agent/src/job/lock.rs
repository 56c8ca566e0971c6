//! One install at a time on a machine: a lock that the kernel gives back when its holder ends, however it ends.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;

use tracing::warn;

use crate::act::{Code, Failure};
use crate::bounded;

/// The file that is locked; it contains the number of the process that did.
const NAME: &str = "lock";
/// The longest content of that file that is read, in bytes.
const MAX_BYTES: u64 = 16;

/// Takes the lock; `None` if its file cannot be made, since a machine without other agents needs none.
///
/// # Errors
/// `NODE_LOCKED`: another agent has it.
pub(crate) fn take(run_dir: &Path) -> Result<Option<Arc<File>>, Failure> {
    let path = run_dir.join(NAME);
    let why = match open(&path, run_dir).map(|file| (file.try_lock(), file)) {
        Ok((Ok(()), file)) => {
            file.set_len(0).ok();
            write!(&file, "{}", std::process::id()).ok();
            return Ok(Some(Arc::new(file)));
        }
        Ok((Err(TryLockError::WouldBlock), _)) => {
            let holder = bounded::read_file(&path, MAX_BYTES).unwrap_or_default();
            let who = match String::from_utf8_lossy(&holder).trim() {
                "" => "another agent".to_owned(),
                number => format!("another agent, process {number}, or what it started,"),
            };
            let what = format!("{who} installs on this node (it holds {})", path.display());
            return Err(Failure::new(Code::NodeLocked, what).advise(
                "wait until that agent and its coreos-installer have ended; after its install the machine has to reboot \
                 before another one",
            ));
        }
        Ok((Err(TryLockError::Error(error)), _)) | Err(error) => error,
    };
    warn!("locking {}: {why}; another agent on this node is not noticed", path.display());
    Ok(None)
}

fn open(path: &Path, run_dir: &Path) -> io::Result<File> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(run_dir)?;
    // Only its holder may change it.
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).read(true).write(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn lock_is_held_by_one_agent_and_by_what_it_started_to_write() {
        let folder = tempfile::tempdir().unwrap();
        let run_dir = folder.path().join("run");
        let first = take(&run_dir).unwrap().unwrap();
        let refused = || take(&run_dir).unwrap_err();
        assert_eq!(refused().code, Code::NodeLocked);
        assert!(refused().to_string().contains(&format!("process {},", std::process::id())));
        // The agent is gone, but its installer is not.
        let stdin = Stdio::from(first.try_clone().unwrap());
        let mut writer = Command::new("sleep").arg("60").stdin(stdin).spawn().unwrap();
        drop(first);
        assert_eq!(refused().code, Code::NodeLocked);
        writer.kill().unwrap();
        writer.wait().unwrap();
        assert!(take(&run_dir).unwrap().is_some());
    }

    #[test]
    fn machine_without_a_place_for_the_lock_can_be_installed() {
        assert!(take(Path::new("/proc/no/such")).unwrap().is_none());
    }
}
