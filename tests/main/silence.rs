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

/// Checks the machine as it is, then with its fault.
fn raises_nothing(name: &str) {
    let path = repository().join(format!("fixtures/healthy/{name}.yaml"));
    let text = std::fs::read_to_string(&path).unwrap();
    let Healthy { why, machine, fault } = yaml_serde::from_str(&text).unwrap();
    let alarms = found(archive(&machine, &Files::new()));
    assert!(alarms.is_empty(), "{name}: {why} Found {alarms:#?}");
    let alarms = found(archive(&machine, &fault.with));
    let codes: Vec<&str> = alarms.iter().map(|finding| finding.code.as_str()).collect();
    assert!(codes.contains(&fault.code.as_str()), "{name} with its fault raises {codes:?}");
}

#[test]
fn idle_links_raise_nothing() {
    raises_nothing("idle-links");
}

#[test]
fn gpus_in_power_saving_raise_nothing() {
    raises_nothing("suspended-gpus");
}

#[test]
fn unpopulated_ports_raise_nothing() {
    raises_nothing("unpopulated-ports");
}

#[test]
fn virtual_machine_raises_nothing() {
    raises_nothing("virtual-machine");
}

#[test]
fn dual_port_card_with_one_cable_raises_nothing() {
    raises_nothing("dual-port-card-with-one-cable");
}

#[test]
fn firmware_that_lists_wrong_dimms_raises_nothing() {
    raises_nothing("wrong-dimms");
}

#[test]
fn disk_with_vendor_attributes_raises_nothing() {
    raises_nothing("vendor-attributes");
}

#[test]
fn installed_host_raises_nothing() {
    raises_nothing("installed-host");
}
