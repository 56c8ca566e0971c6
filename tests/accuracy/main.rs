//! How many faults the agent names, and how many of its findings are true: `make accuracy`.
//!
//! Each fault of `faults.yaml` is injected into one part of each captured machine that has such a part: those of `fixtures/`, and
//! foreign ones next to the repository. A fault is found if its finding is new, and named if the finding's locator contains the part.
//! `RCI_NOISE_TREE` picks one machine by name.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]
#![expect(clippy::print_stdout, reason = "the table is what the test is for")]

mod faults;
#[expect(dead_code, reason = "the noise test needs more of a machine")]
#[path = "../noise/machines.rs"]
mod machines;
mod parts;
mod precision;
#[path = "../main/trees.rs"]
mod trees;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use faults::{Fault, NOT_INJECTED, all};
use probes::collect::{Options, collect};
use probes::findings::{Finding, findings, rows};
use probes::machine::{Archive, Source};

use crate::parts::Machine;

/// The least share of named faults, in percent: what today's checks reach, so that a check that goes blind is noticed.
const MIN_RECALL_PERCENT: usize = 95;

/// What became of the faults of one kind.
#[derive(Default)]
struct Count {
    injected: usize,
    found: usize,
    named: usize,
    /// The machines and parts that were not named.
    missed: Vec<String>,
}

/// The findings of a machine.
fn findings_of(tree: Archive) -> (probes::collect::Inventory, Vec<Finding>) {
    let inventory = collect(&Arc::new(Source::unpacked(tree)), &Options::default()).inventory;
    let found = findings(&inventory);
    (inventory, found)
}

/// Injects each fault into the machine and counts what is found.
fn inject(name: &str, tree: Archive, faults: &[Fault], counts: &mut BTreeMap<String, Count>) {
    let (inventory, before) = findings_of(tree.clone());
    let machine = Machine { tree, inventory };
    for fault in faults {
        let Some((changed, part)) = fault.inject(&machine) else { continue };
        // A part that is broken already is no test.
        let names = |finding: &Finding| {
            finding.code.as_str() == fault.code && finding.part().contains(&part)
        };
        if before.iter().any(names) {
            continue;
        }
        let (_, after) = findings_of(changed);
        let new: Vec<&Finding> = after.iter().filter(|finding| !before.contains(finding)).collect();
        let count = counts.entry(fault.kind.clone()).or_default();
        count.injected += 1;
        count.found += usize::from(new.iter().any(|finding| finding.code.as_str() == fault.code));
        if new.iter().any(|finding| names(finding)) {
            count.named += 1;
        } else {
            count.missed.push(format!("{name} {part}"));
        }
    }
}

#[test]
fn every_code_has_a_kind_of_fault_or_a_reason_why_it_has_none() {
    let faults = all();
    let injected: BTreeSet<&str> = faults.iter().map(|fault| fault.code.as_str()).collect();
    let excused: BTreeSet<&str> = NOT_INJECTED.iter().map(|(code, _)| *code).collect();
    assert!(injected.is_disjoint(&excused), "a code is injected and excused");
    let known: BTreeSet<&str> = rows().map(|row| row.code).collect();
    let named: BTreeSet<&str> = injected.union(&excused).copied().collect();
    let differing: Vec<&&str> = known.symmetric_difference(&named).collect();
    assert!(differing.is_empty(), "neither injected nor excused, or unknown: {differing:?}");
}

#[test]
fn injected_faults_are_named_with_the_right_part() {
    let (faults, machines) = (all(), machines::all());
    let kinds: BTreeSet<&str> = faults.iter().map(|fault| fault.kind.as_str()).collect();
    assert!(kinds.len() == faults.len() && kinds.len() >= 60, "{} kinds", kinds.len());
    let mut counts = BTreeMap::new();
    for machine in &machines {
        inject(&machine.name, machine.tree(), &faults, &mut counts);
    }
    // With `RCI_NOISE_TREE` it is one machine.
    let is_varied = machines.len() < 4 || counts.len() >= 85;
    assert!(is_varied, "only {} kinds of fault can be injected", counts.len());
    println!(
        "{:<55} {:>8} {:>6} {:>6} {:>7}",
        "kind of fault", "injected", "found", "named", "recall"
    );
    for fault in &faults {
        let Some(count) = counts.get(&fault.kind) else {
            println!("{:<55} {:>8}", fault.kind, 0);
            continue;
        };
        let recall = 100 * count.named / count.injected;
        let Count { injected, found, named, .. } = count;
        println!("{:<55} {injected:>8} {found:>6} {named:>6} {recall:>5} %", fault.kind);
        for missed in count.missed.iter().take(3) {
            println!("    not named: {missed}");
        }
    }
    for (code, why) in NOT_INJECTED {
        println!("{code}: not injected: {why}");
    }
    let sum = |of: fn(&Count) -> usize| counts.values().map(of).sum::<usize>();
    let (injected, found, named) = (sum(|c| c.injected), sum(|c| c.found), sum(|c| c.named));
    println!(
        "{injected} faults of {} kinds on {} machines: {found} found, {named} named with the right part; recall {}.{} %",
        counts.len(),
        machines.len(),
        100 * named / injected,
        1000 * named / injected % 10,
    );
    assert!(100 * named >= MIN_RECALL_PERCENT * injected, "recall is below {MIN_RECALL_PERCENT} %");
}
