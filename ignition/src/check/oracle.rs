//! Our answers beside those of the real `ignition-validate` 2.14, case by case.
//!
//! `cases.txt` has a case on each line: the answer of `ignition-validate` (`ok`, `no`), or `strict`
//! where it accepts what we refuse on purpose and `loose` the other way round; a name; the config.

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
fn our_answers_are_those_of_ignition_but_where_a_case_says_otherwise() {
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
fn the_real_ignition_validate_answers_as_recorded() {
    for (verdict, name, config) in cases() {
        let Some(answer) = tools::ignition_validate(config) else { return };
        assert_eq!(
            answer.is_ok(),
            ["ok", "strict"].contains(&verdict),
            "{name}: {config}\n{answer:?}"
        );
    }
}
