//! A machine of Packet (Equinix Metal): the live boot and the installed system have its platform, so the real Ignition reports to
//! its metadata server; its metadata becomes network profiles, which the installed system keeps.
//!
//! It boots because Ignition's fetch of its config, and what it reports, is the subject.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::artifacts::{Artifact, artifact};
use crate::boot;
use crate::cpio::{GuestFile, append};
use crate::guest::{Boot, Guest};
use crate::install::{
    LIVE, check_proved, instruction, live_config_of, nonce, proved, shown_proof, start_lab,
};
use crate::lab::Lab;
use crate::machine::Machine;
use crate::netboot::write_live_image;

/// The name that Ignition contacts, at port 443.
const SERVER: &str = "metadata.packet.net";
/// The address that the machine's hosts file gives it.
const ADDRESS: &str = "10.0.2.100";

/// The metadata of a machine with this port: a bond with a public, a private and an IPv6 address.
fn metadata(mac: &str, lab: &Lab) -> Value {
    json!({"id": "1", "phone_home_url": format!("{}/phone-home", lab.url_ipv4()), "network": {
        "bonding": {"mode": 1},
        "interfaces": [{"name": "eth0", "mac": mac, "bond": "bond0"}],
        "addresses": [
            {"address_family": 4, "public": true, "enabled": true, "cidr": 24, "address": "10.0.2.15", "gateway": "10.0.2.2"},
            {"address_family": 4, "public": false, "enabled": true, "cidr": 31, "address": "10.99.0.3", "gateway": "10.99.0.2"},
            {"address_family": 6, "public": true, "enabled": true, "cidr": 64, "address": "fec0::77", "gateway": "fec0::2"},
        ],
    }})
}

/// Connects the metadata server's address to the lab VIM, for QEMU, which starts a program for each connection.
fn server(lab: &Lab) -> Result<String> {
    let port = lab.https_port()?;
    let relay = lab.folder.join("relay");
    let script =
        format!("#!/bin/bash\nexec 3<>/dev/tcp/127.0.0.1/{port}\ncat <&3 &\ncat >&3\nkill $!\n");
    std::fs::write(&relay, script)?;
    std::fs::set_permissions(&relay, std::fs::Permissions::from_mode(0o755))?;
    Ok(format!("guestfwd=tcp:{ADDRESS}:443-cmd:{}", relay.display()))
}

/// Adds the metadata server's name and the lab VIM's CA to an initramfs.
fn with_server(initramfs: Vec<u8>, folder: &Path) -> Result<Vec<u8>> {
    let hosts = format!("127.0.0.1 localhost\n{ADDRESS} {SERVER}\n");
    let ca = std::fs::read(folder.join("tls/ca.pem"))?;
    let files = [
        GuestFile::new("etc/hosts", 0o644, hosts),
        GuestFile::new("etc/ssl/certs/ca-certificates.crt", 0o644, ca),
    ];
    Ok(append(initramfs, &files))
}

/// How often Ignition asked the metadata server where to report, and how often it reported the end of a stage.
fn reported(lab: &Lab) -> Result<(usize, usize)> {
    let questions = lab.requests(|request| {
        let agent = request["headers"]["user-agent"].as_str().unwrap_or_default();
        request["path"] == "/metadata" && request["tls"] == true && agent.starts_with("Ignition/")
    })?;
    let messages =
        lab.requests(|request| request["path"] == "/events" && request["method"] == "POST")?;
    Ok((questions.len(), messages.len()))
}

/// Checks that kernel arguments name this platform and no other.
fn check_platform(arguments: &str) -> Result<()> {
    let words = arguments.split_whitespace();
    let mut platforms = words.filter_map(|word| word.strip_prefix("ignition.platform.id="));
    ensure!(platforms.by_ref().eq(["packet"]), "{arguments}");
    Ok(())
}

/// The folder that the lab VIM serves to machines: the live image for this platform, with the metadata server in its initramfs.
fn write_boot_folder(lab: &Lab) -> Result<()> {
    write_live_image(lab, "--platform packet")?;
    let folder = &lab.folder;
    let initramfs = folder.join("boot/initramfs.img");
    // The file is a link to that of all tests.
    std::fs::remove_file(&initramfs)?;
    let original = std::fs::read(artifact(Artifact::LIVE_INITRD)?)?;
    std::fs::write(&initramfs, with_server(original, folder)?)?;
    let option = format!("--network-metadata {}/metadata", lab.url_ipv4());
    let config = live_config_of(lab, &option)?;
    Ok(std::fs::write(folder.join("boot/live.ign"), config)?)
}

/// Boots the installed system and checks that Ignition has applied the config.
fn first_boot(folder: &Path, machine: &Machine, proof: &str) -> Result<()> {
    let boot = boot::installed("first", folder)?;
    let original = std::fs::read(&boot.initrd)?;
    std::fs::write(&boot.initrd, with_server(original, folder)?)?;
    let first = Guest::start("first", folder, machine, &Boot::Kernel(boot), LIVE)?;
    shown_proof(first, proof).map(drop)
}

#[test]
fn live_and_installed_ignition_report_to_the_metadata_server_whose_network_is_kept() -> Result<()> {
    let proof = nonce()?;
    let mut order = instruction(&proof, Artifact::IMAGE_512)?;
    order["install"]["platform"] = json!("packet");
    order["install"]["copy_network"] = json!(true);
    // Ignition reports each stage, so it needs a network even for a config that it has already.
    order["install"]["firstboot_args"] = json!("rd.neednet=1 ip=dhcp");
    let arguments = format!("--boot boot --listen-https 127.0.0.1:0 --tls-dir tls --name {SERVER}");
    let lab = start_lab("packet", &proof, &order, &arguments)?;
    let folder = &lab.folder;
    let mut machine = Machine::bare(2560);
    let answer = |route: &str, body: &Value| json!({"route": route, "kind": "answer", "times": "forever", "body": body.to_string()});
    let metadata = metadata(machine.ports[0].mac, &lab);
    lab.put(
        "/lab/faults",
        &json!([answer("/metadata", &metadata), answer("/events", &json!({}))]),
    )?;
    machine.forwards.push(server(&lab)?);

    write_boot_folder(&lab)?;
    let boot = Boot::Network { tftp: folder.join("tftp"), file: "boot.ipxe" };
    let mut live = Guest::start("live", folder, &machine, &boot, LIVE)?;
    live.wait_for("wrote /etc/NetworkManager/system-connections/bond0.nmconnection")?;
    live.wait_for_end()?;
    let result = check_proved(&lab)?;
    let of_live = reported(&lab)?;
    ensure!(of_live.0 >= 4 && of_live.1 >= 4, "Ignition of the live boot reported {of_live:?}");
    let report = lab.sent("report")?;
    check_platform(report["os"]["command_line"].as_str().unwrap_or_default())?;
    let profiles = proved(&result, "network_files")?["expected"].to_string();
    ensure!(profiles.contains("bond0.nmconnection"), "the profiles are {profiles}");
    let entry = boot::boot_file(&folder.join("target.raw"), "/loader/entries/ostree-1-vm.conf")?;
    check_platform(&String::from_utf8(entry.context("no boot loader entry")?)?)?;

    first_boot(folder, &Machine { n_cores: 1, ..machine }, &proof)?;
    let of_both = reported(&lab)?;
    ensure!(
        of_both.0 >= of_live.0 + 4 && of_both.1 >= of_live.1 + 4,
        "Ignition of the live boot reported {of_live:?}, of both boots {of_both:?}"
    );
    Ok(())
}
