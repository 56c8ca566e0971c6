//! A file that is missing or unreadable costs its own facts and nothing else.

use nix::errno::Errno;
use probes::machine::{Archive, Node};

use crate::facts::{Facts, facts_of};
use crate::machines::own;
use crate::memory::alone;

/// Files with whole lists: they may cost many facts. The cache of one captured CPU stands for
/// those of the same kind, whose files are not read.
const SOURCES: &[&str] = &[
    "sys/firmware/dmi/tables/DMI",
    "sys/devices/system/cpu/online",
    "sys/devices/system/cpu/cpu",
    "kernel/rtnetlink/",
    "kernel/ipmi/",
    "proc/",
];

fn files(tree: &Archive) -> Vec<String> {
    let is_file = |node: &Node| matches!(node, Node::File(_));
    tree.nodes().filter(|(_, node)| is_file(node)).map(|(path, _)| path).collect()
}

#[test]
fn one_missing_or_unreadable_file_costs_only_its_own_facts_and_the_unreadable_one_is_named() {
    let _alone = alone();
    let tree = own("two-socket-server");
    let whole = facts_of(tree.clone());
    let mut wrong = Vec::new();
    for (i, path) in files(&tree).into_iter().enumerate() {
        let mut changed = tree.clone();
        changed.set(&path, Some(Node::Error(Errno::EACCES as i32)));
        let denied = facts_of(changed);
        let lost = whole.changed(&denied);
        wrong.extend(too_costly(&path, &lost, &whole));
        wrong.extend(vanished(&path, &denied, &whole));
        // Two more replays are slow, so not for every file.
        if i % 4 == 0 {
            wrong.extend(differing(&tree, &path, &denied));
        }
        if !lost.is_empty() && !names(&denied, &path) {
            wrong.push(format!("{path} is unreadable, but no problem reports it: {lost:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Checks that a file costs few facts, in few sections.
fn too_costly(path: &str, lost: &[&str], whole: &Facts) -> Option<String> {
    let is_source = SOURCES.iter().any(|source| path.starts_with(source));
    let mut sections: Vec<_> = lost.iter().map(|fact| fact.split('/').nth(1)).collect();
    sections.dedup();
    let is_much = lost.len() > whole.leaves.len() / 20 || sections.len() > 3;
    (is_much && !is_source).then(|| format!("{path} costs {lost:?}"))
}

/// Checks that an unreadable file costs as much as a missing one.
fn differing(tree: &Archive, path: &str, denied: &Facts) -> Option<String> {
    let mut changed = tree.clone();
    changed.remove(path);
    let removed = facts_of(changed);
    let facts = removed.changed(denied);
    // A denied read makes a disk ineligible; a question that an old capture never asked does not.
    let is_kept = path.starts_with("kernel/disk/") || path == "proc/swaps";
    let of_choice = |fact: &str| fact.ends_with("/eligible") || fact.starts_with("/findings");
    // The reason why a disk is not eligible is worded differently.
    let is_expected =
        |fact: &str| fact.contains("not_eligible_because") || is_kept && of_choice(fact);
    let fact = facts.iter().find(|fact| !is_expected(fact))?;
    Some(format!("{path} unreadable gives other facts than {path} missing: {fact}"))
}

/// Checks that no section disappears except the one that is the file.
fn vanished(path: &str, removed: &Facts, whole: &Facts) -> Option<String> {
    let is_own = |section: &str| path.ends_with("tables/DMI") && section == "smbios";
    let gone = whole.sections.iter().find(|s| !removed.sections.contains(s) && !is_own(s))?;
    Some(format!("{path} costs the section {gone}"))
}

/// Whether a problem reports that the file at `path` is not readable. The path of the problem may contain
/// links to its folder.
fn names(facts: &Facts, path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let ending = format!("/{name}: permission denied");
    facts.problems.iter().any(|problem| problem.ends_with(&ending))
}
