//! Compares documents and code.

use crate::util::{run, stdout};

#[test]
fn every_document_has_a_schema() {
    for document in ["report", "instruction", "event", "result"] {
        let output = run(&format!("schema {document}"));
        let schema: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
        assert!(schema["properties"].as_object().is_some_and(|p| !p.is_empty()), "{document}");
    }
}

#[test]
fn the_openapi_document_names_every_call_of_the_api() {
    let document: serde_json::Value =
        serde_json::from_str(&stdout(&run("schema openapi"))).unwrap();
    assert_eq!(document["openapi"].as_str().map(|v| &v[..3]), Some("3.1"));
    for path in [
        "/v1/reports",
        "/v1/nodes/{id}/instruction",
        "/v1/nodes/{id}/events",
        "/v1/nodes/{id}/result",
    ] {
        assert!(document["paths"].get(path).is_some(), "{path}");
    }
}

#[test]
fn a_real_report_fits_the_schema_that_is_made_from_the_types() {
    let schema: serde_json::Value = serde_json::from_str(&stdout(&run("schema report"))).unwrap();
    let report: serde_json::Value =
        serde_json::from_str(&stdout(&run("inspect --format json"))).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> =
        validator.iter_errors(&report).map(|e| format!("{}: {e}", e.instance_path)).collect();
    assert!(errors.is_empty(), "{errors:#?}");
}
