//! The report in the forms of other programs: what captured machines give, and what holds for every machine.

use serde_json::Value;

use crate::util::{assert_expected, repository, run, stderr, stdout};

/// Formats of `inspect` that are documents of other programs, with the end of the expected file's name.
const FORMATS: [(&str, &str); 3] =
    [("ironic", "ironic.json"), ("metal3", "metal3.json"), ("assisted", "assisted.json")];
/// Captured machines of the repository.
const MACHINES: [&str; 4] = ["crowded-server", "many-nodes", "plain-guest", "two-socket-server"];
/// Keys that are null where their value is unknown, since the consumer needs them.
const MAY_BE_NULL: [&str; 2] = [".inventory.cpu.architecture", ".inventory.memory.physical_mb"];

#[test]
fn every_captured_machine_gives_the_expected_documents() {
    for machine in MACHINES {
        let folder = repository().join("fixtures").join(machine);
        let root = folder.join("root.tar.zst");
        for (format, end) in FORMATS {
            let printed = run(&format!("inspect --format {format} --root {}", root.display()));
            assert!(printed.status.success(), "{machine}: {}", stderr(&printed));
            assert_expected(&folder.join(format!("expected.{end}")), &stdout(&printed));
        }
    }
}

#[test]
fn nothing_unknown_is_exported_as_a_value() {
    for machine in MACHINES {
        let root = repository().join("fixtures").join(machine).join("root.tar.zst");
        for (format, _) in FORMATS {
            let printed = run(&format!("inspect --format {format} --root {}", root.display()));
            let document: Value = serde_json::from_str(&stdout(&printed)).unwrap();
            let mut empty = Vec::new();
            find_empty(&document, "", &mut empty);
            assert!(empty.is_empty(), "{machine}, {format}: {empty:?}");
        }
    }
}

#[test]
fn formats_of_other_programs_refuse_a_part_of_the_report() {
    let root = repository().join("fixtures/plain-guest/root.tar.zst");
    for (format, _) in FORMATS {
        let words = format!("inspect --format {format} --only cpu --root {}", root.display());
        let refused = run(&words);
        assert_eq!(refused.status.code(), Some(2));
        assert!(stderr(&refused).contains("--only"), "{}", stderr(&refused));
    }
}

#[test]
fn annotation_for_metal3_is_one_line_with_the_details_of_the_resource() {
    let root = repository().join("fixtures/plain-guest/root.tar.zst");
    let of = |words: &str| run(&format!("inspect {words} --root {}", root.display()));
    let annotation = stdout(&of("--format metal3 --as annotation"));
    assert_eq!(annotation.lines().count(), 1);
    let details: Value = serde_json::from_str(&annotation).unwrap();
    let resource: Value = serde_json::from_str(&stdout(&of("--format metal3"))).unwrap();
    assert_eq!(details, resource["spec"]["hardware"]);
    let refused = of("--format assisted --as annotation");
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("--format metal3"), "{}", stderr(&refused));
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
