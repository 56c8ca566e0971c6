//! The first page: every node with its stage, progress and findings, and the files that this VIM serves.

use maud::{Markup, html};
use serde_json::Value;

use super::job::{findings, place, severity, standing};
use super::shell::{document, with_headers};
use super::words;
use crate::http::{Answer, Refusal, encoded};
use crate::lab::Lab;
use crate::store::Node;

/// The page.
pub(super) fn page(lab: &Lab, base: &str) -> Result<Answer, Refusal> {
    // The revision first, so that a change meanwhile makes another page.
    let files = lab.shelf.list();
    let key = format!("{} {:?} {files:?} {base}", lab.store.revision(), lab.faults.left());
    lab.fleet.page(key, || content(lab, base)).map(with_headers)
}

fn content(lab: &Lab, base: &str) -> Result<String, Refusal> {
    let nodes = lab.store.nodes()?;
    let content = html! {
        (planned_faults(lab))
        (totals(&nodes))
        @if nodes.is_empty() { (empty(base)) } @else {
            @for group in &GROUPS { (grouped(group, &nodes)) }
        }
        (handed_out(lab)?)
    };
    Ok(document("Lab VIM", None, &content))
}

fn planned_faults(lab: &Lab) -> Markup {
    let faults = lab.faults.left();
    html! {
        @if !faults.is_empty() {
            aside.note.warn {
                strong { "Failing on purpose" }
                ": faults planned for the next answers: "
                @for fault in faults.iter().take(5) {
                    code { (fault.route) ": " (format!("{:?}", fault.kind).to_lowercase()) } " "
                }
            }
        }
    }
}

fn totals(nodes: &[Node]) -> Markup {
    html! {
        div.head {
            h1 { "Nodes" }
            @if !nodes.is_empty() {
                a href="/models" { "Compare nodes by model" }
                dl.totals {
                    @for group in &GROUPS {
                        @let n = nodes.iter().filter(|node| tone(node) == group.0).count();
                        div.(group.0).none[n == 0] { dt { (group.1) } dd { (n) } }
                    }
                }
            }
        }
    }
}

/// The tone and name of each group, in order: nodes that need a person come first.
const GROUPS: [(&str, &str); 4] =
    [("bad", "to look at"), ("busy", "at work"), ("idle", "waiting"), ("good", "installed")];

/// Returns a node's group. A critical finding puts a node that waits or is installed among those to look at.
fn tone(node: &Node) -> &'static str {
    match standing(node).tone {
        "warn" => "bad",
        "idle" | "good" if worst(node).is_some() => "bad",
        tone => tone,
    }
}

/// The first critical finding.
fn worst(node: &Node) -> Option<&Value> {
    findings(node).into_iter().next().filter(|finding| severity(finding).2 == "critical")
}

/// Shows the nodes in a group, by name.
fn grouped((class, title): &(&str, &str), nodes: &[Node]) -> Markup {
    let mut nodes: Vec<&Node> = nodes.iter().filter(|node| tone(node) == *class).collect();
    nodes.sort_by_cached_key(|node| (name(node), node.id.clone()));
    html! {
        @if !nodes.is_empty() {
            section.group.(class) aria-label=(title) {
                h2 { (words::heading(title)) }
                ul.nodes { @for node in nodes { li { (card(node)) } } }
            }
        }
    }
}

fn card(node: &Node) -> Markup {
    let standing = standing(node);
    let tone = if tone(node) == "bad" && standing.tone != "warn" { "bad" } else { standing.tone };
    let worst = worst(node).filter(|_| node.result.is_none());
    let report = node.report.as_ref().map(|report| &report.body);
    html! {
        a.card.(tone) href={ "/nodes/" (encoded(&node.id)) } {
            div.who {
                strong { (name(node)) }
                code { (node.id) }
                @if let Some(report) = report { span.muted { (machine(report)) } }
            }
            div.how {
                div.line { (standing.pill()) span.percent { (standing.percent) " %" } }
                (standing.bar())
                @if let Some(message) = &standing.message { p.muted { (message) } }
                @if let Some(finding) = worst {
                    p.worst.bad { strong { (place(finding)) } ": " (finding["evidence"].as_str().map(words::cut).unwrap_or_default()) }
                }
            }
            div.what {
                (severities(node))
                span.muted { "last contact " time datetime=(node.last_seen) { (words::clock(&node.last_seen)) } " UTC" }
            }
        }
    }
}

/// The host name; without one the machine's name, then the id.
pub(super) fn name(node: &Node) -> String {
    let product = || {
        let name = &node.report.as_ref()?.body["product"]["name"];
        name.as_str().filter(|text| !text.is_empty()).map(words::cut)
    };
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
    let text = |value: &Value| value.as_str().map(words::cut);
    let mut parts: Vec<String> = Vec::new();
    let maker = [text(&report["product"]["vendor"]), text(&report["product"]["name"])];
    let maker: Vec<String> = maker.into_iter().flatten().collect();
    if !maker.is_empty() {
        parts.push(maker.join(" "));
    }
    if let Some(n) = report["cpu"]["n_logical_cpus_online"].as_u64() {
        parts.push(format!("{n} CPUs"));
    }
    let memory = &report["memory"];
    if let Some(n) = memory["installed_bytes"].as_u64().or(memory["usable_bytes"].as_u64()) {
        parts.push(words::bytes(n, false));
    }
    if let Some(n) = report["block"]["n_disks"].as_u64() {
        let size = report["block"]["physical_bytes"].as_u64();
        let size = size.map_or_else(String::new, |n| format!(", {}", words::bytes(n, true)));
        parts.push(format!("{n} {}{size}", if n == 1 { "disk" } else { "disks" }));
    }
    if let Some(serial) = text(&report["product"]["serial"]) {
        parts.push(format!("serial {serial}"));
    }
    parts.join(" · ")
}

/// Counts the findings by severity.
fn severities(node: &Node) -> Markup {
    let findings = findings(node);
    let count = |name: &str| findings.iter().filter(|finding| severity(finding).2 == name).count();
    html! {
        span.chips {
            @for (class, sign, name) in
                [("bad", "▲", "critical"), ("warn", "◆", "warning"), ("info", "●", "info")]
            {
                @let n = count(name);
                @if n > 0 {
                    @let plural = if n > 1 && name == "warning" { "s" } else { "" };
                    span.chip.(class) { span aria-hidden="true" { (sign) } " " (n) " " (name) (plural) }
                }
            }
            @if findings.is_empty() { span.chip.idle { "no findings" } }
        }
    }
}

fn empty(base: &str) -> Markup {
    // The agent uses plain HTTP only with this option.
    let is_plain = base.starts_with("http://");
    let (option, argument) =
        if is_plain { (" --allow-plain-http", " rci.allow_plain_http") } else { ("", "") };
    html! {
        section.empty {
            h2 { "No node has reported yet" }
            p { "Point the agent at this VIM; the node then appears here." }
            dl {
                dt { "By hand, on a running machine" }
                dd { code { "run-coreos-installer report --vim " (base) (option) } }
                dt { "In the live image, by kernel argument" }
                dd { code { "rci.vim=" (base) (argument) } }
                dt { "Where the node then posts" }
                dd { code { "POST " (base) "/v1/reports" } " (" a href="/openapi.json" { "API" } ")" }
            }
        }
    }
}

/// Explains signs and colours.
fn legend() -> Markup {
    let signs = [
        (
            "bad",
            "▲ critical",
            "a part is broken; blocks an install unless the instruction allows it",
        ),
        ("warn", "◆ warning", "a part is about to fail, or is not what it should be"),
        ("info", "● info", "worth knowing"),
        (
            "bad",
            "blocked",
            "nothing was written because of a finding; the node asks again every minute",
        ),
        ("bad", "refused", "the instruction cannot be carried out; nothing was written"),
        ("bad", "failed", "the disk may be half written"),
        ("warn", "installed, not proven", "the disk was written, but what was read back differs"),
    ];
    html! {
        details #legend {
            summary { "What the signs mean" }
            dl.legend { @for (class, sign, meaning) in signs {
                div { dt { span.chip.(class) { (sign) } } dd { (meaning) } }
            } }
        }
    }
}

/// The answer to nodes, and the served files.
fn handed_out(lab: &Lab) -> Result<Markup, Refusal> {
    let instruction = lab.store.setting("default", "instruction")?;
    let ignition = lab.store.setting("default", "ignition")?;
    let order = match (&instruction, &ignition) {
        (Some(_), _) => "follows the instruction set for all nodes",
        (None, Some(_)) => "installs the Ignition config set for all nodes",
        (None, None) => "waits",
    };
    let files = lab.shelf.list();
    Ok(html! {
        footer {
            (legend())
            details #handed-out {
                summary { "What this VIM serves" }
                p { "A node without an instruction of its own " strong { (order) } "." }
                @if let Some(text) = &instruction { pre tabindex="0" { (words::cut(text)) } }
                @if ignition.is_some() {
                    p { "Ignition config: " a href="/ignition/default" { "/ignition/default" } }
                }
                @if !files.is_empty() {
                    ul { @for (path, n_bytes) in files.iter().take(100) {
                        li { code { (path) } " " span.muted { (words::bytes(*n_bytes, true)) } }
                    } }
                }
                @if lab.ca_pem.is_some() {
                    p { "CA of the HTTPS port: " a href="/ca.pem" { "/ca.pem" } }
                }
            }
        }
    })
}
