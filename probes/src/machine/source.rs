//! Sources of the facts: the running kernel, a directory or an archive.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::archive::Archive;
use super::directory::Directory;
use super::live;
use super::record::{Failures, Operation, Recorded};
use crate::sys::Question;

/// Folder of a captured tree with the answers to questions that no file answers.
const KERNEL: &str = "kernel";
/// File of a captured tree that lists the failed reads.
const ERRORS: &str = "kernel/errors";

/// A tree with one of these directories at its top is a machine. `kernel` or `report.json` alone are not enough: `/etc`
/// may contain them.
const TOP: [&str; 2] = ["sys", "proc"];

/// Files that several collectors read and that do not change: long ones, and the sets of CPUs.
const SHARED: &str = "proc/cmdline proc/cpuinfo proc/version sys/devices/system/cpu/offline \
     sys/devices/system/cpu/online sys/devices/system/cpu/possible sys/devices/system/cpu/present \
     sys/firmware/dmi/tables/DMI";

/// True if a file is read once for all collectors: one of [`SHARED`], or the state of one CPU.
fn is_shared(path: &str) -> bool {
    let one_cpu = path.strip_prefix("sys/devices/system/cpu/cpu");
    one_cpu.is_some_and(|rest| rest.ends_with("/online"))
        || SHARED.split(' ').any(|shared| shared == path)
}

/// A source of facts, with everything that was read from it if it is recorded.
#[derive(Debug)]
pub struct Source {
    from: From,
    failures: Failures,
    recorded: Option<Mutex<Recorded>>,
    /// Content of the shared files, by path; `None` for an absent one.
    shared: Mutex<BTreeMap<String, Option<Vec<u8>>>>,
}

#[derive(Debug)]
enum From {
    Live,
    Directory(Directory),
    Archive(Archive),
}

impl From {
    fn read(&self, path: &str, limit_bytes: usize) -> io::Result<Vec<u8>> {
        match self {
            From::Live => live::read(path, limit_bytes),
            From::Directory(directory) => directory.read(path, limit_bytes),
            From::Archive(archive) => archive.read(path, limit_bytes),
        }
    }

    fn list(&self, path: &str) -> io::Result<Vec<String>> {
        match self {
            From::Live => live::list(path),
            From::Directory(directory) => directory.list(path),
            From::Archive(archive) => archive.list(path),
        }
    }

    fn link(&self, path: &str) -> io::Result<String> {
        match self {
            From::Live => live::link(path),
            From::Directory(directory) => directory.link(path),
            From::Archive(archive) => archive.link(path),
        }
    }
}

impl Source {
    /// The running machine.
    pub fn live() -> Source {
        Source::of(From::Live)
    }

    /// A captured tree: a directory, or a `tar` or `tar.zst` file as `capture` writes it.
    ///
    /// # Errors
    /// If `path` is neither, cannot be read, is damaged, or contains no machine.
    pub fn captured(path: &Path) -> io::Result<Source> {
        let (from, place) = if fs::metadata(path)?.is_dir() {
            (From::Directory(Directory::open(path)?), "the directory")
        } else {
            (From::Archive(Archive::open(path)?), "the archive")
        };
        check_machine(&from, place)?;
        Ok(Source::replay(from))
    }

    /// A captured tree that is already in memory.
    pub fn unpacked(archive: Archive) -> Source {
        Source::replay(From::Archive(archive))
    }

    fn of(from: From) -> Source {
        let shared = Mutex::default();
        Source { from, failures: Failures::default(), recorded: None, shared }
    }

    fn replay(from: From) -> Source {
        let mut source = Source::of(from);
        if let Ok(text) = source.read(ERRORS, super::TEXT_LIMIT_BYTES) {
            source.failures = super::record::parse_failures(&text);
        }
        source
    }

    /// The same source, which records everything that is read from now on.
    pub fn recording(mut self) -> Source {
        self.recorded = Some(Mutex::default());
        self
    }

    /// True if this is the running machine.
    pub fn is_live(&self) -> bool {
        matches!(self.from, From::Live)
    }

    /// The recorded reads so far; empty unless the source is [`Source::recording`].
    pub fn recorded(&self) -> Recorded {
        self.record().map(|recorded| recorded.clone()).unwrap_or_default()
    }

    pub(super) fn read(&self, path: &str, limit_bytes: usize) -> io::Result<Vec<u8>> {
        if !is_shared(path) {
            return self.read_itself(path, limit_bytes);
        }
        // Not held while reading: a read that hangs would block the others.
        let known = self.shared().get(path).cloned();
        if let Some(content) = known {
            return content.ok_or_else(|| io::ErrorKind::NotFound.into());
        }
        let result = self.read_itself(path, limit_bytes);
        match &result {
            Ok(content) => drop(self.shared().insert(path.to_owned(), Some(content.clone()))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.shared().insert(path.to_owned(), None);
            }
            Err(_) => {}
        }
        result
    }

    fn shared(&self) -> MutexGuard<'_, BTreeMap<String, Option<Vec<u8>>>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read_itself(&self, path: &str, limit_bytes: usize) -> io::Result<Vec<u8>> {
        let known = self.known(Operation::Read, path);
        let result = known.and_then(|()| self.from.read(path, limit_bytes));
        let result = result.map_err(|error| self.unread(path, error));
        let real = self.real_path(path);
        match self.record() {
            Some(mut recorded) => recorded.read(path, real, limit_bytes, result),
            None => result,
        }
    }

    /// A capture keeps a name that was listed but never read as an empty directory. A later version that
    /// reads it must find nothing there, not a directory in place of a file.
    fn unread(&self, path: &str, error: io::Error) -> io::Error {
        let may_be_empty = error.kind() == io::ErrorKind::IsADirectory && !self.is_live();
        match may_be_empty.then(|| self.from.list(path)) {
            Some(Ok(names)) if names.is_empty() => io::ErrorKind::NotFound.into(),
            _ => error,
        }
    }

    pub(super) fn list(&self, path: &str) -> io::Result<Vec<String>> {
        let result = self.known(Operation::List, path).and_then(|()| self.from.list(path));
        match self.record() {
            Some(mut recorded) => recorded.list(path, result),
            None => result,
        }
    }

    pub(super) fn link(&self, path: &str) -> io::Result<String> {
        match self.known(Operation::Link, path).and_then(|()| self.from.link(path)) {
            // A path that exists but is not a link has no target, which is not an error.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                Err(io::ErrorKind::NotFound.into())
            }
            result => match self.record() {
                Some(mut recorded) => recorded.link(path, result),
                None => result,
            },
        }
    }

    pub(super) fn ask(&self, question: &dyn Question) -> io::Result<Vec<u8>> {
        let path = format!("{KERNEL}/{}", question.name());
        let limit_bytes = super::BINARY_LIMIT_BYTES;
        let result = self.known(Operation::Read, &path).and_then(|()| match &self.from {
            From::Live => question.ask_live(),
            captured => captured.read(&path, limit_bytes),
        });
        match self.record() {
            Some(mut recorded) => recorded.read(&path, None, limit_bytes, result),
            None => result,
        }
    }

    /// A read that failed on the captured machine fails in the same way in a replay.
    fn known(&self, operation: Operation, path: &str) -> io::Result<()> {
        if self.failures.is_empty() {
            return Ok(());
        }
        match self.failures.get(&(operation, path.to_owned())) {
            Some(failure) => Err(failure.error()),
            None => Ok(()),
        }
    }

    fn record(&self) -> Option<MutexGuard<'_, Recorded>> {
        let recorded = self.recorded.as_ref()?;
        Some(recorded.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The real path of a file of the running machine; only a recording needs it.
    fn real_path(&self, path: &str) -> Option<PathBuf> {
        let is_asked = self.is_live() && self.recorded.is_some();
        is_asked.then(|| fs::canonicalize(format!("/{path}")).ok()).flatten()
    }
}

/// Refuses a tree without a machine, which would replay as a machine without hardware: one with neither directory of
/// [`TOP`], and one whose `sys` is not the content of a sysfs, as below a root where nothing is mounted on it.
fn check_machine(from: &From, place: &str) -> io::Result<()> {
    let sys = match from.list("sys") {
        Ok(names) if names.is_empty() => Some("is empty"),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Some("is not a directory"),
        _ => None,
    };
    let has_names = |name: &&str| from.list(name).is_ok_and(|names| !names.is_empty());
    let names = from.list(".")?;
    let why = if let Some(sys) = sys {
        format!("sys in {place} {sys}, expected what a kernel shows in /sys")
    } else if TOP.iter().any(has_names) {
        return Ok(());
    } else if from.list("proc").is_ok() {
        format!(
            "proc in {place} is empty and there is no sys, expected what a kernel shows in them"
        )
    } else if let Some((first, others)) = names.split_first() {
        let n_more = others.len();
        let more = if n_more > 0 { format!(" and {n_more} more") } else { String::new() };
        let first = first.escape_debug();
        format!("{place} contains no machine: neither sys/ nor proc/, but \"{first}\"{more}")
    } else {
        format!("{place} is empty")
    };
    Err(io::Error::other(why))
}

#[cfg(test)]
mod tests {
    use crate::testing::tree;

    #[test]
    fn name_that_was_only_listed_is_absent_but_directory_with_content_is_a_problem() {
        let machine = tree(&[("sys/a/value/x", "1")]);
        assert_eq!(machine.text("sys/a/value"), None);
        assert_eq!(machine.problems().len(), 1);
        let dir = std::env::temp_dir().join(format!("rci-unread-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("sys/a/value")).unwrap();
        let source = super::Source::captured(&dir).unwrap();
        let error = source.read("sys/a/value", 100).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
        std::fs::remove_dir_all(dir).unwrap();
    }
}
