//! `probes/FACTS.md` and the report's schema list the same keys.

use serde_json::Value;

use crate::util::{json, read};

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

/// The patterns of keys in the second column of a table's row.
fn patterns(row: &str) -> Vec<Vec<String>> {
    let cell = row.split('|').nth(2).unwrap_or_default();
    let quoted = cell.split('`').skip(1).step_by(2);
    let keys = quoted.filter(|key| !key.starts_with("--") && !key.contains('…'));
    keys.flat_map(spelled_out).map(|key| key.split('.').map(str::to_owned).collect()).collect()
}

/// The patterns of every row.
fn documented() -> Vec<Vec<Vec<String>>> {
    read("probes/FACTS.md").lines().filter(|line| line.starts_with('|')).map(patterns).collect()
}

fn is_match(name: &str, pattern: &str) -> bool {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(_), Some(_)) => name.contains(pattern.trim_matches('*')),
        (Some(end), None) => name.ends_with(end),
        (None, Some(start)) => name.starts_with(start),
        (None, None) => name == pattern,
    }
}

/// Whether `pattern` names `path`. A pattern begins at the top of the report; only one that ends in `.*` covers
/// the keys below it, at any depth.
fn covers(pattern: &[String], path: &[String]) -> bool {
    let (pattern, has_length) = match pattern.split_last() {
        Some((last, above)) if last == "*" => (above, path.len() > above.len()),
        _ => (pattern, path.len() == pattern.len()),
    };
    has_length && path.iter().zip(pattern).all(|(name, pattern)| is_match(name, pattern))
}

/// The paths that none of the rows names.
fn undocumented(paths: &[Vec<String>], rows: &[Vec<Vec<String>>]) -> Vec<String> {
    let is_named = |path: &Vec<String>| rows.iter().flatten().any(|p| covers(p, path));
    paths.iter().filter(|path| !is_named(path)).map(|path| path.join(".")).collect()
}

#[test]
fn facts_md_names_every_key_of_the_report_and_no_other() {
    let (paths, rows) = (paths(&json("schema report")), documented());
    assert!(paths.len() > 500 && rows.len() > 60, "{} {}", paths.len(), rows.len());
    let missing = undocumented(&paths, &rows);
    assert!(missing.is_empty(), "probes/FACTS.md lacks {missing:#?}");
    let stale: Vec<String> = rows
        .iter()
        .flatten()
        .filter(|pattern| !paths.iter().any(|path| covers(pattern, path)))
        .map(|pattern| pattern.join("."))
        .collect();
    assert!(stale.is_empty(), "probes/FACTS.md names keys that no report has: {stale:#?}");
}

#[test]
fn pattern_begins_at_the_top_of_the_report() {
    let key = |key: &str| key.split('.').map(str::to_owned).collect::<Vec<_>>();
    let path = key("block.disks.serial");
    for pattern in
        ["block.disks.serial", "block.disks.ser*", "*.*isk*.*eria*", "block.*", "block.disks.*"]
    {
        assert!(covers(&key(pattern), &path), "{pattern}");
    }
    for pattern in ["disks.serial", "serial", "block", "block.disks", "block.disks.serial.*"] {
        assert!(!covers(&key(pattern), &path), "{pattern}");
    }
    assert_eq!(spelled_out("a.{b,c}[].{d,e}"), ["a.b.d", "a.b.e", "a.c.d", "a.c.e"]);
}

#[test]
fn new_key_below_a_section_needs_a_row() {
    let paths = ["bmc.new_key", "os.new_key", "smbios.new_key", "block.disks.new_key"];
    let paths = paths.map(|path| path.split('.').map(str::to_owned).collect());
    assert_eq!(undocumented(&paths, &documented()).len(), paths.len());
}
