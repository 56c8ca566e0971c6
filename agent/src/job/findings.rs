//! The findings of the machine: those of the report, deviations from an order's expectations, and what was found since.

use std::cmp::Reverse;
use std::sync::Arc;

use compare::expectation::Expectations;
use compare::machine::Machine;
use probes::findings::row;
use serde_json::Value;
use tracing::error;

use super::load::{WaitingLoad, add};
use super::node::Collected;
use crate::act::readable::Unreadable;
use crate::api::Finding;
use crate::expect;
use crate::http::Client;

/// The facts from which the findings follow, for the thread that installs.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) collected: Collected,
    pub(super) expectations: Option<Arc<Expectations>>,
    pub(super) load: WaitingLoad,
    pub(super) client: Option<Arc<Client>>,
}

impl Known {
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

    /// Lists the faults of the machine and its deviations from the expectations, the worst first; `sampled` is the result
    /// of reading the chosen disk.
    pub(super) fn findings(&self, sampled: Option<&Unreadable>) -> Vec<Finding> {
        let mut findings = [self.collected.findings.as_slice(), &self.deviations()].concat();
        self.load.add_findings(&mut findings);
        add(&mut findings, sampled.map(|found| found.finding.clone()).into_iter().collect());
        findings.extend(self.client.as_ref().and_then(|client| client.clock_skew()));
        findings.sort_by_key(|finding| Reverse(finding.severity));
        findings
    }
}
