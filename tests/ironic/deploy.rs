//! Deployments and cleaning, one node each. A crash of the agent must never end in `active`.

use std::fs;
use std::net::TcpStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::agent::{Agent, IGNITION, Task, WRITE};
use super::image;
use super::server::{Ironic, Node, Options};

/// How many nodes are deployed at once.
const N_WORKERS: usize = 3;

type Scenario = (&'static str, fn(&Ironic));

/// Runs scenarios on one Ironic, a few at a time, and fails after all of them have ended.
fn run_all(ironic: &Ironic, scenarios: &[Scenario]) {
    let queue = Mutex::new(scenarios.iter());
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..N_WORKERS.min(scenarios.len()) {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().unwrap().next();
                    let Some((name, scenario)) = next else { return };
                    let started = Instant::now();
                    let outcome = catch_unwind(AssertUnwindSafe(|| scenario(ironic)));
                    let word = if outcome.is_ok() { "ok" } else { "FAILED" };
                    eprintln!("{word} {name}: {:.1} s", started.elapsed().as_secs_f64());
                    if outcome.is_err() {
                        failed.lock().unwrap().push(*name);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{failed:?}");
}

#[test]
fn deployments() {
    let ironic = Ironic::start(Options::default());
    run_all(
        &ironic,
        &[
            ("inspected and deployed node is active, with its disk written", happy),
            ("host of docs/first-node.md is deployed", metal3),
            ("installed system writes its boots into the node", confirmed),
            ("agent killed in the middle of a step fails the deployment", killed),
            ("agent that its parent starts again after a crash fails the deployment", crashed),
            ("node that cannot be powered off is locked down, over IPv6", locked_down),
            ("agent without its state never takes part again", forgotten),
            ("agent that is gone fails the deployment", gone),
            ("failing step says why and what to do", failing),
            ("unclear disk is refused with advice in Ironic's words", ambiguous),
            ("API is answered while a step runs, and refuses what it must", busy),
            ("one agent inspects, cleans and deploys without a reboot", fast_track),
            ("token that Ironic does not know gives the agent nothing", wrong_token),
            ("cleaning erases the disk that is named", clean),
            ("cleaning without a named disk fails", clean_nothing),
            ("cleaning fails if one of the disks was not erased", clean_half),
            ("signal in the middle of a step fails the deployment", ended),
        ],
    );
}

#[test]
fn conductor_that_restarts_in_the_middle_of_a_step_ends_active() {
    let mut ironic = Ironic::start(Options::default());
    let node = waiting(&ironic, &by_serial());
    let (uuid, mac) = (node.uuid.clone(), node.mac.clone());
    let agent = with_installer(&node, format!("sleep 12; {WRITE}")).start();
    agent.until_logged("Ironic orders deploy.execute_deploy_step");
    ironic.down();
    ironic.up();
    Node { ironic: &ironic, uuid, mac }.until("active");
    assert!(is_written(&agent));
}

/// Root device hints that name the first disk.
fn by_serial() -> Value {
    json!({"properties": {"root_device": {"serial": "s== SERIAL-sda"}}})
}

fn available<'a>(ironic: &'a Ironic, more: &Value) -> Node<'a> {
    let node = ironic.enrol("deploy", more);
    node.order("provide");
    node.until("available");
    node
}

/// A node that is being deployed and waits for its agent.
fn waiting<'a>(ironic: &'a Ironic, more: &Value) -> Node<'a> {
    let node = available(ironic, more);
    node.deploy(IGNITION, &json!({"coreos_append_karg": ["a=b"]}));
    node.until("wait call-back");
    node
}

fn with_installer(node: &Node<'_>, installer: String) -> Task {
    Task { installer, ..Task::new(node) }
}

fn is_written(agent: &Agent) -> bool {
    agent.disk().windows(8).any(|bytes| bytes == b"EFI PART")
}

fn happy(ironic: &Ironic) {
    let node = ironic.enrol("happy", &by_serial());
    node.order("inspect");
    node.until("inspect wait");
    let mut agent = Task::new(&node).start();
    node.until("manageable");
    agent.end();
    let (_, inventory) = ironic.api("GET", &format!("nodes/{}/inventory", node.uuid), None);
    assert_eq!(inventory["inventory"]["interfaces"][0]["mac_address"], node.mac);
    node.order("provide");
    node.until("available");
    node.deploy(IGNITION, &json!({"coreos_append_karg": ["a=b"]}));
    node.until("wait call-back");
    let agent = Task::new(&node).start();
    node.until("active");
    assert!(is_written(&agent));
    agent.until_logged("powering off as Ironic asks");
    assert!(!agent.log().contains(&agent.token()), "the log contains the token");
    let listed = ironic.ramdisk_logs();
    assert!(listed.iter().any(|path| path.to_string_lossy().contains(&node.uuid)), "{listed:?}");
}

/// Ironic refuses the request while it deploys the node, so the script of the installed system repeats it.
fn confirmed(ironic: &Ironic) {
    let node = available(ironic, &by_serial());
    let (args, more) = (json!({"confirm": true}), json!({"coreos_append_karg": ["a=b"]}));
    node.deploy_with(&args, "install_coreos", IGNITION, &more);
    node.until("wait call-back");
    let path = format!("nodes/{}", node.uuid);
    let extra = json!([{"op": "add", "path": "/extra/x", "value": 1}]);
    assert_eq!(ironic.api("PATCH", &path, Some(&extra)).0, 409);
    let agent = with_installer(&node, image::writing_config()).start();
    node.until("active");
    let config = fs::read(agent.folder.join("run/installed.ign")).unwrap();
    let config: Value = serde_json::from_slice(&config).unwrap();
    let source = config["storage"]["files"][1]["contents"]["source"].as_str().unwrap();
    let options = STANDARD.decode(source.strip_prefix("data:;base64,").unwrap()).unwrap();
    let options = String::from_utf8(options).unwrap();
    for n in ["1", "2"] {
        let options = options.replace("@BOOT@", n).replace("@BOOT_ID@", &format!("b{n}"));
        let file = agent.folder.join("options");
        fs::write(&file, options.replace("@DISK@", r#",\"disk\":\"same\""#)).unwrap();
        let curl = Command::new("curl").args(["-sSf", "-o", "/dev/null", "-K"]).arg(&file).output();
        let curl = curl.unwrap();
        assert!(curl.status.success(), "{curl:?}");
        assert_eq!(
            node.get()["extra"]["run_coreos_installer"],
            json!({"state": "confirmed", "boot": n.parse::<u8>().unwrap(), "boot_id": format!("b{n}"), "disk": "same"}),
        );
    }
}

/// The `BareMetalHost` of the document, as the baremetal-operator gives it to Ironic (`devicehints.go`,
/// `customDeploy.method` as the deploy step). Only the serial number is that of the test's disk.
fn metal3(ironic: &Ironic) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/first-node.md");
    let text = fs::read_to_string(path).unwrap();
    let (_, rest) = text.split_once("```yaml\n").unwrap();
    let host: Value = yaml_serde::from_str(rest.split_once("```").unwrap().0).unwrap();
    let spec = &host["spec"];
    let hints: Vec<&String> = spec["rootDeviceHints"].as_object().unwrap().keys().collect();
    assert_eq!(
        (&host["kind"], &hints[..]),
        (&json!("BareMetalHost"), &[&"serialNumber".to_owned()][..])
    );
    let node = available(ironic, &by_serial());
    node.deploy_by(spec["customDeploy"]["method"].as_str().unwrap(), IGNITION, &json!({}));
    node.until("wait call-back");
    let agent = Task::new(&node).start();
    node.until("active");
    assert!(is_written(&agent));
}

/// A deployment whose installer runs for a while.
fn in_mid_step(ironic: &Ironic) -> (Node<'_>, Task, Agent) {
    let node = waiting(ironic, &by_serial());
    let task = with_installer(&node, format!("write_some; sleep 60; {WRITE}"));
    let agent = task.start();
    agent.until_logged("writing ");
    (node, task, agent)
}

fn killed(ironic: &Ironic) {
    let (node, task, mut agent) = in_mid_step(ironic);
    agent.kill();
    let again = task.start();
    node.fails("deploy failed", &["AGENT_BUG", "what to do:"]);
    again.until_logged("continuing as the agent of node");
}

fn crashed(ironic: &Ironic) {
    let node = waiting(ironic, &by_serial());
    let task = with_installer(&node, format!("write_some; sleep 60; {WRITE}"));
    let mut agent = Task { is_supervised: true, ..task }.start();
    agent.until_logged("writing ");
    agent.crash();
    node.fails("deploy failed", &["AGENT_BUG", "what to do:"]);
    agent.until_logged("continuing as the agent of node");
    assert!(agent.log().contains("starting it again"), "{}", agent.log());
    // The node stays failed while the agent that was started again sends heartbeats.
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(node.state(), "deploy failed");
    agent.end();
}

/// Ironic orders the lockdown, and waits until the agent no longer responds, before it reboots such a node.
fn locked_down(ironic: &Ironic) {
    let mut more = by_serial();
    more["disable_power_off"] = json!(true);
    let node = waiting(ironic, &more);
    let has_ipv6 = std::net::TcpListener::bind("[::1]:0").is_ok();
    let callback_host = Some(if has_ipv6 { "[::1]" } else { "127.0.0.1" }.to_owned());
    let agent = Task { callback_host, ..Task::new(&node) }.start();
    node.until("active");
    assert!(is_written(&agent));
    agent.until_logged("switching the networks off as Ironic asks");
    assert!(agent.folder.join("locked").exists());
    let refused = TcpStream::connect(("127.0.0.1", agent.port));
    assert!(refused.is_err(), "the command server still accepts connections");
    assert!(!agent.folder.join("off").exists(), "the node was powered off");
}

fn forgotten(ironic: &Ironic) {
    let (node, task, mut agent) = in_mid_step(ironic);
    agent.kill();
    fs::remove_file(agent.folder.join("run/ironic-agent.json")).unwrap();
    let again = task.start();
    again.until_logged("power-cycle the node through Ironic");
    node.fails("deploy failed", &["Timeout reached"]);
}

fn gone(ironic: &Ironic) {
    let (node, _, mut agent) = in_mid_step(ironic);
    agent.kill();
    node.fails("deploy failed", &["Timeout reached"]);
}

fn ended(ironic: &Ironic) {
    let (node, task, mut agent) = in_mid_step(ironic);
    agent.end();
    let again = task.start();
    let text = node.fails("deploy failed", &[]);
    assert!(
        text.contains("INTERRUPTED") || text.contains("HALF") || text.contains("signal"),
        "{text}"
    );
    drop(again);
}

fn failing(ironic: &Ironic) {
    let node = waiting(ironic, &by_serial());
    let body = "write_some; echo 'Error: No space left on device (os error 28)' >&2; exit 1";
    let agent = with_installer(&node, body.into()).start();
    node.fails("deploy failed", &["install_coreos failed on node", "NO_SPACE: ", "what to do:"]);
    // Another version of the steps is a failure too, never the status that Ironic treats as success.
    let order = json!({"name": "deploy.execute_deploy_step", "params": {
        "step": {"step": "install_coreos", "interface": "deploy"}, "node": {}, "ports": [],
        "deploy_version": {"Another": "1"},
    }});
    let path = format!("/v1/commands/?wait=true&agent_token={}", agent.token());
    let (status, record) = agent.request(&["-X", "POST", "-d", &order.to_string()], &path);
    assert_eq!((status, &record["command_status"]), (200, &json!("FAILED")), "{record}");
}

fn ambiguous(ironic: &Ironic) {
    let node = waiting(ironic, &json!({}));
    let agent = Task { has_second_disk: true, ..Task::new(&node) }.start();
    let text = node.fails("deploy failed", &["DISK_AMBIGUOUS: ", "root_device"]);
    assert!(!text.contains("VIM") && !text.contains("instruction"), "{text}");
    assert!(!is_written(&agent));
}

fn busy(ironic: &Ironic) {
    let node = waiting(ironic, &by_serial());
    let agent = with_installer(&node, format!("sleep 12; {WRITE}")).start();
    agent.until_logged("Ironic orders deploy.execute_deploy_step");
    // Clients that send nothing keep nobody out.
    let silent: Vec<TcpStream> =
        (0..40).map(|_| TcpStream::connect(("127.0.0.1", agent.port)).unwrap()).collect();
    let token = agent.token();
    let right = format!("?agent_token={token}");
    let post = |path: &str, body: &str| {
        agent.request(&["-X", "POST", "-d", body], &format!("/v1/commands/{path}"))
    };
    let sync = r#"{"name":"standby.sync","params":{}}"#;
    for (found, status) in [
        (agent.request(&[], "/v1/commands/"), 401),
        (agent.request(&[], "/v1/commands/?agent_token=no"), 401),
        (post("", sync), 401),
        (post(&right, sync), 409),
        (post(&right, r#"{"name":"raid.apply","params":{}}"#), 404),
        (post(&right, r#"{"name":"standby.nonsense","params":{}}"#), 400),
        (post(&right, r#"{"name":"standby.sync"}"#), 400),
        (post(&right, "hello"), 400),
        (agent.request(&[], &format!("/v1/commands/no-such-id{right}")), 404),
        (agent.request(&["-X", "DELETE"], &format!("/v1/commands/{right}")), 405),
        (agent.request(&[], "/elsewhere"), 404),
    ] {
        assert_eq!(found.0, status, "{found:?}");
        assert!(
            found.1["faultstring"].is_string() && found.1["faultcode"] == "Client",
            "{found:?}"
        );
    }
    drop(silent);
    for version in ["1.2", "1.3"] {
        let (status, list) =
            agent.request(&["--tls-max", version], &format!("/v1/commands/{right}"));
        assert_eq!(status, 200, "TLS {version}");
        let newest = list["commands"].as_array().unwrap().last().unwrap();
        assert_eq!(newest["command_status"], "RUNNING", "{list}");
    }
    assert_eq!(agent.request(&[], "/v1/status").0, 200);
    node.until("active");
}

fn fast_track(ironic: &Ironic) {
    let mut more = by_serial();
    more["automated_clean"] = json!(true);
    more["driver_info"] = json!({"fast_track": true});
    let node = ironic.enrol("fast", &more);
    node.order("inspect");
    node.until("inspect wait");
    let agent = Task::new(&node).start();
    node.until("manageable");
    agent.until_logged("Ironic accepts heartbeats");
    node.order("provide");
    node.until("available");
    node.deploy(IGNITION, &json!({"coreos_append_karg": ["a=b"]}));
    node.until("active");
    assert!(is_written(&agent));
    let n_lookups = agent.log().matches("Ironic knows this machine as node").count();
    assert_eq!(n_lookups, 1, "one token a boot");
}

fn wrong_token(ironic: &Ironic) {
    let (node, task, mut agent) = in_mid_step(ironic);
    agent.kill();
    let file = agent.folder.join("run/ironic-agent.json");
    let text = fs::read_to_string(&file).unwrap().replace(&agent.token(), &"w".repeat(43));
    fs::write(&file, text).unwrap();
    let again = task.start();
    again.until_logged("Ironic no longer accepts the token");
    node.until("deploy failed");
}

/// A node that is being cleaned and waits for its agent.
fn cleaning<'a>(ironic: &'a Ironic, more: &Value) -> Node<'a> {
    let mut more = more.clone();
    more["automated_clean"] = json!(true);
    let node = ironic.enrol("clean", &more);
    node.order("provide");
    node.until("clean wait");
    node
}

fn clean(ironic: &Ironic) {
    let node = cleaning(ironic, &by_serial());
    let agent = Task { has_second_disk: true, is_dirty: true, ..Task::new(&node) }.start();
    node.until("available");
    assert!(!is_written(&agent), "the table is still there");
    assert!(agent.disk()[..1 << 20].iter().all(|byte| *byte == 0));
}

fn clean_nothing(ironic: &Ironic) {
    let node = cleaning(ironic, &json!({}));
    let agent = Task { is_dirty: true, ..Task::new(&node) }.start();
    node.fails("clean failed", &["contains data", "rci.clean-disk=serial=SERIAL-sda"]);
    assert!(is_written(&agent), "a disk that nobody named was erased");
}

fn clean_half(ironic: &Ironic) {
    let node = cleaning(ironic, &by_serial());
    let clean_disks = vec!["serial=ABSENT".to_owned()];
    let agent = Task { is_dirty: true, clean_disks, ..Task::new(&node) }.start();
    node.fails("clean failed", &["DISK_NONE: ", "erased: "]);
    std::thread::sleep(Duration::from_secs(1));
    assert!(node.state() == "clean failed" && agent.port > 0);
}
