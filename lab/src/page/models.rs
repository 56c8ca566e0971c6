//! The page about models: nodes that depart from the others of their model, and part numbers with findings.

use std::collections::BTreeMap;

use askama::Template;
use compare::cohort::{Departure, LEAST, Member, Model, models};
use compare::failing::{Failing, failing};

use super::fleet::hostname;
use super::shell::{html, with_headers};
use super::{shell, words};
use crate::http::{Answer, Refusal, encoded};
use crate::lab::Lab;

/// Maximum number of rows in a table.
const MAX_ROWS: usize = 300;
/// Maximum number of values in a row.
const MAX_VALUES: usize = 8;

#[derive(Template)]
#[template(path = "models.html")]
struct Page<'a> {
    models: Vec<Model<'a>>,
    failing: Vec<Failing>,
    /// Host names by node ID.
    names: BTreeMap<String, String>,
}

/// The page.
pub(super) fn page(lab: &Lab) -> Result<Answer, Refusal> {
    // Before the reports are read, so that a report that arrives meanwhile makes another page.
    let key = lab.store.last_overview()?.to_string();
    lab.models.page(key, || content(lab)).map(with_headers)
}

/// Makes the page from one report after the other: all of them at once may not fit into memory.
fn content(lab: &Lab) -> Result<String, Refusal> {
    let nodes = lab.store.nodes()?;
    let names = nodes.iter().filter_map(|node| Some((node.id.clone(), hostname(node)?))).collect();
    let mut members = Vec::new();
    for node in nodes {
        if let Some(report) = lab.store.last("reports", &node.id)? {
            members.push(Member::of(node.id, &report.body));
        }
    }
    html(&Page { models: models(&members), failing: failing(&members), names })
}

impl Page<'_> {
    /// Returns a node's host name, or its ID.
    fn name<'a>(&'a self, id: &'a str) -> &'a str {
        self.names.get(id).map_or(id, String::as_str)
    }
}

/// Returns the departures to show, grouped by node.
fn by_node<'a>(model: &'a Model<'_>) -> impl Iterator<Item = &'a [Departure<'a>]> {
    let n_shown = model.departures.len().min(MAX_ROWS);
    model.departures[..n_shown].chunk_by(|a, b| a.member.name == b.member.name)
}
