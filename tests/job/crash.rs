//! The program itself, killed in the middle: the VIM still gets a result.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use run_coreos_installer::api::JobResult;
use run_coreos_installer::clock::RealClock;
use run_coreos_installer::engines::vim::{self, Vim};
use run_coreos_installer::exit_status::ExitStatus;
use run_coreos_installer::job::{self, Survey, stop_on_signals, supervise};
use serde_json::{Value, json};
use tempfile::{NamedTempFile, TempDir};

use super::image;
use super::install::{Job, vim as vim_with, with};
use super::machine::{IGNITION, Machine, children};
use super::mock::{Mock, Reply, assert_has, assert_says};
use super::until::until;

fn vim() -> Mock {
    Mock::vim(|_, _| Reply::accepted("node-7"))
}

/// Starts an install by the whole program.
fn start_install(words: &[&str], stderr: Stdio) -> Child {
    Command::new(env!("CARGO_BIN_EXE_run-coreos-installer"))
        .args(["install", "--allow-plain-http", "--lldp-wait", "0", "--wait-for-disk", "0"])
        .arg("--bring-links-up=false")
        .args(words)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(stderr)
        .spawn()
        .unwrap()
}

/// Starts the whole program, which reads this machine and then waits for an instruction.
pub(super) fn start(mock: &Mock) -> Child {
    start_install(&["--vim", &mock.url], Stdio::piped())
}

/// Starts an install without a VIM, silently.
fn start_offline(ignition: &str, result: &Path) -> Child {
    let result = result.to_str().unwrap();
    start_install(&["--ignition", ignition, "--result", result], Stdio::null())
}

/// Sends SIGTERM to the program.
fn terminate(parent: &Child) {
    kill(Pid::from_raw(parent.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
}

/// The process that does the job.
fn child_of(parent: &Child) -> Pid {
    Pid::from_raw(children(parent.id()).split_whitespace().next().unwrap().parse().unwrap())
}

/// Kills the process that does the job and returns the exit status of the program and what it said.
fn killed(mock: &Mock, signal: Signal) -> (Option<i32>, String) {
    let mut parent = start(mock);
    mock.wait_for("/v1/nodes/node-7/instruction");
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
        let [result] = &mock.bodies("/v1/nodes/node-7/result")[..] else { panic!("{said}") };
        let expected =
            json!({"code": "AGENT_BUG", "outcome": "refused", "disk_state": "untouched"});
        assert_has(result, &expected);
        assert_says(&result["message"], &[words]);
    }
}

#[test]
fn log_that_cannot_be_written_does_not_end_the_job() {
    let full = || Stdio::from(fs::File::options().write(true).open("/dev/full").unwrap());
    let closed = || Stdio::from(std::io::pipe().unwrap().1);
    for stderr in [full(), closed()] {
        let mock = Mock::vim(|_, _| Reply::action("explode"));
        let words = ["--vim", &mock.url, "--on-refusal", "stop"];
        let status = start_install(&words, stderr).wait().unwrap();
        assert_eq!(status.code(), Some(ExitStatus::Untouched.code().into()), "{status}");
        assert_eq!(mock.codes(), ["ACTION_UNKNOWN"]);
    }
}

#[test]
fn crash_while_the_agent_waits_after_a_refusal_is_reported() {
    let mock = Mock::vim(|_, _| Reply::action("explode"));
    let mut parent = start(&mock);
    until("another request", || {
        mock.messages().into_iter().find(|text| text.contains("asking again in"))
    });
    kill(child_of(&parent), Signal::SIGKILL).unwrap();
    assert_eq!(parent.wait().unwrap().code(), Some(101));
    assert_eq!(mock.codes(), ["ACTION_UNKNOWN", "AGENT_BUG"]);
}

#[test]
fn sigterm_to_the_program_ends_its_job_with_a_result() {
    let mock = vim();
    let mut parent = start(&mock);
    mock.wait_for("/v1/nodes/node-7/instruction");
    let started = Instant::now();
    terminate(&parent);
    assert_eq!(parent.wait().unwrap().code(), Some(4));
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    assert_eq!(mock.codes(), ["INTERRUPTED"]);
}

#[test]
fn crash_of_an_install_without_a_vim_leaves_a_result_in_the_file() {
    let server = Mock::start(|_, _| Reply::Drip(Duration::from_secs(5)));
    let file = NamedTempFile::new().unwrap();
    let earlier = json!({"api_version": "1", "node_id": "n", "outcome": "failed", "stage": "preflight", "message": "m",
        "disk_state": "untouched", "attempts": 0, "started_at": "2026-01-01T00:00:00Z",
        "finished_at": "2026-01-01T00:00:00Z"});
    fs::write(&file, earlier.to_string()).unwrap();
    let mut parent = start_offline(&format!("{}/node.ign", server.url), file.path());
    server.wait_for("/node.ign");
    kill(child_of(&parent), Signal::SIGKILL).unwrap();
    assert_eq!(parent.wait().unwrap().code(), Some(101));
    let result: Value = serde_json::from_slice(&fs::read(file.path()).unwrap()).unwrap();
    assert_has(&result, &json!({"code": "AGENT_BUG", "disk_state": "untouched"}));
}

/// Set for a process that is a whole node: the folder with the file that says what it does.
const NODE: &str = "RCI_TEST_NODE";

/// The node of the tests below, in two processes as the program has them. Without its variable it does nothing.
#[test]
#[expect(clippy::exit, reason = "the process stands for the program, whose exit status is tested")]
fn node_in_processes_of_its_own() {
    let Some(folder) = std::env::var_os(NODE).map(PathBuf::from) else { return };
    let task = fs::read_to_string(folder.join("task.json")).unwrap();
    let task: Value = serde_json::from_str(&task).unwrap();
    let text = |key: &str| task[key].as_str().unwrap().to_owned();
    let mut machine = Machine::new(&text("vim"));
    machine.stop = stop_on_signals();
    let settings = vim::Settings {
        server: machine.settings.vim.clone(),
        on_refusal: machine.settings.on_refusal,
    };
    let collected = machine.collected.clone();
    let mut collect = || Ok(collected.clone());
    let node = machine.node(Arc::new(RealClock));
    let mut engine = Vim::new(settings, node, Survey(&mut collect)).unwrap();
    if supervise::is_child() {
        machine.script(&text("installer"));
        fs::write(folder.join("root"), machine.root.to_str().unwrap()).unwrap();
    }
    let status = supervise::supervise(&mut engine, &machine.stop);
    let status = status.unwrap_or_else(|| job::run(&mut engine));
    drop(machine);
    std::process::exit(status.code().into());
}

/// A node in processes of its own, whose coreos-installer does this.
struct Node {
    parent: Child,
    /// It contains the folders of both processes, which a killed one does not remove.
    folder: TempDir,
}

impl Node {
    fn start(mock: &Mock, installer: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let task = json!({"vim": mock.url, "installer": installer});
        fs::write(folder.path().join("task.json"), task.to_string()).unwrap();
        let parent = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "crash::node_in_processes_of_its_own", "--nocapture"])
            .env(NODE, folder.path())
            .env("TMPDIR", folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { parent, folder }
    }

    /// The content of a file in the folder of the node, once it is there and not empty.
    fn wait_for(&self, name: &str) -> String {
        until(name, || {
            let root = fs::read_to_string(self.folder.path().join("root")).ok()?;
            let found = fs::read_to_string(Path::new(&root).join(name)).ok()?;
            found.ends_with('\n').then_some(found)
        })
    }

    /// The exit status of the program.
    fn end(&mut self) -> Option<i32> {
        self.parent.wait().unwrap().code()
    }
}

/// Writes the disk without end, and says so first.
const WRITES_ON: &str = "write_some; echo '100 0 800 0 5 0 2048 0 0 0 0' > $STAT; while :; do date +%s%N > $ROOT/progress; write_some; sleep 0.02; done";

#[test]
fn kill_during_the_write_is_reported_as_a_half_written_disk_and_ends_the_writer() {
    let mock = vim_with(with(json!({})));
    let mut node = Node::start(&mock, &format!("echo $$ > $ROOT/pid; {WRITES_ON}"));
    let pid = node.wait_for("pid");
    node.wait_for("progress");
    kill(child_of(&node.parent), Signal::SIGKILL).unwrap();
    assert_eq!(node.end(), Some(i32::from(ExitStatus::HalfWritten.code())));
    assert!(!Path::new("/proc").join(pid.trim()).exists(), "coreos-installer writes on");
    let result = mock.result();
    let expected = json!({
        "code": "AGENT_BUG", "stage": "write", "outcome": "failed", "disk_state": "half_written",
        "attempts": 1, "disk": {"serial": "SERIAL-sda"},
    });
    assert_has(&result, &expected);
    assert!(result["advice"].as_str().unwrap().starts_with("do not boot the disk"));
}

#[test]
fn installer_that_ignores_sigterm_delays_the_result_by_no_more_than_five_seconds() {
    let mock = vim_with(with(json!({})));
    let mut node = Node::start(&mock, &format!("trap '' TERM; {WRITES_ON}"));
    node.wait_for("progress");
    let started = Instant::now();
    terminate(&node.parent);
    assert_eq!(node.end(), Some(i32::from(ExitStatus::HalfWritten.code())));
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    let expected =
        json!({"code": "INTERRUPTED", "outcome": "failed", "disk_state": "half_written"});
    assert_has(&mock.result(), &expected);
}

#[test]
fn sigterm_while_the_hardware_is_read_ends_an_install_without_a_vim_with_a_result() {
    let folder = tempfile::tempdir().unwrap();
    let (file, config) = (folder.path().join("result.json"), folder.path().join("node.ign"));
    fs::write(&config, IGNITION).unwrap();
    let parent = start_offline(config.to_str().unwrap(), &file);
    // The handler is set as soon as there is a second process.
    until("a second process", || (!children(parent.id()).is_empty()).then_some(()));
    let started = Instant::now();
    terminate(&parent);
    let output = parent.wait_with_output().unwrap();
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    let result: JobResult = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!(output.status.code(), Some(i32::from(ExitStatus::Untouched.code())));
    assert_eq!(result.code.as_deref(), Some("INTERRUPTED"));
}

#[test]
fn disk_that_a_power_cut_left_half_written_is_written_again_only_if_it_is_identified() {
    let image = image::plain();
    let identified = json!({"hints": {"serial": "SERIAL-sda"}});
    for (disk, exit_status, expected) in [
        (json!({}), ExitStatus::Untouched, json!({"code": "EXISTING_DATA"})),
        (identified, ExitStatus::Done, json!({"outcome": "installed"})),
    ] {
        let mut job = Job::new(json!({"disk": disk})).writes(&image);
        // coreos-installer writes the first MiB, and with it the table, at the very end.
        let half = [&vec![0; 1 << 20], &image[1 << 20..16 << 20]].concat();
        job.machine.put(&half, 0);
        job.machine.collected.disks[0].has_unknown_content = true;
        job.ends(exit_status, &expected);
        if exit_status == ExitStatus::Untouched {
            assert_eq!(fs::read(job.machine.disk("sda")).unwrap()[..half.len()], half);
        }
    }
}
