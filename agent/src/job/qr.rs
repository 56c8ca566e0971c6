//! `--console-qr`: the QR code on the console of a node that is blocked, or whose install has failed.

use std::fs::File;

use probes::findings::Finding;

use super::banner;
use super::node::Node;
use crate::act::say::Words;
use crate::act::{DiskState, Failure};
use crate::qr::{Screen, Summary, is_fault};
use crate::terminal;

/// Rows that are left to the lines that follow, on a screen that cannot be scrolled back.
const ROWS_BELOW: usize = 5;
/// The lowest such screen. A lower one is probably a serial line: its terminal keeps what has scrolled off.
const MIN_GRAPHICAL_ROWS: usize = 30;
/// Characters in a line of the reason: below a usual machine, one such line fits the code of a usual terminal.
const REASON_COLUMNS: usize = 40;

/// The screen of a console. The locale of a service describes no terminal, and the kernel's fonts contain the blocks.
pub(super) fn screen(console: &File) -> Screen {
    let screen = Screen::of(console, terminal::may_be_colored(console));
    let is_graphical = screen.rows >= MIN_GRAPHICAL_ROWS;
    let rows = screen.rows.saturating_sub(if is_graphical { ROWS_BELOW } else { 0 });
    Screen { rows, is_utf8: true, ..screen }
}

/// How a failed order ended, for the screen.
#[derive(Debug, Clone)]
pub(super) struct Ending {
    /// The state of the disk and the code, in one line.
    pub(super) what: String,
    /// Message and advice in short lines, so that the first of them fit a small code.
    pub(super) reason: Vec<String>,
}

impl Ending {
    /// `None` for an order whose disk is good all the same.
    pub(super) fn new(state: DiskState, failure: &Failure, words: Words) -> Option<Self> {
        let what = match state {
            DiskState::Untouched => "install failed, nothing written",
            DiskState::HalfWritten => "install failed",
            DiskState::Written | DiskState::Erased => "written, but not proved",
            DiskState::Installed => return None,
        };
        let texts = std::iter::once(&failure.message).chain(&failure.advice);
        let wrapped = texts.map(|text| banner::wrapped(&text.in_words(words), REASON_COLUMNS));
        let reason: String = wrapped.collect();
        let reason = reason.lines().map(str::to_owned).collect();
        Some(Self { what: format!("{what}: {}", failure.code), reason })
    }
}

impl Node {
    /// Returns the text for the code; `None` unless codes are shown. `first` are the findings that lead the others.
    pub(super) fn summary(
        &self,
        what: &str,
        reason: &[String],
        first: &[&Finding],
    ) -> Option<Summary> {
        if !self.settings.shows_qr || self.settings.is_dry_run {
            return None;
        }
        let findings = self.findings();
        let others = findings.iter().filter(|found| is_fault(found) && !first.contains(found));
        let findings: Vec<&Finding> = first.iter().copied().chain(others).collect();
        let machine = self.collected.machine.as_deref().unwrap_or_default();
        let (faults, n_unread) = (&self.collected.faults, self.collected.unread.len());
        Some(Summary::new(machine, Some(what), &findings, faults, n_unread).because(reason))
    }
}
