//! The load that a VIM allows while the node waits for its instruction: `load_s` of the action `wait`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::{error, info};

use super::sequence::Job;
use crate::act::blocking;
use crate::act::{Stage, State as EventState};
use crate::api::Finding;
use crate::check::load::{Load, Verdict};
use crate::report::Report;

/// The load, and the findings of all loads since the start of the agent. The job starts it, and any reader of the
/// hardware ends it, so that the report contains the findings.
#[derive(Debug, Clone, Default)]
pub struct WaitingLoad {
    shared: Arc<Mutex<State>>,
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
pub(super) fn add(findings: &mut Vec<Finding>, more: Vec<Finding>) {
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
        let mut state = self.lock();
        state.end();
        if state.verdict != Verdict::default() {
            state.verdict.clone().add_to(report);
        }
    }

    /// Adds the load's findings to `findings`, which may contain them.
    pub(super) fn add_findings(&self, findings: &mut Vec<Finding>) {
        add(findings, self.lock().verdict.findings.clone());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Job<'_> {
    /// Starts the load that a `wait` allows, or ends the one that is not allowed any more. Returns how long the node may
    /// wait; `None` if the hardware is to be read at once, because the load is over or because it has found a fault.
    ///
    /// What `accepts_report` says nothing about a load if it allows none: some VIMs accept every report alike.
    pub(super) fn load(
        &mut self,
        allowed_s: Option<u64>,
        wait: Duration,
        accepts_report: bool,
    ) -> Option<Duration> {
        let Some(seconds) = allowed_s.filter(|_| self.posts()) else {
            return (accepts_report || !self.withdraw_load()).then_some(wait);
        };
        let mut state = self.settings.load.lock();
        if !std::mem::replace(&mut state.has_run, true) {
            let text =
                format!("the VIM allows a load of every CPU and of free memory: {seconds} s");
            info!("{text}");
            self.event(Stage::Wait, EventState::Started, Some(&text));
            let end = self.clock.now() + Duration::from_secs(seconds);
            state.running = Some((Load::start(seconds), end));
        }
        let Some((_, end)) = &state.running else { return Some(wait) };
        let left = end.saturating_duration_since(self.clock.now());
        (!left.is_zero()).then(|| wait.min(left))
    }

    /// Ends a load that is still running after the hardware was read. Another one needs another report, or a permission that was
    /// withdrawn and is given again.
    pub(super) fn end_load_of_report(&mut self) {
        let mut state = self.settings.load.lock();
        state.has_run = state.running.is_some() || state.ended.is_some();
        drop(state);
        self.end_load();
    }

    /// Ends the load because the VIM no longer allows it; a later permission is a new one. Returns true if it found a
    /// fault.
    pub(super) fn withdraw_load(&mut self) -> bool {
        self.settings.load.lock().has_run = false;
        self.end_load()
    }

    /// Ends the load and posts its findings; returns true if it found a fault. The result contains the findings, and
    /// they may block an install.
    fn end_load(&mut self) -> bool {
        let mut state = self.settings.load.lock();
        state.end();
        let Some((how, text)) = state.ended.take() else { return false };
        drop(state);
        self.event(Stage::Wait, how, Some(&text));
        how == EventState::Failed
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
        let good = outcome(0, "done 900 0 8388608 0\n");
        let bad = outcome(1, "wrong 0x1 instead of 0x2; a copy\ndone 900 1 8388608 0\n");
        let load = WaitingLoad::default();
        load.lock().keep(judge(&[good.clone(), bad]));
        load.lock().keep(judge(&[good]));
        let mut findings = Vec::new();
        load.add_findings(&mut findings);
        load.add_findings(&mut findings);
        assert_eq!(findings.len(), 1, "{findings:#?}");
        let refused = Policy::default().check(&findings).unwrap_err();
        assert!(refused.to_string().contains("logical CPU 1"), "{refused}");
    }
}
