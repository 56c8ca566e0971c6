//! Writing the disk: which one, whether it may be, and the run of coreos-installer.
//!
//! Nothing here is reachable from the code that collects facts. The order is [`choose::choose`],
//! [`preflight`], [`identity`] again, [`run::install`].

pub mod busy;
pub mod choose;
pub mod efi;
pub mod failure;
pub mod hints;
pub mod identity;
pub mod installer;
pub mod osmet;
pub mod preflight;
pub mod progress;
pub mod run;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use probes::block::Disk;
use probes::guard;
use probes::machine::{Machine, Source};

use crate::api::{Code, DiskIdentity};

pub use choose::choose;

/// How long the kernel may take to say what it knows of one disk; it does not ask the disk itself.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// Of the thread that asks.
const STACK_BYTES: usize = 2 << 20;

/// The disk as results name it.
#[must_use]
pub fn identity_of(disk: &Disk) -> DiskIdentity {
    DiskIdentity {
        device: disk.device.clone(),
        serial: disk.serial.clone(),
        wwn: disk.wwn.clone(),
        size_bytes: disk.size_bytes.filter(|size_bytes| *size_bytes > 0),
    }
}

/// The disk in words: `/dev/sda (serial S1, 512110190592 bytes)`.
#[must_use]
pub fn describe(disk: &Disk) -> String {
    let serial = disk.serial.as_ref().map(|serial| format!("serial {serial}, "));
    let size = disk.size_bytes.map(|size_bytes| format!("{size_bytes} bytes"));
    let size = size.as_deref().unwrap_or("size unknown");
    format!("{} ({}{size})", disk.device, serial.unwrap_or_default())
}

/// The system whose disks are written: the running one. Tests put a directory in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct System {
    root: PathBuf,
}

impl Default for System {
    fn default() -> Self {
        Self { root: "/".into() }
    }
}

impl System {
    /// A system whose `sys` and `proc` lie below `root`.
    #[must_use]
    pub fn below(root: PathBuf) -> Self {
        Self { root }
    }

    /// Where efivarfs is mounted.
    #[must_use]
    pub fn efivars(&self) -> PathBuf {
        self.root.join("sys/firmware/efi/efivars")
    }

    /// Whether this machine was booted by UEFI.
    #[must_use]
    pub fn is_uefi(&self) -> bool {
        // Unless the kernel clearly has no such directory, the disk must have a boot loader for UEFI:
        // the stricter check.
        let has_efi = |machine: &Machine| machine.has_directory("sys/firmware/efi");
        self.ask(has_efi).ok().flatten().unwrap_or(true)
    }

    /// Asks the kernel as it is now. Each call has a source and a thread of its own, since a source keeps
    /// some files, and a thread the directory that it listed last: neither may answer for a disk that is
    /// gone.
    ///
    /// # Errors
    /// In words: there is no answer in time.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Machine) -> T + Send + 'static,
    ) -> Result<T, String> {
        let root = self.root.clone();
        let answer = guard::ask("system", STACK_BYTES, move || {
            let is_live = root == Path::new("/");
            let source = if is_live { Ok(Source::live()) } else { Source::captured(&root) };
            source.map(|source| question(&Machine::new(Arc::new(source), "install")))
        });
        let answer = answer.map_err(|error| format!("could not start a thread: {error}"))?;
        match answer.recv_timeout(ANSWER_LIMIT) {
            Ok(Ok(Ok(answer))) => Ok(answer),
            Ok(Ok(Err(error))) => Err(error.to_string()),
            Ok(Err(panic)) => Err(format!("reading broke down: {panic}")),
            Err(_) => Err(format!("no answer within {} s", ANSWER_LIMIT.as_secs())),
        }
    }
}

/// Why the install does not go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Stable code.
    pub code: Code,
    /// What was found and what was expected.
    pub message: String,
    /// What to do about it.
    pub advice: Option<String>,
}

impl Failure {
    /// A failure without advice.
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), advice: None }
    }

    /// The same with advice.
    #[must_use]
    pub fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_is_booted_by_uefi_unless_the_directory_is_clearly_absent() {
        let is_uefi = |error: Option<&str>| {
            let name = format!("rci-uefi-{}-{}", std::process::id(), error.unwrap_or("none"));
            let root = std::env::temp_dir().join(name);
            std::fs::create_dir_all(root.join("sys/firmware")).unwrap();
            std::fs::create_dir_all(root.join("kernel")).unwrap();
            if let Some(error) = error {
                let line = format!("{error} sys/firmware/efi\n");
                std::fs::write(root.join("kernel/errors"), line).unwrap();
            }
            let is_uefi = System::below(root.clone()).is_uefi();
            std::fs::remove_dir_all(root).unwrap();
            is_uefi
        };
        assert!(!is_uefi(None));
        for (errno, name) in
            [("5", "EIO"), ("24", "EMFILE"), ("20", "ENOTDIR"), ("22", "EINVAL"), ("19", "ENODEV")]
        {
            assert!(is_uefi(Some(errno)), "{name}");
        }
    }
}
