//! Records the reads from a source: the content of a capture.
//!
//! A recording always answers the same read with the same content, even through another path to the same
//! file. So a report and its capture describe the same moment, and a replay gives the same report, however
//! the machine's sensors and counters change.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use nix::errno::Errno;

/// The kind of read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// The content of a file, or the answer to a question.
    Read,
    /// The names in a directory.
    List,
    /// The target of a symbolic link.
    Link,
}

impl Operation {
    const ALL: [(Operation, &str); 3] =
        [(Operation::Read, "read"), (Operation::List, "list"), (Operation::Link, "link")];

    fn name(self) -> &'static str {
        let known = Operation::ALL.iter().find(|(operation, _)| *operation == self);
        known.map_or("read", |(_, name)| name)
    }
}

/// Failure of a read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The system's error number.
    Code(i32),
    /// An error of our own, e.g. that a file is larger than it may be.
    Text(String),
}

impl Failure {
    /// Nothing was there.
    pub const ABSENT: Failure = Failure::Code(Errno::ENOENT as i32);

    fn of(error: &io::Error) -> Failure {
        match error.raw_os_error() {
            Some(code) => Failure::Code(code),
            None if error.kind() == io::ErrorKind::NotFound => Failure::ABSENT,
            None => Failure::Text(error.to_string()),
        }
    }

    /// The original error.
    pub fn error(&self) -> io::Error {
        match self {
            Failure::Code(code) => io::Error::from_raw_os_error(*code),
            Failure::Text(text) => io::Error::other(text.clone()),
        }
    }
}

/// Failed reads by operation and path.
pub type Failures = BTreeMap<(Operation, String), Failure>;

/// All answers of a source, by path relative to the root.
///
/// A path can have several: a class link that was read as a link and listed as a directory.
#[derive(Debug, Clone, Default)]
pub struct Recorded {
    /// Contents of files, and answers to questions below `kernel/`.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Names in directories.
    pub directories: BTreeMap<String, Vec<String>>,
    /// Targets of symbolic links, unresolved.
    pub links: BTreeMap<String, String>,
    /// Reads that failed.
    pub failures: Failures,
    /// The path through which a file was first read, by its real path.
    pub first_paths: BTreeMap<PathBuf, String>,
}

impl Recorded {
    /// Keeps the result of a read of `path`, unless there was an earlier one: then that is returned. `real` is
    /// the file's real path, if it is known.
    pub(super) fn read(
        &mut self,
        path: &str,
        real: Option<PathBuf>,
        limit_bytes: usize,
        now: io::Result<Vec<u8>>,
    ) -> io::Result<Vec<u8>> {
        let first =
            real.map(|real| self.first_paths.entry(real).or_insert_with(|| path.to_owned()));
        let earlier = first.and_then(|first| self.files.get(first.as_str()).cloned());
        let now = match earlier {
            Some(content) => Ok(content),
            None => now,
        };
        let content = keep(&mut self.files, &mut self.failures, Operation::Read, path, now)?;
        if content.len() > limit_bytes {
            return Err(super::too_large(limit_bytes));
        }
        Ok(content)
    }

    /// As [`Recorded::read`], for the names in a directory.
    pub(super) fn list(
        &mut self,
        path: &str,
        now: io::Result<Vec<String>>,
    ) -> io::Result<Vec<String>> {
        keep(&mut self.directories, &mut self.failures, Operation::List, path, now)
    }

    /// As [`Recorded::read`], for the target of a link.
    pub(super) fn link(&mut self, path: &str, now: io::Result<String>) -> io::Result<String> {
        keep(&mut self.links, &mut self.failures, Operation::Link, path, now)
    }
}

/// The first answer to `operation` of `path`, which is `now` unless there was one before.
fn keep<T: Clone>(
    answers: &mut BTreeMap<String, T>,
    failures: &mut Failures,
    operation: Operation,
    path: &str,
    now: io::Result<T>,
) -> io::Result<T> {
    if let Some(known) = answers.get(path) {
        return Ok(known.clone());
    }
    let key = (operation, path.to_owned());
    if let Some(known) = failures.get(&key) {
        return Err(known.error());
    }
    match now {
        Ok(answer) => Ok(answers.entry(key.1).or_insert(answer).clone()),
        Err(error) => {
            failures.insert(key, Failure::of(&error));
            Err(error)
        }
    }
}

/// The text of `kernel/errors`: a line per failed read, `ERRNO:OPERATION path`, or `:OPERATION path`
/// followed by a tab and the error's text. Backslashes, tabs and line ends in a path are escaped.
pub fn format_failures(failures: &Failures) -> String {
    let line = |((operation, path), failure): (&(Operation, String), &Failure)| {
        let (name, path) = (operation.name(), escape(path));
        match failure {
            Failure::Code(code) => format!("{code}:{name} {path}\n"),
            Failure::Text(text) => format!(":{name} {path}\t{}\n", escape(text)),
        }
    };
    failures.iter().map(line).collect()
}

/// Parses `kernel/errors`. The older form `ERRNO path` means that every operation on the path failed.
pub(super) fn parse_failures(text: &[u8]) -> Failures {
    let text = String::from_utf8_lossy(text);
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.flat_map(|(head, rest)| parse_line(head, rest).unwrap_or_default()).collect()
}

fn parse_line(head: &str, rest: &str) -> Option<Vec<((Operation, String), Failure)>> {
    let Some((code, name)) = head.split_once(':') else {
        let failure = Failure::Code(head.parse().ok()?);
        let both = [Operation::Read, Operation::List];
        return Some(both.map(|operation| ((operation, rest.to_owned()), failure.clone())).into());
    };
    let (operation, _) = Operation::ALL.into_iter().find(|(_, known)| *known == name)?;
    let (path, failure) = match rest.split_once('\t') {
        Some((path, text)) if code.is_empty() => (path, Failure::Text(unescape(text))),
        _ => (rest, Failure::Code(code.parse().ok()?)),
    };
    Some(vec![((operation, unescape(path)), failure)])
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n").replace('\t', "\\t").replace('\r', "\\r")
}

fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        plain.push(match character {
            '\\' => match characters.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some('r') => '\r',
                other => other.unwrap_or('\\'),
            },
            plain => plain,
        });
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denied() -> io::Error {
        io::Error::from_raw_os_error(Errno::EACCES as i32)
    }

    #[test]
    fn failures_survive_a_round_trip() {
        let failures: Failures = [
            ((Operation::Read, "sys/a b".to_owned()), Failure::Code(13)),
            ((Operation::List, "sys/odd\\x2d\n\tname".to_owned()), Failure::Code(5)),
            ((Operation::Link, "sys/l".to_owned()), Failure::Code(40)),
            ((Operation::Read, "kernel/q".to_owned()), Failure::Text("too\tslow\n".to_owned())),
        ]
        .into();
        assert_eq!(parse_failures(format_failures(&failures).as_bytes()), failures);
    }

    #[test]
    fn older_form_is_read_and_damaged_lines_are_skipped() {
        let failures =
            parse_failures(b"13 sys/a b\nx sys/c\n\n5:jump sys/d\n:read sys/e\n6:read sys/f\n");
        assert_eq!(failures[&(Operation::Read, "sys/a b".to_owned())], Failure::Code(13));
        assert_eq!(failures[&(Operation::List, "sys/a b".to_owned())], Failure::Code(13));
        assert_eq!(failures[&(Operation::Read, "sys/f".to_owned())], Failure::Code(6));
        assert_eq!(failures.len(), 3);
    }

    #[test]
    fn value_that_changes_during_a_recording_keeps_its_first_content() {
        let mut recorded = Recorded::default();
        let real = || Some(PathBuf::from("/sys/devices/temp"));
        assert_eq!(recorded.read("sys/a/temp", real(), 9, Ok(b"41".to_vec())).unwrap(), b"41");
        assert_eq!(recorded.read("sys/a/temp", real(), 9, Ok(b"42".to_vec())).unwrap(), b"41");
        assert_eq!(recorded.read("sys/b/temp", real(), 9, Ok(b"43".to_vec())).unwrap(), b"41");
        assert_eq!(recorded.files["sys/b/temp"], b"41");
        assert!(recorded.read("sys/a/temp", real(), 1, Ok(b"4".to_vec())).is_err());
        assert_eq!(recorded.list("sys/a", Ok(vec!["temp".to_owned()])).unwrap(), ["temp"]);
        assert_eq!(recorded.list("sys/a", Ok(Vec::new())).unwrap(), ["temp"]);
    }

    #[test]
    fn listing_a_file_leaves_its_content_readable() {
        let mut recorded = Recorded::default();
        let no_directory = io::Error::from_raw_os_error(Errno::ENOTDIR as i32);
        assert!(recorded.list("sys/a", Err(no_directory)).is_err());
        assert!(recorded.read("sys/a", None, 9, Ok(b"1".to_vec())).is_ok());
        assert!(recorded.link("sys/a", Err(denied())).is_err());
        assert!(recorded.link("sys/a", Ok("b".to_owned())).is_err(), "the first answer stays");
        assert_eq!((recorded.files.len(), recorded.failures.len()), (1, 2));
    }
}
