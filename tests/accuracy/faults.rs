//! The faults of `faults.yaml`, which explains their keys.

use std::collections::BTreeMap;

use probes::machine::{Archive, Node};
use serde::Deserialize;
use yaml_serde::Value;

use crate::parts::{DMI, Machine, Part, resolved};
use crate::trees::{Files, node};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fault {
    pub(crate) kind: String,
    pub(crate) code: String,
    on: String,
    #[serde(default)]
    class: String,
    #[serde(default)]
    with: Files,
    #[serde(default)]
    patch: BTreeMap<usize, String>,
    part: Option<String>,
}

/// Codes whose faults no captured tree can have, and why.
pub(crate) const NOT_INJECTED: [(&str, &str); 11] = [
    ("cpu.wrong_result", "only a load on the running machine shows it, and no capture has one"),
    ("memory.wrong_content", "only a load on the running machine shows it, and no capture has one"),
    ("cpu.throttled", "it compares two readings, and a capture is one"),
    ("pci.aer.correctable", "it compares two readings, and a capture is one"),
    ("os.clock_skew", "it compares with the clock of a VIM, which no capture has"),
    ("disk.link_errors", "it compares two readings, and a capture is one"),
    ("nic.link_errors", "it compares two readings, and a capture is one"),
    ("expectation.mismatch", "it compares with a file of expectations, which no capture has"),
    ("expectation.missing", "it compares with a file of expectations, which no capture has"),
    ("expectation.surplus", "it compares with a file of expectations, which no capture has"),
    ("expectation.unknown", "it compares with a file of expectations, which no capture has"),
];

/// All faults.
pub(crate) fn all() -> Vec<Fault> {
    let mut faults: Value = yaml_serde::from_str(include_str!("faults.yaml")).unwrap();
    faults.apply_merge().unwrap();
    yaml_serde::from_value(faults).unwrap()
}

impl Fault {
    /// The machine with this fault in one of its parts, and what names the part; `None` if it has no such part.
    pub(crate) fn inject(&self, machine: &Machine) -> Option<(Archive, String)> {
        let mut parts = machine.parts(&self.on, &self.class);
        if parts.is_empty() {
            return None;
        }
        // One in the middle: the first is often special, as the disk of the system is.
        let part = parts.swap_remove(parts.len() / 2);
        let mut tree = machine.tree.clone();
        for (offset, template) in &self.patch {
            patch(&mut tree, part.structure? + offset, &filled(template, &part)?);
        }
        for (path, content) in &self.with {
            let path = resolved(&tree, &filled(path, &part)?);
            let Some(content) = content else {
                tree.remove(&path);
                continue;
            };
            let content = match content {
                Value::String(text) => Value::String(filled(text, &part)?),
                other => other.clone(),
            };
            let added = node(&content);
            let whole = if path == DMI { with_structures(&tree, added) } else { added };
            tree.set(&path, Some(whole));
        }
        let expected = self.part.clone().unwrap_or(part.name);
        Some((tree, expected))
    }
}

/// A template with the values of the part; `None` if the part lacks one.
fn filled(template: &str, part: &Part) -> Option<String> {
    let mut text = template.replace("{part}", &part.name);
    for (key, value) in &part.values {
        text = text.replace(&format!("{{{key}}}"), value);
    }
    // The kernel numbers reports of the firmware: `{1}`.
    let is_key = |rest: &str| rest.starts_with(|c: char| c.is_ascii_alphabetic());
    (!text.split('{').skip(1).any(is_key)).then_some(text)
}

/// Replaces bytes of the SMBIOS table.
fn patch(tree: &mut Archive, offset: usize, digits: &str) {
    let Some(Node::File(table)) = tree.get(DMI) else { return };
    let mut table = table.to_vec();
    for (index, pair) in digits.as_bytes().chunks(2).enumerate() {
        let byte = u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        table[offset + index] = byte;
    }
    tree.set(DMI, Some(Node::File(table.into())));
}

/// The machine's SMBIOS table with more structures, before its end.
fn with_structures(tree: &Archive, added: Node) -> Node {
    let (Some(Node::File(table)), Node::File(added)) = (tree.get(DMI), &added) else {
        return added;
    };
    let end = crate::parts::structures(table).find(|found| found.kind == 127);
    let end = end.map_or(table.len(), |end| end.at);
    Node::File([&table[..end], &added[..]].concat().into())
}
