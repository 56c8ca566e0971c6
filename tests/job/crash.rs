//! The program itself, killed in the middle: the VIM still gets a result.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use run_coreos_installer::api::JobResult;
use run_coreos_installer::clock::RealClock;
use run_coreos_installer::exit_status::ExitStatus;
use run_coreos_installer::http::ServerSettings;
use run_coreos_installer::job::{JobSettings, run_with, stop_on_signals, supervise};
use serde_json::{Value, json};

use super::image;
use super::install::{inline, result, vim as vim_with};
use super::machine::{IGNITION, Machine};
use super::mock::{Mock, Reply};

const LIMIT: Duration = Duration::from_mins(2);

fn vim() -> Mock {
    Mock::start(|request, _| {
        if request.path.ends_with("/events") || request.path.ends_with("/result") {
            Reply::status(204)
        } else {
            Reply::json(202, &json!({"node_id": "node-7", "retry_after_s": 1}))
        }
    })
}

/// Starts the whole program, which reads this machine and then waits for an instruction.
pub(super) fn start(mock: &Mock) -> Child {
    Command::new(env!("CARGO_BIN_EXE_run-coreos-installer"))
        .args(["install", "--vim", &mock.url, "--allow-plain-http", "--lldp-wait", "0"])
        .args(["--wait-for-disk", "0", "--bring-links-up=false"])
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Starts an install without a VIM, silently.
fn start_offline(ignition: &str, result: &Path) -> Child {
    Command::new(env!("CARGO_BIN_EXE_run-coreos-installer"))
        .args(["install", "--ignition", ignition, "--allow-plain-http", "--result"])
        .arg(result)
        .args(["--lldp-wait", "0", "--wait-for-disk", "0", "--bring-links-up=false"])
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// The process that does the job.
fn child_of(parent: &Child) -> Pid {
    Pid::from_raw(children(parent.id()).split_whitespace().next().unwrap().parse().unwrap())
}

/// The ids of a process's children, with blanks between them.
pub(crate) fn children(parent: u32) -> String {
    let tasks = std::fs::read_dir(format!("/proc/{parent}/task")).unwrap();
    let lists = tasks
        .flatten()
        .filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    lists.collect()
}

fn wait_for(mock: &Mock, end: &str) {
    let started = Instant::now();
    while mock.requests(end).is_empty() {
        assert!(started.elapsed() < LIMIT, "no request to {end}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Kills the process that does the job and returns the exit status of the program and what it said.
fn killed(mock: &Mock, signal: Signal) -> (Option<i32>, String) {
    let mut parent = start(mock);
    wait_for(mock, "/v1/nodes/node-7/instruction");
    kill(child_of(&parent), signal).unwrap();
    let status = parent.wait().unwrap();
    let mut said = String::new();
    parent.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    (status.code(), said)
}

#[test]
fn crash_or_kill_by_the_kernel_is_reported_to_the_vim() {
    for (signal, words) in [
        (Signal::SIGKILL, "probably ran out of memory"),
        (Signal::SIGABRT, "a bug, or it ran out of memory"),
        (Signal::SIGILL, "SIGILL"),
    ] {
        let mock = vim();
        let (code, said) = killed(&mock, signal);
        assert_eq!(code, Some(101), "{said}");
        let results = mock.requests("/v1/nodes/node-7/result");
        assert_eq!(results.len(), 1, "{said}");
        let result = results[0].json();
        assert_eq!(result["code"], "AGENT_BUG");
        assert_eq!(
            (&result["outcome"], &result["disk_state"]),
            (&json!("refused"), &json!("untouched"))
        );
        assert!(result["message"].as_str().unwrap().contains(words), "{result:#}");
    }
}

#[test]
fn crash_while_the_agent_waits_after_a_refusal_is_reported() {
    let mock = Mock::start(|request, _| {
        if request.path.ends_with("/events") || request.path.ends_with("/result") {
            Reply::status(204)
        } else {
            let refused = json!({"api_version": "1", "request_id": "r1", "action": "explode"});
            Reply::json(200, &refused)
        }
    });
    let mut parent = start(&mock);
    let started = Instant::now();
    let waits = |mock: &Mock| {
        let events = mock.requests("/events");
        events.iter().any(|batch| String::from_utf8_lossy(&batch.body).contains("asking again in"))
    };
    while !waits(&mock) {
        assert!(started.elapsed() < LIMIT, "the agent does not ask again");
        std::thread::sleep(Duration::from_millis(20));
    }
    kill(child_of(&parent), Signal::SIGKILL).unwrap();
    assert_eq!(parent.wait().unwrap().code(), Some(101));
    let codes: Vec<_> =
        mock.requests("/result").iter().map(|result| result.json()["code"].clone()).collect();
    assert_eq!(codes, ["ACTION_UNKNOWN", "AGENT_BUG"]);
}

#[test]
fn sigterm_to_the_program_ends_its_job_with_a_result() {
    let mock = vim();
    let mut parent = start(&mock);
    wait_for(&mock, "/v1/nodes/node-7/instruction");
    let started = Instant::now();
    kill(Pid::from_raw(parent.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
    assert_eq!(parent.wait().unwrap().code(), Some(4));
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    let results = mock.requests("/result");
    assert_eq!(results.len(), 1);
    assert_eq!(results[0].json()["code"], "INTERRUPTED");
}

#[test]
fn crash_of_an_install_without_a_vim_leaves_a_result_in_the_file() {
    let server = Mock::start(|_, _| Reply::Drip(Duration::from_secs(5)));
    let file = std::env::temp_dir().join(format!("rci-crash-{}.json", std::process::id()));
    let earlier = json!({"api_version": "1", "node_id": "n", "outcome": "failed", "stage": "preflight", "message": "m",
        "disk_state": "untouched", "attempts": 0, "started_at": "2026-01-01T00:00:00Z",
        "finished_at": "2026-01-01T00:00:00Z"});
    std::fs::write(&file, earlier.to_string()).unwrap();
    let mut parent = start_offline(&format!("{}/node.ign", server.url), &file);
    wait_for(&server, "/node.ign");
    kill(child_of(&parent), Signal::SIGKILL).unwrap();
    assert_eq!(parent.wait().unwrap().code(), Some(101));
    let result: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(
        (&result["code"], &result["disk_state"]),
        (&json!("AGENT_BUG"), &json!("untouched"))
    );
    std::fs::remove_file(&file).unwrap();
}

/// Set for a process that is a whole node: the file that says what it does.
const NODE: &str = "RCI_TEST_NODE";

/// The node of the tests below, in two processes as the program has them. Without its variable it does nothing.
#[test]
#[expect(clippy::exit, reason = "the process stands for the program, whose exit status is tested")]
fn node_in_processes_of_its_own() {
    let Some(file) = std::env::var_os(NODE).map(PathBuf::from) else { return };
    let task: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    let text = |key: &str| task[key].as_str().unwrap().to_owned();
    let stop = stop_on_signals();
    if !supervise::is_child() {
        let mut vim = ServerSettings::new(text("vim"));
        vim.allow_plain_http = true;
        let status = supervise::supervise(&JobSettings::new(vim), &stop).unwrap();
        std::process::exit(status.code().into());
    }
    let mut machine = Machine::new(&text("vim"));
    machine.installer("0.27.0", &text("installer"));
    fs::write(file.with_extension("root"), machine.root.to_str().unwrap()).unwrap();
    let mut collect = || Ok(machine.collected.clone());
    let ended = run_with(&machine.settings, &mut collect, Arc::new(RealClock), stop);
    drop(machine);
    std::process::exit(ended.exit_status.code().into());
}

/// A node in processes of its own, whose coreos-installer does this.
struct Node {
    parent: Child,
    file: PathBuf,
}

impl Node {
    fn start(mock: &Mock, installer: &str) -> Self {
        static N: AtomicU32 = AtomicU32::new(0);
        let n = N.fetch_add(1, Ordering::Relaxed);
        let file = std::env::temp_dir().join(format!("rci-node-{}-{n}.json", std::process::id()));
        let task = json!({"vim": mock.url, "installer": installer});
        fs::write(&file, task.to_string()).unwrap();
        let parent = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "crash::node_in_processes_of_its_own", "--nocapture"])
            .env(NODE, &file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { parent, file }
    }

    /// The content of a file in the folder of the node, once it is there and not empty.
    fn wait_for(&self, name: &str) -> String {
        let started = Instant::now();
        loop {
            let root = fs::read_to_string(self.file.with_extension("root")).unwrap_or_default();
            let found = fs::read_to_string(Path::new(&root).join(name)).unwrap_or_default();
            if !root.is_empty() && found.ends_with('\n') {
                return found;
            }
            assert!(started.elapsed() < LIMIT, "the node wrote no {name}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The exit status of the program.
    fn end(&mut self) -> Option<i32> {
        self.parent.wait().unwrap().code()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let root = self.file.with_extension("root");
        // A killed process leaves its folder.
        if let Ok(folder) = fs::read_to_string(&root) {
            fs::remove_dir_all(folder).ok();
        }
        fs::remove_file(root).ok();
        fs::remove_file(&self.file).ok();
    }
}

/// Writes the disk without end, and says so first.
const WRITES_ON: &str = "write_some; echo '100 0 800 0 5 0 2048 0 0 0 0' > $STAT; while :; do date +%s%N > $ROOT/progress; write_some; sleep 0.02; done";

#[test]
fn kill_during_the_write_is_reported_as_a_half_written_disk_and_ends_the_writer() {
    let mock = vim_with(json!({"ignition": inline()}));
    let mut node = Node::start(&mock, &format!("echo $$ > $ROOT/pid; {WRITES_ON}"));
    let pid = node.wait_for("pid");
    node.wait_for("progress");
    kill(child_of(&node.parent), Signal::SIGKILL).unwrap();
    assert_eq!(node.end(), Some(i32::from(ExitStatus::HalfWritten.code())));
    assert!(!Path::new("/proc").join(pid.trim()).exists(), "coreos-installer writes on");
    let result = result(&mock);
    assert_eq!((&result["code"], &result["stage"]), (&json!("AGENT_BUG"), &json!("write")));
    let state = (&result["outcome"], &result["disk_state"], &result["attempts"]);
    assert_eq!(state, (&json!("failed"), &json!("half_written"), &json!(1)));
    assert_eq!(result["disk"]["serial"], "SERIAL-sda");
    assert!(result["advice"].as_str().unwrap().starts_with("do not boot the disk"));
}

#[test]
fn installer_that_ignores_sigterm_delays_the_result_by_no_more_than_five_seconds() {
    let mock = vim_with(json!({"ignition": inline()}));
    let mut node = Node::start(&mock, &format!("trap '' TERM; {WRITES_ON}"));
    node.wait_for("progress");
    let started = Instant::now();
    kill(Pid::from_raw(node.parent.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
    assert_eq!(node.end(), Some(i32::from(ExitStatus::HalfWritten.code())));
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    let result = result(&mock);
    assert_eq!((&result["code"], &result["outcome"]), (&json!("INTERRUPTED"), &json!("failed")));
    assert_eq!(result["disk_state"], "half_written");
}

#[test]
fn sigterm_while_the_hardware_is_read_ends_an_install_without_a_vim_with_a_result() {
    let file = std::env::temp_dir().join(format!("rci-early-{}.json", std::process::id()));
    let config = file.with_extension("ign");
    fs::write(&config, IGNITION).unwrap();
    let parent = start_offline(config.to_str().unwrap(), &file);
    let pid = Pid::from_raw(parent.id().try_into().unwrap());
    // The handler is set as soon as there is a second process.
    let waiting = Instant::now();
    while children(parent.id()).is_empty() {
        assert!(waiting.elapsed() < LIMIT, "the program started no second process");
        std::thread::sleep(Duration::from_millis(1));
    }
    let started = Instant::now();
    kill(pid, Signal::SIGTERM).unwrap();
    let output = parent.wait_with_output().unwrap();
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    let result: JobResult = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    fs::remove_file(&file).unwrap();
    fs::remove_file(&config).unwrap();
    assert_eq!(output.status.code(), Some(i32::from(ExitStatus::Untouched.code())));
    assert_eq!(result.code.as_deref(), Some("INTERRUPTED"));
}

#[test]
fn disk_that_a_power_cut_left_half_written_is_written_again_only_if_it_is_identified() {
    let image = image::coreos(IGNITION, "ignition.platform.id=metal");
    let identified = json!({"hints": {"serial": "SERIAL-sda"}});
    for (disk, expected) in
        [(json!({}), ExitStatus::Untouched), (identified.clone(), ExitStatus::Done)]
    {
        let mock = vim_with(json!({"ignition": inline(), "disk": disk}));
        let mut machine = Machine::new(&mock.url);
        fs::write(machine.root.join("image"), &image).unwrap();
        // coreos-installer writes the first MiB, and with it the table, at the very end.
        let half = [&vec![0; 1 << 20], &image[1 << 20..16 << 20]].concat();
        let mut target = fs::File::options().write(true).open(machine.disk("sda")).unwrap();
        std::io::Write::write_all(&mut target, &half).unwrap();
        machine.collected.disks[0].has_unknown_content = true;
        machine.installer("0.27.0", "write_image");
        assert_eq!(machine.run().exit_status, expected, "{disk}");
        let result = result(&mock);
        if expected == ExitStatus::Done {
            assert_eq!(result["outcome"], "installed");
        } else {
            assert_eq!(result["code"], "EXISTING_DATA");
            assert_eq!(fs::read(machine.disk("sda")).unwrap()[..half.len()], half);
        }
    }
}
