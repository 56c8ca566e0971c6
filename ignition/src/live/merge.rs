//! Merges the live image's config as a child into a user's, e.g. `bootstrap-in-place-for-live-iso.ign` of openshift-install.
//!
//! The child wins, so the agent's files would replace those of the user without a word, and what the user adds to them (drop-ins,
//! `append`, `mask`) would change the agent. Both are refused.

use std::collections::BTreeMap;

use serde_json::Value;

use super::LiveError;
use super::checks::{refuse, require};
use crate::check;
use crate::text::shown;

/// The lists whose entries both configs may have, with the field that is their key.
const LISTS: [(&str, &str, &str); 4] = [
    ("storage", "directories", "path"),
    ("storage", "files", "path"),
    ("storage", "links", "path"),
    ("systemd", "units", "name"),
];

/// The lists that write to disks when the live image boots.
const OF_DISKS: [&str; 4] = ["disks", "raid", "luks", "filesystems"];

/// The text of `parent` with `child`, the live image's config, merged into it.
///
/// # Errors
/// If Ignition would refuse one of them, or the agent would be lost or changed.
pub(super) fn merged(parent: &str, child: &str) -> Result<String, LiveError> {
    check(parent.as_bytes()).map_err(LiveError::Merge)?;
    let value = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
    let (parent, child) = (value(parent), value(child));
    let is_filled = |list: &Value| list.as_array().is_some_and(|entries| !entries.is_empty());
    let config = &parent["ignition"]["config"];
    let names_others = config["replace"]["source"].is_string() || is_filled(&config["merge"]);
    let found = "a config that names others (ignition.config), which would override the agent";
    require(!names_others, "merge", found, "those configs themselves")?;
    if let Some(list) = OF_DISKS.iter().find(|list| is_filled(&parent["storage"][**list])) {
        let found = format!(
            "a config with storage.{list}, which changes disks before the agent checks them"
        );
        return refuse("merge", found, "one that leaves disks to the agent");
    }
    both(&parent, &child)?;
    let json = format!("{:#}\n", crate::merge::merge(&parent, &child));
    check(json.as_bytes()).map_err(LiveError::Merge).map(|_| json)
}

/// Refuses what both configs define, unless they agree or only drop-ins are added, and what has the agent's name.
fn both(parent: &Value, child: &Value) -> Result<(), LiveError> {
    let entries = |config: &Value, (section, list, key): (&str, &str, &str)| {
        let entries = config[section][list].as_array().cloned().unwrap_or_default();
        let named = |entry: Value| (entry[key].as_str().unwrap_or_default().to_owned(), entry);
        entries.into_iter().map(named).collect::<Vec<_>>()
    };
    let of = |config: &Value| -> Vec<(String, Value)> {
        LISTS.into_iter().flat_map(|list| entries(config, list)).collect()
    };
    let ours: BTreeMap<String, Value> = of(child).into_iter().collect();
    for (name, entry) in of(parent) {
        let is_free = match ours.get(&name) {
            Some(own) => *own == entry || own["path"].is_null() && own["contents"].is_null(),
            None => !name.contains("run-coreos-installer"),
        };
        let found = format!("a config that defines {} in another way", shown(&name));
        require(is_free, "merge", found, "one without it, as the live image's config has its own")?;
    }
    Ok(())
}
