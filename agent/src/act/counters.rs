//! Counts what was written to a disk, by its own counters: `/sys/dev/block/<number>/stat`, kernel
//! `Documentation/block/stat.rst`.
//!
//! coreos-installer writes into the page cache, so the remaining data is flushed to the disk before each reading.

use std::sync::Arc;
use std::time::Duration;

use probes::block::current_io;

use super::target::Target;
use super::writers::End;
use super::{Code, Failure, describe};
use crate::ask::{Unanswered, ask_within};

/// Time limit for the disk to write its data from the page cache.
const FLUSH_LIMIT: Duration = Duration::from_secs(30);

/// Reads the bytes written or discarded since the disk appeared, before the first run; `None` if the disk does not count.
///
/// # Errors
/// `TARGET_IO` if the disk does not respond.
pub(super) fn before(target: &Target) -> Result<Option<u64>, Failure> {
    flush(target).map_err(|why| {
        let disk = describe(target.disk());
        let what = format!("{disk} does not respond, so nothing was written: {why}");
        Failure::new(Code::TargetIo, what)
            .advise("check the kernel log, cables and power of the disk, or replace it")
    })?;
    Ok(read(target))
}

/// Reads the counters after a run; `None` if that is impossible, or if not all may have reached the disk yet.
pub(super) fn after(target: &Target, end: End) -> Option<u64> {
    let is_flushed = match end {
        End::NotStarted => true,
        End::Ended | End::Stopped => flush(target).is_ok(),
        // A thread that waits for such a disk could not end, and the agent neither.
        End::Hung => false,
    };
    if is_flushed { read(target) } else { None }
}

/// Writes the page cache's data.
///
/// # Errors
/// The disk did not respond in time.
fn flush(target: &Target) -> Result<(), Unanswered> {
    let handle = Arc::clone(target.handle());
    // An error is no matter: what the kernel could not write is dropped, or counts as written later.
    ask_within("flush", FLUSH_LIMIT, target.system().stop(), move || drop(handle.flush()))
}

fn read(target: &Target) -> Option<u64> {
    let number = target.disk().device_number.clone()?;
    let io = target.system().ask(move |machine| current_io(machine, &number)).ok()??;
    // A disk whose requests are not counted has zeros. The agent has read every disk by now.
    let is_counted = io.is_accounted == Some(true) && io.n_reads > 0;
    is_counted.then_some(io.bytes_written)
}
