//! The first page: every node with its stage, progress and findings, and what this VIM serves.

use maud::{Markup, html};
use serde_json::Value;

use super::job::{findings, severity, standing};
use super::{encoded, shell, words};
use crate::http::{Answer, Refusal};
use crate::lab::Lab;
use crate::store::Node;

/// The page.
pub(super) fn page(lab: &Lab, base: &str) -> Result<Answer, Refusal> {
    let nodes = lab.store.nodes()?;
    let content = html! {
        (planned_faults(lab))
        (totals(&nodes))
        @if nodes.is_empty() { (empty(base)) } @else {
            ul.nodes { @for node in &nodes { li { (card(node)) } } }
        }
        (handed_out(lab)?)
    };
    Ok(shell("Lab VIM", None, &content))
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
    let standings: Vec<_> = nodes.iter().map(standing).collect();
    let count = |tone: &str| standings.iter().filter(|standing| standing.tone == tone).count();
    html! {
        div.head {
            h1 { "Nodes" }
            @if !nodes.is_empty() {
                a href="/models" { "Compare nodes by model" }
                dl.totals {
                    @for (name, tone) in [
                        ("waiting", "idle"), ("at work", "busy"), ("installed", "good"),
                        ("to look at", "bad"),
                    ] {
                        @let n = count(tone) + if tone == "bad" { count("warn") } else { 0 };
                        div.(tone).none[n == 0] { dt { (name) } dd { (n) } }
                    }
                }
            }
        }
    }
}

fn card(node: &Node) -> Markup {
    let standing = standing(node);
    let report = node.report.as_ref().map(|report| &report.body);
    html! {
        a.card.(standing.tone) href={ "/nodes/" (encoded(&node.id)) } {
            div.who {
                strong { (name(node)) }
                code { (node.id) }
                @if let Some(report) = report { span.muted { (machine(report)) } }
            }
            div.how {
                div.line { (standing.pill()) span.percent { (standing.percent) " %" } }
                (standing.bar())
                @if let Some(message) = &standing.message { p.muted { (message) } }
            }
            div.what {
                (severities(node))
                span.muted { "last contact " time datetime=(node.last_seen) { (words::clock(&node.last_seen)) } }
            }
        }
    }
}

/// The host name; without one the machine's name, then the id.
pub(super) fn name(node: &Node) -> String {
    let report = node.report.as_ref().map(|report| &report.body);
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(words::cut);
    let is_said = |name: &String| name != "localhost" && name != "localhost.localdomain";
    report
        .and_then(|report| {
            let hostname = text(&report["os"]["hostname"]).filter(is_said);
            hostname.or_else(|| text(&report["product"]["name"]))
        })
        .unwrap_or_else(|| node.id.clone())
}

/// The machine in a line: vendor, product, CPUs, memory, disks.
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
    parts.join(" · ")
}

/// How many findings of each severity.
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
                    span.chip.(class) { span aria-hidden="true" { (sign) } " " (n) " " (name) }
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
