//! `probes/FACTS.md` and the report's schema list the same keys.

use serde_json::Value;

use crate::util::{repository, run, stdout};

/// The keys of the report as paths such as `block.disks.serial`, without numbers of lists.
fn paths(schema: &Value) -> Vec<Vec<String>> {
    fn walk(
        value: &Value,
        schema: &Value,
        path: &[String],
        refs: &[&str],
        found: &mut Vec<Vec<String>>,
    ) {
        if let Some(name) = value["$ref"].as_str() {
            // A type that contains itself.
            if !refs.contains(&name) {
                let target = schema.pointer(name.strip_prefix('#').unwrap()).unwrap();
                walk(target, schema, path, &[refs, &[name]].concat(), found);
            }
            return;
        }
        if value["type"] == "null" {
            return;
        }
        let n_found = found.len();
        for (key, value) in value["properties"].as_object().into_iter().flatten() {
            walk(value, schema, &[path, std::slice::from_ref(key)].concat(), refs, found);
        }
        for inner in ["items", "additionalProperties"] {
            if value[inner].is_object() {
                walk(&value[inner], schema, path, refs, found);
            }
        }
        for choice in ["anyOf", "oneOf", "allOf"] {
            for value in value[choice].as_array().into_iter().flatten() {
                walk(value, schema, path, refs, found);
            }
        }
        if found.len() == n_found && !path.is_empty() {
            found.push(path.to_vec());
        }
    }
    let mut found = Vec::new();
    walk(schema, schema, &[], &[], &mut found);
    found.sort();
    found.dedup();
    found
}

/// `a.{b,c}[].d` as `a.b.d` and `a.c.d`.
fn spelled_out(key: &str) -> Vec<String> {
    let Some((before, (names, after))) =
        key.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
    else {
        return vec![key.replace("[]", "")];
    };
    let each = |name: &str| spelled_out(&format!("{before}{}{after}", name.trim()));
    names.split(',').flat_map(each).collect()
}

/// The keys in the second column of every table: each with the keys below it, at any depth.
fn documented() -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(repository().join("probes/FACTS.md")).unwrap();
    let rows = text.lines().filter(|line| line.starts_with('|'));
    let keys = rows.filter_map(|row| row.split('|').nth(2)).flat_map(|cell| {
        let quoted = cell.split('`').skip(1).step_by(2);
        quoted.filter(|key| !key.starts_with("--") && !key.contains('…')).collect::<Vec<_>>()
    });
    keys.flat_map(spelled_out).map(|key| key.split('.').map(str::to_owned).collect()).collect()
}

fn is_match(name: &str, pattern: &str) -> bool {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(_), Some(_)) => name.contains(pattern.trim_matches('*')),
        (Some(end), None) => name.ends_with(end),
        (None, Some(start)) => name.starts_with(start),
        (None, None) => name == pattern,
    }
}

/// Whether `pattern` names `path` or what contains it; it may leave out where it begins.
fn covers(pattern: &[String], path: &[String]) -> bool {
    path.windows(pattern.len())
        .any(|part| part.iter().zip(pattern).all(|(name, pattern)| is_match(name, pattern)))
}

#[test]
fn facts_md_names_every_key_of_the_report_and_no_other() {
    let schema: Value = serde_json::from_str(&stdout(&run("schema report"))).unwrap();
    let (paths, documented) = (paths(&schema), documented());
    assert!(paths.len() > 500 && documented.len() > 100, "{} {}", paths.len(), documented.len());
    let missing: Vec<String> = paths
        .iter()
        .filter(|path| !documented.iter().any(|pattern| covers(pattern, path)))
        .map(|path| path.join("."))
        .collect();
    assert!(missing.is_empty(), "probes/FACTS.md lacks {missing:#?}");
    let stale: Vec<String> = documented
        .iter()
        .filter(|pattern| !paths.iter().any(|path| covers(pattern, path)))
        .map(|pattern| pattern.join("."))
        .collect();
    assert!(stale.is_empty(), "probes/FACTS.md names keys that no report has: {stale:#?}");
}

#[test]
fn a_key_that_no_row_names_is_found() {
    let pattern = |key: &str| key.split('.').map(str::to_owned).collect::<Vec<_>>();
    let path = pattern("block.disks.serial");
    assert!(covers(&pattern("disks.serial"), &path) && covers(&pattern("block.disks"), &path));
    assert!(covers(&pattern("disks.ser*"), &path) && covers(&pattern("*.*eria*"), &path));
    assert!(
        !covers(&pattern("disks.wwn"), &path) && !covers(&pattern("block.disks.serial.x"), &path)
    );
    assert_eq!(spelled_out("a.{b,c}[].{d,e}"), ["a.b.d", "a.b.e", "a.c.d", "a.c.e"]);
}
