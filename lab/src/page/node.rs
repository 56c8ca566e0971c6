//! A node's page: state, result and proof, faults, findings, timeline, report.

use askama::Template;
use serde_json::Value;

use super::job::{Standing, findings, standing};
use super::report::Report;
use super::shell::{html, with_headers};
use super::{fleet, job, load, shell, words};
use crate::http::{Answer, Refusal, Request, encoded, unserved};
use crate::lab::Lab;
use crate::netboot::{self, Boot};
use crate::store::{Document, Node};

/// Faults, suspects and sources that are shown; the JSON has the rest.
const MAX_FAULTS: usize = 50;
const MAX_SUSPECTS: usize = 8;
const MAX_SOURCES: usize = 20;

#[derive(Template)]
#[template(path = "node.html")]
struct Page<'a> {
    node: &'a Node,
    name: String,
    /// The ID as a part of an address.
    link: String,
    standing: Standing,
    boot: Result<Option<Boot>, Refusal>,
    faults: Vec<&'a Value>,
    /// Those that no fault explains.
    findings: Vec<&'a Value>,
    n_findings: usize,
    load: Option<load::Form<'a>>,
    /// Each with true if the node booted again before it.
    events: Vec<(&'a Document, bool)>,
    report: Option<Report<'a>>,
}

/// The page.
pub(super) fn page(lab: &Lab, request: &Request, id: &str) -> Result<Answer, Refusal> {
    let node = lab.store.node(id)?.ok_or_else(unserved)?;
    let events = lab.store.events(id, 2000)?;
    let standing = standing(&node);
    let faults = node.report.as_ref().map_or(&[][..], |last| words::list(&last.body["faults"]));
    let faults: Vec<&Value> = faults.iter().take(MAX_FAULTS).collect();
    let mut findings = findings(&node);
    let n_findings = findings.len();
    findings.retain(|finding| !faults.iter().any(|fault| explains(fault, finding)));
    let page = Page {
        node: &node,
        name: fleet::name(&node),
        link: encoded(id),
        boot: netboot::of_node(lab, &node),
        faults,
        findings,
        n_findings,
        load: load::form(lab, &node, &standing, request)?,
        standing,
        events: moments(&events),
        report: node.report.as_ref().and_then(Report::of),
    };
    Ok(with_headers(html(&page)?.into()))
}

/// Returns what was found on the disk before the write.
fn existing(found: &Value) -> String {
    let item =
        |item: &Value| Some(words::named("", &item["name"])? + &words::named(": ", &item["what"])?);
    words::joined(words::list(found).iter().take(32).map(item), ", ")
}

fn disk(disk: &Value) -> String {
    let parts = [
        words::named("", &disk["device"]),
        disk["size_bytes"].as_u64().map(|n| words::bytes(n, true)),
        words::named("serial ", &disk["serial"]),
        words::named("WWN ", &disk["wwn"]),
    ];
    words::joined(parts, ", ")
}

/// Returns what was observed of a fault.
fn sources(fault: &Value) -> impl Iterator<Item = &Value> {
    words::list(&fault["evidence"]).iter().take(MAX_SOURCES)
}

/// Returns true if a fault has this finding as its evidence.
fn explains(fault: &Value, finding: &Value) -> bool {
    sources(fault).any(|source| {
        source["finding"] == finding["code"]
            && source["locator"] == finding["locator"]
            && source["observed"] == finding["evidence"]
    })
}

/// Returns the label of a suspect's place, unless it is in the part's name, as that of a slot often is.
fn label(suspect: &Value) -> Option<&Value> {
    let (part, label) = (suspect["part"].as_str().unwrap_or_default(), &suspect["label"]);
    label.as_str().is_some_and(|label| !part.contains(label)).then_some(label)
}

/// Returns the events, but only the last of consecutive progress events. A sequence that starts again means a new boot.
fn moments(events: &[Document]) -> Vec<(&Document, bool)> {
    let sequence = |event: &Document| event.body["sequence"].as_u64();
    let is_progress = |event: &Document| event.body["state"] == "progress";
    let is_repeated = |event: &Document, next: &Document| {
        is_progress(event) && is_progress(next) && event.body["stage"] == next.body["stage"]
    };
    let shown = events
        .iter()
        .enumerate()
        .filter(|(at, event)| events.get(at + 1).is_none_or(|next| !is_repeated(event, next)));
    let is_boot = |at: usize| at > 0 && sequence(&events[at]) <= sequence(&events[at - 1]);
    shown.map(|(at, event)| (event, is_boot(at))).collect()
}
