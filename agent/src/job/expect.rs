//! Compares the instruction's expectations of the machine with the last report.

use std::cmp::Reverse;

use compare::expectation::Expectations;
use compare::machine::Machine;
use probes::findings::row;
use serde_json::{Map, Value};
use tracing::error;

use super::load::add;
use super::sequence::Job;
use crate::act::readable::Unreadable;
use crate::api::Finding;
use crate::expect;

impl Job<'_> {
    /// Remembers an instruction's expectations of the machine.
    pub(super) fn expect(&mut self, expected: Option<&Map<String, Value>>) {
        // The parser of instructions has refused expectations that mean nothing.
        self.expectations = expected.and_then(|keys| Expectations::parse_keys(keys).ok());
    }

    /// Lists the deviations of the machine, as it is now, from the expectations.
    fn deviations(&self) -> Vec<Finding> {
        let Some(expectations) = &self.expectations else { return Vec::new() };
        match serde_json::from_slice::<Value>(&self.collected.report) {
            Ok(report) => expect::findings(expectations, &Machine::of(&report)),
            // Nothing is known to be as expected then.
            Err(why) => {
                error!("comparing the report with what is expected: {why}");
                let unknown = row("expectation.unknown");
                let evidence = format!("the report cannot be compared: {why}");
                unknown.map(|row| row.finding(None, evidence)).into_iter().collect()
            }
        }
    }

    /// Lists the faults of the machine and its deviations from the expectations; the worst first.
    pub(super) fn findings(&self) -> Vec<Finding> {
        self.findings_with(self.sampled.as_ref())
    }

    /// The same with the result of reading the chosen disk.
    pub(super) fn findings_with(&self, sampled: Option<&Unreadable>) -> Vec<Finding> {
        let mut findings = [self.collected.findings.as_slice(), &self.deviations()].concat();
        self.settings.load.add_findings(&mut findings);
        add(&mut findings, sampled.map(|found| found.finding.clone()).into_iter().collect());
        findings.extend(self.client.clock_skew());
        findings.sort_by_key(|finding| Reverse(finding.severity));
        findings
    }
}
