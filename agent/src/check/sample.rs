//! `check --sample`: the changes between two readings of the machine.
//!
//! Most counters count since boot, so one reading cannot distinguish an old fault from a continuing one. A finding
//! that the first reading did not have, or whose figures differ, says so in its evidence. Some counters are findings only
//! if they rise.

use std::sync::Arc;

use probes::counters::{self, Counters, risen};
use probes::findings::Finding;
use probes::machine::Source;

use crate::report::Report;

/// The first reading.
#[derive(Debug)]
pub struct Earlier {
    report: Report,
    counters: Vec<Counters>,
}

impl Earlier {
    /// Remembers `report` and its parts' counters.
    pub fn new(source: &Arc<Source>, report: Report) -> Earlier {
        let counters = counters::read(source, &report.inventory);
        Earlier { report, counters }
    }

    /// The parts whose counters have risen since then, `seconds` ago.
    pub fn risen(&self, source: &Arc<Source>, seconds: u64) -> Vec<Finding> {
        risen(&self.counters, &counters::read(source, &self.report.inventory), seconds)
    }

    /// Marks the changes in `report`, and adds the parts whose counters have `risen`.
    pub fn compare(&self, report: &mut Report, risen: Vec<Finding>, seconds: u64) {
        let now = std::mem::take(&mut report.findings);
        let compared = compared(&self.report.findings, now, seconds);
        report.set_findings(compared.into_iter().chain(risen).collect());
    }
}

/// `after` with a note on each finding that is new or whose figures differ from those in `before`, which was read
/// `seconds` earlier.
fn compared(before: &[Finding], after: Vec<Finding>, seconds: u64) -> Vec<Finding> {
    let mut earlier: Vec<&Finding> = before.iter().collect();
    let compare = |mut finding: Finding| {
        let is_same = |old: &&Finding| old.code == finding.code && old.locator == finding.locator;
        // Each finding is compared once: several may have the same code and no part.
        let is_unchanged = |old: &&Finding| is_same(old) && old.evidence == finding.evidence;
        let at = earlier.iter().position(is_unchanged).or_else(|| earlier.iter().position(is_same));
        let old = at.map(|at| earlier.remove(at));
        let note = match old {
            Some(old) if old.evidence == finding.evidence => String::new(),
            Some(old) => format!("; {seconds} s before: {}", old.evidence),
            None => format!("; not found {seconds} s before"),
        };
        finding.evidence.push_str(&note);
        finding
    };
    after.into_iter().map(compare).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::tests::finding;

    fn errors(locator: Option<&str>, evidence: &str) -> Finding {
        let finding = finding("memory.ecc.correctable", "memory", locator);
        Finding { evidence: evidence.to_owned(), ..finding }
    }

    #[test]
    fn only_what_rose_or_appeared_is_marked() {
        let before = [
            errors(Some("A1"), "3 errors"),
            errors(Some("B1"), "1 error"),
            errors(None, "gone since"),
            errors(None, "7"),
        ];
        let after = vec![
            errors(Some("A1"), "9 errors"),
            errors(Some("B1"), "1 error"),
            errors(Some("C1"), "2 errors"),
            errors(None, "7"),
            errors(None, "8"),
            errors(None, "9"),
        ];
        let found = compared(&before, after, 30);
        let evidence: Vec<&str> = found.iter().map(|finding| finding.evidence.as_str()).collect();
        let expected = [
            "9 errors; 30 s before: 3 errors",
            "1 error",
            "2 errors; not found 30 s before",
            "7",
            "8; 30 s before: gone since",
            "9; not found 30 s before",
        ];
        assert_eq!(evidence, expected);
    }
}
