//! Requests against the document.

use super::*;

fn contract() -> Contract {
    Contract::read(DOCUMENT).unwrap()
}

fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
}

#[test]
fn each_operation_of_the_document_is_found_by_method_and_path() {
    let contract = contract();
    for (method, path, id) in [
        (Method::POST, "/v1/reports", "postReport"),
        (Method::GET, "/v1/nodes/uuid-1/instruction", "getInstruction"),
        (Method::POST, "/v1/nodes/uuid-1/events", "postEvents"),
        (Method::POST, "/v1/nodes/uuid-1/result", "postResult"),
    ] {
        assert_eq!(contract.find(&method, path).unwrap().operation.id, id);
    }
    assert_eq!(contract.find(&Method::GET, "/v1/reports").unwrap_err().status, 405);
    assert_eq!(contract.find(&Method::GET, "/v1/reports/").unwrap_err().status, 404);
}

#[test]
fn a_node_id_outside_its_pattern_is_refused_with_what_was_found() {
    let contract = contract();
    let found = contract.find(&Method::GET, "/v1/nodes/a%2Fb/instruction").unwrap();
    let refusal = found.check_head(&headers(&[]), None).unwrap_err();
    assert_eq!(refusal.status, 400);
    assert!(refusal.message.starts_with("id: found \"a/b\", expected text"), "{refusal:?}");
}

#[test]
fn a_query_that_the_document_does_not_have_is_refused() {
    let contract = contract();
    let found = contract.find(&Method::POST, "/v1/reports").unwrap();
    assert_eq!(found.check_head(&headers(&[]), Some("debug=1")).unwrap_err().status, 400);
}

#[test]
fn a_body_fault_names_its_path_what_was_found_and_what_is_expected() {
    let contract = contract();
    let found = contract.find(&Method::POST, "/v1/nodes/n/events").unwrap();
    let body = br#"{"events":[{"sequence":0,"time":"2026-11-20T10:00:00Z","stage":"lunch","state":"done"}]}"#;
    let json = headers(&[("content-type", "application/json; charset=utf-8")]);
    let refusal = found.check_body(&json, body).unwrap_err();
    assert_eq!((refusal.status.as_u16(), refusal.code), (422, "EVENTS_INVALID"));
    assert!(
        refusal.message.contains("EventBatch at /events/0/sequence: found 0, expected at least 1"),
        "{refusal:?}"
    );
    assert!(refusal.message.contains("/events/0/stage: found \"lunch\""), "{refusal:?}");
    assert!(refusal.message.contains("expected one of \"collect\", \"report\""), "{refusal:?}");
}

#[test]
fn a_choice_of_forms_is_described_by_the_keys_of_each() {
    let install = json!({"ignition": {"inlined": ""}});
    let instruction = json!({
        "api_version": "1", "request_id": "r", "action": "install", "install": install,
    });
    let faults = contract().instruction_faults(&instruction);
    assert!(faults[0].contains("expected one of "), "{faults:?}");
}

#[test]
fn another_content_type_is_415_and_no_json_is_400() {
    let contract = contract();
    let found = contract.find(&Method::POST, "/v1/reports").unwrap();
    let text = headers(&[("content-type", "text/plain")]);
    assert_eq!(found.check_body(&text, b"{}").unwrap_err().status, 415);
    let json = headers(&[("content-type", "application/json")]);
    assert_eq!(found.check_body(&json, b"{").unwrap_err().status, 400);
    let deep = "[".repeat(100_000);
    assert_eq!(found.check_body(&json, deep.as_bytes()).unwrap_err().status, 400);
}
