//! The stages of an install in the service's names (assisted-service, `models/host_stage.go`), in the order of the
//! service, which refuses a stage that comes before the present one. The write is reported every 5 %.

use std::collections::VecDeque;

use crate::act::{Stage, State};
use crate::job::Event;

pub(super) const STARTING: &str = "Starting installation";
pub(super) const INSTALLING: &str = "Installing";
const WRITING: &str = "Writing image to disk";
pub(super) const CONTROL_PLANE: &str = "Waiting for control plane";
pub(super) const BOOTKUBE: &str = "Waiting for bootkube";
pub(super) const REBOOTING: &str = "Rebooting";
pub(super) const FAILED: &str = "Failed";
/// The share of the image after which the progress is reported again, in percent.
const STEP_PERCENT: u8 = 5;

/// A stage and information about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) stage: &'static str,
    pub(super) info: String,
}

/// The reports to send, oldest first.
#[derive(Debug, Default)]
pub(super) struct Progress {
    reports: VecDeque<Report>,
    /// The stages that were queued. The service refuses one that was left.
    known: Vec<&'static str>,
    /// The last percentage that was queued; a further try of coreos-installer begins at 0 again.
    percent: u8,
}

impl Progress {
    /// Queues a report. One of the same stage that was not sent yet is replaced, so the queue has a report for each
    /// stage at most. A stage that was left is not queued again.
    pub(super) fn add(&mut self, stage: &'static str, info: impl Into<String>) {
        match self.known.iter().position(|known| *known == stage) {
            Some(at) if at + 1 < self.known.len() => return,
            Some(_) => {}
            None => self.known.push(stage),
        }
        let report = Report { stage, info: info.into() };
        match self.reports.back_mut() {
            Some(last) if last.stage == stage => *last = report,
            _ => self.reports.push_back(report),
        }
    }

    /// An event of the install.
    pub(super) fn observe(&mut self, event: &Event) {
        let Event { stage, state, percent, message } = event;
        match (stage, state) {
            (Stage::Preflight, State::Done) => self.add(INSTALLING, ""),
            (Stage::Write, State::Started) => self.add(WRITING, ""),
            (Stage::Write, State::Progress) => self.add_percent(percent.unwrap_or_default()),
            (Stage::Write, State::Done) => self.add_percent(100),
            (Stage::Wait, State::Progress) => {
                let (stage, info) = message
                    .as_deref()
                    .map_or(("", ""), |message| message.split_once(": ").unwrap_or((message, "")));
                for known in [CONTROL_PLANE, BOOTKUBE] {
                    if stage == known {
                        self.add(known, info);
                    }
                }
            }
            _ => {}
        }
    }

    fn add_percent(&mut self, percent: u8) {
        let step = percent.min(100) / STEP_PERCENT * STEP_PERCENT;
        if step > self.percent {
            self.percent = step;
            self.add(WRITING, format!("{step}%"));
        }
    }

    /// The report to send next.
    pub(super) fn next(&self) -> Option<Report> {
        self.reports.front().cloned()
    }

    /// This report was sent. If it was replaced meanwhile, the newer one stays.
    pub(super) fn sent(&mut self, report: &Report) {
        if self.reports.front() == Some(report) {
            self.reports.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(stage: Stage, how: State, percent: Option<u8>) -> Event {
        Event { stage, state: how, percent, message: None }
    }

    #[test]
    fn stages_come_in_order_and_the_write_in_steps_of_five() {
        let mut progress = Progress::default();
        let mut reported = Vec::new();
        let mut send = |progress: &mut Progress| {
            while let Some(report) = progress.next() {
                progress.sent(&report);
                reported.push(format!("{} {}", report.stage, report.info));
            }
        };
        progress.add(STARTING, "");
        progress.observe(&event(Stage::Preflight, State::Started, None));
        progress.observe(&event(Stage::Preflight, State::Done, None));
        progress.observe(&event(Stage::Write, State::Started, None));
        send(&mut progress);
        // The second try of coreos-installer begins again.
        for percent in [1, 4, 5, 9, 2, 7, 38, 99] {
            progress.observe(&event(Stage::Write, State::Progress, Some(percent)));
            send(&mut progress);
        }
        progress.observe(&event(Stage::Write, State::Done, None));
        for message in ["Waiting for control plane: 0", "Waiting for bootkube", "Waiting for a bus"]
        {
            let event = event(Stage::Wait, State::Progress, None);
            progress.observe(&Event { message: Some(message.into()), ..event });
        }
        // Of a single node, whose disk is written after that.
        progress.observe(&event(Stage::Preflight, State::Done, None));
        progress.add(REBOOTING, "");
        send(&mut progress);
        let expected = [
            "Starting installation ",
            "Installing ",
            "Writing image to disk ",
            "Writing image to disk 5%",
            "Writing image to disk 35%",
            "Writing image to disk 95%",
            "Writing image to disk 100%",
            "Waiting for control plane 0",
            "Waiting for bootkube ",
            "Rebooting ",
        ];
        assert_eq!(reported, expected);
    }

    #[test]
    fn reports_that_cannot_be_sent_do_not_pile_up() {
        let mut progress = Progress::default();
        for percent in 0..=100 {
            progress.observe(&event(Stage::Write, State::Progress, Some(percent)));
        }
        let report = progress.next().unwrap();
        assert_eq!(report.info, "100%");
        progress.sent(&Report { info: "95%".into(), ..report.clone() });
        assert_eq!(progress.next(), Some(report.clone()));
        progress.sent(&report);
        assert_eq!(progress.next(), None);
    }
}
