//! The name of a host, and the file of a config that sets it.
//!
//! Sources: RFC 1123 §2.1; hostname(5).

use serde_json::{Value, json};

/// The file that holds the name of the installed system.
const HOSTNAME_FILE: &str = "/etc/hostname";

/// The form of a host name, for messages.
pub const EXPECTED: &str = "letters, digits, dashes and dots";

/// Adds the name as `/etc/hostname` to a config of spec 3.
///
/// A config that has a file, directory or link there keeps it: its author knew the name. A config of another spec or
/// form stays as it is, for [`crate::check()`] to refuse. The name itself must have the form of RFC 1123.
///
/// # Errors
/// [`EXPECTED`] if the name has another form.
pub fn add_hostname(config: &mut Value, name: &str) -> Result<(), &'static str> {
    if !is_host_name(name) {
        return Err(EXPECTED);
    }
    let version = config.pointer("/ignition/version").and_then(Value::as_str);
    if version.is_some_and(|version| version.starts_with("3.")) && !has_hostname(config) {
        let file = json!({
            "path": HOSTNAME_FILE, "mode": 0o644, "overwrite": true,
            "contents": {"source": format!("data:,{name}")},
        });
        push_file(config, file);
    }
    Ok(())
}

/// True if the config has a file, directory or link at the path of the host's name.
fn has_hostname(config: &Value) -> bool {
    let lists = ["files", "directories", "links"];
    let entries = lists.iter().filter_map(|list| config["storage"][list].as_array()).flatten();
    entries.into_iter().any(|entry| entry["path"] == HOSTNAME_FILE)
}

/// Appends a file, unless what should be a list or an object is neither.
fn push_file(config: &mut Value, file: Value) -> Option<()> {
    let storage = config.as_object_mut()?.entry("storage").or_insert_with(|| json!({}));
    let files = storage.as_object_mut()?.entry("files").or_insert_with(|| json!([]));
    files.as_array_mut()?.push(file);
    Some(())
}

/// RFC 1123 §2.1, as far as characters and lengths go.
pub(crate) fn is_host_name(text: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(config: &Value, name: &str) -> Result<Value, &'static str> {
        let mut config = config.clone();
        add_hostname(&mut config, name).map(|()| config)
    }

    #[test]
    fn name_is_added_once_and_a_config_keeps_its_own() {
        let config = json!({"ignition": {"version": "3.2.0"}});
        let once = named(&config, "n1.lab").unwrap();
        assert_eq!(once["storage"]["files"][0]["contents"]["source"], "data:,n1.lab");
        assert!(has_hostname(&once) && !has_hostname(&config));
        assert_eq!(named(&once, "n2").unwrap(), once);
        let link = json!({"ignition": {"version": "3.2.0"},
            "storage": {"links": [{"path": "/etc/hostname", "target": "/x"}]}});
        assert_eq!(named(&link, "n1").unwrap(), link);
    }

    #[test]
    fn configs_of_another_form_and_other_names_are_left_alone() {
        for config in [
            json!({"ignition": {"version": "2.2.0"}}),
            json!({"ignition": {"version": "3.2.0"}, "storage": []}),
            json!({"ignition": {"version": "3.2.0"}, "storage": {"files": {}}}),
            json!([]),
        ] {
            assert_eq!(named(&config, "n1").unwrap(), config);
        }
        let config = json!({"ignition": {"version": "3.2.0"}});
        for name in ["", "a b", "-a", "a..b", "a_b", &"a".repeat(64)] {
            assert_eq!(named(&config, name), Err(EXPECTED), "{name}");
        }
    }
}
