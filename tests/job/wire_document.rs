//! The table in `docs/wire.md`, made by giving the agent each response and watching what it does.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use run_coreos_installer::api::OnRefusal;
use run_coreos_installer::exit_status::ExitStatus;
use serde_json::{Value, json};

use super::machine::{IGNITION, Machine};
use super::mock::{Mock, Reply, Request};

const JSON: &str = "application/json";
const BEGIN: &str = "<!-- The table below is made by a test: UPDATE_EXPECTED=1 cargo test -p run-coreos-installer --test job wire_document -->\n";
const END: &str = "<!-- end of the table -->\n";

/// How many responses are given at once.
const N_THREADS: usize = 6;

type Make = Box<dyn Fn() -> Reply + Send + Sync>;

fn json_bytes(text: &str) -> Reply {
    Reply::bytes(text.as_bytes()).and("Content-Type", JSON)
}

fn instruction(extra: &str) -> String {
    format!(r#"{{"api_version":"1","request_id":"r1","action":"stop"{extra}}}"#)
}

/// A date 60 s after the `Date` that goes with it.
fn dated(reply: Reply) -> Reply {
    reply
        .and("Date", "Sun, 06 Nov 1994 08:49:37 GMT")
        .and("Retry-After", "Sun, 06 Nov 1994 08:50:37 GMT")
}

/// Every response of the table with its name.
fn responses() -> Vec<(String, Make)> {
    let mut all: Vec<(String, Make)> = Vec::new();
    let mut add = |name: &str, make: Make| all.push((name.to_owned(), make));
    add("200, an instruction", Box::new(|| json_bytes(&instruction(""))));
    add(
        "200, an instruction with an unknown key",
        Box::new(|| json_bytes(&instruction(r#","retry":1"#))),
    );
    add(
        "200, an instruction with a key twice",
        Box::new(|| json_bytes(&instruction(r#","action":"stop""#))),
    );
    add(
        "200, an unknown action",
        Box::new(|| json_bytes(&instruction("").replace("stop", "explode"))),
    );
    add(
        "200, an instruction for another node",
        Box::new(|| json_bytes(&instruction(r#","node_id":"x""#))),
    );
    add(
        "200, action `wait` without `retry_after_s`",
        Box::new(|| json_bytes(&instruction("").replace("stop", "wait"))),
    );
    add(
        "200, action `wait` with `retry_after_s` 0",
        Box::new(|| json_bytes(&instruction(r#","retry_after_s":0"#).replace("stop", "wait"))),
    );
    add(
        "200, an Ignition config that cannot be installed",
        Box::new(|| {
            Reply::bytes(IGNITION.replace("3.3.0", "9.9.9").as_bytes())
                .and("Content-Type", "application/vnd.coreos.ignition+json")
        }),
    );
    all.extend(no_instructions());
    all.extend(statuses());
    all
}

/// Responses that look like success and are no instruction.
fn no_instructions() -> Vec<(String, Make)> {
    let mut all: Vec<(String, Make)> = Vec::new();
    let mut add = |name: &str, make: Make| all.push((name.to_owned(), make));
    let accepted = || Reply::json(202, &json!({"node_id": "mac-02"}));
    let html = |status| {
        Reply::With(status, vec![("Content-Type".into(), "text/html".into())], b"<p>".to_vec())
    };
    add("200, another content type", Box::new(move || html(200)));
    add("200, no content type", Box::new(|| Reply::bytes(instruction("").as_bytes())));
    add("200, an empty body", Box::new(|| Reply::status(200).and("Content-Type", JSON)));
    add("200, text that is not JSON", Box::new(|| json_bytes("{\"api_version\":")));
    add(
        "200, JSON without any key of an instruction",
        Box::new(|| json_bytes("{\"status\":\"ok\"}")),
    );
    add("200, an endless body", Box::new(|| Reply::Flood));
    add("202", Box::new(accepted));
    add("202, `Retry-After` of 7 s", Box::new(move || accepted().and("Retry-After", "7")));
    add("202, `Retry-After` of 0", Box::new(move || accepted().and("Retry-After", "0")));
    add("202, a date 60 s ahead", Box::new(move || dated(accepted())));
    add("202, `Retry-After` of a day", Box::new(move || accepted().and("Retry-After", "86400")));
    add("202, another content type", Box::new(move || html(202)));
    add("204", Box::new(|| Reply::status(204)));
    all
}

/// Error statuses, and responses that break off.
fn statuses() -> Vec<(String, Make)> {
    let mut all: Vec<(String, Make)> = Vec::new();
    let mut add = |name: &str, make: Make| all.push((name.to_owned(), make));
    for status in
        [302, 400, 401, 403, 404, 405, 408, 409, 413, 422, 425, 429, 500, 501, 502, 503, 504, 505]
    {
        add(&status.to_string(), Box::new(move || Reply::status(status)));
    }
    add("503, `Retry-After` of 120 s", Box::new(|| Reply::status(503).and("Retry-After", "120")));
    add("503, `Retry-After` of 0", Box::new(|| Reply::status(503).and("Retry-After", "0")));
    add("503, a date 60 s ahead", Box::new(|| dated(Reply::status(503))));
    add("connection closed without a response", Box::new(|| Reply::Close));
    add("connection closed in the body", Box::new(|| Reply::Half));
    add("one byte now and then", Box::new(|| Reply::Drip(Duration::from_millis(20))));
    add(
        "100 Continue without end",
        Box::new(|| {
            Reply::Raw(
                Vec::new(),
                b"HTTP/1.1 100 Continue\r\n\r\n".to_vec(),
                Duration::from_millis(5),
            )
        }),
    );
    all
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Report,
    Poll,
    Result,
}

/// A VIM that gives `odd` once at `place`, and works otherwise.
fn vim(place: Place, odd: Arc<Make>) -> Mock {
    let is_given = AtomicBool::new(false);
    Mock::start(move |request: &Request, _| {
        let is_given_now = |here: bool| here && !is_given.swap(true, Ordering::SeqCst);
        let path = request.path.as_str();
        if path.ends_with("/events") {
            return Reply::status(204);
        }
        if path.ends_with("/result") {
            return if is_given_now(place == Place::Result) { odd() } else { Reply::status(204) };
        }
        if path == "/v1/reports" && place == Place::Poll && !is_given.load(Ordering::SeqCst) {
            return Reply::json(202, &json!({"node_id": "mac-02", "retry_after_s": 1}));
        }
        let is_here = match place {
            Place::Report => path == "/v1/reports",
            Place::Poll => path.ends_with("/instruction"),
            Place::Result => false,
        };
        if is_given_now(is_here) {
            return odd();
        }
        match place {
            Place::Result => json_bytes(&instruction(r#","unknown":1,"on_refusal":"stop""#)),
            _ => json_bytes(&instruction("").replace("stop", "reboot")),
        }
    })
}

/// What the agent does, and how long it waits.
fn observe(place: Place, odd: &Arc<Make>, random: u32) -> (String, Option<Duration>) {
    let mock = vim(place, Arc::clone(odd));
    let mut machine = Machine::new(&mock.url);
    machine.settings.on_refusal = OnRefusal::Retry;
    machine.settings.vim.timeouts.body = Duration::from_secs(5);
    machine.settings.vim.timeouts.headers = Duration::from_secs(5);
    machine.settings.failure_limit = Duration::from_hours(2);
    machine.set_random(random);
    let ended = machine.run().exit_status;
    let waits = machine.slept();
    let wait = waits.get(usize::from(place == Place::Poll)).copied();
    let n = |end: &str| mock.requests(end).len();
    let results: Vec<Value> = mock.requests("/result").iter().map(Request::json).collect();
    if place == Place::Result {
        return if n("/result") == 1 {
            ("accepted".into(), None)
        } else {
            ("post again".into(), wait)
        };
    }
    let what = if let Some(result) = results.first() {
        format!("refuse: `{}`, ask again", result["code"].as_str().unwrap())
    } else if ended == ExitStatus::Untouched {
        "carry out".into()
    } else if place == Place::Report && n("/v1/reports") == 2 {
        "post again".into()
    } else if place == Place::Poll && n("/v1/reports") == 2 {
        "report again".into()
    } else {
        "ask again".into()
    };
    (what, wait)
}

/// A cell of the table.
fn cell(place: Place, odd: &Arc<Make>) -> String {
    let (what, least) = observe(place, odd, 0);
    let (again, most) = observe(place, odd, u32::MAX);
    assert_eq!(what, again);
    match (least, most) {
        (Some(least), Some(most)) => format!("{what} after {}", range(least, most)),
        _ => what,
    }
}

fn range(least: Duration, most: Duration) -> String {
    let text = |wait: Duration| {
        let tenths = wait.as_millis().div_ceil(100);
        let (whole, tenth) = (tenths / 10, tenths % 10);
        if tenth == 0 || whole >= 10 { whole.to_string() } else { format!("{whole}.{tenth}") }
    };
    let (least, most) = (text(least), text(most));
    if least == most { format!("{least} s") } else { format!("{least} to {most} s") }
}

fn table() -> String {
    // More threads would exceed the time limits of each other's requests on a small machine.
    let responses = responses();
    let row = |(name, make): (String, Make)| {
        let odd = Arc::new(make);
        let cells = [Place::Report, Place::Poll, Place::Result].map(|place| cell(place, &odd));
        format!("| {name} | {} |\n", cells.join(" | "))
    };
    let n_rows = responses.len();
    let waiting = Mutex::new(responses.into_iter().enumerate());
    let rows = Mutex::new(vec![String::new(); n_rows]);
    std::thread::scope(|scope| {
        for _ in 0..N_THREADS {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().unwrap().next();
                    let Some((at, response)) = next else { break };
                    let text = row(response);
                    rows.lock().unwrap()[at] = text;
                }
            });
        }
    });
    let mut text = "| response | to the report | to a request for the instruction | to the result |\n|---|---|---|---|\n".to_owned();
    text.extend(rows.into_inner().unwrap());
    text
}

#[test]
fn table_of_the_document_says_what_the_agent_does() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/wire.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (found, after) = rest.split_once(END).unwrap();
    let mut expected = String::new();
    write!(expected, "\n{}\n", table()).unwrap();
    if std::env::var_os("UPDATE_EXPECTED").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{expected}{END}{after}")).unwrap();
    } else {
        assert!(found == expected, "docs/wire.md differs from what the agent does:\n{expected}");
    }
}
