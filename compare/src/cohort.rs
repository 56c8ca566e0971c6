//! Finds the norm for the machines of a model, and the machines that depart from it.
//!
//! Machines are alike if maker and model are equal. For each place the majority is the norm: the presence of a part,
//! and each of its values. Without a majority there is no norm.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::kinds::{Attribute, Kind, Nature, kinds};
use crate::machine::{Machine, Part};
use crate::{counted, line};

/// The least number of like machines for a norm: if two differ, either may be right.
pub const LEAST: usize = 3;

/// One report.
#[derive(Debug)]
pub struct Member {
    /// The report's name for people, such as its file.
    pub name: String,
    /// The machine.
    pub machine: Machine,
    /// The report's list of findings.
    pub findings: Value,
}

impl Member {
    /// The reported machine.
    pub fn of(name: String, report: &Value) -> Member {
        let findings = report.get("findings").cloned().unwrap_or_default();
        Member { name, machine: Machine::of(report), findings }
    }
}

/// The machines of one model.
#[derive(Debug)]
pub struct Model<'a> {
    /// Maker and model; `None` for machines without one of these, which are not compared.
    pub title: Option<String>,
    /// Number of machines.
    pub n_machines: usize,
    /// The departures from the norm, each with its machine and part.
    pub departures: Vec<Departure<'a>>,
    /// Places without a norm.
    pub varied: Vec<Varied>,
    /// The machines whose reports lack kinds of parts that most reports have, with these kinds.
    pub not_compared: BTreeMap<String, Vec<&'static str>>,
}

/// The departure of one machine from the norm.
#[derive(Debug)]
pub struct Departure<'a> {
    /// The machine.
    pub member: &'a Member,
    /// The part's kind and place.
    pub part: String,
    /// The value found; null for a part that is missing or a value that is not known.
    pub found: Value,
    /// The norm from which it departs.
    pub norm: Norm,
}

/// The value that most machines have in a place.
#[derive(Debug, Clone)]
pub struct Norm {
    /// The part's kind.
    pub kind: &'static Kind,
    /// The attribute; `None` for the part itself.
    pub attribute: Option<&'static Attribute>,
    /// The attribute's value, or a description of the part; null for no part.
    pub value: Value,
    /// Number of machines with the norm.
    pub n: usize,
    /// Number of machines compared.
    pub n_compared: usize,
}

/// A value without a norm.
#[derive(Debug)]
pub struct Varied {
    /// The part's kind and place, and the attribute.
    pub what: String,
    /// Each value with its number of machines, the most frequent first.
    pub values: Vec<(String, usize)>,
}

/// Returns the models, the most departures first. Models with fewer than [`LEAST`] machines have none.
pub fn models(members: &[Member]) -> Vec<Model<'_>> {
    let mut by_title: BTreeMap<Option<String>, Vec<&Member>> = BTreeMap::new();
    for member in members {
        by_title.entry(title(&member.machine)).or_default().push(member);
    }
    let mut models: Vec<Model<'_>> =
        by_title.into_iter().map(|(title, members)| model(title, &members)).collect();
    models.sort_by_key(|model| std::cmp::Reverse(model.departures.len()));
    models
}

fn title(machine: &Machine) -> Option<String> {
    Some([machine.vendor.as_deref()?, machine.model.as_deref()?].join(" "))
}

fn model<'a>(title: Option<String>, members: &[&'a Member]) -> Model<'a> {
    let mut model = Model {
        title,
        n_machines: members.len(),
        departures: Vec::new(),
        varied: Vec::new(),
        not_compared: BTreeMap::new(),
    };
    if !model.has_norm() {
        return model;
    }
    for kind in kinds() {
        let known: Vec<&Member> =
            members.iter().copied().filter(|m| m.machine.knows(kind)).collect();
        for unknown in
            members.iter().filter(|m| known.len() * 2 > members.len() && !m.machine.knows(kind))
        {
            model.not_compared.entry(unknown.name.clone()).or_default().push(kind.name());
        }
        if known.len() < LEAST {
            continue;
        }
        let by_slot: Vec<BTreeMap<String, &Part>> =
            known.iter().map(|member| by_slot(&member.machine, kind)).collect();
        let slots: BTreeSet<&String> = by_slot.iter().flat_map(BTreeMap::keys).collect();
        for slot in slots {
            let parts = by_slot.iter().map(|parts| parts.get(slot).copied());
            let column: Vec<_> = known.iter().copied().zip(parts).collect();
            model.compare(kind, &column);
        }
    }
    // The machine with most departures first: it is the one to look at.
    let mut n_departures: BTreeMap<String, usize> = BTreeMap::new();
    for departure in &model.departures {
        *n_departures.entry(departure.member.name.clone()).or_default() += 1;
    }
    model.departures.sort_by_cached_key(|departure| {
        let name = &departure.member.name;
        (std::cmp::Reverse(n_departures.get(name).copied()), name.clone())
    });
    model
}

/// Arranges the parts by the best known slot of each.
fn by_slot<'a>(machine: &'a Machine, kind: &'static Kind) -> BTreeMap<String, &'a Part> {
    let mut parts: BTreeMap<String, &Part> = BTreeMap::new();
    let mut n_of_slot: BTreeMap<String, usize> = BTreeMap::new();
    for part in machine.of_kind(kind).filter(|part| !machine.is_listed_twice(part)) {
        let known = part.slots.iter().enumerate().find_map(|(at, slot)| Some((at, slot.as_ref()?)));
        let slot = known.map(|(at, slot)| format!("{at} {slot}")).unwrap_or_default();
        let n = n_of_slot.entry(slot.clone()).or_default();
        *n += 1;
        parts.insert(format!("{slot} {n}"), part);
    }
    parts
}

/// Returns the most frequent state of these parts, and its count.
fn most_frequent(parts: &[(&Member, &Part)]) -> (String, usize) {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (_, part) in parts {
        *counts.entry(part.words(false)).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(_, n)| *n).unwrap_or_default()
}

impl<'a> Model<'a> {
    /// Compares the parts in one place.
    fn compare(&mut self, kind: &'static Kind, column: &[(&'a Member, Option<&Part>)]) {
        let present: Vec<(&'a Member, &Part)> =
            column.iter().filter_map(|(member, part)| Some((*member, (*part)?))).collect();
        let Some((_, example)) = present.first() else { return };
        let (n_with, n_all) = (present.len(), column.len());
        let name = example.name();
        let norm = |value, n| Norm { kind, attribute: None, value, n, n_compared: n_all };
        match (n_with * 2).cmp(&n_all) {
            Ordering::Equal => {
                let values = vec![("fitted".to_owned(), n_with), ("not fitted".to_owned(), n_with)];
                self.varied.push(Varied { what: name, values });
            }
            Ordering::Greater => {
                let (value, n) = most_frequent(&present);
                let norm = norm(value.into(), n);
                for (member, _) in column.iter().filter(|(_, part)| part.is_none()) {
                    self.depart(member, name.clone(), Value::Null, &norm);
                }
            }
            Ordering::Less => {
                let norm = norm(Value::Null, n_all - n_with);
                for (member, part) in &present {
                    self.depart(member, part.name(), part.summary().into(), &norm);
                }
                return;
            }
        }
        if n_with >= LEAST {
            self.compare_values(kind, &present);
        }
    }

    fn depart(&mut self, member: &'a Member, part: String, found: Value, norm: &Norm) {
        self.departures.push(Departure { member, part, found, norm: norm.clone() });
    }

    fn compare_values(&mut self, kind: &'static Kind, present: &[(&'a Member, &Part)]) {
        let shared = |a: &&Attribute| matches!(a.nature, Nature::Required | Nature::Model);
        for attribute in kind.attributes.iter().filter(shared) {
            let mut counts: Vec<(&Value, usize)> = Vec::new();
            for (_, part) in present {
                let value = part.value(attribute.name);
                match counts.iter_mut().find(|(other, _)| *other == value) {
                    Some((_, n)) => *n += 1,
                    None => counts.push((value, 1)),
                }
            }
            counts.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
            let Some((value, n)) = counts.first().copied() else { continue };
            if n * 2 <= present.len() {
                let name = present.first().map(|(_, part)| part.name()).unwrap_or_default();
                let values = counts.iter().map(|(value, n)| (attribute.unit.text(value), *n));
                let what = format!("{name} {}", attribute.title());
                self.varied.push(Varied { what, values: values.collect() });
                continue;
            }
            // What most reports do not contain says nothing against a machine that has it.
            if value.is_null() {
                continue;
            }
            let (value, n_compared) = (value.clone(), present.len());
            let norm = Norm { kind, attribute: Some(attribute), value, n, n_compared };
            for (member, part) in present {
                let found = part.value(attribute.name);
                if *found != norm.value {
                    self.depart(member, part.name(), found.clone(), &norm);
                }
            }
        }
    }

    /// Returns true if the model is known and has enough machines for a norm.
    pub fn has_norm(&self) -> bool {
        self.title.is_some() && self.n_machines >= LEAST
    }

    /// The model for people: a line for each departure; the machine, the part and its place in front.
    pub fn text(&self) -> String {
        let reports = counted(self.n_machines, "report");
        let Some(title) = &self.title else {
            return line(&format!(
                "no maker or no model: {reports}; it is not known which are alike, so they were not compared"
            ));
        };
        if !self.has_norm() {
            let why = format!("a norm needs {LEAST}, so it was not compared");
            return line(&format!("{title}: {reports}; {why}"));
        }
        let departures = counted(self.departures.len(), "departure");
        let mut text = line(&format!("{title}: {reports}, {departures}"));
        let width = |texts: &mut dyn Iterator<Item = &str>| {
            texts.map(|text| text.chars().count()).max().unwrap_or_default()
        };
        let names = width(&mut self.departures.iter().map(|one| one.member.name.as_str()));
        let parts = width(&mut self.departures.iter().map(|one| one.part.as_str()));
        for one in &self.departures {
            let (name, part, what) = (&one.member.name, &one.part, one.what());
            text += &line(&format!("  {name:names$}  {part:parts$}  {what}"));
        }
        for varied in &self.varied {
            let values = varied.values.iter().map(|(value, n)| format!("{value} ({n})"));
            let values = values.collect::<Vec<_>>().join(", ");
            text += &line(&format!("  no norm  {}: {values}", varied.what));
        }
        for (name, kinds) in &self.not_compared {
            text += &line(&format!("  not compared  {name}: no data of {}", kinds.join(", ")));
        }
        text
    }

    /// The model for programs.
    pub fn json(&self) -> Value {
        json!({
            "model": self.title,
            "n_reports": self.n_machines,
            "has_norm": self.has_norm(),
            "departures": self.departures.iter().map(Departure::json).collect::<Vec<_>>(),
            "no_norm": self.varied.iter().map(|varied| json!({
                "what": varied.what,
                "values": varied.values.iter().map(|(value, n)| json!({"value": value, "n": n})).collect::<Vec<_>>(),
            })).collect::<Vec<_>>(),
            "not_compared": self.not_compared,
        })
    }
}

impl Departure<'_> {
    /// Describes the departure in a line.
    pub fn what(&self) -> String {
        let Norm { attribute, value, n, n_compared, .. } = &self.norm;
        let count = format!("{n} of {n_compared}");
        match attribute {
            Some(attribute) => format!(
                "{} {}; {count} have {}",
                attribute.title(),
                attribute.unit.text(&self.found),
                attribute.unit.text(value)
            ),
            None if self.found.is_null() => {
                let norm = value.as_str().filter(|norm| !norm.is_empty()).unwrap_or("it");
                format!("missing; {count} have {norm}")
            }
            // A part without a known value is there all the same.
            None => match self.found.as_str() {
                None | Some("") => format!("present; {count} have none"),
                Some(found) => format!("{found}; {count} have none"),
            },
        }
    }

    fn json(&self) -> Value {
        let Departure { member, part, found, norm } = self;
        json!({
            "report": member.name,
            "node_id": member.machine.node_id,
            "serial": member.machine.serial,
            "kind": norm.kind.name(),
            "part": part,
            "name": norm.attribute.map(|attribute| attribute.name),
            "path": norm.attribute.map(|attribute| attribute.path),
            "found": found,
            "norm": norm.value,
            "n_norm": norm.n,
            "n_compared": norm.n_compared,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(n: u64) -> Value {
        let dimm = |locator: &str| json!({"locator": locator, "is_populated": true, "size_bytes": 34_359_738_368_u64, "part_number": "M393A4K40", "serial": format!("{n}{locator}")});
        json!({
            "product": {"vendor": "Dell Inc.", "name": "R650", "serial": format!("SN{n}")},
            "bios": {"version": "2.19.1"},
            "memory": {"n_slots": 4, "dimms": [dimm("A1"), dimm("A2")]},
            "findings": [],
        })
    }

    fn members(change: impl Fn(u64, &mut Value), n: u64) -> Vec<Member> {
        let member = |n| {
            let mut report = report(n);
            change(n, &mut report);
            Member::of(format!("node{n}"), &report)
        };
        (0..n).map(member).collect()
    }

    /// Changes the report of the machine with this number.
    type Changed = fn(u64, &mut Value);

    /// Checks that the text about this number of machines, changed like this, contains these pieces.
    fn check(cases: &[(u64, Changed, &[&str])]) {
        for (n, change, expected) in cases {
            let members = members(change, *n);
            let text = models(&members)[0].text();
            assert!(
                expected.iter().all(|expected| text.contains(expected)),
                "{expected:?}\n{text}"
            );
        }
    }

    #[test]
    fn machines_depart_from_what_most_of_their_model_have() {
        check(&[
            // Without a majority there is no norm, and of a missing part it is what most machines have.
            (
                4,
                |n, report| report["bios"]["version"] = json!(format!("2.{}", n % 2)),
                &[", 0 departures\n", "  no norm  BIOS version: 2.0 (2), 2.1 (2)\n"],
            ),
            (
                5,
                |n, report| {
                    let dimms = report["memory"]["dimms"].as_array_mut().unwrap();
                    match n {
                        0 => dimms[1]["part_number"] = json!("OTHER"),
                        1 => drop(dimms.pop()),
                        2 => report["gpu"] = json!({"cards": []}),
                        _ => {}
                    }
                },
                &[
                    "Dell Inc. R650: 5 reports, 2 departures\n",
                    "DIMM A2  missing; 3 of 5 have 32 GiB, M393A4K40\n",
                ],
            ),
        ]);
    }

    #[test]
    fn report_that_says_more_is_no_departure_and_one_without_a_section_is_not_compared() {
        check(&[
            (
                4,
                |n, report| {
                    report["bios"]["vendor"] = json!("Dell Inc.");
                    if n > 0 {
                        report["bios"]["version"] = Value::Null;
                    }
                },
                &["Dell Inc. R650: 4 reports, 0 departures\n"],
            ),
            (
                4,
                |n, report| {
                    if n == 2 {
                        report["memory"] = Value::Null;
                    }
                },
                &["  not compared  node2: no data of ", "dimm"],
            ),
            (
                2,
                |n, report| report["bios"]["version"] = json!(format!("2.{n}")),
                &["Dell Inc. R650: 2 reports; a norm needs 3"],
            ),
        ]);
    }

    #[test]
    fn other_models_are_grouped_apart_and_machines_without_a_model_are_not_compared() {
        let other = members(
            |n, report| {
                if n >= 3 {
                    report["product"]["name"] = json!("R750");
                    report["bios"]["version"] = json!("1.0");
                }
            },
            6,
        );
        let found = models(&other);
        assert_eq!((found.len(), found[0].departures.len(), found[1].departures.len()), (2, 0, 0));
        let unknown = members(
            |n, report| {
                report["product"] = json!({"vendor": "Dell Inc."});
                report["bios"]["version"] = json!(if n == 0 { "1" } else { "2" });
            },
            4,
        );
        let found = models(&unknown);
        assert!(found[0].departures.is_empty() && found[0].json()["model"].is_null());
        assert!(found[0].text().starts_with("no maker or no model: 4 reports;"));
    }
}
