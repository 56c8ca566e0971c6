//! Checks that the chosen disk can be read at its start, in its middle and at its end, before it is written. The report
//! contains what its first bytes say; a write to a disk that fails in its middle would end half-way.
//!
//! A read may be answered from the page cache. A disk that broke since then is noticed by the write.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use probes::block::{Disk, is_read_fault};
use probes::findings::{Finding, of_unreadable};

use super::System;
use super::target::Target;
use crate::ask::{Unanswered, ask_within};

/// Number of bytes read at each place.
const N_BYTES: u64 = 64 << 10;
/// Reads start at a multiple of this.
const ALIGNMENT: u64 = 4096;
/// Time limit for these reads.
const LIMIT: Duration = Duration::from_secs(30);

/// A disk that cannot be read.
#[derive(Debug, Clone, PartialEq)]
pub struct Unreadable {
    /// Why, and where.
    pub finding: Finding,
    disk: Disk,
    /// True if a thread still waits for the disk, which nothing can end.
    is_late: bool,
}

impl Unreadable {
    /// Reads the disk again, unless an earlier read still waits for it. `None` once it can be read.
    pub fn again(self, system: &System) -> Option<Self> {
        if self.is_late {
            return Some(self);
        }
        match Target::hold(&self.disk, system) {
            Ok(target) => check(&target),
            // Another disk may be in its place; its facts say so.
            Err(_) => Some(self),
        }
    }
}

/// Returns the fault of the held disk if it cannot be read.
pub fn check(target: &Target) -> Option<Unreadable> {
    let disk = target.disk();
    let (size_bytes, file) = (disk.size_bytes?, target.file().ok()?);
    // A zone that was never written may return errors.
    let is_tested = disk.zoned.is_none() && !disk.is_locked();
    let read = move || if is_tested { sample(&file, size_bytes) } else { None };
    let (why, is_late) = match ask_within("readable", LIMIT, target.system().stop(), read) {
        Ok(found) => (found?, false),
        Err(late @ Unanswered::Late(_)) => (format!("it cannot be read: {late}"), true),
        Err(_) => return None,
    };
    Some(Unreadable { finding: of_unreadable(disk, why)?, disk: disk.clone(), is_late })
}

/// The first place that the disk itself cannot read.
fn sample(file: &File, size_bytes: u64) -> Option<String> {
    let middle = size_bytes / 2 / ALIGNMENT * ALIGNMENT;
    let last = size_bytes.saturating_sub(N_BYTES).next_multiple_of(ALIGNMENT);
    [("start", 0), ("middle", middle), ("end", last)].into_iter().find_map(|(place, at)| {
        let n_bytes = usize::try_from(N_BYTES.min(size_bytes.saturating_sub(at))).ok()?;
        let error = file.read_exact_at(&mut vec![0; n_bytes], at).err()?;
        // An end before the end of the disk has no number.
        error.raw_os_error().filter(|errno| is_read_fault(*errno))?;
        Some(format!("{n_bytes} bytes at byte {at}, at its {place}, cannot be read: {error}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn io_error_is_named_with_its_place_and_neither_an_end_nor_a_missing_right_is_one() {
        let none = File::open("/dev/null").unwrap();
        assert_eq!(sample(&none, 1 << 20), None);
        let write_only = File::options().write(true).open("/dev/null").unwrap();
        assert_eq!(sample(&write_only, 1 << 20), None);
        // Nothing is mapped at address 0, and the kernel answers EIO.
        let bad = File::open("/proc/self/mem").unwrap();
        let found = sample(&bad, 1 << 20).unwrap();
        let expected = "65536 bytes at byte 0, at its start, cannot be read: Input/output error";
        assert!(found.starts_with(expected), "{found}");
    }
}
