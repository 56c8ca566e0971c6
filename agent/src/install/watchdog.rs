//! Watches a run of coreos-installer that makes no progress: what the kernel says of its processes and of the disk.
//!
//! Sources: `/proc/<pid>/task/<tid>/{stat,wchan,stack}` (proc(5); the stack needs root and `CONFIG_STACKTRACE`) and
//! the disk's counters (`probes::block::current_io`). The samples are taken on threads of their own, so that no
//! disk and no file of the kernel can block the thread that watches.

use std::sync::mpsc::TryRecvError;
use std::time::{Duration, Instant};

use probes::block::{CurrentIo, current_io};
use probes::machine::Machine;

use super::System;
use super::system::Pending;

/// How long each step of a stall may last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Without progress for this long, the stall is reported.
    pub stall: Duration,
    /// Without progress for this long, a run that hangs in the kernel is killed.
    pub hang: Duration,
    /// A process that survives SIGKILL for this long is given up.
    pub kill: Duration,
    /// A stall that lasts is reported again after this long.
    pub repeat: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        // The end of `hang` and `kill` together is under a minute, so that a result is posted within one.
        Self {
            stall: Duration::from_secs(15),
            hang: Duration::from_secs(25),
            kill: Duration::from_secs(30),
            repeat: Duration::from_mins(1),
        }
    }
}

/// Kernel functions in which a process waits for a disk that it writes. A slow live medium is read in others.
const WRITING: [&str; 11] = [
    "blkdev_",
    "fsync",
    "sync_",
    "flush",
    "writeback",
    "dirty_pages",
    "jbd2",
    "xfs_log",
    "submit_bio_wait",
    "bdev_disk_changed",
    "write_begin",
];
/// The most threads that are looked at.
const MAX_THREADS: usize = 256;
/// The most functions of a stack that are kept.
const MAX_FRAMES: usize = 12;

/// A thread of coreos-installer or of a program that it started.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Thread {
    pid: u32,
    name: String,
    /// The kernel's letter: `D` waits and cannot be killed.
    state: char,
    /// Kernel functions in which it waits, innermost first.
    waits_in: Vec<String>,
}

/// What the kernel says at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Sample {
    thread: Option<Thread>,
    io: Option<CurrentIo>,
}

impl Sample {
    /// Takes a sample of the processes in a group and of a disk.
    fn take(machine: &Machine, group: u32, number: &str) -> Self {
        Self { thread: thread(machine, group), io: current_io(machine, number) }
    }

    /// Whether the run has hung in the kernel since an earlier sample because of the disk: requests are in flight,
    /// and none was completed, or a process waits in a function that writes.
    pub(super) fn is_hung_since(&self, earlier: &Self) -> bool {
        let is_idle = match (&self.io, &earlier.io) {
            (Some(now), Some(then)) => now.n_completed == then.n_completed,
            _ => true,
        };
        let in_flight = |sample: &Self| sample.io.as_ref().is_some_and(|io| io.n_in_flight > 0);
        let waits = |sample: &Self| sample.thread.as_ref().is_some_and(Thread::waits_for_a_write);
        is_idle && ((in_flight(self) && in_flight(earlier)) || (waits(self) && waits(earlier)))
    }

    /// How many requests the disk has completed.
    pub(super) fn n_completed(&self) -> Option<u64> {
        self.io.as_ref().map(|io| io.n_completed)
    }

    /// The sample in words.
    pub(super) fn describe(&self, device: &str) -> String {
        let process = match &self.thread {
            None => "no process of coreos-installer is listed".to_owned(),
            Some(thread) => thread.describe(),
        };
        let Some(io) = &self.io else { return format!("{process}; {device} has no counters") };
        let state = io.state.as_ref().map(|state| format!(", state {state}"));
        let errors = io.n_errors.map(|n| format!(", {n} failed requests"));
        format!(
            "{process}; {device} has {} requests in flight{}{}",
            io.n_in_flight,
            state.unwrap_or_default(),
            errors.unwrap_or_default()
        )
    }
}

impl Thread {
    fn waits_for_a_write(&self) -> bool {
        let writes = |function: &String| WRITING.iter().any(|word| function.contains(word));
        self.state == 'D' && self.waits_in.iter().any(writes)
    }

    fn describe(&self) -> String {
        let state = match self.state {
            'D' => "waits in the kernel and cannot be killed".to_owned(),
            'S' => "waits".to_owned(),
            'R' => "runs".to_owned(),
            'Z' => "has ended".to_owned(),
            other => format!("is in state {other}"),
        };
        let place = self.waits_in.first().map(|function| format!(" ({function})"));
        format!("{} (process {}) {state}{}", self.name, self.pid, place.unwrap_or_default())
    }
}

/// The thread of a process group that most likely holds it up: one that waits in the kernel, or the first.
fn thread(machine: &Machine, group: u32) -> Option<Thread> {
    let is_number = |name: &String| name.bytes().all(|b| b.is_ascii_digit());
    let mut found: Vec<(String, Thread)> = Vec::new();
    for process in machine.names("proc").into_iter().filter(is_number) {
        let stat = machine.text(&format!("proc/{process}/stat"));
        if stat.as_deref().and_then(parse_stat).is_none_or(|stat| stat.group != group) {
            continue;
        }
        let tasks = format!("proc/{process}/task");
        for task in machine.names(&tasks).into_iter().filter(is_number).take(MAX_THREADS) {
            let path = format!("{tasks}/{task}");
            let stat = machine.text(&format!("{path}/stat"));
            let Some(stat) = stat.as_deref().and_then(parse_stat) else { continue };
            let pid = process.parse().unwrap_or_default();
            let thread = Thread { pid, name: stat.name, state: stat.state, waits_in: Vec::new() };
            found.push((path, thread));
        }
    }
    let rank = |thread: &Thread| match thread.state {
        'D' => 0,
        'Z' => 2,
        _ => 1,
    };
    found.sort_by_key(|(_, thread)| (rank(thread), thread.pid));
    let (path, mut thread) = found.into_iter().next()?;
    let wchan = machine.text(&format!("{path}/wchan")).filter(|function| function != "0");
    let stack = machine.text(&format!("{path}/stack")).unwrap_or_default();
    let frames = stack.lines().filter_map(frame).take(MAX_FRAMES);
    thread.waits_in = wchan.into_iter().chain(frames).collect();
    Some(thread)
}

/// The function in `[<0>] folio_wait_bit_common+0x13d/0x350`.
fn frame(line: &str) -> Option<String> {
    let (_, function) = line.split_once("] ")?;
    Some(function.split(['+', ' ']).next().unwrap_or_default().to_owned())
}

/// What `/proc/<pid>/stat` says of a process.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    name: String,
    state: char,
    group: u32,
}

/// `1234 (coreos-installe) D 1 1234 …`: the name may contain blanks and parentheses.
fn parse_stat(text: &str) -> Option<Stat> {
    let (_, rest) = text.split_once('(')?;
    let (name, rest) = rest.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let state = fields.next()?.chars().next()?;
    let group = fields.nth(1)?.parse().ok()?;
    Some(Stat { name: name.to_owned(), state, group })
}

/// Takes samples without ever waiting for one.
#[derive(Debug)]
pub(super) struct Sampler {
    system: System,
    group: u32,
    number: String,
    pending: Option<(Pending<Sample>, Instant)>,
}

impl Sampler {
    /// Watches the processes of a group and the disk with this number.
    pub(super) fn new(system: &System, group: u32, number: &str) -> Self {
        Self { system: system.clone(), group, number: number.to_owned(), pending: None }
    }

    /// The next sample if it is there; starts one if `every` has passed since the last began.
    pub(super) fn poll(&mut self, every: Duration) -> Option<Sample> {
        let Some((answer, started)) = &self.pending else {
            self.start();
            return None;
        };
        let received = answer.try_recv();
        // A sample that does not come is waited for: it would not help to ask the same kernel again.
        if started.elapsed() >= every && !matches!(received, Err(TryRecvError::Empty)) {
            self.pending = None;
        }
        received.ok()?.ok()?.ok()
    }

    fn start(&mut self) {
        let (group, number) = (self.group, self.number.clone());
        let answer = self.system.start(move |machine| Sample::take(machine, group, &number));
        self.pending = answer.ok().map(|answer| (answer, Instant::now()));
    }
}
