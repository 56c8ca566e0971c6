//! Expectations as a file that a person can edit, from a good machine's report.

use formats::part::PartKind;
use formats::pattern::literal;
use serde_json::Value;

use crate::kinds::{Attribute, Kind, Nature, kinds};
use crate::line;
use crate::machine::{Machine, Part};
use crate::quantity::Unit;

/// Number of places that a comment names.
const MAX_PLACES: usize = 16;

/// Notes for the person who edits the file, as comments of YAML.
const NOTES: &str = include_str!("../data/draft-notes.txt");

/// Returns the expectations for a machine like this one.
pub fn draft(machine: &Machine) -> String {
    let mut text = line(&format!("# What a machine like this one must have: {}", machine.title()));
    text += "# `run-coreos-installer check --expect FILE` compares a machine with it.\n#\n";
    text += NOTES;
    for kind in drafted_kinds() {
        let parts: Vec<&Part> = machine.of_kind(kind).collect();
        if parts.is_empty() {
            continue;
        }
        text += &["\n", kind.name(), ":\n"].concat();
        let mut groups: Vec<(Vec<String>, Vec<&Part>)> = Vec::new();
        for part in parts {
            let lines = lines(&[part], Nature::Required);
            match groups.iter_mut().find(|(other, _)| *other == lines) {
                Some((_, parts)) => parts.push(part),
                None => groups.push((lines, vec![part])),
            }
        }
        for (required, parts) in groups {
            text += &entry(kind.is_single(), required, &parts);
        }
    }
    let without_data = without_data(machine);
    if !without_data.is_empty() {
        let names = without_data.join(", ");
        text.push('\n');
        text += &line(&format!(
            "# Nothing is expected of these, as the report has no data of them: {names}"
        ));
    }
    text
}

/// Kinds that a draft leaves out because the report has no data about them.
pub fn without_data(machine: &Machine) -> Vec<&'static str> {
    drafted_kinds().filter(|kind| !machine.knows(kind)).map(Kind::name).collect()
}

/// The kinds whose parts a draft lists.
fn drafted_kinds() -> impl Iterator<Item = &'static Kind> {
    // A PCI device that matters is a port, a GPU, a disk or a controller.
    kinds().filter(|kind| {
        kind.part != PartKind::Pci && kind.attributes.iter().any(|a| a.nature == Nature::Required)
    })
}

/// Returns the entry for like parts.
fn entry(is_single: bool, mut lines_of_entry: Vec<String>, parts: &[&Part]) -> String {
    let mut text = String::new();
    if !is_single {
        let places = parts.iter().take(MAX_PLACES).map(|part| part.id.name.as_str());
        let mut places = places.collect::<Vec<_>>().join("; ");
        if let Some(n_more) = parts.len().checked_sub(MAX_PLACES).filter(|n| *n > 0) {
            places += &[" and ", &n_more.to_string(), " more"].concat();
        }
        text += &line(&format!("  # {places}"));
        lines_of_entry.insert(0, format!("count: {}", parts.len()));
    }
    // A mapping needs one key that is no comment.
    let Some((first, rest)) = lines_of_entry.split_first() else { return "  {}\n".to_owned() };
    let (dash, indent) = if is_single { ("  ", "  ") } else { ("  - ", "    ") };
    text += &[dash, first, "\n"].concat();
    for line in rest {
        text += &[indent, line, "\n"].concat();
    }
    let own = if parts.len() == 1 { lines(parts, Nature::Own) } else { Vec::new() };
    for line in lines(parts, Nature::Model).into_iter().chain(own) {
        text += &[indent, "# ", &line, "\n"].concat();
    }
    text
}

/// Returns `key: value` for each attribute that all parts know and share.
fn lines(parts: &[&Part], nature: Nature) -> Vec<String> {
    let Some((first, others)) = parts.split_first() else { return Vec::new() };
    let all = first.attributes().filter(|(attribute, value)| {
        attribute.nature == nature
            && others.iter().all(|other| other.value(attribute.name) == *value)
    });
    all.filter_map(|(attribute, value)| {
        Some(format!("{}: {}", attribute.name, scalar(attribute, value)?))
    })
    .collect()
}

/// The value as YAML; `None` if it is not known.
fn scalar(attribute: &Attribute, value: &Value) -> Option<String> {
    let value = match value {
        Value::Array(list) => list.first()?,
        one => one,
    };
    match (attribute.unit, value) {
        (_, Value::Null) => None,
        (Unit::Text, Value::String(text)) if text.is_empty() => None,
        // A string of JSON is one of YAML.
        (Unit::Text, Value::String(text)) => Some(Value::from(literal(text)).to_string()),
        (Unit::Text, other) => Some(Value::from(other.to_string()).to_string()),
        (Unit::Flag, value) => value.as_bool().map(|flag| flag.to_string()),
        (unit, value) => value.as_u64().map(|_| unit.text(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn like_parts_share_an_entry_and_what_is_their_own_is_a_comment() {
        let dimm = |locator: &str, maker: &str| {
            json!({"locator": locator, "is_populated": true, "size_bytes": 34_359_738_368_u64, "kind": "DDR4",
                   "configured_speed_mt_s": 3200, "manufacturer": maker, "rank": 2, "serial": locator})
        };
        let text = draft(&Machine::of(&json!({
            "product": {"vendor": "Dell Inc.", "name": "R650*", "serial": "ABC1\n: x"},
            "bios": {"version": "2.10", "vendor": "Dell Inc."},
            "memory": {"n_slots": 2, "dimms": [dimm("A1", "Samsung"), dimm("B1", "Micron")]},
        })));
        assert!(
            text.starts_with(
                "# What a machine like this one must have: Dell Inc. R650* ABC1\\n: x\n"
            ),
            "{text}"
        );
        for part in [
            "\nproduct:\n  vendor: \"Dell Inc.\"\n  name: \"R650\\\\*\"\n  # serial: \"ABC1?: x\"\n",
            "\nbios:\n  version: \"2.10\"\n  # vendor: \"Dell Inc.\"\n",
            "\ndimm:\n  # A1; B1\n  - count: 2\n    size: 32 GiB\n    kind: \"DDR4\"\n    configured_speed: 3200 MT/s\n    # rank: 2\n",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert!(!text.contains("manufacturer"), "{text}");
    }
}
