//! The agent as a process: this program, started again with what it is to do in an environment variable.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use run_coreos_installer::clock::RealClock;
use run_coreos_installer::engines::ironic::{Ironic, Settings, Surveyed};
use run_coreos_installer::http::ServerSettings;
use run_coreos_installer::job::{self, Survey, supervise};
use run_coreos_installer::signals::Stop;
use serde_json::{Value, json};

use super::image;
use super::machine::Machine;
use super::server::{LIMIT, Node, port};

/// The variable that makes this program the agent.
const VARIABLE: &str = "RCI_IRONIC_AGENT";
/// The Ignition config of every install. It has a host name, so that the agent adds none.
pub(crate) const IGNITION: &str = r#"{"ignition":{"version":"3.2.0"},"storage":{"files":[{"path":"/etc/hostname","contents":{"source":"data:,n"}}]}}"#;
/// What the installer does if all goes well.
pub(crate) const WRITE: &str = "dd if=$ROOT/image of=$DEVICE conv=notrunc status=none";

/// An agent that runs; killed when dropped.
pub(crate) struct Agent {
    child: Child,
    pub(crate) folder: PathBuf,
    pub(crate) port: u16,
}

/// What an agent is to do.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    ironic: String,
    mac: String,
    folder: PathBuf,
    port: u16,
    installer: String,
    clean_disks: Vec<String>,
    has_second_disk: bool,
    is_dirty: bool,
    is_supervised: bool,
    callback_host: Option<&'static str>,
}

impl Task {
    pub(crate) fn new(node: &Node<'_>) -> Self {
        static N: AtomicU32 = AtomicU32::new(0);
        let n = N.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("rci-agent-{}-{n}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self {
            ironic: node.ironic.url.clone(),
            mac: node.mac.clone(),
            folder,
            port: port(),
            installer: WRITE.into(),
            clean_disks: Vec::new(),
            has_second_disk: false,
            is_dirty: false,
            is_supervised: false,
            callback_host: None,
        }
    }

    pub(crate) fn installer(mut self, body: &str) -> Self {
        self.installer = body.into();
        self
    }

    pub(crate) fn clean_disk(mut self, disk: &str) -> Self {
        self.clean_disks.push(disk.into());
        self
    }

    pub(crate) fn two_disks(mut self) -> Self {
        self.has_second_disk = true;
        self
    }

    /// The first disk contains an earlier system.
    pub(crate) fn dirty(mut self) -> Self {
        self.is_dirty = true;
        self
    }

    /// The agent is the child of a process that starts it again after a crash, as in a live image.
    pub(crate) fn supervised(mut self) -> Self {
        self.is_supervised = true;
        self
    }

    /// Ironic reaches the agent at this address.
    pub(crate) fn at(mut self, host: &'static str) -> Self {
        self.callback_host = Some(host);
        self
    }

    pub(crate) fn start(&self) -> Agent {
        let task = json!({
            "is_supervised": self.is_supervised, "callback_host": self.callback_host,
            "ironic": self.ironic, "mac": self.mac, "folder": self.folder, "port": self.port,
            "installer": self.installer, "clean_disks": self.clean_disks,
            "has_second_disk": self.has_second_disk, "is_dirty": self.is_dirty,
        });
        let log = File::options().create(true).append(true).open(self.folder.join("log")).unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "agent::agent_process", "--nocapture", "--test-threads=1"])
            .env(VARIABLE, task.to_string())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .process_group(0)
            .spawn()
            .unwrap();
        Agent { child, folder: self.folder.clone(), port: self.port }
    }
}

impl Agent {
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// Waits for a text in the agent's log.
    pub(crate) fn until_logged(&self, text: &str) {
        let started = Instant::now();
        while !self.log().contains(text) {
            assert!(started.elapsed() < LIMIT, "no {text:?} in:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Kills the supervised process, but not its parent.
    pub(crate) fn crash(&self) {
        let parent = self.child.id();
        let tasks = fs::read_dir(format!("/proc/{parent}/task")).unwrap();
        let children = tasks
            .flatten()
            .filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
        let children: String = children.collect();
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

    /// The folder with its disks. A process that is killed leaves it.
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
        let root = self.root();
        if root.starts_with(std::env::temp_dir()) {
            fs::remove_dir_all(root).ok();
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
    run_coreos_installer::log::start(run_coreos_installer::cli::LogLevel::Debug);
    let task: Value = serde_json::from_str(&task).unwrap();
    let text = |key: &str| task[key].as_str().unwrap().to_owned();
    let mut ironic = ServerSettings::new(text("ironic"));
    ironic.allow_plain_http = true;
    let is_parent = task["is_supervised"] == true && !supervise::is_child();
    let ca = PathBuf::from(text("folder")).join("ca.pem");
    ironic.ca_file = ca.exists().then_some(ca);
    let mut settings = Settings::new(ironic);
    settings.port = u16::try_from(task["port"].as_u64().unwrap()).unwrap();
    settings.least_interval = Duration::from_secs(1);
    settings.lockdown = vec!["touch".into(), text("folder") + "/locked"];
    let host = task["callback_host"].as_str();
    settings.callback_url = host.map(|host| format!("https://{host}:{}", settings.port));
    settings.journalctl = vec!["echo".into(), "a line of the journal".into()];
    let disks = task["clean_disks"].as_array().unwrap();
    settings.clean_disks = disks.iter().map(|disk| disk.as_str().unwrap().to_owned()).collect();
    let mut machine = Machine::new("");
    machine.stop = Stop::on_signals().unwrap();
    if is_parent {
        let mut survey = || anyhow::bail!("the parent reads no hardware");
        let node = machine.node(Arc::new(RealClock));
        let mut engine = Ironic::new(settings, node, Survey(&mut survey)).unwrap();
        let status = supervise::supervise(&mut engine, &machine.stop);
        println!("the parent ends with {status:?}");
        return;
    }
    if task["has_second_disk"] == true {
        machine.add_disk("sdb", 64 << 20);
    }
    let image = image::coreos(IGNITION, "ignition.platform.id=metal a=b");
    if task["is_dirty"] == true {
        let file = File::options().write(true).open(machine.disk("sda")).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &image, 0).unwrap();
    }
    fs::write(machine.root.join("image"), image).unwrap();
    machine.installer("0.27.0", &text("installer"));
    let folder = PathBuf::from(text("folder"));
    fs::write(folder.join("root"), machine.root.to_str().unwrap()).unwrap();
    let settings_of_job = &mut machine.settings;
    // What outlives the process.
    fs::create_dir_all(folder.join("run")).unwrap();
    std::os::unix::fs::symlink(folder.join("run"), &settings_of_job.site.run_dir).unwrap();
    settings_of_job.poweroff = vec!["touch".into(), folder.join("off").to_str().unwrap().into()];
    let collected = machine.collected.clone();
    let mut survey =
        || Ok(Surveyed { collected: collected.clone(), document: document(&text("mac")) });
    let node = machine.node(Arc::new(RealClock));
    let stop = machine.stop.clone();
    let mut engine = Ironic::new(settings, node, Survey(&mut survey)).unwrap();
    if supervise::is_child() {
        assert_eq!(supervise::supervise(&mut engine, &stop), None);
    }
    let status = job::run(&mut engine);
    println!("the agent ends with {status:?}");
}
