//! The program itself, killed in the middle: the VIM still gets a result.

use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

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
fn start(mock: &Mock) -> Child {
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

/// The process that does the job.
fn child_of(parent: &Child) -> Pid {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", parent.id())).unwrap();
    let lists = tasks
        .flatten()
        .filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let all: String = lists.collect();
    Pid::from_raw(all.split_whitespace().next().unwrap().parse().unwrap())
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
    let mut parent = Command::new(env!("CARGO_BIN_EXE_run-coreos-installer"))
        .args(["install", "--ignition", &format!("{}/node.ign", server.url), "--allow-plain-http"])
        .args(["--lldp-wait", "0", "--wait-for-disk", "0", "--bring-links-up=false"])
        .arg("--result")
        .arg(&file)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
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
