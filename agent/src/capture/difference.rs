//! Compares two reports of one machine, except for times and the section `live`.

use serde_json::Value;

/// Keys whose values differ from run to run.
const TIMES: [&str; 4] = ["collected_at", "duration_ms", "timings", "live"];
/// More than these are not listed.
const LIMIT: usize = 20;

/// Returns the keys at which the reports differ, as `block.disks.0.serial`; empty for the same report.
///
/// # Errors
/// If one of them is not JSON.
pub(super) fn differences(one: &str, other: &str) -> anyhow::Result<Vec<String>> {
    let mut found = Vec::new();
    compare("", &value(one)?, &value(other)?, &mut found);
    Ok(found)
}

/// Returns the keys at which the reports differ in more than text content and the list order that
/// depends on it.
///
/// # Errors
/// If one of them is not JSON.
pub(super) fn other_shapes(one: &str, other: &str) -> anyhow::Result<Vec<String>> {
    let mut found = Vec::new();
    compare("", &without_texts(value(one)?), &without_texts(value(other)?), &mut found);
    Ok(found)
}

/// Returns `value` with every text empty.
fn without_texts(value: Value) -> Value {
    match value {
        Value::String(_) => Value::String(String::new()),
        Value::Array(list) => {
            let mut list: Vec<Value> = list.into_iter().map(without_texts).collect();
            list.sort_by_cached_key(Value::to_string);
            Value::Array(list)
        }
        Value::Object(keys) => {
            keys.into_iter().map(|(key, value)| (key, without_texts(value))).collect()
        }
        other => other,
    }
}

/// Returns a report without its times.
fn value(json: &str) -> anyhow::Result<Value> {
    let mut value = crate::output::tree(json)?;
    if let Some(keys) = value.as_object_mut() {
        keys.retain(|key, _| !TIMES.contains(&key.as_str()));
    }
    Ok(value)
}

fn compare(path: &str, one: &Value, other: &Value, found: &mut Vec<String>) {
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match (one, other) {
        _ if one == other || found.len() >= LIMIT => {}
        (Value::Object(one), Value::Object(other)) => {
            for key in one.keys().chain(other.keys().filter(|key| !one.contains_key(*key))) {
                let of = |keys: &serde_json::Map<String, Value>| keys.get(key).cloned();
                let (one, other) = (of(one).unwrap_or_default(), of(other).unwrap_or_default());
                compare(&below(key), &one, &other, found);
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (at, (one, other)) in one.iter().zip(other).enumerate() {
                compare(&below(&at.to_string()), one, other, found);
            }
        }
        _ => found.push(path.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn times_and_live_are_no_differences_and_no_report_is_an_error() {
        let one = r#"{"live": {"uptime_s": 1}, "duration_ms": 1, "a": 1}"#;
        assert!(differences(one, r#"{"duration_ms": 2, "a": 1}"#).unwrap().is_empty());
        assert_eq!(differences(one, r#"{"a": 2}"#).unwrap(), ["a"]);
        assert!(differences(one, "").is_err() && other_shapes("nul", one).is_err());
    }

    #[test]
    fn a_difference_is_named_by_its_key() {
        let mut found = Vec::new();
        let one = json!({"a": [{"b": 1}, {"b": 2}], "c": 3, "d": []});
        let other = json!({"a": [{"b": 1}, {"b": 4}], "d": [1]});
        compare("", &one, &other, &mut found);
        assert_eq!(found, ["a.1.b", "c", "d"]);
        found.clear();
        compare("", &one, &one, &mut found);
        let renamed = without_texts(json!({"a": "x", "b": ["y", 1]}));
        compare("", &renamed, &without_texts(json!({"a": "z", "b": [1, "w"]})), &mut found);
        assert!(found.is_empty());
    }
}
