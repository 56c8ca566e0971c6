//! A place in a config: the value and its path, e.g. `$.storage.files.0`.
//!
//! The value comes from the typed config, so it contains no unknown keys, nulls or wrong types.

use std::collections::HashSet;

use serde_json::Value;

use super::findings::Findings;
use crate::text::shown;

/// A value of the config and its path.
#[derive(Debug, Clone)]
pub(super) struct At<'a> {
    pub(super) value: &'a Value,
    pub(super) path: String,
}

impl<'a> At<'a> {
    /// The value of `key`, `None` if it is absent.
    pub(super) fn get(&self, key: &str) -> Option<At<'a>> {
        let value = self.value.get(key).filter(|value| !value.is_null())?;
        Some(At { value, path: format!("{}.{key}", self.path) })
    }

    /// The members of the list `key`; none if it is absent.
    pub(super) fn items(&self, key: &str) -> impl Iterator<Item = At<'a>> + use<'a> {
        let path = format!("{}.{key}", self.path);
        let list = self.value.get(key).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        list.iter().enumerate().map(move |(i, value)| At { value, path: format!("{path}.{i}") })
    }

    pub(super) fn text(&self) -> Option<&'a str> {
        self.value.as_str()
    }

    /// The string `key`, `None` if it is absent.
    pub(super) fn str(&self, key: &str) -> Option<&'a str> {
        self.value.get(key).and_then(Value::as_str)
    }

    /// The string `key`, `None` if it is absent or empty: Ignition treats both alike.
    pub(super) fn filled(&self, key: &str) -> Option<&'a str> {
        self.str(key).filter(|text| !text.is_empty())
    }

    pub(super) fn int(&self, key: &str) -> Option<i64> {
        self.value.get(key).and_then(Value::as_i64)
    }

    pub(super) fn bool(&self, key: &str) -> Option<bool> {
        self.value.get(key).and_then(Value::as_bool)
    }

    /// Whether the list `key` has a member.
    pub(super) fn has_items(&self, key: &str) -> bool {
        self.items(key).next().is_some()
    }
}

/// Refuses a second member with the same key, which `key` extracts.
pub(super) fn refuse_duplicates<'a>(
    members: impl Iterator<Item = At<'a>>,
    findings: &mut Findings,
    key: impl Fn(&At<'a>) -> Option<&'a str>,
) {
    let mut seen = HashSet::new();
    for at in members {
        if let Some(key) = key(&at)
            && !seen.insert(key)
        {
            findings.problem(&at.path, format!("{} a second time", shown(key)), "only one");
        }
    }
}
