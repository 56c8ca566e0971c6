//! A pointer config, as for masters that join a cluster: the installed system fetches the rest of its Ignition config from a
//! machine-config server with a CA of its own.

use std::path::Path;

use anyhow::{Result, ensure};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};

use crate::artifacts::Artifact;
use crate::install::{
    boot_installed, check_ignition, check_rebooted, instruction, live_config_of, nonce, percent,
    start_lab, unit_before_agent,
};
use crate::lab::Lab;
use crate::machine::Machine;
use crate::server::port;
use crate::template::{restore, restore_live};

/// Replaces the config that the lab VIM returns by one that points at `/files/config/master` of its HTTPS port.
pub(crate) fn write(lab: &Lab) -> Result<()> {
    let ca = std::fs::read_to_string(lab.folder.join("tls/ca.pem"))?;
    let url = format!("https://10.0.2.2:{}/files/config/master", lab.https_port()?);
    point_at(&url, &ca, &lab.folder)
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

/// Checks that the agent and then Ignition fetched the config, and asked for it alike.
pub(crate) fn check(lab: &Lab) -> Result<()> {
    let requests = lab.requests(|request| request["path"] == "/files/config/master")?;
    let header = |fetch: &Value, name: &str| fetch["headers"][name].as_str().map(str::to_owned);
    let is_alike = |fetch: &Value| {
        let accept = header(fetch, "accept").unwrap_or_default();
        fetch["tls"] == true
            && accept.starts_with("application/vnd.coreos.ignition+json;version=3.")
    };
    ensure!(requests.iter().all(is_alike), "the requests were {requests:#?}");
    let programs = requests.iter().map(|fetch| header(fetch, "user-agent").unwrap_or_default());
    let mut names: Vec<_> =
        programs.map(|name| name.split('/').next().unwrap_or_default().to_owned()).collect();
    names.dedup();
    ensure!(names == ["run-coreos-installer", "Ignition"], "{names:?} asked for the config");
    Ok(())
}

/// Serves the masters' config from memory until one machine has fetched it, as the bootstrap of a first node does: its agent
/// checks the config before the install, and its Ignition applies it.
const BOOTSTRAP: &str = "WorkingDirectory=/srv
ExecStart=/bin/sh -c 'echo bootstrap serves the config of masters; openssl s_server -accept 22623 -cert server.pem -key server.pem -naccept 2 -WWW </dev/null'
ExecStart=/bin/echo bootstrap is done";

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

#[test]
fn second_master_fetches_its_config_from_the_first_nodes_bootstrap_which_is_installed_after_it()
-> Result<()> {
    let proof = nonce()?;
    let mut order = instruction(&proof, Artifact::IMAGE_512)?;
    let lab = start_lab("second_master", &proof, &order, "--file config/master=master.ign")?;
    let folder = &lab.folder;
    let port = port();
    let url = format!("https://10.0.2.2:{port}/config/master");
    point_at(&url, &write_certificate(folder)?, folder)?;

    // The first node: its bootstrap holds the agent back.
    std::fs::write(folder.join("bootstrap.service"), unit_before_agent(BOOTSTRAP))?;
    let files = "--file /srv/config/master=master.ign --file /srv/server.pem=server.pem";
    let config = live_config_of(&lab, &format!("--unit bootstrap.service {files}"))?;
    let mut node = Machine::bare(2048);
    node.disks[0].id = "first-node";
    node.forwards.push(format!("hostfwd=tcp:127.0.0.1:{port}-:22623"));
    let mut first = restore("first-node", folder, &node, &config, "")?;

    // The second master gets a config that points at the bootstrap.
    let mut master = Machine::bare(2048);
    master.ports[0].mac = "52:54:00:aa:00:02";
    check_rebooted(restore_live(&lab, &master, "")?, &lab)?;
    ensure!(!first.console.has("bootstrap is done"), "the bootstrap did not wait");
    // From here on, what reports is the first node.
    order = instruction(&proof, Artifact::IMAGE_SMALL)?;
    order["install"]["ignition"] = json!({
        "url": "{{base}}/files/config/master",
        "hash": "sha512-{{sha512:/files/config/master}}",
    });
    lab.put("/lab/default/instruction", &order)?;
    boot_installed("second", folder, &proof)?;

    first.wait_for("bootstrap is done")?;
    check_rebooted(first, &lab)?;
    check_ignition(&folder.join("first-node.raw"), &proof)?;
    let nodes = lab.get("/lab/nodes")?;
    ensure!(nodes["nodes"].as_array().is_some_and(|nodes| nodes.len() == 2), "{nodes:#}");
    Ok(())
}
