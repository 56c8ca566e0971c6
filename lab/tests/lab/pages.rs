//! The pages.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use sha2::Digest;

use crate::util::{Vim, event, report, result};

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
    evil["findings"] = json!([{
        "code": "memory.evil", "severity": "critical", "component": EVIL, "locator": EVIL, "evidence": EVIL, "advice": EVIL,
    }]);
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
        body["findings"] = json!([{
            "code": "memory.ecc.correctable", "severity": if n == 0 { "info" } else { "warning" },
            "component": "memory", "locator": "DIMM A1", "evidence": "e", "advice": "a",
        }]);
        assert!(vim.post("/v1/reports", &body).status < 300);
    }
    let page = vim.get("/models").text();
    assert!(page.contains("<a href=\"/nodes/uuid-1\" title=\"uuid-1\">uuid-1</a></td><td>BIOS</td><td>version 2.0; 2 of 3 have 2.19.1"), "{page}");
    assert!(!page.contains("<a href=\"/nodes/uuid-2\""), "{page}");
    assert!(
        page.contains("<code>M393A4K40</code></td><td>DIMM</td><td>2 of 3</td><td>2</td>"),
        "{page}"
    );
    assert!(vim.get("/").text().contains("href=\"/models\""));
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
    let empty = vim.get("/").text();
    assert!(empty.contains("No node has reported yet"));
    assert!(empty.contains(&format!("rci.vim=http://{}", vim.http)), "{empty}");
    let mut known = report("uuid-1");
    known["os"] = json!({"hostname": "worker-1"});
    known["findings"] = json!([{
        "code": "memory.ecc", "severity": "critical", "component": "memory", "locator": "DIMM A1",
        "evidence": "2 errors", "advice": "replace it",
    }]);
    vim.post("/v1/reports", &known);
    let mut half = event(1, "write", "progress");
    half["percent"] = json!(50);
    vim.post("/v1/nodes/uuid-1/events", &json!({"events": [half]}));
    let page = vim.get("/").text();
    for part in ["worker-1", ">writing<", "value=\"57\"", "1 critical"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let node = vim.get("/nodes/uuid-1").text();
    for part in ["DIMM A1", "replace it", "aria-current=\"step\"", "/nodes/uuid-1/report.json"] {
        assert!(node.contains(part), "{part}: {node}");
    }
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
    let critical = json!([{
        "code": "disk.health.failing", "severity": "critical", "component": "disk", "locator": "sdb, bay 3",
        "evidence": "9 bad sectors", "advice": "replace it",
    }]);
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
    let finding = |code: &str, evidence: &str| {
        json!({
            "code": code, "severity": "warning", "component": "disk", "locator": "sda",
            "evidence": evidence, "advice": "a",
        })
    };
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
    let page = vim.get("/nodes/uuid-1").text();
    for part in [
        "<code>disk.failing</code>",
        "<strong>disk sda</strong>, in bay 3, ST4000, serial &#60;b&#62;S1",
        "85 % certain",
        "SMART: 9 bad sectors",
        "The part is not known",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("section-faults"), "shown twice");
}

/// The hidden value of the form on a page.
fn token(page: &str) -> String {
    let after = page.split_once("name=\"token\" value=\"").unwrap().1;
    after.split_once('"').unwrap().0.to_owned()
}

#[test]
fn waiting_node_is_tested_under_load_by_the_form_on_its_page() {
    let vim = Vim::start(&[]);
    let form = [("content-type", "application/x-www-form-urlencoded")];
    let post = |body: String| vim.post_with("/nodes/uuid-1/load", &form, body.as_bytes());
    vim.post("/v1/reports", &report("uuid-1"));
    let page = vim.get("/nodes/uuid-1").text();
    assert!(page.contains("Start the test"), "{page}");
    let token = token(&page);
    assert_eq!(post("token=guessed&seconds=60".to_owned()).status, 403);
    assert_eq!(post("seconds=60".to_owned()).status, 403);
    assert_eq!(post(format!("token={token}&seconds=0")).status, 422);
    assert_eq!(vim.get("/v1/nodes/uuid-1/instruction").status, 202, "nothing was changed");
    let answer = post(format!("token={token}&seconds=90"));
    assert_eq!((answer.status, answer.header("location")), (303, Some("/nodes/uuid-1")));
    let instruction = vim.get("/v1/nodes/uuid-1/instruction").json();
    assert_eq!(instruction["action"], "wait");
    assert_eq!(instruction["load_s"], 90);
    let page = vim.get("/nodes/uuid-1").text();
    assert!(page.contains("for 90 s") && page.contains("End the test"), "{page}");
    assert!(page.contains("the node follows the instruction for all nodes"), "{page}");
    assert_eq!(post(format!("token={token}")).status, 303);
    assert_eq!(vim.get("/v1/nodes/uuid-1/instruction").status, 202);
}

#[test]
fn form_never_replaces_an_instruction_that_somebody_set() {
    let vim = Vim::start(&[]);
    vim.post("/v1/reports", &report("uuid-1"));
    let token = token(&vim.get("/nodes/uuid-1").text());
    let reboot = json!({"action": "reboot"});
    assert_eq!(vim.put("/lab/nodes/uuid-1/instruction", &reboot).status, 204);
    assert!(!vim.get("/nodes/uuid-1").text().contains("Start the test"));
    let form = [("content-type", "application/x-www-form-urlencoded")];
    let body = format!("token={token}&seconds=60");
    assert_eq!(vim.post_with("/nodes/uuid-1/load", &form, body.as_bytes()).status, 409);
    assert_eq!(vim.get("/v1/nodes/uuid-1/instruction").json()["action"], "reboot");

    vim.post("/v1/reports", &report("uuid-2"));
    let config = json!({"ignition": {"version": "3.3.0"}});
    assert_eq!(vim.put("/lab/nodes/uuid-2/ignition", &config).status, 204);
    assert!(!vim.get("/nodes/uuid-2").text().contains("Start the test"));
    assert_eq!(vim.post_with("/nodes/uuid-2/load", &form, body.as_bytes()).status, 409);
    // The config came after the test was allowed.
    vim.post("/v1/reports", &report("uuid-3"));
    assert_eq!(vim.post_with("/nodes/uuid-3/load", &form, body.as_bytes()).status, 303);
    assert_eq!(vim.put("/lab/nodes/uuid-3/ignition", &config).status, 204);
    let page = vim.get("/nodes/uuid-3").text();
    assert!(page.contains("the node is installed with the Ignition config"), "{page}");
}

#[test]
fn what_a_node_sent_can_be_downloaded() {
    let vim = Vim::installing(&[]);
    vim.post("/v1/reports", &report("uuid-1"));
    let got = vim.get("/nodes/uuid-1/report.json");
    assert_eq!(got.json(), report("uuid-1"));
    assert_eq!(
        got.header("content-disposition"),
        Some("attachment; filename=\"uuid-1-report.json\"")
    );
    assert_eq!(vim.get("/nodes/uuid-1/result.json").status, 404);
}

#[test]
fn a_page_is_notified_of_changes() {
    let vim = Vim::installing(&[]);
    let mut stream = TcpStream::connect(vim.http).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream.write_all(b"GET /live HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    assert!(lines.any(|line| line == "data: hello"));
    vim.post("/v1/reports", &report("n"));
    assert!(lines.any(|line| line == "data: 1"));
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
    assert!(vim.get("/").text().contains("worker-0"));
    assert!(vim.get("/models").text().contains("Nodes: 20"));
    let before = vim.cpu_ticks();
    for n in 0..20 {
        assert!(vim.get("/models").text().contains("Nodes: 20"));
        // A change of everything but the reports.
        vim.post("/v1/nodes/uuid-1/events", &json!({"events": [event(n, "write", "progress")]}));
        assert!(vim.get("/").text().contains("worker-0"));
    }
    let of_40_pages = vim.cpu_ticks() - before;
    let before = vim.cpu_ticks();
    for _ in 0..2 {
        vim.post("/v1/reports", &known);
        assert!(vim.get("/models").text().contains("Nodes: 20"));
    }
    let of_2_new_models = vim.cpu_ticks() - before;
    assert!(of_40_pages < 4 * of_2_new_models, "{of_40_pages} {of_2_new_models}");
    known["os"] = json!({"hostname": "renamed"});
    vim.post("/v1/reports", &known);
    assert!(vim.get("/").text().contains("renamed"));
    assert!(vim.get("/nodes/uuid-19").text().contains("renamed"));
    vim.delete("/lab/nodes");
    assert!(vim.get("/").text().contains("No node has reported yet"));
    known["os"] = json!({"hostname": "after"});
    vim.post("/v1/reports", &known);
    assert!(vim.get("/").text().contains("after") && !vim.get("/").text().contains("renamed"));
}

#[test]
fn viewers_are_bounded_and_each_that_leaves_makes_room() {
    let vim = Vim::start(&[]);
    let viewer = || {
        let mut stream = TcpStream::connect(vim.http).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(b"GET /live HTTP/1.1\r\nhost: v\r\n\r\n").unwrap();
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
