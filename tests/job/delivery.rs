//! Results and the VIM that should get them: it is away, has forgotten the node, or accepts no results.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use run_coreos_installer::api::OnRefusal;
use run_coreos_installer::exit_status::ExitStatus;
use serde_json::json;

use super::image;
use super::install::{Job, with};
use super::machine::IGNITION;
use super::mock::{Mock, Reply, Request};

fn refused() -> Reply {
    Reply::install(&with(json!({"disk": {"device": "/dev/none"}})))
}

/// A machine that asks again after a refusal.
fn patient(mock: Mock) -> Job {
    let mut job = Job::at(mock);
    job.machine.settings.on_refusal = OnRefusal::Retry;
    job
}

fn keys(results: &[Request]) -> BTreeSet<Option<&str>> {
    results.iter().map(|result| result.header("idempotency-key")).collect()
}

#[test]
fn refusal_reaches_a_vim_that_was_away_for_longer_than_its_result_is_retried() {
    let polls = Arc::new(AtomicUsize::new(0));
    let n_polls = Arc::clone(&polls);
    let mock = Mock::of(
        |_| refused(),
        move |n| {
            n_polls.store(n + 1, Ordering::SeqCst);
            if n > 4 { Reply::action("reboot") } else { refused() }
        },
        move |_| Reply::status(if polls.load(Ordering::SeqCst) < 3 { 503 } else { 204 }),
    );
    let Job { mock, mut machine } = patient(mock);
    assert_eq!(machine.run().exit_status, ExitStatus::Done);
    let results = mock.requests("/result");
    assert_eq!(keys(&results).len(), 1, "the VIM sees that it is one result");
    let paths: Vec<String> = mock.requests("").into_iter().map(|request| request.path).collect();
    let last = |end: &str| paths.iter().rposition(|path| path.ends_with(end));
    assert!(last("/result") < last("/instruction"), "accepted results are not posted again");
    let mut after_third = paths.iter().filter(|path| !path.ends_with("/events")).skip_while({
        let mut n = 0;
        move |path| {
            n += usize::from(path.ends_with("/instruction"));
            n < 3
        }
    });
    assert_eq!(after_third.nth(1).map(String::as_str), Some("/v1/nodes/mac-02/result"));
    assert_eq!(results.last().unwrap().json()["code"], "DISK_NONE");
}

#[test]
fn refusal_is_posted_once_more_when_the_agent_gives_up() {
    let polls = Arc::new(AtomicUsize::new(0));
    let n_polls = Arc::clone(&polls);
    let mock = Mock::of(
        |_| refused(),
        move |n| {
            // From here on only results are accepted.
            n_polls.store(n + 1, Ordering::SeqCst);
            if n < 6 { refused() } else { Reply::status(503) }
        },
        move |_| Reply::status(if polls.load(Ordering::SeqCst) < 12 { 503 } else { 204 }),
    );
    let Job { mock, mut machine } = patient(mock);
    machine.settings.vim.deadline = Some(Duration::from_mins(40));
    assert_eq!(machine.run().exit_status, ExitStatus::Untouched);
    let results = mock.requests("/result");
    assert_eq!(results.last().unwrap().json()["code"], "DISK_NONE");
    assert_eq!(keys(&results).len(), 1);
}

#[test]
fn interrupted_job_names_the_refusal_that_the_vim_never_got() {
    let mock = Mock::start(|request, _| match request.path.as_str() {
        path if path.ends_with("/result") && !contains(request, "INTERRUPTED") => {
            Reply::status(503)
        }
        path if path.ends_with("/events") || path.ends_with("/result") => Reply::status(204),
        path if path.ends_with("/instruction") => Reply::accepted("mac-02"),
        _ => refused(),
    });
    let Job { mock, mut machine } = patient(mock);
    let seen = mock.clone();
    machine.stops_when(move || !seen.requests("/instruction").is_empty());
    assert_eq!(machine.run().exit_status, ExitStatus::Untouched);
    let last = mock.requests("/result").last().unwrap().json();
    assert_eq!(last["code"], "INTERRUPTED");
    let warnings = last["warnings"].to_string();
    assert!(warnings.contains("request r1 ended with DISK_NONE"), "{warnings}");
}

fn contains(request: &Request, text: &str) -> bool {
    String::from_utf8_lossy(&request.body).contains(text)
}

#[test]
fn vim_that_forgot_the_node_gets_the_report_and_then_the_result_of_an_install() {
    for new_id in ["mac-02", "node-9"] {
        let path = format!("/v1/nodes/{new_id}/result");
        let mock = Mock::start(move |request, n| match request.path.as_str() {
            "/v1/reports" if n == 0 => Reply::install(&with(json!({}))),
            "/v1/reports" => Reply::json(202, &json!({"node_id": new_id})),
            // A result without another report before it is refused.
            this if this == path && (new_id != "mac-02" || n > 0) => Reply::status(204),
            this if this.ends_with("/events") => Reply::status(204),
            _ => Reply::status(404),
        });
        let Job { mock, mut machine } = Job::at(mock).writes(&image::plain());
        let ended = machine.run();
        assert_eq!(ended.exit_status, ExitStatus::Done, "{:?}", ended.result);
        let order = mock.paths();
        let accepted = format!("/v1/nodes/{new_id}/result");
        assert_eq!(order, ["/v1/reports", "/v1/nodes/mac-02/result", "/v1/reports", &accepted]);
        let results = mock.requests("/result");
        assert_eq!(results[1].json()["node_id"], new_id);
        assert_eq!(keys(&results).len(), 1);
    }
}

#[test]
fn vim_that_forgot_the_node_gets_its_refusal_too() {
    let mock = Mock::of(
        |n| if n == 0 { refused() } else { Reply::accepted("mac-02") },
        |_| Reply::action("reboot"),
        |n| Reply::status(if n == 0 { 404 } else { 204 }),
    );
    let Job { mock, mut machine } = patient(mock);
    assert_eq!(machine.run().exit_status, ExitStatus::Done);
    assert_eq!(mock.requests("/v1/reports").len(), 2);
    assert_eq!(mock.codes(), ["DISK_NONE", "DISK_NONE"]);
}

#[test]
fn rules_of_a_bare_config_do_not_apply_to_the_instruction_that_follows_it() {
    let mock = Mock::of(
        |_| Reply::ignition(&IGNITION.replace("3.3.0", "9.9.9")),
        |_| Reply::install(&with(json!({}))),
        // Longer than the result of a bare config is posted, and not the path of a VIM without results.
        |n| Reply::status(if (1..20).contains(&n) { 503 } else { 204 }),
    );
    let Job { mock, mut machine } = patient(mock).writes(&image::plain());
    assert_eq!(machine.run().exit_status, ExitStatus::Done);
    let results = mock.requests("/result");
    assert_eq!(results.len(), 21, "the VIM has both results");
    assert_eq!(results[0].json()["code"], "IGNITION_VERSION");
    assert_eq!(results[20].json()["outcome"], "installed");
}
