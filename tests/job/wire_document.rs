//! The tables in `docs/wire.md`, made by giving the agent each response and watching what it does.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use run_coreos_installer::api::OnRefusal;
use run_coreos_installer::exit_status::ExitStatus;
use run_coreos_installer::job::Settings;
use serde_json::json;

use super::image;
use super::machine::{IGNITION, Machine};
use super::mock::{Mock, Reply, Request};

const JSON: &str = "application/json";
const BEGIN: &str = "<!-- The table below is made by a test: UPDATE_EXPECTED=1 cargo test -p run-coreos-installer --test job wire_document -->\n";
const END: &str = "<!-- end of the table -->\n";
const BEGIN_REPEATED: &str = "<!-- The second table is made by the same test. -->\n";
const END_REPEATED: &str = "<!-- end of the second table -->\n";

/// How many responses are given at once.
const N_THREADS: usize = 6;

type Make = Box<dyn Fn() -> Reply + Send + Sync>;

/// A row of the table: the name of a response, and how it is made.
fn row(
    name: impl Into<String>,
    make: impl Fn() -> Reply + Send + Sync + 'static,
) -> (String, Make) {
    (name.into(), Box::new(make))
}

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
    let order = |name: &str, text: String| row(name, move || json_bytes(&text));
    let wait = |extra: &str| instruction(extra).replace("stop", "wait");
    let mut all = vec![
        order("200, an instruction", instruction("")),
        order("200, an instruction with an unknown key", instruction(r#","retry":1"#)),
        order("200, an instruction with a key twice", instruction(r#","action":"stop""#)),
        order("200, an unknown action", instruction("").replace("stop", "explode")),
        order("200, an instruction for another node", instruction(r#","node_id":"x""#)),
        order("200, action `wait` without `retry_after_s`", wait("")),
        order("200, action `wait` with `retry_after_s` 0", wait(r#","retry_after_s":0"#)),
        row("200, an Ignition config that cannot be installed", || {
            Reply::ignition(&IGNITION.replace("3.3.0", "9.9.9"))
        }),
    ];
    all.extend(no_instructions());
    all.extend(statuses());
    all
}

/// Responses that look like success and are no instruction.
fn no_instructions() -> Vec<(String, Make)> {
    let accepted = || Reply::json(202, &json!({"node_id": "mac-02"}));
    let after = move |text: &'static str| move || accepted().and("Retry-After", text);
    let html = |status| {
        Reply::With(status, vec![("Content-Type".into(), "text/html".into())], b"<p>".to_vec())
    };
    vec![
        row("200, another content type", move || html(200)),
        row("200, no content type", || Reply::bytes(instruction("").as_bytes())),
        row("200, an empty body", || Reply::status(200).and("Content-Type", JSON)),
        row("200, text that is not JSON", || json_bytes("{\"api_version\":")),
        row("200, JSON without any key of an instruction", || json_bytes("{\"status\":\"ok\"}")),
        row("200, an endless body", || Reply::Flood),
        row("202", accepted),
        row("202, `Retry-After` of 7 s", after("7")),
        row("202, `Retry-After` of 0", after("0")),
        row("202, a date 60 s ahead", move || dated(accepted())),
        row("202, `Retry-After` of a day", after("86400")),
        row("202, another content type", move || html(202)),
        row("204", || Reply::status(204)),
    ]
}

/// Error statuses, and responses that break off.
fn statuses() -> Vec<(String, Make)> {
    let statuses =
        [302, 400, 401, 403, 404, 405, 408, 409, 413, 422, 425, 429, 500, 501, 502, 503, 504, 505];
    let busy = |text: &'static str| move || Reply::status(503).and("Retry-After", text);
    let endless = |again: &'static [u8], pause| {
        move || Reply::Raw(Vec::new(), again.to_vec(), Duration::from_millis(pause))
    };
    let rows = statuses.map(|status| row(status.to_string(), move || Reply::status(status)));
    let mut all = Vec::from(rows);
    all.extend([
        row("503, `Retry-After` of 120 s", busy("120")),
        row("503, `Retry-After` of 0", busy("0")),
        row("503, a date 60 s ahead", || dated(Reply::status(503))),
        row("connection closed without a response", || Reply::Close),
        row("connection closed in the body", Reply::half),
        row("one byte now and then", || Reply::Drip(Duration::from_millis(20))),
        row("100 Continue without end", endless(b"HTTP/1.1 100 Continue\r\n\r\n", 5)),
    ]);
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
        let here = match request.path.as_str() {
            "/v1/reports" => Place::Report,
            path if path.ends_with("/instruction") => Place::Poll,
            path if path.ends_with("/result") => Place::Result,
            _ => return Reply::status(204),
        };
        if here == place && !is_given.swap(true, Ordering::SeqCst) {
            return odd();
        }
        match (place, here) {
            (_, Place::Result) => Reply::status(204),
            (Place::Poll, Place::Report) if !is_given.load(Ordering::SeqCst) => {
                Reply::accepted("mac-02")
            }
            (Place::Result, _) => json_bytes(&instruction(r#","unknown":1,"on_refusal":"stop""#)),
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
    let codes = mock.codes();
    if place == Place::Result {
        return match (n("/result"), n("/v1/reports")) {
            (1, _) => ("accepted".into(), None),
            (_, 1) => ("post again".into(), wait),
            _ => ("report and post again".into(), wait),
        };
    }
    let what = if let Some(code) = codes.first() {
        format!("refuse: `{}`, ask again", code.as_str().unwrap())
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

/// What led to a result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    Install,
    BareInstall,
    Refusal,
}

/// How often the same response is given before the VIM accepts the result after all.
const MANY: usize = 40;

/// Gives the same response to every post of a result. Returns how often it was posted, for how long, and the exit status.
fn observe_repeated(
    origin: Origin,
    odd: &Arc<Make>,
    image: &[u8],
    random: u32,
) -> (usize, Duration, u8) {
    let odd = Arc::clone(odd);
    let mock = Mock::start(move |request: &Request, n| match request.path.as_str() {
        path if path.ends_with("/result") && n < MANY => odd(),
        "/v1/reports" if n > 0 => Reply::json(202, &json!({"node_id": "mac-02"})),
        "/v1/reports" if origin == Origin::BareInstall => Reply::ignition(IGNITION),
        "/v1/reports" if origin == Origin::Refusal => json_bytes(&instruction(r#","unknown":1"#)),
        "/v1/reports" => Reply::install(&json!({"ignition": {"inline": IGNITION}})),
        _ => Reply::status(204),
    });
    let mut machine = Machine::new(&mock.url);
    machine.writes(image);
    machine.settings.failure_limit = Settings::default().failure_limit;
    machine.set_random(random);
    let exit_status = machine.run().exit_status.code();
    (mock.requests("/result").len(), machine.slept().iter().sum(), exit_status)
}

fn repeated_cell(origin: Origin, odd: &Arc<Make>, image: &[u8]) -> String {
    // With the longest waits, a limited time ends long before this many posts.
    let (n, most, exit_status) = observe_repeated(origin, odd, image, u32::MAX);
    let minutes = |wait: Duration| wait.as_secs().div_ceil(60);
    let how_long = if n > MANY {
        return "until it is accepted".into();
    } else if most.subsec_nanos() == 0 {
        // Random waits are no whole seconds, so a time limit ended this.
        format!("for {} min", minutes(most))
    } else {
        let (again, least, other) = observe_repeated(origin, odd, image, 0);
        assert_eq!((n, exit_status), (again, other));
        match most.as_secs() {
            ..120 => format!("{n} times in {}", range(least, most)),
            _ => format!("{n} times in {} to {} min", minutes(least), minutes(most)),
        }
    };
    format!("{how_long}, then exit status {exit_status}")
}

/// The second table.
fn repeated_table() -> String {
    let rows = [
        row("401, and other 4xx", || Reply::status(401)),
        row("404", || Reply::status(404)),
        row("405", || Reply::status(405)),
        row("501", || Reply::status(501)),
        row("503", || Reply::status(503)),
        row("connection closed without a response", || Reply::Close),
    ];
    let image = image::plain();
    let row = |(name, make): (String, Make)| {
        let odd = Arc::new(make);
        let cells = [Origin::Install, Origin::BareInstall, Origin::Refusal]
            .map(|origin| repeated_cell(origin, &odd, &image));
        format!("| {name} | {} |\n", cells.join(" | "))
    };
    let rows: Vec<String> = std::thread::scope(|scope| {
        let threads = rows.map(|made| scope.spawn(|| row(made)));
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let heads = "| every response to the result | result of an install | of the install of a bare Ignition config \
                 | of a refusal with `on_refusal: stop`, or of a failed install |\n|---|---|---|---|\n";
    heads.to_owned() + &rows.concat()
}

/// Compares a part of the document with what it should be, or writes it.
fn check(begin: &str, end: &str, table: &str) {
    // Both tables are in one file.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/wire.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(begin).unwrap();
    let (found, after) = rest.split_once(end).unwrap();
    let expected = format!("\n{table}\n");
    if std::env::var_os("UPDATE_EXPECTED").is_some() {
        std::fs::write(&path, format!("{before}{begin}{expected}{end}{after}")).unwrap();
    } else {
        assert!(found == expected, "docs/wire.md differs from what the agent does:\n{expected}");
    }
}

#[test]
fn table_of_the_document_says_what_the_agent_does() {
    check(BEGIN, END, &table());
}

#[test]
fn second_table_of_the_document_says_how_often_a_result_is_posted() {
    let table = repeated_table();
    check(BEGIN_REPEATED, END_REPEATED, &table);
}
