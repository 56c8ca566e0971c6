//! The kinds of parts: their places in the report, their identities, slots and compared attributes, by the table
//! `data/kinds.txt`.

use std::sync::LazyLock;

use formats::part::PartKind;
use serde::Deserialize;

use crate::quantity::Unit;

/// The variation of an attribute's values; the table of kinds has their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Nature {
    /// The same on like machines, and usually required.
    Required,
    /// The same on like machines, but rarely required, such as a DIMM's maker.
    Model,
    /// Different on every machine, such as a serial number.
    Own,
    /// May differ between two reads of one machine: counters, and values that power saving changes.
    Volatile,
}

/// An attribute of a kind of part.
#[derive(Debug)]
pub struct Attribute {
    /// The name in expectations and in text, e.g. `size`.
    pub name: &'static str,
    /// The path in the report, e.g. `size_bytes`.
    pub path: &'static str,
    /// The unit of the values.
    pub unit: Unit,
    /// Their variation.
    pub nature: Nature,
}

impl Attribute {
    /// The name in text, e.g. `configured speed`. A part's verdict about itself is its health.
    pub fn title(&self) -> String {
        let prefix = if self.path.starts_with("health/") { "health " } else { "" };
        format!("{prefix}{}", self.name.replace('_', " "))
    }
}

/// A kind of parts.
#[derive(Debug)]
pub struct Kind {
    /// The kind of these parts.
    pub part: PartKind,
    /// The report key that lists the parts, or that is the only part. `*` is every element of a list.
    pub list: &'static str,
    /// A key that is present only if the parts were read.
    pub witness: &'static str,
    /// Paths that mark a listed part as absent from the machine, with the value they then have.
    pub skip: Vec<(&'static str, &'static str)>,
    /// The part's identities wherever it is fitted; the best first. The first path of each must be known.
    pub identities: Vec<Vec<&'static str>>,
    /// The places of a part; the best first. The first path of each must be known.
    pub slots: Vec<Vec<&'static str>>,
    /// The place for people: words, which may be empty, and paths.
    pub place: Vec<(&'static str, &'static str)>,
    /// The compared attributes.
    pub attributes: Vec<Attribute>,
}

impl Kind {
    /// The name in expectations, e.g. `dimm`.
    pub fn name(&self) -> &'static str {
        self.part.name()
    }

    /// The name in text, e.g. `DIMM`.
    pub fn title(&self) -> &'static str {
        self.part.title()
    }

    /// Returns true if a machine has at most one part of this kind.
    pub fn is_single(&self) -> bool {
        self.slots.is_empty()
    }

    /// Returns true if the attribute identifies the part, such as the name of a port.
    pub fn is_place(&self, attribute: &Attribute) -> bool {
        let slots = self.slots.iter().filter_map(|slot| slot.first());
        let places = self.place.iter().map(|(_, path)| path);
        slots.chain(places).any(|path| *path == attribute.path)
    }

    /// Returns the attribute with this name.
    pub fn attribute(&'static self, name: &str) -> Option<&'static Attribute> {
        self.attributes.iter().find(|attribute| attribute.name == name)
    }
}

static KINDS: LazyLock<Vec<Kind>> = LazyLock::new(|| {
    let mut kinds = Vec::new();
    for line in lines() {
        add(&mut kinds, line);
    }
    kinds
});

/// The lines of the table, which explains itself.
fn lines() -> impl Iterator<Item = &'static str> {
    let lines = include_str!("../data/kinds.txt").lines();
    lines.filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// Adds what a line of the table contains; `None` for a line of another form.
fn add(kinds: &mut Vec<Kind>, line: &'static str) -> Option<()> {
    let words: Vec<&'static str> = line.split(' ').collect();
    if let [name, "in", list, "if", witness] = words[..] {
        kinds.push(Kind {
            part: PartKind::of_name(name)?,
            list,
            witness,
            skip: Vec::new(),
            identities: Vec::new(),
            slots: Vec::new(),
            place: Vec::new(),
            attributes: Vec::new(),
        });
        return Some(());
    }
    let kind = kinds.last_mut()?;
    match words[..] {
        ["skip", path, value] => kind.skip.push((path, value)),
        ["identity", ref paths @ ..] => kind.identities.push(paths.to_vec()),
        ["slot", ref paths @ ..] => kind.slots.push(paths.to_vec()),
        ["place", path] => kind.place.push(("", path)),
        ["place", word, path] => kind.place.push((word, path)),
        [nature, name] => kind.attributes.push(attribute([nature, name, "text", name])?),
        [nature, name, unit] => kind.attributes.push(attribute([nature, name, unit, name])?),
        [nature, name, unit, path] => kind.attributes.push(attribute([nature, name, unit, path])?),
        _ => return None,
    }
    Some(())
}

fn attribute([nature, name, unit, path]: [&'static str; 4]) -> Option<Attribute> {
    let nature = serde_json::from_value(nature.into()).ok()?;
    let unit = serde_json::from_value(unit.into()).ok()?;
    Some(Attribute { name, path, unit, nature })
}

/// Returns every kind, in the order for differences.
pub fn kinds() -> impl Iterator<Item = &'static Kind> {
    KINDS.iter()
}

/// Returns the kind with this name.
pub fn kind(name: &str) -> Option<&'static Kind> {
    kinds().find(|kind| kind.name() == name)
}

/// The path of a port's LLDP neighbours, as `SWITCH port PORT`.
pub const NEIGHBOURS: &str = "@neighbours";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_nobody_can_confuse_them_with_settings() {
        let mut read = Vec::new();
        assert_eq!(lines().find(|line| add(&mut read, line).is_none()), None);
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

    /// Returns the table of expectation keys for the end of `docs/expectations.md`.
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
