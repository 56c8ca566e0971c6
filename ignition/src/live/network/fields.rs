//! Typed values of nmstate's document, with the path of each in errors.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::{LiveError, refuse};
use crate::text::shown;

pub(super) fn line(out: &mut String, key: &str, value: &str) {
    let _ = writeln!(out, "{key}={value}");
}

pub(super) fn wrong<T>(at: &str, found: &Value, expected: &str) -> Result<T, LiveError> {
    let found = found.as_str().map_or_else(|| found.to_string(), str::to_owned);
    refuse("network", format!("{} at {at}", shown(&found)), expected)
}

pub(super) fn object<'a>(value: &'a Value, at: &str) -> Result<&'a Map<String, Value>, LiveError> {
    match value {
        Value::Object(object) => Ok(object),
        other => wrong(at, other, "a map"),
    }
}

pub(super) fn list<'a>(value: Option<&'a Value>, at: &str) -> Result<&'a [Value], LiveError> {
    match value {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(list)) => Ok(list),
        Some(other) => wrong(at, other, "a list"),
    }
}

/// Refuses the first key that is not in `keys`.
pub(super) fn known(object: &Map<String, Value>, at: &str, keys: &[&str]) -> Result<(), LiveError> {
    match object.keys().find(|key| !keys.contains(&key.as_str())) {
        Some(key) => {
            let at = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
            let expected =
                format!("one of {}; give a NetworkManager keyfile instead", keys.join(", "));
            refuse("network", format!("unknown key {}", shown(&at)), expected)
        }
        None => Ok(()),
    }
}

pub(super) fn one_line<'a>(text: &'a str, at: &str) -> Result<&'a str, LiveError> {
    if text.is_empty() || text.contains(char::is_control) {
        return wrong(at, &text.into(), "text on one line");
    }
    Ok(text)
}

pub(super) fn scalar(value: &Value, at: &str) -> Result<String, LiveError> {
    match value {
        Value::String(text) => one_line(text, at).map(str::to_owned),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(value) => Ok(u8::from(*value).to_string()),
        other => wrong(at, other, "text or a number"),
    }
}

pub(super) fn text(
    object: &Map<String, Value>,
    key: &str,
    at: &str,
) -> Result<Option<String>, LiveError> {
    object.get(key).map(|value| scalar(value, &format!("{at}.{key}"))).transpose()
}

pub(super) fn needed(
    object: &Map<String, Value>,
    key: &str,
    at: &str,
) -> Result<String, LiveError> {
    match text(object, key, at)? {
        Some(text) => Ok(text),
        None => refuse("network", format!("{at} without {key}"), "one"),
    }
}

pub(super) fn number(
    object: &Map<String, Value>,
    key: &str,
    at: &str,
    largest: u64,
) -> Result<Option<u64>, LiveError> {
    let Some(value) = object.get(key) else { return Ok(None) };
    match value.as_u64().filter(|number| *number <= largest) {
        Some(number) => Ok(Some(number)),
        None => wrong(&format!("{at}.{key}"), value, &format!("a number from 0 to {largest}")),
    }
}

pub(super) fn flag(
    object: &Map<String, Value>,
    key: &str,
    at: &str,
) -> Result<Option<bool>, LiveError> {
    match object.get(key) {
        None => Ok(None),
        Some(Value::Bool(flag)) => Ok(Some(*flag)),
        Some(other) => wrong(&format!("{at}.{key}"), other, "true or false"),
    }
}
