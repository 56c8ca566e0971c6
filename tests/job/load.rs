//! The load that a VIM allows while the node waits, by the program itself: it starts itself again for each CPU.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::crash::start;
use super::machine::IGNITION;
use super::mock::{Mock, Reply};

/// Far more than the program needs, far less than the load would last.
const LIMIT: Duration = Duration::from_mins(2);

fn wait(load_s: u64, retry_after_s: u64) -> Value {
    json!({
        "api_version": "1", "request_id": "w", "action": "wait", "retry_after_s": retry_after_s,
        "load_s": load_s,
    })
}

/// A VIM with these responses to each report and to each request for the instruction.
fn vim(
    report: impl Fn(usize) -> Value + Send + Sync + 'static,
    instruction: impl Fn(usize) -> Value + Send + Sync + 'static,
) -> Mock {
    Mock::start(move |request, n| {
        if request.path == "/v1/reports" {
            Reply::json(200, &report(n))
        } else if request.path.ends_with("/instruction") {
            Reply::json(200, &instruction(n))
        } else {
            Reply::status(204)
        }
    })
}

/// Runs the program to its end; returns its exit status, what it logged, and the messages of its events.
fn run(mock: &Mock) -> (Option<i32>, String, Vec<String>) {
    let begin = Instant::now();
    // Processes of a load that goes on would keep standard error open.
    let output = start(mock).wait_with_output().unwrap();
    assert!(begin.elapsed() < LIMIT, "it ran for {} s", begin.elapsed().as_secs());
    let events = mock.requests("/events");
    let events = events.iter().flat_map(|batch| batch.json()["events"].as_array().unwrap().clone());
    let messages =
        events.filter_map(|event| event["message"].as_str().map(str::to_owned)).collect();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned(), messages)
}

#[test]
fn load_that_the_vim_allows_is_followed_by_a_report_and_runs_once() {
    let stop = json!({"api_version": "1", "request_id": "s", "action": "stop"});
    // The VIM still allows the load after the second report.
    let mock = vim(
        |n| wait(2, if n == 0 { 60 } else { 1 }),
        move |n| if n == 0 { wait(2, 60) } else { stop.clone() },
    );
    let (status, log, messages) = run(&mock);
    assert_eq!(status, Some(4), "{log}");
    assert_eq!(mock.requests("/v1/reports").len(), 2, "{log}");
    let computed: Vec<_> =
        messages.iter().filter(|text| text.starts_with("computed on ")).collect();
    assert_eq!(computed.len(), 1, "{messages:#?}\n{log}");
    let n_mib = computed[0].split(" MiB").next().unwrap().rsplit(' ').next().unwrap();
    assert!(n_mib.parse::<u64>().unwrap() > 0, "{computed:?}");
}

#[test]
fn install_ends_a_load_at_once() {
    let install = json!({
        "api_version": "1", "request_id": "i", "action": "install", "on_refusal": "stop",
        "install": {"ignition": {"inline": IGNITION}, "disk": {"device": "/dev/none"}},
    });
    let mock = vim(|_| wait(3600, 1), move |n| if n < 2 { wait(3600, 1) } else { install.clone() });
    let (status, log, messages) = run(&mock);
    assert_eq!(status, Some(4), "{log}");
    assert_eq!(mock.requests("/v1/reports").len(), 1, "{log}");
    assert_eq!(mock.requests("/result")[0].json()["disk_state"], "untouched");
    let n_loads = messages.iter().filter(|text| text.starts_with("computed on ")).count();
    assert_eq!(n_loads, 1, "{messages:#?}\n{log}");
}

#[test]
fn load_with_another_action_or_without_end_is_refused() {
    for (action, load_s) in [("stop", 60), ("wait", 0), ("wait", 90_000)] {
        let instruction = json!({
            "api_version": "1", "request_id": "r", "action": action, "load_s": load_s,
        });
        let refusal =
            run_coreos_installer::api::parse_instruction(instruction.to_string().as_bytes());
        let message = refusal.unwrap_err().message;
        assert!(message.contains("expected 1 to 86400 with the action wait"), "{message}");
    }
}
