//! Questions that a disk, the firmware or the kernel may never answer: each is asked on a thread of its own, for a
//! limited time, and a signal cuts the wait short.

use std::fmt;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use probes::guard::{self, Panic};

use crate::signals::Stop;

/// Stack of the thread: the default of Rust's threads.
const STACK_BYTES: usize = 2 << 20;

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

/// Does `work` on a thread of its own and waits for it. Work that is late goes on, since nothing can end it.
///
/// # Errors
/// See [`Unanswered`].
pub fn ask_within<T: Send + 'static>(
    name: &str,
    limit: Duration,
    stop: &Stop,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Unanswered> {
    let answer = guard::ask(name, STACK_BYTES, work)
        .map_err(|error| Unanswered::NoThread(error.to_string()))?;
    receive_within(&answer, limit, stop)
}

/// Waits for the answer of a thread; after a signal only a moment longer.
///
/// # Errors
/// See [`Unanswered`].
pub fn receive_within<T>(
    answer: &Receiver<Result<T, Panic>>,
    limit: Duration,
    stop: &Stop,
) -> Result<T, Unanswered> {
    let started = Instant::now();
    match stop.receive(answer, limit) {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(panic)) => Err(Unanswered::Bug(panic)),
        Err(RecvTimeoutError::Disconnected) => {
            Err(Unanswered::Bug("the thread ended without an answer".into()))
        }
        Err(RecvTimeoutError::Timeout) if started.elapsed() < limit => Err(Unanswered::Stopped),
        Err(RecvTimeoutError::Timeout) => Err(Unanswered::Late(limit)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_mins(1);

    #[test]
    fn work_that_never_ends_is_given_up_after_its_limit_or_soon_after_a_signal() {
        let endless = || std::thread::sleep(LONG);
        let limit = Duration::from_millis(200);
        let late = ask_within("late", limit, &Stop::default(), endless);
        assert_eq!(late, Err(Unanswered::Late(limit)));
        let stop = Stop::default();
        let during = stop.clone();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(300));
            during.stop();
        });
        let started = Instant::now();
        assert_eq!(ask_within("stopped", LONG, &stop, endless), Err(Unanswered::Stopped));
        assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
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
