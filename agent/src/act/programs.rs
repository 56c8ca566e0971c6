//! Other programs: each in a process group of its own, its output read on a thread, and never waited for without a
//! limit: a process that hangs in the kernel cannot be ended.

use std::fmt;
use std::fs::File;
use std::io::{self, PipeReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use probes::guard;

use super::System;
use crate::ask::{GRACE, ask_by};

/// Of the thread that reads a pipe.
const STACK_BYTES: usize = 64 << 10;
/// Interval between checks of a killed program.
const REAP_TICK: Duration = Duration::from_millis(5);
/// Time limit for a program to end after SIGKILL before it is left alone.
const REAP_LIMIT: Duration = Duration::from_secs(5);
/// Time limit for a program to end by itself once its output was read.
const LEFT_OPEN_LIMIT: Duration = Duration::from_secs(1);

/// The output of a program that comes through the channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// Standard output and errors.
    Both,
    /// Standard output only; errors are discarded.
    Standard,
    /// None: the program prints where the agent prints.
    Inherited,
}

/// A program that was started, and its output in pieces.
pub type Started = (Box<dyn Process>, Receiver<Vec<u8>>);

/// Starts programs. Tests put a script in its place.
pub trait Programs: fmt::Debug + Send + Sync {
    /// Starts a program. Its input only keeps `lock`, which is not read.
    ///
    /// # Errors
    /// As the kernel answers.
    fn start(
        &self,
        program: &Path,
        args: &[String],
        output: Output,
        lock: Option<&File>,
    ) -> io::Result<Started>;
}

/// A program that runs. Tests put one in its place that no signal ends.
pub trait Process {
    /// Its process group.
    fn group(&self) -> u32;
    /// Returns its exit status; `None` while it runs. Never waits.
    ///
    /// # Errors
    /// As the kernel answers.
    fn try_wait(&mut self) -> io::Result<Option<ExitStatus>>;
    /// Sends a signal to it and to the processes that it has started.
    fn signal(&mut self, signal: Signal);
}

impl Process for Child {
    fn group(&self) -> u32 {
        self.id()
    }

    fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        Child::try_wait(self)
    }

    fn signal(&mut self, signal: Signal) {
        // It was started in a group of its own, whose number is its own.
        let group = Pid::from_raw(i32::try_from(self.id()).unwrap_or(i32::MAX));
        killpg(group, signal).ok();
    }
}

/// The programs of the running system.
#[derive(Debug, Clone, Copy)]
pub struct RealPrograms;

impl Programs for RealPrograms {
    fn start(
        &self,
        program: &Path,
        args: &[String],
        output: Output,
        lock: Option<&File>,
    ) -> io::Result<Started> {
        let stdin = lock.map(File::try_clone).transpose()?.map_or_else(Stdio::null, Stdio::from);
        let mut command = Command::new(program);
        command
            .args(args)
            // A backtrace would push the error out of the lines that are kept.
            .env("RUST_BACKTRACE", "0")
            .env("RUST_LIB_BACKTRACE", "0")
            // The image comes over the loopback interface, which no proxy can reach.
            .env("no_proxy", "*")
            .env("NO_PROXY", "*")
            .stdin(stdin)
            .process_group(0);
        if output == Output::Inherited {
            return Ok((Box::new(command.spawn()?), sync_channel(0).1));
        }
        let (pipe, stdout) = io::pipe()?;
        let is_both = output == Output::Both;
        let stderr = if is_both { stdout.try_clone()?.into() } else { Stdio::null() };
        // The thread first: without one nothing is started, and so nothing written.
        let output = read_on(pipe)?;
        Ok((Box::new(command.stdout(stdout).stderr(stderr).spawn()?), output))
    }
}

/// Reads a pipe on a thread of its own.
///
/// # Errors
/// If the kernel gives no thread.
fn read_on(mut pipe: PipeReader) -> io::Result<Receiver<Vec<u8>>> {
    let (sender, receiver) = sync_channel(64);
    let read = move || {
        let mut buffer = [0; 4096];
        while let Ok(n) = pipe.read(&mut buffer) {
            if n == 0 || sender.send(buffer[..n].to_vec()).is_err() {
                return;
            }
        }
    };
    guard::spawn("program", STACK_BYTES, read, |_| {})
        .map(|()| receiver)
        .map_err(|error| io::Error::new(error.kind(), format!("could not start a thread: {error}")))
}

impl System {
    /// The same system with other programs.
    pub fn with_programs(mut self, programs: Arc<dyn Programs>) -> Self {
        self.programs = programs;
        self
    }

    /// Starts every other program.
    pub(crate) fn programs(&self) -> &dyn Programs {
        self.programs.as_ref()
    }

    /// Returns what a program prints to its standard output, up to `max_bytes` or until that is enough, and ends it; and its
    /// exit status if it ended by itself. It may hang, print without end, or leave something running that keeps its output
    /// open; none of these blocks the agent.
    ///
    /// # Errors
    /// A message if it cannot be started, or prints too little in time.
    pub(crate) fn output_of(
        &self,
        command: (&Path, &[String]),
        limit: Duration,
        max_bytes: usize,
        is_enough: fn(&[u8]) -> bool,
    ) -> Result<(String, Option<i32>), String> {
        self.printed_by(command, Output::Standard, (limit, max_bytes), is_enough)
    }

    /// The same with a choice of the output.
    pub(super) fn printed_by(
        &self,
        (program, args): (&Path, &[String]),
        output: Output,
        (limit, max_bytes): (Duration, usize),
        is_enough: fn(&[u8]) -> bool,
    ) -> Result<(String, Option<i32>), String> {
        let (mut process, output) = self
            .programs()
            .start(program, args, output, None)
            .map_err(|error| error.to_string())?;
        let read = move || {
            let mut bytes = Vec::new();
            while bytes.len() < max_bytes
                && !is_enough(&bytes)
                && let Ok(piece) = output.recv()
            {
                bytes.extend(piece);
            }
            bytes.truncate(max_bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let text = ask_by(self.clock().as_ref(), "output", (limit, GRACE), self.stop(), read)
            .map_err(|why| why.to_string());
        // What follows is not read, but the program may end by itself.
        self.end(process.as_mut(), if text.is_ok() { LEFT_OPEN_LIMIT } else { Duration::ZERO });
        let status = process.try_wait().ok().flatten().and_then(|status| status.code());
        text.map(|text| (text, status))
    }

    /// Ends a program and whatever it has started, unless it ends by itself within `grace`. One that hangs in the kernel is
    /// left to itself after a while.
    pub(crate) fn end(&self, process: &mut dyn Process, grace: Duration) {
        self.reap(process, grace);
        process.signal(Signal::SIGKILL);
        self.reap(process, REAP_LIMIT);
    }

    fn reap(&self, process: &mut dyn Process, limit: Duration) {
        let end = self.clock().now_outside() + limit;
        while matches!(process.try_wait(), Ok(None)) && self.clock().now_outside() < end {
            self.clock().pause(REAP_TICK);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn output_of(script: &str) -> Result<String, String> {
        let args = ["-c".to_owned(), script.to_owned()];
        let (shell, limit) = ((Path::new("sh"), &args[..]), Duration::from_millis(500));
        let system = System::default();
        let output = system.output_of(shell, limit, 4096, |bytes| bytes.starts_with(b"line\n"));
        output.map(|(text, _)| text)
    }

    #[test]
    fn output_is_read_whatever_a_program_leaves_open_or_prints_without_end() {
        let started = Instant::now();
        // Longer than the limits, and short enough not to outlive the tests for long.
        for rest in ["", "; sleep 30 &", "; sleep 30", "; exec yes"] {
            let output = output_of(&format!("echo line{rest}")).unwrap();
            assert!(output.starts_with("line\n") && output.len() <= 4096, "{rest}");
        }
        assert_eq!(output_of("exec yes").map(|text| text.len()), Ok(4096));
        assert_eq!(output_of("printf half; echo error >&2").as_deref(), Ok("half"));
        assert_eq!(output_of("sleep 30"), Err("no answer within 0 s".to_owned()));
        assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
        let missing = (Path::new("/no/such/program"), &[][..]);
        let missing = System::default().output_of(missing, Duration::ZERO, 0, |_| false);
        assert!(missing.unwrap_err().contains("No such file"));
    }
}
