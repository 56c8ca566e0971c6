//! Time and programs for tests, in which nothing is waited for.

use std::fmt;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant, SystemTime};

use nix::sys::signal::Signal;

use crate::act::programs::{Output, Process, Programs, Started};
use crate::clock::Clock;
use crate::signals::Stop;

/// Real time that a wait gives to other threads before its own passes.
const YIELD: Duration = Duration::from_millis(2);

/// A clock whose time passes only while something waits for it.
pub(crate) struct VirtualClock {
    started: Instant,
    passed: Mutex<Duration>,
    /// The waits until something is tried again.
    pub(crate) slept: Mutex<Vec<Duration>>,
    events: Mutex<Box<dyn FnMut(Duration) + Send>>,
    random: u32,
}

impl VirtualClock {
    /// A clock with this random number; `events` is called with the time that has passed, whenever some has.
    pub(crate) fn new(random: u32, events: impl FnMut(Duration) + Send + 'static) -> Self {
        Self {
            started: Instant::now(),
            passed: Mutex::default(),
            slept: Mutex::default(),
            events: Mutex::new(Box::new(events)),
            random,
        }
    }

    /// The time that has passed.
    pub(crate) fn passed(&self) -> Duration {
        *self.passed.lock().unwrap()
    }

    fn advance(&self, duration: Duration) {
        *self.passed.lock().unwrap() += duration;
        (self.events.lock().unwrap())(self.passed());
    }
}

impl fmt::Debug for VirtualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VirtualClock({:?})", self.passed())
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Instant {
        self.started + self.passed()
    }

    fn now_outside(&self) -> Instant {
        self.now()
    }

    fn time_of_day(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH
    }

    fn sleep(&self, duration: Duration, stop: &Stop) {
        // As the real clock, which looks for a signal meanwhile.
        let end = self.passed() + duration;
        while self.passed() < end && !stop.is_stopped() {
            self.advance(end.saturating_sub(self.passed()).min(Duration::from_secs(1)));
        }
        self.slept.lock().unwrap().push(duration);
    }

    fn pause(&self, duration: Duration) {
        std::thread::yield_now();
        self.advance(duration);
    }

    fn wait_for(&self, limit: Duration, arrives: &mut dyn FnMut(Duration) -> bool) {
        if !arrives(YIELD.min(limit)) {
            self.advance(limit);
        }
    }

    fn random(&self) -> u32 {
        self.random
    }
}

/// A program that has printed this; it has ended with this status, or runs until it is killed.
#[derive(Debug, Clone)]
pub(crate) struct Scripted {
    pub(crate) prints: String,
    pub(crate) status: Option<i32>,
}

impl Programs for Scripted {
    fn start(&self, _: &Path, _: &[String], _: Output) -> io::Result<Started> {
        let (sender, output) = channel();
        sender.send(self.prints.clone().into_bytes()).ok();
        if self.status.is_none() {
            // Its output stays open.
            std::mem::forget(sender);
        }
        Ok((Box::new(self.clone()), output))
    }
}

impl Process for Scripted {
    fn group(&self) -> u32 {
        77
    }

    fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        Ok(self.status.map(|code| ExitStatus::from_raw(code << 8)))
    }

    fn signal(&mut self, signal: Signal) {
        self.status.get_or_insert(128 + signal as i32);
    }
}
