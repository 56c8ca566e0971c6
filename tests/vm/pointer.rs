//! A pointer config, as for masters that join a cluster: the installed system fetches the rest of its Ignition config from a
//! machine-config server with a CA of its own.

use std::net::TcpListener;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::json;

use crate::boot;
use crate::install::{
    boot_installed, check_proved, installed_ignition, live_config_of, nonce, percent,
    small_instruction, start_lab_serving,
};
use crate::lab::Lab;
use crate::machine::Machine;
use crate::template::restore;

/// Replaces the config that the lab VIM returns by one that points at `/files/config/master` of its HTTPS port.
pub(crate) fn write(folder: &Path, lab: &Lab) -> Result<()> {
    let ca = std::fs::read_to_string(folder.join("tls/ca.pem"))?;
    point_at(&format!("{}/files/config/master", lab.url_https()?), &ca, folder)
}

/// Replaces the config that the lab VIM returns by one that points at `url`, whose server has a certificate of this CA.
fn point_at(url: &str, ca: &str, folder: &Path) -> Result<()> {
    let ca = format!("data:,{}", percent(ca));
    let pointer = json!({
        "ignition": {
            "version": "3.1.0",
            "config": {"merge": [{"source": url}]},
            "security": {"tls": {"certificateAuthorities": [{"source": ca}]}},
        },
        "storage": {"files": [
            {"path": "/etc/pointer", "mode": 0o644, "contents": {"source": "data:,pointer"}},
        ]},
    });
    Ok(std::fs::write(folder.join("target.ign"), pointer.to_string())?)
}

/// Checks that Ignition, and nothing else, fetched the config.
pub(crate) fn check(lab: &Lab) -> Result<()> {
    let requests = lab.requests()?;
    let fetch = requests
        .as_array()
        .and_then(|all| all.iter().find(|request| request["path"] == "/files/config/master"))
        .context("nothing asked for the config")?;
    let accept = fetch["headers"]["accept"].as_str().unwrap_or_default();
    ensure!(
        fetch["tls"] == true
            && accept.starts_with("application/vnd.coreos.ignition+json;version=3."),
        "the request was {fetch:#}"
    );
    Ok(())
}

/// Serves the masters' config from memory until one machine has fetched it, as the bootstrap of a first node does.
const BOOTSTRAP: &str = "\
[Unit]
Description=Bootstrap in memory
Before=run-coreos-installer.service

[Service]
Type=oneshot
RemainAfterExit=yes
WorkingDirectory=/srv
ExecStart=/bin/sh -c 'echo bootstrap serves the config of masters; openssl s_server -accept 22623 -cert server.pem -key server.pem -naccept 1 -WWW </dev/null'
ExecStart=/bin/echo bootstrap is done
StandardOutput=journal+console

[Install]
RequiredBy=run-coreos-installer.service
";

/// Writes the certificate and key of a server at this machine's address in a guest's network, and returns its CA.
fn write_certificate(folder: &Path) -> Result<String> {
    let mut ca = CertificateParams::default();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca_key = KeyPair::generate()?;
    let ca_pem = ca.self_signed(&ca_key)?.pem();
    let key = KeyPair::generate()?;
    let server = CertificateParams::new(vec!["10.0.2.2".to_owned()])?;
    let server = server.signed_by(&key, &Issuer::new(ca, ca_key))?;
    std::fs::write(folder.join("server.pem"), server.pem() + &key.serialize_pem())?;
    Ok(ca_pem)
}

/// A port that is free on this machine.
fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

#[test]
fn second_master_fetches_its_config_from_the_first_nodes_bootstrap_which_is_installed_after_it()
-> Result<()> {
    let proof = nonce()?;
    let served = ["--file", "config/master=master.ign"];
    let (folder, lab) = start_lab_serving("second_master", &proof, &served, "master.ign")?;
    let port = free_port()?;
    let url = format!("https://10.0.2.2:{port}/config/master");
    point_at(&url, &write_certificate(&folder)?, &folder)?;

    // The first node: its bootstrap holds the agent back.
    let at = |name: &str| folder.join(name).display().to_string();
    std::fs::write(folder.join("bootstrap.service"), BOOTSTRAP)?;
    let additions = [
        "--unit",
        &at("bootstrap.service"),
        "--file",
        &format!("/srv/config/master={}", at("master.ign")),
        "--file",
        &format!("/srv/server.pem={}", at("server.pem")),
    ];
    let config = live_config_of(&lab, &additions)?;
    let mut node = Machine::plain(2048, vec![Machine::target_disk()]);
    node.disks[0].id = "first-node";
    node.forwards.push(format!("hostfwd=tcp:127.0.0.1:{port}-:22623"));
    let mut first = restore("first-node", &folder, &node, &config, "")?;

    // The second master gets a config that points at the bootstrap.
    let mut master = Machine::plain(2048, vec![Machine::target_disk()]);
    master.ports[0].mac = "52:54:00:aa:00:02";
    let config = live_config_of(&lab, &[])?;
    let live = restore("live", &folder, &master, &config, "")?;
    live.wait_for_reboot()?;
    check_proved(&lab)?;
    ensure!(!first.console.has("bootstrap is done"), "the bootstrap did not wait");
    // From here on, what reports is the first node.
    let mut order = small_instruction(&proof)?;
    order["install"]["ignition"] = json!({
        "url": "{{base}}/files/config/master",
        "hash": "sha512-{{sha512:/files/config/master}}",
    });
    lab.put("/lab/default/instruction", &order)?;
    let shown = boot_installed("second", &folder)?;
    ensure!(shown.contains(&format!("file={proof} ")), "the first boot showed {shown:?}");

    first.wait_for("bootstrap is done")?;
    first.wait_for_reboot()?;
    lab.keep(&folder)?;
    check_proved(&lab)?;
    let installed = boot::boot_file(&folder.join("first-node.raw"), "/ignition/config.ign")?;
    ensure!(installed.as_deref() == Some(installed_ignition(&proof).as_bytes()), "another config");
    let nodes = lab.get("/lab/nodes")?.unwrap_or_default();
    ensure!(nodes["nodes"].as_array().is_some_and(|nodes| nodes.len() == 2), "{nodes:#}");
    Ok(())
}
