//! The agent as a process: this program, started again with what it is to do in an environment variable.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use run_coreos_installer::cli::LogLevel;
use run_coreos_installer::clock::RealClock;
use run_coreos_installer::engines::ironic::{Ironic, Settings, Surveyed};
use run_coreos_installer::http::ServerSettings;
use run_coreos_installer::job::{self, Survey, supervise};
use run_coreos_installer::log;
use run_coreos_installer::signals::Stop;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::image;
use super::machine::{Machine, children};
use super::server::{Node, port};
use super::until::until;

/// The variable that makes this program the agent.
const VARIABLE: &str = "RCI_IRONIC_AGENT";
/// The Ignition config of every install. It has a host name, so that the agent adds none.
pub(crate) const IGNITION: &str = r#"{"ignition":{"version":"3.2.0"},"storage":{"files":[{"path":"/etc/hostname","contents":{"source":"data:,n"}}]}}"#;
/// What the installer does if all goes well.
pub(crate) const WRITE: &str = "dd if=$ROOT/image of=$DEVICE conv=notrunc status=none";

/// An agent that runs; killed when dropped.
pub(crate) struct Agent {
    child: Child,
    /// With everything that its processes leave if they are killed.
    _temporary: Option<Arc<TempDir>>,
    pub(crate) folder: PathBuf,
    pub(crate) port: u16,
}

/// What an agent is to do.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Task {
    pub(crate) ironic: String,
    pub(crate) mac: String,
    #[serde(skip)]
    pub(crate) temporary: Option<Arc<TempDir>>,
    pub(crate) folder: PathBuf,
    pub(crate) port: u16,
    /// What the installer does.
    pub(crate) installer: String,
    pub(crate) clean_disks: Vec<String>,
    pub(crate) has_second_disk: bool,
    /// The first disk contains an earlier system.
    pub(crate) is_dirty: bool,
    /// The agent is the child of a process that starts it again after a crash, as in a live image.
    pub(crate) is_supervised: bool,
    /// Ironic reaches the agent at this address.
    pub(crate) callback_host: Option<String>,
}

impl Task {
    pub(crate) fn new(node: &Node<'_>) -> Self {
        let temporary = tempfile::tempdir().unwrap();
        Self {
            ironic: node.ironic.url.clone(),
            mac: node.mac.clone(),
            folder: temporary.path().to_owned(),
            temporary: Some(Arc::new(temporary)),
            port: port(),
            installer: WRITE.into(),
            ..Self::default()
        }
    }

    pub(crate) fn start(&self) -> Agent {
        let task = serde_json::to_string(self).unwrap();
        let log = File::options().create(true).append(true).open(self.folder.join("log")).unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "agent::agent_process", "--nocapture", "--test-threads=1"])
            .env(VARIABLE, task)
            .env("TMPDIR", &self.folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .process_group(0)
            .spawn()
            .unwrap();
        let (temporary, folder) = (self.temporary.clone(), self.folder.clone());
        Agent { child, _temporary: temporary, folder, port: self.port }
    }
}

impl Agent {
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// Waits for a text in the agent's log.
    pub(crate) fn until_logged(&self, text: &str) {
        until(text, || self.log().contains(text).then_some(()));
    }

    /// Kills the supervised process, but not its parent.
    pub(crate) fn crash(&self) {
        let children = children(self.child.id());
        let child = children.split_whitespace().next().unwrap().parse().unwrap();
        kill(Pid::from_raw(child), Signal::SIGKILL).unwrap();
    }

    /// Kills it and what it started, as a crash and its parent do.
    pub(crate) fn kill(&mut self) {
        killpg(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), Signal::SIGKILL).ok();
        self.child.wait().ok();
    }

    /// Ends it by the signal of systemd.
    pub(crate) fn end(&mut self) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), Signal::SIGTERM).ok();
        self.child.wait().ok();
    }

    /// The folder with its disks.
    pub(crate) fn root(&self) -> PathBuf {
        fs::read_to_string(self.folder.join("root")).unwrap_or_default().into()
    }

    pub(crate) fn disk(&self) -> Vec<u8> {
        fs::read(self.root().join("dev/sda")).unwrap()
    }

    /// The token of its session, from its private file.
    pub(crate) fn token(&self) -> String {
        let text = fs::read_to_string(self.folder.join("run/ironic-agent.json")).unwrap();
        let state: Value = serde_json::from_str(&text).unwrap();
        state["session"]["token"].as_str().unwrap().to_owned()
    }

    /// The status and body of a request to its API.
    pub(crate) fn request(&self, words: &[&str], path: &str) -> (u16, Value) {
        let output = Command::new("curl")
            .args(["-sk", "-m", "20", "-w", "\n%{http_code}"])
            .args(words)
            .arg(format!("https://127.0.0.1:{}{path}", self.port))
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let (body, status) = text.rsplit_once('\n').unwrap();
        (status.parse().unwrap(), serde_json::from_str(body).unwrap_or_default())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("the agent's log:\n{}", self.log());
        }
    }
}

/// A document that all of Ironic's hooks accept.
pub(crate) fn document(mac: &str) -> Value {
    let disk = json!({"name": "/dev/sda", "serial": "SERIAL-sda", "size": 20_u64 << 30, "rotational": false});
    json!({
        "inventory": {
            "interfaces": [{"name": "eth0", "mac_address": mac, "ipv4_address": "192.0.2.10", "has_carrier": true}],
            "cpu": {"architecture": "x86_64", "count": 2, "model_name": "x", "frequency": "2000", "flags": []},
            "memory": {"physical_mb": 4096, "total": 4_u64 << 30},
            "disks": [disk],
            "boot": {"current_boot_mode": "uefi"},
        },
        "root_disk": disk,
    })
}

/// Not a test, but the agent's process, if the variable is set.
#[test]
fn agent_process() {
    let Ok(task) = std::env::var(VARIABLE) else { return };
    let task: Task = serde_json::from_str(&task).unwrap();
    let path = |name: &str| task.folder.join(name).to_str().unwrap().to_owned();
    let mut ironic = ServerSettings::new(task.ironic);
    ironic.allow_plain_http = true;
    let is_parent = task.is_supervised && !supervise::is_child();
    let ca = task.folder.join("ca.pem");
    ironic.ca_file = ca.exists().then_some(ca);
    let mut settings = Settings::new(ironic);
    settings.port = task.port;
    settings.least_interval = Duration::from_secs(1);
    settings.lockdown = vec!["touch".into(), path("locked")];
    settings.callback_url = task.callback_host.map(|host| format!("https://{host}:{}", task.port));
    settings.journalctl = vec!["echo".into(), "a line of the journal".into()];
    settings.clean_disks = task.clean_disks;
    let mut machine = Machine::new("");
    log::start(LogLevel::Debug, &machine.settings.process);
    machine.stop = Stop::on_signals().unwrap();
    if is_parent {
        let mut survey = || anyhow::bail!("the parent reads no hardware");
        let node = machine.node(Arc::new(RealClock));
        let mut engine = Ironic::new(settings, node, Survey(&mut survey)).unwrap();
        let status = supervise::supervise(&mut engine, &machine.stop);
        println!("the parent ends with {status:?}");
        return;
    }
    if task.has_second_disk {
        machine.add_disk("sdb", 64 << 20);
    }
    let image = image::coreos(IGNITION, "ignition.platform.id=metal a=b");
    if task.is_dirty {
        machine.put(&image, 0);
    }
    fs::write(machine.root.join("image"), image).unwrap();
    machine.script(&task.installer);
    fs::write(path("root"), machine.root.to_str().unwrap()).unwrap();
    let settings_of_job = &mut machine.settings;
    // What outlives the process.
    fs::create_dir_all(path("run")).unwrap();
    std::os::unix::fs::symlink(path("run"), &settings_of_job.site.run_dir).unwrap();
    settings_of_job.poweroff = vec!["touch".into(), path("off")];
    let collected = machine.collected.clone();
    let mut survey =
        || Ok(Surveyed { collected: collected.clone(), document: document(&task.mac) });
    let node = machine.node(Arc::new(RealClock));
    let stop = machine.stop.clone();
    let mut engine = Ironic::new(settings, node, Survey(&mut survey)).unwrap();
    if supervise::is_child() {
        assert_eq!(supervise::supervise(&mut engine, &stop), None);
    }
    let status = job::run(&mut engine);
    println!("the agent ends with {status:?}");
}
