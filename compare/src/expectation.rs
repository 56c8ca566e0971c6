//! The expectations for a machine: parsed from a file or an instruction, and compared with a report.
//!
//! An expectation takes a number of parts of one kind that meet all its conditions. Each part fulfils at most one
//! expectation, and as many expectations as possible are fulfilled.

use formats::part::PartId;
use formats::text::nearest;
use serde_json::{Map, Value};

use crate::condition::{Condition, Outcome, Range, range};
use crate::kinds::{Kind, NEIGHBOURS, Nature, kind, kinds};
use crate::machine::{Machine, Part};
use crate::matching::Matching;
use crate::quantity::Unit;

/// The severity of every deviation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Needs attention, but does not stop an install.
    Warning,
    /// Stops an install unless the VIM allows it.
    Critical,
}

/// The expectations for a machine.
#[derive(Debug, Default)]
pub struct Expectations {
    all: Vec<Expectation>,
    /// The severity of deviations; `None` for the one in the table of findings.
    pub level: Option<Level>,
    /// True if a part that no expectation fits is a deviation, in the kinds that have expectations.
    are_others_reported: bool,
}

#[derive(Debug)]
struct Expectation {
    kind: &'static Kind,
    count: Range,
    conditions: Vec<Condition>,
}

/// The kind of a deviation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deviation {
    /// There are fewer parts than expected.
    Missing,
    /// A part has a different value than expected.
    Mismatch,
    /// The report lacks the data to compare a part.
    Unknown,
    /// There are more parts than expected.
    Surplus,
}

impl Deviation {
    /// Its finding's code.
    pub fn code(self) -> &'static str {
        match self {
            Deviation::Missing => "expectation.missing",
            Deviation::Mismatch => "expectation.mismatch",
            Deviation::Unknown => "expectation.unknown",
            Deviation::Surplus => "expectation.surplus",
        }
    }
}

/// A deviation of a machine from its expectations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deviating {
    /// The kind of the deviation.
    pub deviation: Deviation,
    /// The part, named by its kind and its place, e.g. `DIMM A3`.
    pub part: PartId,
    /// The found and expected values.
    pub evidence: String,
}

/// Maximum number of expectations for one kind.
const MAX_EXPECTATIONS: usize = 64;
/// Maximum number of parts that an expectation can demand.
const MAX_COUNT: u64 = 4096;

impl Expectations {
    /// Parses expectations: a key for each kind of part, with one expectation or a list.
    ///
    /// # Errors
    /// A sentence that begins with the key at fault: it is unknown, or its value is invalid.
    pub fn parse(value: &Value) -> Result<Expectations, String> {
        let Value::Object(keys) = value else {
            return Err(format!("it is {}, expected a key for each kind of part", form(value)));
        };
        Expectations::parse_keys(keys)
    }

    /// Like [`Expectations::parse`], for the keys of an object.
    ///
    /// # Errors
    /// As [`Expectations::parse`].
    pub fn parse_keys(keys: &Map<String, Value>) -> Result<Expectations, String> {
        let mut expectations = Expectations::default();
        for (key, value) in keys {
            match (key.as_str(), value.as_str()) {
                ("severity", Some("warning")) => expectations.level = Some(Level::Warning),
                ("severity", Some("critical")) => expectations.level = Some(Level::Critical),
                ("severity", _) => {
                    return Err(format!("severity is {value}, expected warning or critical"));
                }
                ("others", Some(word @ ("report" | "ignore"))) => {
                    expectations.are_others_reported = word == "report";
                }
                ("others", _) => {
                    return Err(format!("others is {value}, expected report or ignore"));
                }
                _ => {
                    let names = kinds().map(Kind::name);
                    let kind = kind(key)
                        .ok_or_else(|| unknown("", key, names.chain(["severity", "others"])))?;
                    expectations.all.extend(of_kind(kind, value)?);
                }
            }
        }
        if expectations.all.is_empty() {
            return Err("it expects no part of the machine".to_owned());
        }
        Ok(expectations)
    }

    /// Returns true if a port must be wired to a certain switch port. Only a report made while listening for LLDP shows
    /// that.
    pub fn names_neighbours(&self) -> bool {
        let mut conditions = self.all.iter().flat_map(|one| &one.conditions);
        conditions.any(|condition| condition.attribute.path == NEIGHBOURS)
    }

    /// Returns the machine's deviations from the expectations, by kind.
    pub fn deviations(&self, machine: &Machine) -> Vec<Deviating> {
        let mut found = Vec::new();
        for kind in kinds() {
            let expected: Vec<&Expectation> =
                self.all.iter().filter(|expectation| expectation.kind.part == kind.part).collect();
            if !expected.is_empty() {
                self.compare(kind, &expected, machine, &mut found);
            }
        }
        found
    }

    fn compare(
        &self,
        kind: &'static Kind,
        expected: &[&Expectation],
        machine: &Machine,
        found: &mut Vec<Deviating>,
    ) {
        if !machine.knows(kind) {
            let is_demanded = |one: &&&Expectation| {
                one.count.least > 0 || one.count.most != u64::MAX || self.are_others_reported
            };
            found.extend(expected.iter().filter(is_demanded).map(|one| {
                let evidence = format!("the report has no data of it, expected {}", one.demand());
                one.deviating(Deviation::Unknown, evidence)
            }));
            return;
        }
        let parts: Vec<&Part> = machine.of_kind(kind).collect();
        let fits_of = |part: &&Part| expected.iter().map(|one| one.is_met_by(part)).collect();
        let fits: Vec<Vec<bool>> = parts.iter().map(fits_of).collect();
        let number = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let least: Vec<usize> = expected.iter().map(|one| number(one.count.least)).collect();
        let most: Vec<usize> = expected.iter().map(|one| number(one.count.most)).collect();
        let matching = Matching::new(&fits, &least, &most);
        let mut is_left: Vec<bool> = matching.chosen.iter().map(Option::is_none).collect();
        for (at, one) in expected.iter().enumerate() {
            let n_found = matching.n_parts[at];
            let n_missing = number(one.count.least).saturating_sub(n_found);
            let nearest = one.nearest(&parts, &is_left, n_missing);
            let is_one_missing = nearest.len() < n_missing;
            for at in nearest {
                found.push(one.mismatch(parts[at]));
                is_left[at] = false;
            }
            if is_one_missing {
                let evidence = format!("found {n_found}, expected {}", one.demand());
                found.push(one.deviating(Deviation::Missing, evidence));
            }
        }
        for ((part, fits), _) in parts.iter().zip(&fits).zip(&is_left).filter(|(_, left)| **left) {
            let one = expected.iter().zip(fits).find(|(_, fits)| **fits).map(|(one, _)| one);
            let evidence = match one {
                Some(one) => format!("expected {}, and this one is more", one.demand()),
                None if self.are_others_reported => "no expectation fits this part".to_owned(),
                None => {
                    let suspect = expected.iter().zip(0..).find(|(one, at)| {
                        number(one.count.most) <= matching.n_parts[*at] && one.may_be(part)
                    });
                    found.extend(suspect.map(|(one, _)| one.mismatch(part)));
                    continue;
                }
            };
            let evidence = [part.summary(), "; ".to_owned(), evidence].concat();
            found.push(Deviating {
                deviation: Deviation::Surplus,
                part: part.named(),
                evidence: evidence.trim_start_matches("; ").to_owned(),
            });
        }
    }
}

/// Parses the expectations for one kind.
fn of_kind(kind: &'static Kind, value: &Value) -> Result<Vec<Expectation>, String> {
    let name = kind.name();
    let one = |value: &Value, place: &str| match value {
        Value::Object(keys) => expectation(kind, keys, place),
        other => Err(format!("{place} is {}, expected keys with values", form(other))),
    };
    match value {
        Value::Array(list) if list.is_empty() => Err(format!("{name} is an empty list")),
        Value::Array(list) if list.len() > MAX_EXPECTATIONS => {
            Err(format!("{name} has more than {MAX_EXPECTATIONS} expectations"))
        }
        Value::Array(list) if kind.is_single() && list.len() > 1 => {
            Err(format!("{name} is a list of {}, but a machine has only one", list.len()))
        }
        Value::Array(list) => {
            let numbered = list.iter().zip(1_usize..);
            numbered.map(|(value, number)| one(value, &format!("{name} number {number}"))).collect()
        }
        other => Ok(vec![one(other, name)?]),
    }
}

fn expectation(
    kind: &'static Kind,
    keys: &Map<String, Value>,
    place: &str,
) -> Result<Expectation, String> {
    let mut conditions = Vec::new();
    let mut count = Range { least: 1, most: 1 };
    for (key, value) in keys {
        let at_fault = |found: String| format!("{place}: {key} {found}");
        if key == "count" {
            count = range(Unit::Count, value).map_err(at_fault)?;
            // Without an upper end in the file there is none.
            if count.least > MAX_COUNT || (count.most > MAX_COUNT && count.most != u64::MAX) {
                return Err(at_fault(format!("is {value}, expected {MAX_COUNT} at most")));
            }
            if kind.is_single() && count != (Range { least: 1, most: 1 }) {
                return Err(at_fault("is given, but a machine has only one".to_owned()));
            }
            continue;
        }
        let names = kind.attributes.iter().map(|attribute| attribute.name);
        let attribute =
            kind.attribute(key).ok_or_else(|| unknown(place, key, names.chain(["count"])))?;
        conditions.push(Condition::parse(attribute, value).map_err(at_fault)?);
    }
    Ok(Expectation { kind, count, conditions })
}

/// Describes an unknown key, with the nearest known one or all of them.
fn unknown<'a>(place: &str, key: &str, known: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = known.collect();
    let hint = match nearest(key, names.iter().copied()) {
        Some(name) => format!("did you mean {name:?}?"),
        None => format!("expected one of {}", names.join(", ")),
    };
    let key: String = key.chars().take(80).collect();
    let place = if place.is_empty() { String::new() } else { format!("{place}: ") };
    format!("{place}{key:?} is not a known key, {hint}")
}

/// Names the type of a value.
fn form(value: &Value) -> &'static str {
    match value {
        Value::Null => "empty",
        Value::Object(_) => "a mapping",
        Value::Array(_) => "a list",
        _ => "a single value",
    }
}

impl Expectation {
    fn is_met_by(&self, part: &Part) -> bool {
        self.outcomes(part).all(|(_, outcome)| outcome == Outcome::Met)
    }

    /// Returns true if no known value of the part contradicts the expectation, but some value is unknown.
    fn may_be(&self, part: &Part) -> bool {
        let outcomes: Vec<Outcome> = self.outcomes(part).map(|(_, outcome)| outcome).collect();
        !outcomes.contains(&Outcome::Unmet) && outcomes.contains(&Outcome::Unknown)
    }

    fn outcomes(&self, part: &Part) -> impl Iterator<Item = (&Condition, Outcome)> {
        self.conditions
            .iter()
            .map(|condition| (condition, condition.check(part.value(condition.attribute.name))))
    }

    /// Returns up to `n` remaining parts that meet most conditions: those that ought to be as expected, but are not.
    fn nearest(&self, parts: &[&Part], is_left: &[bool], n: usize) -> Vec<usize> {
        if n == 0 {
            return Vec::new();
        }
        let left = parts.iter().enumerate().zip(is_left).filter(|(_, left)| **left);
        let candidates = left.filter_map(|((at, part), _)| {
            let outcomes: Vec<(&Condition, Outcome)> = self.outcomes(part).collect();
            let count = |outcome: Outcome| outcomes.iter().filter(|(_, o)| *o == outcome).count();
            let (n_unmet, n_unknown) = (count(Outcome::Unmet), count(Outcome::Unknown));
            // The port eno2 is not the expected eno1 with other faults, and a part that has nothing expected is another.
            let is_other = outcomes.iter().any(|(condition, outcome)| {
                let attribute = condition.attribute;
                *outcome == Outcome::Unmet
                    && (self.kind.is_place(attribute)
                        || (attribute.nature == Nature::Own && attribute.name != "wired_to"))
            });
            let is_alike = n_unmet < self.conditions.len() || self.conditions.len() == 1;
            (is_alike && (!is_other || self.kind.is_single())).then_some((n_unmet, n_unknown, at))
        });
        let mut candidates: Vec<(usize, usize, usize)> = candidates.collect();
        candidates.sort_unstable();
        candidates.into_iter().take(n).map(|(_, _, at)| at).collect()
    }

    fn mismatch(&self, part: &Part) -> Deviating {
        let mut deviation = Deviation::Unknown;
        let mut texts = Vec::new();
        for (condition, outcome) in self.outcomes(part) {
            let attribute = condition.attribute;
            let name = attribute.name.replace('_', " ");
            match outcome {
                Outcome::Met => {}
                Outcome::Unknown => {
                    texts.push(format!("{name} is not known, expected {}", condition.written));
                }
                Outcome::Unmet => {
                    deviation = Deviation::Mismatch;
                    let found = attribute.unit.text(part.value(attribute.name));
                    texts.push(format!("{name} is {found}, expected {}", condition.written));
                }
            }
        }
        Deviating { deviation, part: part.named(), evidence: texts.join("; ") }
    }

    /// Returns the kind, and the expected part's name if the expectation has one.
    fn part(&self) -> PartId {
        let is_name = |condition: &&Condition| self.kind.is_place(condition.attribute);
        let is_part = !self.kind.is_single();
        let named = self.conditions.iter().find(is_name).filter(|_| is_part);
        let key = named.map(|condition| condition.written.clone()).unwrap_or_default();
        let name = format!("{} {key}", self.kind.title());
        PartId::new(self.kind.part, key).named(name.trim_end())
    }

    /// Describes the expectation, e.g. `16 with size 32 GiB`.
    fn demand(&self) -> String {
        let Range { least, most } = self.count;
        let count = match (least, most) {
            (0, 0) => "none".to_owned(),
            _ if least == most => least.to_string(),
            (_, u64::MAX) => format!("at least {least}"),
            (0, _) => format!("at most {most}"),
            _ => format!("{least} to {most}"),
        };
        let conditions = self.conditions.iter().map(|condition| {
            format!("{} {}", condition.attribute.name.replace('_', " "), condition.written)
        });
        let conditions = conditions.collect::<Vec<_>>().join(", ");
        if conditions.is_empty() { count } else { format!("{count} with {conditions}") }
    }

    fn deviating(&self, deviation: Deviation, evidence: String) -> Deviating {
        Deviating { deviation, part: self.part(), evidence }
    }
}

#[cfg(test)]
mod tests;
