//! Time and chance, so that tests can give both; and the wish to end, which cuts every wait short.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// How long a wait sleeps before it looks whether the agent is to end.
const SLICE: Duration = Duration::from_millis(100);

/// Whether the agent is to end: SIGTERM or SIGINT has come.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Listens to SIGTERM and SIGINT from now on.
    ///
    /// # Errors
    /// The kernel takes no signal handler.
    pub fn on_signals() -> std::io::Result<Self> {
        let stop = Self::default();
        for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
            signal_hook::flag::register(signal, Arc::clone(&stop.0))?;
        }
        Ok(stop)
    }

    /// Tells the agent to end.
    pub fn stop(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Whether the agent is to end.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// Where the client takes time and chance from.
pub trait Clock: fmt::Debug + Send + Sync {
    /// A time that only goes forward.
    fn now(&self) -> Instant;
    /// The time of day.
    fn time_of_day(&self) -> SystemTime;
    /// Waits, but not longer than until `stop` is set.
    fn sleep(&self, duration: Duration, stop: &Stop);
    /// A number from 0 to 2³²-1, each as likely.
    fn random(&self) -> u32;
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
        // Without random numbers the nanoseconds of the clock still differ from node to node.
        crate::bounded::random::<4>().map_or_else(
            || {
                SystemTime::now()
                    .duration_since(SystemTime::UNIX_EPOCH)
                    .map_or(0, |since| since.subsec_nanos().wrapping_mul(2_654_435_761))
            },
            u32::from_le_bytes,
        )
    }
}
