//! The kernel log since boot: `/dev/kmsg` (`Documentation/ABI/testing/dev-kmsg`), read without waiting.
//! Needs root where `kernel.dmesg_restrict` is 1. Reading it takes nothing away from other readers.

use std::fs::OpenOptions;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;

use nix::errno::Errno;
use nix::libc;

use super::Fixed;
use crate::firmware_reports;
use crate::kernel_messages::message;

/// A record has at most 8 KiB (`CONSOLE_EXT_LOG_MAX`, `include/linux/printk.h`), since Linux 6.3 at most 2 KiB
/// (`PRINTK_MESSAGE_MAX`, `kernel/printk/internal.h`). A read into less room fails.
const RECORD_BYTES: usize = 16 << 10;
/// The most records that are read; a log of 2 MiB has some 20,000. A kernel that logs without end must not
/// keep the reader busy without end.
const MOST_RECORDS: usize = 1_000_000;
/// The most bytes that are kept of the messages that mean a fault.
const MOST_KEPT_BYTES: usize = 4 << 20;
/// The last line if the log has more messages than were kept. No record looks like it.
pub(crate) const MORE: &str = "more";

/// Asks for the records that mean a fault, oldest first: the first line of each, which is the message.
pub const KERNEL_LOG: Fixed = Fixed { name: "kmsg", ask };

fn ask() -> io::Result<Vec<u8>> {
    let mut log = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open("/dev/kmsg")?;
    let (mut record, mut kept) = (vec![0; RECORD_BYTES], Kept::default());
    for _ in 0..MOST_RECORDS {
        match log.read(&mut record) {
            Ok(0) => return Ok(kept.0),
            Ok(n) if kept.add(record.get(..n).unwrap_or_default()) => {}
            Ok(_) => break,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(kept.0),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // The kernel overwrote the next record; the following read continues after it.
            Err(error) if error.raw_os_error() == Some(Errno::EPIPE as i32) => {}
            Err(error) => return Err(error),
        }
    }
    kept.0.extend_from_slice(MORE.as_bytes());
    Ok(kept.0)
}

fn is_kept(record: &str) -> bool {
    message(record).is_some() || firmware_reports::line(record).is_some()
}

/// The messages that mean a fault.
#[derive(Default)]
struct Kept(Vec<u8>);

impl Kept {
    /// Adds a record if it means a fault; `false` if there is no room for it.
    fn add(&mut self, record: &[u8]) -> bool {
        let text = std::str::from_utf8(record).ok();
        let Some(line) = text.filter(|text| is_kept(text)).and_then(|text| text.lines().next())
        else {
            return true;
        };
        let has_room = self.0.len() + line.len() < MOST_KEPT_BYTES;
        if has_room {
            self.0.extend_from_slice(line.as_bytes());
            self.0.push(b'\n');
        }
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::Question as _;

    #[test]
    fn running_kernel_ends_its_log_without_waiting() {
        let Ok(kept) = KERNEL_LOG.ask_live() else {
            return crate::skipped::skipped("the kernel's log cannot be read");
        };
        let text = String::from_utf8(kept).unwrap();
        assert!(text.lines().all(|line| line == MORE || is_kept(line)), "{text}");
    }

    #[test]
    fn first_line_of_each_fault_is_kept_until_there_is_no_room() {
        let mut kept = Kept::default();
        assert!(
            kept.add(b"3,1,1,-;I/O error, dev sda, sector 1\n SUBSYSTEM=block\n DEVICE=b8:0\n")
        );
        assert!(kept.add(b"6,2,2,-;usb 1-1: new device\n"));
        assert!(kept.add(b"2,2,2,-;{1}[Hardware Error]:   physical_address: 0x1000\n"));
        assert_eq!(kept.0, b"3,1,1,-;I/O error, dev sda, sector 1\n");
        kept.0.resize(MOST_KEPT_BYTES - 10, b'x');
        assert!(kept.add(b"6,3,3,-;usb 1-1: new device\n"), "nothing to keep");
        assert!(!kept.add(b"3,4,4,-;I/O error, dev sda, sector 2\n"));
        assert_eq!(kept.0.len(), MOST_KEPT_BYTES - 10);
        assert_eq!(message(MORE), None);
    }
}
