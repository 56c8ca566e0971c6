//! A node's faults: the part to replace, its place, the certainty, and the observation of every source.

use maud::{Markup, html};
use serde_json::Value;

use super::job::severity;
use super::words::cut;
use crate::store::Node;

/// Faults, suspects and sources that are shown; the JSON has the rest.
const MAX_FAULTS: usize = 50;
const MAX_SUSPECTS: usize = 8;
const MAX_SOURCES: usize = 20;

/// Shows the last report's faults; nothing if there are none.
pub(super) fn panel(node: &Node) -> Markup {
    let faults = list(node.report.as_ref().map(|report| &report.body["faults"]));
    html! {
        @if !faults.is_empty() {
            section.panel aria-labelledby="faults" {
                h2 #faults { "Faults" }
                ul.findings { @for fault in faults.iter().take(MAX_FAULTS) { (one(fault)) } }
            }
        }
    }
}

fn one(fault: &Value) -> Markup {
    let (class, sign, word) = severity(fault);
    let suspects = list(Some(&fault["suspects"]));
    let n_more = suspects.len().saturating_sub(MAX_SUSPECTS);
    html! {
        li.(class) {
            span.chip.(class) { span aria-hidden="true" { (sign) } " " (word) }
            div {
                @if suspects.is_empty() { p.part { strong { "The part is not known" } } }
                @for suspect in suspects.iter().take(MAX_SUSPECTS) { (part(suspect)) }
                @if n_more > 0 { p { "and " (n_more) " more" } }
                @for source in list(Some(&fault["evidence"])).iter().take(MAX_SOURCES) {
                    p { (text(&source["source"])) ": " (text(&source["observed"])) }
                }
                p { code { (text(&fault["class"])) } }
                @if fault["advice"].is_string() {
                    p.advice { strong { "To do: " } (text(&fault["advice"])) }
                }
            }
        }
    }
}

/// Returns true if a shown fault has this finding as its evidence.
pub(super) fn explains(node: &Node, finding: &Value) -> bool {
    let faults = list(node.report.as_ref().map(|report| &report.body["faults"]));
    let mut evidence = faults
        .iter()
        .take(MAX_FAULTS)
        .flat_map(|fault| list(Some(&fault["evidence"])).iter().take(MAX_SOURCES));
    evidence.any(|source| {
        source["finding"] == finding["code"]
            && source["locator"] == finding["locator"]
            && source["observed"] == finding["evidence"]
    })
}

/// Shows a suspect: certainty, part, place, and label.
fn part(suspect: &Value) -> Markup {
    let known =
        |name: &str, value: &Value| value.as_str().map(|value| format!("{name}{}", cut(value)));
    let unit = &suspect["fru"];
    // The name of a slot is often its label.
    let part = text(&suspect["part"]);
    let label = known("in ", &suspect["label"]).filter(|label| !part.contains(&label[3..]));
    let printed = [
        label,
        known("", &unit["manufacturer"]),
        known("", &unit["model"]),
        known("part ", &unit["part_number"]),
        known("serial ", &unit["serial"]),
    ];
    html! {
        p.part {
            strong { (part) }
            @for word in printed.iter().flatten() { ", " (word) }
            @if let Some(percent) = suspect["certainty_percent"].as_u64() {
                span.muted { " · " (percent) " % certain" }
            }
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().map(cut).unwrap_or_default()
}

fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
