//! Translates the Butane tree to an Ignition config, as far as the template uses Butane.
//!
//! Source: Butane `docs/config-fcos-v1_4.md` and `docs/specs.md`.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::Spec;

/// Translates a filled template.
pub(super) fn to_ignition(butane: &Value, spec: Spec) -> Value {
    let mut config = Map::new();
    config.insert("ignition".to_owned(), json!({ "version": spec.ignition() }));
    for (key, value) in butane.as_object().into_iter().flatten() {
        match (key.as_str(), translate(key, value)) {
            ("variant" | "version", _) => {}
            ("ignition", Value::Object(fields)) => {
                if let Some(Value::Object(ignition)) = config.get_mut("ignition") {
                    ignition.extend(fields);
                }
            }
            (_, value) => {
                config.insert(camel_case(key), value);
            }
        }
    }
    config.into()
}

fn translate(key: &str, value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .filter(|(key, _)| *key != "why")
            .map(|(key, value)| match (key.as_str(), value.as_str()) {
                ("inline", Some(text)) => ("source".to_owned(), text_url(text).into()),
                _ => (camel_case(key), translate(key, value)),
            })
            .collect::<Map<_, _>>()
            .into(),
        Value::Array(members) => members.iter().map(|member| translate(key, member)).collect(),
        Value::String(text) if key == "mode" => {
            u32::from_str_radix(text, 8).map_or_else(|_| value.clone(), Value::from)
        }
        other => other.clone(),
    }
}

/// `ssh_authorized_keys` is `sshAuthorizedKeys` in Ignition.
fn camel_case(key: &str) -> String {
    let mut parts = key.split('_');
    let mut name = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let mut letters = part.chars();
        name.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        name.push_str(letters.as_str());
    }
    name
}

/// A data URL of text; all but letters, digits and `-._~/:` is percent-encoded.
pub(super) fn text_url(text: &str) -> String {
    text.bytes().fold("data:,".to_owned(), |mut url, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~/:".contains(&byte) {
            url.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(url, "%{byte:02X}");
        }
        url
    })
}
