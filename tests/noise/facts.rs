//! A report as a list of facts: the leaves of its JSON by their paths.

use std::collections::BTreeMap;

use probes::machine::Archive;
use serde_json::Value;

use crate::replay::report_of;

/// Keys that identify an element of a list, so that a missing element does not shift the others.
const IDS: &[&str] =
    &["name", "locator", "address", "pci_address", "id", "number", "code", "kind", "value"];

/// All facts of a report, without its problems and findings.
#[derive(Debug)]
pub(crate) struct Facts {
    /// The values by path, e.g. `/block/disks/sda/size_bytes`.
    pub(crate) leaves: BTreeMap<String, Value>,
    /// The sections in the report.
    pub(crate) sections: Vec<String>,
    /// The problems, as `path: found`.
    pub(crate) problems: Vec<String>,
}

/// Replays `tree` and lists its facts.
pub(crate) fn facts_of(tree: Archive) -> Facts {
    let report = report_of(tree);
    let problems = report.problems.iter().map(|p| format!("{}: {}", p.path, p.found)).collect();
    let inventory = serde_json::to_value(&report.inventory).unwrap();
    let sections = inventory.as_object().unwrap().keys().cloned().collect();
    let mut leaves = BTreeMap::new();
    add("", &inventory, &mut leaves);
    Facts { leaves, sections, problems }
}

impl Facts {
    /// The paths whose values differ in `other`.
    pub(crate) fn changed<'a>(&'a self, other: &'a Facts) -> Vec<&'a str> {
        let differs = |(path, value): &(&'a String, &Value)| other.leaves.get(*path) != Some(value);
        let mut changed: Vec<&str> =
            self.leaves.iter().filter(differs).map(|(path, _)| path.as_str()).collect();
        let is_new = |path: &&String| !self.leaves.contains_key(*path);
        changed.extend(other.leaves.keys().filter(is_new).map(String::as_str));
        changed
    }
}

/// The name that identifies an element of a list.
fn name_of(value: &Value) -> Option<String> {
    if let Some(cpus) = value.get("shared_cpus") {
        return Some(format!("{} {} {cpus}", value["level"], value["kind"]));
    }
    IDS.iter().find_map(|key| value.get(key)).map(ToString::to_string)
}

fn add(path: &str, value: &Value, leaves: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(map) => {
            map.iter().for_each(|(key, value)| add(&format!("{path}/{key}"), value, leaves));
        }
        // A list of plain values is one fact.
        Value::Array(list) if list.iter().any(Value::is_object) => {
            for (i, value) in list.iter().enumerate() {
                let named = name_of(value);
                let mut at = format!("{path}/{}", named.unwrap_or_else(|| i.to_string()));
                if leaves.range(format!("{at}/")..format!("{at}0")).next().is_some() {
                    at = format!("{at}.{i}");
                }
                add(&at, value, leaves);
            }
        }
        value => drop(leaves.insert(path.to_owned(), value.clone())),
    }
}
