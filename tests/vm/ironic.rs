//! A real Ironic inspects and installs a virtual machine: live image, agent and coreos-installer are the real ones. Power is
//! not: Ironic's has no effect, and the machine is on from the start.

use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::artifacts::{Artifact, artifact};
use crate::install::{
    LIVE, agent_from, check_ignition, installed_ignition, instruction, live_config, nonce,
    start_lab,
};
use crate::machine::Machine;
use crate::server::{Ironic, Options, port};
use crate::template::restore;

#[test]
#[expect(clippy::print_stderr, reason = "the times of a run are worth a look")]
fn node_of_ironic_is_inspected_deployed_and_powered_off() -> Result<()> {
    let proof = nonce()?;
    // The lab VIM serves the agent and the image, nothing else.
    let order = instruction(&proof, Artifact::IMAGE_SMALL)?;
    let lab = start_lab("ironic", &proof, &order, "")?;
    let machine = Machine::bare(2048);
    let ironic = Ironic::start(Options { callback_timeout_s: Some(600), ..Options::default() });
    let (image, name) = (artifact(Artifact::IMAGE_SMALL)?, Artifact::IMAGE_SMALL.file_name()?);
    let digest = Command::new("sha256sum").arg(image).output().context("running sha256sum")?;
    let digest = String::from_utf8(digest.stdout)?;
    let node = ironic.enrol(
        "vm",
        &json!({
            "driver_info": {"fast_track": true},
            "properties": {"root_device": {"serial": "s== TARGET-0"}},
            "instance_info": {
                "image_source": format!("{}/files/{name}", lab.url_ipv4()),
                "image_os_hash_algo": "sha256",
                "image_os_hash_value": digest.split(' ').next(),
            },
        }),
    );
    let mac = machine.ports[0].mac;
    let added = json!({"node_uuid": node.uuid, "address": mac});
    ensure!(ironic.api("POST", "ports", Some(&added)).0 == 201, "no port with {mac}");
    node.order("inspect");
    node.until("inspect wait");
    let callback = port();
    let url = ironic.url.replace("127.0.0.1", "10.0.2.2");
    let options = format!(
        "{} --agent-option backend=ironic-agent --agent-option callback-url=https://127.0.0.1:{callback}",
        agent_from(&lab, &url)?
    );
    let config = live_config(&lab.folder, &options)?;
    let started = Instant::now();
    let mut live = restore("live", &lab.folder, &machine, &config, "")?;
    // Ironic reaches the guest through QEMU's user network.
    live.qmp()?.monitor(&format!("hostfwd_add net0 tcp:127.0.0.1:{callback}-:9999"))?;
    node.until_within("manageable", LIVE);
    eprintln!("inspected after {:.0} s", started.elapsed().as_secs_f64());
    node.order("provide");
    node.until("available");
    let arguments = json!({"coreos_append_karg": ["console=ttyS0", format!("vm.proof={proof}")]});
    node.deploy(&installed_ignition(&proof), &arguments);
    node.until_within("active", LIVE);
    eprintln!("active after {:.0} s", started.elapsed().as_secs_f64());
    // As Ironic asks.
    live.wait_for_end()?;
    let (_, inventory) = ironic.api("GET", &format!("nodes/{}/inventory", node.uuid), None);
    ensure!(inventory["inventory"]["disks"][0]["serial"] == "TARGET-0", "{inventory:#}");
    std::fs::write(lab.folder.join("ironic.log"), ironic.log())?;
    check_ignition(&lab.folder.join("target.raw"), &proof)
}
