//! Programs that the agent runs last, such as `systemctl poweroff`: each is waited for, and then the signal with which
//! systemd ends the agent, but not for ever.

use std::process::{Command, Stdio};
use std::time::Duration;

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
    clock: &dyn Clock,
    stop: &Stop,
) -> Result<(), String> {
    let started = clock.now();
    run(command, limit, clock, stop)?;
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
pub(crate) fn run(
    command: &[String],
    limit: Duration,
    clock: &dyn Clock,
    stop: &Stop,
) -> Result<(), String> {
    let (program, args) = command.split_first().ok_or("no program is configured")?;
    let words = command.join(" ");
    let started = clock.now();
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .spawn()
        .map_err(|error| format!("running {words}: {error}"))?;
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(format!("{words}: {status}")),
            Ok(None) if stop.is_stopped() => return Ok(()),
            // A program that asks a hanging systemd does not end.
            Ok(None) if clock.now().duration_since(started) >= limit => {
                child.kill().ok();
                return Err(format!("{words} does not end within {} s", limit.as_secs()));
            }
            Ok(None) => clock.sleep(POLL, stop),
            Err(error) => return Err(format!("waiting for {words}: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::clock::RealClock;

    fn run(command: &str, limit_ms: u64, stop: &Stop) -> Result<(), String> {
        let words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
        run_until_stopped(&words, Duration::from_millis(limit_ms), &RealClock, stop)
    }

    #[test]
    fn program_that_fails_hangs_or_has_no_effect_ends_the_wait_with_the_reason() {
        let stop = Stop::default();
        for (command, words) in [
            ("", "no program"),
            ("/no/such/program", "running /no/such/program: "),
            ("false", "false: exit status: 1"),
            ("sleep 600", "sleep 600 does not end"),
            ("true", "still on after 0 s"),
        ] {
            let started = Instant::now();
            let why = run(command, 300, &stop).unwrap_err();
            assert!(why.contains(words), "{command}: {why}");
            assert!(started.elapsed() < Duration::from_secs(20));
        }
    }

    #[test]
    fn signal_ends_the_wait_well() {
        let stop = Stop::default();
        let stopper = stop.clone();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(200));
            stopper.stop();
        });
        let started = Instant::now();
        assert_eq!(run("sleep 30", 60_000, &stop), Ok(()));
        assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
        assert_eq!(run("true", 60_000, &stop), Ok(()));
    }
}
