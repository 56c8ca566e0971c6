//! Posts the report from a minimal system: over IPv4 and IPv6, with a late network.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::artifacts::test_folder;
use crate::boot::start_tiny;
use crate::expect::differences;
use crate::guest::Guest;
use crate::lab::Lab;
use crate::machine::Machine;

/// Starts a tiny guest that posts its report to `url` and shows its exit status.
fn start_report(folder: &Path, url: &str) -> Result<Guest> {
    let script = format!(
        "echo REPORT; run-coreos-installer report --lldp-wait 0 --allow-plain-http --vim '{url}'; \
         echo STATUS=$?"
    );
    start_tiny(folder, &Machine::bare(512), &script)
}

/// Posts to `url` and compares the report with the machine.
fn report_arrives(test: &str, url: impl Fn(&Lab) -> String) -> Result<()> {
    let lab = Lab::start(test_folder(test)?, "")?;
    let mut guest = start_report(&lab.folder, &url(&lab))?;
    guest.wait_for("STATUS=0")?;
    guest.wait_for_end()?;
    let differences = differences(&Machine::bare(512), &lab.sent("report")?);
    ensure!(differences.is_empty(), "{}", differences.join("\n"));
    Ok(())
}

#[test]
fn a_report_arrives_over_ipv4() -> Result<()> {
    report_arrives("report_ipv4", Lab::url_ipv4)
}

#[test]
fn a_report_arrives_over_ipv6() -> Result<()> {
    report_arrives("report_ipv6", |lab| lab.url_ipv6("fec0::2"))
}

#[test]
fn a_report_arrives_at_an_address_with_a_zone() -> Result<()> {
    // QEMU's network reaches the host only on fec0::/64, so the zone is used with that address.
    report_arrives("report_zone", |lab| lab.url_ipv6("fec0::2%eth0"))
}

#[test]
fn a_report_is_posted_again_until_the_network_is_there() -> Result<()> {
    let lab = Lab::start(test_folder("report_late_link")?, "")?;
    let mut guest = start_report(&lab.folder, &lab.url_ipv4())?;
    // The guest needs seconds until it detects its network port.
    let mut qmp = guest.qmp()?;
    qmp.set_link("port0", false)?;
    guest.wait_for("REPORT")?;
    std::thread::sleep(Duration::from_secs(10));
    ensure!(!guest.console.has("STATUS="), "the agent gave up within 10 s");
    qmp.set_link("port0", true)?;
    guest.wait_for("STATUS=0")?;
    lab.sent("report").map(drop)
}
