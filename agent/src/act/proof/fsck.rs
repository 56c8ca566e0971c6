//! The judgement of e2fsck on the boot file system: journal, bitmaps and checksums change when it is mounted, so they cannot
//! be compared with the image's, and a kernel may refuse to mount it without them.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::time::Duration;

use tracing::debug;

use crate::act::System;

/// Time limit; `boot` has 384 MiB.
const LIMIT: Duration = Duration::from_mins(1);
/// The most output that is read, in bytes.
const MAX_OUTPUT_BYTES: usize = 64 << 10;
/// The most lines that are named.
const MAX_NAMED: usize = 3;
/// "File system errors left uncorrected" (e2fsck(8), exit code).
const HAS_ERRORS: i32 = 4;

/// Asks e2fsck, which opens the disk read-only. If it is missing or does not know the file system, nothing is known.
///
/// # Errors
/// A message with the faults.
pub(in crate::act) fn check(file: &File, start_bytes: u64, system: &System) -> Result<(), String> {
    // The disk that is open, whatever its name leads to by now.
    let disk = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    let args = ["-f", "-n", &format!("{disk}?offset={start_bytes}")].map(str::to_owned);
    let program = (Path::new("e2fsck"), &args[..]);
    match system.output_of(program, LIMIT, MAX_OUTPUT_BYTES, |_| false) {
        Ok((text, Some(status))) if status & HAS_ERRORS != 0 => {
            let is_fault = |line: &&str| !line.is_empty() && !line.starts_with("Pass ");
            let faults: Vec<&str> = text.lines().filter(is_fault).take(MAX_NAMED).collect();
            Err(format!("e2fsck found errors: {}", faults.join(" ")))
        }
        Ok(_) => Ok(()),
        Err(why) => {
            debug!(%why, "e2fsck was not asked");
            Ok(())
        }
    }
}
