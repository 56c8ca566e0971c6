//! How many of the findings of captured machines are true, by the judgements in `judged.txt`, which explains its columns.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use formats::part::Detail;
use probes::findings::{Finding, row};

use crate::{findings_of, machines};

/// The least share of true findings among those judged, in percent.
const MIN_PRECISION_PERCENT: usize = 90;

const LIST: &str = include_str!("judged.txt");

/// What a finding is about: code, machine, subject.
type Key = (String, String, String);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    True,
    False,
    /// The capture does not show whether it is true.
    Unclear,
}

/// The lines of the list.
fn judged() -> BTreeMap<Key, Verdict> {
    let lines: Vec<&str> = LIST.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(lines.is_sorted(), "judged.txt is not sorted");
    let mut judged = BTreeMap::new();
    for line in lines {
        let columns: Vec<&str> = line.split(" | ").collect();
        let [code, machine, subject, verdict, why] = columns[..] else {
            panic!("judged.txt has a line that does not have five columns: {line}");
        };
        let verdict = match verdict {
            "true" => Verdict::True,
            "false" => Verdict::False,
            "unclear" => Verdict::Unclear,
            other => {
                panic!("judged.txt has the verdict {other:?}, expected true, false or unclear")
            }
        };
        assert!(row(code).is_some(), "judged.txt has the unknown code {code}");
        assert!(why.len() > 10, "judged.txt does not say why: {line}");
        let has_serial = subject.split("serial ").skip(1).any(|rest| !rest.starts_with('*'));
        assert!(!has_serial, "judged.txt has a serial number");
        let key = (code.to_owned(), machine.to_owned(), subject.to_owned());
        assert!(judged.insert(key, verdict).is_none(), "judged.txt judges a finding twice: {line}");
    }
    judged
}

/// The part that a finding names, without its serial number, or what it observed if it names none.
fn subject(finding: &Finding) -> String {
    let Some(mut part) = finding.locator.clone() else { return finding.evidence.clone() };
    for detail in &mut part.details {
        if let Detail::Serial(serial) = detail {
            "*".clone_into(serial);
        }
    }
    part.into()
}

/// What became of the findings of one code.
#[derive(Default)]
struct Count {
    found: usize,
    right: usize,
    wrong: usize,
    unclear: usize,
}

impl Count {
    fn add(&mut self, verdict: Option<Verdict>) {
        self.found += 1;
        match verdict {
            Some(Verdict::True) => self.right += 1,
            Some(Verdict::False) => self.wrong += 1,
            Some(Verdict::Unclear) => self.unclear += 1,
            None => {}
        }
    }

    /// A row of the table.
    fn row(&self, name: &str) -> String {
        let Count { found, right, wrong, unclear } = self;
        let judged = right + wrong;
        let precision = match judged {
            0 => "-".to_owned(),
            _ => format!("{}.{} %", 100 * right / judged, 1000 * right / judged % 10),
        };
        let unjudged = found - judged - unclear;
        format!(
            "{name:<30} {found:>8} {right:>6} {wrong:>6} {unclear:>8} {unjudged:>10} {precision:>10}\n"
        )
    }
}

#[test]
fn each_finding_of_the_captured_machines_is_judged() {
    let (judged, machines) = (judged(), machines::all());
    let mut counts: BTreeMap<String, Count> = BTreeMap::new();
    let (mut found, mut unjudged) = (BTreeSet::new(), Vec::new());
    for machine in &machines {
        for finding in findings_of(machine.tree()).1 {
            let key = (finding.code.as_str().to_owned(), machine.name.clone(), subject(&finding));
            let verdict = judged.get(&key).copied();
            counts.entry(key.0.clone()).or_default().add(verdict);
            if verdict.is_none() {
                unjudged.push((machine.is_own, key.clone()));
            }
            found.insert(key);
        }
    }
    let own: BTreeMap<&str, bool> = machines.iter().map(|m| (m.name.as_str(), m.is_own)).collect();
    let gone = judged.keys().filter(|key| !found.contains(*key));
    let (stale, absent): (Vec<&Key>, Vec<&Key>) =
        gone.partition(|key| own.contains_key(key.1.as_str()));
    let mut text = format!(
        "{:<30} {:>8} {:>6} {:>6} {:>8} {:>10} {:>10}\n",
        "code", "findings", "true", "false", "unclear", "not judged", "precision"
    );
    let mut sum = Count::default();
    for (code, count) in &counts {
        text += &count.row(code);
        sum.found += count.found;
        sum.right += count.right;
        sum.wrong += count.wrong;
        sum.unclear += count.unclear;
    }
    text += &sum.row(&format!("all, on {} machines", machines.len()));
    for (_, (code, machine, subject)) in &unjudged {
        writeln!(text, "not in judged.txt: {code} | {machine} | {subject}").unwrap();
    }
    for (code, machine, subject) in &stale {
        writeln!(text, "judged, but no longer found: {code} | {machine} | {subject}").unwrap();
    }
    if !absent.is_empty() {
        writeln!(text, "{} lines of judged.txt are of machines that are not read", absent.len())
            .unwrap();
    }
    // One write, so that the table of the other test cannot come in between.
    print!("{text}");
    let is_complete = unjudged.iter().all(|(is_own, _)| !is_own)
        && stale.iter().all(|key| own.get(key.1.as_str()) != Some(&true));
    assert!(is_complete, "judged.txt must have each finding of fixtures/, and no other");
    let (right, n_judged) = (sum.right, sum.right + sum.wrong);
    assert!(
        right > 0 && 100 * right >= MIN_PRECISION_PERCENT * n_judged,
        "precision is below {MIN_PRECISION_PERCENT} %"
    );
}
