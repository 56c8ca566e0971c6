//! The harness itself: a guest starts, runs its script, sends results, and ends.

use std::time::Duration;

use anyhow::Result;
use serde_json::json;

use crate::artifacts::test_folder;
use crate::boot;
use crate::guest::Guest;
use crate::machine::Machine;

#[test]
fn a_tiny_guest_runs_its_script_and_sends_its_results() -> Result<()> {
    let folder = test_folder("harness_tiny")?;
    let machine = Machine::plain(256, vec![Machine::target_disk()]);
    let script =
        "echo HELLO; read word; echo HEARD $word; cat /sys/block/vda/serial >/results/serial";
    let boot = boot::tiny("guest", &folder, &machine, script, &[])?;
    let mut guest = Guest::start("guest", &folder, &machine, &boot, Duration::from_mins(2))?;
    guest.wait_for("HELLO")?;
    guest.type_line("knock")?;
    guest.wait_for("HEARD knock")?;
    guest.wait_for("TINY-EXIT 0")?;
    guest.wait_for_end()?;
    assert_eq!(std::fs::read_to_string(guest.results()?.join("serial"))?, "TARGET-0");
    Ok(())
}

#[test]
fn a_network_link_can_be_unplugged_and_plugged_in() -> Result<()> {
    let folder = test_folder("harness_link")?;
    let machine = Machine::plain(256, Vec::new());
    let script = "carrier() { until [ \"$(cat /sys/class/net/eth0/carrier)\" = $1 ]; do sleep 0.1; done; echo CARRIER-$1; }\ncarrier 1; carrier 0; carrier 1";
    let boot = boot::tiny("guest", &folder, &machine, script, &[])?;
    let mut guest = Guest::start("guest", &folder, &machine, &boot, Duration::from_mins(2))?;
    guest.wait_for("CARRIER-1")?;
    let mut qmp = guest.qmp()?;
    qmp.execute("set_link", &json!({"name": "port0", "up": false}))?;
    guest.wait_for("CARRIER-0")?;
    qmp.execute("set_link", &json!({"name": "port0", "up": true}))?;
    guest.wait_for("CARRIER-1")?;
    guest.wait_for_end()?;
    Ok(())
}
