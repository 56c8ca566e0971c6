//! Part numbers with findings, across machines.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use formats::text::contains_word;
use serde_json::{Value, json};

use crate::cohort::Member;
use crate::kinds::Kind;
use crate::machine::{Machine, Part, is_identity};
use crate::{counted, line};

/// A locator has fewer words, and a part's name fewer still.
const LIMIT_WORDS: usize = 64;
const LIMIT_WORDS_OF_NAME: usize = 16;
/// A name shared by more parts of a machine than this identifies none of them.
const LIMIT_SHARED: usize = 64;

/// A part number that has findings.
#[derive(Debug)]
pub struct Failing {
    /// The kind of the parts.
    pub kind: &'static Kind,
    /// Part number or model.
    pub part_number: String,
    /// Number of such parts with a finding.
    pub n_failing: usize,
    /// Number of such parts.
    pub n_parts: usize,
    /// Number of machines with such a part that has a finding.
    pub n_machines: usize,
    /// The codes of the findings.
    pub codes: BTreeSet<String>,
}

/// Returns the part numbers with findings above info, the most machines first.
pub fn failing(members: &[Member]) -> Vec<Failing> {
    let mut found: BTreeMap<(&'static str, &str), Failing> = BTreeMap::new();
    for member in members {
        let mut codes = codes_by_part(member);
        let mut seen: BTreeSet<(&'static str, &str)> = BTreeSet::new();
        for (at, part) in member.machine.parts.iter().enumerate() {
            let Some(part_number) = part_number(part) else { continue };
            let key = (part.id.kind.name(), part_number);
            let entry = found.entry(key).or_insert_with(|| Failing {
                kind: part.kind,
                part_number: part_number.to_owned(),
                n_parts: 0,
                n_failing: 0,
                n_machines: 0,
                codes: BTreeSet::new(),
            });
            entry.n_parts += 1;
            if let Some(codes) = codes.remove(&at) {
                entry.n_failing += 1;
                entry.n_machines += usize::from(seen.insert(key));
                entry.codes.extend(codes.into_iter().map(str::to_owned));
            }
        }
    }
    let mut found: Vec<Failing> = found.into_values().filter(|one| one.n_failing > 0).collect();
    found.sort_by_key(|one| std::cmp::Reverse((one.n_machines, one.n_failing)));
    found
}

/// Returns the codes of findings above info by the position of the part in the machine.
fn codes_by_part(member: &Member) -> BTreeMap<usize, BTreeSet<&str>> {
    let mut codes_at: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for finding in member.findings.as_array().into_iter().flatten() {
        let text = |key| finding.get(key).and_then(Value::as_str);
        if text("severity") != Some("info") {
            let codes = codes_at.entry(text("locator").unwrap_or_default()).or_default();
            codes.extend(text("code"));
        }
    }
    let names = Names::of(&member.machine);
    let mut parts: BTreeMap<usize, BTreeSet<&str>> = BTreeMap::new();
    for (locator, codes) in codes_at {
        for at in names.blamed(locator) {
            parts.entry(at).or_default().extend(&codes);
        }
    }
    parts
}

fn part_number(part: &Part) -> Option<&str> {
    let names = ["part_number", "product_part_number", "board_part_number", "model", "id"];
    names.iter().find_map(|name| part.value(name).as_str())
}

/// A name that a locator may use for a part.
struct Name<'a> {
    /// True for the place, false for the serial number.
    is_place: bool,
    text: &'a str,
    /// The position of the part among those of the machine.
    at: usize,
}

/// A machine's parts by their names without punctuation.
///
/// Reports come from machines that may lie: each name is looked up, since comparing every locator with every part would
/// take minutes for a report with thousands of both.
struct Names<'a> {
    parts: &'a [Part],
    by_words: HashMap<&'a str, Vec<Name<'a>>>,
}

impl<'a> Names<'a> {
    fn of(machine: &'a Machine) -> Self {
        let mut by_words: HashMap<&str, Vec<Name>> = HashMap::new();
        for (at, part) in machine.parts.iter().enumerate() {
            let serial = part.value("serial").as_str().filter(|serial| is_identity(serial));
            for (is_place, text) in [(false, serial), (true, Some(part.id.key.as_str()))] {
                // With letters and digits at both ends, a name is a phrase of any text that contains it.
                let words = text.map(|name| name.trim_matches(|c: char| !c.is_alphanumeric()));
                let words = words.filter(|words| !words.is_empty());
                if let (Some(words), Some(text)) = (words, text) {
                    by_words.entry(words).or_default().push(Name { is_place, text, at });
                }
            }
        }
        Self { parts: &machine.parts, by_words }
    }

    /// Returns the parts that a finding's locator names: by serial number, otherwise by place. Several kinds may list
    /// one part, such as a disk that is also a PCI device, so only the first kind counts.
    fn blamed(&self, locator: &str) -> Vec<usize> {
        let known = phrases(locator).into_iter().filter_map(|phrase| self.by_words.get(phrase));
        let names = known.filter(|names| names.len() <= LIMIT_SHARED).flatten();
        let meant = names.filter(|name| contains_word(locator, name.text));
        let found: BTreeSet<(bool, usize)> = meant.map(|name| (name.is_place, name.at)).collect();
        let group = |(is_place, at): &(bool, usize)| {
            (*is_place, self.parts.get(*at).map(|part| part.id.kind))
        };
        let first = found.first().map(group);
        found.iter().filter(|one| Some(group(one)) == first).map(|(_, at)| *at).collect()
    }
}

/// Returns the first words of a text, each alone and with several that follow it.
fn phrases(text: &str) -> Vec<&str> {
    let words = words(text);
    let mut phrases = Vec::new();
    for (at, first) in words.iter().enumerate() {
        let last = words.iter().skip(at).take(LIMIT_WORDS_OF_NAME);
        phrases.extend(last.filter_map(|last| text.get(first.start..last.end)));
    }
    phrases
}

fn words(text: &str) -> Vec<Range<usize>> {
    let mut words: Vec<Range<usize>> = Vec::new();
    for (at, c) in text.char_indices().filter(|(_, c)| c.is_alphanumeric()) {
        let end = at + c.len_utf8();
        if let Some(word) = words.last_mut().filter(|word| word.end == at) {
            word.end = end;
        } else if words.len() == LIMIT_WORDS {
            break;
        } else {
            words.push(at..end);
        }
    }
    words
}

impl Failing {
    /// The part number and its findings, in a line.
    pub fn text(&self) -> String {
        let codes = self.codes.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        line(&format!(
            "  {} {}: {} of {}, on {}: {codes}",
            self.kind.title(),
            self.part_number,
            self.n_failing,
            counted(self.n_parts, "part"),
            counted(self.n_machines, "machine")
        ))
    }

    /// The part number and its findings for programs.
    pub fn json(&self) -> Value {
        json!({
            "kind": self.kind.name(),
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
    fn part_is_found_by_a_name_of_several_words_at_any_place_of_the_locator() {
        let dimm = |locator: &str| json!({"locator": locator, "part_number": locator});
        let dimms = json!([dimm("P1-DIMM A1 (top)"), dimm("(top)"), dimm("A1"), dimm("CPU1")]);
        let blamed = |locator: &str| {
            let findings = json!([{"code": "c", "severity": "warning", "locator": locator}]);
            let report = json!({"memory": {"n_slots": 4, "dimms": dimms}, "findings": findings});
            let found = failing(&[Member::of("node".to_owned(), &report)]);
            found.into_iter().map(|one| one.part_number).collect::<Vec<_>>()
        };
        assert_eq!(blamed("node 0: CPU1."), ["CPU1"]);
        assert_eq!(blamed("in P1-DIMM A1 (top) of socket 0"), ["(top)", "A1", "P1-DIMM A1 (top)"]);
        assert_eq!(blamed("top"), [""; 0]);
        assert_eq!(blamed("CPU11 xA1 top)"), [""; 0]);
    }

    #[test]
    fn name_that_very_many_parts_share_blames_none_of_them() {
        let dimms = |n: usize| vec![json!({"locator": "A1", "part_number": "M393A4K40"}); n];
        let finding = json!([{"code": "c", "severity": "warning", "locator": "DIMM A1"}]);
        let n_failing = |n: usize| {
            let report = json!({"memory": {"n_slots": n, "dimms": dimms(n)}, "findings": finding});
            let found = failing(&[Member::of("node".to_owned(), &report)]);
            found.first().map_or(0, |one| one.n_failing)
        };
        assert_eq!(
            [n_failing(2), n_failing(LIMIT_SHARED), n_failing(LIMIT_SHARED + 1)],
            [2, 64, 0]
        );
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
