//! What the instruction expects of the machine, compared with the last report.

use std::cmp::Reverse;

use compare::expectation::Expectations;
use compare::machine::Machine;
use serde_json::{Map, Value};

use super::sequence::Job;
use crate::api::Finding;
use crate::expect;

impl Job<'_> {
    /// Compares the machine with what an instruction expects; an instruction without expectations has none.
    pub(super) fn expect(&mut self, expected: Option<&Map<String, Value>>) {
        // The parser of instructions has refused expectations that mean nothing.
        let expectations = expected.and_then(|keys| Expectations::parse_keys(keys).ok());
        self.deviations = expectations.map_or_else(Vec::new, |expectations| {
            let report = serde_json::from_slice(&self.collected.report).unwrap_or(Value::Null);
            expect::findings(&expectations, &Machine::of(&report))
        });
    }

    /// What is wrong with the machine, and how it deviates from what is expected; the worst first.
    pub(super) fn findings(&self) -> Vec<Finding> {
        let mut findings = [self.collected.findings.as_slice(), &self.deviations].concat();
        findings.sort_by_key(|finding| Reverse(finding.severity));
        findings
    }
}
