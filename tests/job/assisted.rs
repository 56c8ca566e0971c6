//! The agent of a host of assisted-service, against a server written from the published API. No real service ran here.
//!
//! With `RCI_RECORD` set to a directory, every document that the agent sends is kept there for `tests/assisted/check.py`,
//! which reads them with the service's own Python client.

mod registry;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use run_coreos_installer::act::{Code, DiskState, Failure, Outcome};
use run_coreos_installer::checkpoint::Checkpoint;
use run_coreos_installer::cli::LogLevel;
use run_coreos_installer::clock::{Clock, RealClock};
use run_coreos_installer::engines::assisted::{Assisted, Settings, Surveyed};
use run_coreos_installer::exit_status::ExitStatus;
use run_coreos_installer::http::TokenHeader;
use run_coreos_installer::job::{self, AfterCrash, Crash, Engine as _, Survey, supervise};
use run_coreos_installer::log;
use run_coreos_installer::signals::Stop;
use serde_json::{Value, json};

use super::image;
use super::machine::{IGNITION, Machine, children};
use super::mock::{Mock, Reply, Request, assert_has, assert_says};

const ENV: &str = "11111111-2222-4333-8444-555555555555";
pub(crate) const HOST: &str = "66666666-7777-4888-8999-aaaaaaaaaaaa";
const CLUSTER: &str = "bbbbbbbb-cccc-4ddd-8eee-ffffffffffff";
const LINK: &str = "/dev/disk/by-id/x-SERIAL-sda";
const TOKEN: &str = "t0ken-of-the-infra-env";
const WRITE: &str = "echo 'Read disk 1 MiB/4 MiB (38%)' >&2; write_image";

/// Paths of the service, from the operations of the published API.
pub(crate) fn of_host(rest: &str) -> String {
    format!("/api/assisted-install/v2/infra-envs/{ENV}/hosts/{HOST}{rest}")
}

/// A host and the service.
pub(crate) struct World {
    pub(crate) machine: Machine,
    settings: Settings,
    inventory: Value,
    /// Whether what the agent sends is kept: not if the server itself breaks the API.
    is_recorded: bool,
}

impl World {
    pub(crate) fn new() -> Self {
        let mut machine = Machine::new("");
        let token = machine.root.join("token");
        fs::write(&token, TOKEN).unwrap();
        machine.settings.vim.token_file = Some(token);
        machine.settings.vim.token_header = TokenHeader::SecretKey;
        let mut settings = Settings::new(ENV);
        settings.unit_dirs = vec![machine.root.join("units")];
        settings.root.clone_from(&machine.root);
        // The name of a mapping is no identity.
        machine.collected.disks[0].by_id = vec!["/dev/disk/by-id/dm-name-a".into(), LINK.into()];
        let inventory = json!({"hostname": "n1", "disks": [{"path": machine.disk("sda")}]});
        Self { machine, settings, inventory, is_recorded: true }
    }

    /// A service whose response to the nth request for steps is this one, and which then stops the agent. `other` answers
    /// before the service does.
    fn service_with(
        &self,
        steps: impl Fn(usize) -> Option<Reply> + Send + Sync + 'static,
        other: impl Fn(&Request, usize) -> Option<Reply> + Send + Sync + 'static,
    ) -> Mock {
        let (stop, n_asked) = (self.machine.stop.clone(), AtomicUsize::new(0));
        Mock::start(move |request, n| {
            assert_eq!(request.header("x-secret-key"), Some(TOKEN), "{}", request.path);
            assert_eq!(request.header("authorization"), None);
            if let Some(reply) = other(request, n) {
                return reply;
            }
            if !asks_for_steps(request) {
                return answer(request);
            }
            steps(n_asked.fetch_add(1, Ordering::SeqCst)).unwrap_or_else(|| {
                stop.stop();
                instructions(&json!([]))
            })
        })
    }

    /// A service that gives these steps, one list for each time that it is asked, and then stops the agent. While an
    /// install runs it neither gives another one nor stops the agent. `other` answers before the service does.
    pub(crate) fn service(
        &self,
        steps: Vec<Value>,
        other: impl Fn(&Request, usize) -> Option<Reply> + Send + Sync + 'static,
    ) -> Mock {
        let is_install = |steps: &Value| steps[0]["step_type"] == "install";
        let (n_given, is_idle) = (AtomicUsize::new(0), Arc::new(AtomicBool::new(true)));
        let ends = Arc::clone(&is_idle);
        let give = move |_| {
            let next = steps.get(n_given.load(Ordering::SeqCst));
            if !is_idle.load(Ordering::SeqCst) && next.is_none_or(is_install) {
                return Some(instructions(&json!([])));
            }
            n_given.fetch_add(1, Ordering::SeqCst);
            let next = next?;
            if is_install(next) {
                is_idle.store(false, Ordering::SeqCst);
            }
            Some(instructions(next))
        };
        self.service_with(give, move |request, n| {
            if request.path.ends_with("/instructions") && request.json()["step_type"] == "install" {
                ends.store(true, Ordering::SeqCst);
            }
            other(request, n)
        })
    }

    /// A service that gives these steps once and stops the agent after this number of replies: steps take real time, and
    /// the clock of the test does not.
    fn service_until(&self, n_replies: usize, steps: Value) -> Mock {
        let (stop, n_sent) = (self.machine.stop.clone(), AtomicUsize::new(0));
        let give = move |n| Some(instructions(if n == 0 { &steps } else { &Value::Null }));
        self.service_with(give, move |request, _| {
            let is_reply = request.path.ends_with("/instructions");
            if is_reply && n_sent.fetch_add(1, Ordering::SeqCst) + 1 == n_replies {
                stop.stop();
            }
            None
        })
    }

    pub(crate) fn run(&mut self, service: &Mock) -> ExitStatus {
        self.machine.settings.vim.url = Some(service.url.clone());
        let exit_status = self.with_engine(self.machine.clock.clone(), |engine| job::run(engine));
        if self.is_recorded {
            record(service);
        }
        exit_status
    }

    pub(crate) fn with_engine<T>(
        &self,
        clock: Arc<dyn Clock>,
        run: impl FnOnce(&mut Assisted<'_>) -> T,
    ) -> T {
        let surveyed = Surveyed {
            collected: self.machine.collected.clone(),
            host_id: HOST.into(),
            inventory: self.inventory.clone(),
        };
        let mut survey = || Ok(surveyed.clone());
        let (settings, server) = (self.settings.clone(), self.machine.settings.vim.clone());
        let node = self.machine.node(clock);
        run(&mut Assisted::new(settings, server, node, Survey(&mut survey)).unwrap())
    }
}

/// A step that asks for an install of this host.
pub(crate) fn install(change: impl FnOnce(&mut Value)) -> Value {
    let mut request = json!({
        "cluster_id": CLUSTER, "infra_env_id": ENV, "host_id": HOST, "role": "master",
        "boot_device": LINK, "installer_image": "quay.io/x/installer:1",
        "controller_image": "quay.io/x/controller:1", "check_cvo": true, "installer_args": "",
    });
    change(&mut request);
    json!([{"step_type": "install", "step_id": "install-1", "args": [request.to_string()]}])
}

fn step(kind: &str, args: &[String]) -> Value {
    json!({"step_type": kind, "step_id": format!("{kind}-1"), "args": args})
}

/// The service's answer with these steps.
fn document(steps: &Value) -> Value {
    json!({"next_instruction_seconds": 2, "post_step_action": "continue", "instructions": steps})
}

pub(crate) fn instructions(steps: &Value) -> Reply {
    Reply::json(200, &document(steps))
}

pub(crate) fn asks_for_steps(request: &Request) -> bool {
    request.path.contains("/instructions?timestamp=")
}

/// What the service answers if all is well.
fn answer(request: &Request) -> Reply {
    let path = request.path.split('?').next().unwrap_or_default();
    if path.ends_with("/hosts") {
        let command = json!({"command": "podman", "args": ["run"], "retry_seconds": 60});
        return Reply::json(201, &json!({"id": HOST, "next_step_runner_command": command}));
    }
    if path.ends_with("/downloads/ignition") {
        let singular =
            format!("/api/assisted-install/v2/infra-env/{ENV}/hosts/{HOST}/downloads/ignition");
        assert_eq!(path, singular);
        return Reply::bytes(IGNITION.as_bytes());
    }
    if path == of_host("") {
        return Reply::json(200, &json!({"id": HOST, "requested_hostname": ""}));
    }
    Reply::status(if path.ends_with("/instructions") { 204 } else { 200 })
}

/// Keeps what the agent sent, if asked to: one JSON line for each request; `body` is null if it is no JSON.
fn record(service: &Mock) {
    let lines = service.requests("").into_iter().map(|request| {
        let is_json = request.header("content-type") == Some("application/json");
        json!({"path": request.path, "body": is_json.then(|| request.json())})
    });
    keep(lines);
}

/// Keeps the steps of this server, so that they are checked too.
fn record_steps(steps: &Value) {
    keep([json!({"steps": document(steps)})]);
}

fn keep(lines: impl IntoIterator<Item = Value>) {
    static N: AtomicUsize = AtomicUsize::new(0);
    let Some(dir) = std::env::var_os("RCI_RECORD") else { return };
    let lines: Vec<String> = lines.into_iter().map(|line| line.to_string()).collect();
    let file = format!("{}-{}.jsonl", std::process::id(), N.fetch_add(1, Ordering::SeqCst));
    fs::write(PathBuf::from(dir).join(file), lines.join("\n")).unwrap();
}

/// The replies to steps of this type, in the order in which they were sent.
pub(crate) fn replies(service: &Mock, kind: &str) -> Vec<Value> {
    let replies = service.bodies("/instructions").into_iter();
    replies.filter(|reply| reply["step_type"] == kind).collect()
}

/// Checks that the reply to an install has these words in its error.
#[track_caller]
pub(crate) fn assert_install_fails(service: &Mock, words: &str) {
    assert_says(&replies(service, "install")[0]["error"], &[words]);
}

fn output(reply: &Value) -> Value {
    serde_json::from_str(reply["output"].as_str().unwrap()).unwrap()
}

/// The stages that were reported, with their information.
pub(crate) fn stages(service: &Mock) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let reports = service.bodies("/progress").into_iter();
    reports.map(|report| (text(&report["current_stage"]), text(&report["progress_info"]))).collect()
}

/// A host that can be installed.
pub(crate) fn ready() -> World {
    let mut world = World::new();
    world.machine.writes(&image::plain());
    world.machine.script(WRITE);
    world
}

#[test]
fn host_is_installed_and_every_stage_reported_in_order() {
    let mut world = ready();
    let install = install(|request| {
        request["installer_args"] = r#"["--append-karg", "ignition.platform.id=metal"]"#.into();
        request["disks_to_format"] = json!(["/dev/sdz"]);
    });
    record_steps(&install);
    let service = world.service(vec![install], |_, _| None);
    let ended = world.run(&service);
    assert_eq!(ended, ExitStatus::Done, "{:?}", stages(&service));
    let stages = stages(&service);
    let names: Vec<&str> = stages.iter().map(|(stage, _)| stage.as_str()).collect();
    let mut once = names.clone();
    once.dedup();
    let expected = ["Starting installation", "Installing", "Writing image to disk", "Rebooting"];
    assert_eq!(once, expected);
    assert!(stages[0].1.contains("/dev/sdz"), "{stages:?}");
    assert!(stages.contains(&("Writing image to disk".into(), "100%".into())), "{stages:?}");
    let reply = &replies(&service, "install")[0];
    assert_has(reply, &json!({"exit_code": 0, "step_id": "install-1"}));
    assert_eq!(world.machine.seen_config()["append-karg"], json!(["ignition.platform.id=metal"]));
    let uploads =
        service.requests("").into_iter().filter(|r| r.path.contains("/logs?logs_type=host"));
    let uploads: Vec<Request> = uploads.collect();
    assert!(uploads[0].path.contains(CLUSTER) && uploads[0].path.contains(HOST));
    let uploads = service.bodies("/logs-progress");
    let sent: Vec<&Value> = uploads.iter().map(|body| &body["logs_state"]).collect();
    assert_eq!(sent, ["collecting", "completed"]);
}

#[test]
fn host_with_the_agent_of_ironic_is_not_rebooted() {
    let mut world = ready();
    let units = &world.settings.unit_dirs[0];
    fs::create_dir_all(units).unwrap();
    fs::write(units.join("ironic-agent.service"), "").unwrap();
    let service = world.service(vec![install(|_| ())], |_, _| None);
    assert_eq!(world.run(&service), ExitStatus::Staying);
    assert_eq!(stages(&service).last().unwrap().0, "Rebooting");
}

#[test]
fn name_and_overrides_of_the_host_are_installed() {
    let mut world = World::new();
    world.machine.script("cp $ROOT/run/private/config.ign $ROOT/seen.ign; exit 1");
    let overrides = r#"{"ignition":{"version":"3.1.0"},"passwd":{"users":[{"name":"core"}]}}"#;
    let host = json!({
        "id": HOST, "requested_hostname": "master-0", "ignition_config_overrides": overrides,
    });
    let service = world.service(vec![install(|_| ())], move |request, _| {
        (request.path == of_host("")).then(|| Reply::json(200, &host))
    });
    world.run(&service);
    let config: Value = serde_json::from_str(&world.machine.read("seen.ign")).unwrap();
    assert_eq!(config["ignition"]["version"], "3.3.0");
    assert_eq!(config["passwd"]["users"][0]["name"], "core");
    assert_eq!(config["storage"]["files"][0]["contents"]["source"], "data:,master-0");
}

#[test]
fn refused_host_asks_again_instead_of_freezing() {
    let mut world = World::new();
    let steps = vec![json!([{"step_type": "inventory", "step_id": "i-1", "args": [HOST]}])];
    let service = world.service(steps, |request, n| {
        let refusals = [401, 403, 404, 409, 500];
        (request.path.ends_with("/hosts") && n < refusals.len())
            .then(|| Reply::json(refusals[n], &json!({"code": "1", "reason": "not you"})))
    });
    world.run(&service);
    assert_eq!(service.requests("/hosts").len(), 6);
    assert_eq!(output(&replies(&service, "inventory")[0]), world.inventory);
    // A person must act before a refused registration can succeed.
    assert!(world.machine.slept()[..4].iter().all(|wait| wait.as_secs() >= 15));
}

#[test]
fn host_that_the_service_forgot_or_unbinds_registers_again() {
    let mut world = World::new();
    let exit =
        json!({"next_instruction_seconds": 0, "post_step_action": "exit", "instructions": null});
    let steps = move |n| match n {
        0 => Some(Reply::json(404, &json!({"code": 404, "message": "no such host"}))),
        1 => Some(Reply::json(200, &exit)),
        _ => None,
    };
    let service = world.service_with(steps, |_, _| None);
    world.run(&service);
    assert_eq!(service.requests("/hosts").len(), 3);
}

#[test]
fn equal_inventory_is_sent_once() {
    let mut world = World::new();
    let ask = |id: &str| json!([{"step_type": "inventory", "step_id": id, "args": [HOST]}]);
    let small = json!([{"step_type": "inventory", "step_id": "i-4", "args": [HOST, "--output-max-size=9"]}]);
    let service = world.service(vec![ask("i-1"), ask("i-2"), ask("i-3"), small], |_, _| None);
    world.run(&service);
    let replies = replies(&service, "inventory");
    let codes: Vec<(&str, i64)> = replies
        .iter()
        .map(|reply| (reply["step_id"].as_str().unwrap(), reply["exit_code"].as_i64().unwrap()))
        .collect();
    assert_eq!(codes, [("i-1", 0), ("i-4", -1)]);
}

#[test]
fn steps_are_answered_with_what_is_true() {
    let mut world = World::new();
    let domains =
        json!({"domains": [{"domain_name": "localhost"}, {"domain_name": "no.such.invalid"}]});
    let images = json!({"images": ["127.0.0.1:1/a/b:1"], "timeout": 60});
    let hosts = json!([{"host_id": CLUSTER, "nics": [
        {"name": "eno1", "mac": "02:00:00:00:00:01", "ip_addresses": ["192.0.2.1"]},
    ]}]);
    let steps = json!([
        step("domain-resolution", &[domains.to_string()]),
        step("container-image-availability", &[images.to_string()]),
        step("installation-disk-speed-check", &[r#"{"path":"/dev/none"}"#.into(), "480.00".into()]),
        step("reboot-for-reclaim", &[]),
        step("execute", &["rm".into(), "-rf".into()]),
        step("connectivity-check", &[hosts.to_string()]),
        step("ntp-synchronizer", &[r#"{"ntp_source":""}"#.into()]),
        step("free-network-addresses", &[r#"["192.0.2.0/21"]"#.into()]),
        step("logs-gather", &[json!({"cluster_id": CLUSTER}).to_string()]),
    ]);
    record_steps(&steps);
    let service = world.service_until(9, steps);
    world.run(&service);
    let resolutions = output(&replies(&service, "domain-resolution")[0])["resolutions"].clone();
    assert_eq!(resolutions[0]["domain_name"], "localhost");
    assert!(resolutions[0]["ipv4_addresses"].as_array().unwrap().contains(&json!("127.0.0.1")));
    assert_eq!(resolutions[1]["ipv4_addresses"], json!([]));
    let images = output(&replies(&service, "container-image-availability")[0]);
    assert_eq!(images["images"][0], json!({"name": "127.0.0.1:1/a/b:1", "result": "failure"}));
    for (kind, words) in [
        ("installation-disk-speed-check", "is no disk of the inventory"),
        ("reboot-for-reclaim", "boot the host from the discovery image"),
        ("execute", "runs no commands of a server"),
        ("free-network-addresses", "with a prefix of at least 22"),
    ] {
        let reply = &replies(&service, kind)[0];
        assert_says(&reply["error"], &[words]);
        assert_has(reply, &json!({"exit_code": -1, "output": ""}));
    }
    assert_eq!(replies(&service, "logs-gather")[0]["exit_code"], 0);
    assert_eq!(
        output(&replies(&service, "connectivity-check")[0])["remote_hosts"][0]["host_id"],
        CLUSTER
    );
    assert!(output(&replies(&service, "ntp-synchronizer")[0])["ntp_sources"].is_array());
    assert_eq!(
        service.requests("").iter().filter(|r| r.path.contains("logs_type=host")).count(),
        1
    );
}

#[test]
fn servers_of_the_cluster_are_asked_and_a_taken_address_is_named() {
    let mut world = World::new();
    let server = Mock::start(|request, _| match request.path.as_str() {
        "/config/worker" if request.header("authorization") == Some("Bearer SECRET") => {
            Reply::ignition(r#"{"ignition":{"version":"3.2.0"}}"#)
        }
        "/adv/KEY" => Reply::json(200, &json!({"payload": "e30", "signatures": []})),
        _ => Reply::status(404),
    });
    let api_vip = |path: &str| {
        let url = format!("{}{path}", server.url);
        step(
            "api-vip-connectivity-check",
            &[json!({"url": url, "ignition_endpoint_token": "SECRET"}).to_string()],
        )
    };
    let tang = json!([{"url": server.url, "thumbprint": "KEY"}]).to_string();
    let vips =
        json!([{"vip": "127.0.0.1", "vip_type": "api"}, {"vip": "x", "vip_type": "ingress"}]);
    let steps = json!([
        api_vip("/config/worker"),
        step("tang-connectivity-check", &[json!({"tang_servers": tang}).to_string()]),
        step("verify-vips", &[vips.to_string()]),
    ]);
    record_steps(&steps);
    let service = world.service_until(3, steps);
    world.run(&service);
    let found = output(&replies(&service, "api-vip-connectivity-check")[0]);
    assert_has(&found, &json!({"is_success": true, "download_error": ""}));
    let accept = "application/vnd.coreos.ignition+json;version=3.6.0, */*;q=0.1";
    assert_eq!(server.requests("/config/worker")[0].header("accept"), Some(accept));
    let found = output(&replies(&service, "tang-connectivity-check")[0]);
    assert_has(&found["tang_server_response"][0], &json!({"payload": "e30"}));
    // A port of this machine refuses, and a text is no address.
    let found = output(&replies(&service, "verify-vips")[0]);
    assert_eq!(
        (&found[0]["verification"], &found[1]["verification"]),
        (&json!("failed"), &json!("unverified"))
    );
    let mut world = World::new();
    let service = world.service_until(1, json!([api_vip("/other")]));
    world.run(&service);
    let found = output(&replies(&service, "api-vip-connectivity-check")[0]);
    assert_eq!(found["is_success"], false);
    assert_says(&found["download_error"], &["404"]);
}

#[test]
fn agent_registers_as_the_image_that_the_service_wants_once() {
    let mut world = World::new();
    let steps = json!([step("upgrade-agent", &[r#"{"agent_image":"quay.io/a/agent:2"}"#.into()])]);
    let service = world.service(vec![steps.clone(), steps], |_, _| None);
    world.run(&service);
    let versions: Vec<Value> = service
        .bodies("/hosts")
        .iter()
        .map(|body| body["discovery_agent_version"].clone())
        .collect();
    assert_eq!(versions.len(), 2, "{versions:?}");
    assert_eq!(versions[1], "quay.io/a/agent:2");
    let reply = output(&replies(&service, "upgrade-agent")[0]);
    assert_eq!(reply, json!({"agent_image": "quay.io/a/agent:2", "result": "success"}));
}

#[test]
fn speed_of_a_disk_is_measured_without_a_change() {
    let mut world = World::new();
    let step = step(
        "installation-disk-speed-check",
        &[json!({"path": LINK}).to_string(), "480.00".into()],
    );
    let service = world.service_until(1, json!([step]));
    world.run(&service);
    let reply = &replies(&service, "installation-disk-speed-check")[0];
    // Not every file system can be read directly.
    if reply["exit_code"] == 0 {
        let found = output(reply);
        assert_eq!(found["path"], LINK);
        assert!(found["io_sync_duration"].as_u64().unwrap() >= 1, "{found}");
    } else {
        assert!(reply["error"].as_str().unwrap().contains("Invalid argument"), "{reply}");
    }
    assert!(world.machine.is_untouched("sda"));
}

#[test]
fn failed_install_is_reported_and_the_host_stays_for_the_next_one() {
    let mut world = World::new();
    world.machine.script("write_some; echo 'Error: broken pipe dream' >&2; exit 1");
    let wrong = install(|request| request["boot_device"] = "/dev/none".into());
    let right = install(|_| ());
    let service = world.service(vec![wrong, right], |_, _| None);
    let ended = world.run(&service);
    assert_eq!(ended, ExitStatus::HalfWritten);
    let replies = replies(&service, "install");
    assert_eq!(replies.len(), 2);
    assert_says(&replies[0]["error"], &["DISK_", "no disk was touched"]);
    assert_says(&replies[1]["error"], &["half written"]);
    assert!(replies.iter().all(|reply| reply["exit_code"] == 1));
    let failed: Vec<_> =
        stages(&service).into_iter().filter(|(stage, _)| stage == "Failed").collect();
    assert_eq!(failed.len(), 2);
    assert!(failed[0].1.contains("DISK_"), "{failed:?}");
}

#[test]
fn request_that_is_not_for_this_host_or_not_allowed_touches_nothing() {
    for (change, words) in [
        (json!({"role": "king"}), "role is not one of bootstrap, master"),
        (json!({"host_id": CLUSTER}), "host_id is"),
        (json!({"infra_env_id": HOST}), "infra_env_id is"),
        (json!({"cluster_id": "../.."}), "cluster_id is"),
        (json!({"installer_args": r#"["--ignition-url","http://x/"]"#}), "installer_args contains"),
        (json!({"installer_args": r#"["--append-karg=x"]"#}), "installer_args contains"),
        (json!({"boot_device": "/dev/../etc/passwd"}), "expected a disk of the inventory"),
        (json!({"boot_device": "/dev/sdz"}), "expected a disk of the inventory"),
    ] {
        let mut world = World::new();
        let install = install(|request| {
            for (key, value) in change.as_object().unwrap() {
                request[key] = value.clone();
            }
        });
        let service = world.service(vec![install], |_, _| None);
        assert_eq!(world.run(&service), ExitStatus::Untouched, "{change}");
        assert_install_fails(&service, words);
        assert_eq!(stages(&service).last().unwrap().0, "Failed");
        assert!(world.machine.is_untouched("sda") && world.machine.read("args").is_empty());
    }
}

#[test]
fn stopped_install_ends_with_the_disk_named_as_half_written() {
    let mut world = World::new();
    world.machine.script("write_some; touch $ROOT/sys/devices/sda/wrote; sleep 60");
    let stop = json!([{"step_type": "stop-installation", "step_id": "stop-1", "args": null}]);
    let stat = world.machine.root.join("sys/devices/sda/wrote");
    let is_stopped = AtomicUsize::new(0);
    let service = world.service(vec![install(|_| ())], move |request, _| {
        let asks = asks_for_steps(request);
        (asks && stat.exists() && is_stopped.fetch_add(1, Ordering::SeqCst) == 0)
            .then(|| instructions(&stop))
    });
    world.machine.settings.vim.url = Some(service.url.clone());
    // The service is asked again while coreos-installer runs, which takes real time.
    let exit_status = world.with_engine(Arc::new(RealClock), |engine| job::run(engine));
    assert_eq!(exit_status, ExitStatus::HalfWritten);
    assert_install_fails(&service, "half written");
    assert_eq!(replies(&service, "stop-installation")[0]["exit_code"], 0);
}

#[test]
fn crash_of_the_process_is_reported_as_a_failed_stage() {
    let mut world = World::new();
    let service = world.service(Vec::new(), |_, _| None);
    world.machine.settings.vim.url = Some(service.url.clone());
    let failure = Failure::new(Code::AgentBug, "a bug ended the agent: index 7");
    let crash = Crash {
        found: Checkpoint { node_id: HOST.into(), ..Checkpoint::default() },
        outcome: Outcome {
            state: DiskState::HalfWritten,
            failure: Some(failure.advise("install again")),
            ..Outcome::default()
        },
    };
    let after = world.with_engine(Arc::new(RealClock), |engine| engine.crashed(&crash));
    assert_eq!(after, AfterCrash::End(None));
    let expected = "AGENT_BUG: a bug ended the agent: index 7; the disk may be half written; what to do: install again";
    assert_eq!(stages(&service), [("Failed".to_owned(), expected.to_owned())]);
    assert_eq!(service.requests("/progress")[0].path, of_host("/progress"));
}

/// The variable that makes this program the agent, with the address of its service.
const VARIABLE: &str = "RCI_ASSISTED_AGENT";
/// The text before the exit status in the output of the parent.
const PRINTED: &str = "the host ends with ";

/// Not a test, but the agent's processes, if the variable is set: the one that installs, and its parent.
#[test]
#[expect(clippy::print_stdout, reason = "the test reads it")]
fn agent_process() {
    let Ok(url) = std::env::var(VARIABLE) else { return };
    let stop = Stop::on_signals().unwrap();
    let is_child = supervise::is_child();
    let mut world = if is_child { ready() } else { World::new() };
    log::start(LogLevel::Info, &world.machine.settings.process);
    world.is_recorded = false;
    world.machine.settings.vim.url = Some(url);
    world.machine.stop = stop.clone();
    if !is_child {
        let status =
            world.with_engine(Arc::new(RealClock), |engine| supervise::supervise(engine, &stop));
        println!("{PRINTED}{status:?}");
        return;
    }
    world.with_engine(Arc::new(RealClock), |engine| {
        assert_eq!(supervise::supervise(engine, &stop), None);
        job::run(engine)
    });
}

/// What the service learns if the process that installs is killed when it sends its first request that `is_last`
/// accepts: the stages, and how its parent ends.
fn killed_at(is_last: fn(&Request) -> bool) -> (Vec<(String, String)>, String) {
    let parent = Arc::new(AtomicU32::new(0));
    let (pid, n_asked) = (Arc::clone(&parent), AtomicUsize::new(0));
    let service = Mock::start(move |request, _| {
        if is_last(request) {
            for child in children(pid.load(Ordering::SeqCst)).split_whitespace() {
                kill(Pid::from_raw(child.parse().unwrap()), Signal::SIGKILL).unwrap();
            }
        }
        if asks_for_steps(request) {
            let is_first = n_asked.fetch_add(1, Ordering::SeqCst) == 0;
            return instructions(&if is_first { install(|_| ()) } else { json!([]) });
        }
        answer(request)
    });
    // A process that is killed does not remove its folder.
    let folder = tempfile::tempdir().unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "assisted::agent_process", "--nocapture", "--test-threads=1"])
        .env(VARIABLE, &service.url)
        .env("TMPDIR", folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    parent.store(child.id(), Ordering::SeqCst);
    let printed = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    let status = printed.lines().find_map(|line| line.split_once(PRINTED));
    let (_, status) = status.unwrap_or_else(|| panic!("{printed}"));
    (stages(&service), status.to_owned())
}

#[test]
fn crash_between_the_end_of_an_install_and_its_report_does_not_lose_the_host() {
    let (reported, end) = killed_at(|request| request.path.contains("/logs?"));
    assert_eq!(reported.last(), Some(&("Rebooting".to_owned(), String::new())), "{reported:?}");
    assert_eq!(reported.iter().filter(|(stage, _)| stage == "Rebooting").count(), 1);
    assert_eq!(end, "Some(Done)");
}

#[test]
fn crash_before_the_write_fails_the_host_with_the_state_of_its_disk() {
    let (reported, end) = killed_at(|request| request.path.ends_with("/downloads/ignition"));
    let (stage, info) = reported.last().unwrap();
    assert_eq!(stage, "Failed", "{reported:?}");
    assert!(info.starts_with("AGENT_BUG: ") && info.contains("no disk was touched"), "{info}");
    assert_eq!(end, "Some(Bug)");
}

#[test]
fn token_does_not_follow_a_redirect() {
    let mut world = World::new();
    let elsewhere = Mock::start(|_, _| Reply::bytes(IGNITION.as_bytes()));
    let target = format!("{}/stolen", elsewhere.url);
    let service = world.service(vec![install(|_| ())], move |request, _| {
        let is_ignition = request.path.ends_with("/downloads/ignition");
        is_ignition.then(|| Reply::status(302).and("Location", &target))
    });
    world.run(&service);
    assert!(elsewhere.requests("").is_empty());
    assert_install_fails(&service, "IGNITION_FETCH");
}

#[test]
fn service_that_answers_nonsense_does_not_break_the_agent() {
    let mut world = World::new();
    world.is_recorded = false;
    let odd = |n| match n {
        0 => Some(Reply::bytes(b"<html>")),
        1 => Some(Reply::json(200, &json!([1, 2]))),
        2 => Some(Reply::half()),
        3 => Some(instructions(&json!({"a": 1}))),
        4 => {
            Some(instructions(&json!([{"step_type": 7}, {"step_type": "install", "args": ["{"]}])))
        }
        5 => Some(instructions(&json!([{"step_type": "x\u{1b}[2J", "step_id": "y", "args": []}]))),
        _ => None,
    };
    let service = world.service_with(odd, |_, _| None);
    assert_eq!(world.run(&service), ExitStatus::Untouched);
    let errors: Vec<Value> = replies(&service, "install");
    assert_eq!(errors.len(), 1, "{errors:?}");
}
