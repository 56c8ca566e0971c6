//! How a run ends, as the shell and systemd see it. Every exit status of the program is listed here and only here:
//! the help prints them as a table, and `systemd/run-coreos-installer.service` reboots after 0 and after nothing else.

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

/// Every status with its number and its meaning in the words of the help. The last one shares the number of `Staying`.
const TABLE: [(ExitStatus, u8, &str); 10] = [
    (ExitStatus::Done, 0, "done"),
    (ExitStatus::Findings, 1, "check: only warnings; diff, cohort: differs; disks: none chosen"),
    (ExitStatus::Usage, 2, "wrong option, configuration or input; check: no hardware was readable"),
    (ExitStatus::NotReported, 3, "the report or the result was not delivered"),
    (ExitStatus::Untouched, 4, "not installed; no disk was touched"),
    (ExitStatus::HalfWritten, 5, "not installed; the disk may be half written"),
    (ExitStatus::Unproven, 6, "installed, but the proof failed: do not boot the disk"),
    (ExitStatus::Staying, 7, "check: critical findings; install: proved, the machine stays on"),
    (ExitStatus::Bug, 101, "a bug in this program; please report it"),
    (ExitStatus::Critical, 7, "check: critical findings; install: proved, the machine stays on"),
];

impl ExitStatus {
    /// Returns one status for each number, in ascending order.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|(status, ..)| *status).filter(|status| *status != Self::Critical)
    }

    fn row(self) -> (u8, &'static str) {
        let row = TABLE.iter().find(|(status, ..)| *status == self);
        row.map_or((101, ""), |(_, code, meaning)| (*code, meaning))
    }

    /// The number that the shell sees.
    pub fn code(self) -> u8 {
        self.row().0
    }

    /// The meaning, in the words of the help.
    pub fn meaning(self) -> &'static str {
        self.row().1
    }

    /// The paragraph at the end of the help.
    pub fn help() -> String {
        let mut text = "Exit status:".to_owned();
        for status in Self::all() {
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
        let mut codes: Vec<u8> = ExitStatus::all().map(ExitStatus::code).collect();
        for status in ExitStatus::all() {
            let line = format!("  {:>3}  {}", status.code(), status.meaning());
            assert_eq!(help.lines().filter(|l| *l == line).count(), 1, "{status:?}");
        }
        codes.dedup();
        assert_eq!(ExitStatus::Critical.code(), 7, "monitoring relies on it");
        assert!(codes.len() == ExitStatus::all().count() && codes.is_sorted(), "{codes:?}");
    }

    #[test]
    fn unit_documents_the_exit_statuses_of_the_job_and_keeps_nobody_from_logging_in() {
        let unit = include_str!("../../systemd/run-coreos-installer.service");
        let line = |words: &str| unit.lines().find(|line| line.contains(words)).unwrap();
        let exit = |status: ExitStatus| format!("exit {}", status.code());
        assert!(line("installed and proved").contains(&exit(ExitStatus::Done)));
        assert!(line("the VIM says stop").contains(&exit(ExitStatus::Untouched)));
        assert!(line("after: stay").contains(&exit(ExitStatus::Staying)));
        assert!(line("a dry run, configured").contains(&exit(ExitStatus::Untouched)));
        // No range: options that are wrong exit with 2 and a panic with 101.
        assert!(line("anything failed").contains("any other "));
        assert!(!unit.lines().any(|line| line.starts_with("Before=")), "{unit}");
    }
}
