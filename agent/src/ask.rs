//! Questions that a disk, the firmware or the kernel may never answer: each is asked on a thread of its own, for a
//! limited time, and a signal cuts the wait short.

use std::fmt;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use probes::guard::{self, Panic};

use crate::clock::{Clock, RealClock};
use crate::signals::Stop;

/// Stack of the thread: the default of Rust's threads.
const STACK_BYTES: usize = 2 << 20;
/// Time for which an answer is waited for after a signal: within five seconds the agent must have ended.
pub(crate) const GRACE: Duration = Duration::from_secs(2);
/// Interval at which a wait looks for a signal.
const TICK: Duration = Duration::from_millis(50);

/// The answer of a thread, once it is there.
pub(crate) type Answer<T> = Receiver<Result<T, Panic>>;

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unanswered {
    /// The kernel gives no thread, as it says.
    NoThread(String),
    /// The work panicked.
    Bug(Panic),
    /// There was no answer for this long.
    Late(Duration),
    /// A signal asked the agent to end.
    Stopped,
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoThread(error) => write!(f, "could not start a thread: {error}"),
            Self::Bug(panic) => write!(f, "a bug in the agent: {panic}"),
            Self::Late(limit) => write!(f, "no answer within {} s", limit.as_secs()),
            Self::Stopped => f.write_str("the agent received a signal to stop"),
        }
    }
}

/// Does `work` on a thread of its own and waits for it; after a signal only a moment longer. Work that is late goes on, since
/// nothing can end it.
///
/// # Errors
/// See [`Unanswered`].
pub fn ask_within<T: Send + 'static>(
    name: &str,
    limit: Duration,
    stop: &Stop,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Unanswered> {
    ask_by(&RealClock, name, (limit, GRACE), stop, work)
}

/// The same by another clock, with the time limits of [`receive_within`].
///
/// # Errors
/// See [`Unanswered`].
pub(crate) fn ask_by<T: Send + 'static>(
    clock: &dyn Clock,
    name: &str,
    limits: (Duration, Duration),
    stop: &Stop,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Unanswered> {
    let answer = guard::ask(name, STACK_BYTES, work);
    let answer = answer.map_err(|error| Unanswered::NoThread(error.to_string()))?;
    receive_within(clock, &answer, limits, stop)
}

/// Waits for the answer of a thread, for at most the first limit, and after a signal for at most the second one.
///
/// # Errors
/// See [`Unanswered`].
pub(crate) fn receive_within<T>(
    clock: &dyn Clock,
    answer: &Answer<T>,
    (limit, grace): (Duration, Duration),
    stop: &Stop,
) -> Result<T, Unanswered> {
    let started = clock.now_outside();
    let mut stopped_at = None;
    loop {
        let now = clock.now_outside();
        if stop.is_stopped() && now.duration_since(*stopped_at.get_or_insert(now)) > grace {
            return Err(Unanswered::Stopped);
        }
        let left = limit.saturating_sub(now.duration_since(started));
        match clock.receive(answer, left.min(TICK)) {
            Ok(answer) => return answer.map_err(Unanswered::Bug),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Unanswered::Bug("the thread ended without an answer".into()));
            }
            Err(RecvTimeoutError::Timeout) if left <= TICK => return Err(Unanswered::Late(limit)),
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::VirtualClock;

    const LONG: Duration = Duration::from_secs(10);

    #[test]
    fn work_that_never_ends_is_given_up_after_its_limit_or_soon_after_a_signal() {
        let endless = || std::thread::sleep(LONG);
        let stop = Stop::default();
        let during = stop.clone();
        let signal = move |passed: Duration| {
            if passed.as_secs() == 15 {
                during.stop();
            }
        };
        let clock = VirtualClock::new(0, signal);
        let wait = || ask_by(&clock, "endless", (LONG, GRACE), &stop, endless);
        let late = wait();
        assert_eq!((late, clock.passed()), (Err(Unanswered::Late(LONG)), LONG));
        assert_eq!((wait(), clock.passed().as_secs()), (Err(Unanswered::Stopped), 17));
        // What is done quickly is done after a signal, too.
        assert_eq!(ask_within("quick", LONG, &stop, || 7), Ok(7));
    }

    #[test]
    fn panic_is_called_a_bug() {
        let broken = ask_within("broken", LONG, &Stop::default(), || -> u32 { panic!("x y z") });
        let text = broken.unwrap_err().to_string();
        assert!(text.starts_with("a bug in the agent: x y z ("), "{text}");
    }
}
