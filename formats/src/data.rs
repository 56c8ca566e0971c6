//! Tables in text files: a row a line, and comments that begin with `#`, on lines of their own or two blanks after a row.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde::de::{IntoDeserializer as _, value};

/// The rows of a file.
pub fn rows(file: &'static str) -> impl Iterator<Item = &'static str> {
    let rows = file.lines().map(|line| line.split("  #").next().unwrap_or_default().trim_end());
    rows.filter(|row| !row.is_empty() && !row.starts_with('#'))
}

/// The cells of a row, which `|` separates; the last one has the rest. `None` for a row with fewer.
pub fn cells<const N: usize>(row: &'static str) -> Option<[&'static str; N]> {
    row.splitn(N, '|').map(str::trim).collect::<Vec<_>>().try_into().ok()
}

/// The rest of the row whose first cell is `key`.
pub fn lookup(file: &'static str, key: &str) -> Option<&'static str> {
    rows(file).filter_map(cells).find(|[known, _]| *known == key).map(|[_, rest]| rest)
}

/// The value that a cell spells as serde does.
pub fn word<T: Deserialize<'static>>(cell: &'static str) -> Option<T> {
    let value: Result<T, value::Error> = T::deserialize(cell.into_deserializer());
    value.ok()
}

const CODES: &str = include_str!("../data/codes.txt");

static NAMES: LazyLock<BTreeMap<(&str, u64), &str>> = LazyLock::new(|| {
    let name = |row| {
        let [table, code, name] = cells(row)?;
        Some(((table, u64::from_str_radix(code, 16).ok()?), name))
    };
    rows(CODES).filter_map(name).collect()
});

/// The name of a code by a table in `codes.txt`; `None` for one without a name.
pub fn name(table: &'static str, code: impl Into<u64>) -> Option<&'static str> {
    NAMES.get(&(table, code.into())).copied()
}

/// The same, for a fact.
pub fn named(table: &'static str, code: impl Into<u64>) -> Option<String> {
    name(table, code).map(str::to_owned)
}

/// The codes of a table of `codes.txt` with their names, in ascending order.
pub fn codes(table: &'static str) -> impl Iterator<Item = (u32, &'static str)> {
    let rows = NAMES.range((table, 0)..=(table, u64::from(u32::MAX)));
    rows.filter_map(|((_, code), name)| Some((u32::try_from(*code).ok()?, *name)))
}

/// The names of the codes of a table that are set.
pub fn names(table: &'static str, is_set: impl Fn(u32) -> bool) -> Vec<String> {
    codes(table).filter(|(code, _)| is_set(*code)).map(|(_, name)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_read_and_has_one_name() {
        assert_eq!(NAMES.len(), rows(CODES).count());
        assert_eq!(
            (name("chassis", 0x17_u8), name("chassis", 2_u8)),
            (Some("Rack Mount Chassis"), None)
        );
        assert_eq!(names("lldp_capability", |bit| bit == 2 || bit == 4), ["bridge", "router"]);
    }
}
