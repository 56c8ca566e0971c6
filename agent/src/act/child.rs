//! A program in a process group of its own, whose output is read on a thread, and which is never waited for without
//! a limit: a process that hangs in the kernel cannot be ended.

use std::fs::File;
use std::io::{PipeReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use probes::guard;

use crate::clock::Clock;

/// Of the thread that reads a pipe.
const STACK_BYTES: usize = 64 << 10;
/// Interval between checks of a killed program.
const REAP_TICK: Duration = Duration::from_millis(5);
/// Time limit for a program to end after SIGKILL before it is left alone.
const REAP_LIMIT: Duration = Duration::from_secs(5);

/// A program that runs. Tests put one in its place that no signal ends.
pub(super) trait Process {
    /// Its process group.
    fn group(&self) -> u32;
    /// Returns its exit status; `None` while it runs. Never waits.
    fn try_wait(&mut self) -> std::io::Result<Option<ExitStatus>>;
    /// Sends a signal to it and to the processes that it has started.
    fn signal(&mut self, signal: Signal);
}

impl Process for Child {
    fn group(&self) -> u32 {
        self.id()
    }

    fn try_wait(&mut self) -> std::io::Result<Option<ExitStatus>> {
        Child::try_wait(self)
    }

    fn signal(&mut self, signal: Signal) {
        // It was started in a group of its own, whose number is its own.
        let group = Pid::from_raw(i32::try_from(self.id()).unwrap_or(i32::MAX));
        killpg(group, signal).ok();
    }
}

/// Starts a program; both of its outputs come through the channel. Its input only keeps `lock`, which is not read.
pub(super) fn spawn(
    program: &Path,
    args: &[String],
    lock: Option<&File>,
) -> std::io::Result<(Child, Receiver<Vec<u8>>)> {
    let (pipe, stdout) = std::io::pipe()?;
    let stderr = stdout.try_clone()?;
    let stdin = lock.map(File::try_clone).transpose()?.map_or_else(Stdio::null, Stdio::from);
    // The thread first: without one nothing is started, and so nothing written.
    let output = read_on(pipe)?;
    let child = Command::new(program)
        .args(args)
        // A backtrace would push the error out of the lines that are kept.
        .env("RUST_BACKTRACE", "0")
        .env("RUST_LIB_BACKTRACE", "0")
        // The image comes over the loopback interface, which no proxy can reach.
        .env("no_proxy", "*")
        .env("NO_PROXY", "*")
        .stdin(stdin)
        .stdout(stdout)
        .stderr(stderr)
        .process_group(0)
        .spawn()?;
    Ok((child, output))
}

/// Reads a pipe on a thread of its own.
///
/// # Errors
/// If the kernel gives no thread.
fn read_on(mut pipe: PipeReader) -> std::io::Result<Receiver<Vec<u8>>> {
    let (sender, receiver) = sync_channel(64);
    let read = move || {
        let mut buffer = [0; 4096];
        while let Ok(n) = pipe.read(&mut buffer) {
            if n == 0 || sender.send(buffer[..n].to_vec()).is_err() {
                return;
            }
        }
    };
    guard::spawn("installer", STACK_BYTES, read, |_| {}).map(|()| receiver).map_err(|error| {
        std::io::Error::new(error.kind(), format!("could not start a thread: {error}"))
    })
}

/// Ends a program and whatever it has started, unless it ends by itself within `grace`. One that hangs in the kernel is
/// left to itself after a while.
pub(super) fn end(child: &mut Child, grace: Duration, clock: &dyn Clock) {
    reap(child, grace, clock);
    child.signal(Signal::SIGKILL);
    reap(child, REAP_LIMIT, clock);
}

fn reap(child: &mut Child, limit: Duration, clock: &dyn Clock) {
    let end = clock.now_outside() + limit;
    while matches!(child.try_wait(), Ok(None)) && clock.now_outside() < end {
        clock.pause(REAP_TICK);
    }
}
