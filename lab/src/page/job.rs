//! State of a node: its stage, progress and outcome, in the words and colours of the pages.

use std::cmp::Ordering;

use serde_json::Value;

use super::words;
use crate::orders::ENDED_WELL;
use crate::overview::MAX_FINDINGS;
use crate::store::{Document, Node};

/// The stages of a job in order, each with its share in percent.
const STAGES: [(&str, u64); 7] = [
    ("collect", 12),
    ("report", 4),
    ("instruction", 4),
    ("preflight", 5),
    ("write", 65),
    ("proof", 7),
    ("result", 3),
];

/// A node's state.
#[derive(Debug)]
pub(super) struct Standing {
    /// One to three words, e.g. `writing`.
    pub(super) label: &'static str,
    /// CSS class for its colour: good, bad, warn, busy, idle.
    pub(super) tone: &'static str,
    /// Progress in the whole job, in percent.
    pub(super) percent: u64,
    /// The node's own message.
    pub(super) message: Option<String>,
    stage: usize,
    is_over: bool,
}

/// Derives the state from the last event and the result.
pub(super) fn standing(node: &Node) -> Standing {
    let result = node.result.as_ref().filter(|result| !is_begun_again(node, result));
    let result = result.map(|result| &result.body);
    let event = node.event.as_ref().filter(|event| is_current(node, event));
    let event = event.map(|event| &event.body);
    let stage = match result {
        Some(result) => result["stage"].as_str().unwrap_or("result"),
        None => event.map_or("report", |event| event["stage"].as_str().unwrap_or("")),
    };
    let moment = event.and_then(|event| event["state"].as_str()).unwrap_or("done");
    let at = STAGES.iter().position(|(name, _)| *name == stage);
    let at = at.unwrap_or(if stage == "wait" { 2 } else { 0 });
    let ended = |result: &Value| {
        let confirmed = confirmed(&node.boots).filter(|_| result["outcome"] != "unproven");
        confirmed.unwrap_or_else(|| outcome(result))
    };
    let (label, tone) = result.map_or_else(|| at_work(stage, moment), ended);
    let is_over = result.is_some_and(|r| {
        r["outcome"] == "unproven" || ENDED_WELL.iter().any(|end| r["outcome"] == *end)
    });
    let message = result.or(event).and_then(|last| last["message"].as_str());
    let percent = event.and_then(|event| event["percent"].as_u64());
    Standing {
        label,
        tone,
        percent: if is_over { 100 } else { share_done(at, moment, percent) },
        // The stage's own progress, for a node without a message.
        message: message.map(words::cut).or_else(|| Some(format!("{stage}: {} %", percent?))),
        stage: at,
        is_over,
    }
}

/// Returns true if a new job began after the result: its first events come before its report. A node that refused an
/// instruction asks for another one, which it then carries out without a new report.
fn is_begun_again(node: &Node, result: &Document) -> bool {
    let Some(event) = &node.event else { return false };
    let stage = event.body["stage"].as_str();
    let is_refused = result.body["outcome"] == "refused";
    let is_new = stage == Some("collect")
        || is_refused && matches!(stage, Some("preflight" | "write" | "proof"));
    is_new && event.received_at > result.received_at
}

/// Returns true if an event belongs to the last report's job. Events shortly before the report do, since collecting
/// comes before reporting.
fn is_current(node: &Node, event: &Document) -> bool {
    let Some(report) = &node.report else { return true };
    let is_before_report = matches!(event.body["stage"].as_str(), Some("collect" | "report"));
    is_before_report || event.received_at >= report.received_at
}

/// Returns the label and the tone of a result.
pub(super) fn outcome(result: &Value) -> (&'static str, &'static str) {
    match result["outcome"].as_str() {
        Some("installed") => ("installed", "good"),
        Some("already_installed") => ("installed before", "good"),
        Some("reignited") => ("config replaced", "good"),
        Some("refused") if result["code"] == "FINDINGS" => ("blocked", "bad"),
        Some("refused") => ("refused", "bad"),
        Some("unproven") => ("installed, not proven", "warn"),
        _ => ("failed", "bad"),
    }
}

/// Returns the label and the tone of a system that has confirmed boots; `None` if it has not.
fn confirmed(boots: &[(u8, Document)]) -> Option<(&'static str, &'static str)> {
    if boots.iter().any(|(_, boot)| boot.body["disk"] == "other") {
        return Some(("booted from another disk", "bad"));
    }
    let label = match boots {
        [] => return None,
        [(1, _)] => "confirmed (boot 1)",
        [_] => "confirmed (boot 2)",
        _ => "confirmed (boots 1 and 2)",
    };
    Some((label, "good"))
}

/// Returns the label and the tone of a stage.
fn at_work(stage: &str, moment: &str) -> (&'static str, &'static str) {
    match (stage, moment) {
        (_, "failed") => ("failed", "bad"),
        ("collect", _) => ("collecting", "busy"),
        ("report", _) => ("reported", "idle"),
        ("instruction" | "wait", _) => ("waiting", "idle"),
        ("preflight", _) => ("checking", "busy"),
        ("write", _) => ("writing", "busy"),
        ("proof", _) => ("proving", "busy"),
        _ => ("finishing", "busy"),
    }
}

/// Returns the share of the whole job that is done, in percent.
fn share_done(at: usize, moment: &str, percent: Option<u64>) -> u64 {
    let before: u64 = STAGES[..at].iter().map(|(_, share)| share).sum();
    let within = if moment == "done" { 100 } else { percent.unwrap_or(0).min(100) };
    before + STAGES[at].1 * within / 100
}

impl Standing {
    /// Lists the stages, each with its class; true marks the current one.
    pub(super) fn steps(&self) -> Vec<(&'static str, &'static str, bool)> {
        let step = |(at, (name, _)): (usize, &(&'static str, u64))| {
            (*name, self.step(at), at == self.stage && !self.is_over)
        };
        STAGES.iter().enumerate().map(step).collect()
    }

    fn step(&self, at: usize) -> &'static str {
        match at.cmp(&self.stage) {
            _ if self.is_over => "done",
            Ordering::Less => "done",
            Ordering::Greater => "pending",
            Ordering::Equal if self.tone == "bad" => "failed",
            Ordering::Equal => "current",
        }
    }
}

/// Returns the findings to show: those in the result, or in the report without a result.
pub(super) fn findings(node: &Node) -> Vec<&Value> {
    let of_result = named(node.result.as_ref());
    let mut findings = if of_result.is_empty() { named(node.report.as_ref()) } else { of_result };
    findings.sort_by_key(|finding| rank(finding));
    findings
}

fn named(document: Option<&Document>) -> Vec<&Value> {
    let findings = document.map_or(&[][..], |document| words::list(&document.body["findings"]));
    findings.iter().take(MAX_FINDINGS).collect()
}

/// Returns a finding's part and its place.
pub(super) fn place(finding: &Value) -> String {
    words::joined(["component", "locator"].map(|key| words::named("", &finding[key])), " ")
}

/// A severity: class, sign, word. The sign works without colour.
#[derive(Debug)]
pub(super) struct Severity {
    pub(super) class: &'static str,
    pub(super) sign: &'static str,
    pub(super) word: &'static str,
}

/// The severities, worst first.
pub(super) const SEVERITIES: [Severity; 4] = [
    Severity { class: "bad", sign: "▲", word: "critical" },
    Severity { class: "warn", sign: "◆", word: "warning" },
    Severity { class: "info", sign: "●", word: "info" },
    Severity { class: "idle", sign: "○", word: "other" },
];

/// Returns the severity of a finding or fault.
pub(super) fn severity(finding: &Value) -> &'static Severity {
    &SEVERITIES[rank(finding)]
}

fn rank(finding: &Value) -> usize {
    SEVERITIES[..3].iter().position(|severity| finding["severity"] == severity.word).unwrap_or(3)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The state after a report at T2, with the last event and result and their times.
    fn after(event: Option<(&str, Value)>, result: Option<(&str, Value)>) -> Standing {
        let document = |(at, body): (&str, Value)| Document { received_at: at.to_owned(), body };
        standing(&Node {
            id: "n".to_owned(),
            first_seen: String::new(),
            last_seen: String::new(),
            report: Some(document(("T2", json!({})))),
            event: event.map(document),
            result: result.map(document),
            boots: Vec::new(),
        })
    }

    #[test]
    fn events_of_this_job_count_and_strange_ones_do_no_harm() {
        for (at, event, expected) in [
            // Half of the write is about half of the job.
            ("T3", json!({"stage": "write", "state": "progress", "percent": 50}), ("writing", 57)),
            // The job before the last report.
            ("T1", json!({"stage": "write", "state": "failed"}), ("reported", 16)),
            ("T3", json!({"stage": 7, "state": null, "percent": 1e99}), ("finishing", 12)),
        ] {
            let standing = after(Some((at, event.clone())), None);
            assert_eq!((standing.label, standing.percent), expected, "{event}");
        }
    }

    #[test]
    fn an_installed_node_is_at_its_end_and_a_refused_one_shows_where_it_stopped() {
        let result = json!({"outcome": "installed", "stage": "result", "message": "m"});
        assert_eq!(after(None, Some(("T3", result))).percent, 100);
        let result = json!({"outcome": "refused", "stage": "preflight", "message": "m"});
        let standing = after(None, Some(("T3", result)));
        let steps = (standing.step(3), standing.step(4));
        assert_eq!((standing.tone, steps), ("bad", ("failed", "pending")));
    }

    #[test]
    fn corrected_instruction_shows_its_progress_and_not_the_refusal_before() {
        for (at, stage, label) in
            [("T6", "wait", "refused"), ("T6", "write", "writing"), ("T4", "write", "refused")]
        {
            let refused = json!({"outcome": "refused", "stage": "instruction", "message": "m"});
            let event = json!({"stage": stage, "state": "started"});
            assert_eq!(after(Some((at, event)), Some(("T5", refused))).label, label);
        }
    }
}
