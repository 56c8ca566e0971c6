//! The page about models: nodes that depart from the others of their model, and part numbers with findings.

use std::collections::BTreeMap;

use compare::cohort::{Departure, LEAST, Member, Model, models};
use compare::failing::{Failing, failing};
use maud::{Markup, html};

use super::fleet::hostname;
use super::shell::{document, with_headers};
use super::words::cut;
use crate::http::{Answer, Refusal, encoded};
use crate::lab::Lab;
use crate::store::Node;

/// Maximum number of rows in a table.
const MAX_ROWS: usize = 300;
/// Maximum number of values in a row.
const MAX_VALUES: usize = 8;

/// The page.
pub(super) fn page(lab: &Lab) -> Result<Answer, Refusal> {
    // Before the reports are read, so that a report that arrives meanwhile makes another page.
    let key = lab.store.revision_of_reports().to_string();
    lab.models.page(key, || content(lab)).map(with_headers)
}

/// Makes the page from one report after the other: all of them at once may not fit into memory.
fn content(lab: &Lab) -> Result<String, Refusal> {
    let nodes = lab.store.nodes()?;
    let names: BTreeMap<String, String> =
        nodes.iter().map(|node| (node.id.clone(), host(node))).collect();
    let mut members = Vec::new();
    for node in nodes {
        if let Some(report) = lab.store.last_report(&node.id)? {
            members.push(Member::of(node.id, &report.body));
        }
    }
    let (models, failing) = (models(&members), failing(&members));
    let content = html! {
        div.head { h1 { "Models" } }
        @if models.is_empty() { section.empty { h2 { "No node has reported yet" } } }
        @for model in &models { (section(model, &names)) }
        @if !failing.is_empty() { (part_numbers(&failing)) }
    };
    Ok(document("Models", Some("Models"), &content))
}

/// Returns a node's host name, or its ID.
fn host(node: &Node) -> String {
    hostname(node).unwrap_or_else(|| node.id.clone())
}

fn section(model: &Model<'_>, names: &BTreeMap<String, String>) -> Markup {
    html! {
        section.panel {
            h2 { (cut(model.title.as_deref().unwrap_or("Unknown model"))) }
            @if model.title.is_none() {
                p.muted { "Nodes: " (model.n_machines) ". Without a maker and a model they are not compared." }
            } @else if !model.has_norm() {
                p.muted { "Nodes: " (model.n_machines) ". A norm needs " (LEAST) "." }
            } @else if model.departures.is_empty() {
                p { "Nodes: " (model.n_machines) ". None departs from the others." }
            } @else {
                p { "Nodes: " (model.n_machines) ". What differs from most of them:" }
                div.scroll tabindex="0" { table {
                    thead { tr { th { "Node" } th { "Part" } th { "Found, and the norm" } } }
                    tbody { @for of_node in by_node(model) { @for (at, one) in of_node.iter().enumerate() { tr {
                        @if at == 0 {
                            td rowspan=[(of_node.len() > 1).then_some(of_node.len())] { (link(&one.member.name, names)) }
                        }
                        td { (cut(&one.part)) }
                        td { (cut(&one.what())) }
                    } } } }
                } }
                (rest(model.departures.len(), MAX_ROWS))
            }
            @for (name, kinds) in model.not_compared.iter().take(MAX_ROWS) {
                p { "Not compared: " (link(name, names)) ", no data of " (cut(&kinds.join(", "))) }
            }
            @if !model.varied.is_empty() {
                details {
                    summary { "Without a norm (" (model.varied.len()) ")" }
                    ul { @for one in model.varied.iter().take(MAX_ROWS) { li {
                        (cut(&one.what)) ": "
                        @for (value, n) in one.values.iter().take(MAX_VALUES) { code { (cut(value)) } " (" (n) ") " }
                        (rest(one.values.len(), MAX_VALUES))
                    } } }
                    (rest(model.varied.len(), MAX_ROWS))
                }
            }
        }
    }
}

/// Returns the departures to show, grouped by node.
fn by_node<'a>(model: &'a Model<'_>) -> impl Iterator<Item = &'a [Departure<'a>]> {
    let n_shown = model.departures.len().min(MAX_ROWS);
    model.departures[..n_shown].chunk_by(|a, b| a.member.name == b.member.name)
}

/// Shows a node's name, as a link to its page.
fn link(id: &str, names: &BTreeMap<String, String>) -> Markup {
    let name = names.get(id).map_or(id, String::as_str);
    html! { a href={ "/nodes/" (encoded(id)) } title=(id) { (cut(name)) } }
}

fn part_numbers(failing: &[Failing]) -> Markup {
    html! {
        section.panel {
            h2 { "Parts with findings, by part number" }
            div.scroll tabindex="0" { table {
                thead { tr { th { "Part number" } th { "Kind" } th { "Parts" } th { "Nodes" } th { "Findings" } } }
                tbody { @for one in failing.iter().take(MAX_ROWS) { tr {
                    td { code { (cut(&one.part_number)) } }
                    td { (one.kind.title()) }
                    td { (one.n_failing) " of " (one.n_parts) }
                    td { (one.n_machines) }
                    td { @for code in &one.codes { code { (cut(code)) } " " } }
                } } }
            } }
            (rest(failing.len(), MAX_ROWS))
        }
    }
}

/// Counts the omitted items where `most` of `n` are shown.
fn rest(n: usize, most: usize) -> Markup {
    html! { @if n > most { span.muted { "… and " (n - most) " more" } } }
}
