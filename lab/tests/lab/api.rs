//! VIM API v1 and the admin API.

use std::fs;
use std::io::Write;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::util::{IGNITION, KEY, Vim, event, folder, report, result};

#[test]
fn a_job_from_report_to_result_is_accepted_and_can_be_read_back() {
    let vim = Vim::installing(&[]);
    let answer = vim.post_keyed("/v1/reports", KEY, &report("uuid-1"));
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    let answer = answer.json();
    assert_eq!(answer["action"], "install");
    assert_eq!(answer["install"]["ignition"]["inline"], IGNITION);
    assert_eq!(vim.get("/v1/nodes/uuid-1/instruction").json(), answer);
    let events = json!({"events": [event(1, "collect", "started"), event(2, "write", "progress")]});
    assert_eq!(vim.post("/v1/nodes/uuid-1/events", &events).status, 204);
    let done = result("uuid-1", "installed");
    assert_eq!(vim.post_keyed("/v1/nodes/uuid-1/result", KEY, &done).status, 204);

    assert_eq!(vim.get("/lab/nodes/uuid-1/report").json(), report("uuid-1"));
    assert_eq!(vim.get("/lab/nodes/uuid-1/events").json(), events);
    assert_eq!(vim.get("/lab/nodes/uuid-1/result").json(), done);
    let node = &vim.get("/lab/nodes").json()["nodes"][0];
    assert_eq!((&node["node_id"], &node["outcome"]), (&json!("uuid-1"), &json!("installed")));
    assert_eq!(vim.get("/lab/nodes/uuid-1").json()["n_events"], 2);
    assert!(vim.get("/openapi.json").json()["paths"]["/v1/reports"]["post"].is_object());
}

#[test]
fn a_body_that_violates_the_schema_is_refused_with_place_found_and_expected() {
    let vim = Vim::installing(&[]);
    let json = ("content-type", "application/json");
    let mut wrong = report("uuid-1");
    wrong["problems"] = json!("none");
    let wrong = wrong.to_string();
    let good = report("uuid-1").to_string();
    let deep = "[".repeat(100_000);
    let events = json!({"events": [event(0, "lunch", "done")]}).to_string();
    let sequence = "EventBatch at /events/0/sequence: found 0, expected at least 1";
    let stage = "/events/0/stage: found \"lunch\", expected one of \"collect\", \"report\"";
    let id = "id: found \"a/b\", expected text";
    let other = result("uuid-2", "failed").to_string();
    for (path, headers, body, status, code, said) in [
        ("/v1/reports", vec![json], "{", 400, "JSON", "not JSON"),
        ("/v1/reports", vec![json], &deep, 400, "JSON", "not JSON"),
        ("/v1/reports", vec![json], &wrong, 422, "REPORT_INVALID", "at /problems: found \"none\""),
        ("/v1/reports", vec![("content-type", "text/xml")], &good, 415, "CONTENT_TYPE", "text/xml"),
        ("/v1/reports", vec![], &good, 415, "CONTENT_TYPE", "expected application/json"),
        ("/v1/reports?x=1", vec![json], &good, 400, "PARAMETER", "\"x\""),
        ("/v1/reports", vec![json, ("idempotency-key", "7")], &good, 400, "PARAMETER", "uuid"),
        ("/v1/reports", vec![json, ("content-encoding", "br")], &good, 400, "PARAMETER", "br"),
        ("/v1/nodes/a%2Fb/events", vec![json], "{\"events\":[]}", 400, "PARAMETER", id),
        ("/v1/nodes/n/events", vec![json], &events, 422, "EVENTS_INVALID", sequence),
        ("/v1/nodes/n/events", vec![json], &events, 422, "EVENTS_INVALID", stage),
        ("/v1/nodes/n/events", vec![json], "[]", 422, "EVENTS_INVALID", "type object"),
        ("/v1/nodes/n/result", vec![json], "{}", 422, "RESULT_INVALID", "outcome"),
        ("/v1/nodes/n/result", vec![json], &other, 422, "RESULT_INVALID", "found \"uuid-2\""),
        ("/v1/nodes/n/instruction", vec![json], "{}", 405, "METHOD", "GET"),
        ("/v2/reports", vec![json], &good, 405, "METHOD", "GET"),
        ("/v1/reports/", vec![json], &good, 404, "PATH_UNKNOWN", "/v1/reports/"),
    ] {
        let got = vim.post_with(path, &headers, body.as_bytes());
        assert_eq!((got.status, got.code().as_str()), (status, code), "{path} {body} {got:?}");
        let message = got.json()["message"].as_str().unwrap().to_owned();
        assert!(message.contains(said), "{path} {body}: {message}");
    }
    assert_eq!(vim.get("/lab/nodes").json()["nodes"], json!([]));
}

#[test]
fn the_same_key_and_body_change_nothing_and_another_body_is_refused() {
    let vim = Vim::installing(&[]);
    let first = vim.post_keyed("/v1/reports", KEY, &report("uuid-1"));
    vim.put("/lab/default/instruction", &json!({"action": "stop"}));
    let again = vim.post_keyed("/v1/reports", KEY, &report("uuid-1"));
    assert_eq!((again.status, &again.body), (200, &first.body));
    assert_eq!(vim.get("/lab/nodes/uuid-1").json()["n_reports"], 1);
    let other = vim.post_keyed("/v1/reports", KEY, &report("uuid-2"));
    assert_eq!((other.status, other.code().as_str()), (422, "IDEMPOTENCY_KEY"));
    let new_key = KEY.replace('1', "2");
    let fresh = vim.post_keyed("/v1/reports", &new_key, &report("uuid-1"));
    assert_eq!(fresh.json()["action"], "stop");
}

#[test]
fn gzip_is_decompressed_and_bombs_and_long_bodies_are_413() {
    let vim = Vim::installing(&["--max-body-bytes", "100000"]);
    let packed = |bytes: &[u8]| {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        packer.write_all(bytes).unwrap();
        packer.finish().unwrap()
    };
    let headers = [("content-type", "application/json"), ("content-encoding", "gzip")];
    let post = |body: &[u8]| vim.post_with("/v1/reports", &headers, body);
    assert_eq!(post(&packed(report("uuid-1").to_string().as_bytes())).status, 200);
    let bomb = packed(&vec![b' '; 10_000_000]);
    assert!(bomb.len() < 100_000);
    assert_eq!(post(&bomb).status, 413);
    assert_eq!(post(b"no gzip").status, 400);
    assert_eq!(vim.post_with("/v1/reports", &headers[..1], &vec![b' '; 100_001]).status, 413);
    let events = packed(b"{\"events\":[]}");
    assert_eq!(vim.post_with("/v1/nodes/n/events", &headers, &events).status, 415);
}

#[test]
fn an_answer_to_wait_says_where_and_when_to_ask() {
    let vim = Vim::installing(&["--answer", "later", "--polls", "2", "--retry-after", "1"]);
    let first = vim.post("/v1/reports", &report("uuid-1"));
    assert_eq!((first.status, first.header("retry-after")), (202, Some("1")));
    assert_eq!(first.header("location"), Some("/v1/nodes/uuid-1/instruction"));
    assert_eq!(first.json(), json!({"node_id": "uuid-1", "retry_after_s": 1}));
    let asked: Vec<u16> = (0..3).map(|_| vim.get("/v1/nodes/uuid-1/instruction").status).collect();
    assert_eq!(asked, [202, 200, 200]);

    vim.put("/lab/default/answer", &json!({"mode": "never", "retry_after": "date:5"}));
    let date = vim.get("/v1/nodes/uuid-1/instruction");
    assert!(date.header("retry-after").unwrap().ends_with(" GMT"), "{date:?}");
}

#[test]
fn without_an_instruction_nodes_wait_and_an_unknown_node_is_404() {
    let vim = Vim::start(&[]);
    assert_eq!(vim.get("/v1/nodes/uuid-1/instruction").status, 404);
    assert_eq!(vim.post("/v1/reports", &report("uuid-1")).status, 202);
    assert_eq!(vim.get("/v1/nodes/uuid-1/instruction").status, 202);
    vim.put("/lab/nodes/uuid-1/ignition", &json!({"ignition": {"version": "3.3.0"}}));
    assert_eq!(vim.get("/v1/nodes/uuid-1/instruction").json()["action"], "install");
}

#[test]
fn the_bare_mode_sends_the_ignition_config_byte_for_byte() {
    let vim = Vim::installing(&["--answer", "bare"]);
    let got = vim.post("/v1/reports", &report("uuid-1"));
    assert_eq!(got.header("content-type"), Some("application/vnd.coreos.ignition+json"));
    assert_eq!(got.text(), IGNITION);
    assert_eq!(vim.get("/ignition/default").text(), IGNITION);
    assert_eq!(vim.get("/ignition/uuid-1").text(), IGNITION);
}

#[test]
fn a_node_gets_its_own_instruction_and_can_be_renamed() {
    let vim = Vim::installing(&[]);
    vim.put("/lab/nodes/uuid-1/instruction", &json!({"action": "poweroff", "request_id": "r7"}));
    vim.put("/lab/nodes/uuid-1/answer", &json!({"node_id": "worker-1"}));
    let accepted = vim.post("/v1/reports", &report("uuid-1"));
    assert_eq!((accepted.status, &accepted.json()["node_id"]), (202, &json!("worker-1")));
    let location = accepted.header("location").unwrap().to_owned();
    assert_eq!(location, "/v1/nodes/worker-1/instruction");
    let answer = vim.get(&location).json();
    assert_eq!((&answer["action"], &answer["node_id"]), (&json!("poweroff"), &json!("worker-1")));
    assert_eq!(answer["request_id"], "r7");
    let done = result("worker-1", "installed");
    assert_eq!(vim.post("/v1/nodes/worker-1/result", &done).status, 204);
    let nodes = vim.get("/lab/nodes").json();
    assert_eq!(nodes["nodes"].as_array().unwrap().len(), 1, "{nodes}");
    assert_eq!(vim.delete("/lab/nodes/uuid-1/instruction").status, 204);
    assert_eq!(vim.get("/lab/nodes/uuid-1/instruction").status, 404);
}

#[test]
fn neighbours_supplement_the_last_report() {
    let vim = Vim::installing(&[]);
    let chassis = json!([{"chassis_id": "s1"}]);
    let supplement = json!({"api_version": "1", "neighbours": {"eno1": chassis, "eno9": []}});
    let put = |body: &Value| vim.put("/v1/nodes/uuid-1/neighbours", body).status;
    assert_eq!(put(&supplement), 404);
    let mut reported = report("uuid-1");
    vim.post("/v1/reports", &reported);
    reported["network"] = json!({"interfaces": [{"name": "eno1"}, {"name": "lo"}]});
    vim.post("/v1/reports", &reported);
    assert_eq!(put(&json!({"neighbours": {}})), 422);
    assert_eq!(put(&supplement), 204);
    reported["network"]["interfaces"][0]["lldp"] = chassis;
    assert_eq!(vim.get("/lab/nodes/uuid-1/report").json(), reported);
}

#[test]
fn boot_is_confirmed_with_the_token_of_the_install_and_with_no_other() {
    let dir = folder();
    fs::write(dir.join("token"), "of-the-node\n").unwrap();
    let vim = Vim::start_in(&dir, &["--token", "token"]);
    let boot = |token: &str, n: &str, disk: &str| {
        let mut body = json!({"api_version": "1", "request_id": "r1", "boot_id": format!("b{n}")});
        if !disk.is_empty() {
            body["disk"] = json!(disk);
        }
        let token = format!("Bearer {token}");
        let headers = [("authorization", token.as_str()), ("content-type", "application/json")];
        vim.put_with(&format!("/v1/nodes/uuid-1/boots/{n}"), &headers, &body).status
    };
    let send = |path: &str, body: &Value| {
        let headers =
            [("authorization", "Bearer of-the-node"), ("content-type", "application/json")];
        vim.post_with(path, &headers, body.to_string().as_bytes()).status
    };
    let shows = |word: &str| {
        vim.get("/nodes/uuid-1").assert_has(&[word]);
        vim.get("/").assert_has(&[word]);
    };
    assert_eq!(send("/v1/reports", &report("uuid-1")), 202);
    assert_eq!(boot("t1", "1", "same"), 401, "before the result");
    let mut done = result("uuid-1", "installed");
    let digest = formats::digest::sha256(b"t1");
    done["confirm"] = json!({"token_digest": digest, "ignition_digest": digest});
    assert_eq!(send("/v1/nodes/uuid-1/result", &done), 204);
    shows(">installed<");
    assert_eq!(vim.get("/lab/nodes/uuid-1/boots").status, 404);
    assert_eq!((boot("t2", "1", "same"), boot("of-the-node", "1", "same")), (401, 401));
    assert_eq!((boot("t1", "3", "same"), boot("t1", "1", "none")), (400, 422));
    assert_eq!((boot("t1", "1", "same"), boot("t1", "1", "same")), (204, 204));
    shows("confirmed (boot 1)");
    assert_eq!(boot("t1", "2", ""), 204);
    shows("confirmed (boots 1 and 2)");
    let boots = &vim.get("/lab/nodes/uuid-1/boots").json()["boots"];
    assert_eq!((&boots[0]["boot"]["disk"], &boots[1]["n"]), (&json!("same"), &json!(2)));
    assert_eq!(boots[1]["boot"], json!({"api_version": "1", "request_id": "r1", "boot_id": "b2"}));
    assert_eq!(boot("t1", "2", "other"), 204);
    shows("booted from another disk");
    // The confirmation of an earlier install says nothing about a later one.
    done["confirm"]["token_digest"] = json!("sha256-0");
    assert_eq!(send("/v1/nodes/uuid-1/result", &done), 204);
    assert_eq!(boot("t1", "1", "same"), 204);
    shows(">installed<");
}

#[test]
fn an_installed_node_that_reports_again_must_reboot_until_its_instruction_changes() {
    let vim = Vim::installing(&[]);
    let action = || vim.post("/v1/reports", &report("uuid-1")).json()["action"].clone();
    let outcome = || vim.get("/lab/nodes/uuid-1").json()["outcome"].clone();
    assert_eq!(action(), "install");
    vim.post("/v1/nodes/uuid-1/result", &result("uuid-1", "installed"));
    assert_eq!(outcome(), "installed");
    assert_eq!(action(), "reboot");
    assert_eq!(outcome(), json!(null), "a newer report came");
    let order = json!({"action": "install", "install": {"ignition": {"inline": IGNITION}}});
    vim.put("/lab/nodes/uuid-1/instruction", &order);
    assert_eq!(action(), "install");
    let again = Vim::installing(&["--after-install", "install"]);
    again.post("/v1/nodes/uuid-1/result", &result("uuid-1", "installed"));
    assert_eq!(again.post("/v1/reports", &report("uuid-1")).json()["action"], "install");
}

#[test]
fn a_broken_setting_or_plan_is_refused_unless_unchecked_is_set() {
    let vim = Vim::start(&[]);
    let broken = json!({"action": "explode"});
    let form = json!({"action": "install", "install": {"ignition": {"inlined": ""}}});
    for (kind, setting, said) in [
        ("instruction", &broken, "instruction at /action: found \"explode\""),
        ("instruction", &form, "expected one of "),
        ("ignition", &json!({}), "without the key"),
        ("answer", &json!({"mode": "soon"}), "soon"),
    ] {
        let got = vim.put(&format!("/lab/default/{kind}"), setting);
        assert_eq!((got.status, got.code().as_str()), (422, "SETTING_INVALID"));
        assert!(got.json()["message"].as_str().unwrap().contains(said), "{got:?}");
    }
    let plan = vim.put("/lab/faults", &json!([{"route": "any", "kind": "explode"}]));
    assert_eq!((plan.status, plan.code().as_str()), (422, "FAULTS_INVALID"));
    plan.assert_has(&["explode"]);
    assert_eq!(vim.put("/lab/default/instruction?unchecked=1", &broken).status, 204);
    assert_eq!(vim.post("/v1/reports", &report("n")).json()["action"], "explode");
}

#[test]
fn templates_become_the_address_that_the_node_used_and_the_digest_of_a_served_file() {
    let vim = Vim::start(&["--files", "."]);
    fs::write(vim.dir.join("image.raw"), "abc").unwrap();
    let order = json!({"action": "install", "install": {
        "ignition": {"inline": "{{base}}"},
        "image": {"url": "{{base}}/files/image.raw", "hash": "sha256-{{sha256:/files/image.raw}}"},
    }});
    assert_eq!(vim.put("/lab/default/instruction", &order).status, 204);
    let answer = vim.post("/v1/reports", &report("n")).json();
    let image = &answer["install"]["image"];
    assert_eq!(image["url"], vim.url("/files/image.raw"));
    let abc = "sha256-ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(image["hash"], abc);
    assert_eq!(answer["install"]["ignition"]["inline"], "{{base}}");
}

#[test]
fn a_test_can_wait_for_what_a_node_sends() {
    let vim = Vim::start(&[]);
    let started = std::time::Instant::now();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| vim.get("/lab/nodes/n/result?wait_s=15"));
        std::thread::sleep(Duration::from_millis(300));
        vim.post("/v1/nodes/n/result", &result("n", "failed"));
        assert_eq!(waiting.join().unwrap().json()["outcome"], "failed");
    });
    assert!(started.elapsed() < Duration::from_secs(10));
    assert_eq!(vim.get("/lab/nodes/n/report?wait_s=0").status, 404);
}

#[test]
fn the_request_log_has_headers_and_status_but_no_token() {
    let vim = Vim::start(&[]);
    let headers = [("content-type", "application/json"), ("authorization", "Bearer secret")];
    vim.post_with("/v1/reports", &headers, report("n").to_string().as_bytes());
    let log = vim.get("/lab/requests").json();
    let entry = &log[0];
    assert_eq!((&entry["path"], &entry["status"]), (&json!("/v1/reports"), &json!(202)));
    assert_eq!(entry["headers"]["authorization"], "<not shown>");
    assert_eq!(entry["body_sha256"].as_str().map(str::len), Some(64));
    assert_eq!(vim.delete("/lab/requests").status, 204);
}

#[test]
fn a_database_file_outlives_the_server() {
    let dir = folder();
    fs::write(dir.join("c.ign"), IGNITION).unwrap();
    let arguments = ["--db", "vim.db", "--ignition", "c.ign"];
    let mut first = Vim::start_in(&dir, &arguments);
    first.post("/v1/reports", &report("n"));
    first.post("/v1/nodes/n/result", &result("n", "installed"));
    let _ = first.child.kill();
    let _ = first.child.wait();
    let second = Vim::start_in(&dir, &arguments);
    assert_eq!(second.get("/lab/nodes/n/report").json(), report("n"));
    assert_eq!(second.post("/v1/reports", &report("n")).json()["action"], "reboot");
    assert_eq!(second.delete("/lab/nodes").status, 204);
    assert_eq!(second.get("/lab/nodes").json()["nodes"], json!([]));
}

#[test]
fn sigterm_ends_the_server_with_status_0_and_the_port_file_equals_stdout() {
    let mut vim = Vim::start(&["--port-file", "port"]);
    let line = fs::read_to_string(vim.dir.join("port")).unwrap();
    assert_eq!(line, format!("listening http={}\n", vim.http));
    Command::new("kill").args(["-TERM", &vim.child.id().to_string()]).status().unwrap();
    assert_eq!(vim.child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_wrong_command_line_is_status_2_and_names_the_option() {
    for (arguments, said) in [
        (&["--instruction", "absent.json"][..], "absent.json"),
        (&["--fault", "reports=explode"], "explode"),
        (&["--fault", "reports"], "expected ROUTE=KIND"),
        (&["--fault", "reports=status,often=3"], "often"),
        (&["--fault", "reports=status,times"], "\"times\""),
        (&["--files", "absent"], "absent"),
        (&["--file", "name"], "NAME=PATH"),
        (&["--listen", "192.0.2.1:0"], "192.0.2.1"),
    ] {
        let program = env!("CARGO_BIN_EXE_lab-vim");
        let out = Command::new(program).args(arguments).output().unwrap();
        let stderr = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(said), "{stderr}");
    }
}
