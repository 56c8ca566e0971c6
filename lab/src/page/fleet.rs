//! The first page: every node with its stage, progress and findings, and the files that this VIM serves.

use askama::Template;
use serde_json::Value;

use super::job::{Severity, Standing, findings, severity, standing};
use super::shell::{html, with_headers};
use super::{job, shell, words};
use crate::faults::Fault;
use crate::http::{Answer, Refusal, encoded};
use crate::lab::Lab;
use crate::store::Node;

#[derive(Template)]
#[template(path = "fleet.html")]
struct Page<'a> {
    base: &'a str,
    faults: Vec<Fault>,
    n_nodes: usize,
    groups: Vec<Group<'a>>,
    instruction: Option<String>,
    ignition: Option<String>,
    /// Paths and sizes.
    files: Vec<(String, String)>,
    has_ca: bool,
}

/// Nodes in the same state.
struct Group<'a> {
    tone: &'static str,
    title: &'static str,
    cards: Vec<Card<'a>>,
}

/// The tone and name of each group, in order: nodes that need a person come first.
const GROUPS: [(&str, &str); 4] =
    [("bad", "to look at"), ("busy", "at work"), ("idle", "waiting"), ("good", "installed")];

/// A node in the list.
struct Card<'a> {
    node: &'a Node,
    standing: Standing,
    findings: Vec<&'a Value>,
}

/// The page.
pub(super) fn page(lab: &Lab, base: &str) -> Result<Answer, Refusal> {
    // The revision first, so that a change meanwhile makes another page.
    let files = lab.shelf.list();
    let revision = *lab.store.changes().borrow();
    let key = format!("{revision} {:?} {files:?} {base}", lab.faults.left());
    lab.fleet.page(key, || content(lab, base, files)).map(with_headers)
}

fn content(lab: &Lab, base: &str, files: Vec<(String, u64)>) -> Result<String, Refusal> {
    let nodes = lab.store.nodes()?;
    let sized = |(path, n_bytes)| (path, words::bytes(n_bytes, true));
    // Every request waits for the lock.
    let faults = lab.faults.left().clone();
    html(&Page {
        base,
        faults,
        n_nodes: nodes.len(),
        groups: grouped(&nodes),
        instruction: lab.store.setting("default", "instruction")?,
        ignition: lab.store.setting("default", "ignition")?,
        files: files.into_iter().map(sized).collect(),
        has_ca: lab.ca_pem.is_some(),
    })
}

/// Returns the nodes in their groups, by name.
fn grouped(nodes: &[Node]) -> Vec<Group<'_>> {
    let card = |node| Card { node, standing: standing(node), findings: findings(node) };
    let mut cards: Vec<Card<'_>> = nodes.iter().map(card).collect();
    cards.sort_by_cached_key(|card| (name(card.node), card.node.id.clone()));
    let group = |(tone, title)| {
        let cards = cards.extract_if(.., |card| card.group() == tone).collect();
        Group { tone, title, cards }
    };
    GROUPS.map(group).into()
}

impl Card<'_> {
    /// Returns the group. A critical finding puts a node that waits or is installed among those to look at.
    fn group(&self) -> &'static str {
        match self.standing.tone {
            "warn" => "bad",
            "idle" | "good" if self.worst().is_some() => "bad",
            tone => tone,
        }
    }

    /// Returns the class for the colour.
    fn tone(&self) -> &'static str {
        if self.standing.tone == "warn" { "warn" } else { self.group() }
    }

    /// Returns the first critical finding.
    fn worst(&self) -> Option<&Value> {
        self.findings.first().copied().filter(|finding| severity(finding).word == "critical")
    }

    /// Returns the finding to show in the list: a result has a message of its own.
    fn blocking(&self) -> Option<&Value> {
        self.worst().filter(|_| self.node.result.is_none())
    }

    fn count(&self, of: &Severity) -> usize {
        self.findings.iter().filter(|finding| severity(finding).word == of.word).count()
    }
}

/// The host name; without one the machine's name, then the id.
pub(super) fn name(node: &Node) -> String {
    let product = || words::named("", &node.report.as_ref()?.body["product"]["name"]);
    hostname(node).or_else(product).unwrap_or_else(|| node.id.clone())
}

/// The host name, unless the system has only the name that every system has.
pub(super) fn hostname(node: &Node) -> Option<String> {
    let name = node.report.as_ref()?.body["os"]["hostname"].as_str()?;
    let is_name = !["", "localhost", "localhost.localdomain"].contains(&name);
    is_name.then(|| words::cut(name))
}

/// The machine in a line: vendor, product, CPUs, memory, disks, and the serial number by which it is found in the rack.
pub(super) fn machine(report: &Value) -> String {
    let product = &report["product"];
    let maker = words::joined(["vendor", "name"].map(|key| words::named("", &product[key])), " ");
    let (memory, block) = (&report["memory"], &report["block"]);
    let memory = memory["installed_bytes"].as_u64().or(memory["usable_bytes"].as_u64());
    let size = block["physical_bytes"].as_u64();
    let size = size.map_or_else(String::new, |n| format!(", {}", words::bytes(n, true)));
    let disks = |n| format!("{n} disk{}{size}", if n == 1 { "" } else { "s" });
    let parts = [
        Some(maker).filter(|maker| !maker.is_empty()),
        report["cpu"]["n_logical_cpus_online"].as_u64().map(|n| format!("{n} CPUs")),
        memory.map(|n| words::bytes(n, false)),
        block["n_disks"].as_u64().map(disks),
        words::named("serial ", &product["serial"]),
    ];
    words::joined(parts, " · ")
}
