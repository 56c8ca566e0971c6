//! A place in a config: the value and its path, e.g. `$.storage.files.0`.
//!
//! The value comes from the typed config, so it contains no unknown keys, nulls or wrong types.

use serde_json::Value;

/// A value of the config and its path.
#[derive(Debug, Clone)]
pub(super) struct At<'a> {
    pub(super) value: &'a Value,
    pub(super) path: String,
}

impl<'a> At<'a> {
    pub(super) fn root(config: &'a Value) -> Self {
        At { value: config, path: "$".to_owned() }
    }

    /// The value of `key`, `None` if it is absent.
    pub(super) fn get(&self, key: &str) -> Option<At<'a>> {
        let value = self.value.get(key).filter(|value| !value.is_null())?;
        Some(At { value, path: format!("{}.{key}", self.path) })
    }

    /// The members of the list `key`; none if it is absent.
    pub(super) fn items(&self, key: &str) -> impl Iterator<Item = At<'a>> + use<'a> {
        self.get(key).into_iter().flat_map(|list| list.members())
    }

    /// The members of this list.
    pub(super) fn members(&self) -> impl Iterator<Item = At<'a>> + use<'a> {
        let path = self.path.clone();
        let list = self.value.as_array().map_or(&[][..], Vec::as_slice);
        list.iter().enumerate().map(move |(i, value)| At { value, path: format!("{path}.{i}") })
    }

    /// The places that `pattern` matches below this one, e.g. `files.*.contents`; `*` is each member of a list.
    pub(super) fn each(&self, pattern: &str) -> Vec<At<'a>> {
        pattern.split('.').fold(vec![self.clone()], |found, part| match part {
            "*" => found.iter().flat_map(At::members).collect(),
            key => found.iter().filter_map(|at| at.get(key)).collect(),
        })
    }

    /// This text; empty if it is not a text.
    pub(super) fn text(&self) -> &'a str {
        self.value.as_str().unwrap_or_default()
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

    /// True if the flag `key` is set and true.
    pub(super) fn is_true(&self, key: &str) -> bool {
        self.value.get(key) == Some(&Value::Bool(true))
    }

    /// True if the list `key` has a member.
    pub(super) fn has_items(&self, key: &str) -> bool {
        self.items(key).next().is_some()
    }
}
