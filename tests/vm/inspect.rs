//! The report of a machine whose every part is known, compared with what QEMU was told.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::agent::agent_files;
use crate::artifacts::test_folder;
use crate::boot;
use crate::expect::differences;
use crate::guest::Guest;
use crate::machine::Machine;

/// Runs `inspect` in the tiny system on `machine` and returns the report.
fn inspect(test: &str, machine: &Machine) -> Result<Value> {
    let folder = test_folder(test)?;
    let script = "run-coreos-installer inspect --format json 2>/results/log >/results/report.json; echo INSPECT $?
run-coreos-installer inspect --format text 2>>/results/log >/results/report.txt";
    let boot = boot::tiny("guest", &folder, machine, script, &agent_files()?)?;
    let mut guest = Guest::start("guest", &folder, machine, &boot, Duration::from_mins(5))?;
    guest.wait_for("INSPECT 0")?;
    guest.wait_for_end()?;
    let path = guest.results()?.join("report.json");
    let text = std::fs::read(&path)?;
    serde_json::from_slice(&text).with_context(|| format!("{} is no JSON", path.display()))
}

#[test]
fn the_report_of_a_plain_guest_says_what_qemu_was_told() -> Result<()> {
    let machine = Machine::plain(512, vec![Machine::target_disk()]);
    let report = inspect("inspect_plain", &machine)?;
    let differences = differences(&machine, &report);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    Ok(())
}

#[test]
fn the_report_of_a_two_socket_server_says_what_qemu_was_told() -> Result<()> {
    let machine = Machine::rich();
    let report = inspect("inspect_rich", &machine)?;
    let differences = differences(&machine, &report);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    Ok(())
}
