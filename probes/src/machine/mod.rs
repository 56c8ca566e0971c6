//! `Machine`: the only access to the kernel's facts, live or from a captured tree.
//!
//! Every probe reads through a [`Machine`]. Its source is the running kernel, a directory (`--root DIR`)
//! or an archive (`--root FILE.tar.zst`). All three answer the same calls, so a replay takes exactly the
//! path of a live run. Nothing here can write: the only calls read a file, list a directory, read a
//! symbolic link, or ask the kernel one of the read-only questions of [`crate::sys`].
//!
//! Absent facts are `None`. A fact that is present but cannot be read or parsed is `None` too, and a [`Problem`]
//! contains the text found and the form expected.

mod archive;
mod directory;
mod folder;
mod live;
mod problem;
mod record;
mod source;

pub use archive::{Archive, Node};
pub use problem::{Problem, Problems};
pub use record::{Failure, Failures, Operation, Recorded, format_failures};
pub use source::Source;

pub use formats::text::{escape_non_utf8, quote};

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::sys::Question;

/// Largest text file that a probe reads; `/proc/cpuinfo` of 2048 logical CPUs has about 3 MiB.
pub const TEXT_LIMIT_BYTES: usize = 8 << 20;

/// Expected form, instead of a text that ends within a line.
pub(crate) const CUT: &str = "a complete last line: the file is truncated";

/// Largest text file of sysfs that a probe reads. An attribute has at most one page, except the CPU lists
/// of large machines, which have up to 40 KiB.
const SYSFS_TEXT_LIMIT_BYTES: usize = 64 << 10;

/// Largest binary file that a probe reads; an SMBIOS table has at most 64 KiB (2.x) in practice.
pub const BINARY_LIMIT_BYTES: usize = 16 << 20;

/// Facts that are read only on request, since they are slow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Extras {
    /// The state of every memory block: thousands of files.
    pub memory_blocks: bool,
    /// The Vital Product Data of PCI devices: some devices take seconds to respond.
    pub vpd: bool,
    /// Short reads at the start, in the middle and at the end of each disk.
    pub disk_samples: bool,
    /// Time to listen for LLDP frames; zero for not at all.
    pub lldp_wait: Duration,
}

/// A value, or what was expected in its place.
pub type Parsed<T> = Result<T, &'static str>;

/// A view of one machine for one collector: a source to read from and a place for its problems.
#[derive(Debug, Clone)]
pub struct Machine {
    source: Arc<Source>,
    problems: Problems,
    extras: Extras,
    last: Arc<Mutex<String>>,
}

impl Machine {
    /// Makes the view of `source` that the collector called `collector` reads through.
    pub fn new(source: Arc<Source>, collector: &'static str) -> Machine {
        let problems = Problems::new(collector);
        Machine { source, problems, extras: Extras::default(), last: Arc::default() }
    }

    /// The same view, with extras.
    pub fn with_extras(self, extras: Extras) -> Machine {
        Machine { extras, ..self }
    }

    /// The facts requested in addition to the quick ones.
    pub fn extras(&self) -> Extras {
        self.extras
    }

    /// True if this is the running machine, not a capture.
    pub fn is_live(&self) -> bool {
        self.source.is_live()
    }

    /// The problems so far, in the order in which they occurred.
    pub fn problems(&self) -> Vec<Problem> {
        self.problems.all()
    }

    /// The last path that was requested; shows where a collector hangs.
    pub fn last_path(&self) -> String {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records that `path` held `found` where `expected` was expected.
    pub fn problem(&self, path: &str, found: impl Into<String>, expected: impl Into<String>) {
        self.problems.add(path, found.into(), expected.into());
    }

    /// Reads the file at `path` (relative to the root, as `sys/class/net/eno1/speed`) as bytes.
    /// `None` if it is absent, or if it could not be read, which is a problem.
    pub fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        self.read(path, BINARY_LIMIT_BYTES)
    }

    /// Reads the file at `path` as text, without trailing blanks, newlines and NULs.
    ///
    /// Bytes that are not UTF-8 become `\xNN`, so that nothing is lost and all output stays valid.
    /// `None` if the file is absent or empty.
    pub fn text(&self, path: &str) -> Option<String> {
        self.text_with_end(path).map(|(text, _)| text).filter(|text| !text.is_empty())
    }

    /// As [`Machine::text`], if a part would mislead: a text without the end of its last line is truncated,
    /// which is a problem, and is not returned. The kernel ends every line in `/proc` and in sysfs tables.
    pub fn whole_text(&self, path: &str) -> Option<String> {
        let (text, is_whole) = self.text_with_end(path)?;
        if !is_whole && !text.is_empty() {
            let last = text.lines().last().unwrap_or_default();
            self.problem(path, quote(last), CUT);
            return None;
        }
        Some(text).filter(|text| !text.is_empty())
    }

    /// As [`Machine::text`], and whether the last line is complete; the text of an empty file is empty.
    pub fn text_with_end(&self, path: &str) -> Option<(String, bool)> {
        let is_sysfs = path.starts_with("sys/");
        let limit_bytes = if is_sysfs { SYSFS_TEXT_LIMIT_BYTES } else { TEXT_LIMIT_BYTES };
        let bytes = self.read(path, limit_bytes)?;
        let is_whole = matches!(bytes.last(), Some(b'\n' | b'\0'));
        // No copy of valid text: `/proc/cpuinfo` can have megabytes.
        let mut text =
            String::from_utf8(bytes).unwrap_or_else(|bad| escape_non_utf8(bad.as_bytes()));
        text.truncate(text.trim_end_matches([' ', '\t', '\r', '\n', '\0']).len());
        Some((text, is_whole))
    }

    /// Reads the text at `path` and parses it; text that `parse` refuses is a problem with the
    /// expectation that `parse` returns. So is a number without the end of its line: the kernel always
    /// writes one, so the number is the start of a longer one.
    pub fn parse<T>(&self, path: &str, parse: impl FnOnce(&str) -> Parsed<T>) -> Option<T> {
        let text = self.text_with_end(path).filter(|(text, _)| !text.is_empty())?;
        self.parsed(path, text, parse)
    }

    /// As [`Machine::parse`], for files in which an empty line has a meaning, such as an empty list of CPUs;
    /// a file without even that line is a problem.
    pub fn parse_or_empty<T>(
        &self,
        path: &str,
        parse: impl FnOnce(&str) -> Parsed<T>,
    ) -> Option<T> {
        let text = self.text_with_end(path)?;
        self.parsed(path, text, parse)
    }

    fn parsed<T>(
        &self,
        path: &str,
        (text, is_whole): (String, bool),
        parse: impl FnOnce(&str) -> Parsed<T>,
    ) -> Option<T> {
        let may_go_on =
            |text: &str| text.is_empty() || text.ends_with(|c: char| c.is_ascii_hexdigit());
        let is_of_kernel = path.starts_with("sys/") || path.starts_with("proc/");
        let result = match parse(text.trim()) {
            Ok(_) if !is_whole && is_of_kernel && may_go_on(&text) => Err(CUT),
            result => result,
        };
        result.map_err(|expected| self.problem(path, quote(&text), expected)).ok()
    }

    /// Reads a whole decimal number at `path`, of the type that the caller needs.
    pub fn number<T: std::str::FromStr>(&self, path: &str) -> Option<T> {
        self.parse(path, whole_number)
    }

    /// As [`Machine::number`], for a file that the kernel never leaves empty: an empty one is a problem.
    pub fn count<T: std::str::FromStr>(&self, path: &str) -> Option<T> {
        self.parse_or_empty(path, whole_number)
    }

    /// Reads a flag at `path`, which the kernel writes as `0` or `1` (`N` or `Y` for parameters).
    pub fn flag(&self, path: &str) -> Option<bool> {
        // One letter is a complete flag, with or without the end of its line.
        let text = self.text(path)?;
        match text.trim() {
            "0" | "N" => Some(false),
            "1" | "Y" => Some(true),
            _ => {
                self.problem(path, quote(&text), "0 or 1");
                None
            }
        }
    }

    /// Lists the names in the directory at `path`, in natural order (`sda` before `sdaa`, `cpu2`
    /// before `cpu10`). Empty if the directory is absent.
    pub fn list(&self, path: &str) -> Vec<String> {
        let mut names = self.names(path);
        names.sort_by(|a, b| crate::natural::compare(a, b));
        names
    }

    /// The names in the directory at `path`, in no order: for a caller that only searches them.
    pub fn names(&self, path: &str) -> Vec<String> {
        self.settle(path, |source| source.list(path)).unwrap_or_default()
    }

    /// True if `path` is a directory.
    pub fn is_dir(&self, path: &str) -> bool {
        self.settle(path, |source| source.list(path)).is_some()
    }

    /// True if there is a directory at `path`, for paths whose absence is a fact as well, such as `sys/firmware/efi`.
    ///
    /// Only `ENOENT` means that there is none. Other errors that elsewhere mean that there is nothing to read
    /// (`ENOTDIR`, `EINVAL`, `ENODEV`) are a problem here, and the answer is `None`.
    pub fn has_directory(&self, path: &str) -> Option<bool> {
        self.note(path);
        match self.source.list(path) {
            Ok(_) => Some(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Some(false),
            Err(error) => {
                self.problem(path, problem::found(&error), "a directory, or none");
                None
            }
        }
    }

    /// The target of the symbolic link at `path`, unresolved; `None` if there is none.
    pub fn link(&self, path: &str) -> Option<String> {
        self.settle(path, |source| source.link(path))
    }

    /// The last component of the target of the link at `path`: the driver's name for `…/driver`,
    /// the group's number for `…/iommu_group`.
    pub fn link_name(&self, path: &str) -> Option<String> {
        let target = self.link(path)?;
        let name = target.trim_end_matches('/').rsplit('/').next()?;
        (!name.is_empty() && name != "." && name != "..").then(|| name.to_owned())
    }

    /// The target of the class or bus link at `path`, as a path relative to the root:
    /// `sys/class/net/eno1` gives `sys/devices/pci0000:00/…/net/eno1`. A path that is not a link is
    /// returned unchanged.
    pub fn device_path(&self, path: &str) -> String {
        match self.link(path) {
            Some(target) => join_link(path, &target),
            None => path.to_owned(),
        }
    }

    /// Asks the kernel a question that no file answers (ioctl, netlink, a read of a disk).
    pub fn ask(&self, question: &dyn Question) -> Option<Vec<u8>> {
        let name = question.name();
        self.settle(&name, |source| source.ask(question))
    }

    /// As [`ask`](Self::ask). `Err` is the reason for the missing answer; `Err(None)` means that the source does not
    /// know the question, as with an old capture.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn ask_or_why(&self, question: &dyn Question) -> Result<Vec<u8>, Option<Unanswered>> {
        let mut why = None;
        let answer = self.settle(&question.name(), |source| {
            source.ask(question).inspect_err(|error| {
                let is_denied = error.kind() == io::ErrorKind::PermissionDenied;
                let errno = error.raw_os_error();
                why = problem::why(error).map(|why| Unanswered { why, is_denied, errno });
            })
        });
        answer.ok_or(why)
    }

    /// True if the file at `path` exists but cannot be read.
    pub fn is_refused(&self, path: &str) -> bool {
        self.note(path);
        let result = self.source.read(path, TEXT_LIMIT_BYTES);
        result.is_err_and(|error| problem::why(&error).is_some())
    }

    fn read(&self, path: &str, limit_bytes: usize) -> Option<Vec<u8>> {
        self.settle(path, |source| source.read(path, limit_bytes))
    }

    fn note(&self, path: &str) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.clear();
        last.push_str(path);
    }

    /// Reads from the source; an error other than absence is a problem.
    fn settle<T>(&self, path: &str, read: impl FnOnce(&Source) -> io::Result<T>) -> Option<T> {
        self.note(path);
        read(&self.source).map_err(|error| self.problems.add_error(path, &error)).ok()
    }
}

/// Reason that a question was not answered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unanswered {
    /// The reason as text.
    pub why: String,
    /// True if the right to ask is missing: then nothing is wrong with the device.
    pub is_denied: bool,
    /// The kernel's error number, if the error has one.
    pub errno: Option<i32>,
}

/// The error for a file that exceeds the reader's limit; it is never silently truncated.
fn whole_number<T: std::str::FromStr>(text: &str) -> Parsed<T> {
    text.parse().map_err(|_| "a whole decimal number in range")
}

fn too_large(limit_bytes: usize) -> io::Error {
    io::Error::other(format!("more than {limit_bytes} bytes"))
}

/// Joins the link at `path` with its `target`, by name only: `..` never climbs above the root.
fn join_link(path: &str, target: &str) -> String {
    let mut parts: Vec<&str> =
        if target.starts_with('/') { Vec::new() } else { path.split('/').collect() };
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_without_line_end_is_a_problem_not_a_smaller_number() {
        let read = |path: &str, content: &[u8]| {
            let machine = crate::testing::tree_of_bytes(&[(path, content)]);
            (machine.number::<u64>(path), machine.problems().len())
        };
        assert_eq!(read("sys/block/sda/size", b"16384\n"), (Some(16384), 0));
        assert_eq!(read("sys/block/sda/size", b"163"), (None, 1));
        assert_eq!(read("run/systemd/x", b"163"), (Some(163), 0), "others may leave it out");
        let flag = crate::testing::tree_of_bytes(&[("sys/x", b"0")]);
        assert_eq!((flag.flag("sys/x"), flag.problems().len()), (Some(false), 0));
        let cut = crate::testing::tree_of_bytes(&[("proc/swaps", b"Filename Type\n/dev/sd")]);
        assert_eq!((cut.whole_text("proc/swaps"), cut.problems().len()), (None, 1));
        assert_eq!(cut.text("proc/swaps").as_deref(), Some("Filename Type\n/dev/sd"));
    }

    #[test]
    fn empty_line_is_a_value_and_empty_file_is_a_problem() {
        let read = |content: &[u8]| {
            let machine = crate::testing::tree_of_bytes(&[("sys/x", content)]);
            let text = machine.parse_or_empty("sys/x", |text| Ok(text.to_owned()));
            (text, machine.problems().len())
        };
        assert_eq!(read(b"\n"), (Some(String::new()), 0));
        assert_eq!(read(b""), (None, 1));
    }

    #[test]
    fn link_that_climbs_above_the_root_stays_below_it() {
        assert_eq!(join_link("sys/block/sda", "../devices/x/sda"), "sys/devices/x/sda");
        assert_eq!(join_link("sys/a", "../../../../etc/passwd"), "etc/passwd");
        assert_eq!(join_link("sys/a", "/etc/passwd"), "etc/passwd");
    }
}
