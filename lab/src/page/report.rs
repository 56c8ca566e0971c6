//! A report for people: its sections in order, objects as facts, lists of objects as tables.
//!
//! Nothing in it is trusted: depth, rows and values are limited; the JSON has the rest.

use std::cell::Cell;

use askama::Template;
use askama::filters::{HtmlSafe, Safe};
use formats::data;
use serde_json::{Map, Value};

use super::words::{self, cut, heading, scalar};
use crate::store::Document;

const MAX_DEPTH: usize = 6;
const MAX_ROWS: usize = 300;
const MAX_VALUES: usize = 30_000;

/// Sections in the order in which they are shown, separated by blanks; sections that are not listed follow.
const ORDER: &str = "cpu memory topology block network local_addresses pci gpu product chassis baseboard bios firmware \
                     bmc devices os identity problems";

/// Keys that are shown elsewhere or are meaningless to people.
const ELSEWHERE: &str = "findings faults schema_version node_id agent collected_at";

/// Columns of lists, and the line of each section.
const TEXTS: &str = include_str!("report.txt");

/// The report's sections.
#[derive(Template)]
#[template(path = "report.html")]
pub(super) struct Report<'a> {
    document: &'a Document,
    body: &'a Map<String, Value>,
    /// Number of values that the page may still show.
    n_left: Cell<usize>,
}

/// A value of the report, with its key.
#[derive(Template)]
#[template(path = "value.html")]
struct Shown<'a> {
    key: &'a str,
    value: &'a Value,
    depth: usize,
    is_decimal: bool,
    /// True if the value is too deep, or one too many.
    is_cut: bool,
    n_left: &'a Cell<usize>,
}

/// Their templates escape what they print.
impl HtmlSafe for Report<'_> {}

impl<'a> Report<'a> {
    /// `None` for a report that is not an object.
    pub(super) fn of(document: &'a Document) -> Option<Self> {
        let body = document.body.as_object()?;
        Some(Self { document, body, n_left: Cell::new(MAX_VALUES) })
    }

    fn collected(&self) -> Option<String> {
        self.body.get("collected_at").and_then(Value::as_str).map(words::date)
    }

    fn sections(&self) -> impl Iterator<Item = (&'a String, &'a Value)> {
        let named = ORDER.split(' ').filter_map(|name| self.body.get_key_value(name));
        let is_other = |(key, value): &(&String, &Value)| {
            !ORDER.split(' ').chain(ELSEWHERE.split(' ')).any(|known| known == *key)
                && (value.is_object() || value.is_array())
        };
        let all = named.chain(self.body.iter().filter(is_other)).take(80);
        all.filter(|(_, value)| !is_empty(value))
    }

    fn shown(&self, key: &str, value: &Value) -> askama::Result<Safe<String>> {
        render(key, value, 0, key == "block", &self.n_left)
    }
}

/// Shows a value and counts it.
fn render(
    key: &str,
    value: &Value,
    depth: usize,
    is_decimal: bool,
    n_left: &Cell<usize>,
) -> askama::Result<Safe<String>> {
    let is_cut = depth > MAX_DEPTH || n_left.get() == 0;
    n_left.set(n_left.get().saturating_sub(1));
    Shown { key, value, depth, is_decimal, is_cut, n_left }.render().map(Safe)
}

/// Returns true for a section that is open at first.
fn is_open(key: &str) -> bool {
    matches!(key, "memory" | "block" | "network")
}

/// A section in one line.
fn gist(key: &str, value: &Value) -> String {
    match data::lookup(TEXTS, &format!("gist {key}")) {
        Some(line) => words::joined(line.split(" · ").map(|part| filled(part, key, value)), " · "),
        None => value.as_array().map(|list| list.len().to_string()).unwrap_or_default(),
    }
}

/// Fills in a part of such a line: scalars as they are, lists by their length.
fn filled(part: &str, section: &str, value: &Value) -> Option<String> {
    let stem = part.strip_suffix("(s)");
    let mut text = String::new();
    for piece in stem.unwrap_or(part).split_inclusive('}') {
        let (before, name) = piece.split_once('{').unwrap_or((piece, ""));
        text.push_str(before);
        if let Some(name) = name.strip_suffix('}') {
            let n = || value[name].as_array().map(|list| list.len().to_string());
            text += &scalar(name, &value[name], section == "block").or_else(n)?;
        }
    }
    let is_plural = stem.is_some() && !text.starts_with("1 ");
    Some(if is_plural { text + "s" } else { text })
}

impl Shown<'_> {
    /// Shows a value inside of this one.
    fn inner(&self, key: &str, value: &Value) -> askama::Result<Safe<String>> {
        render(key, value, self.depth + 1, self.is_decimal, self.n_left)
    }

    /// A scalar.
    fn one(&self, key: &str, value: &Value) -> String {
        scalar(key, value, self.is_decimal).unwrap_or_default()
    }

    /// Shows a list of scalars in one line.
    fn words(&self, list: &[Value]) -> String {
        let shown = list.iter().take(400).map(|value| match value {
            Value::Array(_) | Value::Object(_) => cut(&value.to_string()),
            value => self.one(self.key, value),
        });
        let separator = if self.key == "flags" { " " } else { ", " };
        let mut text = shown.collect::<Vec<_>>().join(separator);
        if list.len() > 400 {
            text.push_str(" … and more");
        }
        text
    }

    /// Returns true for a list that would fill the page.
    fn is_folded(&self, value: &Value) -> bool {
        is_long(value) || (self.depth > 0 && is_table(value))
    }

    /// Returns the table's rows, until the page is full.
    fn shown_rows<'a>(&self, rows: &'a [Value]) -> impl Iterator<Item = &'a Value> {
        rows.iter().take(MAX_ROWS).take_while(|_| self.n_left.get() > 0)
    }

    /// Returns true if not all rows are shown.
    fn is_short(&self, rows: &[Value]) -> bool {
        rows.len() > MAX_ROWS || self.n_left.get() == 0
    }

    /// Shows an object of scalars in one line.
    fn pairs(&self, value: &Value) -> Option<String> {
        let object = value.as_object()?;
        let known = object.iter().filter(|(_, value)| !value.is_null()).take(12);
        let pairs =
            known.map(|(name, value)| Some(format!("{} {}", heading(name), self.one(name, value))));
        let is_flat = object.values().all(|value| !value.is_object() && !value.is_array());
        is_flat.then(|| words::joined(pairs, ", "))
    }
}

/// Values of an object with their keys.
type Parts<'a> = Vec<(&'a String, &'a Value)>;

/// Returns an object's plain values, and the others.
fn parted(object: &Map<String, Value>) -> (Parts<'_>, Parts<'_>) {
    let is_plain = |value: &Value| !(value.is_object() || is_table(value) || is_long(value));
    object.iter().filter(|(_, value)| !is_empty(value)).partition(|(_, value)| is_plain(value))
}

fn is_table(value: &Value) -> bool {
    words::list(value).iter().any(Value::is_object)
}

/// Returns true for a list of words that would fill a page.
fn is_long(value: &Value) -> bool {
    words::list(value).len() > 24 && !is_table(value)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(object) => object.values().all(is_empty),
        _ => false,
    }
}

/// Returns a row's values that have no column, if there are any.
fn rest(row: &Value, columns: &[String]) -> Option<Value> {
    let row = row.as_object()?.iter();
    let rest = row.filter(|(key, value)| !columns.contains(key) && !is_empty(value));
    let rest: Map<String, Value> = rest.map(|(key, value)| (key.clone(), value.clone())).collect();
    (!rest.is_empty()).then_some(Value::Object(rest))
}

fn has_more(rows: &[Value], columns: &[String]) -> bool {
    rows.iter().take(MAX_ROWS).any(|row| rest(row, columns).is_some())
}

/// Returns a list's columns: the most important ones if they are known, otherwise the first eight plain keys. Empty
/// columns are omitted.
fn columns(key: &str, list: &[Value]) -> Vec<String> {
    let rows = || list.iter().take(MAX_ROWS).filter_map(Value::as_object);
    let is_filled = |column: &str| rows().any(|row| row.get(column).is_some_and(|v| !is_empty(v)));
    let known = data::lookup(TEXTS, &format!("columns {key}")).unwrap_or_default();
    let mut columns: Vec<String> =
        known.split(' ').filter(|column| is_filled(column)).map(str::to_owned).collect();
    if columns.len() < 2 {
        columns.clear();
        for (name, value) in rows().flatten() {
            let is_plain = !value.is_object() && !value.is_array() && !value.is_null();
            if is_plain && columns.len() < 8 && !columns.contains(name) {
                columns.push(name.clone());
            }
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(body: Value) -> String {
        let document = Document { received_at: "2026-11-20T10:00:00Z".to_owned(), body };
        Report::of(&document).map(|report| report.render().unwrap()).unwrap_or_default()
    }

    #[test]
    fn a_dimm_stands_in_a_row_with_its_units() {
        let dimm = json!({"locator": "A1", "size_bytes": 17_179_869_184u64, "speed_mt_s": 3200, "rank": 2});
        let page = shown(json!({"memory": {"n_slots": 1, "dimms": [dimm]}}));
        for part in ["<td>A1</td>", ">16 GiB<", ">3200 MT/s<", "more"] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }

    #[test]
    fn a_report_of_any_depth_and_breadth_gives_a_page_of_bounded_size() {
        let mut deep = json!({"end": 1});
        for _ in 0..100 {
            deep = json!({"a": [deep]});
        }
        assert!(shown(json!({"x": deep})).len() < 20_000);
        assert_eq!(shown(json!([1])), "");
        let row: Map<String, Value> =
            (0..40).map(|n| (format!("k{n}"), json!([{"a": n}]))).collect();
        let rows: Vec<Value> = (0..400).map(|_| Value::Object(row.clone())).collect();
        let page = shown(json!({"x": {"rows": rows}, "y": {"rows": rows}, "z": {"rows": rows}}));
        assert!(page.len() < 20_000_000, "{}", page.len());
    }
}
