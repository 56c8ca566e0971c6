//! The agent of a node against an Ironic that conceals tokens, refuses heartbeats and orders what it must not.

use std::io::Write as _;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use probes::block::{Filesystem, Membership};
use run_coreos_installer::engines::ironic::{Ironic, Settings, Surveyed};
use run_coreos_installer::job::{self, Node, Survey};
use run_coreos_installer::secret::Secret;
use run_coreos_installer::signals::Stop;
use serde_json::{Value, json};

use super::ironic::{UUID, document};
use super::machine::Machine;
use super::mock::{Mock, Reply, Request, assert_says};
use super::until::until;

const TOKEN: &str = "a-token-of-this-boot-that-is-long-enough-1234";

/// An agent on a thread; stopped when dropped.
struct Agent {
    port: u16,
    stop: Stop,
    run_dir: PathBuf,
    thread: Option<JoinHandle<()>>,
    _machine: Machine,
}

impl Agent {
    fn start(ironic: &Mock, change: impl FnOnce(&mut Settings, &mut job::Settings)) -> Self {
        Self::start_on(Machine::new(&ironic.url), change)
    }

    fn start_on(machine: Machine, change: impl FnOnce(&mut Settings, &mut job::Settings)) -> Self {
        let mut settings = Settings::new(machine.settings.vim.clone());
        let mut job = machine.settings.node.clone();
        settings.port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        settings.least_interval = Duration::from_millis(100);
        change(&mut settings, &mut job);
        let (port, stop) = (settings.port, Stop::default());
        let run_dir = job.site.run_dir.clone();
        let (for_thread, clock) = (stop.clone(), machine.clock.clone());
        let collected = machine.collected.clone();
        let thread = std::thread::spawn(move || {
            let mut survey = || {
                let document = document(Some("192.0.2.10"));
                Ok(Surveyed { collected: collected.clone(), document })
            };
            let node = Node::new(job, clock, for_thread);
            job::run(&mut Ironic::new(settings, node, Survey(&mut survey)).unwrap());
        });
        Self { port, stop, run_dir, thread: Some(thread), _machine: machine }
    }

    fn request(&self, path: &str, body: Option<&str>) -> (u16, Value) {
        let url = format!("https://127.0.0.1:{}{path}agent_token={TOKEN}", self.port);
        let mut curl = Command::new("curl");
        curl.args(["-sk", "-m", "60", "-w", "\n%{http_code}", &url]).stdin(Stdio::piped());
        if body.is_some() {
            curl.args(["--data-binary", "@-"]);
        }
        let mut child = curl.stdout(Stdio::piped()).spawn().unwrap();
        // A request that is refused early need not be read to its end.
        child.stdin.take().unwrap().write_all(body.unwrap_or_default().as_bytes()).ok();
        let text = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
        let (body, status) = text.rsplit_once('\n').unwrap();
        (status.parse().unwrap(), serde_json::from_str(body).unwrap_or_default())
    }

    /// Orders a command and waits for its end.
    fn order(&self, name: &str, params: &Value) -> (u16, Value) {
        let body = json!({"name": name, "params": params}).to_string();
        self.request("/v1/commands/?wait=true&", Some(&body))
    }

    /// Orders an install on a node with this `instance_info`, which fails. Returns its record.
    #[track_caller]
    fn install_fails(&self, info: &Value) -> Value {
        let step = json!({"interface": "deploy", "step": "install_coreos", "args": {}});
        let node = json!({"uuid": UUID, "instance_info": info, "properties": {}});
        self.order_fails("deploy.execute_deploy_step", &json!({"step": step, "node": node}))
    }

    /// Orders cleaning with this root device. Returns the record.
    fn clean(&self, root_device: &Value) -> Value {
        let step = json!({"interface": "deploy", "step": "erase_devices_metadata", "args": {}});
        let properties = json!({"root_device": root_device});
        let node = json!({"uuid": UUID, "instance_info": {}, "properties": properties});
        self.order("clean.execute_clean_step", &json!({"step": step, "node": node})).1
    }

    /// Orders a command that fails, and returns its record.
    #[track_caller]
    fn order_fails(&self, name: &str, params: &Value) -> Value {
        let (status, record) = self.order(name, params);
        assert_eq!((status, &record["command_status"]), (200, &json!("FAILED")), "{record}");
        record
    }

    /// Names and states of the commands.
    fn list(&self) -> Vec<(String, String)> {
        let (status, list) = self.request("/v1/commands/?", None);
        assert_eq!(status, 200, "{list}");
        let text = |record: &Value, key: &str| record[key].as_str().unwrap().to_owned();
        let records = list["commands"].as_array().unwrap();
        let pair = |record| (text(record, "command_name"), text(record, "command_status"));
        records.iter().map(pair).collect()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.stop.stop();
        // It writes into the folder of its machine, which is removed next.
        self.thread.take().map(JoinHandle::join);
    }
}

/// The answer to a lookup with this token and what Ironic knows of the node.
fn found(token: &str, info: &Value) -> Reply {
    let node = json!({"uuid": UUID, "driver_internal_info": info});
    let config = json!({"agent_token": token, "heartbeat_timeout": 10});
    Reply::json(200, &json!({"node": node, "config": config}))
}

/// An Ironic with these answers to lookups, and heartbeats.
fn ironic(
    lookup: impl Fn(usize) -> Reply + Send + Sync + 'static,
    heartbeat: impl Fn() -> u16 + Send + Sync + 'static,
) -> Mock {
    Mock::start(move |request: &Request, n| match &request.path {
        path if path.contains("inspection") => Reply::json(202, &json!({"uuid": UUID})),
        path if path.contains("lookup") => lookup(n),
        _ => Reply::json(heartbeat(), &json!({})),
    })
}

fn heartbeats(ironic: &Mock) -> Vec<Request> {
    ironic.requests(&format!("/v1/heartbeat/{UUID}"))
}

/// Waits until there were this many heartbeats.
fn until_heartbeats(ironic: &Mock, n: usize) {
    until("heartbeats", || (heartbeats(ironic).len() >= n).then_some(()));
}

#[test]
fn heartbeat_refused_once_changes_neither_token_nor_commands() {
    // The first has its token from a file, the second from Ironic, which then conceals it.
    for has_file in [true, false] {
        let is_refusing = Arc::new(AtomicBool::new(false));
        let refusing = Arc::clone(&is_refusing);
        let lookup = move |n| found(if n > 0 || has_file { "******" } else { TOKEN }, &json!({}));
        let ironic =
            ironic(lookup, move || if refusing.swap(false, Ordering::SeqCst) { 404 } else { 202 });
        let agent = Agent::start(&ironic, |settings, _| {
            settings.token = has_file.then(|| Secret::new(TOKEN));
        });
        until_heartbeats(&ironic, 1);
        agent.install_fails(&json!({"image_source": "ftp://h"}));
        is_refusing.store(true, Ordering::SeqCst);
        let n = heartbeats(&ironic).len();
        until_heartbeats(&ironic, n + 3);
        assert_eq!(agent.list(), [("execute_deploy_step".to_owned(), "FAILED".to_owned())]);
        let last = heartbeats(&ironic).pop().unwrap().json();
        assert_eq!(last["agent_token"], TOKEN);
    }
}

#[test]
fn deployment_of_the_interface_direct_is_refused_with_the_line_that_sets_custom_agent() {
    let (_ironic, agent) = accepted(|_, _| {});
    let (status, fault) = agent.order("standby.prepare_image", &json!({"image_info": {}}));
    assert_eq!(status, 400, "{fault}");
    let step = json!({"interface": "deploy", "step": "write_image", "args": {}});
    let params = json!({"step": step, "node": {"uuid": UUID}});
    let record = agent.order_fails("deploy.execute_deploy_step", &params);
    for text in [&fault["faultstring"], &record["command_error"]["details"]] {
        assert_says(text, &["node set NODE --deploy-interface custom-agent"]);
    }
}

#[test]
fn agent_without_its_state_shows_the_step_that_ironic_is_in_as_failed() {
    for (kind, key) in [("deploy", "deploy_step_index"), ("clean", "clean_step_index")] {
        let lookup =
            move |_| found("******", &json!({"agent_url": "https://192.0.2.10:9999", key: 1}));
        let ironic = ironic(lookup, || 202);
        let agent = Agent::start(&ironic, |settings, _| {
            settings.token = Some(Secret::new(TOKEN));
        });
        until_heartbeats(&ironic, 1);
        assert_eq!(agent.list(), [(format!("execute_{kind}_step"), "FAILED".to_owned())]);
        assert!(agent.run_dir.join("ironic-agent.json").exists());
    }
}

#[test]
fn agent_that_had_a_session_never_gives_up() {
    let is_refusing = Arc::new(AtomicBool::new(true));
    let refusing = Arc::clone(&is_refusing);
    let lookup = |n| if n == 0 { found(TOKEN, &json!({})) } else { Reply::status(404) };
    let ironic = ironic(lookup, move || if refusing.load(Ordering::SeqCst) { 404 } else { 202 });
    let agent = Agent::start(&ironic, |settings, _| {
        settings.ironic.deadline = Some(Duration::from_millis(1));
    });
    until_heartbeats(&ironic, 4);
    is_refusing.store(false, Ordering::SeqCst);
    let n = heartbeats(&ironic).len();
    until_heartbeats(&ironic, n + 2);
    assert!(!agent.stop.is_stopped());
    assert!(agent.list().is_empty());
}

/// An agent that Ironic accepts.
fn accepted(change: impl FnOnce(&mut Settings, &mut job::Settings)) -> (Mock, Agent) {
    let ironic = ironic(|_| found(TOKEN, &json!({})), || 202);
    let agent = Agent::start(&ironic, change);
    until_heartbeats(&ironic, 1);
    (ironic, agent)
}

#[test]
fn power_off_or_lockdown_that_fails_is_no_success_and_further_steps_are_carried_out() {
    let (_ironic, agent) = accepted(|settings, job| {
        settings.lockdown = vec!["false".into()];
        job.poweroff = vec!["false".into()];
    });
    for command in ["standby.power_off", "system.lockdown"] {
        let record = agent.order_fails(command, &json!({}));
        let words = "exit status: 1; what to do: power";
        assert_says(&record["command_error"]["details"], &[words]);
        agent.install_fails(&json!({"image_source": "ftp://h"}));
    }
}

#[test]
fn command_for_another_node_or_of_too_many_values_is_refused() {
    let (_ironic, agent) = accepted(|_, _| {});
    let node = json!({"uuid": UUID.replace("01", "02"), "instance_info": {}});
    let params = json!({"step": {"step": "install_coreos"}, "node": node});
    let (status, fault) = agent.order("deploy.execute_deploy_step", &params);
    let text = fault["faultstring"].as_str().unwrap();
    assert!(status == 400 && text.contains("the command is for"), "{fault}");
    let params = json!({"step": {"x": vec![0; 1_000_000]}, "node": {}});
    let (status, fault) = agent.order("deploy.execute_deploy_step", &params);
    assert!(status == 400 && fault.to_string().contains("values"), "{fault}");
    assert!(agent.list().is_empty());
    // An Ignition config of 8 MiB in JSON in JSON is neither.
    let user_data =
        json!({"ignition": {"version": "3.2.0"}, "x": "\"".repeat(4 << 20)}).to_string();
    let info = json!({"configdrive": {"user_data": user_data}, "image_source": "ftp://h"});
    agent.install_fails(&info);
}

#[test]
fn failed_install_is_shown_on_the_console_while_the_agent_goes_on() {
    let screen = tempfile::NamedTempFile::new().unwrap();
    let of_job = screen.path().to_owned();
    let (_ironic, agent) = accepted(move |_, job| {
        (job.screen, job.shows_qr) = (Some(of_job), true);
    });
    agent.install_fails(&json!({"root_device": {"serial": "none"}}));
    let shown = std::fs::read_to_string(&screen).unwrap();
    assert_ne!(shown, "", "no code is shown");
    assert_eq!(agent.list().len(), 1);
}

#[test]
fn large_command_is_refused_before_it_is_read_while_another_runs() {
    let (_ironic, agent) = accepted(|_, job| {
        job.poweroff = vec!["sleep".into(), "20".into()];
    });
    let body = r#"{"name":"standby.power_off","params":{}}"#;
    let (_, record) = agent.request("/v1/commands/?wait=false&", Some(body));
    assert_eq!(record["command_status"], "RUNNING", "{record}");
    let large = format!("{{\"name\":\"{}\"}}", "x".repeat(1 << 20));
    let (status, fault) = agent.request("/v1/commands/?wait=true&", Some(&large));
    assert_eq!(status, 409, "{fault}");
    // A small one is read, so that what is wrong with it is named.
    assert_eq!(agent.request("/v1/commands/?wait=true&", Some("hello")).0, 400);
}

#[test]
fn disk_that_an_array_uses_since_the_report_is_not_erased() {
    let ironic = ironic(|_| found(TOKEN, &json!({})), || 202);
    let machine = Machine::new(&ironic.url);
    let (root, path) = (machine.root.clone(), machine.disk("sda"));
    let array = root.join("sys/devices/virtual/block/md0");
    std::fs::create_dir_all(array.join("slaves/sda")).unwrap();
    std::fs::write(array.join("dev"), "9:0\n").unwrap();
    std::fs::create_dir_all(root.join("sys/devices/sda/holders")).unwrap();
    let holder = root.join("sys/devices/sda/holders/md0");
    std::os::unix::fs::symlink("../../virtual/block/md0", &holder).unwrap();
    std::fs::write(&path, [7; 8 << 10]).unwrap();
    std::fs::File::options().write(true).open(&path).unwrap().set_len(64 << 20).unwrap();
    let agent = Agent::start_on(machine, |_, _| {});
    until_heartbeats(&ironic, 1);
    let by_serial = json!({"serial": "SERIAL-sda"});
    let record = agent.clean(&by_serial);
    assert_says(&record["command_error"]["details"], &["sda is held by md0", "nothing was erased"]);
    assert_eq!(std::fs::read(&path).unwrap()[..8 << 10], [7; 8 << 10]);
    std::fs::remove_file(holder).unwrap();
    assert_eq!(agent.clean(&by_serial)["command_status"], "SUCCEEDED");
}

#[test]
fn disks_that_belong_together_are_cleaned_if_all_of_them_are_named() {
    for kind in ["LVM2_member", "linux_raid_member", "ceph_bluestore", "zfs_member"] {
        let ironic = ironic(|_| found(TOKEN, &json!({})), || 202);
        let mut machine = Machine::new(&ironic.url);
        machine.add_disk("sdb", 64 << 20);
        machine.add_disk("sdc", 64 << 20);
        for disk in &mut machine.collected.disks[..2] {
            let n_members = (kind != "zfs_member").then_some(2);
            let membership =
                Membership { n_members, whole: Some("W".into()), ..Membership::default() };
            let membership = (kind != "ceph_bluestore").then(|| Box::new(membership));
            disk.filesystem =
                Some(Filesystem { kind: kind.into(), membership, ..Filesystem::default() });
        }
        let agent = Agent::start_on(machine, |settings, _| {
            settings.clean_disks = vec!["serial=SERIAL-sda".into()];
        });
        until_heartbeats(&ironic, 1);
        let record = agent.clean(&json!({"serial": "SERIAL-sdc"}));
        let expected = ["shares content with other disks", "; erased: "];
        assert_says(&record["command_error"]["details"], &expected);
        let record = agent.clean(&json!({"serial": "SERIAL-sdb"}));
        assert_eq!(record["command_status"], "SUCCEEDED", "{kind}: {record}");
    }
}
