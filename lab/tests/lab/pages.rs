//! The pages.

use std::io::{BufRead, BufReader};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use sha2::Digest;

use crate::util::{Got, Vim, event, finding, report, result};

const EVIL: &str = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'";

#[test]
fn nothing_that_a_node_sends_becomes_markup() {
    let vim = Vim::installing(&[]);
    let mut evil = report("uuid-1");
    evil["os"] = json!({"hostname": EVIL});
    evil["product"] = json!({"vendor": EVIL, "name": EVIL, EVIL: EVIL});
    evil["block"] =
        json!({"disks": [{"name": EVIL, "model": EVIL, "by_id": [EVIL], EVIL: [{EVIL: EVIL}]}]});
    evil[EVIL] = json!({"x": [EVIL]});
    let mut finding = finding("memory.evil", "critical", (EVIL, EVIL), EVIL);
    finding["advice"] = json!(EVIL);
    evil["findings"] = json!([finding]);
    assert_eq!(vim.post("/v1/reports", &evil).status, 200);
    let mut step = event(1, "write", "failed");
    step["message"] = json!(EVIL);
    vim.post("/v1/nodes/uuid-1/events", &json!({"events": [step]}));
    let mut done = result("uuid-1", "failed");
    for key in ["message", "advice"] {
        done[key] = json!(EVIL);
    }
    for key in ["warnings", "log_tail"] {
        done[key] = json!([EVIL]);
    }
    done["proof"] = json!({"checks": [
        {"name": "platform", "ok": false, "fatal": true, "expected": EVIL, "found": EVIL},
    ]});
    assert_eq!(vim.post("/v1/nodes/uuid-1/result", &done).status, 204);
    for path in ["/", "/nodes/uuid-1", "/models"] {
        let page = vim.get(path);
        let text = page.text();
        assert!(!text.contains("<script>alert") && !text.contains("<img"), "{path}: {text}");
        assert!(text.contains("&#60;script&#62;alert"), "{path}");
        let policy = page.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    }
}

#[test]
fn node_that_departs_from_its_model_is_shown_with_the_part_and_its_part_number() {
    let vim = Vim::start(&[]);
    for n in 0..3 {
        let mut body = report(&format!("uuid-{n}"));
        body["product"] = json!({"vendor": "Dell Inc.", "name": "R650"});
        body["bios"] = json!({"version": if n == 1 { "2.0" } else { "2.19.1" }});
        body["memory"] = json!({"n_slots": 1, "dimms": [
            {"locator": "A1", "is_populated": true, "part_number": "M393A4K40"},
        ]});
        let severity = if n == 0 { "info" } else { "warning" };
        body["findings"] =
            json!([finding("memory.ecc.correctable", severity, ("memory", "DIMM A1"), "e")]);
        assert!(vim.post("/v1/reports", &body).status < 300);
    }
    let page = vim.get("/models");
    page.assert_has(&[
        "<a href=\"/nodes/uuid-1\" title=\"uuid-1\">uuid-1</a></td><td>BIOS</td><td>version 2.0; 2 of 3 have 2.19.1",
        "<code>M393A4K40</code></td><td>DIMM</td><td>2 of 3</td><td>2</td>",
    ]);
    assert!(!page.text().contains("<a href=\"/nodes/uuid-2\""), "{page:?}");
    vim.get("/").assert_has(&["href=\"/models\""]);
}

#[test]
fn the_policy_names_the_script_that_the_page_has() {
    let vim = Vim::start(&[]);
    let page = vim.get("/");
    let text = page.text();
    let script = text.split_once("<script>").unwrap().1.split_once("</script>").unwrap().0;
    let digest = sha2::Sha256::digest(script);
    let policy = page.header("content-security-policy").unwrap();
    let named = policy.split_once("script-src 'sha256-").unwrap().1.split_once('\'').unwrap().0;
    assert_eq!(STANDARD.encode(digest), named);
}

#[test]
fn the_first_page_says_how_to_begin_and_then_shows_each_node() {
    let vim = Vim::installing(&[]);
    let address = format!("rci.vim=http://{}", vim.http);
    vim.get("/").assert_has(&["No node has reported yet", &address]);
    let mut known = report("uuid-1");
    known["os"] = json!({"hostname": "worker-1"});
    known["findings"] =
        json!([finding("memory.ecc", "critical", ("memory", "DIMM A1"), "2 errors")]);
    vim.post("/v1/reports", &known);
    let mut half = event(1, "write", "progress");
    half["percent"] = json!(50);
    vim.post("/v1/nodes/uuid-1/events", &json!({"events": [half]}));
    vim.get("/").assert_has(&["worker-1", ">writing<", "value=\"57\"", "1 critical"]);
    let parts = ["DIMM A1", "replace it", "aria-current=\"step\"", "/nodes/uuid-1/report.json"];
    vim.get("/nodes/uuid-1").assert_has(&parts);
    assert_eq!(vim.get("/nodes/other").status, 404);
}

#[test]
fn node_that_needs_a_person_comes_first_and_names_the_part() {
    let vim = Vim::start(&[]);
    let node = |id: &str| {
        let mut body = report(id);
        body["os"] = json!({"hostname": format!("host-{id}")});
        body
    };
    let critical = ("disk", "sdb, bay 3");
    let critical = json!([finding("disk.health.failing", "critical", critical, "9 bad sectors")]);
    let mut ill = node("ill");
    ill["findings"] = critical.clone();
    for body in [node("waits"), node("done"), node("blocked"), ill] {
        assert!(vim.post("/v1/reports", &body).status < 300);
    }
    vim.post("/v1/nodes/done/result", &result("done", "installed"));
    let mut blocked = result("blocked", "refused");
    blocked["code"] = json!("FINDINGS");
    blocked["findings"] = critical;
    assert_eq!(vim.post("/v1/nodes/blocked/result", &blocked).status, 204);
    let page = vim.get("/").text();
    let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}: {page}"));
    assert!(at(">To look at<") < at(">host-blocked<") && at(">host-blocked<") < at(">host-ill<"));
    assert!(at(">host-ill<") < at(">Waiting<") && at(">Waiting<") < at(">host-waits<"));
    assert!(at(">host-waits<") < at(">Installed<") && at(">Installed<") < at(">host-done<"));
    at(">blocked<");
    at("<strong>disk sdb, bay 3</strong>: 9 bad sectors");
}

#[test]
fn finding_that_a_fault_explains_is_shown_once() {
    let vim = Vim::start(&[]);
    let mut body = report("uuid-1");
    let finding = |code, evidence| finding(code, "warning", ("disk", "sda"), evidence);
    body["findings"] =
        json!([finding("disk.failed", "9 bad sectors"), finding("disk.hot", "80 degrees")]);
    body["faults"] = json!([{
        "class": "disk.failing", "severity": "warning", "advice": "a", "suspects": [],
        "evidence": [{
            "source": "SMART", "finding": "disk.failed", "locator": "sda", "observed": "9 bad sectors",
        }],
    }]);
    vim.post("/v1/reports", &body);
    let page = vim.get("/nodes/uuid-1").text();
    assert_eq!(page.matches("9 bad sectors").count(), 1, "{page}");
    assert!(page.contains("Other findings") && page.contains("80 degrees"), "{page}");
}

#[test]
fn page_of_a_node_names_the_suspects_of_a_fault_with_place_and_serial_number() {
    let vim = Vim::start(&[]);
    let mut body = report("uuid-1");
    body["faults"] = json!([{
        "class": "disk.failing", "severity": "critical", "advice": "replace it",
        "suspects": [{
            "part": "disk sda", "label": "bay 3", "certainty_percent": 85,
            "fru": {"model": "ST4000", "serial": "<b>S1"},
        }],
        "evidence": [{"source": "SMART", "finding": "disk.failed", "observed": "9 bad sectors"}],
    }, {
        "class": "memory.lost", "severity": "warning", "advice": "check it", "suspects": [], "evidence": [],
    }]);
    let answer = vim.post("/v1/reports", &body);
    assert!(answer.status < 300, "{}", answer.text());
    let page = vim.get("/nodes/uuid-1");
    page.assert_has(&[
        "<code>disk.failing</code>",
        "<strong>disk sda</strong>, in bay 3, ST4000, serial &#60;b&#62;S1",
        "85 % certain",
        "SMART: 9 bad sectors",
        "The part is not known",
    ]);
    assert!(!page.text().contains("section-faults"), "shown twice");
}

/// The hidden value of the form on a node's page.
fn token(vim: &Vim, node: &str) -> String {
    let page = vim.get(&format!("/nodes/{node}")).text();
    let after = page.split_once("name=\"token\" value=\"").unwrap().1;
    after.split_once('"').unwrap().0.to_owned()
}

/// Sends the form of a node's page.
fn submit(vim: &Vim, node: &str, body: &str) -> Got {
    let headers = [("content-type", "application/x-www-form-urlencoded")];
    vim.post_with(&format!("/nodes/{node}/load"), &headers, body.as_bytes())
}

#[test]
fn waiting_node_is_tested_under_load_by_the_form_on_its_page() {
    let vim = Vim::start(&[]);
    vim.post("/v1/reports", &report("uuid-1"));
    vim.get("/nodes/uuid-1").assert_has(&["Start the test"]);
    let token = token(&vim, "uuid-1");
    for (body, status) in [
        ("token=guessed&seconds=60", 403),
        ("seconds=60", 403),
        (&format!("token={token}&seconds=0"), 422),
    ] {
        assert_eq!(submit(&vim, "uuid-1", body).status, status, "{body}");
    }
    assert_eq!(vim.get("/v1/nodes/uuid-1/instruction").status, 202, "nothing was changed");
    let answer = submit(&vim, "uuid-1", &format!("token={token}&seconds=90"));
    assert_eq!((answer.status, answer.header("location")), (303, Some("/nodes/uuid-1")));
    let instruction = vim.get("/v1/nodes/uuid-1/instruction").json();
    assert_eq!((&instruction["action"], &instruction["load_s"]), (&json!("wait"), &json!(90)));
    let follows = "the node follows the instruction for all nodes";
    vim.get("/nodes/uuid-1").assert_has(&["for 90 s", "End the test", follows]);
    assert_eq!(submit(&vim, "uuid-1", &format!("token={token}")).status, 303);
    assert_eq!(vim.get("/v1/nodes/uuid-1/instruction").status, 202);
}

#[test]
fn form_never_replaces_an_instruction_that_somebody_set() {
    let vim = Vim::start(&[]);
    vim.post("/v1/reports", &report("uuid-1"));
    let body = format!("token={}&seconds=60", token(&vim, "uuid-1"));
    let config = json!({"ignition": {"version": "3.3.0"}});
    for (node, kind, setting) in
        [("uuid-1", "instruction", &json!({"action": "reboot"})), ("uuid-2", "ignition", &config)]
    {
        vim.post("/v1/reports", &report(node));
        assert_eq!(vim.put(&format!("/lab/nodes/{node}/{kind}"), setting).status, 204);
        assert!(!vim.get(&format!("/nodes/{node}")).text().contains("Start the test"));
        assert_eq!(submit(&vim, node, &body).status, 409);
    }
    assert_eq!(vim.get("/v1/nodes/uuid-1/instruction").json()["action"], "reboot");
    // The config came after the test was allowed.
    vim.post("/v1/reports", &report("uuid-3"));
    assert_eq!(submit(&vim, "uuid-3", &body).status, 303);
    assert_eq!(vim.put("/lab/nodes/uuid-3/ignition", &config).status, 204);
    vim.get("/nodes/uuid-3").assert_has(&["the node is installed with the Ignition config"]);
}

#[test]
fn what_a_node_sent_can_be_downloaded_by_its_encoded_id() {
    let vim = Vim::installing(&[]);
    vim.post("/v1/reports", &report("uuid:1"));
    vim.get("/nodes/uuid:1").assert_has(&["href=\"/nodes/uuid%3A1/report.json\""]);
    let got = vim.get("/nodes/uuid%3A1/report.json");
    assert_eq!(got.json(), report("uuid:1"));
    let disposition = "attachment; filename=\"uuid1-report.json\"";
    assert_eq!(got.header("content-disposition"), Some(disposition));
    assert_eq!(vim.get("/nodes/uuid%3A1/result.json").status, 404);
}

#[test]
fn a_page_is_notified_of_changes() {
    let vim = Vim::installing(&[]);
    let stream = vim.open("/live", Duration::from_secs(10));
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    assert!(lines.any(|line| line == "data: hello"));
    vim.post("/v1/reports", &report("n"));
    assert!(lines.any(|line| line.starts_with("data: ")));
}

#[test]
fn page_of_all_nodes_shows_a_change_at_once_and_reports_are_parsed_once() {
    let vim = Vim::start(&[]);
    let mut known = report("uuid-0");
    known["os"] = json!({"hostname": "worker-0"});
    // Long enough that parsing it would show.
    let devices =
        (0..3000).map(|n| json!({"address": format!("0000:00:{n:02x}.0"), "ids": vec![n; 20]}));
    known["pci"] = json!({"devices": devices.collect::<Vec<_>>()});
    for n in 0..20 {
        known["node_id"] = json!(format!("uuid-{n}"));
        assert!(vim.post("/v1/reports", &known).status < 300);
    }
    let shows = |path: &str, part: &str| vim.get(path).assert_has(&[part]);
    shows("/", "worker-0");
    shows("/models", "Nodes: 20");
    let before = vim.cpu_ticks();
    for n in 0..20 {
        shows("/models", "Nodes: 20");
        // A change of everything but the reports.
        vim.post("/v1/nodes/uuid-1/events", &json!({"events": [event(n, "write", "progress")]}));
        shows("/", "worker-0");
    }
    let of_40_pages = vim.cpu_ticks() - before;
    let before = vim.cpu_ticks();
    for _ in 0..2 {
        vim.post("/v1/reports", &known);
        shows("/models", "Nodes: 20");
    }
    let of_2_new_models = vim.cpu_ticks() - before;
    assert!(of_40_pages < 4 * of_2_new_models, "{of_40_pages} {of_2_new_models}");
    known["os"] = json!({"hostname": "renamed"});
    vim.post("/v1/reports", &known);
    shows("/", "renamed");
    shows("/nodes/uuid-19", "renamed");
    vim.delete("/lab/nodes");
    shows("/", "No node has reported yet");
    known["os"] = json!({"hostname": "after"});
    vim.post("/v1/reports", &known);
    shows("/", "after");
    assert!(!vim.get("/").text().contains("renamed"));
}

#[test]
fn viewers_are_bounded_and_each_that_leaves_makes_room() {
    let vim = Vim::start(&[]);
    let viewer = || {
        let stream = vim.open("/live", Duration::from_secs(20));
        let mut line = String::new();
        BufReader::new(stream.try_clone().unwrap()).read_line(&mut line).unwrap();
        (stream, line.contains(" 200 "))
    };
    let mut viewers: Vec<_> = (0..200).map(|_| viewer()).collect();
    assert!(viewers.iter().all(|(_, is_live)| *is_live));
    let refused = vim.get("/live");
    assert_eq!((refused.status, refused.code().as_str()), (503, "VIEWERS"));
    assert!(refused.text().contains("200 pages are open"), "{}", refused.text());
    assert_eq!(vim.get("/").status, 200);
    viewers.pop();
    let has_room = (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        viewer().1
    });
    assert!(has_room, "a viewer that left keeps its place");
}
