//! Follows a run of the installer to its end: progress, stalls, a signal, the time limit, a disk that hangs.

use std::process::ExitStatus;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tracing::warn;

use super::Site;
use super::programs::Process;
use super::progress::{Lines, Tail, percent};
use super::stream::Stream;
use super::watchdog::{DiskClock, Sample, Sampler};

/// Time limit for the installer to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(15);
/// The same after a signal to the agent, which must end soon itself.
const STOPPED_GRACE: Duration = Duration::from_secs(2);
/// Time limit for a killed installer to end after a signal to the agent.
const STOPPED_KILL: Duration = Duration::from_secs(1);
/// Interval between checks while the run prints nothing.
const TICK: Duration = Duration::from_millis(100);
/// Time limit for reading output that a process outliving the installer keeps open.
const LEFT_OPEN_LIMIT: Duration = Duration::from_secs(2);

/// Why a run was ended by the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cut {
    /// The agent received a signal.
    Stopped,
    /// It did not finish in time.
    TooLong,
    /// It hangs in the kernel because of the disk; contains the kernel's data.
    Hung(String),
}

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ended {
    /// Its exit status; `None` if it survived SIGKILL.
    pub(super) status: Option<ExitStatus>,
    /// Why the agent ended it.
    pub(super) cut: Option<Cut>,
}

/// Callback for each line of the installer, with its percentage if it has one.
pub(super) type Progress<'a> = &'a mut dyn FnMut(Option<u8>, &str);

/// The inputs for following a run.
#[derive(Debug)]
pub(super) struct Follower<'a> {
    /// Its output.
    pub(super) output: &'a Receiver<Vec<u8>>,
    /// The image that it reads; `None` for the live image's own.
    pub(super) stream: Option<&'a Stream>,
    /// Asks the kernel while it prints nothing.
    pub(super) sampler: Sampler,
    /// The disk as messages name it.
    pub(super) device: &'a str,
    /// The live system, with the time limits.
    pub(super) site: &'a Site,
}

/// The state of a run.
#[derive(Debug)]
struct Run {
    now: Instant,
    started: Instant,
    progress_at: Instant,
    reported_at: Option<Instant>,
    /// The first sample of the processes since the last progress.
    first: Option<Sample>,
    latest: Option<Sample>,
    disk: DiskClock,
    cut: Option<(Cut, Instant)>,
    killed_at: Option<Instant>,
    ended: Option<(ExitStatus, Instant)>,
}

impl Follower<'_> {
    /// Waits for the end of a run; ends it if the agent is to end, if it takes too long or if it hangs.
    ///
    /// # Errors
    /// The kernel does not say whether it runs.
    pub(super) fn follow(
        &mut self,
        process: &mut dyn Process,
        tail: &mut Tail,
        progress: Progress<'_>,
    ) -> std::io::Result<Ended> {
        let mut lines = Lines::default();
        let clock = self.site.system.clock().as_ref();
        let mut run = Run::new(clock.now_outside());
        loop {
            let received = clock.receive(self.output, TICK);
            run.now = clock.now_outside();
            match received {
                Ok(bytes) => {
                    run.has_progressed();
                    for line in lines.feed(&bytes) {
                        self.take(line, tail, progress);
                    }
                }
                Err(RecvTimeoutError::Disconnected) if run.ended.is_some() => break,
                Err(RecvTimeoutError::Disconnected) => clock.pause(TICK),
                Err(RecvTimeoutError::Timeout) => {}
            }
            self.follow_stream(&mut run, progress);
            if run.ended.is_none() {
                run.ended = process.try_wait()?.map(|status| (status, run.now));
            }
            if run.ended.is_some_and(|(_, at)| run.since(at) > LEFT_OPEN_LIMIT) {
                break;
            }
            if run.ended.is_none() {
                self.watch(&mut run, progress);
                self.cut(&mut run, process);
                if run.killed_at.is_some_and(|at| run.since(at) > self.kill_limit()) {
                    break;
                }
            }
        }
        if let Some(line) = lines.finish() {
            self.take(line, tail, progress);
        }
        Ok(Ended { status: run.ended.map(|(status, _)| status), cut: run.cut.map(|(why, _)| why) })
    }

    /// Reports a line of the installer and keeps it.
    fn take(&self, line: String, tail: &mut Tail, progress: Progress<'_>) {
        let percent = percent(&line);
        // The stream reports its own progress, with rate and estimate.
        if self.stream.is_none() || percent.is_none() {
            progress(percent, &line);
        }
        tail.push(line);
    }

    /// Reports changes of the image.
    fn follow_stream(&self, run: &mut Run, progress: Progress<'_>) {
        let Some(stream) = self.stream else { return };
        // An installer that waits for the image does not hang because of the disk.
        if stream.waits_for_source() {
            run.has_progressed();
        }
        if let Some((percent, message)) = stream.update() {
            run.has_progressed();
            progress(percent, &message);
        }
    }

    /// Reports a run that makes no progress, or whose disk makes none.
    fn watch(&mut self, run: &mut Run, progress: Progress<'_>) {
        let patience = self.site.patience;
        let with_processes = run.idle_for() >= patience.stall / 3;
        if let Some(sample) = self.sampler.poll(patience.stall / 15, with_processes) {
            if run.disk.update(&sample, run.now) {
                run.has_progressed();
            } else if sample.has_processes() {
                run.first.get_or_insert_with(|| sample.clone());
            }
            run.latest = Some(sample);
        }
        if run.idle_for() < patience.stall {
            run.reported_at = None;
        } else if run.reported_at.is_none_or(|at| run.since(at) >= patience.repeat) {
            let text = self.describe(run);
            warn!("{text}");
            progress(None, &text);
            run.reported_at = Some(run.now);
        }
    }

    fn describe(&self, run: &Run) -> String {
        let found = match &run.latest {
            Some(latest) => latest.describe(self.device),
            None => "the kernel does not say why".into(),
        };
        let (all, disk) = (run.since(run.progress_at), run.disk.stuck_for(run.now));
        let what = if disk > all { "no progress of the disk" } else { "no progress" };
        format!("{what} for {} s: {found}", all.max(disk).as_secs())
    }

    /// Ends the run if it must not go on.
    fn cut(&self, run: &mut Run, process: &mut dyn Process) {
        match &run.cut {
            None => {
                let Some(why) = self.reason(run) else { return };
                let is_hung = matches!(why, Cut::Hung(_));
                process.signal(if is_hung { Signal::SIGKILL } else { Signal::SIGTERM });
                run.killed_at = is_hung.then_some(run.now);
                run.cut = Some((why, run.now));
            }
            Some((_, at)) if run.killed_at.is_none() => {
                let grace = if self.is_stopped() { STOPPED_GRACE } else { GRACE };
                if run.since(*at) > grace {
                    process.signal(Signal::SIGKILL);
                    run.killed_at = Some(run.now);
                }
            }
            Some(_) => {}
        }
    }

    fn reason(&self, run: &Run) -> Option<Cut> {
        let hang = self.site.patience.hang;
        let is_hung = match (&run.first, &run.latest) {
            (Some(first), Some(latest)) => latest.is_hung_since(first),
            _ => false,
        } && run.since(run.progress_at) >= hang;
        let is_stuck = run.disk.stuck_for(run.now) >= hang;
        if self.is_stopped() {
            Some(Cut::Stopped)
        } else if run.since(run.started) > self.site.installer_limit {
            Some(Cut::TooLong)
        } else if is_hung || is_stuck {
            Some(Cut::Hung(self.describe(run)))
        } else {
            None
        }
    }

    /// Returns the time limit for a killed run to end.
    fn kill_limit(&self) -> Duration {
        let kill = self.site.patience.kill;
        if self.is_stopped() { STOPPED_KILL.min(kill) } else { kill }
    }

    /// True if the agent is to end.
    fn is_stopped(&self) -> bool {
        self.site.system.stop().is_stopped()
    }
}

impl Run {
    fn new(now: Instant) -> Self {
        Self {
            now,
            started: now,
            progress_at: now,
            reported_at: None,
            first: None,
            latest: None,
            disk: DiskClock::default(),
            cut: None,
            killed_at: None,
            ended: None,
        }
    }

    fn has_progressed(&mut self) {
        self.progress_at = self.now;
        self.first = None;
    }

    fn since(&self, at: Instant) -> Duration {
        self.now.saturating_duration_since(at)
    }

    /// For how long nothing has made progress, or the disk has made none.
    fn idle_for(&self) -> Duration {
        self.since(self.progress_at).max(self.disk.stuck_for(self.now))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::process::ExitStatusExt as _;
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::mpsc::channel;

    use tempfile::TempDir;

    use super::*;
    use crate::act::System;
    use crate::signals::Stop;
    use crate::testing::VirtualClock;

    /// A process that only SIGKILL ends, if anything does.
    struct Stuck {
        is_mortal: bool,
        signals: Vec<Signal>,
    }

    impl Process for Stuck {
        fn group(&self) -> u32 {
            77
        }

        fn try_wait(&mut self) -> std::io::Result<Option<ExitStatus>> {
            let is_dead = self.is_mortal && self.signals.contains(&Signal::SIGKILL);
            Ok(is_dead.then(|| ExitStatus::from_raw(9)))
        }

        fn signal(&mut self, signal: Signal) {
            self.signals.push(signal);
        }
    }

    /// A system whose disk completes nothing, with a process that waits in the kernel.
    fn hung_system(stat: &str, wchan: &str) -> TempDir {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let files = [
            ("sys/devices/sda/stat", stat),
            ("sys/devices/sda/device/state", "running\n"),
            ("sys/devices/sda/device/ioerr_cnt", "0x2\n"),
            ("proc/78/stat", "78 (a (b) c) D 77 77 77 0\n"),
            ("proc/78/task/78/stat", "78 (a (b) c) D 77 77 77 0\n"),
            ("proc/78/task/78/wchan", wchan),
            ("proc/79/stat", "79 (other) D 1 79 79 0\n"),
        ];
        for (path, content) in files {
            fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            fs::write(root.join(path), content).unwrap();
        }
        fs::create_dir_all(root.join("sys/dev/block")).unwrap();
        let link = root.join("sys/dev/block/8:0");
        std::os::unix::fs::symlink("../../devices/sda", link).unwrap();
        dir
    }

    const IN_FLIGHT: &str = "9 0 9 0 9 0 9 0 3 0 0\n";
    const IDLE: &str = "9 0 9 0 9 0 9 0 0 0 0\n";

    /// Follows a stuck process on such a system, which prints what `output` receives; what is reported, and how it ends.
    /// `events` gets the time that has passed.
    fn follow(
        root: &Path,
        process: &mut Stuck,
        stop: &Stop,
        output: &Receiver<Vec<u8>>,
        events: impl FnMut(Duration) + Send + 'static,
    ) -> (Vec<String>, Ended) {
        let clock = Arc::new(VirtualClock::new(0, events));
        let system = System::below(root.to_owned()).until(stop).with_clock(clock);
        let sampler = Sampler::new(&system, 77, "8:0");
        let site = Site { system, ..Site::default() };
        let mut follower =
            Follower { output, stream: None, sampler, device: "/dev/sda", site: &site };
        let mut reported = Vec::new();
        let mut progress = |_: Option<u8>, line: &str| reported.push(line.to_owned());
        let ended = follower.follow(process, &mut Tail::default(), &mut progress).unwrap();
        (reported, ended)
    }

    #[test]
    fn run_that_hangs_in_the_kernel_is_reported_and_given_up_even_if_it_survives_sigkill() {
        for is_mortal in [true, false] {
            let system = hung_system(IN_FLIGHT, "folio_wait_bit_common");
            let mut process = Stuck { is_mortal, signals: Vec::new() };
            let (_open, output) = channel();
            let stop = Stop::default();
            let (reported, ended) = follow(system.path(), &mut process, &stop, &output, |_| {});
            assert_eq!(process.signals, [Signal::SIGKILL]);
            assert_eq!(ended.status.is_some(), is_mortal);
            let Some(Cut::Hung(why)) = ended.cut else { panic!("{ended:?}") };
            assert_eq!(reported.len(), 1, "{reported:?}");
            for (text, seconds) in [(&reported[0], 15), (&why, 25)] {
                assert!(text.starts_with(&format!("no progress for {seconds} s: ")), "{text}");
                assert!(text.contains("a (b) c (process 78) waits in the kernel"), "{text}");
                assert!(text.contains("folio_wait_bit_common"), "{text}");
                let disk = "/dev/sda has 3 requests in flight, state running, 2 failed requests";
                assert!(text.contains(disk), "{text}");
            }
        }
    }

    #[test]
    fn run_that_waits_for_a_flush_hangs_and_one_that_reads_a_slow_medium_does_not() {
        for (wchan, is_hung) in [("blkdev_issue_flush", true), ("filemap_read_folio", false)] {
            let system = hung_system(IDLE, wchan);
            let (_open, output) = channel();
            let mut process = Stuck { is_mortal: true, signals: Vec::new() };
            let stop = Stop::default();
            let stopper = stop.clone();
            let signal = move |passed: Duration| {
                if passed.as_secs() == 40 {
                    stopper.stop();
                }
            };
            let (reported, ended) = follow(system.path(), &mut process, &stop, &output, signal);
            assert_eq!(matches!(ended.cut, Some(Cut::Hung(_))), is_hung, "{ended:?}");
            assert_eq!(reported.len(), 1, "a stall is reported in either case");
        }
    }

    #[test]
    fn disk_that_freezes_is_reported_once_and_given_up_although_the_installer_makes_progress() {
        let system = hung_system(IDLE, "0");
        let (printing, output) = channel();
        let counters = system.path().join("sys/devices/sda/stat");
        let mut is_frozen = false;
        let print = move |passed: Duration| {
            if !is_frozen && passed.as_secs() == 10 {
                fs::write(&counters, IN_FLIGHT).unwrap();
                is_frozen = true;
            }
            printing.send(b"Read disk (7%)\n".to_vec()).ok();
        };
        let mut process = Stuck { is_mortal: true, signals: Vec::new() };
        let stop = Stop::default();
        let (lines, ended) = follow(system.path(), &mut process, &stop, &output, print);
        assert_eq!(process.signals, [Signal::SIGKILL]);
        let Some(Cut::Hung(why)) = ended.cut else { panic!("{ended:?}") };
        let reported: Vec<_> = lines.iter().filter(|line| !line.starts_with("Read disk")).collect();
        assert_eq!(reported.len(), 1, "{reported:?}");
        for (text, seconds) in [(reported[0], 15), (&why, 25)] {
            let expected = format!("no progress of the disk for {seconds} s: a (b) c ");
            assert!(text.starts_with(&expected), "{text}");
            assert!(text.contains("/dev/sda has 3 requests in flight"), "{text}");
        }
    }
}
