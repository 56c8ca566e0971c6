//! A machine of Packet: its metadata becomes network profiles, which the installed system keeps, and the installed system has
//! the platform of the instruction once.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::boot;
use crate::install::{check_proved, instruction, nonce, start_lab_with, start_live_with};
use crate::machine::Machine;

#[test]
fn profiles_made_of_the_metadata_are_kept_by_the_installed_system() -> Result<()> {
    let proof = nonce()?;
    let mut order = instruction(&proof)?;
    order["install"]["platform"] = json!("packet");
    order["install"]["copy_network"] = json!(true);
    let machine = Machine::plain(2048, vec![Machine::target_disk()]);
    let metadata = json!({"id": "1", "network": {
        "bonding": {"mode": 1},
        "interfaces": [{"name": "eth0", "mac": machine.ports[0].mac, "bond": "bond0"}],
        "addresses": [
            {"address_family": 4, "public": true, "enabled": true, "cidr": 24, "address": "10.0.2.15", "gateway": "10.0.2.2"},
            {"address_family": 4, "public": false, "enabled": true, "cidr": 31, "address": "10.99.0.3", "gateway": "10.99.0.2"},
            {"address_family": 6, "public": true, "enabled": true, "cidr": 64, "address": "fec0::77", "gateway": "fec0::2"},
        ],
    }});
    let files = std::env::temp_dir().join(format!("rci-vm-metadata-{}", std::process::id()));
    std::fs::write(&files, metadata.to_string())?;
    let served = format!("metadata={}", files.display());
    let (folder, lab) = start_lab_with("packet", &proof, &order, &["--file", &served])?;
    let url = format!("{}/files/metadata", lab.url_ipv4());
    let mut live = start_live_with(&folder, &machine, &lab, &["--network-metadata", &url], "")?;
    live.wait_for("wrote /etc/NetworkManager/system-connections/bond0.nmconnection")?;
    live.wait_for_end()?;
    std::fs::remove_file(&files)?;
    lab.keep(&folder)?;
    check_proved(&lab)?;
    let result = lab.sent("result", Duration::ZERO)?;
    let checks = result["proof"]["checks"].as_array().context("the result has no proof")?;
    let network = checks.iter().find(|check| check["name"] == "network_files");
    ensure!(network.is_some_and(|check| check["ok"] == true), "{checks:#?}");
    let profiles = network.map(|check| check["expected"].to_string()).unwrap_or_default();
    ensure!(profiles.contains("bond0.nmconnection"), "the profiles are {profiles}");
    let entry = boot::boot_file(&folder.join("target.raw"), "/loader/entries/ostree-1-vm.conf")?;
    let entry = String::from_utf8(entry.context("no boot loader entry")?)?;
    let platforms: Vec<&str> =
        entry.split_whitespace().filter(|word| word.starts_with("ignition.platform.id=")).collect();
    ensure!(platforms == ["ignition.platform.id=packet"], "{entry}");
    Ok(())
}
