//! Expectations of a machine, from a file or an instruction, as findings.

use std::cmp::Reverse;
use std::path::Path;

use anyhow::{Context as _, anyhow, bail};
use compare::expectation::{Deviating, Expectations, Level};
use compare::machine::Machine;
use formats::text;
use probes::findings::{Finding, Severity, row};
use yaml_serde::Value as Yaml;

use crate::bounded;
use crate::report::Report;

/// Largest file of expectations.
const LIMIT_BYTES: u64 = 1 << 20;

/// Reads a file of expectations: YAML, as `expect` writes it, or JSON.
///
/// # Errors
/// If it cannot be read, or has a key or value that means nothing.
pub fn read(path: &Path) -> anyhow::Result<Expectations> {
    parse(&bounded::read_file(path, LIMIT_BYTES)?, path)
}

/// Parses the content of a file of expectations; `path` names it in errors.
///
/// # Errors
/// If it is no text, or has a key or value that means nothing.
pub fn parse(bytes: &[u8], path: &Path) -> anyhow::Result<Expectations> {
    let name = path.display();
    let text = std::str::from_utf8(bytes)
        .map_err(|_| anyhow!("{name} contains bytes that are not UTF-8 text"))?;
    if text::nesting(text) > text::MAX_NESTING {
        bail!("{name} nests deeper than any expectation, expected a file as `expect` writes it");
    }
    let document: Yaml =
        yaml_serde::from_str(text).map_err(|error| not_yaml(&error, text, path))?;
    let expectations = yaml_serde::from_value(document)
        .map_err(|_| anyhow!("a key is not text, or a value has a tag"))
        .and_then(|value| Expectations::parse(&value).map_err(|complaint| anyhow!("{complaint}")));
    expectations.with_context(|| format!("the expectations in {name}"))
}

/// The error for text that is not YAML: the line, its key and what was expected.
fn not_yaml(error: &yaml_serde::Error, text: &str, path: &Path) -> anyhow::Error {
    let name = path.display();
    if let Some(key) = text::repeated_key(&error.to_string()) {
        return anyhow!("{name} has {key} twice, expected each key once");
    }
    match text::wrong_line(text, error.location().map(|at| at.line())) {
        Some((line, found)) => anyhow!(
            "line {line} of {name} is not YAML: {found}, expected lines such as KEY: VALUE, as `expect` writes them"
        ),
        None => anyhow!("{name} is not YAML, expected lines such as KEY: VALUE"),
    }
}

/// Adds to the report's findings how the machine deviates from what is expected.
///
/// # Errors
/// If the report has no JSON form; every report has one.
pub fn add(expectations: Option<&Expectations>, report: &mut Report) -> anyhow::Result<()> {
    let Some(expectations) = expectations else { return Ok(()) };
    // By way of the text: a second serialiser of the report's types would add 0.2 MB to the program.
    let text = serde_json::to_string_pretty(report)?;
    let found = findings(expectations, &Machine::of(&serde_json::from_str(&text)?));
    report.findings.extend(found);
    report.findings.sort_by_key(|finding| Reverse(finding.severity));
    Ok(())
}

/// How a machine deviates from what is expected.
pub fn findings(expectations: &Expectations, machine: &Machine) -> Vec<Finding> {
    let deviations = expectations.deviations(machine);
    deviations.into_iter().filter_map(|one| finding(one, expectations.level)).collect()
}

fn finding(one: Deviating, level: Option<Level>) -> Option<Finding> {
    let kind = one.part.kind;
    let mut finding = row(one.deviation.code())?.finding(Some(one.part), one.evidence);
    kind.component().clone_into(&mut finding.component);
    match level {
        Some(Level::Warning) => finding.severity = Severity::Warning,
        Some(Level::Critical) => finding.severity = Severity::Critical,
        None => {}
    }
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use compare::expectation::Deviation;
    use probes::parts::{PartId, PartKind};

    #[test]
    fn deep_nesting_is_refused_before_it_costs_time() {
        let nested = format!("dimm: {}", "[".repeat(400_000));
        for (bytes, expected) in [
            (
                nested.as_bytes(),
                "nests deeper than any expectation, expected a file as `expect` writes it",
            ),
            (b"dimm: \xff", "contains bytes that are not UTF-8 text"),
        ] {
            let error = parse(bytes, Path::new("x.yaml")).unwrap_err().to_string();
            assert_eq!(error, format!("x.yaml {expected}"));
        }
    }

    #[test]
    fn each_deviation_has_a_row_and_the_level_of_the_file_wins() {
        for deviation in
            [Deviation::Missing, Deviation::Mismatch, Deviation::Unknown, Deviation::Surplus]
        {
            let one = Deviating {
                deviation,
                part: PartId::new(PartKind::Dimm, "A1"),
                evidence: "e".to_owned(),
            };
            for (level, severity) in
                [(Level::Warning, Severity::Warning), (Level::Critical, Severity::Critical)]
            {
                let finding = finding(one.clone(), Some(level)).unwrap();
                assert_eq!((finding.severity, finding.component.as_str()), (severity, "memory"));
            }
        }
    }
}
