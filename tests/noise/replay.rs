//! Makes the report of a machine and checks that the report is valid.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use probes::collect::{Inventory, Options};
use probes::machine::{Archive, Extras, Failure, Source};
use run_coreos_installer::report::{Report, report};
use run_coreos_installer::{export, output, text};
use serde_json::Value;

use crate::memory::peak_of;

/// Far more than any tree needs, even on a busy machine: detects hangs.
const LIMIT_TIME: Duration = Duration::from_secs(20);
/// Room for a few collectors with a file of the largest size each, as bytes and as text.
const LIMIT_BYTES: usize = 96 << 20;
/// The most problems that a report may have: 201 for each collector.
const LIMIT_PROBLEMS: usize = 201 * probes::collect::COLLECTORS.len();

/// The report of the machine in `tree`.
pub(crate) fn report_of(tree: Archive) -> Report {
    report(&Arc::new(Source::unpacked(tree)), &everything())
}

/// The paths of all questions that `tree` does not answer.
pub(crate) fn unanswered(tree: Archive) -> Vec<String> {
    let source = Arc::new(Source::unpacked(tree).recording());
    let _ = report(&source, &everything());
    let absent = source.recorded().failures.into_iter().filter(|(_, f)| *f == Failure::ABSENT);
    absent.map(|((_, path), _)| path).filter(|path| path.starts_with("kernel/")).collect()
}

fn everything() -> Options {
    let extras = Extras { memory_blocks: true, vpd: true, ..Extras::default() };
    Options { budget: LIMIT_TIME, extras, ..Options::default() }
}

/// Makes the report of `tree` in every form and describes what is wrong, if anything.
pub(crate) fn check(tree: Archive) -> Result<Report, String> {
    let start = Instant::now();
    let work = || catch_unwind(AssertUnwindSafe(|| rendered(tree)));
    let (result, peak_bytes) = peak_of(work);
    let report = result.map_err(|_| "a panic outside the collectors, see above".to_owned())??;
    if start.elapsed() > LIMIT_TIME {
        return Err(format!("took {:?}", start.elapsed()));
    }
    if peak_bytes > LIMIT_BYTES {
        return Err(format!("needed {peak_bytes} bytes of memory"));
    }
    Ok(report)
}

/// Makes the documents of other programs and describes the first value in them that stands for nothing.
fn exported(report: &Report) -> Result<(), String> {
    let facts = &report.inventory;
    let documents = [
        export::ironic(report),
        export::metal3::resource(facts, &report.node_id),
        export::assisted::inventory(facts),
    ];
    match documents.iter().find_map(|document| nothing(document, "")) {
        Some(path) => Err(format!("an export has no value at {path}")),
        None => Ok(()),
    }
}

/// The path of the first null, empty text, list or object below the document. Ironic needs two keys.
fn nothing(value: &Value, path: &str) -> Option<String> {
    const MAY_BE_NULL: [&str; 2] = [".inventory.cpu.architecture", ".inventory.memory.physical_mb"];
    let below: Vec<(String, &Value)> = match value {
        Value::Null if MAY_BE_NULL.contains(&path) => return None,
        // Of such a machine nothing is known.
        Value::Object(_) if path.is_empty() && value == &serde_json::json!({}) => return None,
        Value::Array(list) => list.iter().map(|value| (format!("{path}[]"), value)).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| (format!("{path}.{key}"), value)).collect()
        }
        Value::String(text) if !text.trim().is_empty() => return None,
        Value::Bool(_) | Value::Number(_) => return None,
        Value::Null | Value::String(_) => return Some(path.to_owned()),
    };
    if below.is_empty() {
        return Some(path.to_owned());
    }
    below.into_iter().find_map(|(path, value)| nothing(value, &path))
}

fn rendered(tree: Archive) -> Result<Report, String> {
    let report = report_of(tree);
    for problem in &report.problems {
        if problem.found.contains("a bug in the collector")
            || problem.found.contains("no answer after")
        {
            return Err(format!("{}: {}", problem.path, problem.found));
        }
    }
    if report.problems.len() > LIMIT_PROBLEMS {
        return Err(format!("{} problems", report.problems.len()));
    }
    let json = output::json(&report).map_err(|error| format!("no JSON: {error}"))?;
    let back: Inventory =
        serde_json::from_str(&json).map_err(|error| format!("JSON not read back: {error}"))?;
    // By the JSON, since a fact for the findings alone (`Disk::is_content_denied`) is not written.
    let written = |inventory: &Inventory| serde_json::to_value(inventory).ok();
    if written(&back) != written(&report.inventory) {
        return Err("the JSON reads back as another report".to_owned());
    }
    exported(&report)?;
    output::yaml(&report).map_err(|error| format!("no YAML: {error}"))?;
    for is_colored in [false, true] {
        let text = text::text(&report, is_colored) + &text::findings(&report, &[], is_colored);
        let is_odd = |c: &char| c.is_control() && *c != '\n' && !(is_colored && *c == '\x1b');
        if let Some(odd) = text.chars().find(is_odd) {
            return Err(format!("the text holds the control character {odd:?}"));
        }
    }
    Ok(report)
}
