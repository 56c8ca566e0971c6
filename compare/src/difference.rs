//! The differences between two reports: parts that were added, are gone, were replaced, moved or changed.
//!
//! Parts are matched by their identities, the best first, and the remaining ones by their places. A value
//! that occurs twice in one report matches nothing.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::kinds::{Attribute, Kind, NEIGHBOURS, Nature, kinds};
use crate::line;
use crate::machine::{Machine, Part};

/// Selects the differences that count.
#[derive(Debug, Clone, Copy, Default)]
pub struct Scope {
    /// True to compare values that vary between two reads of one machine, too.
    pub with_volatile: bool,
    /// True if only the place matters: for two machines that ought to be alike.
    pub without_serials: bool,
}

/// The kind of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Only the second report has it.
    Added,
    /// Only the first report has it.
    Gone,
    /// Another part is in the same place.
    Replaced,
    /// The same part is in another place.
    Moved,
    /// The same part has other values.
    Changed,
}

impl Change {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Change::Added => "added",
            Change::Gone => "gone",
            Change::Replaced => "replaced",
            Change::Moved => "moved",
            Change::Changed => "changed",
        }
    }
}

/// A part that differs.
#[derive(Debug)]
pub struct Difference<'a> {
    /// The kind of the difference.
    pub change: Change,
    /// The part in the first report.
    pub a: Option<&'a Part>,
    /// The part in the second report.
    pub b: Option<&'a Part>,
    /// The attributes that differ, with both values.
    pub attributes: Vec<(&'static Attribute, &'a Value, &'a Value)>,
}

/// Compares two machines.
pub fn differences<'a>(a: &'a Machine, b: &'a Machine, scope: Scope) -> Differences<'a> {
    let mut found = Differences { a, b, parts: Vec::new(), not_compared: Vec::new() };
    for kind in kinds() {
        match (a.knows(kind), b.knows(kind)) {
            (true, true) => found.compare(kind, scope),
            (false, false) => {}
            _ => found.not_compared.push(kind),
        }
    }
    found
}

/// The differences between two machines.
#[derive(Debug)]
pub struct Differences<'a> {
    a: &'a Machine,
    b: &'a Machine,
    /// The parts that differ, by kind.
    pub parts: Vec<Difference<'a>>,
    /// Kinds that only one of the reports covers, so they cannot be compared.
    pub not_compared: Vec<&'static Kind>,
}
/// Removes from both lists the parts that match by one of `keys`, the best first.
fn pairs<'a>(
    left_a: &mut Vec<&'a Part>,
    left_b: &mut Vec<&'a Part>,
    keys: fn(&Part) -> &Vec<Option<String>>,
) -> Vec<(&'a Part, &'a Part)> {
    let n_keys = left_a.iter().map(|part| keys(part).len()).max().unwrap_or_default();
    let mut found = Vec::new();
    for at in 0..n_keys {
        let unique = |parts: &[&'a Part]| {
            let mut by_key: BTreeMap<&'a str, Option<&'a Part>> = BTreeMap::new();
            for part in parts {
                if let Some(Some(key)) = keys(part).get(at) {
                    by_key.entry(key).and_modify(|other| *other = None).or_insert(Some(*part));
                }
            }
            by_key
        };
        let (by_a, by_b) = (unique(left_a), unique(left_b));
        let (mut taken_a, mut taken_b) = (BTreeSet::new(), BTreeSet::new());
        for (key, a) in by_a {
            let (Some(a), Some(Some(b))) = (a, by_b.get(key)) else { continue };
            found.push((a, *b));
            taken_a.insert(a.index);
            taken_b.insert(b.index);
        }
        left_a.retain(|part| !taken_a.contains(&part.index));
        left_b.retain(|part| !taken_b.contains(&part.index));
    }
    found
}

/// Removes from both lists the first parts that are `alike`.
fn in_order<'a>(
    left_a: &mut Vec<&'a Part>,
    left_b: &mut Vec<&'a Part>,
    alike: fn(&Part, &Part) -> bool,
) -> Vec<(&'a Part, &'a Part)> {
    let mut found = Vec::new();
    left_a.retain(|a| {
        let at = left_b.iter().position(|b| alike(a, b));
        found.extend(at.map(|at| (*a, left_b.remove(at))));
        at.is_none()
    });
    found
}

/// Compares two parts that belong together; `None` if nothing differs.
fn pair<'a>(
    a: &'a Part,
    b: &'a Part,
    change: Option<Change>,
    scope: Scope,
) -> Option<Difference<'a>> {
    let is_compared = |nature| match nature {
        Nature::Volatile => scope.with_volatile,
        Nature::Own => !scope.without_serials,
        Nature::Required | Nature::Model => true,
    };
    let both = a.attributes().zip(&b.values);
    // A report made without listening knows no neighbours: that is no difference of the machine.
    let is_comparable = |attribute: &Attribute, a: &Value, b: &Value| {
        attribute.path != NEIGHBOURS || !(a.is_null() || b.is_null())
    };
    let differing = both.filter(|((attribute, a), b)| {
        is_compared(attribute.nature) && a != b && is_comparable(attribute, a, b)
    });
    let attributes: Vec<_> = differing.map(|((attribute, a), b)| (attribute, a, b)).collect();
    let change = change.or((!attributes.is_empty()).then_some(Change::Changed))?;
    Some(Difference { change, a: Some(a), b: Some(b), attributes })
}

/// Returns true if the two parts differ in the best key that both have.
fn differ(a: &[Option<String>], b: &[Option<String>]) -> bool {
    let mut both = a.iter().zip(b).filter_map(|(a, b)| Some((a.as_ref()?, b.as_ref()?)));
    both.next().is_some_and(|(a, b)| a != b)
}

/// Returns true if two parts are in different places. The last slot does not count: it is the kernel's name, which may
/// change without a move.
fn is_elsewhere(a: &Part, b: &Part) -> bool {
    match (a.slots.split_last(), b.slots.split_last()) {
        (Some((_, a)), Some((_, b))) => differ(a, b),
        _ => false,
    }
}

/// Describes a part's old place, and the new one unless its name says so.
fn movement(a: &Part, b: &Part) -> String {
    if a.id != b.id {
        return format!("from {}", a.id);
    }
    let mut both = a.slots.iter().zip(&b.slots).filter_map(|(a, b)| a.as_ref().zip(b.as_ref()));
    both.next().map(|(a, b)| format!("from {a} to {b}")).unwrap_or_default()
}

impl Difference<'_> {
    /// The part: the kind and the place, where it is now.
    pub fn name(&self) -> String {
        self.b.or(self.a).map(Part::name).unwrap_or_default()
    }

    /// Describes the difference in a line.
    pub fn details(&self) -> String {
        match (self.change, self.a, self.b) {
            (Change::Gone, Some(part), _) | (Change::Added, _, Some(part)) => part.summary(),
            (Change::Moved, Some(a), Some(b)) => {
                let changes = self.changes();
                let separator = if changes.is_empty() { "" } else { "; " };
                [&movement(a, b), separator, &changes].concat()
            }
            _ => self.changes(),
        }
    }

    fn changes(&self) -> String {
        let changes = self.attributes.iter().map(|(attribute, a, b)| {
            let (mut from, mut to) = (attribute.unit.text(a), attribute.unit.text(b));
            if from == to {
                (from, to) = (a.to_string(), b.to_string());
            }
            format!("{} {from} -> {to}", attribute.title())
        });
        changes.collect::<Vec<_>>().join("; ")
    }
}

impl<'a> Differences<'a> {
    fn compare(&mut self, kind: &Kind, scope: Scope) {
        let (a, b) = (self.a, self.b);
        let mut found: Vec<Difference<'a>> = Vec::new();
        // What another kind lists in one report alone, such as a network port without a driver, is compared here.
        let is_twice = |part: &Part| a.is_listed_twice(part) && b.is_listed_twice(part);
        let mut left_a: Vec<&Part> = a.of_kind(kind).filter(|part| !is_twice(part)).collect();
        let mut left_b: Vec<&Part> = b.of_kind(kind).filter(|part| !is_twice(part)).collect();
        if !scope.without_serials {
            for (a, b) in pairs(&mut left_a, &mut left_b, |part| &part.identities) {
                found.extend(pair(a, b, is_elsewhere(a, b).then_some(Change::Moved), scope));
            }
        }
        for (a, b) in pairs(&mut left_a, &mut left_b, |part| &part.slots) {
            let is_other = !scope.without_serials && differ(&a.identities, &b.identities);
            found.extend(pair(a, b, is_other.then_some(Change::Replaced), scope));
        }
        // Parts that nothing distinguishes, such as two CPUs in sockets of one name: like ones first, then in order.
        let alike: [fn(&Part, &Part) -> bool; 2] =
            [|a, b| a.slots == b.slots && a.values == b.values, |a, b| a.slots == b.slots];
        for (a, b) in alike.iter().flat_map(|alike| in_order(&mut left_a, &mut left_b, *alike)) {
            found.extend(pair(a, b, None, scope));
        }
        let one = |change, a, b| Difference { change, a, b, attributes: Vec::new() };
        found.extend(left_a.into_iter().map(|part| one(Change::Gone, Some(part), None)));
        found.extend(left_b.into_iter().map(|part| one(Change::Added, None, Some(part))));
        // Both reports list like parts in the same order, except for those that moved.
        let position =
            |difference: &Difference| difference.b.or(difference.a).map(|part| part.index);
        found.sort_by_key(position);
        self.parts.extend(found);
    }

    /// Returns true if nothing that could be compared differs.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The differences for people, a line for each part; the part and its place in front.
    pub fn text(&self) -> String {
        let names: Vec<String> = self.parts.iter().map(Difference::name).collect();
        let width = names.iter().map(|name| name.chars().count()).max().unwrap_or_default();
        let mut text = String::new();
        for (difference, name) in self.parts.iter().zip(&names) {
            let change = difference.change.as_str();
            text += &line(&format!("{name:width$}  {change:8}  {}", difference.details()));
        }
        text
    }

    /// The differences for programs.
    pub fn json(&self) -> Value {
        let machine = |Machine { node_id, vendor, model, serial, .. }: &Machine| {
            known(json!({"node_id": node_id, "vendor": vendor, "model": model, "serial": serial}))
        };
        json!({
            "same": self.is_empty(),
            "a": machine(self.a),
            "b": machine(self.b),
            "differences": self.parts.iter().map(Difference::json).collect::<Vec<_>>(),
            "not_compared": self.not_compared.iter().map(|kind| kind.name()).collect::<Vec<_>>(),
        })
    }
}

impl Difference<'_> {
    fn json(&self) -> Value {
        let changes = self.attributes.iter().map(|(attribute, a, b)| {
            json!({"name": attribute.name, "path": attribute.path, "a": a, "b": b})
        });
        known(json!({
            "kind": self.a.or(self.b).map_or("", |part| part.kind.name()),
            "change": self.change.as_str(),
            "a": self.a.map(Part::json),
            "b": self.b.map(Part::json),
            "changes": changes.collect::<Vec<_>>(),
        }))
    }
}

/// The same object without the keys whose values are not known.
fn known(mut object: Value) -> Value {
    if let Value::Object(keys) = &mut object {
        keys.retain(|_, value| !value.is_null());
    }
    object
}

impl Part {
    /// Returns the part for programs: its place and its known values.
    pub fn json(&self) -> Value {
        let mut object = Map::new();
        if !self.id.name.is_empty() {
            object.insert("place".to_owned(), self.id.to_string().into());
        }
        for (attribute, value) in self.attributes().filter(|(_, value)| !value.is_null()) {
            object.insert(attribute.name.to_owned(), value.clone());
        }
        object.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine with two DIMMs, two disks, a port and a BIOS.
    fn report() -> Value {
        json!({
            "product": {"vendor": "Dell Inc.", "name": "PowerEdge R650", "serial": "ABC1234"},
            "bios": {"vendor": "Dell Inc.", "version": "1.9.2"},
            "memory": {"n_slots": 4, "dimms": [
                {"locator": "A1", "is_populated": true, "size_bytes": 34_359_738_368_u64, "serial": "D1", "configured_speed_mt_s": 3200},
                {"locator": "A2", "is_populated": true, "size_bytes": 34_359_738_368_u64, "serial": "D2", "configured_speed_mt_s": 3200},
                {"locator": "A3", "is_populated": false},
            ]},
            "block": {"n_disks": 2, "disks": [
                {"name": "nvme0n1", "serial": "S1", "bay": {"slot": 1}, "size_bytes": 3_840_755_982_336_u64, "firmware": "1.0", "transport": "nvme"},
                {"name": "nvme1n1", "serial": "S2", "bay": {"slot": 2}, "size_bytes": 3_840_755_982_336_u64, "firmware": "1.0", "transport": "nvme"},
            ]},
            "network": {"interfaces": [
                {"name": "eno1", "kind": "physical", "permanent_mac": "02:00:00:00:00:01", "pci_address": "0000:01:00.0", "speed_mbit_s": 25000},
            ]},
        })
    }

    fn compared(a: &Value, b: &Value, scope: Scope) -> String {
        let (a, b) = (Machine::of(a), Machine::of(b));
        differences(&a, &b, scope).text()
    }

    /// Changes the second report.
    type Changed = fn(&mut Value);

    #[test]
    fn part_that_differs_is_named_with_the_way_in_which_it_does() {
        let plain = Scope::default();
        let without_serials = Scope { without_serials: true, ..plain };
        let with_volatile = Scope { with_volatile: true, ..plain };
        let cases: [(Changed, Scope, &str); 9] = [
            (|_| {}, plain, ""),
            (
                |other| {
                    other["memory"]["dimms"][1] = json!({"locator": "A2", "is_populated": false});
                },
                plain,
                "DIMM A2  gone      32 GiB, 3200 MT/s, serial D2\n",
            ),
            (
                |other| other["block"]["disks"][1]["serial"] = "S9".into(),
                plain,
                "disk nvme1n1, bay 2  replaced  serial S2 -> S9\n",
            ),
            (|other| other["block"]["disks"][1]["serial"] = "S9".into(), without_serials, ""),
            // Whatever the kernel calls it.
            (
                |other| {
                    other["block"]["disks"][0]["name"] = "nvme1n1".into();
                    other["block"]["disks"][1]["name"] = "nvme0n1".into();
                },
                plain,
                "",
            ),
            (
                |other| other["block"]["disks"][1]["bay"]["slot"] = 7.into(),
                plain,
                "disk nvme1n1, bay 7  moved     from nvme1n1, bay 2\n",
            ),
            (
                |other| {
                    other["bios"]["version"] = "2.19.1".into();
                    other["network"]["interfaces"][0]["speed_mbit_s"] = 10000.into();
                },
                plain,
                "BIOS       changed   version 1.9.2 -> 2.19.1\n\
                 port eno1  changed   speed 25 Gbit/s -> 10 Gbit/s\n",
            ),
            (|other| other["block"]["disks"][0]["health"] = json!({"media_errors": 3}), plain, ""),
            (
                |other| other["block"]["disks"][0]["health"] = json!({"media_errors": 3}),
                with_volatile,
                "disk nvme0n1, bay 1  changed   health media errors not known -> 3\n",
            ),
        ];
        for (change, scope, expected) in cases {
            let mut other = report();
            change(&mut other);
            assert_eq!(compared(&report(), &other, scope), expected);
            if expected.contains("  gone ") {
                let added = compared(&other, &report(), scope);
                assert_eq!(added, expected.replace("gone ", "added"));
            }
        }
    }

    #[test]
    fn section_that_one_report_lacks_is_not_a_difference_but_named() {
        let mut other = report();
        other.as_object_mut().unwrap().remove("block");
        let (a, b) = (Machine::of(&report()), Machine::of(&other));
        let found = differences(&a, &b, Scope::default());
        assert!(found.is_empty(), "{}", found.text());
        assert!(found.not_compared.iter().any(|kind| kind.name() == "disk"));
    }

    #[test]
    fn equal_serial_numbers_identify_nothing() {
        let mut report = report();
        report["memory"]["dimms"][1]["serial"] = "D1".into();
        let mut other = report.clone();
        other["memory"]["dimms"][0]["size_bytes"] = 17_179_869_184_u64.into();
        let found = compared(&report, &other, Scope::default());
        assert_eq!(found, "DIMM A1  changed   size 32 GiB -> 16 GiB\n");
    }

    #[test]
    fn sockets_of_one_name_differ_only_if_one_of_them_changes() {
        let socket = |status: &str| json!({"locator": "Microprocessor", "status": status});
        let machine = |status| json!({"smbios": {"version": "2.3"}, "cpu": {"sockets": [socket(status), socket("enabled")]}});
        assert_eq!(compared(&machine("idle"), &machine("idle"), Scope::default()), "");
        let found = compared(&machine("enabled"), &machine("idle"), Scope::default());
        assert_eq!(found, "socket Microprocessor  changed   status enabled -> idle\n");
    }
}
