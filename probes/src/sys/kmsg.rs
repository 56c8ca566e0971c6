//! The kernel log since boot: `/dev/kmsg` (`Documentation/ABI/testing/dev-kmsg`), read without waiting.
//! Needs root where `kernel.dmesg_restrict` is 1. Reading it takes nothing away from other readers.

use std::fs::OpenOptions;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;

use nix::errno::Errno;
use nix::libc;

use super::Question;
use crate::kernel_messages::message;

/// A record has at most 8 KiB (`PRINTK_MESSAGE_MAX`, `kernel/printk/internal.h`).
const RECORD_BYTES: usize = 16 << 10;
/// The most records that are read; a log of 2 MiB has some 20,000.
const MOST_RECORDS: usize = 100_000;
/// The most bytes that are kept of the messages that mean a fault.
const MOST_KEPT_BYTES: usize = 128 << 10;

/// Asks for the records that mean a fault, oldest first.
#[derive(Debug, Clone, Copy)]
pub struct KernelLog;

impl Question for KernelLog {
    fn name(&self) -> String {
        "kmsg".to_owned()
    }

    fn ask_live(&self) -> io::Result<Vec<u8>> {
        let mut log =
            OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open("/dev/kmsg")?;
        let mut record = vec![0; RECORD_BYTES];
        let mut kept = Vec::new();
        for _ in 0..MOST_RECORDS {
            match log.read(&mut record) {
                Ok(0) => break,
                Ok(n) => {
                    let bytes = record.get(..n).unwrap_or_default();
                    let is_kept = std::str::from_utf8(bytes).ok().and_then(message).is_some();
                    if is_kept && kept.len() + n <= MOST_KEPT_BYTES {
                        kept.extend_from_slice(bytes);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The kernel overwrote the next record; the following read continues after it.
                Err(error) if error.raw_os_error() == Some(Errno::EPIPE as i32) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_kernel_ends_its_log_without_waiting() {
        let Ok(kept) = KernelLog.ask_live() else { return };
        let text = String::from_utf8(kept).unwrap();
        let records = text.lines().filter(|line| !line.starts_with(' '));
        assert!(records.clone().all(|record| message(record).is_some()), "{text}");
    }
}
