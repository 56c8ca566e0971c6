//! What counts as an instruction, what happens after a refusal, and what hostile servers cannot do.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use formats::digest;
use probes::network::LldpNeighbour;
use run_coreos_installer::api::OnRefusal;
use run_coreos_installer::exit_status::ExitStatus;
use serde_json::{Value, json};

use super::install::with;
use super::machine::{Ended, IGNITION, Machine};
use super::mock::instruction_to_install;
use super::mock::{Mock, Reply, Request, assert_has, assert_says, instruction as action};
use super::secrets::logged;

/// An instruction to install with these keys.
fn install(request_id: &str, keys: Value) -> Value {
    let mut instruction = instruction_to_install(&with(keys));
    instruction["request_id"] = json!(request_id);
    instruction
}

/// A VIM that accepts events and results and answers everything else with `answer`, which gets the number of
/// earlier calls.
fn vim(answer: impl Fn(&Request, usize) -> Reply + Send + Sync + 'static) -> Mock {
    let n = AtomicUsize::new(0);
    Mock::vim(move |request, _| answer(request, n.fetch_add(1, Ordering::SeqCst)))
}

/// A VIM whose every response is this instruction.
fn orders(instruction: Value) -> Mock {
    vim(move |_, _| Reply::json(200, &instruction))
}

/// Checks that a job ends without a run of coreos-installer, and returns its first result.
fn refused(mock: &Mock) -> Value {
    let mut machine = Machine::new(&mock.url);
    assert_eq!(machine.run().exit_status, ExitStatus::Untouched);
    assert!(machine.is_untouched("sda") && machine.read("args").is_empty());
    mock.bodies("/result").remove(0)
}

type Make = Box<dyn Fn() -> Reply + Send + Sync>;

/// Runs a machine that asks again after a refusal.
fn run_patiently(machine: &mut Machine) -> Ended {
    machine.settings.on_refusal = OnRefusal::Retry;
    machine.run()
}

#[test]
fn query_with_the_names_of_node_and_disk_does_not_remove_them_from_the_result() {
    let mock = Mock::start(|request, _| match request.path.as_str() {
        "/v1/reports" => {
            let host = request.header("host").unwrap();
            let url = format!(
                "http://{host}/config.ign?serial=SERIAL-sda&node=mac-02&r=req-01&o=refused&k=s3cret-1"
            );
            let extra = json!({"ignition": {"url": url}, "expect": {"size_bytes": 1}});
            Reply::json(200, &install("req-01", extra))
        }
        path if path.starts_with("/config.ign") => Reply::bytes(IGNITION.as_bytes()),
        _ => Reply::status(204),
    });
    Machine::new(&mock.url).run();
    let result = mock.result();
    let expected = json!({
        "disk": {"serial": "SERIAL-sda"}, "node_id": "mac-02", "request_id": "req-01",
        "outcome": "refused", "code": "DISK_CHANGED",
    });
    assert_has(&result, &expected);
    assert!(!result.to_string().contains("s3cret-1"));
}

#[test]
fn duplicate_key_writes_nothing() {
    let text = install("r1", json!({})).to_string().replacen(
        "\"install\":{",
        "\"install\":{\"disk\":{\"device\":\"/dev/sda\"},\"disk\":{\"device\":\"/dev/sdb\"},",
        1,
    );
    let mock = vim(move |_, _| {
        Reply::bytes(text.as_bytes()).and("Content-Type", "application/json; charset=utf-8")
    });
    assert_says(&refused(&mock)["message"], &["install.disk", "twice"]);
}

#[test]
fn instruction_for_another_node_is_refused() {
    let mut answer = install("r1", json!({}));
    answer["node_id"] = json!("mac-99");
    let mock = orders(answer);
    assert_eq!(refused(&mock)["code"], "NODE_WRONG");
    let results = mock.requests("/v1/nodes/mac-02/result");
    assert_eq!(results.len(), 1, "the node keeps its id");
}

#[test]
fn only_the_acceptance_of_the_report_gives_the_node_another_id() {
    let mock = vim(|request, n| match (request.path.as_str(), n) {
        ("/v1/reports", _) => Reply::json(202, &json!({"node_id": "node-7"})),
        ("/v1/nodes/node-7/instruction", 1) => Reply::json(202, &json!({"node_id": "node-8"})),
        ("/v1/nodes/node-7/instruction", _) => {
            let mut answer = action("reboot");
            answer["node_id"] = json!("node-7");
            Reply::json(200, &answer)
        }
        _ => Reply::status(404),
    });
    assert_eq!(Machine::new(&mock.url).run().exit_status, ExitStatus::Done);
    assert!(mock.requests("node-8/instruction").is_empty());
}

#[test]
fn acceptance_without_a_usable_id_is_no_valid_answer_and_named() {
    for (body, expected) in [
        (json!({"node_id": "rack 1/node 7"}), "its node_id is not ^[A-Za-z0-9._:-]{1,128}$"),
        (json!({}), "its body has no node_id"),
    ] {
        let mock = Mock::start(move |request, n| match (request.path.as_str(), n) {
            ("/v1/reports", 0) => Reply::json(202, &body),
            ("/v1/reports", _) => Reply::action("stop"),
            _ => Reply::status(204),
        });
        let (ended, log) = logged(|| Machine::new(&mock.url).run());
        assert_eq!(ended.exit_status, ExitStatus::Untouched);
        assert!(log.contains(expected), "{log}");
    }
}

#[test]
fn odd_answer_of_a_server_is_named() {
    let many = "X-Odd: 1\r\n".repeat(200);
    for (head, expected) in [
        (
            "302 Found\r\nContent-Length: 0\r\n\r\n".to_owned(),
            "redirects without the header Location",
        ),
        ("300 Many\r\nContent-Length: 0\r\n\r\n".into(), "redirects without the header Location"),
        (
            "302 Found\r\nLocation: ftp://h/\r\nContent-Length: 0\r\n\r\n".into(),
            "redirects to an address",
        ),
        (format!("200 OK\r\n{many}Content-Length: 0\r\n\r\n"), "has more than 128 headers"),
        ("200 OK\r\nContent-Length: 9\r\n\r\nx".into(), "before the end of its response"),
    ] {
        let head = format!("HTTP/1.1 {head}").into_bytes();
        let files = Mock::start(move |_, _| Reply::Broken(head.clone(), Duration::ZERO, vec![]));
        let url = files.url.clone();
        let mock = orders(install("r1", json!({"ignition": {"url": url}})));
        let mut machine = Machine::new(&mock.url);
        machine.settings.vim.timeouts.idle = Duration::from_secs(2);
        machine.run();
        let result = mock.result();
        assert!(result["message"].as_str().unwrap().contains(expected), "{expected}: {result}");
    }
}

#[test]
fn result_contains_the_id_and_the_digest_of_the_request() {
    let answer = install("r 42", json!({"disk": {"device": "/dev/none"}}));
    let expected = digest::sha256(answer.to_string().as_bytes());
    let result = refused(&orders(answer));
    assert_has(&result, &json!({"request_id": "r 42", "request_digest": expected}));
}

#[test]
fn answer_that_is_no_instruction_is_asked_for_again() {
    let typed = |text: &str, kind: &str| Reply::bytes(text.as_bytes()).and("Content-Type", kind);
    let nested = "[".repeat(900_000);
    let bad: [(&str, Make); 3] = [
        ("wrong type", Box::new(move || typed(&action("reboot").to_string(), "text/html"))),
        ("array", Box::new(|| Reply::json(200, &json!([])))),
        ("nested", Box::new(move || typed(&nested, "application/json"))),
    ];
    for (what, again) in bad {
        // Once instead of the answer to the report, and once between two polls.
        let mock = vim(move |_, n| match n {
            0 | 2 => again(),
            1 => Reply::accepted("mac-02"),
            _ => Reply::action("reboot"),
        });
        let mut machine = Machine::new(&mock.url);
        machine.settings.vim.timeouts.body = Duration::from_secs(20);
        assert_eq!(machine.run().exit_status, ExitStatus::Done, "{what}");
        assert!(mock.codes().is_empty(), "{what}");
        assert_eq!(mock.requests("/v1/reports").len(), 2, "{what}");
    }
}

#[test]
fn corrected_instruction_is_carried_out_without_a_power_cycle() {
    let mock = vim(|_, n| match n {
        0..4 => Reply::json(200, &install("r1", json!({"disc": {}}))),
        _ => Reply::action("reboot"),
    });
    let mut machine = Machine::new(&mock.url);
    assert_eq!(run_patiently(&mut machine).exit_status, ExitStatus::Done);
    // The same refused instruction is not tried twice.
    assert_eq!(mock.codes(), ["INSTRUCTION_INVALID"]);
    assert_eq!(machine.n_collected, 1);
    let waits = machine.slept();
    assert!(waits.len() == 4 && waits.is_sorted(), "{waits:?}");
    assert!(waits[0] >= Duration::from_secs(15), "{waits:?}");
    let text = json!(mock.events()).to_string();
    assert!(text.contains("refused with INSTRUCTION_INVALID; asking again in"), "{text}");
}

#[test]
fn each_different_refused_instruction_is_tried_once_and_named_with_its_own_code() {
    let mock = vim(|_, n| {
        let missing = json!({"disk": {"device": "/dev/none"}});
        match n {
            0 | 2 => Reply::json(200, &install("r1", json!({"disc": {}}))),
            1 | 3 => Reply::json(200, &install("r2", missing)),
            _ => Reply::action("stop"),
        }
    });
    let mut machine = Machine::new(&mock.url);
    assert_eq!(run_patiently(&mut machine).exit_status, ExitStatus::Untouched);
    let ids: Vec<Value> =
        mock.bodies("/result").iter().map(|result| result["request_id"].clone()).collect();
    assert_eq!(ids, ["r1", "r2"]);
    let codes: Vec<String> = mock
        .messages()
        .iter()
        .filter_map(|text| text.strip_prefix("refused with ")?.split(';').next().map(str::to_owned))
        .collect();
    assert_eq!(codes, ["INSTRUCTION_INVALID", "DISK_NONE", "INSTRUCTION_INVALID", "DISK_NONE"]);
}

#[test]
fn failure_of_a_server_that_may_pass_leads_to_another_try_without_a_correction() {
    let statuses = [(500, 2), (408, 2), (425, 2), (503, 2), (404, 1), (501, 1)]
        .map(|(status, n_tries)| (json!({}), format!("HTTP_{status}"), n_tries));
    let no_server = json!({"ignition": {"url": "http://127.0.0.1:9/config.ign"}});
    let no_config = [(no_server, "IGNITION_FETCH".to_owned(), 2)];
    for (keys, code, n_tries) in statuses.into_iter().chain(no_config) {
        let mock = vim(move |_, n| {
            let answer = if n < 2 { install("r1", keys.clone()) } else { action("stop") };
            Reply::json(200, &answer)
        });
        let mut machine = Machine::new(&mock.url);
        let says = code.replace("HTTP_", "Error: HTTP status server error (");
        machine.script(&format!("echo '{says} X) for url' >&2; exit 1"));
        assert_eq!(run_patiently(&mut machine).exit_status, ExitStatus::Untouched);
        assert_eq!(mock.codes(), vec![code; n_tries]);
    }
}

#[test]
fn refusal_ends_the_job_if_instruction_or_configuration_says_stop() {
    for keys in [json!({"disk": {"device": "/dev/none"}}), json!({"unknown": 1})] {
        let mut answer = install("r1", keys);
        answer["on_refusal"] = json!("stop");
        let mock = orders(answer);
        let mut machine = Machine::new(&mock.url);
        assert_eq!(run_patiently(&mut machine).exit_status, ExitStatus::Untouched);
        assert_eq!(mock.codes().len(), 1);
    }
}

#[test]
fn one_clock_runs_over_report_polls_and_refusals() {
    let refused = install("r1", json!({"disk": {"device": "/dev/none"}}));
    for (what, answer) in [
        ("polls", json!(null)),
        ("wait", action("wait")),
        ("reinspect", action("reinspect")),
        ("refusals", refused),
    ] {
        let mock = vim(move |_, n| match n {
            // Most of the time is spent before the report is accepted.
            0..6 => Reply::status(503).and("Retry-After", "600"),
            _ if answer.is_null() => Reply::json(202, &json!({"node_id": "mac-02"})),
            _ => Reply::json(200, &answer),
        });
        let mut machine = Machine::new(&mock.url);
        machine.settings.vim.deadline = Some(Duration::from_mins(75));
        assert_eq!(run_patiently(&mut machine).exit_status, ExitStatus::Untouched, "{what}");
        let slept: Duration = machine.slept().iter().sum();
        assert_eq!(slept, Duration::from_mins(75), "{what}");
        let mut paths = mock.requests("").into_iter().map(|request| request.path);
        let last = paths.rfind(|path| !path.ends_with("/events") && !path.ends_with("/result"));
        let asked =
            if what == "reinspect" { "/v1/reports" } else { "/v1/nodes/mac-02/instruction" };
        assert_eq!(last.as_deref(), Some(asked), "{what}: asked once more at the end");
        let code = if what == "refusals" { "DISK_NONE" } else { "NO_INSTRUCTION" };
        assert_eq!(mock.codes().last().unwrap(), code, "{what}");
    }
}

#[test]
fn long_retry_after_does_not_end_the_job_before_its_time() {
    for at_report in [true, false] {
        let mock = vim(move |request, n| match request.path.as_str() {
            "/v1/reports" if !at_report => Reply::json(202, &json!({"node_id": "mac-02"})),
            // The VIM is back when the agent asks for the last time.
            _ if n == usize::from(!at_report) => Reply::status(503).and("Retry-After", "3600"),
            _ => Reply::action("reboot"),
        });
        let mut machine = Machine::new(&mock.url);
        machine.settings.vim.deadline = Some(Duration::from_mins(10));
        assert_eq!(machine.run().exit_status, ExitStatus::Done);
        assert_eq!(machine.slept().iter().sum::<Duration>(), Duration::from_mins(10));
    }
}

#[test]
fn vim_that_thinks_for_longer_than_the_longest_pause_is_served() {
    let mock = vim(|_, _| Reply::Late(Duration::from_millis(700), 200, action("reboot")));
    let mut machine = Machine::new(&mock.url);
    machine.settings.vim.timeouts.idle = Duration::from_millis(200);
    machine.settings.vim.timeouts.headers = Duration::from_secs(20);
    assert_eq!(machine.run().exit_status, ExitStatus::Done);
    assert_eq!(mock.requests("/v1/reports").len(), 1);
}

#[test]
fn default_time_limits_serve_a_vim_that_needs_35_seconds() {
    let timeouts = run_coreos_installer::http::ServerSettings::new("").timeouts;
    assert!(timeouts.headers > Duration::from_secs(35));
}

#[test]
fn drip_storm_and_flood_cannot_stretch_a_request() {
    let ok = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
    for (what, start, again) in [
        ("status line", String::new(), "H"),
        ("header", ok.to_owned(), "X-A: b\r\n"),
        ("endless header line", format!("{ok}X: "), "x"),
        ("100-continue", String::new(), "HTTP/1.1 100 Continue\r\n\r\n"),
        ("chunks", format!("{ok}Transfer-Encoding: chunked\r\n\r\n"), "1\r\n \r\n"),
        ("body", format!("{ok}Content-Length: 100000\r\n\r\n"), " "),
        ("body without length", format!("{ok}Connection: close\r\n\r\n"), " "),
    ] {
        for pause in [Duration::from_millis(30), Duration::ZERO, Duration::from_secs(5)] {
            let start = start.clone();
            let mock = vim(move |_, n| match n {
                0 => Reply::Raw(start.clone().into(), again.into(), pause),
                _ => Reply::action("reboot"),
            });
            let mut machine = Machine::new(&mock.url);
            machine.settings.vim.timeouts.headers = Duration::from_millis(700);
            machine.settings.vim.timeouts.body = Duration::from_millis(700);
            let started = Instant::now();
            assert_eq!(machine.run().exit_status, ExitStatus::Done, "{what}");
            assert!(started.elapsed() < Duration::from_secs(8), "{what}: {:?}", started.elapsed());
        }
    }
}

#[test]
fn signal_ends_the_job_within_five_seconds_whatever_the_server_does() {
    let hang = || Reply::Late(Duration::from_mins(10), 200, json!(null));
    for (what, n_hanging) in [("report", 0), ("poll", 1)] {
        // From then on nothing answers, not even to the result.
        let n = AtomicUsize::new(0);
        let mock = Mock::start(move |request, _| match request.path.as_str() {
            path if path.ends_with("/events") || path.ends_with("/result") => hang(),
            _ if n.fetch_add(1, Ordering::SeqCst) >= n_hanging => hang(),
            _ => Reply::accepted("mac-02"),
        });
        let mut machine = Machine::new(&mock.url);
        let (seen, end) =
            (mock.clone(), if n_hanging == 0 { "/v1/reports" } else { "/instruction" });
        let signalled = machine.stops_when(move || !seen.requests(end).is_empty());
        run_patiently(&mut machine);
        let elapsed = signalled.join().unwrap().elapsed();
        assert!(elapsed < Duration::from_secs(5), "{what}: {elapsed:?}");
    }
}

#[test]
fn neighbours_follow_the_report_and_are_in_the_result() {
    let mock = vim(|request, n| {
        if request.path == "/v1/nodes/node-7/neighbours" {
            // The neighbours are tried again after a failure.
            Reply::status(if n < 3 { 503 } else { 204 })
        } else if n < 40 {
            Reply::accepted("node-7")
        } else {
            Reply::json(200, &install("r1", json!({"disk": {"device": "/dev/none"}})))
        }
    });
    let mut machine = Machine::new(&mock.url);
    machine.settings.listener.start(|| {
        std::thread::sleep(Duration::from_millis(20));
        let neighbour = LldpNeighbour { chassis_id: "switch-1".into(), ..LldpNeighbour::default() };
        [("eno1".to_owned(), vec![neighbour]), ("eno2".to_owned(), vec![])].into()
    });
    assert_eq!(machine.run().exit_status, ExitStatus::Untouched);
    let supplement = mock.requests("/v1/nodes/node-7/neighbours").pop().unwrap().json();
    assert_has(&supplement, &json!({"api_version": "1", "neighbours": {"eno2": []}}));
    assert_eq!(supplement["neighbours"]["eno1"][0]["chassis_id"], "switch-1");
    assert_eq!(mock.result()["neighbours"], supplement["neighbours"]);
}

#[test]
fn report_does_not_wait_for_the_neighbours() {
    let mock = vim(|_, _| Reply::action("reboot"));
    let mut machine = Machine::new(&mock.url);
    machine.settings.listener.start(|| {
        std::thread::sleep(Duration::from_mins(10));
        unreachable!("the job ends before")
    });
    let started = Instant::now();
    assert_eq!(machine.run().exit_status, ExitStatus::Done);
    assert!(started.elapsed() < Duration::from_secs(30));
}

#[test]
fn events_of_a_talkative_installer_are_few_and_the_last_one_arrives() {
    let mock = orders(install("r1", json!({})));
    let mut machine = Machine::new(&mock.url);
    machine.script(
        "for n in $(seq 1 99) 99 99 99; do echo \"Read disk ($n%)\"; sleep 0.02; done; \
         echo last words; exit 1",
    );
    let started = Instant::now();
    machine.run();
    let seconds = usize::try_from(started.elapsed().as_secs()).unwrap();
    let n_batches = mock.requests("/events").len();
    // One a second, the one that is under way when the job ends, and the last one.
    assert!(n_batches <= seconds + 3, "{n_batches} requests in {seconds} s");
    let events = mock.events();
    let progress: Vec<&Value> = events.iter().filter(|e| e["state"] == "progress").collect();
    assert!(!progress.is_empty() && progress.len() <= seconds + 3, "{progress:?}");
    assert_eq!(progress.last().unwrap()["percent"], 99);
    assert_has(events.last().unwrap(), &json!({"stage": "write", "state": "failed"}));
}

#[test]
fn secrets_that_a_server_repeats_reach_neither_result_nor_events() {
    let mock = vim(|request, _| {
        if request.path.starts_with("/config.ign") {
            let said = "token tok3n-of-the-node, sig query-s3cret\r\n\u{202e}<2>kernel: \u{1b}[2J";
            return Reply::json(403, &json!({"code": "DENIED", "message": said}));
        }
        let host = request.header("host").unwrap();
        let url = format!("http://{host}/config.ign?sig=query-s3cret");
        Reply::install(&json!({"ignition": {"url": url}}))
    });
    let mut machine = Machine::new(&mock.url);
    machine.set_token("tok3n-of-the-node\n");
    assert_eq!(machine.run().exit_status, ExitStatus::Untouched);
    assert_eq!(mock.codes(), ["IGNITION_FETCH"]);
    for text in ["/result", "/events"].map(|end| json!(mock.bodies(end)).to_string()) {
        assert!(text.contains("DENIED"), "{text}");
        for secret in ["tok3n", "s3cret", "\\r", "\\n", "\\u001b", "\u{202e}"] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
    }
}
