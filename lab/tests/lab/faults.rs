//! Faults as a client sees them.

use std::io::Read;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::util::{KEY, Vim, report};

fn plan(vim: &Vim, faults: &Value) {
    assert_eq!(vim.put("/lab/faults", faults).status, 200);
}

fn with_file() -> Vim {
    let vim = Vim::installing(&["--files", "."]);
    std::fs::write(vim.dir.join("f"), vec![7u8; 100_000]).unwrap();
    vim
}

#[test]
fn errors_come_as_often_as_planned_with_retry_after_in_both_forms() {
    let fault = "reports=status,status=503,retry_after=2,times=2";
    let vim = Vim::installing(&["--fault", fault, "--fault", "reports=status,retry_after=date:3"]);
    let post = || vim.post("/v1/reports", &report("n"));
    for _ in 0..2 {
        let got = post();
        assert_eq!((got.status, got.header("retry-after")), (503, Some("2")));
    }
    let got = post();
    assert!(got.status == 500 && got.header("retry-after").unwrap().ends_with("GMT"), "{got:?}");
    assert_eq!(post().status, 200);
    assert_eq!(vim.get("/lab/faults").json(), json!([]));
    let log = vim.get("/lab/requests").json();
    assert_eq!((&log[0]["fault"], &log[3]["fault"]), (&json!("status"), &json!(null)));
}

#[test]
fn a_reset_loses_the_request_or_only_its_answer_and_nothing_is_carried_out_twice() {
    let headers = [("content-type", "application/json"), ("idempotency-key", KEY)];
    let body = report("n").to_string();
    for (fault, n_reports) in
        [("reports=reset", json!(null)), ("reports=reset,processed=true", json!(1))]
    {
        let vim = Vim::installing(&["--fault", fault]);
        assert!(vim.try_post("/v1/reports", &headers, body.as_bytes()).is_err());
        let n = || vim.get("/lab/nodes/n").json()["n_reports"].clone();
        assert_eq!(n(), n_reports, "{fault}");
        assert_eq!(vim.post_with("/v1/reports", &headers, body.as_bytes()).status, 200);
        assert_eq!(n(), 1, "{fault}");
    }
}

#[test]
fn a_reset_is_not_an_orderly_end() {
    let vim = with_file();
    plan(&vim, &json!([{"route": "files", "kind": "reset", "bytes": 1000}]));
    let mut stream = vim.open("/files/f", Duration::from_secs(10));
    let mut got = Vec::new();
    let error = stream.read_to_end(&mut got).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    assert!(got.len() < 2000, "{}", got.len());
}

#[test]
fn a_truncated_body_is_shorter_than_its_content_length() {
    let vim = with_file();
    plan(&vim, &json!([{"route": "files", "kind": "truncate", "bytes": 5000}]));
    let got = vim.raw("GET /files/f HTTP/1.1\r\nhost: x\r\n\r\n");
    let (head, body) = got.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("content-length: 100000"), "{head}");
    assert_eq!(body.len(), 5000);
    plan(&vim, &json!([{"route": "files", "kind": "truncate"}]));
    assert!(vim.try_get("/files/f").is_err());
}

#[test]
fn a_corrupt_body_differs_in_one_bit() {
    let vim = with_file();
    plan(&vim, &json!([{"route": "files", "kind": "corrupt", "bytes": 99_999}]));
    let got = vim.get("/files/f").body;
    let wrong: Vec<usize> = (0..got.len()).filter(|at| got[*at] != 7).collect();
    assert_eq!((got.len(), wrong, got[99_999]), (100_000, vec![99_999], 6));
    assert!(vim.get("/files/f").body.iter().all(|byte| *byte == 7));
}

#[test]
fn a_drip_and_a_delay_are_slow_and_complete() {
    let vim = with_file();
    std::fs::write(vim.dir.join("f"), "0123456789").unwrap();
    for fault in [
        json!([{"route": "files", "kind": "drip", "bytes": 2, "delay_ms": 60}]),
        json!([{"route": "files", "kind": "delay", "delay_ms": 300}]),
    ] {
        plan(&vim, &fault);
        let start = Instant::now();
        assert_eq!(vim.get("/files/f").text(), "0123456789");
        assert!(start.elapsed() > Duration::from_millis(200), "{:?}", start.elapsed());
    }
}

#[test]
fn a_hang_is_silent_before_or_within_the_answer() {
    let vim = with_file();
    for (fault, n_expected) in [
        (json!([{"route": "files", "kind": "hang"}]), 0),
        (json!([{"route": "files", "kind": "hang", "bytes": 100}]), 100),
    ] {
        plan(&vim, &fault);
        let mut stream = vim.open("/files/f", Duration::from_millis(700));
        let mut got = Vec::new();
        let error = stream.read_to_end(&mut got).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
        let body =
            got.windows(4).position(|four| four == b"\r\n\r\n").map_or(0, |at| got.len() - at - 4);
        assert_eq!(body, n_expected);
    }
    let log = vim.get("/lab/requests").json();
    let hung = log.as_array().unwrap().iter().filter(|entry| entry["fault"] == "hang");
    assert_eq!(hung.count(), 2);
}

#[test]
fn a_wrong_hash_has_the_right_form() {
    let vim = Vim::installing(&["--fault", "reports=wrong_hash"]);
    let hash = || {
        let answer = vim.post("/v1/reports", &report("n")).json();
        answer["install"]["ignition"]["hash"].as_str().unwrap().to_owned()
    };
    let (wrong, right) = (hash(), hash());
    assert_ne!(wrong, right);
    assert_eq!((wrong.len(), &wrong[..134]), (right.len(), &right[..134]));
    plan(&vim, &json!([{"route": "reports", "kind": "wrong_image_hash"}]));
    let image = json!({"ignition": {"inline": "{}"}, "image": {"url": "http://vim.example/i"}});
    vim.put("/lab/default/instruction", &json!({"action": "install", "install": image}));
    let answer = vim.post("/v1/reports", &report("n")).json();
    assert_eq!(answer["install"]["image"]["hash"].as_str().map(str::len), Some(7 + 64));
}

#[test]
fn redirects_loop_and_json_is_cut_and_answers_are_as_given_or_huge() {
    let vim = Vim::installing(&[]);
    plan(
        &vim,
        &json!([
            {"route": "reports", "kind": "redirect_loop"},
            {"route": "reports", "kind": "invalid_json"},
            {"route": "reports", "kind": "answer", "status": 404, "body": "<h1>", "content_type": "text/html"},
            {"route": "reports", "kind": "huge", "bytes": 3_000_000},
        ]),
    );
    let post = || vim.post("/v1/reports", &report("n"));
    let redirect = post();
    assert_eq!((redirect.status, redirect.header("location")), (302, Some("/v1/reports")));
    let broken = post();
    assert!(serde_json::from_slice::<Value>(&broken.body).is_err() && broken.status == 200);
    let page = post();
    assert_eq!((page.status, page.text().as_str()), (404, "<h1>"));
    assert_eq!(post().body.len(), 3_000_000);
}

#[test]
fn a_fault_for_ever_ends_with_the_plan_and_spares_the_admin_api() {
    let vim = Vim::installing(&["--fault", "any=status,times=forever"]);
    for _ in 0..3 {
        assert_eq!(vim.get("/").status, 500);
    }
    assert_eq!(vim.delete("/lab/faults").status, 200);
    assert_eq!(vim.get("/").status, 200);
    let added =
        json!([{"route": "/", "method": "GET", "kind": "status", "status": 418, "skip": 1}]);
    assert_eq!(vim.post("/lab/faults", &added).status, 200);
    assert_eq!((vim.get("/").status, vim.get("/").status), (200, 418));
}
