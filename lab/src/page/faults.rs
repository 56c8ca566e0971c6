//! The faults of a node: which part to replace, where it is, how certain that is, and what every source observed.

use maud::{Markup, html};
use serde_json::Value;

use super::job::severity;
use super::words::cut;
use crate::store::Node;

/// Faults, suspects and sources that are shown; the JSON has the rest.
const MAX_FAULTS: usize = 50;
const MAX_SUSPECTS: usize = 8;
const MAX_SOURCES: usize = 20;

/// The faults of the last report; nothing if there are none.
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
                p.advice { code { (text(&fault["class"])) } }
                @if suspects.is_empty() { p.advice { strong { "The part is not known" } } }
                @for suspect in suspects.iter().take(MAX_SUSPECTS) { (part(suspect)) }
                @if n_more > 0 { p { "and " (n_more) " more" } }
                @for source in list(Some(&fault["evidence"])).iter().take(MAX_SOURCES) {
                    p { (text(&source["source"])) ": " (text(&source["observed"])) }
                }
                @if fault["advice"].is_string() {
                    p.advice { strong { "To do: " } (text(&fault["advice"])) }
                }
            }
        }
    }
}

/// A suspect: certainty, part, place, and what is printed on it.
fn part(suspect: &Value) -> Markup {
    let known =
        |name: &str, value: &Value| value.as_str().map(|value| format!("{name}{}", cut(value)));
    let unit = &suspect["fru"];
    let printed = [
        known("in ", &suspect["label"]),
        known("", &unit["manufacturer"]),
        known("", &unit["model"]),
        known("part ", &unit["part_number"]),
        known("serial ", &unit["serial"]),
    ];
    html! {
        p.advice {
            strong { (text(&suspect["part"])) }
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
