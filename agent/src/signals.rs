//! SIGTERM and SIGINT: the request to end, which cuts every wait short and leaves the machine in a clear state.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The signals by which people and systemd tell a program to end.
const SIGNALS: [i32; 2] = [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT];

/// Whether the agent is to end: SIGTERM or SIGINT has come.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    /// The number of the signal; 0 before one has come.
    signal: Arc<AtomicUsize>,
    /// Whether a signal ends the program at once, as it does where nobody listens.
    is_released: Arc<AtomicBool>,
}

impl Stop {
    /// Listens to SIGTERM and SIGINT from now on, also after what was told so before is released.
    ///
    /// # Errors
    /// The kernel takes no signal handler.
    pub fn on_signals() -> std::io::Result<Self> {
        // A handler stays for ever: a second one beside one that is released would never get a turn.
        static LISTENING: Mutex<Option<Stop>> = Mutex::new(None);
        let mut listening = LISTENING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stop) = &*listening {
            stop.is_released.store(false, Ordering::SeqCst);
            return Ok(stop.clone());
        }
        let stop = Self::default();
        for signal in SIGNALS {
            let number = usize::try_from(signal).unwrap_or_default();
            signal_hook::flag::register_conditional_default(signal, Arc::clone(&stop.is_released))?;
            signal_hook::flag::register_usize(signal, Arc::clone(&stop.signal), number)?;
        }
        *listening = Some(stop.clone());
        Ok(stop)
    }

    /// Nothing is left to put right: the next signal ends the program at once, and one that has come does so
    /// now. Its shell sees that, as status 130 for SIGINT and 143 for SIGTERM.
    pub fn release(&self) {
        self.is_released.store(true, Ordering::SeqCst);
        let number = self.signal.load(Ordering::SeqCst);
        if let Some(signal) =
            SIGNALS.into_iter().find(|signal| usize::try_from(*signal) == Ok(number))
        {
            signal_hook::low_level::emulate_default_handler(signal).ok();
        }
    }

    /// Tells the agent to end.
    pub fn stop(&self) {
        let number = usize::try_from(signal_hook::consts::SIGTERM).unwrap_or(1);
        self.signal.store(number, Ordering::SeqCst);
    }

    /// Whether the agent is to end.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.signal.load(Ordering::SeqCst) != 0
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use nix::sys::signal::{Signal, raise};

    use super::*;

    /// The process of the test ends by the signal, so that each case has one of its own.
    #[test]
    fn a_signal_is_waited_for_until_the_program_is_released_and_then_ends_it() {
        const NAME: &str =
            "signals::tests::a_signal_is_waited_for_until_the_program_is_released_and_then_ends_it";
        if let Some(case) = std::env::var_os("RCI_SIGNAL_CASE") {
            let stop = Stop::on_signals().unwrap();
            if case == "before" {
                raise(Signal::SIGINT).unwrap();
                assert!(stop.is_stopped());
                stop.release();
            } else if case == "again" {
                stop.release();
                let stop = Stop::on_signals().unwrap();
                raise(Signal::SIGTERM).unwrap();
                assert!(stop.is_stopped());
                // Told apart from the end by the signal that was to be waited for.
                let other = usize::try_from(signal_hook::consts::SIGINT).unwrap();
                stop.signal.store(other, Ordering::SeqCst);
                stop.release();
            } else {
                stop.release();
                assert!(!stop.is_stopped());
                raise(Signal::SIGTERM).unwrap();
            }
            unreachable!("it goes on after the signal");
        }
        for (case, signal) in
            [("before", Signal::SIGINT), ("after", Signal::SIGTERM), ("again", Signal::SIGINT)]
        {
            let status = std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", NAME, "--nocapture"])
                .env("RCI_SIGNAL_CASE", case)
                .stdout(std::process::Stdio::null())
                .status()
                .unwrap();
            assert_eq!(status.signal(), Some(signal as i32), "{case}: {status}");
        }
    }
}
