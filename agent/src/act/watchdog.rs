//! Watches a run of coreos-installer that makes no progress: it reads the kernel's data on its processes and the disk.
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

/// Time limits for the steps of a stall.
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
const WRITING: &str = "blkdev_ fsync sync_ flush writeback dirty_pages jbd2 xfs_log submit_bio_wait \
     bdev_disk_changed write_begin";
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

/// A sample of the kernel's data at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Sample {
    /// `None` if the processes were not looked at, or if none was listed.
    thread: Option<Thread>,
    has_processes: bool,
    io: Option<CurrentIo>,
}

impl Sample {
    /// Takes a sample of a disk, and of the processes in a group if there is one.
    fn take(machine: &Machine, group: Option<u32>, number: &str) -> Self {
        let thread = group.and_then(|group| thread(machine, group));
        Self { thread, has_processes: group.is_some(), io: current_io(machine, number) }
    }

    /// True if the processes were examined.
    pub(super) fn has_processes(&self) -> bool {
        self.has_processes
    }

    /// True if the run has hung in the kernel since an earlier sample because of the disk: requests are in flight, and
    /// none was completed, or a process waits in a function that writes.
    pub(super) fn is_hung_since(&self, earlier: &Self) -> bool {
        let is_idle = match (&self.io, &earlier.io) {
            (Some(now), Some(then)) => now.n_completed == then.n_completed,
            _ => true,
        };
        let in_flight = |sample: &Self| sample.io.as_ref().is_some_and(|io| io.n_in_flight > 0);
        let waits = |sample: &Self| sample.thread.as_ref().is_some_and(Thread::waits_for_a_write);
        is_idle && ((in_flight(self) && in_flight(earlier)) || (waits(self) && waits(earlier)))
    }

    /// Describes the sample.
    pub(super) fn describe(&self, device: &str) -> String {
        let process = match &self.thread {
            Some(thread) => thread.describe(),
            None if self.has_processes => "no process of the writer is listed".to_owned(),
            None => "what the writer waits for is not known".to_owned(),
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

/// Since when a disk has completed none of its requests. The page cache accepts the installer's writes, and so the
/// image makes progress, for up to half a minute after the disk has stopped.
#[derive(Debug, Default)]
pub(super) struct DiskClock {
    n_completed: Option<u64>,
    n_in_flight_at_start: Option<u64>,
    stuck_since: Option<Instant>,
}

impl DiskClock {
    /// Takes a sample that was taken at `now` into account. Returns whether the disk has completed requests since the
    /// last one.
    pub(super) fn update(&mut self, sample: &Sample, now: Instant) -> bool {
        let Some(io) = &sample.io else {
            self.stuck_since = None;
            return false;
        };
        // Some drivers have leaked this counter: what it contained before the run counts as nothing in flight, so that
        // a disk that only waits for a slow image is not called stuck.
        let n_at_start = *self.n_in_flight_at_start.get_or_insert(io.n_in_flight);
        let earlier = self.n_completed.replace(io.n_completed);
        let has_completed = earlier.is_some_and(|earlier| earlier != io.n_completed);
        if has_completed || io.n_in_flight <= n_at_start {
            self.stuck_since = None;
        } else {
            self.stuck_since.get_or_insert(now);
        }
        has_completed
    }

    /// Returns the time for which requests have been in flight without one being completed.
    pub(super) fn stuck_for(&self, now: Instant) -> Duration {
        self.stuck_since.map(|since| now.saturating_duration_since(since)).unwrap_or_default()
    }
}

impl Thread {
    fn waits_for_a_write(&self) -> bool {
        let writes = |function: &String| WRITING.split(' ').any(|word| function.contains(word));
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
    let stat_of = |path: &str| parse_stat(&machine.text(&format!("{path}/stat"))?);
    let mut found: Vec<(String, Thread)> = Vec::new();
    for process in machine.names("proc").into_iter().filter(is_number) {
        let Some((of, main)) = stat_of(&format!("proc/{process}")) else { continue };
        if of != group {
            continue;
        }
        let tasks = format!("proc/{process}/task");
        for task in machine.names(&tasks).into_iter().filter(is_number).take(MAX_THREADS) {
            let path = format!("{tasks}/{task}");
            if let Some((_, thread)) = stat_of(&path) {
                found.push((path, Thread { pid: main.pid, ..thread }));
            }
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

/// The process group and the thread in `/proc/<pid>/stat`: `1234 (coreos-installe) D 1 1234 …`. The name may contain
/// blanks and parentheses.
fn parse_stat(text: &str) -> Option<(u32, Thread)> {
    let (pid, rest) = text.split_once(" (")?;
    let (name, rest) = rest.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let state = fields.next()?.chars().next()?;
    let group = fields.nth(1)?.parse().ok()?;
    let thread =
        Thread { pid: pid.parse().ok()?, name: name.to_owned(), state, waits_in: Vec::new() };
    Some((group, thread))
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

    /// The next sample if it is there; starts one if `every` has passed since the last began. The list of processes is
    /// long on a large machine, so they are looked at on request only.
    pub(super) fn poll(&mut self, every: Duration, with_processes: bool) -> Option<Sample> {
        let Some((answer, started)) = &self.pending else {
            self.start(with_processes);
            return None;
        };
        let received = answer.try_recv();
        // A sample that does not come is waited for: it would not help to ask the same kernel again.
        let spent = self.system.clock().now_outside().saturating_duration_since(*started);
        if spent >= every && !matches!(received, Err(TryRecvError::Empty)) {
            self.pending = None;
        }
        received.ok()?.ok()?.ok()
    }

    fn start(&mut self, with_processes: bool) {
        let (group, number) = (with_processes.then_some(self.group), self.number.clone());
        let answer = self.system.start(move |machine| Sample::take(machine, group, &number));
        self.pending = answer.ok().map(|answer| (answer, self.system.clock().now_outside()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For how many seconds the disk is stuck after samples of requests completed and in flight, one a second.
    fn stuck_after(samples: &[(u64, u64)]) -> u64 {
        let (mut clock, start) = (DiskClock::default(), Instant::now());
        let mut now = start;
        for (second, &(n_completed, n_in_flight)) in (0..).zip(samples) {
            now = start + Duration::from_secs(second);
            let io = CurrentIo { n_completed, n_in_flight, ..CurrentIo::default() };
            clock.update(&Sample { io: Some(io), ..Sample::default() }, now);
        }
        clock.stuck_for(now).as_secs()
    }

    #[test]
    fn disk_is_stuck_while_requests_are_in_flight_and_none_is_completed() {
        assert_eq!(stuck_after(&[(9, 0), (9, 3), (9, 128), (9, 128), (9, 128)]), 3);
        assert_eq!(stuck_after(&[(9, 0), (9, 3), (9, 128), (10, 128), (10, 128)]), 0);
        assert_eq!(stuck_after(&[(9, 0), (10, 128), (11, 128), (12, 128)]), 0, "it is busy");
        assert_eq!(stuck_after(&[(9, 0), (12, 0), (12, 0), (12, 0)]), 0, "it waits for the image");
        assert_eq!(stuck_after(&[(9, 2), (12, 2), (12, 2), (12, 2)]), 0, "the counter leaked");
        assert_eq!(stuck_after(&[]), 0);
    }

    #[test]
    fn disk_without_counters_is_never_stuck() {
        let (mut clock, now) = (DiskClock::default(), Instant::now());
        assert!(!clock.update(&Sample::default(), now));
        assert_eq!(clock.stuck_for(now + Duration::from_mins(1)), Duration::ZERO);
    }
}
