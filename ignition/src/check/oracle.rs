//! Compares the check with the real `ignition-validate`, case by case.
//!
//! `cases.txt` has one case per line: the verdict of `ignition-validate` 2.26 (`ok`, `no`), or `strict` if it accepts what
//! we refuse on purpose; a name; the config.

use std::path::Path;

use super::check;
use crate::part::part;
use crate::tools;

const CASES: &str = include_str!("cases.txt");
/// The spec versions that 2.14 does not know.
const NEWER: [&str; 4] = ["\"3.4", "\"3.5", "\"3.6", "\"3.7"];
/// Cases that other versions judge otherwise: 2.14 accepts the first three, the branch main of July 2026 the last.
const OF_OLD: [&str; 3] = ["unit file conflict", "url http://[x]/", "url http://[::1%25]/"];
const OF_MAIN: [&str; 1] = ["notexist+zero"];

fn cases() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    CASES.lines().map(|line| {
        let mut fields = line.splitn(3, '\t');
        (fields.next().unwrap(), fields.next().unwrap(), fields.next().unwrap())
    })
}

#[test]
fn check_agrees_with_ignition_unless_a_case_says_otherwise() {
    let mut differences = Vec::new();
    for (verdict, name, config) in cases() {
        let answer = check(config.as_bytes());
        if answer.is_ok() != (verdict == "ok") {
            differences.push(format!("{verdict} {name}: {config}\n    {answer:?}"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Asserts that `program` agrees with each verdict, but for the cases of these names.
fn assert_agrees(program: &Path, others: &[&str], is_newer_known: bool) {
    for (verdict, name, config) in cases() {
        if !is_newer_known && NEWER.iter().any(|version| config.contains(version)) {
            continue;
        }
        let Some(answer) = tools::validate(program, config) else { return };
        let is_good = (verdict != "no") != others.contains(&name);
        assert_eq!(answer.is_ok(), is_good, "{name}: {config}\n{answer:?}");
    }
}

#[test]
fn ignition_validate_agrees_with_the_recorded_verdicts() {
    assert_agrees(Path::new("ignition-validate"), &OF_OLD, false);
    for (name, others) in [("ignition-validate", &[][..]), ("ignition-validate-main", &OF_MAIN)] {
        let Some(program) = part(name) else { return };
        assert_agrees(&program, others, true);
    }
}
