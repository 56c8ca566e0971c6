//! The load that a VIM allows while the node waits for its instruction: `load_s` of the action `wait`.

use std::time::{Duration, Instant};

use tracing::{error, info};

use super::sequence::Job;
use crate::api::{Finding, Stage, State};
use crate::check::load::Load;
use crate::install::blocking;

/// The load, and what the last one found.
#[derive(Debug, Default)]
pub(super) struct WaitingLoad {
    /// With the time at which it is over.
    running: Option<(Load, Instant)>,
    /// Whether one has run since the last report: one that finds nothing is not repeated until the VIM asks for a report.
    has_run: bool,
    pub(super) findings: Vec<Finding>,
}

impl Job<'_> {
    /// Starts the load that a `wait` allows, or ends the one that is not allowed any more. Returns how long the node may
    /// wait; `None` if the load is over, so that the hardware is to be read before it ends.
    pub(super) fn load(&mut self, allowed_s: Option<u64>, wait: Duration) -> Option<Duration> {
        let Some(seconds) = allowed_s.filter(|_| self.posts()) else {
            self.end_load();
            return Some(wait);
        };
        if !std::mem::replace(&mut self.load.has_run, true) {
            let text =
                format!("the VIM allows a load of every CPU and of free memory: {seconds} s");
            info!("{text}");
            self.event(Stage::Wait, State::Started, Some(&text));
            let end = self.clock.now() + Duration::from_secs(seconds);
            self.load.running = Some((Load::start(seconds), end));
        }
        let Some((_, end)) = &self.load.running else { return Some(wait) };
        let left = end.saturating_duration_since(self.clock.now());
        (!left.is_zero()).then(|| wait.min(left))
    }

    /// Lets a load run while the hardware is read, and ends it. Only the VIM's next report allows another one.
    pub(super) fn end_load_of_report(&mut self) {
        self.load.has_run = self.load.running.is_some();
        self.end_load();
    }

    /// Ends the load and posts what it found. The result contains the findings, and they may block an install.
    pub(super) fn end_load(&mut self) {
        let Some((load, _)) = self.load.running.take() else { return };
        let verdict = load.finish();
        let mut text = verdict.summary();
        info!("{text}");
        for finding in &verdict.findings {
            let found = format!("{}: {}", blocking::key(finding), finding.evidence);
            error!("{found}");
            text = [text, found].join("; ");
        }
        let state = if verdict.findings.is_empty() { State::Done } else { State::Failed };
        self.event(Stage::Wait, state, Some(&text));
        self.load.findings = verdict.findings;
    }
}
