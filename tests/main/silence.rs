//! Healthy machines that tempt the checks to raise a false alarm: `fixtures/healthy/NAME.yaml`. No check may report anything on
//! them, and each must report the fault that breaks the same machine.

use std::sync::Arc;

use probes::collect::{Options, collect};
use probes::findings::{Finding, findings};
use probes::machine::{Archive, Source};
use serde::Deserialize;

use crate::findings::archive;
use crate::trees::Files;
use crate::util::repository;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Healthy {
    why: String,
    machine: Files,
    fault: Fault,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fault {
    code: String,
    with: Files,
}

fn found(archive: Archive) -> Vec<Finding> {
    let collected = collect(&Arc::new(Source::unpacked(archive)), &Options::default());
    findings(&collected.inventory)
}

#[test]
fn healthy_machines_raise_nothing_and_each_raises_its_fault() {
    let files = std::fs::read_dir(repository().join("fixtures/healthy")).unwrap();
    let files = files.map(|file| file.unwrap().path());
    let mut n_machines = 0;
    for path in files.filter(|path| path.extension().is_some_and(|ending| ending == "yaml")) {
        let text = std::fs::read_to_string(&path).unwrap();
        let Healthy { why, machine, fault } = yaml_serde::from_str(&text).unwrap();
        let name = path.display();
        let alarms = found(archive(&machine, &Files::new()));
        assert!(alarms.is_empty(), "{name}: {why} Found {alarms:#?}");
        let alarms = found(archive(&machine, &fault.with));
        let codes: Vec<&str> = alarms.iter().map(|finding| finding.code.as_str()).collect();
        assert!(codes.contains(&fault.code.as_str()), "{name} with its fault raises {codes:?}");
        n_machines += 1;
    }
    assert!(n_machines >= 8, "{n_machines}");
}
