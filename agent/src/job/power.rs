//! Programs that the agent runs last, such as `systemctl poweroff`: each is waited for, and then the signal with which
//! systemd ends the agent, but not for ever.

use std::path::Path;
use std::time::Duration;

use crate::act::System;
use crate::act::programs::Output;
use crate::clock::Clock;
use crate::signals::Stop;

/// Time limit for the machine to switch off.
pub(crate) const POWEROFF_LIMIT: Duration = Duration::from_mins(5);
/// Interval between checks of the program.
const POLL: Duration = Duration::from_millis(100);

/// Waits for the signal, for ever if none comes.
pub(crate) fn wait_for_signal(clock: &dyn Clock, stop: &Stop) {
    while !stop.is_stopped() {
        clock.sleep(Duration::from_mins(1), stop);
    }
}

/// Runs the program and waits for the signal.
///
/// # Errors
/// A message if the program failed, or no signal came within the limit.
pub(crate) fn run_until_stopped(
    command: &[String],
    limit: Duration,
    system: &System,
) -> Result<(), String> {
    let (clock, stop) = (system.clock(), system.stop());
    let started = clock.now();
    run(command, limit, system)?;
    clock.sleep(limit.saturating_sub(clock.now().duration_since(started)), stop);
    if stop.is_stopped() {
        return Ok(());
    }
    Err(format!("the machine is still on after {} s", limit.as_secs()))
}

/// Runs the program to its end, or until the signal comes.
///
/// # Errors
/// A message if it failed, or did not end within the limit.
pub(crate) fn run(command: &[String], limit: Duration, system: &System) -> Result<(), String> {
    let (program, args) = command.split_first().ok_or("no program is configured")?;
    let words = command.join(" ");
    let (clock, stop) = (system.clock(), system.stop());
    let started = clock.now();
    let process = system.programs().start(Path::new(program), args, Output::Inherited, None);
    let (mut process, _) = process.map_err(|error| format!("running {words}: {error}"))?;
    loop {
        match process.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(format!("{words}: {status}")),
            Ok(None) if stop.is_stopped() => return Ok(()),
            // A program that asks a hanging systemd does not end.
            Ok(None) if clock.now().duration_since(started) >= limit => {
                system.end(process.as_mut(), Duration::ZERO);
                return Err(format!("{words} does not end within {} s", limit.as_secs()));
            }
            Ok(None) => clock.sleep(POLL, stop),
            Err(error) => return Err(format!("waiting for {words}: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::signals::Stop;
    use crate::testing::{Scripted, VirtualClock};

    /// Runs a program with this exit status, or one that never ends, until a signal after `stops_after` seconds. Returns
    /// its end and the time in s.
    fn run(status: Option<i32>, stops_after: u64) -> (Result<(), String>, u64) {
        let stop = Stop::default();
        let stopper = stop.clone();
        let clock = Arc::new(VirtualClock::new(0, move |passed| {
            if passed.as_secs() >= stops_after {
                stopper.stop();
            }
        }));
        let programs = Arc::new(Scripted { prints: String::new(), status });
        let system =
            System::default().with_programs(programs).with_clock(clock.clone()).until(&stop);
        let ended = run_until_stopped(&["systemctl".to_owned()], POWEROFF_LIMIT, &system);
        (ended, clock.passed().as_secs())
    }

    #[test]
    fn program_that_fails_hangs_or_has_no_effect_ends_the_wait_with_the_reason() {
        for (status, words, seconds) in [
            (Some(1), "systemctl: exit status: 1", 0),
            (None, "systemctl does not end within 300 s", 300),
            (Some(0), "the machine is still on after 300 s", 300),
        ] {
            assert_eq!(run(status, u64::MAX), (Err(words.to_owned()), seconds));
        }
        let run = |words: &[String]| super::run(words, POWEROFF_LIMIT, &System::default());
        assert_eq!(run(&[]), Err("no program is configured".to_owned()));
        let missing = run(&["/no/such/program".to_owned()]).unwrap_err();
        assert!(missing.starts_with("running /no/such/program: "), "{missing}");
    }

    #[test]
    fn signal_ends_the_wait_well() {
        for status in [None, Some(0)] {
            assert_eq!(run(status, 20), (Ok(()), 20));
        }
    }
}
