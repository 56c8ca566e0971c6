//! The agent against a real assisted-service, whose program lies next to the repository, with a `PostgreSQL` of its own.
//!
//! The cluster exists already, so that one host is enough: the service checks it, lets it fetch a worker's config from the cluster,
//! and installs it.

use std::fs::{self, File};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;

use run_coreos_installer::clock::RealClock;
use run_coreos_installer::engines::assisted::{Assisted, Settings, Surveyed};
use run_coreos_installer::exit_status::ExitStatus;
use run_coreos_installer::http::ServerSettings;
use run_coreos_installer::job::{self, Survey};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::image;
use super::inspect::program;
use super::machine::Machine;
use super::mock::{Mock, Reply};
use super::part::{part, shared};
use super::server::{client, end, port};
use super::until::{until, until_within};

const API: &str = "/api/assisted-install/v2";
const HOST: &str = "66666666-7777-4888-8999-aaaaaaaaaaaa";
/// The disk, at the service and at the agent.
const LINK: &str = "/dev/disk/by-id/x-SERIAL-sda";
/// The state of a host that waits for the order to install.
const KNOWN: &str = "known";
/// In place of the answer to the step `ntp-synchronizer`: the clock of this machine may follow no server.
const SYNCED: &str = r#"{"ntp_sources":[{"source_name":"192.0.2.1","source_state":"synced"}]}"#;

/// The service and its database, ended when dropped.
struct Service {
    folder: TempDir,
    url: String,
    children: Vec<Child>,
}

impl Service {
    /// Starts it; `None` where it is not next to the repository.
    fn start() -> Option<Self> {
        let service = part("assisted-service")?;
        let own = shared()?.join("parts/assisted-service").canonicalize().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let (of_database, of_service) = (port(), port());
        let postgres = postgres();
        // PostgreSQL refuses to run as root, but not as root of another name.
        let as_user = |script: &str| {
            let mut command = Command::new("unshare");
            command.args([
                "--user",
                "--map-user=1000",
                "--map-group=1000",
                "setpriv",
                "--pdeathsig",
                "TERM",
            ]);
            command.args(["sh", "-ec", script]).arg(&postgres).arg(path("database"));
            command
                .arg(of_database.to_string())
                .stderr(File::create(path("database.log")).unwrap());
            command
        };
        let script = r#"printf admin >"$1.pw"; "$0/initdb" -D "$1" -U admin --pwfile="$1.pw" -A md5 >/dev/null"#;
        assert!(as_user(script).status().unwrap().success(), "{}", log(&path("database.log")));
        let script = r#"exec "$0/postgres" -D "$1" -p "$2" -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off"#;
        let mut children = vec![as_user(script).spawn().unwrap()];
        until("the database", || {
            let mut command = Command::new(postgres.join("psql"));
            let server = format!("postgresql://admin:admin@127.0.0.1:{of_database}/postgres");
            let created =
                command.args(["-qc", "create database installer", &server]).output().unwrap();
            created.status.success().then_some(())
        });
        let tools = path("tools");
        fs::create_dir_all(&tools).unwrap();
        fs::copy(own.join("oc"), tools.join("oc")).unwrap();
        fs::set_permissions(tools.join("oc"), std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
        let url = format!("http://127.0.0.1:{of_service}");
        let script = r#"set -a; . "$0/service.env"; PATH=$1:$PATH DB_PORT=$2 HTTP_LISTEN_PORT=$3 SERVICE_BASE_URL=$4 WORK_DIR=$5
            ENABLE_UPGRADE_AGENT=true; exec "$6""#;
        let log = File::create(path("service.log")).unwrap();
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM", "sh", "-ec", script]).arg(own).arg(tools);
        command.args([of_database.to_string(), of_service.to_string(), url.clone()]);
        command.args([folder.path(), &service]).stdout(log.try_clone().unwrap()).stderr(log);
        children.push(command.spawn().unwrap());
        let service = Self { folder, url, children };
        until("the service", || {
            service.try_ask("GET", "/ready", None).filter(|(status, _)| *status == 200)
        });
        Some(service)
    }

    fn try_ask(&self, method: &str, path: &str, body: Option<&Value>) -> Option<(u16, Value)> {
        super::server::request(&client(), method, &format!("{}{path}", self.url), body)
    }

    #[track_caller]
    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let (status, answer) = self.try_ask(method, &format!("{API}{path}"), body).unwrap();
        assert!((200..300).contains(&status), "{method} {path}: {status} {answer:#}");
        answer
    }

    fn log(&self) -> String {
        log(&self.folder.path().join("service.log"))
    }
}

/// Passes every request of the agent on to the service, except that the clock is said to be right, and that the cluster has names.
fn relay(url: &str) -> Mock {
    let url = url.to_owned();
    Mock::start(move |request, _| {
        let mut body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        if body["step_type"] == "ntp-synchronizer" {
            body["output"] = SYNCED.into();
        }
        if body["step_type"] == "domain-resolution" {
            let mut found: Value = serde_json::from_str(body["output"].as_str().unwrap()).unwrap();
            for resolution in found["resolutions"].as_array_mut().unwrap() {
                if !resolution["domain_name"].as_str().unwrap().contains("Wildcard") {
                    resolution["ipv4_addresses"] = json!(["127.0.0.1"]);
                }
            }
            body["output"] = found.to_string().into();
        }
        let body = Some(&body).filter(|body| !body.is_null());
        let url = format!("{url}{}", request.path);
        let Some((status, answer)) = super::server::request(&client(), &request.method, &url, body)
        else {
            return Reply::Close;
        };
        Reply::json(status, &answer)
    })
}

impl Drop for Service {
    fn drop(&mut self) {
        self.children.iter_mut().rev().for_each(end);
    }
}

fn log(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The folder with the programs of `PostgreSQL`, from a package of Python.
fn postgres() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests");
    let mut command = Command::new(tests.join("venv"));
    let python = command
        .arg("postgres")
        .arg(tests.join("assisted/postgres-requirements.txt"))
        .output()
        .unwrap();
    assert!(python.status.success(), "{}", String::from_utf8_lossy(&python.stderr));
    let python = String::from_utf8(python.stdout).unwrap();
    let find =
        "import importlib.util as u; print(u.find_spec('pgserver').submodule_search_locations[0])";
    let found = Command::new(python.trim()).args(["-c", find]).output().unwrap();
    Path::new(String::from_utf8(found.stdout).unwrap().trim()).join("pginstall/bin")
}

/// The inventory of a host: a captured machine with a disk and a network that fit.
fn inventory() -> Value {
    let root =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/two-socket-server/root.tar.zst");
    let output =
        program().args(["inspect", "--format", "assisted", "--root"]).arg(root).output().unwrap();
    let mut inventory: Value = serde_json::from_slice(&output.stdout).unwrap();
    inventory["hostname"] = "worker-0".into();
    inventory["disks"] = json!([{
        "id": LINK, "path": LINK, "by_id": LINK, "name": "sda", "serial": "SERIAL-sda", "drive_type": "SSD", "size_bytes": 200_u64 << 30,
        "installation_eligibility": {"eligible": true},
    }]);
    inventory["interfaces"] = json!([{
        "name": "eth0", "mac_address": "02:00:00:00:00:01", "ipv4_addresses": ["127.0.0.2/8"], "ipv6_addresses": [],
        "has_carrier": true, "type": "physical", "speed_mbps": 1000, "flags": ["up"],
    }]);
    inventory["routes"] = json!([{"family": 2, "interface": "eth0", "gateway": "127.0.0.1", "destination": "0.0.0.0"}]);
    inventory["cpu"]["count"] = 8.into();
    inventory["memory"] = json!({"physical_bytes": 64_u64 << 30, "usable_bytes": 63_u64 << 30, "physical_bytes_method": "meminfo"});
    inventory
}

/// Makes a cluster that exists already, whose servers give a worker's config at `config`; returns the id of its infra-env.
fn infra_env(service: &Service, config: &str) -> String {
    let cluster = json!({
        "name": "day2", "api_vip_dnsname": "127.0.0.1", "openshift_cluster_id": "bbbbbbbb-cccc-4ddd-8eee-ffffffffffff",
    });
    let cluster =
        service.ask("POST", "/clusters/import", Some(&cluster))["id"].as_str().unwrap().to_owned();
    let endpoint = json!({"url": config});
    let endpoint = json!({"ignition_endpoint": endpoint, "base_dns_domain": "example.test"});
    service.ask("PATCH", &format!("/clusters/{cluster}"), Some(&endpoint));
    let own = shared().unwrap().join("parts/assisted-service/cluster.json");
    let own: Value = serde_json::from_slice(&fs::read(own).unwrap()).unwrap();
    let mut env = json!({"name": "env", "image_type": "full-iso", "cluster_id": cluster});
    for key in ["openshift_version", "cpu_architecture", "pull_secret"] {
        env[key] = own[key].clone();
    }
    service.ask("POST", "/infra-envs", Some(&env))["id"].as_str().unwrap().to_owned()
}

/// Waits until the host may be installed, orders that, and waits for the end.
///
/// # Errors
/// What the service says of the host, if it does not come so far.
fn install(service: &Service, host: &str, is_over: &dyn Fn() -> bool) -> Result<(), String> {
    let path = format!("{API}{host}");
    let wait = AssertUnwindSafe(|| {
        until_within("a host that may be installed", Duration::from_mins(3), || {
            let (status, host) = service.try_ask("GET", &path, None)?;
            (status == 200 && host["status"] == KNOWN).then_some(())
        });
        service.ask("POST", &format!("{host}/actions/install"), None);
        until_within("the end of the install", Duration::from_mins(2), || is_over().then_some(()));
    });
    catch_unwind(wait).map_err(|_| {
        let host = service.ask("GET", host, None);
        let validations = host["validations_info"].as_str().unwrap_or_default();
        let is_failing = |one: &&str| !one.contains(r#""status":"success""#);
        let failing: Vec<&str> = validations.split("},{").filter(is_failing).collect();
        format!("{}: {}: {failing:#?}", host["status"], host["status_info"])
    })
}

#[test]
fn host_is_known_to_a_real_assisted_service_and_installed_as_a_worker_of_its_cluster() {
    let Some(service) = Service::start() else { return };
    let worker = r#"{"ignition":{"version":"3.2.0"},"storage":{"files":[{"path":"/etc/worker","contents":{"source":"data:,w"}}]}}"#;
    let cluster_server = Mock::start(move |request, _| match request.path.as_str() {
        "/config/worker" => Reply::ignition(worker),
        _ => Reply::status(404),
    });
    let env = infra_env(&service, &format!("{}/config", cluster_server.url));

    let mut machine = Machine::new("");
    machine.collected.disks[0].by_id = vec![LINK.into()];
    machine.writes(&image::plain());
    machine.script(&image::writing_config());
    let host = format!("/infra-envs/{env}/hosts/{HOST}");
    let surveyed = Surveyed {
        collected: machine.collected.clone(),
        host_id: HOST.into(),
        inventory: inventory(),
    };
    let mut survey = || Ok(surveyed.clone());
    let relay = relay(&service.url);
    let mut server = ServerSettings::new(relay.url.clone());
    server.allow_plain_http = true;
    let stop = machine.stop.clone();
    let node = machine.node(Arc::new(RealClock));
    let ended = std::thread::scope(|scope| {
        let agent = scope.spawn(|| {
            let engine = Assisted::new(Settings::new(&env), server, node, Survey(&mut survey));
            job::run(&mut engine.unwrap())
        });
        if let Err(why) = install(&service, &host, &|| agent.is_finished()) {
            stop.stop();
            panic!("{why}");
        }
        agent.join().unwrap()
    });
    assert_eq!(ended, ExitStatus::Done);
    let seen = service.ask("GET", &host, None);
    assert_eq!(seen["status"], "added-to-existing-cluster", "{seen:#}");
    assert_eq!(seen["progress"]["current_stage"], "Done");
    let memory: Value = serde_json::from_str(seen["inventory"].as_str().unwrap()).unwrap();
    assert_eq!(memory["memory"]["physical_bytes_method"], "meminfo");
    // It wanted another agent, and was content with this one under that name.
    let version = seen["discovery_agent_version"].as_str().unwrap();
    assert!(version.contains("assisted-installer-agent"), "{version}");
    let installed: Value =
        serde_json::from_str(&machine.read("run/private/installed.ign")).unwrap();
    assert!(installed.to_string().contains("/config/worker"), "{installed:#}");
    let replies = relay.bodies("/instructions");
    let failed: Vec<&Value> = replies.iter().filter(|reply| reply["exit_code"] != 0).collect();
    assert!(replies.len() > 5 && failed.is_empty(), "{failed:#?}");
    let log = service.log();
    // Go prints the stack of a panic.
    assert!(!log.contains("goroutine "), "{log}");
}
