//! Up to three runs of the writer, each on the disk that was chosen and only if it still is that disk.

use std::time::Duration;

use probes::block::Disk;
use tracing::warn;

use super::counters;
use super::install::{Mark, Watch};
use super::outcome::{DiskState, Outcome, WriteCounters};
use super::selection::Selection;
use super::target::Target;
use super::writers::{End, Writer};
use super::{Code, Failure, Override, describe, disarm, say, settle, takedown};

/// Maximum number of coreos-installer runs.
const MAX_ATTEMPTS: u32 = 3;

/// The disk to write.
#[derive(Debug)]
pub struct Task<'a> {
    /// The disk.
    pub target: &'a Target,
    /// The choice of the disk.
    pub selection: Selection<'a>,
}

/// Writes the disk, and adds its state to the outcome. Returns all disks as they were right before the last run.
///
/// # Errors
/// Nothing was written, or not all; `outcome.state` says which.
pub fn write(
    task: &Task<'_>,
    writer: &mut dyn Writer,
    watch: &dyn Watch,
    outcome: &mut Outcome,
) -> Result<Vec<Disk>, Failure> {
    let system = task.selection.system;
    let stop = system.stop();
    take_down(task, watch, &mut outcome.taken_down)?;
    let or_interrupted =
        |failure| if stop.is_stopped() { interrupted(DiskState::Untouched) } else { failure };
    disarm(task, watch, &mut outcome.taken_down).map_err(or_interrupted)?;
    let before = counters::before(task.target).map_err(or_interrupted)?;
    let written = loop {
        let is_written = outcome.state != DiskState::Untouched;
        let disks = match confirm(task, is_written) {
            Ok(disks) => disks,
            Err(failure) => break Err(failure),
        };
        outcome.tries += 1;
        // What a crash from now on would leave, until the counters say more.
        record(watch, DiskState::HalfWritten, outcome.tries);
        let ran = writer.run(&task.target.path());
        outcome.log_tail = ran.log_tail;
        let (end, is_transient) = (ran.end, ran.is_transient);
        let after = counters::after(task.target, end);
        outcome.counters = before.map(|before| WriteCounters {
            bytes_written_before: before,
            bytes_written_after: after,
        });
        let did_nothing = !is_written && before.is_some() && before == after;
        let written = match ran.outcome {
            Err(failure) => Err(of_lost_disk(task.target, end, failure)),
            Ok(()) if did_nothing => Err(wrote_nothing(writer.name(), task.target.disk())),
            // The outcome names this disk, so it must still be the one that was held.
            Ok(()) => task.target.check(),
        };
        outcome.state = match &written {
            Ok(()) => DiskState::Written,
            Err(_) => after_failure(outcome.state, end, before, after),
        };
        record(watch, outcome.state, outcome.tries);
        let failure = match written {
            Ok(()) => break Ok(disks),
            Err(failure) => failure,
        };
        let is_hopeless = !is_transient || end == End::Hung;
        if is_hopeless || outcome.tries == MAX_ATTEMPTS {
            break Err(failure);
        }
        let wait = Duration::from_secs(10 * u64::from(outcome.tries));
        warn!("{} failed: {failure}; next try in {} s", writer.name(), wait.as_secs());
        system.sleep(wait);
    };
    written.map_err(|failure| match failure.code {
        Code::Interrupted => interrupted(outcome.state),
        _ => failure,
    })
}

/// The failure of a run that reported success and wrote nothing. An earlier installation with the same config would pass
/// the proof.
fn wrote_nothing(writer: &str, disk: &Disk) -> Failure {
    let disk = describe(disk);
    let what = format!("{writer} reported success, but wrote nothing to {disk}");
    Failure::advised(Code::InstallerFailed, what)
}

/// Waits until the disks have settled and checks right before a run that the choice still leads to the target.
/// Returns all disks.
fn confirm(task: &Task<'_>, is_written: bool) -> Result<Vec<Disk>, Failure> {
    let stop = task.selection.system.stop();
    let stopped = || interrupted(DiskState::Untouched);
    if stop.is_stopped() {
        return Err(stopped());
    }
    settle::wait(task.selection.system);
    let confirmed = task.selection.confirm(task.target, is_written);
    // A signal cuts the questions short, and then the disk seems to have changed.
    if stop.is_stopped() { Err(stopped()) } else { confirmed }
}

/// Records the state of the disk from now on, for the process that reports a crash.
fn record(watch: &dyn Watch, state: DiskState, tries: u32) {
    watch.note(Mark::State(state));
    watch.note(Mark::Tries(tries));
}

/// Takes down everything that is active on the disk, right after the choice was confirmed, and keeps the rest inactive.
fn take_down(task: &Task<'_>, watch: &dyn Watch, done: &mut Vec<String>) -> Result<(), Failure> {
    takedown::keep_inactive(task.target.disk(), task.selection.system)?;
    if !takedown::is_needed(task.target.disk()) {
        return Ok(());
    }
    task.selection.confirm(task.target, false)?;
    takedown::take_down(task.target.disk(), task.selection.system, &[], &mut |step| {
        done.push(step);
        watch.note(Mark::TakenDown(done.clone()));
    })
}

/// Renames the labels on other disks that would keep the installed system from starting, if the order allows that.
fn disarm(task: &Task<'_>, watch: &dyn Watch, done: &mut Vec<String>) -> Result<(), Failure> {
    if !task.selection.order.overrides.contains(&Override::DisarmBootLabel) {
        return Ok(());
    }
    let disks = task.selection.confirm(task.target, false)?;
    for (_, part) in disarm::places(task.target.disk(), &disks) {
        done.push(disarm::disarm(part, task.selection.system)?);
        watch.note(Mark::TakenDown(done.clone()));
    }
    Ok(())
}

/// The failure of a run whose disk is gone. A disk that was pulled out has size zero from then on, so that
/// coreos-installer reports a disk that is too small (seen with a SCSI disk on Linux 6.1).
fn of_lost_disk(target: &Target, end: End, failure: Failure) -> Failure {
    let is_symptom = matches!(failure.code, Code::NoSpace | Code::TargetIo | Code::InstallerFailed);
    if !is_symptom || matches!(end, End::NotStarted | End::Hung) {
        return failure;
    }
    match target.check() {
        Ok(()) => failure,
        // A signal cuts the questions short, and then the disk seems to have changed.
        Err(_) if target.system().stop().is_stopped() => failure,
        Err(lost) => {
            let what = say![lost.message, "; ", failure.message];
            Failure::new(Code::TargetIo, what).advise(
                "check the seat, cable and power of the disk and the kernel log, then start again",
            )
        }
    }
}

/// Returns the state that a failed run has left, by the disk's own counters. Without them a run that was started counts
/// as one that wrote, since its words may lie.
fn after_failure(
    earlier: DiskState,
    end: End,
    before: Option<u64>,
    after: Option<u64>,
) -> DiskState {
    let is_unchanged = before.is_some() && before == after;
    match earlier {
        DiskState::Untouched if end == End::NotStarted || is_unchanged => DiskState::Untouched,
        // A disk that an earlier run left half written stays so.
        _ => DiskState::HalfWritten,
    }
}

/// The failure of a job that a signal ended, by what is left of the disk.
pub fn interrupted(disk_state: DiskState) -> Failure {
    let (what, advice) = match disk_state {
        DiskState::Untouched => {
            ("before anything was written to the disk", "start the service again")
        }
        DiskState::HalfWritten => (
            "while the disk was being written",
            "start the service again to write the disk again; as it is, it does not boot",
        ),
        DiskState::Written | DiskState::Installed | DiskState::Erased => (
            "before the written disk was proved",
            "start the service again to write and prove the disk again; do not boot it as it is",
        ),
    };
    Failure::new(Code::Interrupted, format!("the agent received a signal to stop {what}"))
        .advise(advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupted_job_says_what_is_left_of_the_disk() {
        for (disk_state, word, does_not_boot) in [
            (DiskState::Untouched, "before anything was written", false),
            (DiskState::HalfWritten, "being written", true),
            (DiskState::Written, "before the written disk was proved", false),
        ] {
            let failure = interrupted(disk_state);
            assert!(failure.to_string().contains(word), "{failure}");
            assert_eq!(
                failure.advice.unwrap().to_string().contains("does not boot"),
                does_not_boot
            );
        }
    }

    #[test]
    fn a_disk_counts_as_untouched_only_if_its_counters_say_so() {
        let of = |end, before, after| after_failure(DiskState::Untouched, end, before, after);
        assert_eq!(of(End::Ended, Some(7), Some(7)), DiskState::Untouched);
        assert_eq!(of(End::Ended, Some(7), Some(8)), DiskState::HalfWritten);
        assert_eq!(of(End::Ended, None, None), DiskState::HalfWritten);
        assert_eq!(of(End::Ended, Some(7), None), DiskState::HalfWritten);
        assert_eq!(of(End::NotStarted, None, None), DiskState::Untouched);
        for earlier in [DiskState::HalfWritten, DiskState::Written] {
            let state = after_failure(earlier, End::Ended, Some(7), Some(7));
            assert_eq!(state, DiskState::HalfWritten);
        }
    }
}
