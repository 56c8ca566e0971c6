//! Quantities with their units: as people write them (`32 GiB`, `3.84 TB`, `25 Gbit/s`) and as the report has them.

use serde::Deserialize;
use serde_json::Value;

/// The unit of an attribute's values; the table of kinds has their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Text.
    Text,
    /// True or false.
    Flag,
    /// A plain number.
    Count,
    /// Bytes that people write in binary units, such as memory.
    Bytes,
    /// Bytes that people write in decimal units, such as disks.
    DiskBytes,
    /// Link speed, in Mbit/s.
    Mbit,
    /// Memory transfers, in MT/s.
    Transfers,
    /// Clock, in MHz.
    Mhz,
    /// PCI link transfers, in tenths of GT/s.
    GigaTransfers,
    /// Power, in W.
    Watts,
}

/// Units with their size in the report's unit; the smallest first.
type Sizes = &'static [(&'static str, u64)];

const DECIMAL: Sizes = &[
    ("B", 1),
    ("KB", 1000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("PB", 1_000_000_000_000_000),
];

const BINARY: Sizes = &[
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("PiB", 1 << 50),
];

impl Unit {
    /// Returns the units for output, those that people also write, and an example for messages.
    fn row(self) -> (Sizes, Sizes, &'static str) {
        match self {
            Unit::Text => (&[], &[], "text, e.g. \"ABC*\""),
            Unit::Flag => (&[], &[], "true or false"),
            Unit::Count => (&[], &[], "a whole number, e.g. 2 or \">= 2\""),
            Unit::Bytes => (BINARY, DECIMAL, "a size, e.g. 32 GiB or \">= 32 GiB\""),
            Unit::DiskBytes => (DECIMAL, BINARY, "a size, e.g. 3.84 TB or \">= 3.5 TB\""),
            Unit::Mbit => (
                &[("Mbit/s", 1), ("Gbit/s", 1000)],
                &[],
                "a speed, e.g. 25 Gbit/s or \">= 10 Gbit/s\"",
            ),
            Unit::Transfers => (&[("MT/s", 1)], &[], "a speed, e.g. 3200 MT/s"),
            Unit::Mhz => (&[("MHz", 1)], &[("GHz", 1000)], "a speed, e.g. 3500 MHz"),
            Unit::GigaTransfers => (&[("GT/s", 10)], &[], "a speed, e.g. 16 GT/s"),
            Unit::Watts => (&[("W", 1)], &[("kW", 1000)], "a power, e.g. 1400 W"),
        }
    }

    /// Returns the size of a unit that people write.
    pub(crate) fn size(self, written: &str) -> Option<u64> {
        let (printed, other, _) = self.row();
        let mut units = printed.iter().chain(other);
        units.find(|(name, _)| name.eq_ignore_ascii_case(written)).map(|(_, size)| *size)
    }

    /// Returns an example of a quantity for messages.
    pub(crate) fn example(self) -> &'static str {
        let (.., example) = self.row();
        example
    }

    /// Formats a report value for people.
    pub fn text(self, value: &Value) -> String {
        match value {
            Value::Null => "not known".to_owned(),
            Value::String(text) => text.clone(),
            Value::Array(list) => {
                list.iter().map(|value| self.text(value)).collect::<Vec<_>>().join(" and ")
            }
            other => match other.as_u64() {
                Some(number) => self.number(number),
                None => other.to_string(),
            },
        }
    }

    /// Formats in the largest unit that does not exceed the number, with three digits: `3.84 TB`, `960 GB`,
    /// `25 Gbit/s`.
    fn number(self, number: u64) -> String {
        let fits = |(_, size): &&(&str, u64)| number >= *size;
        let (printed, ..) = self.row();
        let Some((unit, size)) = printed.iter().rev().find(fits).or(printed.first()) else {
            return number.to_string();
        };
        let step: u128 = match number / size {
            0..10 => 100,
            10..100 => 10,
            _ => 1,
        };
        let (number, size) = (u128::from(number), u128::from(*size));
        // A quantity that a person may write as an exact expectation, so it is rounded, not cut.
        let rounded = (number * step + size / 2) / size;
        let (whole, rest) = (rounded / step, rounded % step);
        let decimals = match step {
            100 => format!(".{rest:02}"),
            10 => format!(".{rest}"),
            _ => String::new(),
        };
        format!("{whole}{} {unit}", decimals.trim_end_matches('0').trim_end_matches('.'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn quantities_are_printed_as_on_the_label() {
        for (unit, value, expected) in [
            (Unit::Bytes, json!(34_359_738_368_u64), "32 GiB"),
            (Unit::Bytes, json!(1_610_612_736_u64), "1.5 GiB"),
            (Unit::Bytes, json!(u64::MAX), "16384 PiB"),
            (Unit::DiskBytes, json!(3_840_755_982_336_u64), "3.84 TB"),
            (Unit::DiskBytes, json!(960_197_124_096_u64), "960 GB"),
            (Unit::DiskBytes, json!(0), "0 B"),
            (Unit::Mbit, json!(25_000), "25 Gbit/s"),
            (Unit::Mbit, json!(100), "100 Mbit/s"),
            (Unit::GigaTransfers, json!(25), "2.5 GT/s"),
            (Unit::Count, json!(16), "16"),
            (Unit::Flag, json!(true), "true"),
            (Unit::Text, Value::Null, "not known"),
        ] {
            assert_eq!(unit.text(&value), expected);
        }
    }
}
