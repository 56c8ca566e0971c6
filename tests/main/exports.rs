//! The report in the forms of other programs: what captured machines give, and what holds for every machine.

use serde_json::Value;

use crate::util::{
    assert_expected, assert_refused, captured, json, machines, repository, run, stderr, stdout,
};

/// Formats of `inspect` that are documents of other programs, with the end of the expected file's name.
const FORMATS: [(&str, &str); 3] =
    [("ironic", "ironic.json"), ("metal3", "metal3.json"), ("assisted", "assisted.json")];
/// Keys that are null where their value is unknown, since the consumer needs them.
const MAY_BE_NULL: [&str; 2] = [".inventory.cpu.architecture", ".inventory.memory.physical_mb"];

#[test]
fn every_captured_machine_gives_the_expected_documents() {
    for machine in machines() {
        let root = captured(&machine);
        for (format, end) in FORMATS {
            let printed = run(&format!("inspect --format {format} --root {root}"));
            assert!(printed.status.success(), "{machine}: {}", stderr(&printed));
            let file = repository().join(format!("fixtures/{machine}/expected.{end}"));
            assert_expected(&file, &stdout(&printed));
        }
    }
}

#[test]
fn nothing_unknown_is_exported_as_a_value() {
    for machine in machines() {
        let root = captured(&machine);
        for (format, _) in FORMATS {
            let document = json(&format!("inspect --format {format} --root {root}"));
            let mut empty = Vec::new();
            find_empty(&document, "", &mut empty);
            assert!(empty.is_empty(), "{machine}, {format}: {empty:?}");
        }
    }
}

#[test]
fn formats_of_other_programs_refuse_a_part_of_the_report() {
    let root = captured("plain-guest");
    for (format, _) in FORMATS {
        let words = format!("inspect --format {format} --only cpu --root {root}");
        assert_refused(&words, "--only");
    }
}

#[test]
fn annotation_for_metal3_is_one_line_with_the_details_of_the_resource() {
    let of = |words: &str| format!("inspect {words} --root {}", captured("plain-guest"));
    let annotation = stdout(&run(&of("--format metal3 --as annotation")));
    assert_eq!(annotation.lines().count(), 1);
    let details: Value = serde_json::from_str(&annotation).unwrap();
    assert_eq!(details, json(&of("--format metal3"))["spec"]["hardware"]);
    assert_refused(&of("--format assisted --as annotation"), "--format metal3");
}

/// Adds the path of each value that stands for "unknown".
fn find_empty(value: &Value, path: &str, found: &mut Vec<String>) {
    const UNKNOWN: [&str; 6] = ["", "unknown", "none", "n/a", "0.0.0.0", "00:00:00:00:00:00"];
    // The default route has this destination.
    let is_route = path.starts_with(".routes[");
    let is_empty = match value {
        Value::Null => !MAY_BE_NULL.contains(&path),
        Value::String(text) => {
            !is_route && UNKNOWN.contains(&text.trim().to_ascii_lowercase().as_str())
        }
        Value::Array(elements) => elements.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    };
    if is_empty {
        found.push(path.to_owned());
    }
    match value {
        Value::Array(elements) => {
            for (index, element) in elements.iter().enumerate() {
                find_empty(element, &format!("{path}[{index}]"), found);
            }
        }
        Value::Object(fields) => {
            for (key, field) in fields {
                find_empty(field, &format!("{path}.{key}"), found);
            }
        }
        _ => {}
    }
}
