//! Compares the check with the real `ignition-validate` 2.14, case by case.
//!
//! `cases.txt` has one case per line: the verdict of `ignition-validate` (`ok`, `no`), or `strict` if it accepts what we
//! refuse on purpose, or `loose` for the opposite; a name; the config.

use super::check;
use crate::tools;

const CASES: &str = include_str!("cases.txt");

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
        if answer.is_ok() != ["ok", "loose"].contains(&verdict) {
            differences.push(format!("{verdict} {name}: {config}\n    {answer:?}"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn ignition_validate_agrees_with_the_recorded_verdicts() {
    for (verdict, name, config) in cases() {
        let Some(answer) = tools::ignition_validate(config) else { return };
        let is_good = ["ok", "strict"].contains(&verdict);
        assert_eq!(answer.is_ok(), is_good, "{name}: {config}\n{answer:?}");
    }
}
