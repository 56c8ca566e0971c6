//! SIGTERM, SIGINT and SIGHUP: the request to end, which cuts every wait short and leaves the machine in a clear state.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The signals with which people, systemd and a connection that breaks off ask a program to end.
const SIGNALS: [i32; 3] =
    [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT, signal_hook::consts::SIGHUP];

/// Whether the agent should end: one of the signals was received.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    /// The number of the signal; 0 before one is received.
    signal: Arc<AtomicUsize>,
    /// Whether a signal ends the program at once, as it does without a handler.
    is_released: Arc<AtomicBool>,
}

impl Stop {
    /// Catches the signals from now on, even after an earlier [`Stop`] was released. SIGHUP stays ignored if it is, as `nohup`
    /// wants it.
    ///
    /// # Errors
    /// The kernel refuses a signal handler.
    pub fn on_signals() -> std::io::Result<Self> {
        // A handler cannot be removed, and a released one ends the program before a second one could run.
        static CAUGHT: Mutex<Option<Stop>> = Mutex::new(None);
        let mut caught = CAUGHT.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stop) = &*caught {
            stop.is_released.store(false, Ordering::SeqCst);
            return Ok(stop.clone());
        }
        let stop = Self::default();
        for signal in SIGNALS {
            if signal == signal_hook::consts::SIGHUP && is_hangup_ignored() {
                continue;
            }
            let number = usize::try_from(signal).unwrap_or_default();
            signal_hook::flag::register_conditional_default(signal, Arc::clone(&stop.is_released))?;
            signal_hook::flag::register_usize(signal, Arc::clone(&stop.signal), number)?;
        }
        *caught = Some(stop.clone());
        Ok(stop)
    }

    /// Nothing is left to restore: the next signal ends the program at once, and one that was already received does so
    /// now. The shell sees status 129 for SIGHUP, 130 for SIGINT and 143 for SIGTERM.
    pub fn release(&self) {
        self.is_released.store(true, Ordering::SeqCst);
        let number = self.signal.load(Ordering::SeqCst);
        if let Some(signal) =
            SIGNALS.into_iter().find(|signal| usize::try_from(*signal) == Ok(number))
        {
            signal_hook::low_level::emulate_default_handler(signal).ok();
        }
    }

    /// Asks the agent to end.
    pub fn stop(&self) {
        let number = usize::try_from(signal_hook::consts::SIGTERM).unwrap_or(1);
        self.signal.store(number, Ordering::SeqCst);
    }

    /// The number of the signal, which is zero before one is received.
    pub fn number(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.signal)
    }

    /// Whether the agent should end.
    pub fn is_stopped(&self) -> bool {
        self.signal.load(Ordering::SeqCst) != 0
    }
}

/// Whether who started the program ignores SIGHUP (`/proc/self/status`, `SigIgn`: bit n - 1 is signal n; proc(5)).
fn is_hangup_ignored() -> bool {
    let status = procfs::process::Process::myself().and_then(|process| process.status());
    status.is_ok_and(|status| status.sigign & 1 << (signal_hook::consts::SIGHUP - 1) != 0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use nix::sys::signal::{Signal, raise};

    use super::*;

    /// The signal ends the process of the test, so each case runs in a process of its own.
    #[test]
    fn signal_is_held_until_release_and_then_ends_the_program() {
        const NAME: &str = "signals::tests::signal_is_held_until_release_and_then_ends_the_program";
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
                // Another signal than the one raised, so that the parent can distinguish the two ways to end.
                let other = usize::try_from(signal_hook::consts::SIGINT).unwrap();
                stop.signal.store(other, Ordering::SeqCst);
                stop.release();
            } else if case == "hangup" {
                raise(Signal::SIGHUP).unwrap();
                assert!(stop.is_stopped());
                stop.release();
            } else {
                if case == "ignored" {
                    raise(Signal::SIGHUP).unwrap();
                }
                stop.release();
                assert!(!stop.is_stopped());
                raise(Signal::SIGTERM).unwrap();
            }
            unreachable!("the program continues after the signal");
        }
        for (case, signal) in [
            ("before", Signal::SIGINT),
            ("after", Signal::SIGTERM),
            ("again", Signal::SIGINT),
            ("hangup", Signal::SIGHUP),
            ("ignored", Signal::SIGTERM),
        ] {
            // Set either way: `nohup cargo test` passes an ignored signal on, and a shell cannot set it back.
            let disposition = if case == "ignored" { "--ignore" } else { "--default" };
            let status = std::process::Command::new("env")
                .arg(format!("{disposition}-signal=HUP"))
                .arg(std::env::current_exe().unwrap())
                .args(["--exact", NAME, "--nocapture"])
                .env("RCI_SIGNAL_CASE", case)
                .stdout(std::process::Stdio::null())
                .status()
                .unwrap();
            assert_eq!(status.signal(), Some(signal as i32), "{case}: {status}");
        }
    }
}
