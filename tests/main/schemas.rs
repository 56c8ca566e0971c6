//! Compares documents and code.

use compare::kinds::{Kind, NEIGHBOURS, kinds};
use probes::findings::row;
use serde_json::Value;

use crate::util::{json, read, run, stdout};

#[test]
fn every_document_has_a_schema() {
    for document in ["report", "instruction", "event", "result"] {
        let schema = json(&format!("schema {document}"));
        assert!(schema["properties"].as_object().is_some_and(|p| !p.is_empty()), "{document}");
    }
}

#[test]
fn the_openapi_document_is_that_of_the_repository_and_names_every_call_of_the_api() {
    let text = stdout(&run("schema openapi"));
    assert!(text == include_str!("../../agent/vim-api-v1.openapi.json"), "the text differs");
    let document: Value = serde_json::from_str(&text).unwrap();
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
    let report = json("inspect --format json");
    let validator = jsonschema::validator_for(&json("schema report")).unwrap();
    let errors: Vec<String> =
        validator.iter_errors(&report).map(|e| format!("{}: {e}", e.instance_path)).collect();
    assert!(errors.is_empty(), "{errors:#?}");
}

/// The schema of the value at `path`, through references, lists and alternatives.
fn at<'a>(root: &'a Value, schema: &'a Value, path: &[&str]) -> Option<&'a Value> {
    if let Some(name) = schema["$ref"].as_str() {
        return at(root, root.pointer(name.strip_prefix('#')?)?, path);
    }
    let here = match path.split_first() {
        None => Some(schema),
        Some((key, rest)) => {
            let is_element = *key == "*" || key.parse::<usize>().is_ok();
            let inner = if is_element { &schema["items"] } else { &schema["properties"][*key] };
            if inner.is_null() { None } else { at(root, inner, rest) }
        }
    };
    let alternatives = ["anyOf", "allOf", "oneOf"].iter().filter_map(|key| schema[*key].as_array());
    here.or_else(|| alternatives.flatten().find_map(|inner| at(root, inner, path)))
}

/// The paths that are compared in the parts of a kind.
fn paths(kind: &'static Kind) -> Vec<&'static str> {
    let mut paths: Vec<&str> = kind.attributes.iter().map(|attribute| attribute.path).collect();
    paths.extend(kind.identities.iter().chain(&kind.slots).flat_map(|all| all.iter()));
    paths.extend(kind.place.iter().map(|(_, path)| path));
    paths.extend(kind.skip.iter().map(|(path, _)| path));
    paths.retain(|path| !["@id", NEIGHBOURS].contains(path));
    paths
}

/// A key that the report no longer has would be "not known" for ever.
#[test]
fn report_has_every_value_that_comparisons_use() {
    let schema = json("schema report");
    let split = |path: &'static str| path.split('/').collect::<Vec<_>>();
    let has = |path: &[&str]| at(&schema, &schema, path).is_some();
    assert!(has(&["memory", "dimms", "*", "locator"]) && !has(&["memory", "dimms", "*", "place"]));
    for kind in kinds() {
        let list = split(kind.list);
        assert!(has(&list) && has(&split(kind.witness)), "{}", kind.name());
        let is_list = at(&schema, &schema, &[&list[..], &["*"]].concat()).is_some();
        for path in paths(kind) {
            let full = match path.strip_prefix("pci:") {
                Some(path) => [&["pci", "devices", "*"][..], &split(path)].concat(),
                None if is_list => [&list[..], &["*"], &split(path)].concat(),
                None => [&list[..], &split(path)].concat(),
            };
            assert!(has(&full), "{}: {full:?}", kind.name());
        }
    }
}

/// What `text` has between backquotes.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

#[test]
fn table_of_faults_names_existing_tests_and_all_findings_of_the_broken_machine() {
    let document = read("docs/faults.md");
    let mut codes = Vec::new();
    let mut n_tests = 0;
    for line in document.lines().filter(|line| line.starts_with("| ")).skip(1) {
        let cells: Vec<&str> = line.split(" | ").collect();
        let [_, _, arrives, _, _, test] = cells[..] else { panic!("{line}") };
        codes.extend(quoted(arrives));
        if let [name] = quoted(test)[..] {
            let (file, function) = name.split_once("::").unwrap();
            let source = read(&format!("tests/vm/{file}.rs"));
            assert!(source.contains(&format!("#[test]\nfn {function}()")), "{name}");
            n_tests += 1;
        } else {
            assert!(n_tests > 0 && test.starts_with("the same"), "{line}");
        }
    }
    for code in codes.iter().filter(|code| code.contains('.')) {
        assert!(row(code).is_some(), "no finding has the code {code}");
    }
    let source = read("tests/vm/faults.rs");
    let list = source.split("const FINDINGS").nth(1).unwrap().split("];").next().unwrap();
    let of_machine: Vec<&str> = list
        .lines()
        .filter_map(|line| line.trim().strip_prefix("(\"")?.split('"').next())
        .collect();
    assert!(of_machine.len() > 5, "{list}");
    for code in of_machine {
        assert!(codes.contains(&code), "docs/faults.md lacks {code}");
    }
}
