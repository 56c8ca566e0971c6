//! The parts of a machine, extracted from its report by the table of [`crate::kinds`].

use std::collections::{BTreeMap, BTreeSet};

use formats::part::{PartId, PartKind};
use serde_json::Value;

use crate::kinds::{Attribute, Kind, NEIGHBOURS, Nature, kinds};
use crate::quantity::Unit;

/// A part of a machine.
#[derive(Debug, Clone)]
pub struct Part {
    /// Its kind.
    pub kind: &'static Kind,
    /// Its position among the parts of this kind.
    pub index: usize,
    /// Its identity in this report. The name is where people find it, e.g. `nvme0n1, bay 3`, and empty if the machine has
    /// only one such part.
    pub id: PartId,
    /// The value for each of the kind's identities, if it is known.
    pub identities: Vec<Option<String>>,
    /// The value for each of the kind's slots, if it is known, then the part's name.
    pub slots: Vec<Option<String>>,
    /// The value for each of the kind's attributes; null if it is not known.
    pub values: Vec<Value>,
    /// The part's PCI address.
    pub pci_address: Option<String>,
}

/// The data of a report about a machine.
#[derive(Debug, Clone, Default)]
pub struct Machine {
    /// The agent's name for the node.
    pub node_id: Option<String>,
    /// The maker.
    pub vendor: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// The serial number.
    pub serial: Option<String>,
    /// All parts, by kind and then in report order.
    pub parts: Vec<Part>,
    /// The kinds without data in the report, and those with more parts than are compared.
    pub unknown_kinds: Vec<&'static str>,
    /// The PCI addresses of parts that another kind lists with more detail.
    detailed: BTreeSet<String>,
}

/// More parts of one kind than any machine has. A kind with more parts is not compared.
const MAX_PARTS: usize = 4096;

impl Machine {
    /// Extracts the parts of the machine in `report`. Data in an unexpected form is unknown.
    pub fn of(report: &Value) -> Machine {
        let text = |path| known_text(&fetch(report, path));
        let devices = at(report, "pci/devices").and_then(Value::as_array).into_iter().flatten();
        let devices = devices.filter_map(|device| Some((device.get("address")?.as_str()?, device)));
        let devices: BTreeMap<&str, &Value> = devices.collect();
        let mut machine = Machine {
            node_id: text("node_id"),
            vendor: text("product/vendor"),
            model: text("product/name"),
            serial: text("product/serial"),
            ..Machine::default()
        };
        for kind in kinds() {
            let is_late = kind.name().starts_with("raid_") && !has_raid(report);
            if is_late || at(report, kind.witness).is_none_or(Value::is_null) {
                machine.unknown_kinds.push(kind.name());
                continue;
            }
            let view = |object| View { object, devices: &devices };
            let listed = listed(report, kind.list).into_iter().map(view);
            let counted = listed.filter(|view| !view.is_skipped(kind)).take(MAX_PARTS + 1);
            let mut parts: Vec<Part> =
                counted.enumerate().map(|(index, view)| view.part(kind, index)).collect();
            if parts.len() > MAX_PARTS {
                machine.unknown_kinds.push(kind.name());
                continue;
            }
            name_apart(&mut parts);
            machine.parts.extend(parts);
        }
        // The controller of several disks is a part of its own.
        let detailed = [PartKind::Interface, PartKind::Gpu, PartKind::RaidController];
        let detailed = machine.parts.iter().filter(|part| detailed.contains(&part.id.kind));
        machine.detailed = detailed.filter_map(|part| part.pci_address.clone()).collect();
        machine
    }

    /// Returns the parts of a kind.
    pub fn of_kind(&self, kind: &Kind) -> impl Iterator<Item = &Part> {
        self.parts.iter().filter(move |part| part.id.kind == kind.part)
    }

    /// Returns true if the report says anything about a kind.
    pub fn knows(&self, kind: &Kind) -> bool {
        !self.unknown_kinds.contains(&kind.name())
    }

    /// Returns maker, model and serial number, or the node's name.
    pub fn title(&self) -> String {
        let known = [&self.vendor, &self.model, &self.serial].into_iter().flatten();
        let words: Vec<&str> = known.map(String::as_str).collect();
        match (words.is_empty(), &self.node_id) {
            (false, _) => words.join(" "),
            (true, Some(node)) => node.clone(),
            (true, None) => "an unnamed machine".to_owned(),
        }
    }

    /// Returns true if another kind also lists the PCI device `part`, with more detail.
    pub fn is_listed_twice(&self, part: &Part) -> bool {
        let address = part.pci_address.as_ref().filter(|_| part.id.kind == PartKind::Pci);
        address.is_some_and(|address| self.detailed.contains(address))
    }
}

impl Part {
    /// Each attribute with its value.
    pub fn attributes(&self) -> impl Iterator<Item = (&'static Attribute, &Value)> {
        self.kind.attributes.iter().zip(&self.values)
    }

    /// Returns the value of the attribute `name`; null if it is not known.
    pub fn value(&self, name: &str) -> &Value {
        let mut attributes = self.attributes();
        attributes.find(|(a, _)| a.name == name).map_or(&Value::Null, |(_, value)| value)
    }

    /// Returns the kind's title and the place.
    pub fn name(&self) -> String {
        [self.kind.title(), " ", &self.id.name].concat().trim_end().to_owned()
    }

    /// The part as findings name it: with its kind.
    pub fn named(&self) -> PartId {
        self.id.clone().named(self.name())
    }

    /// Describes the part in a line: required attributes, the maker, the model and the serial number.
    pub fn summary(&self) -> String {
        self.words(true)
    }

    /// The same, but without the serial number on request, so that it also describes a like part.
    pub(crate) fn words(&self, with_own: bool) -> String {
        let mut words: Vec<String> = Vec::new();
        for (attribute, value) in self.attributes().filter(|(_, value)| !value.is_null()) {
            let is_named = SUMMARY.contains(&attribute.name);
            let is_own = attribute.nature == Nature::Own && !with_own;
            if is_own || (!is_named && attribute.nature != Nature::Required) {
                continue;
            }
            let text = attribute.unit.text(value);
            let label = attribute.name.replace('_', " ");
            words.push(match (attribute.unit, text.as_str()) {
                (Unit::Flag, "true") => label,
                (Unit::Flag, _) => continue,
                (Unit::Count, _) => format!("{label} {text}"),
                _ if ["serial", "firmware"].contains(&attribute.name) => format!("{label} {text}"),
                _ => text,
            });
        }
        words.retain(|word| *word != self.id.name);
        words.join(", ")
    }
}

/// Attributes that describe a part.
const SUMMARY: &[&str] =
    &["vendor", "manufacturer", "model", "name", "product", "part_number", "firmware", "serial"];

/// Returns true if the report covers RAID controllers. A missing list means none only if their collector answered.
fn has_raid(report: &Value) -> bool {
    let problems = at(report, "problems").and_then(Value::as_array).into_iter().flatten();
    let mut collectors = problems.filter_map(|problem| problem.get("collector")?.as_str());
    at(report, "block/raid_controllers").is_some_and(Value::is_array)
        || !collectors.any(|collector| collector == "raid")
}

/// Replaces places that occur twice with the slot's longest name.
fn name_apart(parts: &mut [Part]) {
    let mut n_of_place: BTreeMap<String, usize> = BTreeMap::new();
    for part in &*parts {
        *n_of_place.entry(part.id.name.clone()).or_default() += 1;
    }
    for part in parts {
        let is_twice = n_of_place.get(&part.id.name).is_some_and(|n| *n > 1);
        let slots = part.slots.iter().flatten().filter(|slot| **slot != part.id.name);
        if let Some(longest) = slots.max_by_key(|slot| slot.len())
            && is_twice
        {
            part.id = PartId::new(part.id.kind, longest);
        }
    }
}

/// A part in the report, and its possible PCI devices.
struct View<'a> {
    object: &'a Value,
    devices: &'a BTreeMap<&'a str, &'a Value>,
}

impl View<'_> {
    fn part(&self, kind: &'static Kind, index: usize) -> Part {
        let joined = |paths: &Vec<&str>| {
            let texts = paths.iter().map(|path| known_text(&self.value(path)));
            let mut texts = texts.collect::<Vec<_>>().into_iter();
            let first = texts.next()??;
            Some(texts.flatten().fold(first, |text, next| [&text, " ", &next].concat()))
        };
        let mut place: Vec<String> = Vec::new();
        for (word, path) in &kind.place {
            let Some(text) = known_text(&self.value(path)) else { continue };
            let text = if word.is_empty() { text } else { format!("{word} {text}") };
            if !place.contains(&text) {
                place.push(text);
            }
        }
        let name = kind.place.first().and_then(|(_, path)| known_text(&self.value(path)));
        let single = kind.is_single().then(String::new);
        let identities = kind.identities.iter().map(joined);
        Part {
            kind,
            index,
            id: PartId::new(kind.part, place.first().cloned().unwrap_or_default())
                .named(place.join(", ")),
            identities: identities.map(|text| text.filter(|text| is_identity(text))).collect(),
            slots: kind.slots.iter().map(joined).chain([name.or(single)]).collect(),
            values: kind.attributes.iter().map(|attribute| self.value(attribute.path)).collect(),
            pci_address: self.pci_address().map(str::to_owned),
        }
    }

    fn is_skipped(&self, kind: &Kind) -> bool {
        kind.skip.iter().any(|(path, skipped)| {
            known_text(&self.value(path)).is_some_and(|found| match skipped.strip_prefix('!') {
                Some(kept) => found != kept,
                None => found == *skipped,
            })
        })
    }

    fn pci_address(&self) -> Option<&str> {
        let key = |key| self.object.get(key).and_then(Value::as_str);
        key("pci_address").or_else(|| key("address"))
    }

    fn value(&self, path: &str) -> Value {
        match path {
            "@id" => self.id().map_or(Value::Null, Value::String),
            NEIGHBOURS => self.neighbours(),
            _ => match path.strip_prefix("pci:") {
                None => fetch(self.object, path),
                Some(path) => {
                    let device = self.pci_address().and_then(|address| self.devices.get(address));
                    device.map_or(Value::Null, |device| fetch(device, path))
                }
            },
        }
    }

    /// `VENDOR:DEVICE`, as `lspci -nn` prints it.
    fn id(&self) -> Option<String> {
        let text = |key| known_text(&fetch(self.object, key));
        Some([text("vendor_id")?, text("device_id")?].join(":"))
    }

    /// Returns `SWITCH port PORT` for each LLDP neighbour: the system name, or its chassis ID, and its port ID.
    fn neighbours(&self) -> Value {
        let Value::Array(all) = fetch(self.object, "lldp") else { return Value::Null };
        let texts = all.iter().filter_map(|neighbour| {
            let text = |key| known_text(&fetch(neighbour, key));
            let system = text("system_name").or_else(|| text("chassis_id"))?;
            Some(Value::String(format!("{system} port {}", text("port_id")?)))
        });
        let texts: Vec<Value> = texts.collect();
        if texts.is_empty() { Value::Null } else { Value::Array(texts) }
    }
}

/// Returns the objects of a list, or the only object; `*` is every element of a list.
fn listed<'a>(report: &'a Value, path: &str) -> Vec<&'a Value> {
    let mut found = vec![report];
    for key in path.split('/') {
        found = found
            .into_iter()
            .flat_map(|value| match (key, value) {
                ("*", Value::Array(list)) => list.iter().collect(),
                _ => value.get(key).into_iter().collect::<Vec<_>>(),
            })
            .collect();
    }
    let elements = |value: &'a Value| match value {
        Value::Array(list) => list.iter().collect(),
        other => vec![other],
    };
    found.into_iter().flat_map(elements).filter(|value| value.is_object()).collect()
}

/// The value at `path`; null if there is none.
fn fetch(value: &Value, path: &str) -> Value {
    at(value, path).cloned().unwrap_or_default()
}

/// The value at `path`.
fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    value.pointer(&["/", path].concat())
}

/// A value as text; `None` for one that is not known.
fn known_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    }
}

/// Returns true if a serial number can identify a part: firmware fills unknown ones with one character or with words.
pub(crate) fn is_identity(text: &str) -> bool {
    let significant = || text.bytes().filter(u8::is_ascii_alphanumeric);
    let first = significant().next();
    // Of a serial number and its maker, the serial number is the first word.
    let serial = text.split(' ').next().unwrap_or_default();
    serial.bytes().any(|byte| byte.is_ascii_digit())
        && significant().any(|byte| Some(byte) != first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::kind;
    use serde_json::json;

    #[test]
    fn part_knows_its_place_identity_and_pci_link() {
        let machine = Machine::of(&json!({
            "gpu": {"cards": [
                {"address": "0000:81:00.0", "kind": "gpu", "vendor_id": "10de", "device_id": "2330"},
                {"address": "0000:03:00.0", "kind": "bmc_display", "vendor_id": "1a03", "device_id": "2000"},
            ]},
            "pci": {"n_devices": 1, "devices": [
                {"address": "0000:81:00.0", "slot": "4", "link": {"current_width": 16}},
            ]},
        }));
        let gpus: Vec<&Part> = machine.of_kind(kind("gpu").unwrap()).collect();
        assert_eq!(gpus.len(), 1, "the display of a BMC is no GPU");
        assert_eq!(gpus[0].id.name, "0000:81:00.0, slot 4");
        assert_eq!(
            (gpus[0].value("id"), gpus[0].value("link_width")),
            (&json!("10de:2330"), &json!(16))
        );
        assert!(!machine.knows(kind("disk").unwrap()) && machine.knows(kind("gpu").unwrap()));
        let device = machine.of_kind(kind("pci").unwrap()).next().unwrap();
        assert!(machine.is_listed_twice(device));
    }

    #[test]
    fn collector_that_did_not_answer_makes_its_parts_unknown_and_not_absent() {
        let knows = |report: &Value, name| Machine::of(report).knows(kind(name).unwrap());
        let late = json!([{"collector": "raid", "path": "/dev/megaraid_sas_ioctl_node"}]);
        let mut report = json!({"block": {"n_disks": 1}});
        assert!(knows(&report, "raid_drive") && knows(&report, "fc_host"));
        report["problems"] = late;
        assert!(!knows(&report, "raid_drive") && knows(&report, "disk"));
        // Only the controllers were read.
        let report = json!({"block": {"raid_controllers": []}});
        assert!(knows(&report, "raid_drive") && !knows(&report, "fc_host"));
    }

    #[test]
    fn neighbour_is_the_switch_and_its_port() {
        let machine = Machine::of(&json!({"network": {"interfaces": [
            {"name": "eno1", "kind": "physical", "lldp": [
                {"system_name": "leaf-17", "chassis_id": "00:11", "port_id": "12"},
                {"chassis_id": "00:22", "port_id": "3"},
            ]},
            {"name": "eno2", "kind": "physical", "lldp": []},
            {"name": "bond0", "kind": "bond"},
        ]}}));
        let ports: Vec<&Part> = machine.of_kind(kind("interface").unwrap()).collect();
        assert_eq!(ports.len(), 2);
        assert_eq!(ports[0].value("wired_to"), &json!(["leaf-17 port 12", "00:22 port 3"]));
        assert_eq!(ports[1].value("wired_to"), &Value::Null);
    }

    #[test]
    fn equal_locators_are_named_apart_by_their_banks() {
        let dimm = |bank: &str| json!({"locator": "DIMM 0", "bank_locator": bank});
        let dimms = json!([dimm("BANK 0"), dimm("BANK 1"), {"locator": "DIMM 1"}]);
        let machine = Machine::of(&json!({"memory": {"n_slots": 3, "dimms": dimms}}));
        let places = machine.of_kind(kind("dimm").unwrap()).map(|dimm| dimm.id.name.as_str());
        let expected = ["BANK 0 DIMM 0", "BANK 1 DIMM 0", "DIMM 1"];
        assert_eq!(places.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn placeholder_is_no_identity() {
        for (serial, expected) in [
            ("00000000", false),
            ("Not Specified", false),
            ("2D8F1A01 SK Hynix", true),
            ("0-0", false),
        ] {
            assert_eq!(is_identity(serial), expected, "{serial}");
        }
    }

    #[test]
    fn report_of_any_form_is_read_without_a_panic() {
        for report in [
            json!(null),
            json!([1]),
            json!({"memory": 7, "cpu": [], "block": {"disks": {"a": 1}, "n_disks": 1}}),
        ] {
            assert!(Machine::of(&report).title() == "an unnamed machine");
        }
    }
}
