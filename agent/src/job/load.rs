//! The load that a fleet allows while the node waits, and what it found.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::{error, info};

use crate::act::State as EventState;
use crate::act::blocking;
use crate::api::Finding;
use crate::check::load::{Load, Verdict};
use crate::monitor::Monitor;
use crate::report::Report;

/// The load, and the findings of all loads since the start of the agent. The job starts it, and any reader of the
/// hardware ends it, so that the report contains the findings.
#[derive(Debug, Clone, Default)]
pub struct WaitingLoad {
    state: Arc<Monitor<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// With the time at which it is over.
    running: Option<(Load, Instant)>,
    /// True if one has run since the last report: one that finds nothing is not repeated until the VIM asks for a
    /// report, or withdraws its permission and gives it again.
    has_run: bool,
    /// The event of a load that has ended, until it is posted.
    ended: Option<(EventState, String)>,
    /// The findings of all loads, and the CPUs that the last one did not test. A CPU that was wrong once is not right because
    /// it was right the next time.
    verdict: Verdict,
}

impl State {
    fn end(&mut self) {
        let Some((load, _)) = self.running.take() else { return };
        let verdict = load.finish();
        let mut text = verdict.summary();
        info!("{text}");
        for finding in &verdict.findings {
            let found = format!("{}: {}", blocking::key(finding), finding.evidence);
            error!("{found}");
            text = [text, found].join("; ");
        }
        let has_passed = verdict.findings.is_empty();
        let state = if has_passed { EventState::Done } else { EventState::Failed };
        self.ended = Some((state, text));
        self.keep(verdict);
    }

    fn keep(&mut self, verdict: Verdict) {
        let earlier = std::mem::replace(&mut self.verdict, verdict).findings;
        add(&mut self.verdict.findings, earlier);
    }
}

/// Adds the findings of `more` that are not known yet.
pub(crate) fn add(findings: &mut Vec<Finding>, more: Vec<Finding>) {
    for finding in more {
        if findings.iter().all(|known| blocking::key(known) != blocking::key(&finding)) {
            findings.push(finding);
        }
    }
}

impl WaitingLoad {
    /// Ends a load that runs, and adds its findings and earlier ones to the report of the hardware that was read
    /// meanwhile.
    pub fn end_into(&self, report: &mut Report) {
        let mut state = self.state.lock();
        state.end();
        if state.verdict != Verdict::default() {
            state.verdict.clone().add_to(report);
        }
    }

    /// Adds the load's findings to `findings`, which may contain them.
    pub(crate) fn add_findings(&self, findings: &mut Vec<Finding>) {
        add(findings, self.state.lock().verdict.findings.clone());
    }

    /// Starts a load unless one has run since the last report; `start` learns that it starts. Returns how much of its
    /// time is left, which is zero once it is over; `None` if none runs.
    pub(crate) fn allow(
        &self,
        seconds: u64,
        now: Instant,
        start: impl FnOnce(),
    ) -> Option<Duration> {
        let mut state = self.state.lock();
        if !std::mem::replace(&mut state.has_run, true) {
            start();
            state.running = Some((Load::start(seconds), now + Duration::from_secs(seconds)));
        }
        state.running.as_ref().map(|(_, end)| end.saturating_duration_since(now))
    }

    /// Ends a load that still runs although the hardware has been read. Another one needs another report, or a permission
    /// that was withdrawn and is given again. Returns the event of its end.
    pub(crate) fn end_of_report(&self) -> Option<(EventState, String)> {
        let mut state = self.state.lock();
        state.has_run = state.running.is_some() || state.ended.is_some();
        state.end();
        state.ended.take()
    }

    /// Ends the load because it is no longer allowed; a later permission is a new one. Returns the event of its end.
    pub(crate) fn withdraw(&self) -> Option<(EventState, String)> {
        let mut state = self.state.lock();
        state.has_run = false;
        state.end();
        state.ended.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::act::blocking::Policy;
    use crate::check::load::{End, Outcome, judge};

    fn outcome(cpu: u32, output: &str) -> Outcome {
        Outcome { cpu, output: output.to_owned(), end: End::Exited(0) }
    }

    #[test]
    fn cpu_that_was_wrong_in_an_earlier_load_blocks_an_install_and_is_named_once() {
        let good = outcome(0, r#"{"done": [900, 0, 8388608, 0]}"#);
        let bad = outcome(1, r#"{"wrong": "a copy gave 0x1", "done": [900, 1, 8388608, 0]}"#);
        let load = WaitingLoad::default();
        load.state.lock().keep(judge(&[good.clone(), bad]));
        load.state.lock().keep(judge(&[good]));
        let mut findings = Vec::new();
        load.add_findings(&mut findings);
        load.add_findings(&mut findings);
        assert_eq!(findings.len(), 1, "{findings:#?}");
        let refused = Policy::default().check(&findings).unwrap_err();
        assert!(refused.to_string().contains("logical CPU 1"), "{refused}");
    }
}
