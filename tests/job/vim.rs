//! The agent with a VIM that is slow, broken, or not reachable yet.

use std::time::{Duration, Instant};

use run_coreos_installer::exit_status::ExitStatus;
use serde_json::json;

use super::machine::{IGNITION, Machine};
use super::mock::{Mock, Reply, assert_has, instruction};
use super::skipped::skipped;

/// Runs a machine without more settings against a VIM; how it ends.
fn end(mock: &Mock) -> ExitStatus {
    Machine::new(&mock.url).run().exit_status
}

fn seconds(waits: &[Duration]) -> Vec<u64> {
    waits.iter().map(Duration::as_secs).collect()
}

/// An install on a disk that does not exist.
fn fetches(url: &str) -> Reply {
    Reply::install(&json!({"ignition": {"url": url}, "disk": {"device": "/dev/none"}}))
}

#[test]
fn a_busy_vim_is_asked_again_after_the_time_it_names_in_either_form() {
    let mock = Mock::vim(|_, n| match n {
        0 => Reply::status(503).and("Retry-After", "120"),
        1 => Reply::status(503)
            .and("Date", "Sun, 06 Nov 1994 08:49:37 GMT")
            .and("Retry-After", "Sun, 06 Nov 1994 08:51:37 GMT"),
        2 => Reply::status(500),
        _ => Reply::action("reboot"),
    });
    let mut machine = Machine::new(&mock.url);
    assert_eq!(machine.run().exit_status, ExitStatus::Done);
    let reports = mock.requests("/v1/reports");
    assert_eq!(reports.len(), 4);
    let keys: Vec<_> = reports.iter().map(|report| report.header("idempotency-key")).collect();
    assert!(keys[0].is_some() && keys.iter().all(|key| *key == keys[0]), "{keys:?}");
    assert_eq!(reports[3].json()["node_id"], "mac-02");
    let slept = machine.slept();
    for wait in &slept[..2] {
        assert!((120..=132).contains(&wait.as_secs()), "{slept:?}");
    }
    assert!(slept[2] < Duration::from_mins(1));
}

#[test]
fn invalid_instructions_are_refused_and_that_is_reported() {
    let mut other_version = instruction("stop");
    other_version["api_version"] = json!("9");
    for (answer, code) in [
        (instruction("explode"), "ACTION_UNKNOWN"),
        (instruction("install"), "INSTRUCTION_INVALID"),
        (other_version, "INSTRUCTION_INVALID"),
        (instruction("reignite"), "INSTRUCTION_INVALID"),
    ] {
        let mock = Mock::vim(move |_, _| Reply::json(200, &answer));
        assert_eq!(end(&mock), ExitStatus::Untouched);
        let expected = json!({
            "code": code, "outcome": "refused", "disk_state": "untouched", "request_id": "r1",
        });
        assert_has(&mock.result(), &expected);
    }
}

#[test]
fn a_refused_report_slows_down_says_why_and_ends_at_the_deadline() {
    let mock =
        Mock::vim(|_, _| Reply::json(401, &json!({"code": "UNAUTHORIZED", "message": "no token"})));
    let mut machine = Machine::new(&mock.url);
    machine.settings.vim.deadline = Some(Duration::from_hours(1));
    let ended = machine.run();
    assert_eq!(ended.exit_status, ExitStatus::NotReported);
    let slept = machine.slept();
    assert!(slept.len() > 5 && slept.iter().all(|wait| wait.as_secs() >= 15), "{slept:?}");
    assert!(slept.iter().sum::<Duration>() <= Duration::from_hours(1));
}

#[test]
fn an_accepted_report_leads_to_its_instruction() {
    let mock = Mock::vim(|request, n| match (request.path.as_str(), n) {
        ("/v1/reports", _) => Reply::json(202, &json!({"node_id": "node-7", "retry_after_s": 5}))
            .and("Location", "/v1/nodes/node-7/instruction?turn=1"),
        ("/v1/nodes/node-7/instruction?turn=1", 0) => {
            Reply::json(202, &json!({"node_id": "node-7"})).and("Retry-After", "7")
        }
        ("/v1/nodes/node-7/instruction", 0) => {
            let mut wait = instruction("wait");
            wait["retry_after_s"] = json!(9);
            Reply::json(200, &wait)
        }
        _ => Reply::action("stop"),
    });
    let mut machine = Machine::new(&mock.url);
    assert_eq!(machine.run().exit_status, ExitStatus::Untouched);
    assert_eq!(seconds(&machine.slept()), [5, 7, 9]);
    assert!(!mock.requests("/v1/nodes/node-7/events").is_empty());
    let stages = mock.events();
    let sequences: Vec<u64> =
        stages.iter().map(|event| event["sequence"].as_u64().unwrap()).collect();
    assert_eq!(sequences, (1..=sequences.len() as u64).collect::<Vec<_>>());
    assert_eq!(stages[0]["stage"], "collect");
}

#[test]
fn a_vim_that_never_knows_the_node_gets_reports_less_and_less_often() {
    let mock = Mock::vim(|request, n| match request.path.as_str() {
        "/v1/reports" if n < 6 => Reply::accepted("mac-02"),
        "/v1/reports" => Reply::action("stop"),
        _ if n == 5 => Reply::status(404).and("Retry-After", "900"),
        _ => Reply::status(404),
    });
    let mut machine = Machine::new(&mock.url);
    assert_eq!(machine.run().exit_status, ExitStatus::Untouched);
    assert_eq!(machine.n_collected, 7);
    // Each 202 asks for 1 s; between them are the waits before the next report.
    let mut waits = seconds(&machine.slept());
    waits.retain(|wait| *wait > 1);
    assert_eq!(waits.len(), 6, "{waits:?}");
    assert!(waits[0] >= 15 && waits.is_sorted(), "{waits:?}");
    assert!(waits[4] >= 150 && waits[4] <= 300, "{waits:?}");
    assert!((900..=990).contains(&waits[5]), "{waits:?}");
}

#[test]
fn endless_requests_to_inspect_are_answered_more_and_more_slowly() {
    let mock = Mock::vim(|_, n| Reply::action(if n < 8 { "reinspect" } else { "reboot" }));
    let mut machine = Machine::new(&mock.url);
    assert_eq!(machine.run().exit_status, ExitStatus::Done);
    assert_eq!(machine.n_collected, 9);
    let waits = machine.slept();
    assert_eq!(waits[0], Duration::from_secs(1));
    assert!(waits.is_sorted() && waits[7] >= Duration::from_secs(25), "{waits:?}");
}

#[test]
fn replicas_of_a_vim_that_alternate_wait_and_reinspect_get_few_requests() {
    let for_a_second = |action: &str| {
        let mut instruction = instruction(action);
        instruction["retry_after_s"] = json!(1);
        Reply::json(200, &instruction)
    };
    let mock = Mock::of(
        move |_| for_a_second("wait"),
        move |n| if n < 20 { Reply::action("reinspect") } else { Reply::action("reboot") },
        |_| Reply::status(204),
    );
    let mut machine = Machine::new(&mock.url);
    assert_eq!(machine.run().exit_status, ExitStatus::Done);
    assert_eq!(machine.n_collected, 21);
    let spent: Duration = machine.slept().iter().sum();
    assert!(spent > Duration::from_secs(350) && spent < Duration::from_mins(12), "{spent:?}");
}

#[test]
fn power_off_waits_for_the_system_to_end_it() {
    let mock = Mock::vim(|_, _| Reply::action("poweroff"));
    let mut machine = Machine::new(&mock.url);
    machine.stop.stop();
    assert_eq!(machine.run().exit_status, ExitStatus::Done);
    assert_eq!(end(&mock), ExitStatus::Untouched);
}

#[test]
fn plain_http_is_refused_unless_it_is_allowed_by_name() {
    let mock = Mock::vim(|_, _| Reply::action("reboot"));
    let mut machine = Machine::new(&mock.url);
    machine.settings.vim.allow_plain_http = false;
    assert_eq!(machine.run().exit_status, ExitStatus::Usage);
    assert!(mock.requests("").is_empty());
}

#[test]
fn the_token_is_sent_only_to_the_vim() {
    let elsewhere = Mock::start(|_, _| Reply::bytes(IGNITION.as_bytes()));
    let url = format!("{}/config.ign", elsewhere.url);
    let mock = Mock::vim(move |_, _| fetches(&url));
    let mut machine = Machine::new(&mock.url);
    machine.set_token("s3cret\n");
    assert_eq!(machine.run().exit_status, ExitStatus::Untouched);
    assert_eq!(mock.requests("/v1/reports")[0].header("authorization"), Some("Bearer s3cret"));
    let fetched = elsewhere.requests("/config.ign");
    assert_eq!(fetched.len(), 1);
    assert_eq!(fetched[0].header("authorization"), None);
}

#[test]
fn a_redirected_report_is_not_followed() {
    let elsewhere = Mock::start(|_, _| Reply::action("reboot"));
    let location = format!("{}/v1/reports", elsewhere.url);
    let mock = Mock::vim(move |_, _| Reply::status(307).and("Location", &location));
    let mut machine = Machine::new(&mock.url);
    machine.settings.vim.deadline = Some(Duration::from_mins(2));
    assert_eq!(machine.run().exit_status, ExitStatus::NotReported);
    assert!(elsewhere.requests("").is_empty());
}

#[test]
fn only_the_vim_itself_is_obeyed_but_a_config_may_be_elsewhere() {
    let elsewhere = Mock::start(|request, _| match request.path.as_str() {
        "/config.ign" => Reply::bytes(IGNITION.as_bytes()),
        _ => Reply::action("reboot"),
    });
    let to = elsewhere.url.clone();
    let mock = Mock::vim(move |request, n| match (request.path.as_str(), n) {
        ("/v1/reports", _) => Reply::accepted("mac-02"),
        ("/config.ign", _) => Reply::status(302).and("Location", &format!("{to}/config.ign")),
        (_, 0) => Reply::status(302).and("Location", &format!("{to}/other")),
        _ => fetches(&format!("http://{}/config.ign", request.header("host").unwrap())),
    });
    assert_eq!(end(&mock), ExitStatus::Untouched);
    assert_eq!(mock.codes(), ["DISK_NONE"], "the config was fetched");
    assert!(elsewhere.requests("/other").is_empty());
    assert_eq!(elsewhere.requests("/config.ign").len(), 1);
}

#[test]
fn an_ipv6_literal_with_a_zone_is_reached() {
    let Ok(mock) = Mock::start_at("[::1]:0", None, |_, _| Reply::action("reboot")) else {
        return skipped("no IPv6 on the loopback interface");
    };
    for zone in ["%lo", "%25lo", "%1"] {
        let mut machine = Machine::new(&mock.url.replace("::1]", &format!("::1{zone}]")));
        machine.settings.vim.deadline = Some(Duration::from_secs(5));
        assert_eq!(machine.run().exit_status, ExitStatus::Done, "{zone}");
    }
    let host = mock.requests("/v1/reports")[0].header("host").unwrap().to_owned();
    assert!(host.starts_with("[::1]:"), "{host}");
    let mut machine = Machine::new(&mock.url.replace("::1]", "::1%nosuchif]"));
    machine.settings.vim.deadline = Some(Duration::from_secs(5));
    assert_eq!(machine.run().exit_status, ExitStatus::NotReported);
}

#[test]
fn wrong_clock_is_a_finding_of_the_result() {
    let mock =
        Mock::vim(|_, _| Reply::action("nonsense").and("Date", "Sun, 06 Nov 1994 08:49:37 GMT"));
    end(&mock);
    let findings = mock.result()["findings"].clone();
    assert_has(&findings[0], &json!({"code": "os.clock_skew", "severity": "warning"}));
    assert!(findings.to_string().contains("1994-11-06T08:49:37Z"), "{findings:#}");
}

#[test]
fn events_that_are_refused_do_not_delay_the_job() {
    let mock = Mock::start(|request, n| match request.path.as_str() {
        path if path.ends_with("/events") => Reply::status(if n == 0 { 503 } else { 204 }),
        _ => Reply::action("reboot"),
    });
    let started = Instant::now();
    assert_eq!(end(&mock), ExitStatus::Done);
    assert!(started.elapsed() < Duration::from_secs(12));
    let batches = mock.requests("/events");
    assert!(batches.len() >= 2);
    assert_eq!(batches[1].json()["events"][0]["sequence"], 1, "sent again after a failure");
}
