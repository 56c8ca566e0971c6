//! Keys that a later version of the spec added, which earlier versions do not know.
//!
//! From 3.0 to 3.6 the spec only grew, so the types of 3.6 can parse every version, and this table lists what earlier
//! versions lack. A test compares it with the types that `ignition-config` has for each version. (All seven sets of
//! types would enlarge the program by 0.8 MB.)

use formats::data;
use serde_json::Value;

/// Keys with the minor version of the spec that added them.
const ADDED: &str = include_str!("later.txt");

/// Removes from `config` what versions above `minor` added, and returns the paths.
pub(super) fn take_out(config: &mut Value, minor: u64) -> Vec<String> {
    let mut taken = Vec::new();
    let is_later = |added: &str| added.parse::<u64>().is_ok_and(|added| added > minor);
    let rows = data::rows(ADDED).filter_map(data::cells);
    for [_, key] in rows.filter(|[added, _]| is_later(added)) {
        let parts: Vec<&str> = key.split('.').collect();
        take(config, &parts, "$", &mut taken);
    }
    taken
}

fn take(value: &mut Value, parts: &[&str], path: &str, taken: &mut Vec<String>) {
    match (value, parts) {
        (Value::Array(list), ["*", rest @ ..]) => {
            for (index, item) in list.iter_mut().enumerate() {
                take(item, rest, &format!("{path}.{index}"), taken);
            }
        }
        (Value::Object(map), [last]) => {
            let removed = map.shift_remove(*last).filter(|value| !value.is_null());
            taken.extend(removed.map(|_| format!("{path}.{last}")));
        }
        (Value::Object(map), [key, rest @ ..]) => {
            if let Some(inner) = map.get_mut(*key) {
                take(inner, rest, &format!("{path}.{key}"), taken);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use ignition_config::Config;

    use super::*;

    /// A config with every key that any version has.
    const FULL: &str = include_str!("full.json");

    #[test]
    fn table_matches_the_types_of_each_version() {
        for minor in 0..=6 {
            let text = FULL.replace("3.6.0", &format!("3.{minor}.0"));
            let mut config = serde_json::from_str(&text).unwrap();
            let (_, unused) = Config::parse_str(&text).unwrap();
            let keys = unused.iter().map(|key| key.to_string().replacen("unused key: ", "", 1));
            let mut expected: Vec<String> = keys.collect();
            let mut taken = take_out(&mut config, minor);
            expected.sort();
            taken.sort();
            assert_eq!(taken, expected, "3.{minor}.0");
        }
    }
}
