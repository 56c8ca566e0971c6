//! A report for people: its sections in order, objects as facts, lists of objects as tables.
//!
//! Nothing in it is trusted: depth, rows and values are limited; the JSON has the rest.

use std::cell::Cell;

use maud::{Markup, html};
use serde_json::{Map, Value};

use super::words::{cut, date, heading, scalar};
use crate::store::Document;

const MAX_DEPTH: usize = 6;
const MAX_ROWS: usize = 300;
const MAX_VALUES: usize = 30_000;

/// Sections in the order in which they are shown, separated by blanks; sections that are not listed follow.
const ORDER: &str = "cpu memory topology block network local_addresses pci gpu product chassis baseboard bios firmware \
                     bmc devices os identity problems";

/// Keys that are shown elsewhere or are meaningless to people.
const ELSEWHERE: &str = "findings faults schema_version node_id agent collected_at";

/// Columns for the most important lists, separated by blanks; the other keys of a row are shown by "more".
const COLUMNS: [(&str, &str); 12] = [
    (
        "dimms",
        "locator size_bytes kind configured_speed_mt_s speed_mt_s manufacturer part_number serial",
    ),
    (
        "disks",
        "name size_bytes transport rotational model serial wwn eligible not_eligible_because",
    ),
    ("partitions", "number label size_bytes filesystem mounted_at"),
    ("interfaces", "name kind permanent_mac speed_mbit_s has_carrier driver pci_address numa_node"),
    ("packages", "id vendor model_name"),
    ("cores", "id die_id kind logical_cpus base_mhz max_mhz"),
    ("nodes", "id cpus memory_bytes memory_kind distances"),
    ("caches", "level kind size_bytes shared_cpus ways line_bytes"),
    ("addresses", "interface address family scope"),
    ("cards", "address kind name driver numa_node memory_bytes"),
    ("problems", "collector path found expected"),
    ("devices", "address class_name vendor_name device_name driver numa_node link"),
];

/// Number of values that the page may still show.
struct View<'a> {
    n_left: &'a Cell<usize>,
    is_decimal: bool,
}

/// The report's sections.
pub(super) fn sections(report: &Document) -> Markup {
    let n_left = Cell::new(MAX_VALUES);
    let view = View { n_left: &n_left, is_decimal: false };
    let Value::Object(body) = &report.body else { return html! {} };
    let named = ORDER.split(' ').filter_map(|name| body.get_key_value(name));
    let is_other = |(key, value): &(&String, &Value)| {
        !ORDER.split(' ').chain(ELSEWHERE.split(' ')).any(|known| known == *key)
            && (value.is_object() || value.is_array())
    };
    let collected = body.get("collected_at").and_then(Value::as_str).map(date);
    html! {
        section.report aria-labelledby="report" {
            div.line {
                h2 #report { "Report" }
                span.muted {
                    @if let Some(time) = collected { "collected " (time) " · " }
                    "arrived " (date(&report.received_at))
                }
            }
            @for (key, value) in named.chain(body.iter().filter(is_other)).take(80) {
                (section(&view, key, value))
            }
        }
    }
}

fn section(view: &View<'_>, key: &str, value: &Value) -> Markup {
    if is_empty(value) {
        return html! {};
    }
    let view = View { n_left: view.n_left, is_decimal: key == "block" };
    let is_open = matches!(key, "memory" | "block" | "network");
    html! {
        details.section id={ "section-" (key) } open[is_open] {
            summary { h3 { (heading(key)) } span.muted { (gist(key, value)) } }
            div.body { (any(&view, key, value, 0)) }
        }
    }
}

/// A section in one line.
fn gist(key: &str, value: &Value) -> String {
    let text = |name: &str| scalar(name, &value[name], key == "block");
    let n = |name: &str| value[name].as_array().map(Vec::len);
    let parts: Vec<Option<String>> = match key {
        "cpu" => vec![
            text("model_name"),
            text("n_packages").map(|n| counted(&n, "package")),
            text("n_cores").map(|n| counted(&n, "core")),
            text("n_logical_cpus_online").map(|n| counted(&n, "logical CPU")),
        ],
        "memory" => vec![
            text("installed_bytes").map(|size| format!("{size} installed")),
            text("usable_bytes").map(|size| format!("{size} usable")),
            text("n_slots_populated")
                .zip(text("n_slots"))
                .map(|(n, of)| format!("{n} of {of} slots")),
        ],
        "topology" => vec![text("kind"), n("nodes").map(|n| counted(&n.to_string(), "node"))],
        "block" => vec![text("n_disks").map(|n| counted(&n, "disk")), text("physical_bytes")],
        "network" => vec![n("interfaces").map(|n| counted(&n.to_string(), "interface"))],
        "local_addresses" => vec![n("addresses").map(|n| format!("{n} in use"))],
        "pci" => vec![text("n_devices").map(|n| counted(&n, "device"))],
        "gpu" => vec![n("cards").map(|n| counted(&n.to_string(), "card"))],
        "product" | "chassis" | "baseboard" => {
            vec![text("vendor"), text("name").or_else(|| text("product")), text("serial")]
        }
        "bios" => vec![text("vendor"), text("version"), text("date")],
        "firmware" => vec![text("boot_mode")],
        "os" => vec![text("distribution"), text("kernel")],
        _ => vec![value.as_array().map(|list| list.len().to_string())],
    };
    parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

/// `1 disk`, `2 disks`.
fn counted(n: &str, name: &str) -> String {
    format!("{n} {name}{}", if n == "1" { "" } else { "s" })
}

/// Any value.
fn any(view: &View<'_>, key: &str, value: &Value, depth: usize) -> Markup {
    let n_left = view.n_left.get();
    if depth > MAX_DEPTH || n_left == 0 {
        return html! { span.muted { "… (in the JSON)" } };
    }
    view.n_left.set(n_left - 1);
    match value {
        Value::Object(object) => facts(view, object, depth),
        Value::Array(list) if list.iter().any(Value::is_object) => table(view, key, list, depth),
        Value::Array(list) => html! { span.list { (words(view, key, list)) } },
        scalar => html! { (one(view, key, scalar)) },
    }
}

/// A scalar.
fn one(view: &View<'_>, key: &str, value: &Value) -> String {
    scalar(key, value, view.is_decimal).unwrap_or_default()
}

/// Shows a list of scalars in one line.
fn words(view: &View<'_>, key: &str, list: &[Value]) -> String {
    let shown = list.iter().take(400).map(|value| match value {
        Value::Array(_) | Value::Object(_) => cut(&value.to_string()),
        value => one(view, key, value),
    });
    let mut text = shown.collect::<Vec<_>>().join(if key == "flags" { " " } else { ", " });
    if list.len() > 400 {
        text.push_str(" … and more");
    }
    text
}

/// An object: plain values next to each other, the others below, each with a heading.
fn facts(view: &View<'_>, object: &Map<String, Value>, depth: usize) -> Markup {
    let is_plain = |value: &Value| !(value.is_object() || is_table(value) || is_long(value));
    let (plain, nested): (Vec<_>, Vec<_>) =
        object.iter().filter(|(_, value)| !is_empty(value)).partition(|(_, value)| is_plain(value));
    html! {
        @if !plain.is_empty() {
            dl.facts { @for (key, value) in plain.into_iter().take(MAX_ROWS) {
                div { dt { (heading(key)) } dd { (any(view, key, value, depth + 1)) } }
            } }
        }
        @for (key, value) in nested.into_iter().take(MAX_ROWS) {
            @if is_long(value) || (depth > 0 && is_table(value)) {
                details.inner {
                    summary { (heading(key)) " (" (n_parts(value)) ")" }
                    (any(view, key, value, depth + 1))
                }
            } @else {
                h4 { (heading(key)) }
                (any(view, key, value, depth + 1))
            }
        }
    }
}

fn n_parts(value: &Value) -> usize {
    value.as_array().map_or(1, Vec::len)
}

fn is_table(value: &Value) -> bool {
    value.as_array().is_some_and(|list| list.iter().any(Value::is_object))
}

/// Returns true for a list of words that would fill a page.
fn is_long(value: &Value) -> bool {
    value.as_array().is_some_and(|list| list.len() > 24 && !list.iter().any(Value::is_object))
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(object) => object.values().all(is_empty),
        _ => false,
    }
}

/// A list of objects.
fn table(view: &View<'_>, key: &str, list: &[Value], depth: usize) -> Markup {
    let columns = columns(key, list);
    let has_more = |row: &Value| rest(row, &columns).next().is_some();
    let has_more = list.iter().take(MAX_ROWS).any(has_more);
    html! {
        div.scroll tabindex="0" { table {
            thead { tr {
                @for column in &columns { th scope="col" { (heading(column)) } }
                @if has_more { th scope="col" { span.hidden { "More" } } }
            } }
            tbody { @for row in list.iter().take(MAX_ROWS).take_while(|_| view.n_left.get() > 0) {
                @let is_slot = key == "dimms" && row["size_bytes"].is_null();
                tr {
                    @for column in &columns {
                        td {
                            @if is_slot && column == "size_bytes" { span.muted { "empty" } }
                            (cell(view, column, &row[column.as_str()], depth))
                        }
                    }
                    @if has_more { td { (more(view, row, &columns, depth)) } }
                }
            } }
        } }
        @if list.len() > MAX_ROWS || view.n_left.get() == 0 {
            p.muted { "… all " (list.len()) " are in the JSON" }
        }
    }
}

fn cell(view: &View<'_>, key: &str, value: &Value, depth: usize) -> Markup {
    match value {
        Value::Bool(true) if key == "eligible" => html! { span.yes { "yes" } },
        Value::Bool(true) => html! { "yes" },
        Value::Bool(false) => html! { span.muted { "no" } },
        Value::Object(object) if object.values().all(|v| !v.is_object() && !v.is_array()) => {
            let pairs = object.iter().filter(|(_, value)| !value.is_null()).take(12);
            let pairs: Vec<String> = pairs
                .map(|(name, value)| format!("{} {}", heading(name), one(view, name, value)))
                .collect();
            html! { (pairs.join(", ")) }
        }
        value if is_empty(value) => html! {},
        Value::Number(_) => html! { span.short { (any(view, key, value, depth + 1)) } },
        value => any(view, key, value, depth + 1),
    }
}

/// Shows a row's values that have no column.
fn more(view: &View<'_>, row: &Value, columns: &[String], depth: usize) -> Markup {
    let rest: Map<String, Value> =
        rest(row, columns).map(|(key, value)| (key.clone(), value.clone())).collect();
    html! {
        @if !rest.is_empty() {
            details.more { summary { "more" } (facts(view, &rest, depth + 1)) }
        }
    }
}

fn rest<'a>(
    row: &'a Value,
    columns: &'a [String],
) -> impl Iterator<Item = (&'a String, &'a Value)> {
    let row = row.as_object().into_iter().flatten();
    row.filter(|(key, value)| !columns.contains(key) && !is_empty(value))
}

/// Returns a list's columns: the most important ones if they are known, otherwise the first eight plain keys. Empty
/// columns are omitted.
fn columns(key: &str, list: &[Value]) -> Vec<String> {
    let rows = || list.iter().take(MAX_ROWS).filter_map(Value::as_object);
    let is_filled = |column: &str| rows().any(|row| row.get(column).is_some_and(|v| !is_empty(v)));
    let known = COLUMNS.iter().find(|(name, _)| *name == key);
    let mut columns: Vec<String> = known
        .into_iter()
        .flat_map(|(_, columns)| columns.split(' '))
        .filter(|column| is_filled(column))
        .map(str::to_owned)
        .collect();
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
        sections(&Document { received_at: "2026-11-20T10:00:00Z".to_owned(), body }).into_string()
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
        let row: Map<String, Value> =
            (0..40).map(|n| (format!("k{n}"), json!([{"a": n}]))).collect();
        let rows: Vec<Value> = (0..400).map(|_| Value::Object(row.clone())).collect();
        let page = shown(json!({"x": {"rows": rows}, "y": {"rows": rows}, "z": {"rows": rows}}));
        assert!(page.len() < 20_000_000, "{}", page.len());
    }

    #[test]
    fn a_report_that_is_no_object_gives_no_sections() {
        assert_eq!(shown(json!([1])), "");
    }
}
