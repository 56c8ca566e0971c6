//! The parent of the process that does the job: whatever ends that process, its fleet learns how it ended.
//!
//! A panic aborts the shipped program, a failed allocation aborts every program, and the kernel kills one when memory
//! runs out: none of these can post a result itself. So the program starts itself again and waits. The parent does
//! nothing that could fail meanwhile, and has no memory worth killing it for.

use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus as ProcessStatus};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use probes::machine::{Machine, Source};
use tracing::{error, info, warn};

use super::{AfterCrash, Crash, Engine, Node};
use crate::act::{Code, DiskState, Failure, Outcome, Stage};
use crate::checkpoint::{self, Checkpoint};
use crate::clock::Clock;
use crate::exit_status::ExitStatus;
use crate::signals::Stop;

/// The environment variable that makes the program the child: the path of its checkpoint.
const VARIABLE: &str = "RUN_COREOS_INSTALLER_CHECKPOINT";
/// Interval at which the parent checks its child.
const POLL: Duration = Duration::from_millis(50);
/// Interval at which the parent reads the child's progress.
const CHECKPOINT_POLL: Duration = Duration::from_secs(1);
/// Time limit for a child to begin catching signals.
const START_LIMIT: Duration = Duration::from_secs(1);
/// Time limit for a child that has done its job to end.
const HANGING_LIMIT: Duration = Duration::from_secs(10);
/// Time to wait before a child that crashed is started again.
const RESTART_PAUSE: Duration = Duration::from_secs(5);
/// Time limit for the processes of a child that died to end.
const ORPHANS_LIMIT: Duration = Duration::from_secs(30);

/// True in the child.
pub fn is_child() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

/// Makes the child record what a crash would leave.
fn begin_child(node: &Node, path: &Path) {
    // A child without its parent would install without anybody who reports its end.
    nix::sys::prctl::set_pdeathsig(Signal::SIGTERM).ok();
    if let Err(error) = node.memory.open(path) {
        warn!("opening {}: {error}; a crash would not be reported", path.display());
    }
}

/// Starts the program again as a child and waits for it; the engine reports a crash.
///
/// `None` in the child, and if no child could be started: the caller does the job itself then.
#[must_use]
pub fn supervise(engine: &mut dyn Engine, stop: &Stop) -> Option<ExitStatus> {
    if let Some(path) = std::env::var_os(VARIABLE) {
        begin_child(engine.node(), Path::new(&path));
        return None;
    }
    let clock = Arc::clone(&engine.node().clock);
    loop {
        let (found, ended) = run_child(clock.as_ref(), stop)?;
        if let Some(status) = known_end(ended, clock.as_ref(), stop) {
            return Some(status);
        }
        let cause = cause(&found, ended);
        let crash = crash(found, cause);
        match report(engine, &crash) {
            AfterCrash::End(status) => return Some(status.unwrap_or(exit_status(&crash.outcome))),
            AfterCrash::Restart => info!("starting it again"),
        }
        clock.sleep(RESTART_PAUSE, stop);
        if stop.is_stopped() {
            return Some(ExitStatus::Bug);
        }
    }
}

/// Runs the child, and ends the processes that it left.
fn run_child(clock: &dyn Clock, stop: &Stop) -> Option<(Checkpoint, ProcessStatus)> {
    let program = std::env::current_exe().ok()?;
    let path = checkpoint::create().ok()?;
    // What the child leaves running when it dies becomes the parent's, which ends it.
    nix::sys::prctl::set_child_subreaper(true).ok();
    let started = Command::new(program)
        .arg0("run-coreos-installer")
        .args(std::env::args_os().skip(1))
        .env(VARIABLE, &path)
        .spawn();
    let child = match started {
        Ok(child) => child,
        Err(error) => {
            warn!("starting a second process: {error}; a crash would not be reported");
            std::fs::remove_file(&path).ok();
            return None;
        }
    };
    let ended = wait(child, &path, HANGING_LIMIT, clock, stop);
    let found = checkpoint::read(&path).unwrap_or_default();
    std::fs::remove_file(&path).ok();
    Some((found, ended))
}

/// The exit status of a child that ended by itself; `None` after a crash.
fn known_end(ended: ProcessStatus, clock: &dyn Clock, stop: &Stop) -> Option<ExitStatus> {
    let by_request =
        [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP].map(|signal| Some(signal as i32));
    if stop.is_stopped() && by_request.contains(&ended.signal()) {
        // It ended before it could catch the signal.
        return Some(ExitStatus::NotReported);
    }
    let is_crash = ended.code().is_none_or(|code| code == i32::from(ExitStatus::Bug.code()));
    if is_crash {
        end_orphans(clock);
        return None;
    }
    let code = ended.code().and_then(|code| u8::try_from(code).ok());
    let status = ExitStatus::all().find(|status| Some(status.code()) == code);
    Some(status.unwrap_or(ExitStatus::Bug))
}

/// Waits for the child and passes a signal on to it. A child that has done its job and does not end is left alone:
/// a disk that hangs blocks the process that closes it, and no signal helps.
fn wait(
    mut child: Child,
    checkpoint: &Path,
    hanging_limit: Duration,
    clock: &dyn Clock,
    stop: &Stop,
) -> ProcessStatus {
    let pid = i32::try_from(child.id()).map(Pid::from_raw);
    let (mut is_passed_on, mut stopped_at) = (false, None);
    let mut looked_at = clock.now();
    let mut done: Option<(u8, Instant)> = None;
    loop {
        let now = clock.now();
        if now.duration_since(looked_at) >= CHECKPOINT_POLL {
            looked_at = now;
            let status = checkpoint::read(checkpoint).and_then(|found| found.exit_status);
            done = done.or(status.map(|status| (status, looked_at)));
        }
        if let Some((status, since)) = done
            && now.duration_since(since) > hanging_limit
        {
            error!("the process of the job does not end: it hangs in the kernel");
            return ProcessStatus::from_raw(i32::from(status) << 8);
        }
        match child.try_wait() {
            Ok(Some(ended)) => return ended,
            Ok(None) => {}
            Err(error) => {
                error!("waiting for the second process: {error}");
                return ProcessStatus::from_raw(i32::from(ExitStatus::Bug.code()) << 8);
            }
        }
        if stop.is_stopped() && !is_passed_on {
            let stopped = *stopped_at.get_or_insert(now);
            // A child that has just been started would die of the signal and leave no result.
            let is_ready = checkpoint::read(checkpoint).is_some();
            is_passed_on = is_ready || now.duration_since(stopped) > START_LIMIT;
            if is_passed_on && let Ok(pid) = pid {
                kill(pid, Signal::SIGTERM).ok();
            }
        }
        clock.pause(POLL);
    }
}

/// Kills the processes that the child left, above all coreos-installer, which would write on.
fn end_orphans(clock: &dyn Clock) {
    let machine = Machine::new(Arc::new(Source::live()), "supervise");
    let me = std::process::id();
    let started = clock.now();
    while clock.now().duration_since(started) < ORPHANS_LIMIT {
        let list = machine.text(&format!("proc/{me}/task/{me}/children")).unwrap_or_default();
        let orphans: Vec<i32> =
            list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect();
        if orphans.is_empty() {
            return;
        }
        for pid in orphans.into_iter().map(Pid::from_raw) {
            kill(pid, Signal::SIGKILL).ok();
            nix::sys::wait::waitpid(pid, Some(nix::sys::wait::WaitPidFlag::WNOHANG)).ok();
        }
        clock.pause(POLL);
    }
    warn!("a process of the job does not end");
}

/// Describes the cause of the child's end.
fn cause(found: &Checkpoint, ended: ProcessStatus) -> String {
    match (&found.panic, ended.signal().and_then(|number| Signal::try_from(number).ok())) {
        (Some(panic), _) => format!("a bug ended the agent: {panic}"),
        (None, Some(Signal::SIGKILL)) => {
            "the agent was killed; the machine probably ran out of memory".to_owned()
        }
        (None, Some(Signal::SIGABRT)) => {
            "the agent aborted: a bug, or it ran out of memory".to_owned()
        }
        (None, Some(signal)) => format!("a bug ended the agent with {}", signal.as_str()),
        (None, None) => "a bug ended the agent".to_owned(),
    }
}

/// Reports a crash, unless its fleet knows already how the job ended.
fn report(engine: &mut dyn Engine, crash: &Crash) -> AfterCrash {
    if let Some(failure) = &crash.outcome.failure {
        error!("{}", failure.message);
    }
    if crash.found.is_over || engine.node().settings.is_dry_run {
        return AfterCrash::End(None);
    }
    engine.node().console.works_at(Stage::Result, None);
    let after = engine.crashed(crash);
    // Another child writes its own lines.
    engine.node().console.rests();
    after
}

/// The exit status of a crash, by the state of the disk.
fn exit_status(outcome: &Outcome) -> ExitStatus {
    match outcome.exit_status() {
        ExitStatus::Untouched => ExitStatus::Bug,
        of_disk => of_disk,
    }
}

/// The crash, by what the child had recorded.
fn crash(found: Checkpoint, message: String) -> Crash {
    let state = found.disk_state.unwrap_or(DiskState::Untouched);
    let advice = match state {
        DiskState::Untouched => {
            "start the service again, and report the bug with the log of this boot"
        }
        DiskState::Installed => {
            "reboot by hand, since the disk is good; report the bug with the log of this boot"
        }
        DiskState::HalfWritten | DiskState::Written | DiskState::Erased => {
            "do not boot the disk; install again, and report the bug with the log of this boot"
        }
    };
    let outcome = Outcome {
        stage: found.stage.unwrap_or(Stage::Collect),
        state,
        failure: Some(Failure::new(Code::AgentBug, message).advise(advice)),
        tries: found.attempts,
        taken_down: found.taken_down.clone(),
        erased: found.erased.clone(),
        ..Outcome::default()
    };
    Crash { found, outcome }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::RealClock;

    #[test]
    fn child_that_has_done_its_job_and_cannot_end_is_left_alone() {
        let path = std::env::temp_dir().join(format!("rci-supervise-{}", std::process::id()));
        let done = Checkpoint { exit_status: Some(5), ..Checkpoint::default() };
        for (found, code) in [(&done, Some(5)), (&Checkpoint::default(), None)] {
            std::fs::write(&path, serde_json::to_vec(found).unwrap()).unwrap();
            let child = Command::new("sleep").arg("20").spawn().unwrap();
            let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
            let stop = Stop::default();
            if code.is_none() {
                let stopper = stop.clone();
                std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_secs(3));
                    stopper.stop();
                });
            }
            let started = Instant::now();
            let ended = wait(child, &path, Duration::from_millis(200), &RealClock, &stop);
            assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
            assert_eq!(ended.code(), code, "a child that still works is waited for");
            kill(pid, Signal::SIGKILL).ok();
        }
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn cause_distinguishes_panic_abort_and_kill() {
        let signal = |signal: Signal| ProcessStatus::from_raw(signal as i32);
        let panic = Checkpoint { panic: Some("index 7".into()), ..Checkpoint::default() };
        let none = Checkpoint::default();
        for (found, ended, words) in [
            (&panic, signal(Signal::SIGABRT), "a bug ended the agent: index 7"),
            (&none, signal(Signal::SIGABRT), "or it ran out of memory"),
            (&none, signal(Signal::SIGKILL), "probably ran out of memory"),
            (&none, signal(Signal::SIGSEGV), "with SIGSEGV"),
            (&none, ProcessStatus::from_raw(101 << 8), "a bug ended the agent"),
        ] {
            let text = cause(found, ended);
            assert!(text.contains(words), "{text}");
        }
    }
}
