//! Ironic, and its nodes as an operator sees them.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::until::{LIMIT, until, until_within};

/// Nearly every inspection hook, so that most of a document is really read.
const HOOKS: &str = "$default_hooks,memory,cpus,cpu-capabilities,boot-mode,root-device,raid-device,pci-devices,\
                     accelerators,local-link-connection,parse-lldp,physical-network,extra-hardware";

/// Where Ironic is installed.
fn venv() -> &'static Path {
    static VENV: OnceLock<PathBuf> = OnceLock::new();
    VENV.get_or_init(|| {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/ironic/setup");
        let output = Command::new(script).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().into()
    })
}

/// A free port.
pub(crate) fn port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// How Ironic is configured, apart from what every test needs.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Options {
    /// Unknown machines become nodes.
    pub(crate) discovers: bool,

    /// The API speaks TLS: certificate and key.
    pub(crate) tls: Option<(&'static str, &'static str)>,
    /// How long Ironic waits for an agent, in seconds.
    pub(crate) callback_timeout_s: Option<u32>,
}

/// A request and its answer; `None` if there is none.
pub(crate) fn request(
    client: &ureq::Agent,
    method: &str,
    url: &str,
    body: Option<&Value>,
) -> Option<(u16, Value)> {
    let request = ureq::http::Request::builder()
        .method(method)
        .uri(url)
        .header("X-OpenStack-Ironic-API-Version", "1.95")
        .header("Content-Type", "application/json");
    let body = body.map(Value::to_string).unwrap_or_default();
    let mut response = client.run(request.body(body).unwrap()).ok()?;
    let text = response.body_mut().read_to_string().ok()?;
    Some((response.status().as_u16(), serde_json::from_str(&text).unwrap_or_default()))
}

/// A client that leaves errors to the test.
pub(crate) fn client() -> ureq::Agent {
    ureq::Agent::config_builder().http_status_as_error(false).build().into()
}

/// A program that ends with the test, its output in `log`.
pub(crate) fn start(program: &Path, configuration: &Path, log: &Path) -> Child {
    let log = File::options().create(true).append(true).open(log).unwrap();
    Command::new("setpriv")
        .args(["--pdeathsig", "TERM"])
        .arg(program)
        .arg("--config-file")
        .arg(configuration)
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap()
}

/// Ends it.
pub(crate) fn end(child: &mut Child) {
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGTERM).ok();
    let started = Instant::now();
    while matches!(child.try_wait(), Ok(None)) {
        if started.elapsed() > Duration::from_secs(20) {
            child.kill().ok();
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A running Ironic, ended when dropped.
pub(crate) struct Ironic {
    folder: PathBuf,
    pub(crate) url: String,
    master: Option<Child>,
    client: ureq::Agent,
}

impl Ironic {
    pub(crate) fn start(options: Options) -> Self {
        static N: AtomicU32 = AtomicU32::new(0);
        let n = N.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("rci-ironic-{}-{n}", std::process::id()));
        for name in ["state", "logs", "certs"] {
            fs::create_dir_all(folder.join(name)).unwrap();
        }
        fs::copy(venv().join("schema.sqlite"), folder.join("ironic.sqlite")).unwrap();
        let port = port();
        let scheme = if options.tls.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://127.0.0.1:{port}");
        fs::write(folder.join("ironic.conf"), config(&folder, port, &url, options)).unwrap();
        let mut ironic = Self { folder, url, master: None, client: client() };
        ironic.up();
        ironic
    }

    /// Starts the processes and waits until the API responds.
    pub(crate) fn up(&mut self) {
        let (program, configuration) = (venv().join("bin/ironic"), self.folder.join("ironic.conf"));
        let child = start(&program, &configuration, &self.folder.join("log"));
        self.master = Some(child);
        if self.url.starts_with("https") {
            // Its certificate is not trusted here; the agent's first request waits as well.
            let address = self.url.trim_start_matches("https://").to_owned();
            until("an open port", || std::net::TcpStream::connect(&address).ok());
            return;
        }
        until("a conductor", || {
            let (status, drivers) = self.try_api("GET", "drivers", None)?;
            (status == 200 && drivers.to_string().contains("fake-hardware")).then_some(())
        });
    }

    /// Ends the processes; the database stays.
    pub(crate) fn down(&mut self) {
        if let Some(mut master) = self.master.take() {
            end(&mut master);
        }
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// The names of the logs that agents have sent.
    pub(crate) fn ramdisk_logs(&self) -> Vec<PathBuf> {
        let listed = fs::read_dir(self.folder.join("logs")).unwrap();
        listed.flatten().map(|entry| entry.path()).collect()
    }

    fn try_api(&self, method: &str, path: &str, body: Option<&Value>) -> Option<(u16, Value)> {
        request(&self.client, method, &format!("{}/v1/{path}", self.url), body)
    }

    /// A request to the API.
    pub(crate) fn api(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        self.try_api(method, path, body)
            .unwrap_or_else(|| panic!("{method} {path}:\n{}", self.log()))
    }

    /// Every node.
    pub(crate) fn nodes(&self) -> Vec<Value> {
        self.api("GET", "nodes?detail=true", None).1["nodes"]
            .as_array()
            .cloned()
            .unwrap_or_default()
    }

    /// Enrols a node with one port, and makes it manageable.
    pub(crate) fn enrol(&self, name: &str, more: &Value) -> Node<'_> {
        static N: AtomicU32 = AtomicU32::new(1);
        let n = N.fetch_add(1, Ordering::Relaxed);
        let mac = format!("52:54:00:00:{:02x}:{:02x}", n >> 8, n & 0xff);
        let mut node = json!({
            "name": format!("{name}-{n}"), "driver": "fake-hardware", "inspect_interface": "agent",
            "automated_clean": false, "instance_info": {"capabilities": {"boot_option": "local"}},
        });
        for (key, value) in more.as_object().unwrap() {
            node[key] = value.clone();
        }
        let (status, made) = self.api("POST", "nodes", Some(&node));
        assert_eq!(status, 201, "{made}");
        let uuid = made["uuid"].as_str().unwrap().to_owned();
        let port = json!({"node_uuid": uuid, "address": mac});
        assert_eq!(self.api("POST", "ports", Some(&port)).0, 201);
        let node = Node { ironic: self, uuid, mac };
        node.order("manage");
        node.until("manageable");
        node
    }
}

impl Drop for Ironic {
    fn drop(&mut self) {
        self.down();
        if std::thread::panicking() {
            eprintln!("the log of Ironic is in {}", self.folder.display());
        } else {
            fs::remove_dir_all(&self.folder).ok();
        }
    }
}

/// A node.
pub(crate) struct Node<'a> {
    pub(crate) ironic: &'a Ironic,
    pub(crate) uuid: String,
    pub(crate) mac: String,
}

impl Node<'_> {
    pub(crate) fn get(&self) -> Value {
        self.ironic.api("GET", &format!("nodes/{}", self.uuid), None).1
    }

    pub(crate) fn state(&self) -> String {
        self.get()["provision_state"].as_str().unwrap_or_default().to_owned()
    }

    /// Orders another state.
    pub(crate) fn order(&self, target: &str) {
        self.order_with(&json!({"target": target}));
    }

    pub(crate) fn order_with(&self, order: &Value) {
        let path = format!("nodes/{}/states/provision", self.uuid);
        until("a node that is not locked by what it did last", || {
            let (status, answer) = self.ironic.api("PUT", &path, Some(order));
            assert!(status == 202 || status == 409, "{status} {answer}");
            (status == 202).then_some(())
        });
    }

    /// Orders an install, as Metal3 does.
    pub(crate) fn deploy(&self, user_data: &str, meta_data: &Value) {
        self.deploy_by("install_coreos", user_data, meta_data);
    }

    /// Orders an install by this step.
    pub(crate) fn deploy_by(&self, step: &str, user_data: &str, meta_data: &Value) {
        self.deploy_with(&json!({}), step, user_data, meta_data);
    }

    /// The same with these arguments of the step.
    pub(crate) fn deploy_with(&self, args: &Value, step: &str, user_data: &str, meta_data: &Value) {
        let step = json!({"interface": "deploy", "step": step, "args": args, "priority": 80});
        self.order_with(&json!({
            "target": "active",
            "configdrive": {"meta_data": meta_data, "user_data": user_data},
            "deploy_steps": [step],
        }));
    }

    /// Waits for a state; another end is a failure.
    pub(crate) fn until(&self, wanted: &str) {
        self.until_within(wanted, LIMIT);
    }

    /// Waits for a state, for this time at most; another end is a failure.
    pub(crate) fn until_within(&self, wanted: &str, limit: Duration) {
        until_within(wanted, limit, || {
            let node = self.get();
            let state = node["provision_state"].as_str().unwrap_or_default();
            let is_end =
                state.ends_with("failed") || (state == "active" && wanted.ends_with("failed"));
            assert!(
                state == wanted || !is_end,
                "{} is {state}, expected {wanted}: {}\n{}",
                self.uuid,
                node["last_error"],
                self.ironic.log()
            );
            (state == wanted).then_some(())
        });
    }

    /// Waits for a failed state, whose error must have these parts. Returns the error.
    #[track_caller]
    pub(crate) fn fails(&self, state: &str, parts: &[&str]) -> String {
        self.until(state);
        // It is set a little after the state.
        let text = until("an error", || self.get()["last_error"].as_str().map(str::to_owned));
        for part in parts {
            assert!(text.contains(part), "{part:?} is not in {text:?}");
        }
        text
    }
}

fn tls((certificate, key): (&str, &str)) -> String {
    format!("enable_ssl_api = true\ncert_file = {certificate}\nkey_file = {key}\n")
}

fn config(folder: &Path, port: u16, url: &str, options: Options) -> String {
    let folder = folder.display();

    format!(
        "[DEFAULT]
auth_strategy = noauth
rpc_transport = none
host = localhost
my_ip = 127.0.0.1
state_path = {folder}/state
enabled_hardware_types = fake-hardware
enabled_bios_interfaces = no-bios
enabled_boot_interfaces = fake
enabled_deploy_interfaces = custom-agent,direct,fake
default_deploy_interface = custom-agent
enabled_firmware_interfaces = no-firmware
enabled_inspect_interfaces = agent,no-inspect
enabled_management_interfaces = fake
enabled_network_interfaces = noop
enabled_power_interfaces = fake
enabled_raid_interfaces = no-raid
enabled_vendor_interfaces = no-vendor
default_inspect_interface = agent
[agent]
certificates_path = {folder}/certs
deploy_logs_local_path = {folder}/logs
deploy_logs_collect = always
post_deploy_get_power_state_retries = 10
post_deploy_get_power_state_retry_interval = 1
[api]
host_ip = 127.0.0.1
port = {port}
ramdisk_heartbeat_timeout = 30
{}[auto_discovery]
enabled = {}
driver = fake-hardware
[conductor]
automated_clean = false
deploy_callback_timeout = {}
clean_callback_timeout = 20
check_provision_state_interval = 5
[database]
connection = sqlite:///{folder}/ironic.sqlite
[deploy]
fast_track = false
[inspector]
require_managed_boot = false
power_off = true
hooks = {HOOKS}
[oslo_concurrency]
lock_path = {folder}/state
[service_catalog]
endpoint_override = {url}
",
        options.tls.map(tls).unwrap_or_default(),
        options.discovers,
        options.callback_timeout_s.unwrap_or(20),
    )
}
