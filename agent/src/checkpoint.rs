//! Where the job is, in a file that outlives the process: what its parent posts if a bug or the kernel ends it.
//!
//! The file holds one line of JSON, written with one `pwrite(2)`, so that no crash leaves half of it.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::act::{DiskIdentity, DiskState, Stage};

/// Where the file is put; the second directory is for people who are not root.
const DIRECTORIES: [&str; 2] = ["/run", "/tmp"];
/// The longest panic message that is kept, in characters.
const MAX_PANIC_CHARS: usize = 500;
/// Largest file.
const MAX_BYTES: u64 = 64 * 1024;

/// The file of this process, once it is opened, for the parent process.
#[derive(Debug, Clone, Default)]
pub struct CrashMemory(Arc<Mutex<Option<Open>>>);

#[derive(Debug)]
struct Open {
    file: File,
    checkpoint: Checkpoint,
}

impl Open {
    /// A longer text before it ends after the line end, where the reader stops.
    fn write(&self) {
        if let Ok(mut line) = serde_json::to_vec(&self.checkpoint) {
            line.push(b'\n');
            self.file.write_all_at(&line, 0).ok();
        }
    }
}

impl CrashMemory {
    /// From now on changes are written to the file, which contains a first line at once: the parent then knows that this
    /// process has begun and catches signals.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(&self, path: &Path) -> std::io::Result<()> {
        let file = OpenOptions::new().write(true).open(path)?;
        file.write_all_at(b"{}\n", 0)?;
        let opened = Open { file, checkpoint: Checkpoint::default() };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(opened);
        Ok(())
    }

    /// Changes what the file holds. Without a file nothing happens.
    pub fn update(&self, change: impl FnOnce(&mut Checkpoint)) {
        let mut memory = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(memory) = &mut *memory else { return };
        let before = memory.checkpoint.clone();
        change(&mut memory.checkpoint);
        if memory.checkpoint != before {
            memory.write();
        }
    }

    /// Keeps the message of a panic. It may come from any thread, even from one inside [`CrashMemory::update`].
    pub fn record_panic(&self, message: &str) {
        let Ok(mut memory) = self.0.try_lock() else { return };
        let Some(memory) = &mut *memory else { return };
        memory.checkpoint.panic = Some(message.chars().take(MAX_PANIC_CHARS).collect());
        memory.write();
    }
}

/// What the parent needs to post a result.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Checkpoint {
    /// The id that the VIM knows; empty before the report was accepted.
    pub node_id: String,
    /// The instruction that is carried out.
    pub request_id: Option<String>,
    /// Digest of that instruction.
    pub request_digest: Option<String>,
    /// The stage of the job.
    pub stage: Option<Stage>,
    /// The disk that was chosen.
    pub disk: Option<DiskIdentity>,
    /// What would be true of the disk if the process ended now.
    pub disk_state: Option<DiskState>,
    /// How many times coreos-installer was run for this instruction.
    pub attempts: u32,
    /// Whether the job is over and its result delivered, so that nothing is left to post. A refusal with an untouched disk
    /// does not end the job.
    pub is_over: bool,
    /// True if more than the install of the disk is to be done: without it, an installed disk is a failure.
    pub has_more: bool,
    /// What was active on the disk and was taken down, in words.
    pub taken_down: Vec<String>,
    /// The metadata that was erased at the end of the disk after the write, in words.
    pub erased: Vec<String>,
    /// When the job started: RFC 3339, UTC.
    pub started_at: String,
    /// The exit status of the job, once nothing but the end of the process is left to do.
    pub exit_status: Option<u8>,
    /// The message of the panic that ended the process.
    pub panic: Option<String>,
}

/// Makes an empty file that only this user may read, and returns its path.
///
/// # Errors
/// No directory is writable.
pub fn create() -> std::io::Result<PathBuf> {
    let mut last = std::io::ErrorKind::NotFound.into();
    for directory in DIRECTORIES {
        let path =
            Path::new(directory).join(format!("run-coreos-installer-{}.json", std::process::id()));
        // A file of that name is left from a process that had the same number.
        std::fs::remove_file(&path).ok();
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
            Ok(_) => return Ok(path),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Reads the file; `None` if the process wrote nothing.
pub fn read(path: &Path) -> Option<Checkpoint> {
    let bytes = crate::bounded::read_file(path, MAX_BYTES).ok()?;
    let line = bytes.split(|byte| *byte == b'\n').next()?;
    serde_json::from_slice(line).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shorter_text_replaces_a_longer_one() {
        let path = create().unwrap();
        assert_eq!(read(&path), None);
        let memory = CrashMemory::default();
        memory.open(&path).unwrap();
        memory.update(|checkpoint| checkpoint.node_id = "a-long-name-of-a-node".into());
        memory.update(|checkpoint| checkpoint.node_id = "short".into());
        memory.record_panic("out of cheese");
        let found = read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(found.node_id, "short");
        assert_eq!(found.panic.as_deref(), Some("out of cheese"));
    }
}
