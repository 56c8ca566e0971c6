//! The tables in `data/`: a row a line, and comments that begin with `#`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The rows of a file.
pub(crate) fn rows(file: &'static str) -> impl Iterator<Item = &'static str> {
    file.lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// The cells of a row, which `|` separates; the last one has the rest. `None` for a row with fewer.
pub(crate) fn cells<const N: usize>(row: &'static str) -> Option<[&'static str; N]> {
    row.splitn(N, '|').map(str::trim).collect::<Vec<_>>().try_into().ok()
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
pub(crate) fn name(table: &'static str, code: impl Into<u64>) -> Option<&'static str> {
    NAMES.get(&(table, code.into())).copied()
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
    }
}
