//! A node's page: state, result and proof, faults, findings, timeline, report.

use maud::{Markup, html};
use serde_json::Value;

use super::fleet::{machine, name};
use super::job::{findings, place, severity, standing};
use super::shell::shell;
use super::words::{clock, cut, date};
use super::{faults, load, report, words};
use crate::http::{Answer, Refusal, Request, encoded};
use crate::lab::Lab;
use crate::netboot::{self, Boot};
use crate::store::{Document, Node};

/// The page; `None` when the node is unknown.
pub(super) fn page(lab: &Lab, request: &Request, id: &str) -> Result<Option<Answer>, Refusal> {
    let Some(node) = lab.store.node(id)? else { return Ok(None) };
    let events = lab.store.events(id, 2000)?;
    let standing = standing(&node);
    let title = name(&node);
    let body = node.report.as_ref().map(|report| &report.body);
    let content = html! {
        div.head {
            div {
                h1 { (title) " " (standing.pill()) }
                p.muted {
                    code { (node.id) }
                    @if let Some(body) = body { " · " (machine(body)) }
                }
            }
            (downloads(&node))
        }
        section.panel.job aria-label="job" {
            (standing.rail())
            div.line { (standing.bar()) span.percent { (standing.percent) " %" } }
            @if node.result.is_none() && let Some(message) = &standing.message {
                p { (message) }
            }
        }
        (boot_panel(lab, &node))
        @if let Some(result) = &node.result { (result_panel(&result.body)) }
        (faults::panel(&node))
        (findings_panel(&node))
        (load::panel(lab, &node, &standing, request)?)
        (timeline(&events))
        @if let Some(report) = &node.report { (report::sections(report)) }
    };
    Ok(Some(shell(&format!("{title} · Lab VIM"), Some(&node.id), &content)))
}

/// Shows the node's network boot target; nothing if this VIM does not serve network boot.
fn boot_panel(lab: &Lab, node: &Node) -> Markup {
    let text = match netboot::of_node(lab, node) {
        Ok(None) => return html! {},
        Ok(Some(Boot::Disk(reason))) => format!("its disk: {reason}"),
        Ok(Some(Boot::Live(script))) => format!("the live image, by {script}"),
        Err(refusal) => refusal.message,
    };
    html! { section.panel aria-label="network boot" { p { strong { "Network boot: " } (text) } } }
}

fn downloads(node: &Node) -> Markup {
    let link = |what: &str| format!("/nodes/{}/{what}.json", encoded(&node.id));
    html! {
        nav.downloads aria-label="Downloads" {
            @if node.report.is_some() { a.button href=(link("report")) download { "Report (JSON)" } }
            @if node.event.is_some() { a.button href=(link("events")) download { "Events" } }
            @if node.result.is_some() { a.button href=(link("result")) download { "Result" } }
        }
    }
}

fn result_panel(result: &Value) -> Markup {
    let tone = match result["outcome"].as_str() {
        Some("installed") => "good",
        Some("unproven") => "warn",
        _ => "bad",
    };
    let text = |key: &str| result[key].as_str().map(cut);
    html! {
        section.panel.result.(tone) aria-labelledby="result" {
            h2 #result { "Result: " (text("outcome").unwrap_or_default()) }
            p.message { (text("message").unwrap_or_default()) }
            @if let Some(advice) = text("advice") { p.advice { strong { "To do: " } (advice) } }
            dl.facts {
                @if let Some(code) = text("code") { div { dt { "Code" } dd { code { (code) } } } }
                (fact("Stage", text("stage")))
                (fact("Disk", disk(&result["disk"])))
                (fact("Disk state", text("disk_state").map(|state| state.replace('_', " "))))
                (fact("Tries", result["attempts"].as_u64().map(|n| n.to_string())))
                (fact("Instruction", text("request_id")))
                (fact("Instruction's digest", text("request_digest")))
                (fact("Found on the disk", existing(&result["existing_data"])))
                (fact("Image", text_of(&result["image"], "source")))
                (fact("Image's digest", text_of(&result["image"], "digest")))
                (fact("Began", text("started_at").map(|time| date(&time))))
                (fact("Ended", text("finished_at").map(|time| date(&time))))
            }
            (proof(&result["proof"]["checks"]))
            (lines("Warnings", &result["warnings"], true))
            (lines("Taken down before the write", &result["taken_down"], true))
            (lines("Erased after the write", &result["erased"], true))
            (lines("Last lines of coreos-installer", &result["log_tail"], tone != "good"))
        }
    }
}

fn fact(name: &str, value: Option<String>) -> Markup {
    html! { @if let Some(value) = value { div { dt { (name) } dd { (value) } } } }
}

fn text_of(value: &Value, key: &str) -> Option<String> {
    value[key].as_str().map(cut)
}

fn existing(found: &Value) -> Option<String> {
    let items: Vec<String> = found
        .as_array()?
        .iter()
        .take(32)
        .filter_map(|item| Some(format!("{}: {}", text_of(item, "name")?, text_of(item, "what")?)))
        .collect();
    (!items.is_empty()).then(|| items.join(", "))
}

fn disk(disk: &Value) -> Option<String> {
    let device = disk["device"].as_str().map(cut);
    let size = disk["size_bytes"].as_u64().map(|n| words::bytes(n, true));
    let serial = disk["serial"].as_str().map(|serial| format!("serial {}", cut(serial)));
    let wwn = disk["wwn"].as_str().map(|wwn| format!("WWN {}", cut(wwn)));
    let parts: Vec<String> = [device, size, serial, wwn].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn proof(checks: &Value) -> Markup {
    let checks = checks.as_array().map_or(&[][..], Vec::as_slice);
    let text = |value: &Value| value.as_str().map_or_else(|| words::cut(&plain(value)), cut);
    html! {
        @if !checks.is_empty() {
            h3 { "Proof" }
            div.scroll tabindex="0" { table {
                thead { tr { th { "" } th { "Check" } th { "Expected" } th { "Found" } } }
                tbody { @for check in checks.iter().take(50) {
                    @let (class, sign, word) = verdict(check);
                    tr {
                        td { span.sign.(class) { span aria-hidden="true" { (sign) } " " (word) } }
                        td { (words::heading(check["name"].as_str().unwrap_or_default())) }
                        td { code { (text(&check["expected"])) } }
                        td { code { (text(&check["found"])) } }
                    }
                } }
            } }
        }
    }
}

/// A check as class, sign and word.
fn verdict(check: &Value) -> (&'static str, &'static str, &'static str) {
    match (check["ok"].as_bool(), check["fatal"].as_bool()) {
        (Some(true), _) => ("good", "✓", "holds"),
        (_, Some(false)) => ("warn", "◆", "failed"),
        _ => ("bad", "✗", "broken"),
    }
}

fn plain(value: &Value) -> String {
    if value.is_null() { String::new() } else { value.to_string() }
}

fn lines(title: &str, lines: &Value, is_open: bool) -> Markup {
    let lines = lines.as_array().map_or(&[][..], Vec::as_slice);
    html! {
        @if !lines.is_empty() {
            details id={ "lines-" (title.len()) } open[is_open] {
                summary { (title) " (" (lines.len()) ")" }
                pre tabindex="0" {
                    @for line in lines.iter().take(200) {
                        (cut(line.as_str().unwrap_or_default())) "\n"
                    }
                }
            }
        }
    }
}

fn findings_panel(node: &Node) -> Markup {
    let mut findings = findings(node);
    let n_all = findings.len();
    findings.retain(|finding| !faults::explains(node, finding));
    let n_joined = n_all - findings.len();
    let text = |value: &Value| value.as_str().map_or_else(|| cut(&plain(value)), cut);
    html! {
        @if n_all > 0 {
            section.panel aria-labelledby="findings" {
                h2 #findings { @if n_joined > 0 { "Other findings" } @else { "Findings" } }
                @if findings.is_empty() { p.muted { "None: the faults above explain all " (n_all) "." } }
                ul.findings { @for finding in findings {
                    @let (class, sign, word) = severity(finding);
                    li.(class) {
                        span.chip.(class) { span aria-hidden="true" { (sign) } " " (word) }
                        div {
                            p.part { strong { (place(finding)) } }
                            p.part { (text(&finding["evidence"])) }
                            p { code { (text(&finding["code"])) } }
                            @if finding["advice"].is_string() {
                                p.advice { strong { "To do: " } (text(&finding["advice"])) }
                            }
                        }
                    }
                } }
            }
        }
    }
}

/// Shows the events, but only the last of consecutive progress events. A sequence that starts again means a new boot.
fn timeline(events: &[Document]) -> Markup {
    let is_progress = |event: &Document| event.body["state"] == "progress";
    let same = |a: &Document, b: &Document| a.body["stage"] == b.body["stage"];
    let shown = events.iter().enumerate().filter(|(at, event)| {
        let next = events.get(at + 1);
        !(is_progress(event) && next.is_some_and(|next| is_progress(next) && same(event, next)))
    });
    let is_boot = |at: usize| {
        let sequence = |at: usize| events[at].body["sequence"].as_u64();
        at > 0 && sequence(at) <= sequence(at - 1)
    };
    html! {
        @if !events.is_empty() {
            section.panel aria-labelledby="timeline" {
                h2 #timeline { "Timeline " span.muted { "(UTC)" } }
                ol.timeline { @for (at, event) in shown {
                    @if is_boot(at) { li.boot { "booted again" } }
                    (moment(event))
                } }
            }
        }
    }
}

fn moment(event: &Document) -> Markup {
    let text = |key: &str| event.body[key].as_str().map(cut).unwrap_or_default();
    let class = match event.body["state"].as_str() {
        Some("done") => "done",
        Some("failed") => "failed",
        Some("progress") => "current",
        _ => "started",
    };
    html! {
        li.(class) {
            time datetime=(text("time")) title={ "arrived " (date(&event.received_at)) } {
                (clock(&text("time")))
            }
            span.dot aria-hidden="true" {}
            span.step {
                strong { (text("stage")) } " " (text("state"))
                @if let Some(percent) = event.body["percent"].as_u64() { " " (percent) " %" }
                @if event.body["message"].is_string() { span.muted { " — " (text("message")) } }
            }
        }
    }
}
