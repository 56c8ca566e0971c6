//! Inspection of captured machines and of this one, by the program itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::server::{Ironic, Options};
use super::until::until;

pub(crate) fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_run-coreos-installer"));
    command.env_clear().env("NO_COLOR", "1").stdin(Stdio::null());
    command
}

/// The captured machines in the repository.
fn fixtures() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures");
    let listed = fs::read_dir(folder).unwrap().flatten();
    let roots = listed.map(|entry| entry.path().join("root.tar.zst"));
    let mut fixtures: Vec<PathBuf> = roots.filter(|path| path.exists()).collect();
    fixtures.sort();
    fixtures
}

/// Reports a machine: exit status and log.
fn report(ironic: &Ironic, root: &Path, more: &[&str]) -> (Option<i32>, String) {
    let mut command = program();
    command.args(["report", "--to", "ironic", &ironic.url, "--allow-plain-http"]);
    let output = command.arg("--root").arg(root).args(more).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn document(root: &Path) -> Value {
    let output =
        program().args(["inspect", "--format", "ironic", "--root"]).arg(root).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn machines_are_discovered_with_every_hook_and_the_inventory_arrives_unchanged() {
    let ironic = Ironic::start(Options { discovers: true, ..Options::default() });
    let mut n = 0;
    for root in fixtures() {
        let known: Vec<Value> = ironic.nodes().iter().map(|node| node["uuid"].clone()).collect();
        let (status, said) = report(&ironic, &root, &[]);
        let posted = document(&root);
        if posted["inventory"]["interfaces"].as_array().is_none_or(Vec::is_empty) {
            assert_eq!(status, Some(3), "{}: {said}", root.display());
            continue;
        }
        assert_eq!(status, Some(0), "{}: {said}", root.display());
        let nodes = ironic.nodes();
        let node = nodes.iter().find(|node| !known.contains(&node["uuid"])).unwrap();
        let uuid = node["uuid"].as_str().unwrap();
        // The hooks run after the answer.
        let path = format!("nodes/{uuid}/inventory");
        let found = until("the inventory", || {
            let (status, found) = ironic.api("GET", &path, None);
            let error = &ironic.api("GET", &format!("nodes/{uuid}"), None).1["last_error"];
            assert!(error.is_null(), "{}: {error}", root.display());
            (status == 200).then_some(found)
        });
        assert_eq!(found["inventory"], posted["inventory"], "{}", root.display());
        // Captured machines may have the same MACs.
        ironic.api("DELETE", &format!("nodes/{uuid}"), None);
        n += 1;
    }
    assert!(n >= 3, "only {n} machines were discovered");
}

#[test]
fn node_that_is_not_waiting_is_refused_with_its_macs_and_advice() {
    let ironic = Ironic::start(Options::default());
    let root = &fixtures()[0];
    let (status, said) = report(&ironic, root, &[]);
    assert_eq!(status, Some(3), "{said}");
    let mac = document(root)["inventory"]["interfaces"][0]["mac_address"].clone();
    assert!(said.contains(mac.as_str().unwrap()) && said.contains("add a port"), "{said}");
    // Enrolled, and waiting.
    let node = ironic.enrol("known", &json!({}));
    let port = json!({"node_uuid": node.uuid, "address": mac});
    ironic.api("POST", "ports", Some(&port));
    node.order("inspect");
    node.until("inspect wait");
    let (status, said) = report(&ironic, root, &[]);
    assert_eq!(status, Some(0), "{said}");
    node.until("manageable");
    assert_eq!(
        node.get()["properties"]["cpu_arch"],
        document(root)["inventory"]["cpu"]["architecture"]
    );
}

#[test]
fn https_needs_a_certificate_that_is_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    fs::write(path("cert"), made.cert.pem()).unwrap();
    fs::write(path("key"), made.signing_key.serialize_pem()).unwrap();
    let leak = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
    let tls = Some((leak(path("cert")), leak(path("key"))));
    let ironic = Ironic::start(Options { tls, ..Options::default() });
    let root = &fixtures()[0];
    let (_, said) = report(&ironic, root, &["--ca-file", &path("cert"), "--give-up-after", "30"]);
    assert!(said.contains("Ironic responded 404"), "{said}");
    let (status, said) = report(&ironic, root, &["--give-up-after", "0"]);
    assert!(status == Some(3) && said.contains("certificate"), "{said}");
}

#[test]
fn this_machine_is_inspected_and_then_waits_for_the_power_off() {
    let ironic = Ironic::start(Options { discovers: true, ..Options::default() });
    let mut child = program()
        .args(["install", "--backend", "ironic", "--vim", &ironic.url, "--allow-plain-http"])
        .args(["--wait-for-disk", "0", "--bring-links-up=false"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until("a node", || ironic.nodes().pop());
    assert!(child.try_wait().unwrap().is_none(), "it ends before Ironic powers it off");
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGTERM).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("Ironic has the inspection"), "{said}");
}
