//! Up to three runs of coreos-installer, each on the disk that was chosen and only if it still is that disk.

use std::time::Duration;

use tracing::warn;

use super::counters::{self, Reading};
use super::failure::advice;
use super::selection::Selection;
use super::settle;
use super::takedown;
use super::target::Target;
use super::{Failure, describe};
use crate::api::{Code, DiskState, WriteCounters};
use crate::clock::Clock;
use crate::signals::Stop;

/// How often coreos-installer is run at most.
const MAX_ATTEMPTS: u32 = 3;

/// Which disk is to be written.
#[derive(Debug)]
pub struct Job<'a> {
    /// The disk.
    pub target: &'a Target,
    /// How it was chosen.
    pub selection: Selection<'a>,
}

/// The program that writes.
pub trait Installer {
    /// Runs it once on the device at this path.
    fn run(&mut self, device: &str) -> Ran;
}

/// How one run went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// Whether it succeeded, or why not.
    pub outcome: Result<(), Failure>,
    /// Whether another run can help.
    pub is_transient: bool,
    /// How it ended.
    pub end: End,
    /// Its last lines.
    pub log_tail: Vec<String>,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It could not be started.
    NotStarted,
    /// Its process ended.
    Ended,
    /// The agent ended it because of a signal.
    Stopped,
    /// It hung in the kernel, so the disk must not be asked for anything.
    Hung,
}

/// How the writing went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Whether it was written, or why not.
    pub outcome: Result<(), Failure>,
    /// What has become of the disk.
    pub disk_state: DiskState,
    /// How often coreos-installer was run.
    pub attempts: u32,
    /// Its last lines.
    pub log_tail: Vec<String>,
    /// The write counters of the disk, if it has them.
    pub counters: Option<WriteCounters>,
    /// What was active on the disk and was taken down, in words.
    pub taken_down: Vec<String>,
}

impl Default for Written {
    fn default() -> Self {
        Self {
            outcome: Ok(()),
            disk_state: DiskState::Untouched,
            attempts: 0,
            log_tail: Vec::new(),
            counters: None,
            taken_down: Vec::new(),
        }
    }
}

impl Written {
    /// Nothing was started.
    #[must_use]
    pub fn not_started(failure: Failure) -> Self {
        Self { outcome: Err(failure), ..Self::default() }
    }
}

/// Writes the disk.
pub fn install(
    job: &Job<'_>,
    installer: &mut dyn Installer,
    clock: &dyn Clock,
    stop: &Stop,
) -> Written {
    let mut written = Written::default();
    if takedown::is_needed(job.target.disk())
        && let Err(failure) = take_down(job, &mut written.taken_down)
    {
        return Written { outcome: Err(failure), ..written };
    }
    let before = match counters::before(job.target) {
        Ok(before) => before,
        Err(failure) => return Written { outcome: Err(failure), ..written },
    };
    while written.attempts < MAX_ATTEMPTS {
        let is_written = written.disk_state != DiskState::Untouched;
        // Asked right before each run.
        settle::wait(job.selection.system, clock, stop);
        if let Err(failure) = job.selection.confirm(job.target, is_written) {
            written.outcome = Err(failure);
            break;
        }
        if stop.is_stopped() {
            written.outcome = Err(interrupted());
            break;
        }
        written.attempts += 1;
        let ran = installer.run(&job.target.path());
        written.log_tail = ran.log_tail;
        written.outcome = ran.outcome;
        let after = counters::after(job.target, ran.end);
        written.counters = before.map(|before| before.with(after));
        if written.outcome.is_ok() && !is_written && before.is_some() && before == after {
            // An earlier installation with the same config would pass the proof.
            let disk = describe(job.target.disk());
            let what = format!("coreos-installer reported success, but wrote nothing to {disk}");
            written.outcome = Err(
                Failure::new(Code::InstallerFailed, what).advise(advice(Code::InstallerFailed))
            );
        }
        if written.outcome.is_ok() {
            written.disk_state = DiskState::Installed;
            // The result names this disk, so it must still be the one that was held.
            written.outcome = job.target.check();
        }
        let Err(failure) = &written.outcome else { break };
        written.disk_state = after_failure(written.disk_state, ran.end, before, after);
        let is_hopeless = !ran.is_transient || ran.end == End::Hung;
        if is_hopeless || written.attempts == MAX_ATTEMPTS {
            break;
        }
        let wait = Duration::from_secs(10 * u64::from(written.attempts));
        warn!("coreos-installer failed: {failure}; next try in {} s", wait.as_secs());
        clock.sleep(wait, stop);
    }
    written
}

/// Takes down what is active on the disk, right after the choice was confirmed.
fn take_down(job: &Job<'_>, done: &mut Vec<String>) -> Result<(), Failure> {
    job.selection.confirm(job.target, false)?;
    takedown::take_down(job.target.disk(), job.selection.system, done)
}

/// What a failed run has left, by the disk's own counters. Without them a run that was started counts as one that
/// wrote, since its words may lie.
fn after_failure(
    earlier: DiskState,
    end: End,
    before: Option<Reading>,
    after: Option<Reading>,
) -> DiskState {
    let is_unchanged = before.is_some() && before == after;
    match earlier {
        DiskState::Untouched if end == End::NotStarted || is_unchanged => DiskState::Untouched,
        // A disk that an earlier run left half written stays so.
        _ => DiskState::HalfWritten,
    }
}

/// The failure of a job that a signal ended.
#[must_use]
pub fn interrupted() -> Failure {
    Failure::new(
        Code::Interrupted,
        "the agent received a signal to stop while the disk was being written",
    )
    .advise(advice(Code::Interrupted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_counts_as_untouched_only_if_its_counters_say_so() {
        let reading = |n_bytes| Some(Reading { n_bytes });
        let of = |end, before, after| after_failure(DiskState::Untouched, end, before, after);
        assert_eq!(of(End::Ended, reading(7), reading(7)), DiskState::Untouched);
        assert_eq!(of(End::Ended, reading(7), reading(8)), DiskState::HalfWritten);
        assert_eq!(of(End::Ended, None, None), DiskState::HalfWritten);
        assert_eq!(of(End::Ended, reading(7), None), DiskState::HalfWritten);
        assert_eq!(of(End::NotStarted, None, None), DiskState::Untouched);
        for earlier in [DiskState::HalfWritten, DiskState::Installed] {
            let state = after_failure(earlier, End::Ended, reading(7), reading(7));
            assert_eq!(state, DiskState::HalfWritten);
        }
    }
}
