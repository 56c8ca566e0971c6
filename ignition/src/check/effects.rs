//! What a config does to disks at the first boot, and whether it lets anyone log in. Ignition forbids none of it.
//!
//! Sources: Ignition `internal/exec/stages/disks/*.go`, `docs/operator-notes.md` on the reuse of file systems.

use serde_json::Value;

use super::at::At;

/// A device whose content a config destroys at the first boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Erased {
    /// The path of the device, as in the config. `None` if `key` leads to a config that is not read here, e.g. one that is
    /// fetched, so that what it erases is unknown.
    pub device: Option<String>,
    /// The key that asks for it, e.g. `$.storage.disks.0.wipeTable`; in the config that the contained ones were merged into.
    pub key: String,
    /// True if it is a whole partition table.
    pub is_table: bool,
}

/// The keys that destroy content: the objects, the flag in them, and where the device is. Without its flag Ignition
/// keeps what is there, or fails.
const FLAGS: [(&str, &str); 3] = [
    ("storage.disks.*", "wipeTable"),
    ("storage.filesystems.*", "wipeFilesystem"),
    ("storage.luks.*", "wipeVolume"),
];

/// Lists the devices whose content is destroyed by the storage of a config, which those that it names were merged into.
pub(super) fn erased(storage: &Value) -> Vec<Erased> {
    let erased =
        |device: &str, key, is_table| Erased { device: Some(device.to_owned()), key, is_table };
    let mut found = Vec::new();
    let root = At::root(storage);
    for (objects, flag) in FLAGS {
        for at in root.each(objects).iter().filter(|at| at.is_true(flag)) {
            let device = at.str("device").unwrap_or_default();
            found.push(erased(device, format!("{}.{flag}", at.path), flag == "wipeTable"));
        }
    }
    for at in root.each("storage.disks.*") {
        let is_removed = |part: &At<'_>| {
            part.is_true("wipePartitionEntry") || part.value["shouldExist"] == false
        };
        if let Some(part) = at.items("partitions").find(is_removed) {
            found.push(erased(at.str("device").unwrap_or_default(), part.path, false));
        }
    }
    let members = root.each("storage.raid.*.devices.*");
    found.extend(members.into_iter().map(|at| erased(at.text(), at.path.clone(), false)));
    found
}

/// Describes why no one can log in on the installed system; `None` if someone may. A config that contains others may get
/// its users from them.
pub(super) fn lock_out(root: &At<'_>) -> Option<&'static str> {
    let is_merged = ["ignition.config.merge.*.source", "ignition.config.replace.source"];
    let has_account = ["/etc/shadow", "/etc/passwd", "authorized_keys", "/sudoers", "/etc/ssh"];
    let logs_in = ["systemd.units.*.contents", "systemd.units.*.dropins.*.contents"];
    let has = |pattern: &str, is_it: &dyn Fn(&str) -> bool| any_text(root.value, pattern, is_it);
    if is_merged.iter().any(|pattern| has(pattern, &|text| !text.is_empty()))
        || has("storage.files.*.path", &|path| has_account.iter().any(|part| path.contains(part)))
        || logs_in.iter().any(|pattern| has(pattern, &|text| text.contains("--autologin")))
    {
        return None;
    }
    let mut users = root.each("passwd.users.*");
    users.retain(|user| user.value["shouldExist"] != false);
    let has_password = users.iter().any(|user| user.filled("passwordHash").is_some());
    let has_key = users.iter().any(|user| user.has_items("sshAuthorizedKeys"));
    let is_off = |unit: &At<'_>| {
        unit.str("name") == Some("sshd.service")
            && (unit.is_true("mask") || unit.value["enabled"] == false)
    };
    match (root.each("systemd.units.*").iter().any(is_off), has_key, has_password) {
        (_, false, false) => Some(
            "no user gets an SSH key or a password, so no one can log in on the installed system",
        ),
        (true, true, false) => Some(
            "sshd.service is off and no user gets a password, so no one can log in on the installed system",
        ),
        (true, _, true) => Some("sshd.service is off, so users can log in on the console only"),
        _ => None,
    }
}

/// True if a text that `pattern` matches is meant. Unlike [`At::each`] it keeps no places: a config may have thousands of files.
fn any_text(value: &Value, pattern: &str, is_it: &dyn Fn(&str) -> bool) -> bool {
    let (part, rest) = pattern.split_once('.').unwrap_or((pattern, ""));
    let below = |value: &Value| match rest {
        "" => value.as_str().is_some_and(is_it),
        _ => any_text(value, rest, is_it),
    };
    match part {
        "*" => value.as_array().is_some_and(|items| items.iter().any(below)),
        key => value.get(key).is_some_and(below),
    }
}
