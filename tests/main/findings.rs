//! The table of findings against small machines: `fixtures/findings/CODE.yaml` has a machine that raises
//! the code and a similar one on which it stays silent, both read by the collectors like any capture.
//!
//! `machine` gives files by path; each case of `raises` and `silent` changes some of them (`null` removes
//! what is at a path). `trees.rs` explains the notation of a content. `inventory` has the facts themselves, where few files
//! cannot show them. `expect` has what the machine is expected to have,
//! `load` how the processes of a load ended, `clocks` what the machine's clock and the VIM's show, `after` what has changed
//! at a second reading.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use compare::expectation::Expectations;
use compare::machine::Machine;
use formats::time::parse_http_date;
use probes::collect::{Inventory, Options, collect};
use probes::counters::{self, risen};
use probes::findings::{Finding, Row, Severity, findings, rows};
use probes::machine::{Archive, Extras, Source};
use run_coreos_installer::check::load::{End, Outcome, judge};
use run_coreos_installer::http::clock_skew::clock_skew;
use serde::Deserialize;

use crate::trees::{Files, node};
use crate::util::repository;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Trees {
    machine: Files,
    /// What the machine is expected to have, for the codes of expectations.
    #[serde(default)]
    expect: serde_json::Value,
    raises: Vec<Case>,
    silent: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    why: String,
    /// The expected severity; any of the row if absent.
    severity: Option<Severity>,
    /// The expected locator; any if absent.
    locator: Option<String>,
    /// Whether no locator is expected.
    #[serde(default)]
    no_locator: bool,
    /// What the evidence is or begins with.
    #[serde(default)]
    evidence: String,
    /// What the advice contains.
    #[serde(default)]
    advice: String,
    /// Instead of what all cases expect.
    expect: Option<serde_json::Value>,
    /// The processes of a load.
    #[serde(default)]
    load: Vec<Process>,
    /// The machine's clock and the VIM's, as in the header `Date`.
    clocks: Option<[String; 2]>,
    /// The facts, instead of those of the tree.
    inventory: Option<serde_json::Value>,
    #[serde(default)]
    with: Files,
    /// What has changed at a second reading, for the codes of counters that rise.
    after: Option<Files>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Process {
    cpu: u32,
    /// What it wrote.
    output: String,
    /// The signal that ended it.
    signal: Option<i32>,
}

impl Process {
    fn outcome(&self) -> Outcome {
        let end = self.signal.map_or(End::Exited(0), End::Signalled);
        Outcome { cpu: self.cpu, output: self.output.clone(), end }
    }
}

fn folder() -> PathBuf {
    repository().join("fixtures/findings")
}

fn trees(code: &str) -> Trees {
    let path = folder().join(format!("{code}.yaml"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| {
        panic!(
            "{code} needs {}, with a tree that raises it and one that does not: {error}",
            path.display()
        )
    });
    let trees: Trees =
        yaml_serde::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(!trees.raises.is_empty(), "{code} has no tree that raises it");
    assert!(!trees.silent.is_empty(), "{code} has no tree on which it stays silent");
    trees
}

/// The machine with the changes of a case.
pub(crate) fn archive(machine: &Files, with: &Files) -> Archive {
    let mut archive = Archive::default();
    for (path, content) in machine.iter().chain(with) {
        archive.remove(path);
        if let Some(content) = content {
            archive.set(path, Some(node(content)));
        }
    }
    archive
}

/// The facts of a case; every key of them must be one of the inventory.
fn facts(given: &serde_json::Value) -> Inventory {
    fn is_in(part: &serde_json::Value, whole: &serde_json::Value) -> bool {
        match part {
            serde_json::Value::Object(keys) => {
                keys.iter().all(|(key, value)| whole.get(key).is_some_and(|all| is_in(value, all)))
            }
            serde_json::Value::Array(list) => {
                let all = whole.as_array().into_iter().flatten();
                list.iter().zip(all).filter(|(one, all)| is_in(one, all)).count() == list.len()
            }
            one => one == whole,
        }
    }
    let inventory: Inventory = serde_json::from_value(given.clone()).unwrap();
    assert!(is_in(given, &serde_json::to_value(&inventory).unwrap()), "unknown keys: {given}");
    inventory
}

/// The findings of `code` on the machine, by the whole path from files to findings.
fn found(code: &str, trees: &Trees, case: &Case) -> Vec<Finding> {
    let archive = archive(&trees.machine, &case.with);
    let expect = case.expect.as_ref().unwrap_or(&trees.expect);
    let extras = Extras { disk_samples: true, ..Extras::default() };
    let options = Options { extras, ..Options::default() };
    let inventory = match &case.inventory {
        Some(given) => facts(given),
        None => collect(&Arc::new(Source::unpacked(archive)), &options).inventory,
    };
    let mut all = findings(&inventory);
    all.extend(judge(&case.load.iter().map(Process::outcome).collect::<Vec<_>>()).findings);
    if let Some(clocks) = &case.clocks {
        let [ours, theirs] = clocks.each_ref().map(|text| parse_http_date(text).unwrap());
        all.extend(clock_skew(ours, theirs));
    }
    if !expect.is_null() {
        let expectations = Expectations::parse(expect).unwrap();
        let report = serde_json::to_value(&inventory).unwrap();
        all.extend(run_coreos_installer::expect::findings(&expectations, &Machine::of(&report)));
    }
    all.extend(case.after.iter().flat_map(|after| rising(trees, case, after)));
    all.retain(|finding| finding.code.as_str() == code);
    all
}

/// The findings from counters that rise between the machine and what it is after the case.
fn rising(trees: &Trees, case: &Case, after: &Files) -> Vec<Finding> {
    let read = |archive: Archive| {
        let source = Arc::new(Source::unpacked(archive));
        let inventory = collect(&source, &Options::default()).inventory;
        counters::read(&source, &inventory)
    };
    let mut later = archive(&trees.machine, &case.with);
    for (path, content) in after {
        later.set(path, content.as_ref().map(node));
    }
    risen(&read(archive(&trees.machine, &case.with)), &read(later), 30)
}

fn check_row(row: &Row) {
    let code = row.code;
    let trees = trees(code);
    let mut severities = BTreeSet::new();
    for case in &trees.raises {
        let found = found(code, &trees, case);
        let [finding] = found.as_slice() else {
            panic!("{code}: {}: {} findings, expected one", case.why, found.len());
        };
        let of_row: Vec<Severity> = row.severities().collect();
        assert!(of_row.contains(&finding.severity), "{code}: {}: {finding:?}", case.why);
        assert!(case.severity.is_none_or(|s| s == finding.severity), "{code}: {finding:?}");
        if case.locator.is_some() || case.no_locator {
            assert_eq!(
                finding.locator.clone().map(String::from),
                case.locator,
                "{code}: {}",
                case.why
            );
        }
        assert!(finding.evidence.starts_with(&case.evidence), "{code}: {finding:?}");
        assert!(finding.advice.contains(&case.advice), "{code}: {finding:?}");
        // An expectation may be about a part of any kind.
        let is_any = row.component == "any" && finding.component != "any";
        assert!(is_any || finding.component == row.component, "{code}: {finding:?}");
        assert!(!finding.evidence.is_empty() && !finding.advice.is_empty(), "{finding:?}");
        severities.insert(finding.severity);
    }
    let all: BTreeSet<Severity> = row.severities().collect();
    assert_eq!(severities, all, "{code}: each severity of the row needs a tree");
    for case in &trees.silent {
        let found = found(code, &trees, case);
        assert!(found.is_empty(), "{code}: {}: expected nothing, found {found:?}", case.why);
    }
}

#[test]
fn every_code_has_a_machine_that_raises_it_and_a_similar_one_that_does_not() {
    let failed: Vec<String> = rows()
        .filter_map(|row| {
            let panic = std::panic::catch_unwind(|| check_row(row)).err()?;
            let text = panic.downcast_ref::<String>().cloned();
            Some(text.unwrap_or_else(|| format!("{}: see above", row.code)))
        })
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn every_tree_of_findings_belongs_to_a_code() {
    let codes: BTreeSet<String> = rows().map(|row| format!("{}.yaml", row.code)).collect();
    let files = std::fs::read_dir(folder()).unwrap();
    for file in files.map(|entry| entry.unwrap().file_name().into_string().unwrap()) {
        assert!(codes.contains(&file) || file == "README.md", "{file} belongs to no code");
    }
}
