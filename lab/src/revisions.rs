//! Numbers that rise after each change, so that earlier reads can be recognised.

use std::collections::BTreeMap;

/// The numbers.
#[derive(Debug, Default)]
pub(crate) struct Revisions {
    all: u64,
    /// Reports and their supplements, by node.
    reports: BTreeMap<String, u64>,
    /// The last change in any report.
    last_report: u64,
}

impl Revisions {
    /// Rises after every change.
    pub(crate) fn all(&self) -> u64 {
        self.all
    }

    /// Rises after each change in any report.
    pub(crate) fn last_report(&self) -> u64 {
        self.last_report
    }

    /// Rises after each change in this node's report.
    pub(crate) fn of_report(&self, node: &str) -> u64 {
        self.reports.get(node).copied().unwrap_or_default()
    }

    /// Something changed, but no report.
    pub(crate) fn changed(&mut self) {
        self.all += 1;
    }

    /// This node's report changed.
    pub(crate) fn report_changed(&mut self, node: &str) {
        self.changed();
        self.last_report = self.all;
        self.reports.insert(node.to_owned(), self.all);
    }

    /// Several nodes' reports changed.
    pub(crate) fn reports_changed(&mut self) {
        self.changed();
        self.last_report = self.all;
        self.reports.values_mut().for_each(|revision| *revision = self.last_report);
    }
}
