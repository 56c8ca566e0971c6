//! Merges a config into another one as Ignition merges a child into its parent (coreos/ignition, `config/merge` and the
//! `Key`, `IgnoreDuplicates` and `MergedKeys` functions of `config/v3_*/types`).
//!
//! A value of the child replaces the parent's; objects are merged key by key. Entries of most lists have a key, e.g.
//! the path of a file: entries with the same key are merged, the others are appended. Lists of texts are sets, except
//! for options of programs. Files, directories and links share their keys: a link in the child is no longer a file of
//! the parent.

use formats::data;
use serde_json::Value;

type Object = serde_json::Map<String, Value>;

/// Lists by the path to them, with the fields whose first one that is set is the key of an entry.
const KEYED: &str = include_str!("merge.txt");
/// The list of this name has keys wherever it is. A header without a value removes that of the parent.
const HEADERS: &str = "httpHeaders";
/// Lists that share their keys, by the path to the object that contains them.
const SHARED: [(&str, &[&str]); 2] = [
    ("storage", &["directories", "files", "links"]),
    ("kernelArguments", &["shouldExist", "shouldNotExist"]),
];
/// Lists of texts whose order and repetitions have a meaning, by the end of their paths.
const APPENDED: [&str; 3] = [".options", ".mountOptions", ".openOptions"];

/// The parent with the child merged into it, and the higher of their spec versions.
pub fn merge(parent: &Value, child: &Value) -> Value {
    let version = |config: &Value| -> Option<(Vec<u64>, Value)> {
        let text = config.get("ignition")?.get("version")?;
        let numbers = text.as_str()?.split('.').map(|part| part.parse().unwrap_or_default());
        Some((numbers.collect(), text.clone()))
    };
    let newest = version(parent).into_iter().chain(version(child)).max_by(|a, b| a.0.cmp(&b.0));
    let mut merged = value(parent, child, "");
    if let Some((_, version)) = newest
        && let Some(ignition) = merged.get_mut("ignition").and_then(Value::as_object_mut)
    {
        ignition.insert("version".to_owned(), version);
    }
    merged
}

fn value(parent: &Value, child: &Value, path: &str) -> Value {
    match (parent, child) {
        (_, Value::Null) => parent.clone(),
        (Value::Object(parent), Value::Object(child)) => object(parent, child, path).into(),
        (Value::Array(parent), Value::Array(child)) => list(parent, child, path).into(),
        _ => child.clone(),
    }
}

fn object(parent: &Object, child: &Object, path: &str) -> Object {
    let mut merged = parent.clone();
    for (key, of_child) in child {
        let below = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        let of_parent = parent.get(key).unwrap_or(&Value::Null);
        merged.insert(key.clone(), value(of_parent, of_child, &below));
    }
    for one in shared(path) {
        for other in shared(path).iter().filter(|other| *other != one) {
            remove_of_parent(&mut merged, child, path, one, other);
        }
    }
    merged
}

/// Removes entries of `list` whose keys the child has in the list `other`.
fn remove_of_parent(merged: &mut Object, child: &Object, path: &str, list: &str, other: &str) {
    let keys = |list: &str| -> Vec<Value> {
        let entries = child.get(list).and_then(Value::as_array).into_iter().flatten();
        entries.filter_map(|entry| key(entry, &format!("{path}.{list}"))).collect()
    };
    let (own, others) = (keys(list), keys(other));
    if let Some(entries) = merged.get_mut(list).and_then(Value::as_array_mut) {
        entries.retain(|entry| {
            let key = key(entry, &format!("{path}.{list}"));
            key.is_none_or(|key| own.contains(&key) || !others.contains(&key))
        });
    }
}

fn list(parent: &[Value], child: &[Value], path: &str) -> Vec<Value> {
    let is_headers = path.ends_with(HEADERS);
    let mut merged = parent.to_vec();
    for entry in child {
        let key = key(entry, path);
        let is_it = |known: &Value| key.is_some() && self::key(known, path) == key;
        match merged.iter().position(is_it) {
            Some(at) if is_headers && entry.get("value").is_none_or(Value::is_null) => {
                merged.remove(at);
            }
            Some(at) => merged[at] = value(&merged[at], entry, path),
            None => merged.push(entry.clone()),
        }
    }
    merged
}

/// The lists of the object at `path` that share their keys.
pub(crate) fn shared(path: &str) -> &'static [&'static str] {
    SHARED.iter().find(|(place, _)| *place == path).map_or(&[], |(_, lists)| lists)
}

/// The key of an entry of the list at `path`; `None` if its entries have none. A text is its own key.
pub(crate) fn key(entry: &Value, path: &str) -> Option<Value> {
    if entry.is_string() {
        let is_appended = APPENDED.iter().any(|list| path.ends_with(list));
        return (!is_appended).then(|| entry.clone());
    }
    let known = data::lookup(KEYED, path);
    let fields = known.or_else(|| path.ends_with(HEADERS).then_some("name"))?;
    let mut set = fields.split(' ').filter_map(|field| entry.get(field));
    set.find(|value| !value.is_null() && value.as_u64() != Some(0)).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn entries_with_the_same_key_are_merged_and_others_appended() {
        let parent = json!({
            "ignition": {"version": "3.2.0", "config": {"merge": [{"source": "https://mcs/worker"}]}},
            "storage": {"files": [
                {"path": "/etc/a", "mode": 420, "contents": {"source": "data:,1"}},
                {"path": "/etc/b", "append": [{"source": "data:,x"}]},
            ]},
            "systemd": {"units": [{"name": "x.service", "dropins": [{"name": "1.conf", "contents": "a"}]}]},
            "passwd": {"users": [{"name": "core", "sshAuthorizedKeys": ["k1"]}]},
        });
        let child = json!({
            "ignition": {"version": "3.1.0"},
            "storage": {"files": [
                {"path": "/etc/hostname", "contents": {"source": "data:,n1"}},
                {"path": "/etc/a", "contents": {"source": "data:,2"}},
                {"path": "/etc/b", "append": [{"source": "data:,x"}]},
            ]},
            "systemd": {"units": [{"name": "x.service", "enabled": true,
                "dropins": [{"name": "1.conf", "contents": "b"}, {"name": "2.conf"}]}]},
            "passwd": {"users": [{"name": "core", "sshAuthorizedKeys": ["k2", "k1"]}]},
        });
        let expected = json!({
            "ignition": {"version": "3.2.0", "config": {"merge": [{"source": "https://mcs/worker"}]}},
            "storage": {"files": [
                {"path": "/etc/a", "mode": 420, "contents": {"source": "data:,2"}},
                {"path": "/etc/b", "append": [{"source": "data:,x"}, {"source": "data:,x"}]},
                {"path": "/etc/hostname", "contents": {"source": "data:,n1"}},
            ]},
            "systemd": {"units": [{"name": "x.service", "enabled": true,
                "dropins": [{"name": "1.conf", "contents": "b"}, {"name": "2.conf"}]}]},
            "passwd": {"users": [{"name": "core", "sshAuthorizedKeys": ["k1", "k2"]}]},
        });
        assert_eq!(merge(&parent, &child), expected);
    }

    #[test]
    fn what_is_a_link_in_the_child_is_no_file_of_the_parent() {
        let parent = json!({
            "ignition": {"version": "3.3.0"},
            "storage": {"files": [{"path": "/a"}, {"path": "/b"}]},
            "kernelArguments": {"shouldExist": ["quiet", "x"]},
        });
        let child = json!({
            "storage": {"links": [{"path": "/a", "target": "/c"}]},
            "kernelArguments": {"shouldNotExist": ["quiet"]},
        });
        let merged = merge(&parent, &child);
        assert_eq!(merged["storage"]["files"], json!([{"path": "/b"}]));
        assert_eq!(merged["storage"]["links"], json!([{"path": "/a", "target": "/c"}]));
        let arguments = json!({"shouldExist": ["x"], "shouldNotExist": ["quiet"]});
        assert_eq!(merged["kernelArguments"], arguments);
        assert_eq!(merge(&merged, &child), merged, "the same overrides again");
    }

    #[test]
    fn options_are_appended_and_a_header_without_a_value_is_removed() {
        let config = |options: Value, headers: Value| {
            json!({
                "ignition": {"version": "3.4.0"},
                "storage": {
                    "filesystems": [{"device": "/dev/sdb1", "options": options}],
                    "files": [{"path": "/a", "contents": {"source": "https://h/a", "httpHeaders": headers}}],
                },
            })
        };
        let parent = config(
            json!(["-f"]),
            json!([{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]),
        );
        let child = config(json!(["-f"]), json!([{"name": "A", "value": null}]));
        let merged = merge(&parent, &child);
        assert_eq!(merged["storage"]["filesystems"][0]["options"], json!(["-f", "-f"]));
        let headers = &merged["storage"]["files"][0]["contents"]["httpHeaders"];
        assert_eq!(headers, &json!([{"name": "B", "value": "2"}]));
    }
}
