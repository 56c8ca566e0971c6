//! The bootstrap host of assisted-service: its live system is a folder, in which a script stands for systemctl, and an API
//! server with a certificate, which asks for that of its clients.

use std::fs;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use run_coreos_installer::act::programs::{Output, Programs, RealPrograms, Started};
use run_coreos_installer::act::{Code, DiskState, Failure, Outcome};
use run_coreos_installer::checkpoint::Checkpoint;
use run_coreos_installer::exit_status::ExitStatus;
use run_coreos_installer::job::{AfterCrash, Crash, Engine as _};
use serde_json::{Value, json};

use super::assisted::{
    HOST, World, asks_for_steps, assert_install_fails, install, instructions, ready, replies,
    stages,
};
use super::certificates::{Certificates, Fault};
use super::image;
use super::machine::IGNITION;
use super::mock::{Mock, Reply, Request, assert_says};
use super::part::part;
use super::skipped::skipped;
use super::tls::server_config;

/// Runs the script of the folder in place of systemctl.
#[derive(Debug)]
struct Live(PathBuf);

impl Programs for Live {
    fn start(
        &self,
        program: &Path,
        args: &[String],
        output: Output,
        lock: Option<&File>,
    ) -> io::Result<Started> {
        let script = self.0.join("systemctl");
        let program = if program == Path::new("systemctl") { &script } else { program };
        RealPrograms.start(program, args, output, lock)
    }
}

/// A stand-in for Ignition that gives the host its kubeconfig.
const IGNITION_APPLY: &str = r#"[ "$container" ] && [ "$1 $2" = "--root $ROOT" ] || exit 9
stat -c %a "${@: -1}" > $ROOT/mode
mkdir -p $ROOT/opt/openshift/auth && cp $ROOT/kubeconfig $ROOT/opt/openshift/auth/kubeconfig"#;

/// bootkube is done, and etcd complete, when they have been asked for once.
const SYSTEMCTL: &str = r#"echo "$*" >> $ROOT/calls
case "$*" in
*bootkube.service) echo activating; touch $ROOT/opt/openshift/.bootkube.done ;;
*progress.service) [ -e $ROOT/asked ] && echo inactive || echo active; touch $ROOT/asked ;;
esac"#;

/// What coreos-installer does.
const WRITE: &str = "cp $ROOT/run/private/config.ign $ROOT/seen.ign; write_image";

/// The calls that begin the bootstrap.
const BEGINS: &str = "preset -- bootkube.service
daemon-reload
restart NetworkManager.service
start --no-block bootkube.service approve-csr.service progress.service
";

fn script(root: &Path, name: &str, body: &str) {
    let (source, path) = (root.join("script"), root.join(name));
    fs::write(&source, format!("#!/bin/bash\nROOT='{}'\n{body}\n", root.display())).unwrap();
    let mut install = Command::new("install");
    assert!(install.args(["-D", "-m", "755"]).arg(source).arg(path).status().unwrap().success());
}

/// A host whose bootstrap config has this API server.
struct Host {
    world: World,
    config: Value,
}

impl Host {
    fn new(server: &str, certificates: &Certificates) -> Self {
        let mut world = ready();
        let root = world.machine.root.clone();
        let system = world.machine.settings.site.system.clone();
        world.machine.settings.site.system = system.with_programs(Arc::new(Live(root.clone())));
        world.machine.script(WRITE);
        for folder in ["etc", "run/ostree-live"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        fs::create_dir_all(root.join("opt/openshift")).unwrap();
        script(&root, "systemctl", SYSTEMCTL);
        script(&root, "usr/libexec/ignition-apply", IGNITION_APPLY);
        let data = |name: &str| STANDARD.encode(fs::read(certificates.path(name)).unwrap());
        let kubeconfig = json!({
            "current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
            "clusters": [
                {"name": "other", "cluster": {"server": "https://other.example"}},
                {"name": "k", "cluster": {"server": server, "certificate-authority-data": data("ca.pem")}},
            ],
            "users": [{"name": "u", "user": {
                "client-certificate-data": data("client.pem"), "client-key-data": data("client.key"),
            }}],
        })
        .to_string();
        fs::write(root.join("kubeconfig"), &kubeconfig).unwrap();
        let source = format!("data:;base64,{}", STANDARD.encode(kubeconfig));
        let unit = "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n";
        let config = json!({
            "ignition": {"version": "3.2.0"},
            "passwd": {"users": [{"name": "core", "sshAuthorizedKeys": ["ssh-ed25519 AAAA"]}]},
            "storage": {"files": [
                {"path": "/opt/openshift/auth/kubeconfig", "contents": {"source": source}, "mode": 384},
            ]},
            "systemd": {"units": [
                {"name": "bootkube.service", "contents": unit, "enabled": true},
                {"name": "crio.service", "contents": unit},
            ]},
        });
        Self { world, config }
    }

    /// The service, which gives these steps.
    fn service(&self, steps: Vec<Value>) -> Mock {
        let config = self.config.to_string();
        self.world.service(steps, move |request, _| {
            let file = "/downloads/files?file_name=bootstrap.ign";
            request.path.ends_with(file).then(|| Reply::bytes(config.as_bytes()))
        })
    }

    /// Runs an install that the service stops at the first request for steps after `is_time`, which sees every request.
    fn stopped_when(&mut self, is_time: impl Fn(&Request) -> bool + Send + Sync + 'static) -> Mock {
        let (config, n_stops) = (self.config.to_string(), AtomicUsize::new(0));
        let stop = json!([{"step_type": "stop-installation", "step_id": "stop-1", "args": null}]);
        let service = self.world.service(vec![bootstrap()], move |request, _| {
            if request.path.ends_with("file_name=bootstrap.ign") {
                return Some(Reply::bytes(config.as_bytes()));
            }
            let is_time = is_time(request) && asks_for_steps(request);
            (is_time && n_stops.fetch_add(1, Ordering::SeqCst) == 0).then(|| instructions(&stop))
        });
        self.world.run(&service);
        service
    }

    fn read(&self, name: &str) -> String {
        self.world.machine.read(name)
    }
}

fn bootstrap() -> Value {
    install(|request| request["role"] = "bootstrap".into())
}

/// An API server on which `n_ready` masters are ready at the nth request.
fn api(
    certificates: &Certificates,
    n_ready: impl Fn(usize) -> usize + Send + Sync + 'static,
) -> Mock {
    let config = server_config(certificates, true, rustls::ALL_VERSIONS);
    Mock::start_at("127.0.0.1:0", Some(config), move |request, n| {
        assert!(request.path.starts_with("/api/v1/nodes?"), "{}", request.path);
        let node = |number: usize| {
            let status = if number < n_ready(n) { "True" } else { "False" };
            json!({"metadata": {"name": format!("master-{number}")},
                "status": {"conditions": [{"type": "Ready", "status": status}]}})
        };
        Reply::json(200, &json!({"kind": "NodeList", "items": [node(0), node(1)]}))
    })
    .unwrap()
}

/// The stages, each once, in the order of their reports.
fn names(service: &Mock) -> Vec<String> {
    let mut names: Vec<String> = stages(service).into_iter().map(|(stage, _)| stage).collect();
    names.dedup();
    names
}

fn becomes_a_master(change: impl FnOnce(&Path)) -> Host {
    let certificates = Certificates::make(Fault::None);
    // A line comes every 30 seconds, that is after six requests.
    let api = api(&certificates, |n| n / 8);
    let mut host = Host::new(&api.url, &certificates);
    change(&host.world.machine.root);
    let service = host.service(vec![bootstrap()]);
    let ended = host.world.run(&service);
    assert_eq!(ended, ExitStatus::Done, "{:?}", stages(&service));
    let expected = [
        "Starting installation",
        "Installing",
        "Writing image to disk",
        "Waiting for control plane",
        "Waiting for bootkube",
        "Rebooting",
    ];
    assert_eq!(names(&service), expected);
    let one = "1 of 2 masters are ready: master-0".to_owned();
    assert!(stages(&service).contains(&("Waiting for control plane".into(), one)));
    assert!(host.read("calls").starts_with(BEGINS), "{}", host.read("calls"));
    assert_eq!(host.read("seen.ign"), IGNITION);
    assert!(host.read("etc/hostname").starts_with("bootstrap-"));
    let left = fs::read_dir(host.world.machine.root.join("run/private")).unwrap().flatten();
    let left: Vec<_> = left.map(|file| file.file_name().into_string().unwrap()).collect();
    let is_secret = |name: &String| name.contains("kubeconfig") || name.contains("bootstrap");
    assert!(!left.iter().any(is_secret), "{left:?}");
    host
}

#[test]
fn bootstrap_host_is_rebooted_as_a_master_once_two_others_are_ready() {
    let host = becomes_a_master(|_| ());
    assert_eq!(host.read("mode"), "600\n");
}

#[test]
fn real_ignition_applies_the_bootstrap_config_to_the_running_system() {
    if !nix::unistd::geteuid().is_root() {
        return skipped("it needs root");
    }
    let Some(ignition) = part("ignition") else { return };
    let host = becomes_a_master(|root| {
        let program = root.join("usr/lib/dracut/modules.d/30ignition/ignition");
        fs::create_dir_all(program.parent().unwrap()).unwrap();
        fs::remove_file(root.join("usr/libexec/ignition-apply")).unwrap();
        fs::copy(&ignition, program).unwrap();
    });
    let preset = host.read("etc/systemd/system-preset/20-ignition.preset");
    assert_eq!(preset, "enable bootkube.service\n");
    assert!(host.read("etc/systemd/system/crio.service").contains("/bin/true"));
}

#[test]
fn control_plane_that_never_responds_fails_the_install_after_an_hour() {
    let mut host = Host::new("https://127.0.0.1:1", &Certificates::make(Fault::None));
    let service = host.service(vec![bootstrap()]);
    assert_eq!(host.world.run(&service), ExitStatus::NotReported);
    assert_says(
        &replies(&service, "install")[0]["error"],
        &[
            "BOOTSTRAP_FAILED: Waiting for control plane: ",
            "127.0.0.1:1",
            "after 60 min; the disk is installed; what to do: ",
        ],
    );
    assert_eq!(names(&service)[3..], ["Waiting for control plane", "Failed"]);
}

#[test]
fn api_server_of_another_ca_is_not_believed() {
    let api = api(&Certificates::make(Fault::None), |_| 2);
    let mut host = Host::new(&api.url, &Certificates::make(Fault::None));
    let is_waiting = AtomicBool::new(false);
    let service = host.stopped_when(move |request| {
        if request.path.ends_with("/progress") {
            let stage = request.json()["current_stage"].take();
            is_waiting.fetch_or(stage == "Waiting for control plane", Ordering::SeqCst);
        }
        is_waiting.load(Ordering::SeqCst)
    });
    assert_install_fails(&service, "stopped; Waiting for control plane: ");
    assert!(api.requests("").is_empty());
}

#[test]
fn bootstrap_config_that_cannot_be_applied_whole_is_refused_before_anything_is_written() {
    let file = |contents: Value| json!({"files": [{"path": "/a", "contents": contents}]});
    for (storage, words) in [
        (json!([]), "the bootstrap config: "),
        (file(json!({"source": "https://a.example/s3cret"})), "it refers to other files"),
        (json!({"disks": [{"device": "/dev/sda", "wipeTable": true}]}), "wipeTable erases a disk"),
    ] {
        let mut host = Host::new("https://127.0.0.1:1", &Certificates::make(Fault::None));
        host.config["storage"] = storage;
        let service = host.service(vec![bootstrap()]);
        assert_eq!(host.world.run(&service), ExitStatus::Untouched, "{words}");
        assert_install_fails(&service, "IGNITION_INVALID");
        assert_says(&replies(&service, "install")[0]["error"], &[words, "it was not applied"]);
        assert!(!replies(&service, "install")[0].to_string().contains("s3cret"));
        assert!(host.world.machine.is_untouched("sda"));
        assert_eq!(host.read("calls") + &host.read("mode"), "");
    }
}

#[test]
fn system_on_a_disk_is_no_bootstrap_host() {
    let mut host = Host::new("https://127.0.0.1:1", &Certificates::make(Fault::None));
    fs::remove_dir(host.world.machine.root.join("run/ostree-live")).unwrap();
    let service = host.service(vec![bootstrap()]);
    assert_eq!(host.world.run(&service), ExitStatus::Untouched);
    assert_install_fails(&service, "the running system is no live image");
    assert!(!host.world.machine.root.join("opt/openshift/auth").exists());
}

#[test]
fn failed_start_is_reported_and_needs_another_boot() {
    let mut host = Host::new("https://127.0.0.1:1", &Certificates::make(Fault::None));
    let body = "[ $1 = start ] && echo 'Unit bootkube.service not found.' >&2 && exit 5; exit 0";
    script(&host.world.machine.root, "systemctl", body);
    let service = host.service(vec![bootstrap(), bootstrap()]);
    assert_eq!(host.world.run(&service), ExitStatus::Untouched);
    let replies = replies(&service, "install");
    let words = "systemctl start ended with exit status 5: Unit bootkube.service not found.";
    assert_says(&replies[0]["error"], &[words]);
    assert_says(&replies[1]["error"], &["a bootstrap config was applied since"]);
    assert!(host.world.machine.is_untouched("sda"));
}

#[test]
fn stop_ends_the_wait_for_the_control_plane() {
    let certificates = Certificates::make(Fault::None);
    let api = api(&certificates, |_| 1);
    let mut host = Host::new(&api.url, &certificates);
    let service = host.stopped_when(move |_| !api.requests("").is_empty());
    assert_install_fails(&service, "INTERRUPTED: the bootstrap of the cluster was stopped");
    assert_install_fails(&service, "1 of 2 masters are ready");
}

#[test]
fn single_node_gets_the_config_that_its_control_plane_left() {
    single_node("control_plane_count", 1.into());
    single_node("high_availability_mode", "None".into());
}

fn single_node(key: &str, value: Value) {
    let mut host = Host::new("https://127.0.0.1:1", &Certificates::make(Fault::None));
    let root = host.world.machine.root.clone();
    let left =
        json!({"ignition": {"version": "3.4.0"}, "storage": {"files": [{"path": "/etc/left"}]}});
    fs::write(root.join("opt/openshift/master.ign"), left.to_string()).unwrap();
    let own = json!({
        "ignition": {"version": "3.2.0", "config": {"merge": [{"source": "https://api-int.example:22623/x"}]}},
        "storage": {"files": [{"path": "/etc/own"}]},
    });
    let config = host.config.to_string();
    let step = install(|request| {
        request["role"] = "bootstrap".into();
        request[key] = value;
    });
    let service = host.world.service(vec![step], move |request, _| {
        let bytes = |text: &str| Some(Reply::bytes(text.as_bytes()));
        match request.path.rsplit('/').next() {
            Some("ignition") => bytes(&own.to_string()),
            Some("files?file_name=bootstrap.ign") => bytes(&config),
            _ => None,
        }
    });
    let expected = json!({
        "ignition": {"version": "3.4.0"},
        "storage": {"files": [{"path": "/etc/left"}, {"path": "/etc/own"}]},
    });
    host.world.machine.writes(&image::coreos(&expected.to_string(), "ignition.platform.id=metal"));
    host.world.machine.script(WRITE);
    assert_eq!(host.world.run(&service), ExitStatus::Done, "{:?}", stages(&service));
    let in_order = [
        "Starting installation",
        "Installing",
        "Waiting for bootkube",
        "Writing image to disk",
        "Rebooting",
    ];
    assert_eq!(names(&service), in_order);
    assert!(!host.read("calls").contains("NetworkManager"));
    let seen: Value = serde_json::from_str(&host.read("seen.ign")).unwrap();
    assert_eq!(seen, expected);
}

#[test]
fn crash_during_the_bootstrap_is_a_failure_although_the_disk_is_installed() {
    let mut world = World::new();
    let service = world.service(Vec::new(), |_, _| None);
    world.machine.settings.vim.url = Some(service.url.clone());
    let mut crash = Crash {
        found: Checkpoint { node_id: HOST.into(), has_more: true, ..Checkpoint::default() },
        outcome: Outcome {
            state: DiskState::Installed,
            failure: Some(Failure::new(Code::AgentBug, "a bug").advise("reboot by hand")),
            ..Outcome::default()
        },
    };
    let clock = world.machine.clock.clone();
    let after = world.with_engine(clock.clone(), |engine| engine.crashed(&crash));
    assert_eq!(after, AfterCrash::End(None));
    let (stage, info) = stages(&service).remove(0);
    assert_eq!(stage, "Failed");
    assert!(info.ends_with("boot the live image again, and reset the cluster in the service"));
    crash.found.has_more = false;
    let after = world.with_engine(clock, |engine| engine.crashed(&crash));
    assert_eq!(after, AfterCrash::End(Some(ExitStatus::Done)));
}
