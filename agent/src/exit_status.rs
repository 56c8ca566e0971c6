//! How a run ends, as the shell and systemd see it. Every exit status of the program is listed here and only here:
//! the help prints [`ExitStatus::ALL`], and `systemd/run-coreos-installer.service` reboots after 0 and after nothing else.

use std::fmt::Write as _;
use std::process::ExitCode;

/// How a run ended. A signal that ends the program gives 128 and its number instead, e.g. 143 for SIGTERM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitStatus {
    /// The command did what it was asked to do. For `install` in the live image: systemd may reboot.
    Done,
    /// `check` found a warning, but nothing critical. `disks`: no disk would be chosen. `diff`, `cohort`: something differs.
    Findings,
    /// An option, the configuration or a file that it names is wrong; nothing was done. `check`, `expect`, `diff`, `cohort`:
    /// nothing about the hardware could be read.
    Usage,
    /// The VIM did not receive the report, or the result of a finished install. Without a VIM: the result's file could
    /// not be written.
    NotReported,
    /// Nothing was installed and no disk was touched.
    Untouched,
    /// The install failed after writing began.
    HalfWritten,
    /// The disk was written, but reading it back showed that it is not what was asked for.
    Unproven,
    /// The disk is installed and proved, and the machine stays on: `--after stay`, or it could not be powered off.
    Staying,
    /// `check` found a critical finding. The number is that of [`ExitStatus::Staying`], which only `install` has.
    Critical,
    /// The program panicked; 101 is what every Rust program returns then.
    Bug,
}

impl ExitStatus {
    /// One status for each number, in ascending order.
    pub const ALL: [Self; 9] = [
        Self::Done,
        Self::Findings,
        Self::Usage,
        Self::NotReported,
        Self::Untouched,
        Self::HalfWritten,
        Self::Unproven,
        Self::Staying,
        Self::Bug,
    ];

    /// The number that the shell sees.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Findings => 1,
            Self::Usage => 2,
            Self::NotReported => 3,
            Self::Untouched => 4,
            Self::HalfWritten => 5,
            Self::Unproven => 6,
            Self::Staying | Self::Critical => 7,
            Self::Bug => 101,
        }
    }

    /// What it means, in the words of the help.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Findings => "check: only warnings; diff, cohort: differs; disks: none chosen",
            Self::Usage => "wrong option, configuration or input; check: no hardware was readable",
            Self::NotReported => "the report or the result was not delivered",
            Self::Untouched => "not installed; no disk was touched",
            Self::HalfWritten => "not installed; the disk may be half written",
            Self::Unproven => "installed, but the proof failed: do not boot the disk",
            Self::Staying | Self::Critical => {
                "check: critical findings; install: proved, the machine stays on"
            }
            Self::Bug => "a bug in this program; please report it",
        }
    }

    /// The paragraph at the end of the help.
    #[must_use]
    pub fn help() -> String {
        let mut text = "Exit status:".to_owned();
        for status in Self::ALL {
            write!(text, "\n  {:>3}  {}", status.code(), status.meaning()).ok();
        }
        text
    }
}

impl From<ExitStatus> for ExitCode {
    fn from(status: ExitStatus) -> Self {
        Self::from(status.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_lists_every_exit_status_once() {
        let help = ExitStatus::help();
        let mut codes: Vec<u8> = ExitStatus::ALL.iter().map(|status| status.code()).collect();
        for status in ExitStatus::ALL {
            let line = format!("  {:>3}  {}", status.code(), status.meaning());
            assert_eq!(help.lines().filter(|l| *l == line).count(), 1, "{status:?}");
        }
        codes.dedup();
        assert_eq!(ExitStatus::Critical.code(), 7, "monitoring relies on it");
        assert!(codes.len() == ExitStatus::ALL.len() && codes.is_sorted(), "{codes:?}");
    }

    #[test]
    fn unit_documents_the_exit_statuses_of_the_job() {
        let unit = include_str!("../../systemd/run-coreos-installer.service");
        let line = |words: &str| unit.lines().find(|line| line.contains(words)).unwrap();
        let exit = |status: ExitStatus| format!("exit {}", status.code());
        assert!(line("installed and proved").contains(&exit(ExitStatus::Done)));
        assert!(line("the VIM says stop").contains(&exit(ExitStatus::Untouched)));
        assert!(line("after: stay").contains(&exit(ExitStatus::Staying)));
        assert!(line("a dry run, configured").contains(&exit(ExitStatus::Untouched)));
        // No range: options that are wrong exit with 2 and a panic with 101.
        assert!(line("anything failed").contains("any other "));
    }

    #[test]
    fn unit_keeps_nobody_from_logging_in_while_the_agent_waits() {
        let unit = include_str!("../../systemd/run-coreos-installer.service");
        assert!(!unit.lines().any(|line| line.starts_with("Before=")), "{unit}");
    }
}
