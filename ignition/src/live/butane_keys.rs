//! Checks the Butane output strictly: only keys that its version has, each with a value of the right kind.
//!
//! Source: Butane `docs/config-fcos-v1_0.md` to `docs/config-fcos-v1_6.md`. `butane --strict` refuses the same; the tests run
//! it where it is installed, but no distribution of theirs packages it.

use std::collections::BTreeSet;

use serde_json::Value;

use super::tests::all;
use super::{Settings, Spec, butane_yaml};

/// The keys that the template uses: the path, the kind of the value, and the first minor spec version.
const KEYS: [(&str, Kind, u8); 43] = [
    ("variant", Kind::Text, 0),
    ("version", Kind::Text, 0),
    ("ignition", Kind::Object, 0),
    ("ignition.proxy", Kind::Object, 1),
    ("ignition.proxy.http_proxy", Kind::Text, 1),
    ("ignition.proxy.https_proxy", Kind::Text, 1),
    ("ignition.proxy.no_proxy", Kind::List, 1),
    ("ignition.proxy.no_proxy[]", Kind::Text, 1),
    ("ignition.security", Kind::Object, 0),
    ("ignition.security.tls", Kind::Object, 0),
    ("ignition.security.tls.certificate_authorities", Kind::List, 0),
    ("ignition.security.tls.certificate_authorities[]", Kind::Object, 0),
    ("ignition.security.tls.certificate_authorities[].source", Kind::Text, 0),
    ("ignition.security.tls.certificate_authorities[].inline", Kind::Text, 1),
    ("systemd", Kind::Object, 0),
    ("systemd.units", Kind::List, 0),
    ("systemd.units[]", Kind::Object, 0),
    ("systemd.units[].name", Kind::Text, 0),
    ("systemd.units[].enabled", Kind::Flag, 0),
    ("systemd.units[].contents", Kind::Text, 0),
    ("systemd.units[].dropins", Kind::List, 0),
    ("systemd.units[].dropins[]", Kind::Object, 0),
    ("systemd.units[].dropins[].name", Kind::Text, 0),
    ("systemd.units[].dropins[].contents", Kind::Text, 0),
    ("storage", Kind::Object, 0),
    ("storage.files", Kind::List, 0),
    ("storage.files[]", Kind::Object, 0),
    ("storage.files[].path", Kind::Text, 0),
    ("storage.files[].overwrite", Kind::Flag, 0),
    ("storage.files[].mode", Kind::Octal, 0),
    ("storage.files[].contents", Kind::Object, 0),
    ("storage.files[].contents.inline", Kind::Text, 0),
    ("storage.files[].contents.source", Kind::Text, 0),
    ("storage.files[].contents.compression", Kind::Text, 0),
    ("storage.files[].contents.verification", Kind::Object, 0),
    ("storage.files[].contents.verification.hash", Kind::Text, 0),
    ("passwd", Kind::Object, 0),
    ("passwd.users", Kind::List, 0),
    ("passwd.users[]", Kind::Object, 0),
    ("passwd.users[].name", Kind::Text, 0),
    ("passwd.users[].password_hash", Kind::Text, 0),
    ("passwd.users[].ssh_authorized_keys", Kind::List, 0),
    ("passwd.users[].ssh_authorized_keys[]", Kind::Text, 0),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Flag,
    /// Digits with a leading zero, an integer in YAML 1.1 and so in Butane.
    Octal,
    List,
    Object,
}

fn is_of(kind: Kind, value: &Value) -> bool {
    match kind {
        Kind::Text => value.is_string(),
        Kind::Flag => value.is_boolean(),
        Kind::Octal => value.is_u64() || value.as_str().is_some_and(|text| text.starts_with('0')),
        Kind::List => value.as_array().is_some_and(|list| !list.is_empty()),
        Kind::Object => value.as_object().is_some_and(|object| !object.is_empty()),
    }
}

/// Adds what Butane would refuse below `path`.
fn refused(
    path: &str,
    value: &Value,
    minor: u8,
    used: &mut BTreeSet<String>,
    out: &mut Vec<String>,
) {
    if !path.is_empty() {
        match KEYS.iter().find(|(key, ..)| *key == path) {
            Some((_, kind, since)) if is_of(*kind, value) && *since <= minor => {
                used.insert(path.to_owned());
            }
            found => out.push(format!("3.{minor}: {path}: {found:?}: {value}")),
        }
    }
    match value {
        Value::Object(fields) => {
            if fields.contains_key("inline") == fields.contains_key("source")
                && path.ends_with(".contents")
            {
                out.push(format!("{path}: either inline or source"));
            }
            for (key, value) in fields {
                let dot = if path.is_empty() { "" } else { "." };
                refused(&format!("{path}{dot}{key}"), value, minor, used, out);
            }
        }
        Value::Array(members) => {
            for member in members {
                refused(&format!("{path}[]"), member, minor, used, out);
            }
        }
        _ => {}
    }
}

#[test]
fn butane_of_every_spec_has_only_keys_of_its_version() {
    let mut used = BTreeSet::new();
    let mut out = Vec::new();
    for minor in 0..=5 {
        for (name, settings) in all() {
            let settings = Settings { spec: Spec::new(minor).unwrap(), ..settings };
            let yaml: Value = yaml_serde::from_str(&butane_yaml(&settings).unwrap()).unwrap();
            let before = out.len();
            refused("", &yaml, minor, &mut used, &mut out);
            assert_eq!(out.len(), before, "{name}: {out:#?}");
        }
    }
    let unused: Vec<&str> =
        KEYS.iter().map(|(key, ..)| *key).filter(|key| !used.contains(*key)).collect();
    assert_eq!(unused, [""; 0], "the settings of the tests use every key of the template");
}

#[test]
fn key_of_a_later_version_and_value_of_another_kind_are_found() {
    let found = |yaml: &str, minor| {
        let yaml: Value = yaml_serde::from_str(yaml).unwrap();
        let mut out = Vec::new();
        refused("", &yaml, minor, &mut BTreeSet::new(), &mut out);
        out.len()
    };
    assert_eq!(found("ignition: {proxy: {http_proxy: x}}", 0), 2);
    assert_eq!(found("ignition: {proxy: {http_proxy: x}}", 1), 0);
    assert_eq!(found("systemd: {units: [{name: a.service, enabled: 'yes'}]}", 3), 1);
    assert_eq!(found("storage: {files: [{path: /x, contents: {inline: a, source: b}}]}", 3), 1);
    assert_eq!(found("storage: {directories: []}", 3), 1);
}
