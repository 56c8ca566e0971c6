//! The data of captured machines for a real ironic-inspector, the last release, which changes nodes of a real Ironic.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;

use probes::block::Block;
use probes::collect::Inventory;
use probes::cpu::Cpu;
use probes::memory::Memory;
use probes::network::LldpNeighbour;
use run_coreos_installer::clock::{Clock, RealClock};
use run_coreos_installer::engines::inspector;
use run_coreos_installer::http::ServerSettings;
use run_coreos_installer::report::Report;
use run_coreos_installer::signals::Stop;
use serde_json::{Value, json};

use super::inspect::program;
use super::server::{self, Ironic, Node, Options};
use super::skipped::skipped;
use super::until::until;

/// Every hook of OSP 13's director, and those that read more of the document.
const HOOKS: &str =
    "$default_processing_hooks,extra_hardware,lldp_basic,local_link_connection,raid_device";
/// A captured machine with several ports, disks and DIMMs, and its serial number.
const SERVER: (&str, &str) = ("two-socket-server", "7XJ4KZ3");

/// Where the inspector is installed, or why it is not.
fn venv() -> Result<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let output = Command::new(root.join("tests/venv"))
        .arg("inspector")
        .arg(root.join("tests/ironic/inspector-requirements.txt"))
        .output()
        .unwrap();
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; "));
    }
    let python = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
    Ok(python.parent().unwrap().to_owned())
}

/// A running inspector, ended when dropped.
struct Inspector<'a> {
    ironic: &'a Ironic,
    folder: PathBuf,
    url: String,
    child: Child,
    client: ureq::Agent,
}

impl<'a> Inspector<'a> {
    fn start(programs: &Path, ironic: &'a Ironic) -> Self {
        let folder = std::env::temp_dir().join(format!("rci-inspector-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (port, configuration) = (server::port(), folder.join("inspector.conf"));
        fs::write(&configuration, config(&folder, port, &ironic.url)).unwrap();
        let made = Command::new(programs.join("ironic-inspector-dbsync"))
            .arg("--config-file")
            .arg(&configuration)
            .arg("upgrade")
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let log = folder.join("log");
        let child = server::start(&programs.join("ironic-inspector"), &configuration, &log);
        let url = format!("http://127.0.0.1:{port}");
        let inspector = Self { ironic, folder, url, child, client: server::client() };
        until("the API", || server::request(&inspector.client, "GET", &inspector.url, None));
        inspector
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    fn api(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        let url = format!("{}/v1/{path}", self.url);
        server::request(&self.client, method, &url, body)
            .unwrap_or_else(|| panic!("{method} {path}:\n{}", self.log()))
    }

    /// The only node: it has a port of this MAC, and its introspection is started.
    fn expect(&self, name: &str, mac: &str) -> Node<'a> {
        // Captured machines may have the same MACs, which belong to one node only.
        for node in self.ironic.nodes() {
            let path = format!("nodes/{}", node["uuid"].as_str().unwrap());
            assert_eq!(self.ironic.api("DELETE", &path, None).0, 204);
        }
        let node = self.ironic.enrol(name, &json!({}));
        let port = json!({"node_uuid": node.uuid, "address": mac});
        assert_eq!(self.ironic.api("POST", "ports", Some(&port)).0, 201);
        let path = format!("introspection/{}?manage_boot=0", node.uuid);
        assert_eq!(self.api("POST", &path, None).0, 202);
        node
    }

    /// The state of the introspection when it has ended.
    fn ended(&self, node: &Node<'_>) -> Value {
        until("the end of the introspection", || {
            let state = self.api("GET", &format!("introspection/{}", node.uuid), None).1;
            (state["finished"] == true).then_some(state)
        })
    }

    /// Posts a document by the function of the engine.
    fn post(&self, document: &Value) -> anyhow::Result<String> {
        let mut settings = ServerSettings::new(&self.url);
        settings.allow_plain_http = true;
        settings.deadline = Some(Duration::from_secs(20));
        let clock: Arc<dyn Clock> = Arc::new(RealClock);
        inspector::inspect(&inspector::client(&settings, &clock, &Stop::default())?, document)
    }

    /// Posts a captured machine by the program: exit status and log.
    fn report(&self, root: &Path) -> (Option<i32>, String) {
        let mut command = program();
        command.args(["report", "--to", "inspector", "--allow-plain-http", "--give-up-after", "9"]);
        let output = command.arg(format!("{}/v1/continue", self.url)).arg("--root").arg(root);
        let output = output.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

impl Drop for Inspector<'_> {
    fn drop(&mut self) {
        server::end(&mut self.child);
        if std::thread::panicking() {
            eprintln!("the log of ironic-inspector is in {}", self.folder.display());
        } else {
            fs::remove_dir_all(&self.folder).ok();
        }
    }
}

fn config(folder: &Path, port: u16, ironic: &str) -> String {
    let folder = folder.display();
    format!(
        "[DEFAULT]
standalone = true
auth_strategy = noauth
host = localhost
listen_address = 127.0.0.1
listen_port = {port}
transport_url = fake://
introspection_delay = 0
[database]
connection = sqlite:///{folder}/inspector.sqlite
[ironic]
auth_type = none
endpoint_override = {ironic}
[oslo_concurrency]
lock_path = {folder}
[processing]
add_ports = all
keep_ports = added
processing_hooks = {HOOKS}
ramdisk_logs_dir = {folder}/ramdisk
store_data = database
[pxe_filter]
driver = noop
"
    )
}

fn captured(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures").join(name).join("root.tar.zst")
}

/// The report of a captured machine.
fn read(root: &Path) -> Report {
    let output = program().args(["inspect", "--format", "json", "--root"]).arg(root).output();
    serde_json::from_slice(&output.unwrap().stdout).unwrap()
}

fn macs(document: &Value) -> Vec<&str> {
    let ports = document["inventory"]["interfaces"].as_array().unwrap();
    let mut macs: Vec<&str> =
        ports.iter().map(|port| port["mac_address"].as_str().unwrap()).collect();
    macs.sort_unstable();
    macs
}

#[test]
fn real_inspector_takes_the_data_of_machines_and_applies_its_rules() {
    let programs = match venv() {
        Ok(programs) => programs,
        Err(why) => {
            assert!(std::env::var_os("RCI_REQUIRE_TOOLS").is_none(), "{why}");
            return skipped(&format!("ironic-inspector cannot be installed: {why}"));
        }
    };
    let ironic = Ironic::start(Options::default());
    let inspector = Inspector::start(&programs, &ironic);
    node_that_nobody_introspects_is_unknown(&inspector);
    machine_is_introspected_and_a_rule_sees_its_facts(&inspector);
    machine_with_unknown_facts_is_accepted_with_its_neighbour(&inspector);
    data_with_an_error_are_refused_with_it(&inspector);
    rule_that_fails_is_no_unknown_node(&inspector);
}

fn node_that_nobody_introspects_is_unknown(inspector: &Inspector<'_>) {
    let (status, said) = inspector.report(&captured(SERVER.0));
    assert_eq!(status, Some(3), "{said}");
    assert!(said.contains("Could not find") && said.contains("start the introspection"), "{said}");
}

fn machine_is_introspected_and_a_rule_sees_its_facts(inspector: &Inspector<'_>) {
    let rule = json!({
        "conditions": [
            {"op": "eq", "field": "data://extra.system.product.serial", "value": SERVER.1},
            {"op": "ge", "field": "data://cpus", "value": 8},
        ],
        "actions": [{
            "action": "set-attribute", "path": "/extra/board",
            "value": "{data[extra][system][motherboard][name]}",
        }],
    });
    assert_eq!(inspector.api("POST", "rules", Some(&rule)).0, 201);
    let root = captured(SERVER.0);
    let report = read(&root);
    let document = inspector::document(&report, "");
    let node = inspector.expect("captured", macs(&document)[0]);
    let (status, said) = inspector.report(&root);
    assert_eq!(status, Some(0), "{said}\n{}", inspector.log());
    assert!(said.contains(&node.uuid), "{said}");
    assert_eq!(inspector.ended(&node)["error"], Value::Null);

    let found = node.get();
    let (facts, properties) = (&document["inventory"], &found["properties"]);
    assert_eq!(properties["cpus"], facts["cpu"]["count"].to_string());
    assert_eq!(properties["cpu_arch"], facts["cpu"]["architecture"]);
    assert_eq!(properties["memory_mb"], facts["memory"]["physical_mb"].to_string());
    let board = report.inventory.baseboard.and_then(|board| board.product);
    assert_eq!(found["extra"]["board"].as_str(), board.as_deref());

    let ports = inspector.ironic.api("GET", &format!("nodes/{}/ports", node.uuid), None).1;
    let mut addresses: Vec<&str> =
        ports["ports"].as_array().unwrap().iter().map(|p| p["address"].as_str().unwrap()).collect();
    addresses.sort_unstable();
    assert_eq!(addresses, macs(&document));

    let path = format!("introspection/{}/data", node.uuid);
    let stored = inspector.api("GET", &path, None).1;
    for key in ["inventory", "numa_topology", "pci_devices"] {
        assert_eq!(stored[key], document[key], "{key}");
    }
    // The hook makes numbers of texts with digits only.
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let items = document["data"].as_array().unwrap();
    for item in items {
        let [category, part, name] = [0, 1, 2].map(|n| item[n].as_str().unwrap());
        let kept = &stored["extra"][category][part][name];
        assert_eq!(text(kept), text(&item[3]), "{category} {part} {name}");
    }
    assert!(items.len() > 50, "{}", items.len());
    assert_eq!(inspector.api("DELETE", "rules", None).0, 204);
}

/// No value is made up for what is unknown, and none of the hooks refuses that.
fn machine_with_unknown_facts_is_accepted_with_its_neighbour(inspector: &Inspector<'_>) {
    let report = read(&captured(SERVER.0));
    let mut network = report.inventory.network.clone().unwrap();
    let neighbour = LldpNeighbour {
        // Chassis by MAC, port by name, time to live, end.
        lldpdu_hex: "0207040200000000aa04050573777031060200780000".into(),
        ..LldpNeighbour::default()
    };
    for port in &mut network.interfaces {
        port.lldp = Some(vec![neighbour.clone()]);
    }
    let inventory = Inventory {
        network: Some(network),
        local_addresses: report.inventory.local_addresses.clone(),
        cpu: Some(Cpu::default()),
        memory: Some(Memory::default()),
        block: Some(Block::default()),
        ..Inventory::default()
    };
    let document = inspector::document(&Report { inventory, ..report }, "");
    let mac = macs(&document)[0];
    let node = inspector.expect("bare", mac);
    assert_eq!(inspector.post(&document).unwrap(), node.uuid);
    assert_eq!(inspector.ended(&node)["error"], Value::Null);
    assert_eq!(node.get()["properties"], json!({"local_gb": "0"}));
    let path = format!("ports?detail=true&address={mac}");
    let ports = inspector.ironic.api("GET", &path, None).1;
    let expected = json!({"switch_id": "02:00:00:00:00:aa", "port_id": "swp1"});
    assert_eq!(ports["ports"][0]["local_link_connection"], expected, "{}", inspector.log());
}

/// The inspector goes on waiting: it cannot end an introspection before it has found the node.
fn data_with_an_error_are_refused_with_it(inspector: &Inspector<'_>) {
    let report = read(&captured("plain-guest"));
    let inventory = Inventory { block: None, ..report.inventory.clone() };
    let document = inspector::document(&Report { inventory, ..report }, "");
    let node = inspector.expect("broken", macs(&document)[0]);
    let why = inspector.post(&document).unwrap_err().to_string();
    assert!(why.contains("the section block is missing"), "{why}");
    let state = inspector.api("GET", &format!("introspection/{}", node.uuid), None).1;
    assert_eq!((&state["state"], &state["finished"]), (&json!("waiting"), &json!(false)));
}

/// The inspector answers 500 without a text, and knows the node no more.
fn rule_that_fails_is_no_unknown_node(inspector: &Inspector<'_>) {
    let rule = json!({"actions": [{
        "action": "set-attribute", "path": "/extra/x", "value": "{data[extra][no][such][fact]}",
    }]});
    assert_eq!(inspector.api("POST", "rules", Some(&rule)).0, 201);
    let document = inspector::document(&read(&captured("plain-guest")), "");
    let node = inspector.expect("ruled", macs(&document)[0]);
    let why = inspector.post(&document).unwrap_err().to_string();
    assert!(why.contains("has probably processed an earlier try") && why.contains("500"), "{why}");
    assert_eq!(inspector.ended(&node)["state"], "error");
    let logs: Vec<_> = fs::read_dir(inspector.folder.join("ramdisk")).unwrap().collect();
    assert!(!logs.is_empty(), "the inspector kept no log of the agent");
}
