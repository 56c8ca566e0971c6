//! udev's database: `/run/udev/data/<id>`, lines such as `E:ID_MODEL=…` and `S:disk/by-id/…`
//! (systemd `src/libsystemd/sd-device`, format version 1). It may be absent or outdated. And the variables that the kernel
//! itself lists in a device's `uevent`.

use std::collections::BTreeMap;

use crate::machine::Machine;

/// udev's facts about one device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UdevEntry {
    /// Properties such as `ID_SERIAL`, by name.
    pub properties: BTreeMap<String, String>,
    /// Links below `/dev`, e.g. `disk/by-id/wwn-0x5000c500a1b2c3d4`, sorted.
    pub links: Vec<String>,
}

impl UdevEntry {
    /// The value of the property `name`, if it is there and not empty.
    pub fn property(&self, name: &str) -> Option<&str> {
        self.properties.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
    }
}

/// Reads udev's entry for the device with the id `id`: `b8:0` for a block device, `c…` for a
/// character device, `n2` for a network interface by its index, `+pci:0000:00:1f.2` for others.
pub fn entry(machine: &Machine, id: &str) -> Option<UdevEntry> {
    machine.text(&format!("run/udev/data/{id}")).map(|text| parse(&text))
}

fn parse(text: &str) -> UdevEntry {
    let mut entry = UdevEntry::default();
    for line in text.lines() {
        if let Some((name, value)) = line.strip_prefix("E:").and_then(|rest| rest.split_once('=')) {
            entry.properties.insert(name.to_owned(), value.to_owned());
        } else if let Some(link) = line.strip_prefix("S:") {
            entry.links.push(link.to_owned());
        }
    }
    entry.links.sort();
    entry
}

/// The variables in the `uevent` file at `path`, which the kernel answers without the device; a truncated last line is
/// dropped.
pub(crate) fn variables(machine: &Machine, path: &str) -> BTreeMap<String, String> {
    let bytes = machine.bytes(path).unwrap_or_default();
    parse_variables(&String::from_utf8_lossy(&bytes))
}

/// Lines such as `DRIVER=ixgbe`.
pub(crate) fn parse_variables(text: &str) -> BTreeMap<String, String> {
    let lines = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
    let pairs = lines.filter_map(|line| line.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Decodes escapes such as `\x20`, which udev and kernel arguments use for blanks.
pub fn unescape_hex(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\\x") {
        bytes.extend(before.bytes());
        let code = after.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        if let Some(byte) = code {
            bytes.push(byte);
            rest = &after[2..];
        } else {
            bytes.extend(b"\\x");
            rest = after;
        }
    }
    bytes.extend(rest.bytes());
    formats::text::escape_non_utf8(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_and_links_are_read_and_other_lines_skipped() {
        let entry = parse(
            "S:disk/by-path/b\nS:disk/by-id/a\nI:123\nE:ID_MODEL=X=Y\nE:EMPTY=\nE:broken\nV:1",
        );
        assert_eq!(entry.property("ID_MODEL"), Some("X=Y"));
        assert_eq!(entry.property("EMPTY"), None);
        assert_eq!(entry.links, ["disk/by-id/a", "disk/by-path/b"]);
    }
}
