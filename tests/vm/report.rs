//! Posts the report from a minimal system: over IPv4 and IPv6, with a late network, without a VIM.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;

use crate::agent::agent_files;
use crate::artifacts::test_folder;
use crate::boot;
use crate::expect::differences;
use crate::guest::Guest;
use crate::lab::Lab;
use crate::machine::Machine;

const BOUND: Duration = Duration::from_mins(4);

/// Starts a tiny guest that runs `report` with these arguments and shows its exit status.
fn start_report(folder: &std::path::Path, machine: &Machine, arguments: &str) -> Result<Guest> {
    let script = format!(
        "echo REPORT; run-coreos-installer report --lldp-wait 0 --allow-plain-http {arguments}; \
         echo STATUS=$?"
    );
    let boot = boot::tiny("guest", folder, machine, &script, &agent_files()?)?;
    Guest::start("guest", folder, machine, &boot, BOUND)
}

/// Posts to `url` and compares the report with the machine.
fn report_arrives(test: &str, url: impl Fn(&Lab) -> String) -> Result<()> {
    let folder = test_folder(test)?;
    let lab = Lab::start(&folder, &[])?;
    let machine = Machine::plain(512, vec![Machine::target_disk()]);
    let mut guest = start_report(&folder, &machine, &format!("--vim '{}'", url(&lab)))?;
    guest.wait_for("STATUS=0")?;
    guest.wait_for_end()?;
    lab.keep(&folder)?;
    let differences = differences(&machine, &lab.sent("report", Duration::ZERO)?);
    ensure!(differences.is_empty(), "{}", differences.join("\n"));
    Ok(())
}

#[test]
fn a_report_arrives_over_ipv4() -> Result<()> {
    report_arrives("report_ipv4", Lab::url_ipv4)
}

#[test]
fn a_report_arrives_over_ipv6() -> Result<()> {
    report_arrives("report_ipv6", Lab::url_ipv6)
}

#[test]
fn a_report_arrives_at_an_address_with_a_zone() -> Result<()> {
    // QEMU's network reaches the host only on fec0::/64, so the zone is used with that address.
    report_arrives("report_zone", |lab| format!("http://[fec0::2%eth0]:{}", lab.port_ipv6()))
}

#[test]
fn a_report_is_posted_again_until_the_network_is_there() -> Result<()> {
    let folder = test_folder("report_late_link")?;
    let lab = Lab::start(&folder, &[])?;
    let machine = Machine::plain(512, vec![Machine::target_disk()]);
    let mut guest = start_report(&folder, &machine, &format!("--vim '{}'", lab.url_ipv4()))?;
    // The guest needs seconds until it detects its network port.
    let mut qmp = guest.qmp()?;
    qmp.execute("set_link", &json!({"name": "port0", "up": false}))?;
    guest.wait_for("REPORT")?;
    std::thread::sleep(Duration::from_secs(10));
    ensure!(!guest.console.has("STATUS="), "the agent gave up within 10 s");
    qmp.execute("set_link", &json!({"name": "port0", "up": true}))?;
    guest.wait_for("STATUS=0")?;
    lab.sent("report", Duration::ZERO)?;
    Ok(())
}

#[test]
fn a_vim_that_is_not_there_ends_in_status_3_within_the_time_given() -> Result<()> {
    let folder = test_folder("report_nobody")?;
    let machine = Machine::plain(512, Vec::new());
    let mut guest = start_report(&folder, &machine, "--vim http://10.0.2.2:9 --give-up-after 8")?;
    guest.wait_for("REPORT")?;
    let asked = guest.age();
    guest.wait_for("failed tries: 2")?;
    guest.wait_for("STATUS=3")?;
    // The agent may give up early, when the next wait would exceed the time given.
    let took = guest.age().saturating_sub(asked);
    ensure!(took < Duration::from_secs(20), "gave up after {took:?}");
    Ok(())
}
