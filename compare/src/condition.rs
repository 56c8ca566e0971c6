//! Conditions on one attribute: a value, a pattern, a minimum, a range, or any of several.

use formats::pattern::matches_any_case;
use serde_json::Value;

use crate::kinds::Attribute;
use crate::quantity::Unit;

/// A condition on one attribute.
#[derive(Debug)]
pub(crate) struct Condition {
    pub(crate) attribute: &'static Attribute,
    tests: Vec<Test>,
    /// As in the file.
    pub(crate) written: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    Pattern(String),
    Flag(bool),
    Range(Range),
}

/// The result of a comparison between a part and a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Met,
    Unmet,
    /// The report does not have the value.
    Unknown,
}

/// A range with both ends in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) least: u64,
    pub(crate) most: u64,
}

/// Divisor for the tolerance of an exact size: a disk of 1 TB has 1,000,204,886,016 bytes.
const SIZE_TOLERANCE: u128 = 100;

/// Maximum length of a pattern or quantity.
const MAX_TEXT_BYTES: usize = 1024;
/// Most alternatives for one attribute.
const MAX_ALTERNATIVES: usize = 100;

impl Condition {
    /// Parses the condition for an attribute.
    ///
    /// # Errors
    /// Found and expected text, in words that follow the key.
    pub(crate) fn parse(attribute: &'static Attribute, value: &Value) -> Result<Self, String> {
        let alternatives = match value {
            Value::Array(list) if list.is_empty() => {
                return Err("is an empty list, which nothing can match".to_owned());
            }
            Value::Array(list) if list.len() > MAX_ALTERNATIVES => {
                return Err(format!("has more than {MAX_ALTERNATIVES} alternatives"));
            }
            Value::Array(list) => list.iter().collect(),
            one => vec![one],
        };
        let tests = alternatives.iter().map(|value| test(attribute.unit, value));
        let written = alternatives.iter().map(|value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        });
        let written = written.collect::<Vec<_>>().join(" or ");
        Ok(Condition { attribute, tests: tests.collect::<Result<_, _>>()?, written })
    }

    pub(crate) fn check(&self, value: &Value) -> Outcome {
        let is_met = |value: &Value| self.tests.iter().any(|test| test.is_met(value));
        let is_met = match value {
            Value::Null => return Outcome::Unknown,
            Value::Array(list) => list.iter().any(is_met),
            one => is_met(one),
        };
        if is_met { Outcome::Met } else { Outcome::Unmet }
    }
}

impl Test {
    fn is_met(&self, value: &Value) -> bool {
        match (self, value) {
            (Test::Pattern(pattern), Value::String(text)) => matches_any_case(pattern, text),
            (Test::Pattern(pattern), other) => matches_any_case(pattern, &other.to_string()),
            (Test::Flag(flag), value) => value.as_bool() == Some(*flag),
            (Test::Range(Range { least, most }), value) => {
                value.as_u64().is_some_and(|n| (*least..=*most).contains(&n))
            }
        }
    }
}

fn test(unit: Unit, value: &Value) -> Result<Test, String> {
    match (unit, value) {
        (_, Value::String(text)) if text.len() > MAX_TEXT_BYTES => {
            Err(format!("is longer than {MAX_TEXT_BYTES} bytes"))
        }
        (Unit::Text, Value::String(text)) if text.is_empty() => {
            Err("is empty, expected text; remove the line if any value will do".to_owned())
        }
        (Unit::Text, Value::String(text)) => Ok(Test::Pattern(text.clone())),
        // YAML turns 2.10 into 2.1 and 0x10 into 16.
        (Unit::Text, Value::Number(number)) => {
            Err(format!("is the number {number}, expected text: write it in quotes"))
        }
        (Unit::Flag, Value::Bool(flag)) => Ok(Test::Flag(*flag)),
        (Unit::Text | Unit::Flag, other) => Err(unexpected(unit, other)),
        (_, value) => range(unit, value).map(Test::Range),
    }
}

/// Parses a number, a minimum, a maximum or a range.
///
/// # Errors
/// As [`Condition::parse`].
pub(crate) fn range(unit: Unit, value: &Value) -> Result<Range, String> {
    let found = || unexpected(unit, value);
    let text = match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        _ => return Err(found()),
    };
    let all = Range { least: 0, most: u64::MAX };
    let exact = |text: &str| Quantity::parse(unit, text, "").ok_or_else(found);
    let range = if let Some(text) = text.strip_prefix(">=") {
        Range { least: exact(text)?.ceiling(), ..all }
    } else if let Some(text) = text.strip_prefix("<=") {
        Range { most: exact(text)?.floor(), ..all }
    } else if let Some(text) = text.strip_prefix('>') {
        Range { least: exact(text)?.floor().saturating_add(1), ..all }
    } else if let Some(text) = text.strip_prefix('<') {
        let Some(most) = exact(text)?.ceiling().checked_sub(1) else {
            return Err("is less than 0, which nothing can match".to_owned());
        };
        Range { most, ..all }
    } else if let Some((from, to)) = text.split_once("..") {
        let to = exact(to)?;
        let from = Quantity::parse(unit, from, &to.unit).ok_or_else(found)?;
        Range { least: from.ceiling(), most: to.floor() }
    } else {
        exact(&text)?.range(unit)
    };
    if range.least > range.most {
        return Err(format!("is {text:?}, a range that nothing can match"));
    }
    Ok(range)
}

fn unexpected(unit: Unit, value: &Value) -> String {
    let found: String = value.to_string().chars().take(80).collect();
    format!("is {found}, expected {}", unit.example())
}

/// A decimal number with some unit.
struct Quantity {
    digits: u128,
    /// Ten to the power of the number of decimals.
    divisor: u128,
    size: u128,
    unit: String,
}

impl Quantity {
    /// Parses `3.84 TB`; `other_unit` is used if the text has none.
    fn parse(unit: Unit, text: &str, other_unit: &str) -> Option<Quantity> {
        let text = text.trim();
        // A number of lanes is written as in `lspci`: x16.
        let text = if unit == Unit::Count { text.strip_prefix('x').unwrap_or(text) } else { text };
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, written) = text.split_at(end);
        let written = match written.trim() {
            "" => other_unit,
            written => written,
        };
        let size = if unit == Unit::Count && written.is_empty() { 1 } else { unit.size(written)? };
        let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
        let is_number = !whole.is_empty() && whole.len() <= 20 && decimals.len() <= 9;
        let has_decimals = !decimals.is_empty() || !number.contains('.');
        let digits = [whole, decimals].concat().parse().ok()?;
        let divisor = 10_u128.pow(u32::try_from(decimals.len()).ok()?.min(9));
        let quantity = Quantity { digits, divisor, size: size.into(), unit: written.to_owned() };
        (is_number && has_decimals).then_some(quantity)
    }

    fn floor(&self) -> u64 {
        u64::try_from(self.digits.saturating_mul(self.size) / self.divisor).unwrap_or(u64::MAX)
    }

    fn ceiling(&self) -> u64 {
        let value = self.digits.saturating_mul(self.size).div_ceil(self.divisor);
        u64::try_from(value).unwrap_or(u64::MAX)
    }

    /// Returns the range that fits an exact value. A size is rounded to its last digit, by no more than the tolerance.
    fn range(&self, unit: Unit) -> Range {
        if !matches!(unit, Unit::Bytes | Unit::DiskBytes) {
            return Range { least: self.ceiling(), most: self.floor() };
        }
        let rounding = self.size.div_ceil(2 * self.divisor);
        let margin = rounding.min(u128::from(self.floor()) / SIZE_TOLERANCE);
        let margin = u64::try_from(margin).unwrap_or(u64::MAX);
        Range {
            least: self.floor().saturating_sub(margin),
            most: self.ceiling().saturating_add(margin),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::kind;
    use serde_json::json;

    fn outcome(unit: Unit, expected: &Value, found: &Value) -> Outcome {
        let mut attributes = crate::kinds::kinds().flat_map(|kind| &kind.attributes);
        let attribute = attributes.find(|a| a.unit == unit).unwrap();
        Condition::parse(attribute, expected).unwrap().check(found)
    }

    #[test]
    fn numbers_are_exact_or_in_a_range_of_their_unit() {
        for (unit, expected, found, is_met) in [
            (Unit::Bytes, "32 GiB", 34_359_738_368_u64, true),
            (Unit::Bytes, "32 GiB", 17_179_869_184, false),
            (Unit::Bytes, "32GiB", 34_359_738_369, true),
            (Unit::DiskBytes, "3.84 TB", 3_840_755_982_336, true),
            (Unit::DiskBytes, "1 TB", 1_000_204_886_016, true),
            (Unit::DiskBytes, "1 TB", 1_200_243_695_616, false),
            (Unit::DiskBytes, ">= 3.5 TB", 3_500_000_000_000, true),
            (Unit::DiskBytes, ">= 3.5 TB", 3_499_999_999_999, false),
            (Unit::DiskBytes, "<= 1 TB", 1_000_204_886_016, false),
            (Unit::DiskBytes, "1..4 TB", 3_840_755_982_336, true),
            (Unit::DiskBytes, "400 GB..1 TB", 480_103_981_056, true),
            (Unit::DiskBytes, "> 1 TB", 1_000_000_000_000, false),
            (Unit::DiskBytes, "< 1 TB", 999_999_999_999, true),
            (Unit::Mbit, "25 Gbit/s", 25_000, true),
            (Unit::Mbit, "25 Gbit/s", 24_999, false),
            (Unit::Transfers, "3200 MT/s", 3200, true),
            (Unit::GigaTransfers, "2.5 GT/s", 25, true),
            (Unit::Count, "x16", 16, true),
            (Unit::Count, "2..4", 5, false),
        ] {
            let expectation = expected;
            let expected = if is_met { Outcome::Met } else { Outcome::Unmet };
            assert_eq!(
                outcome(unit, &json!(expectation), &json!(found)),
                expected,
                "{expectation}"
            );
        }
        assert_eq!(outcome(Unit::Count, &json!(16), &json!(16)), Outcome::Met);
        assert_eq!(outcome(Unit::Flag, &json!(true), &json!(false)), Outcome::Unmet);
    }

    #[test]
    fn value_that_is_absent_is_unknown_and_never_met() {
        for (unit, expected) in [(Unit::Text, json!("*")), (Unit::Count, json!(">= 0"))] {
            assert_eq!(outcome(unit, &expected, &Value::Null), Outcome::Unknown);
        }
    }

    #[test]
    fn any_of_several_values_is_enough_on_both_sides() {
        let expected = json!(["leaf-17 port 1?", "leaf-18 port *"]);
        assert_eq!(outcome(Unit::Text, &expected, &json!("leaf-18 port 3")), Outcome::Met);
        let found = json!(["spine port 1", "leaf-17 port 12"]);
        assert_eq!(outcome(Unit::Text, &expected, &found), Outcome::Met);
        assert_eq!(outcome(Unit::Text, &expected, &json!(["leaf-17 port 2"])), Outcome::Unmet);
    }

    #[test]
    fn value_that_nothing_can_match_or_that_has_no_unit_is_refused() {
        let dimm = kind("dimm").unwrap();
        let refusal = |name: &str, value: Value| {
            Condition::parse(dimm.attribute(name).unwrap(), &value).unwrap_err()
        };
        assert!(refusal("size", json!("64..32 GiB")).contains("nothing can match"));
        assert!(refusal("size", json!([])).contains("nothing can match"));
        assert!(refusal("rank", json!("< 0")).contains("nothing can match"));
        assert!(refusal("size", json!(32)).contains("expected a size, e.g. 32 GiB"));
        for size in ["32 Gib/s", "32", "GiB", "3. GiB", "1.2.3 GiB", "-1 GiB", "", "1e3 GiB"] {
            assert!(refusal("size", json!(size)).contains("expected a size"), "{size}");
        }
        assert!(refusal("part_number", json!(2.1)).contains("write it in quotes"));
        assert!(refusal("part_number", json!({})).contains("expected text"));
        assert!(refusal("part_number", json!("")).contains("remove the line"));
        assert!(refusal("rank", json!("9".repeat(21))).contains("expected a whole number"));
    }

    #[test]
    fn what_is_printed_of_a_value_matches_it() {
        let mut number = 1_u64;
        while number < u64::MAX / 7 {
            for unit in [Unit::Bytes, Unit::DiskBytes, Unit::Count, Unit::Transfers] {
                let text = unit.text(&json!(number));
                assert_eq!(outcome(unit, &json!(text), &json!(number)), Outcome::Met, "{text}");
            }
            number += number / 5 + 1;
        }
    }
}
