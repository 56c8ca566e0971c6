//! Runs coreos-installer: up to three attempts, with progress; SIGTERM ends it.

use std::fs::{self, OpenOptions};
use std::io::{PipeReader, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tracing::warn;

use super::Failure;
use super::failure::{advice, disk_state, meaning, summary};
use super::installer::{Options, Places, Version};
use super::progress::{Lines, Tail, percent};
use super::selection::Selection;
use super::target::Target;
use crate::api::{Code, DiskState};
use crate::clock::Clock;
use crate::signals::Stop;

/// How often coreos-installer is run at most.
const MAX_ATTEMPTS: u32 = 3;
/// How long coreos-installer may take to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(15);
/// Of a thread that reads a pipe.
const STACK_BYTES: usize = 64 << 10;
/// How often the run is checked while it prints nothing.
const TICK: Duration = Duration::from_millis(100);

/// What is to be written, and with what.
#[derive(Debug)]
pub struct Job<'a> {
    /// The program.
    pub program: &'a Path,
    /// Its version.
    pub version: Version,
    /// Directory for files that only root reads.
    pub run_dir: &'a Path,
    /// Directory with `NetworkManager` profiles.
    pub network_dir: &'a Path,
    /// The disk.
    pub target: &'a Target,
    /// How it was chosen.
    pub selection: Selection<'a>,
    /// The Ignition config.
    pub ignition: &'a [u8],
    /// How long one run may take.
    pub limit: Duration,
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
}

/// Writes the disk.
pub fn install(
    job: &Job<'_>,
    clock: &dyn Clock,
    stop: &Stop,
    progress: &mut dyn FnMut(Option<u8>, &str),
) -> Written {
    let mut written = Written {
        outcome: Ok(()),
        disk_state: DiskState::Untouched,
        attempts: 0,
        log_tail: Vec::new(),
    };
    let files = match Files::write(job) {
        Ok(files) => files,
        Err(failure) => return Written { outcome: Err(failure), ..written },
    };
    while written.attempts < MAX_ATTEMPTS {
        // Asked right before each run.
        if let Err(failure) = job.selection.confirm(job.target, written.attempts > 0) {
            written.outcome = Err(failure);
            break;
        }
        if stop.is_stopped() {
            written.outcome = Err(interrupted());
            break;
        }
        written.attempts += 1;
        let (failure, is_transient) = attempt(job, &files, stop, progress, &mut written);
        written.outcome = failure.map_or(Ok(()), Err);
        let Err(failure) = &written.outcome else { break };
        if !is_transient || written.attempts == MAX_ATTEMPTS {
            break;
        }
        let wait = Duration::from_secs(10 * u64::from(written.attempts));
        warn!("coreos-installer failed: {failure}; next try in {} s", wait.as_secs());
        clock.sleep(wait, stop);
    }
    files.remove();
    written
}

/// The files that a run needs.
struct Files {
    ignition: PathBuf,
    config: PathBuf,
    args: Vec<String>,
}

impl Files {
    fn write(job: &Job<'_>) -> Result<Self, Failure> {
        let ignition = job.run_dir.join("config.ign");
        let config = job.run_dir.join("install.yaml");
        let places = Places {
            device: &job.target.path(),
            ignition_file: &ignition,
            network_dir: job.network_dir,
        };
        let digest = formats::digest::sha512(job.ignition);
        let options = Options::new(job.selection.install, &digest, places);
        let args = if options.fit_a_file(job.version) {
            options.with_file(&config)
        } else {
            options.to_args()
        };
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(job.run_dir)
            .and_then(|()| write_private(&ignition, job.ignition))
            .and_then(|()| write_private(&config, options.to_file().as_bytes()))
            .map_err(|error| {
                Failure::new(
                    Code::NoSpace,
                    format!("writing to {}: {error}", job.run_dir.display()),
                )
                .advise("the live system has no space left, or its /run is not writable")
            })?;
        Ok(Self { ignition, config, args })
    }

    fn remove(&self) {
        fs::remove_file(&self.ignition).ok();
        fs::remove_file(&self.config).ok();
    }
}

/// Writes a new file that only its owner reads.
fn write_private(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)
}

/// One attempt: why it failed, and whether another one can help.
fn attempt(
    job: &Job<'_>,
    files: &Files,
    stop: &Stop,
    progress: &mut dyn FnMut(Option<u8>, &str),
    written: &mut Written,
) -> (Option<Failure>, bool) {
    let mut tail = Tail::default();
    let failed = |code, error| {
        let what = format!("running {}: {error}", job.program.display());
        (Some(Failure::new(code, what).advise(advice(code))), false)
    };
    let (mut child, output) = match spawn(job.program, &files.args) {
        Ok(started) => started,
        Err(error) => return failed(Code::InstallerMissing, error),
    };
    let ended = follow(&mut child, &output, job.limit, stop, &mut tail, progress);
    written.log_tail = tail.lines();
    let (status, cut_short) = match ended {
        Ok(ended) => ended,
        Err(error) => {
            // It was started, and how much it has written is unknown.
            end(&mut child);
            written.disk_state = DiskState::HalfWritten;
            return failed(Code::InstallerFailed, error);
        }
    };
    if status.success() && cut_short.is_none() {
        written.disk_state = DiskState::Installed;
        return (None, false);
    }
    let lines = tail.lines();
    let found = meaning(&lines, status.code());
    let state = disk_state(found.code, tail.has_written, status.code());
    // A disk that an earlier attempt left half written stays so.
    if state == DiskState::HalfWritten {
        written.disk_state = DiskState::HalfWritten;
    }
    match cut_short {
        Some(Cut::Stopped) => (Some(interrupted()), false),
        Some(Cut::TooLong) => {
            let what = format!("coreos-installer did not finish within {} s", job.limit.as_secs());
            (Some(Failure::new(Code::InstallerFailed, what)), false)
        }
        None => {
            let last = summary(&lines);
            let what = format!(
                "coreos-installer on {}: {}: {last}",
                job.target.disk().device,
                words(status)
            );
            (Some(Failure::new(found.code, what).advise(advice(found.code))), found.is_transient)
        }
    }
}

fn interrupted() -> Failure {
    Failure::new(
        Code::Interrupted,
        "the agent received a signal to stop while the disk was being written",
    )
    .advise(advice(Code::Interrupted))
}

fn words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => "ended".into(),
    }
}

/// Why a run was ended by the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    Stopped,
    TooLong,
}

/// Starts the program; what it writes to either of its outputs comes through the channel.
fn spawn(program: &Path, args: &[String]) -> std::io::Result<(Child, Receiver<Vec<u8>>)> {
    let (pipe, stdout) = std::io::pipe()?;
    let stderr = stdout.try_clone()?;
    // The thread first: without one nothing is started, and so nothing written.
    let output = read_on(pipe)?;
    let child = Command::new(program)
        .args(args)
        // A backtrace would push the error out of the lines that are kept.
        .env("RUST_BACKTRACE", "0")
        .env("RUST_LIB_BACKTRACE", "0")
        .stdin(Stdio::null())
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
pub(super) fn read_on(mut pipe: PipeReader) -> std::io::Result<Receiver<Vec<u8>>> {
    let (sender, receiver) = sync_channel(64);
    let read = move || {
        let mut buffer = [0; 4096];
        while let Ok(n) = pipe.read(&mut buffer) {
            if n == 0 || sender.send(buffer[..n].to_vec()).is_err() {
                return;
            }
        }
    };
    let builder = std::thread::Builder::new().name("installer".into()).stack_size(STACK_BYTES);
    builder.spawn(read).map(|_| receiver).map_err(|error| {
        std::io::Error::new(error.kind(), format!("could not start a thread: {error}"))
    })
}

/// Ends a program and whatever it has started, at once.
pub(super) fn end(child: &mut Child) {
    killpg(group(child), Signal::SIGKILL).ok();
    child.wait().ok();
}

/// The process group of a program that was started with one of its own.
fn group(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX))
}

/// Waits for the end of a run; ends it if the agent is to end or it takes too long.
fn follow(
    child: &mut Child,
    output: &Receiver<Vec<u8>>,
    limit: Duration,
    stop: &Stop,
    tail: &mut Tail,
    progress: &mut dyn FnMut(Option<u8>, &str),
) -> std::io::Result<(ExitStatus, Option<Cut>)> {
    let group = group(child);
    let started = Instant::now();
    let mut lines = Lines::default();
    let mut cut: Option<(Cut, Instant)> = None;
    let mut ended: Option<(ExitStatus, Instant)> = None;
    loop {
        match output.recv_timeout(TICK) {
            Ok(bytes) => lines.feed(&bytes).into_iter().for_each(|line| take(line, tail, progress)),
            Err(RecvTimeoutError::Disconnected) if ended.is_some() => break,
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(TICK),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if ended.is_none() {
            ended = child.try_wait()?.map(|status| (status, Instant::now()));
        }
        // A process that outlives the installer may keep the pipe open; do not wait for it.
        if ended.is_some_and(|(_, at)| at.elapsed() > Duration::from_secs(2)) {
            break;
        }
        match cut {
            None if ended.is_none() => {
                let why = if stop.is_stopped() {
                    Some(Cut::Stopped)
                } else {
                    (started.elapsed() > limit).then_some(Cut::TooLong)
                };
                if let Some(why) = why {
                    killpg(group, Signal::SIGTERM).ok();
                    cut = Some((why, Instant::now()));
                }
            }
            Some((_, at)) if ended.is_none() && at.elapsed() > GRACE => {
                killpg(group, Signal::SIGKILL).ok();
            }
            _ => {}
        }
    }
    if let Some(line) = lines.finish() {
        take(line, tail, progress);
    }
    let status = match ended {
        Some((status, _)) => status,
        None => child.wait()?,
    };
    Ok((status, cut.map(|(why, _)| why)))
}

fn take(line: String, tail: &mut Tail, progress: &mut dyn FnMut(Option<u8>, &str)) {
    progress(percent(&line), &line);
    tail.push(line);
}
