//! Deserialises maps whose keys are numbers. JSON writes such a key as text, and serde does not convert it
//! back where a struct is flattened into another.

use std::collections::BTreeMap;

use serde::de::{Deserialize, Deserializer, Error as _};

pub(crate) fn deserialize<'de, D, V>(deserializer: D) -> Result<BTreeMap<u32, V>, D::Error>
where
    D: Deserializer<'de>,
    V: Deserialize<'de>,
{
    let texts = BTreeMap::<String, V>::deserialize(deserializer)?;
    let number = |key: &str| {
        key.parse().map_err(|_| D::Error::custom(format!("the key {key:?} is no number")))
    };
    texts.into_iter().map(|(key, value)| Ok((number(&key)?, value))).collect()
}
