//! Time and random numbers behind one trait, so that a test can supply both.

use std::fmt;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime};

use crate::signals::Stop;

/// How long a wait sleeps before it checks for a signal.
const SLICE: Duration = Duration::from_millis(100);

/// Source of time and random numbers.
pub trait Clock: fmt::Debug + Send + Sync {
    /// Monotonic time.
    fn now(&self) -> Instant;
    /// Monotonic time for what happens by itself: a program that runs, a server that sends. A clock that moves only when it
    /// sleeps gives another time here than [`Clock::now`], unless it drives these too.
    fn now_outside(&self) -> Instant {
        Instant::now()
    }
    /// The time of day.
    fn time_of_day(&self) -> SystemTime;
    /// Waits, but returns early once `stop` is set.
    fn sleep(&self, duration: Duration, stop: &Stop);
    /// Waits a moment for what happens by itself, whether a signal comes or not.
    fn pause(&self, duration: Duration) {
        std::thread::sleep(duration);
    }
    /// Waits for what happens by itself: calls `arrives`, which waits for as long as its argument says and returns true
    /// once it is there.
    fn wait_for(&self, limit: Duration, arrives: &mut dyn FnMut(Duration) -> bool) {
        arrives(limit);
    }
    /// A uniformly distributed number from 0 to 2³²-1.
    fn random(&self) -> u32;
}

impl dyn Clock + '_ {
    /// Waits for a message, for at most `limit`.
    ///
    /// # Errors
    /// None came in time, or none will come.
    pub fn receive<T>(&self, from: &Receiver<T>, limit: Duration) -> Result<T, RecvTimeoutError> {
        let mut received = Err(RecvTimeoutError::Timeout);
        self.wait_for(limit, &mut |limit| {
            received = from.recv_timeout(limit);
            !matches!(received, Err(RecvTimeoutError::Timeout))
        });
        received
    }
}

/// The machine's clock and the kernel's random numbers.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealClock;

impl Clock for RealClock {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn time_of_day(&self) -> SystemTime {
        SystemTime::now()
    }

    fn sleep(&self, duration: Duration, stop: &Stop) {
        let started = Instant::now();
        while let Some(left) = duration.checked_sub(started.elapsed())
            && !left.is_zero()
            && !stop.is_stopped()
        {
            std::thread::sleep(left.min(SLICE));
        }
    }

    fn random(&self) -> u32 {
        u32::from_le_bytes(crate::random::random_bytes_or_time())
    }
}
