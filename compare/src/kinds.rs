//! The kinds of parts: their lists in the report, identity, place and compared attributes.
//!
//! Paths are keys of the report, separated by `/`, from the part on. `pci:` starts at the PCI device of the part
//! instead; `@id` and `@neighbours` are derived, see [`crate::machine`]. Left out on purpose, because they differ
//! between two reads of one machine or are not hardware: USB devices, sensors, addresses, partitions, the operating
//! system, times.

/// The kinds of one file as `KINDS`, in the order in which differences are listed: kind, list, witness, then the rest.
macro_rules! kind_table {
    ($($part:ident in $list:literal if $witness:literal { $($rest:tt)* })*) => {
        pub(super) static KINDS: &[super::Kind] = &[$(super::Kind {
            part: formats::part::PartKind::$part,
            list: $list,
            witness: $witness,
            $($rest)*
        }),*];
    };
}
mod devices;
mod platform;

use formats::part::PartKind;

use crate::quantity::Unit;

/// Variability of an attribute's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nature {
    /// The same on like machines, and usually required of a machine.
    Required,
    /// The same on like machines, but rarely required, such as the maker of a DIMM.
    Model,
    /// Different on every machine, such as a serial number.
    Own,
    /// May differ between two reads of one machine: counters, and values that power saving changes.
    Volatile,
}

/// An attribute of the parts of a kind.
#[derive(Debug)]
pub struct Attribute {
    /// The name in expectations and in text, e.g. `size`.
    pub name: &'static str,
    /// The path in the report, e.g. `size_bytes`.
    pub path: &'static str,
    /// Unit of the values.
    pub unit: Unit,
    /// Variability of the values.
    pub nature: Nature,
}

impl Attribute {
    /// The name in text, e.g. `configured speed`. A verdict of the part about itself is its health.
    #[must_use]
    pub fn title(&self) -> String {
        let prefix = if self.path.starts_with("health/") { "health " } else { "" };
        format!("{prefix}{}", self.name.replace('_', " "))
    }
}

/// A kind of parts.
#[derive(Debug)]
pub struct Kind {
    /// The kind of each of them.
    pub part: PartKind,
    /// The report's key that lists the parts, or that is the only part. `*` is every element of a list.
    pub list: &'static str,
    /// A key that is present only if the parts were read.
    pub witness: &'static str,
    /// Paths of a part that is listed but does not belong to the machine, with the value it has then.
    pub skip: &'static [(&'static str, &'static str)],
    /// Keys that identify a part wherever it is fitted; the best first. The first path of each must be known.
    pub identities: &'static [&'static [&'static str]],
    /// Keys of the place where a part is fitted; the best first. The first path of each must be known.
    pub slots: &'static [&'static [&'static str]],
    /// Description of the place for people: words and paths.
    pub place: &'static [(&'static str, &'static str)],
    /// Attributes that are compared.
    pub attributes: &'static [Attribute],
}

impl Kind {
    /// The name in expectations, e.g. `dimm`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.part.name()
    }

    /// The name in text, e.g. `DIMM`.
    #[must_use]
    pub fn title(&self) -> &'static str {
        self.part.title()
    }

    /// True if a machine has at most one part of this kind.
    #[must_use]
    pub fn is_single(&self) -> bool {
        self.slots.is_empty()
    }

    /// True if the attribute distinguishes the part from others, such as the name of a port.
    #[must_use]
    pub fn is_place(&self, attribute: &Attribute) -> bool {
        let slots = self.slots.iter().filter_map(|slot| slot.first());
        let places = self.place.iter().map(|(_, path)| path);
        slots.chain(places).any(|path| *path == attribute.path)
    }

    /// The attribute of this name.
    #[must_use]
    pub fn attribute(&self, name: &str) -> Option<&'static Attribute> {
        self.attributes.iter().find(|attribute| attribute.name == name)
    }
}

/// Every kind, in the order in which differences are listed.
pub fn kinds() -> impl Iterator<Item = &'static Kind> {
    platform::KINDS.iter().chain(devices::KINDS)
}

/// The kind of this name.
#[must_use]
pub fn kind(name: &str) -> Option<&'static Kind> {
    kinds().find(|kind| kind.name() == name)
}

/// The path of the LLDP neighbours of a port, as `SWITCH port PORT`.
pub const NEIGHBOURS: &str = "@neighbours";

const fn of(nature: Nature, name: &'static str, path: &'static str, unit: Unit) -> Attribute {
    Attribute { name, path, unit, nature }
}

const fn required(name: &'static str, path: &'static str, unit: Unit) -> Attribute {
    of(Nature::Required, name, path, unit)
}

const fn model(name: &'static str, path: &'static str, unit: Unit) -> Attribute {
    of(Nature::Model, name, path, unit)
}

const fn own(name: &'static str, path: &'static str) -> Attribute {
    of(Nature::Own, name, path, Unit::Text)
}

const fn volatile(name: &'static str, path: &'static str, unit: Unit) -> Attribute {
    of(Nature::Volatile, name, path, unit)
}

/// A kind without parts.
const NONE: Kind = Kind {
    part: PartKind::Other,
    list: "",
    witness: "",
    skip: &[],
    identities: &[],
    slots: &[],
    place: &[],
    attributes: &[],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_nobody_can_confuse_them_with_settings() {
        let mut names: Vec<&str> = kinds().map(Kind::name).collect();
        let n_kinds = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), n_kinds);
        for kind in kinds() {
            let mut names: Vec<&str> = kind.attributes.iter().map(|a| a.name).collect();
            let n_names = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), n_names, "{}", kind.name());
            assert!(!names.contains(&"count") && !names.contains(&"severity"), "{}", kind.name());
            assert!(kind.is_single() || !kind.place.is_empty(), "{}", kind.name());
        }
    }

    /// The table of the keys of expectations as `docs/expectations.md` ends with it.
    fn table() -> String {
        let mut text = "| Part | Keys | In the report |\n|---|---|---|\n".to_owned();
        for kind in kinds() {
            let attributes = kind.attributes.iter().filter(|a| a.nature != Nature::Volatile);
            let names = attributes.map(|attribute| match attribute.nature {
                Nature::Required => format!("**{}**", attribute.name),
                Nature::Own => format!("*{}*", attribute.name),
                _ => attribute.name.to_owned(),
            });
            let (name, keys) = (kind.name(), names.collect::<Vec<_>>().join(", "));
            text.push_str(&["| `", name, "` | ", &keys, " | `", kind.list, "` |\n"].concat());
        }
        text
    }

    #[test]
    fn docs_expectations_md_ends_with_the_table_of_kinds() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/expectations.md");
        let read = || std::fs::read_to_string(path).unwrap();
        let found = read();
        let (text, _) = found.split_once("do not edit it. -->\n").unwrap();
        let expected = [text, "do not edit it. -->\n\n", &table()].concat();
        if std::env::var_os("UPDATE_EXPECTED").is_some() {
            std::fs::write(path, &expected).unwrap();
        }
        assert!(read() == expected, "UPDATE_EXPECTED=1 rewrites {path}");
    }
}
