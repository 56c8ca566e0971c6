//! The facts of a machine in the forms of other programs: [`mod@ironic`], [`metal3`], [`assisted`].
//!
//! Every function takes an [`Inventory`](probes::collect::Inventory) and returns a JSON value; nothing here reads or
//! writes anything. An unknown value is absent, in every form: the consumers accept that, with the exceptions that
//! their modules name. `docs/exports.md` lists each key with its source in the report.

pub mod assisted;
pub mod ironic;
pub mod metal3;

mod object;
mod ports;
mod select;

use serde_json::Value;

use crate::act::Order;
use crate::act::{Wanted, decide};
use crate::report::Report;
pub(crate) use object::known;

/// The report as Ironic's inspection data.
///
/// `root_disk` is the disk that an install without hints would use, absent if that is not clear. `error`, which makes
/// Ironic fail the inspection, is present only if a collector failed whose facts Ironic would otherwise misunderstand:
/// without disks it concludes that the machine has none.
pub fn ironic(report: &Report) -> Value {
    let nothing_asked = Order::default();
    let disks = report.inventory.block.as_ref().map(|block| block.disks.as_slice());
    let decision = disks.and_then(|disks| {
        // Nothing is asked for by path, so no path is resolved.
        let wanted = Wanted { order: &nothing_asked, protect: &[], min_bytes: None };
        decide(disks, &wanted, &|_| None).ok()
    });
    let root_disk = decision.map(|decision| decision.disk);
    ironic::document(&report.inventory, root_disk, missing(report).as_deref())
}

/// Which sections are missing that an inspection must have, in the words of `ironic-python-agent`.
fn missing(report: &Report) -> Option<String> {
    let facts = &report.inventory;
    let needed = [
        ("cpu", facts.cpu.is_none()),
        ("memory", facts.memory.is_none()),
        ("block", facts.block.is_none()),
        ("network", facts.network.is_none()),
    ];
    let lines = needed.iter().filter(|(_, is_missing)| *is_missing).map(|(section, _)| {
        let problem = report.problems.iter().find(|problem| problem.collector == *section);
        let why = problem.map_or("it was not read", |problem| problem.found.as_str());
        format!("\n* the section {section} is missing: {why}")
    });
    let lines: String = lines.collect();
    (!lines.is_empty()).then(|| format!("The following errors were encountered:{lines}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::tests::report_with;
    use serde_json::json;

    #[test]
    fn lost_section_fails_the_inspection_and_names_itself() {
        let whole = json!({"cpu": {}, "memory": {}, "block": {}, "network": {}});
        let inventory = serde_json::from_value(whole).unwrap();
        let mut report = Report { inventory, ..report_with(Vec::new()) };
        assert_eq!(ironic(&report).get("error"), None);
        report.inventory.block = None;
        let error = ironic(&report)["error"].to_string();
        assert!(error.contains("block") && !error.contains("network"), "{error}");
    }
}
