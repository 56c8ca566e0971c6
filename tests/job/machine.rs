//! A node in a folder: a file for a disk, a piece of sysfs, a script for coreos-installer.

use std::fs;
use std::io::Write as _;
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use probes::block::Disk;
use run_coreos_installer::act::System;
use run_coreos_installer::api::{Install, JobResult, OnRefusal};
use run_coreos_installer::cli::After;
use run_coreos_installer::clock::Clock;
use run_coreos_installer::engines::offline::{self, Offline};
use run_coreos_installer::engines::vim::{self, ResultFile, Vim};
use run_coreos_installer::exit_status::ExitStatus;
use run_coreos_installer::http::ServerSettings;
use run_coreos_installer::job::{self, Collected, Node, Survey};
use run_coreos_installer::signals::Stop;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::until::until;

/// An Ignition config that passes every check.
pub(crate) const IGNITION: &str = r#"{"ignition":{"version":"3.3.0"}}"#;

/// The ids of a process's children, with blanks between them.
pub(crate) fn children(parent: u32) -> String {
    let tasks = fs::read_dir(format!("/proc/{parent}/task")).unwrap().flatten();
    tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok()).collect()
}

/// A clock that does not wait but records for how long it should have.
#[derive(Debug)]
pub(crate) struct TestClock {
    started: Instant,
    slept: Mutex<Vec<Duration>>,
    random: AtomicU32,
}

impl Clock for TestClock {
    fn now(&self) -> Instant {
        self.started + self.slept.lock().unwrap().iter().sum::<Duration>()
    }
    fn time_of_day(&self) -> SystemTime {
        SystemTime::now()
    }
    fn sleep(&self, duration: Duration, _: &Stop) {
        self.slept.lock().unwrap().push(duration);
        std::thread::sleep(Duration::from_millis(2));
    }
    fn random(&self) -> u32 {
        self.random.load(Ordering::SeqCst)
    }
}

/// The settings of the node and of its engine.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) vim: ServerSettings,
    pub(crate) on_refusal: OnRefusal,
    /// Set for an install without a VIM.
    pub(crate) offline: Option<offline::Settings>,
    pub(crate) node: job::Settings,
}

impl Deref for Settings {
    type Target = job::Settings;

    fn deref(&self) -> &job::Settings {
        &self.node
    }
}

impl DerefMut for Settings {
    fn deref_mut(&mut self) -> &mut job::Settings {
        &mut self.node
    }
}

/// The end of a job.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) exit_status: ExitStatus,
    /// The result of the last instruction of a VIM.
    pub(crate) result: Option<JobResult>,
}

/// The node.
pub(crate) struct Machine {
    _folder: TempDir,
    pub(crate) root: PathBuf,
    pub(crate) settings: Settings,
    pub(crate) collected: Collected,
    pub(crate) stop: Stop,
    pub(crate) clock: Arc<TestClock>,
    pub(crate) n_collected: u32,
}

impl Machine {
    /// A node with one empty disk of 64 MiB.
    pub(crate) fn new(vim: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_owned();
        for dir in ["sys/dev/block", "proc/self", "dev", "run", "keyfiles", "osmet"] {
            fs::create_dir_all(root.join(dir)).unwrap();
        }
        fs::write(root.join("proc/self/mountinfo"), "1 0 0:1 / / rw - tmpfs none rw\n").unwrap();
        fs::write(root.join("osmet/x86_64.osmet"), osmet(1 << 20)).unwrap();
        let mut vim = ServerSettings::new(vim);
        vim.allow_plain_http = true;
        vim.timeouts.connect = Duration::from_secs(5);
        let mut settings = Settings {
            vim,
            // A test that asks again after a refusal says so.
            on_refusal: OnRefusal::Stop,
            offline: None,
            node: job::Settings::default(),
        };
        settings.site.installer = root.join("coreos-installer");
        settings.site.ignition = root.join("no-ignition");
        settings.site.run_dir = root.join("run/private");
        settings.site.network_dir = root.join("keyfiles");
        settings.site.osmet_dir = root.join("osmet");
        settings.site.ostree_repo = root.join("repo");
        settings.site.system = System::below(root.clone());
        settings.site.available_memory_bytes = || Some(1 << 30);
        settings.failure_limit = Duration::from_mins(1);
        settings.poweroff = vec!["true".into()];
        settings.site.is_insecure_image_allowed = true;
        let mut machine = Self {
            _folder: folder,
            root,
            settings,
            collected: Collected {
                report: json!({"schema_version": "1.0", "agent": {}, "node_id": "mac-02", "problems": []})
                    .to_string()
                    .into_bytes(),
                node_id: "mac-02".into(),
                disks: vec![],
                ..Collected::default()
            },
            stop: Stop::default(),
            clock: Arc::new(TestClock {
                started: Instant::now(),
                slept: Mutex::default(),
                random: AtomicU32::new(u32::MAX / 2),
            }),
            n_collected: 0,
        };
        machine.add_disk("sda", 64 << 20);
        machine.script("exit 0");
        machine
    }

    /// The same without a VIM: it installs this, and leaves its result in `result.json`.
    pub(crate) fn offline(install: &Value) -> Self {
        let mut machine = Self::new("");
        machine.settings.vim.url = None;
        machine.settings.on_refusal = OnRefusal::Retry;
        machine.settings.offline = Some(offline::Settings {
            order: serde_json::from_value::<Install>(install.clone()).unwrap().into(),
            asked: install.to_string(),
            result: ResultFile(machine.settings.site.run_dir.join("result.json")),
            after: After::Reboot,
        });
        machine
    }

    /// The result in the file of an install without a VIM.
    pub(crate) fn result(&self) -> Value {
        serde_json::from_str(&self.read("run/private/result.json")).unwrap()
    }

    /// Adds a disk.
    pub(crate) fn add_disk(&mut self, name: &str, size_bytes: u64) {
        let device = self.root.join("dev").join(name);
        fs::File::create(&device).unwrap().set_len(size_bytes).unwrap();
        let number = format!("8:{}", self.collected.disks.len() * 16);
        let sys = self.root.join("sys/devices").join(name);
        fs::create_dir_all(&sys).unwrap();
        fs::write(sys.join("size"), format!("{}\n", size_bytes / 512)).unwrap();
        fs::write(sys.join("serial"), format!("SERIAL-{name}\n")).unwrap();
        fs::write(sys.join("stat"), "100 0 800 0 0 0 0 0 0 0 0\n").unwrap();
        fs::create_dir_all(sys.join("queue")).unwrap();
        fs::write(sys.join("queue/iostats"), "1\n").unwrap();
        let link = self.root.join("sys/dev/block").join(&number);
        std::os::unix::fs::symlink(format!("../../devices/{name}"), link).unwrap();
        self.collected.disks.push(Disk {
            name: name.into(),
            device: device.to_str().unwrap().into(),
            device_number: Some(number),
            size_bytes: Some(size_bytes),
            logical_block_bytes: Some(512),
            serial: Some(format!("SERIAL-{name}")),
            eligible: true,
            ..Disk::default()
        });
    }

    pub(crate) fn disk(&self, name: &str) -> PathBuf {
        self.root.join("dev").join(name)
    }

    /// Writes these bytes to the first disk.
    pub(crate) fn put(&self, bytes: &[u8], at: u64) {
        let disk = fs::File::options().write(true).open(self.disk("sda")).unwrap();
        disk.write_all_at(bytes, at).unwrap();
    }

    /// Replaces coreos-installer by a script; `$DEVICE`, `$ROOT` and `$ARGS` are set, `$N` is the try, and
    /// `write_some` writes to the disk. The disk's counters change if the script writes.
    pub(crate) fn installer(&mut self, version: &str, body: &str) {
        let script = format!(
            r#"#!/bin/bash
ROOT='{root}'
if [ "$1" = --version ]; then echo 'coreos-installer {version}'; exit 0; fi
ARGS="$*"
echo "$ARGS" >> "$ROOT/args"
N=$(wc -l < "$ROOT/args")
CONFIG="$ROOT/run/private/install.yaml"
cp "$CONFIG" "$ROOT/seen.yaml"
stat -c %a "$ROOT/run/private/config.ign" "$CONFIG" "$ROOT/run/private" > "$ROOT/modes"
DEVICE=$(sed -n 's/.*"dest-device": "\(.*\)".*/\1/p' "$CONFIG")
STAT="$ROOT/sys/devices/$(basename "$DEVICE")/stat"
BEFORE=$(stat -c %y "$DEVICE")
trap '[ "$(stat -c %y "$DEVICE")" = "$BEFORE" ] || echo "100 0 800 0 $N 0 2048 0 0 0 0" > "$STAT"' EXIT
write_some() {{ printf data | dd of="$DEVICE" conv=notrunc status=none; }}
write_image() {{ dd if="$ROOT/image" of="$DEVICE" bs=1M conv=notrunc status=none; }}
{body}
"#,
            root = self.root.display()
        );
        let path = &self.settings.site.installer;
        fs::remove_file(path).ok();
        // Written by another process: a file that this one has open for writing could not be run while another
        // thread forks ("text file busy").
        let source = path.with_extension("source");
        fs::write(&source, script).unwrap();
        let mut install = std::process::Command::new("install");
        install.args(["-m", "755"]).arg(&source).arg(path);
        assert!(install.status().unwrap().success());
    }

    /// Replaces coreos-installer by a script of the current version.
    pub(crate) fn script(&mut self, body: &str) {
        self.installer("0.27.0", body);
    }

    /// Lets coreos-installer write this image.
    pub(crate) fn writes(&mut self, image: &[u8]) {
        fs::write(self.root.join("image"), image).unwrap();
        self.script("write_image");
    }

    /// The arguments of the installer.
    pub(crate) fn seen_config(&self) -> Value {
        serde_json::from_str(&self.read("seen.yaml")).unwrap()
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.root.join(name)).unwrap_or_default()
    }

    /// Whether a disk contains only zeros, as at the start.
    pub(crate) fn is_untouched(&self, name: &str) -> bool {
        let bytes = fs::read(self.disk(name)).unwrap();
        bytes == vec![0; bytes.len()]
    }

    pub(crate) fn run(&mut self) -> Ended {
        self.run_changing(|_, _| {})
    }

    /// Runs the job while the machine changes: `change` gets how often its hardware has been read, and what was read.
    pub(crate) fn run_changing(&mut self, change: impl Fn(u32, &mut Collected)) -> Ended {
        let (mut collected, mut n) = (self.collected.clone(), self.n_collected);
        let ended = self.run_with(&mut || {
            n += 1;
            change(n, &mut collected);
            Ok(collected.clone())
        });
        self.n_collected = n;
        ended
    }

    /// Runs the job on hardware that is read by `collect`.
    pub(crate) fn run_with(&self, collect: &mut dyn FnMut() -> anyhow::Result<Collected>) -> Ended {
        let Settings { vim, on_refusal, offline, .. } = self.settings.clone();
        let (node, survey) = (self.node(self.clock.clone()), Survey(collect));
        if let Some(settings) = offline {
            let mut engine = Offline::new(settings, &vim, node, survey).unwrap();
            return Ended { exit_status: job::run(&mut engine), result: None };
        }
        let settings = vim::Settings { server: vim, on_refusal };
        let Ok(mut engine) = Vim::new(settings, node, survey) else {
            return Ended { exit_status: ExitStatus::Usage, result: None };
        };
        let exit_status = job::run(&mut engine);
        Ended { exit_status, result: engine.result().cloned() }
    }

    /// The node for an engine.
    pub(crate) fn node(&self, clock: Arc<dyn Clock>) -> Node {
        Node::new(self.settings.node.clone(), clock, self.stop.clone())
    }

    /// Ends the job by a signal soon after `is_time` is true; the thread returns when that was.
    pub(crate) fn stops_when(
        &self,
        is_time: impl Fn() -> bool + Send + 'static,
    ) -> JoinHandle<Instant> {
        let stop = self.stop.clone();
        std::thread::spawn(move || {
            until("the time to stop", || is_time().then_some(()));
            std::thread::sleep(Duration::from_millis(300));
            stop.stop();
            Instant::now()
        })
    }

    /// Gives the agent this token.
    pub(crate) fn set_token(&mut self, token: &str) {
        let file = self.root.join("token");
        fs::write(&file, token).unwrap();
        self.settings.vim.token_file = Some(file);
    }

    /// Sets every random number from now on.
    pub(crate) fn set_random(&self, number: u32) {
        self.clock.random.store(number, Ordering::SeqCst);
    }

    pub(crate) fn slept(&self) -> Vec<Duration> {
        self.clock.slept.lock().unwrap().clone()
    }
}

/// The start of an osmet file for an image without partitions and disks with 512-byte sectors.
pub(crate) fn osmet(size_bytes: u64) -> Vec<u8> {
    let header = [1, 3, b'0', b'.', b'9', 251, 0, 2, 0, 0, 0];
    [b"OSMET\0\0\0", &header[..], &[0; 32], &[253], &size_bytes.to_le_bytes()].concat()
}

/// A program of the system, e.g. `mkfs.ext4`.
pub(crate) fn tool(name: &str) -> PathBuf {
    let dirs = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];
    let found = dirs.iter().map(|dir| Path::new(dir).join(name)).find(|path| path.exists());
    found.unwrap_or_else(|| panic!("{name} is missing: `make setup` installs it"))
}

/// These bytes as this program of the system packs a file.
pub(crate) fn packed(program: &[&str], bytes: &[u8]) -> Vec<u8> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    let mut command = std::process::Command::new(tool(program[0]));
    command.args(&program[1..]).arg(file.path()).output().unwrap().stdout
}
