//! Which part numbers have findings, across machines.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::cohort::Member;
use crate::kinds::Kind;
use crate::machine::{Machine, Part, is_identity};
use crate::{counted, line};

/// A part number that has findings.
#[derive(Debug)]
pub struct Failing {
    /// The kind of the parts.
    pub kind: &'static Kind,
    /// Part number or model.
    pub part_number: String,
    /// How many such parts have a finding.
    pub n_failing: usize,
    /// How many such parts there are.
    pub n_parts: usize,
    /// How many machines have one with a finding.
    pub n_machines: usize,
    /// The codes of the findings.
    pub codes: BTreeSet<String>,
}

/// The part numbers that have findings of a severity above info, the most machines first.
#[must_use]
pub fn failing(members: &[Member]) -> Vec<Failing> {
    let mut found: BTreeMap<(&'static str, String), Failing> = BTreeMap::new();
    for member in members {
        let mut parts: BTreeMap<(&'static str, usize), (&Part, BTreeSet<String>)> = BTreeMap::new();
        for finding in member.findings.as_array().into_iter().flatten() {
            let text = |key| finding.get(key).and_then(Value::as_str);
            if text("severity") == Some("info") {
                continue;
            }
            for part in blamed(&member.machine, text("locator").unwrap_or_default()) {
                let entry = parts.entry((part.kind.name, part.index));
                let (_, codes) = entry.or_insert_with(|| (part, BTreeSet::new()));
                codes.extend(text("code").map(str::to_owned));
            }
        }
        let mut seen: BTreeSet<String> = BTreeSet::new();
        for (part, codes) in parts.into_values() {
            let Some(part_number) = part_number(part) else { continue };
            let is_first = seen.insert([part.kind.name, " ", &part_number].concat());
            let key = (part.kind.name, part_number.clone());
            let entry = found.entry(key).or_insert_with(|| Failing {
                kind: part.kind,
                n_parts: n_parts(members, part.kind, &part_number),
                part_number,
                n_failing: 0,
                n_machines: 0,
                codes: BTreeSet::new(),
            });
            entry.n_failing += 1;
            entry.n_machines += usize::from(is_first);
            entry.codes.extend(codes);
        }
    }
    let mut found: Vec<Failing> = found.into_values().collect();
    found.sort_by_key(|one| std::cmp::Reverse((one.n_machines, one.n_failing)));
    found
}

fn part_number(part: &Part) -> Option<String> {
    let names = ["part_number", "product_part_number", "board_part_number", "model", "id"];
    let known = names.iter().filter_map(|name| part.value(name).as_str());
    known.map(str::to_owned).next()
}

/// How many parts of this part number the machines have.
fn n_parts(members: &[Member], kind: &'static Kind, number: &str) -> usize {
    let parts = members.iter().flat_map(|member| member.machine.of_kind(kind));
    parts.filter(|part| part_number(part).as_deref() == Some(number)).count()
}

/// The parts that a finding's locator names: by serial number, otherwise by place. Several kinds may list one part, such
/// as a disk and the PCI device that it is, so only the first kind counts.
fn blamed<'a>(machine: &'a Machine, locator: &str) -> Vec<&'a Part> {
    let is_named = |name: &str| !name.is_empty() && contains_word(locator, name);
    let is_serial = |serial: &str| is_identity(serial) && is_named(serial);
    let serial = |part: &&Part| part.value("serial").as_str().is_some_and(is_serial);
    let place = |part: &&Part| part.place.split(", ").next().is_some_and(is_named);
    let mut parts: Vec<&Part> = machine.parts.iter().filter(serial).collect();
    if parts.is_empty() {
        parts = machine.parts.iter().filter(place).collect();
    }
    let first = parts.first().map(|part| part.kind.name);
    parts.retain(|part| Some(part.kind.name) == first);
    parts
}

/// Whether `word` is in `text` with no letter or digit next to it.
fn contains_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let before = text.get(..at).and_then(|text| text.chars().next_back());
        let after = text.get(at + word.len()..).and_then(|text| text.chars().next());
        ![before, after].into_iter().flatten().any(char::is_alphanumeric)
    })
}

impl Failing {
    /// The part number and its findings, in a line.
    #[must_use]
    pub fn text(&self) -> String {
        let codes = self.codes.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        line(&format!(
            "  {} {}: {} of {}, on {}: {codes}",
            self.kind.title,
            self.part_number,
            self.n_failing,
            counted(self.n_parts, "part"),
            counted(self.n_machines, "machine")
        ))
    }

    /// The part number and its findings for programs.
    #[must_use]
    pub fn json(&self) -> Value {
        json!({
            "kind": self.kind.name,
            "part_number": self.part_number,
            "n_failing": self.n_failing,
            "n_parts": self.n_parts,
            "n_machines": self.n_machines,
            "codes": self.codes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(findings: [Value; 3]) -> Vec<Member> {
        let dimm = |n: usize, locator: &str| json!({"locator": locator, "part_number": "M393A4K40", "serial": format!("{n}{locator}")});
        let member = |(n, findings): (usize, Value)| {
            let dimms = json!([dimm(n, "A1"), dimm(n, "A2")]);
            let report = json!({"memory": {"n_slots": 2, "dimms": dimms}, "findings": findings});
            Member::of(format!("node{n}"), &report)
        };
        findings.into_iter().enumerate().map(member).collect()
    }

    #[test]
    fn placeholder_of_a_serial_number_blames_no_part() {
        let drive = |slot: u64, serial: &str| json!({"slot": slot, "serial": serial, "model": "ST4000", "size_bytes": 1});
        let drives = json!([drive(5, "0"), drive(0, "WFK1")]);
        let report = json!({
            "block": {"raid_controllers": [{"drives": drives}]},
            "findings": [{"code": "raid.drive", "severity": "warning", "locator": "slot 0 (serial WFK1)"}],
        });
        let found = failing(&[Member::of("node".to_owned(), &report)]);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].n_failing, found[0].n_parts), (1, 2));
        assert_eq!(found[0].json()["kind"], "raid_drive");
    }

    #[test]
    fn part_number_with_findings_is_counted_across_machines() {
        let finding = |locator: &str, severity: &str| json!({"code": "memory.ecc.correctable", "severity": severity, "locator": locator});
        let members = members([
            json!([finding("DIMM A1", "warning"), finding("DIMM A11", "warning")]),
            json!([finding("A2", "critical"), finding("A1", "info")]),
            json!([]),
        ]);
        let found = failing(&members);
        assert_eq!(found.len(), 1);
        assert_eq!(
            found[0].text(),
            "  DIMM M393A4K40: 2 of 6 parts, on 2 machines: memory.ecc.correctable\n"
        );
    }
}
