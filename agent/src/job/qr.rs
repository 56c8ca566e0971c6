//! `--console-qr`: the QR code on the console of a node that is blocked, or whose install has failed.

use std::fs::File;
use std::time::Duration;

use probes::findings::Finding;

use super::sequence::Job;
use super::{Ended, banner};
use crate::act::Code;
use crate::api::{JobResult, Outcome};
use crate::exit_status::ExitStatus;
use crate::qr::{Screen, Summary, is_fault};
use crate::terminal;

/// Rows that are left to the lines that follow, on a screen that cannot be scrolled back.
const ROWS_BELOW: usize = 5;
/// The lowest such screen. A lower one is probably a serial line: its terminal keeps what has scrolled off.
const MIN_GRAPHICAL_ROWS: usize = 30;
/// Characters in a line of the reason: below a usual machine, one such line fits the code of a usual terminal.
const REASON_COLUMNS: usize = 40;
/// Time limit for the end of the job to wait for the console.
const SHOW_LIMIT: Duration = Duration::from_secs(5);

/// The screen of a console. The locale of a service describes no terminal, and the kernel's fonts contain the blocks.
pub(super) fn screen(console: &File) -> Screen {
    let screen = Screen::of(console, terminal::may_be_colored(console));
    let is_graphical = screen.rows >= MIN_GRAPHICAL_ROWS;
    let rows = screen.rows.saturating_sub(if is_graphical { ROWS_BELOW } else { 0 });
    Screen { rows, is_utf8: true, ..screen }
}

impl Job<'_> {
    /// Returns the text for the code of a blocked node; `None` unless codes are shown.
    pub(super) fn summary_of_blocked(&self, blocking: &[&Finding]) -> Option<Summary> {
        self.summary("install blocked", &[], blocking)
    }

    /// Shows why the job has ended, unless that was intended.
    pub(super) fn show_end(&mut self, ended: &Ended) {
        if self.stop.is_stopped() {
            return;
        }
        let summary = match ended.result.as_deref() {
            // Set by the refusal, and replaced when the next instruction arrives.
            _ if self.blocked.summary.is_some() => self.blocked.summary.clone(),
            Some(result) => self.summary_of_failure(result),
            None if ended.exit_status == ExitStatus::NotReported => {
                let is_read = self.collected.machine.is_some();
                let reason = (!is_read).then(|| "the hardware could not be read".to_owned());
                let reason: Vec<String> = reason.into_iter().collect();
                self.summary(&format!("install failed: {}", Code::NoReport), &reason, &[])
            }
            None => None,
        };
        let (Some(summary), Some(screen)) = (summary, &self.settings.screen) else { return };
        let letters = self.blocked.banner.clone().unwrap_or_default();
        self.display.wait(SHOW_LIMIT);
        self.display.show(letters, Some(summary), screen.clone());
        self.display.wait(SHOW_LIMIT);
    }

    fn summary_of_failure(&self, result: &JobResult) -> Option<Summary> {
        let code = result.code.as_ref().filter(|_| result.outcome != Outcome::Installed)?;
        // Short lines, so that the first of them fit a small code.
        let texts = std::iter::once(&result.message).chain(&result.advice);
        let reason: String = texts.map(|text| banner::wrapped(text, REASON_COLUMNS)).collect();
        let reason: Vec<String> = reason.lines().map(str::to_owned).collect();
        let what = match result.outcome {
            Outcome::Refused => "install failed, nothing written",
            Outcome::Unproven => "written, but not proved",
            _ => "install failed",
        };
        self.summary(&format!("{what}: {code}"), &reason, &[])
    }

    fn summary(&self, what: &str, reason: &[String], first: &[&Finding]) -> Option<Summary> {
        if !self.settings.shows_qr || self.settings.is_dry_run {
            return None;
        }
        let findings = self.findings();
        let others = findings.iter().filter(|found| is_fault(found) && !first.contains(found));
        let findings: Vec<&Finding> = first.iter().copied().chain(others).collect();
        let faults = &self.collected.faults;
        Some(
            Summary::new(
                self.collected.machine.as_deref().unwrap_or_default(),
                Some(what),
                &findings,
                faults,
                self.collected.unread.len(),
            )
            .because(reason),
        )
    }
}
