//! The rules of all sections: keys that must be set, forms of texts, entries that occur once.
//!
//! Sources: Ignition `config/v3_*/types/*.go`; for duplicates its `config/merge` and `Key` functions, as in
//! [`crate::merge`].

use std::collections::HashSet;

use serde_json::Value;

use super::at::At;
use super::findings::Findings;
use super::{disks, nodes, source, units};
use crate::merge;
use crate::text::shown;
use crate::url::url_form;

/// Keys without which Ignition, or the boot, fails: the objects, the key, its meaning.
const REQUIRED: [(&str, &str, &str); 8] = [
    ("ignition.config.merge.*", "source", "a URL"),
    ("ignition.security.tls.certificateAuthorities.*", "source", "a URL"),
    ("passwd.groups.*", "name", "a name"),
    ("passwd.users.*", "name", "a name"),
    ("storage.links.*", "target", "the target of the link"),
    ("storage.luks.*", "device", "the path of a device"),
    ("storage.luks.*.clevis.tang.*", "thumbprint", "the server's thumbprint"),
    ("storage.raid.*", "level", "a RAID level such as raid1"),
];

/// Returns the form that a text should have; `None` if it has it.
type Form = fn(&str) -> Option<&'static str>;

/// Texts by the path to them, and their forms.
const FORMS: [(&str, Form); 18] = [
    ("ignition.proxy.httpProxy", proxy),
    ("ignition.proxy.httpsProxy", proxy),
    ("storage.directories.*.path", nodes::path_form),
    ("storage.files.*.path", nodes::path_form),
    ("storage.links.*.path", nodes::path_form),
    ("storage.disks.*.device", nodes::path_form),
    ("storage.disks.*.partitions.*.label", disks::partition_label),
    ("storage.disks.*.partitions.*.guid", disks::guid),
    ("storage.disks.*.partitions.*.typeGuid", disks::guid),
    ("storage.raid.*.devices.*", nodes::path_form),
    ("storage.luks.*.device", nodes::optional_path),
    ("storage.luks.*.name", disks::luks_name),
    ("storage.luks.*.label", disks::luks_label),
    ("storage.luks.*.clevis.tang.*.url", proxy),
    ("storage.luks.*.clevis.tang.*.advertisement", disks::advertisement),
    ("storage.filesystems.*.device", nodes::path_form),
    ("storage.filesystems.*.path", nodes::optional_path),
    ("storage.raid.*.level", disks::raid_level),
];

/// Applies every rule to a config with valid types.
pub(super) fn apply(config: &Value, findings: &mut Findings) {
    let root = At::root(config);
    for (objects, key, what) in REQUIRED {
        for at in root.each(objects).iter().filter(|at| at.filled(key).is_none()) {
            findings.missing(at, key, what);
        }
    }
    for (texts, form) in FORMS {
        for at in root.each(texts) {
            if let Some(expected) = form(at.text()) {
                findings.bad_text(&at, expected);
            }
        }
    }
    source::rules(&root, findings);
    nodes::rules(&root, findings);
    disks::rules(&root, findings);
    units::rules(&root, findings);
    refuse_duplicates(&root, "", findings);
}

fn proxy(url: &str) -> Option<&'static str> {
    let is_http = matches!(url_form(url).as_deref(), Ok("http" | "https"));
    (!is_http).then_some("a URL with scheme http or https")
}

/// Refuses entries of a list with one key, and of lists that share their keys.
fn refuse_duplicates(at: &At<'_>, path: &str, findings: &mut Findings) {
    let mut shared_keys = HashSet::new();
    for name in at.value.as_object().into_iter().flat_map(|fields| fields.keys()) {
        let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let mut own_keys = HashSet::new();
        let is_shared = merge::shared(path).contains(&name.as_str());
        let keys = if is_shared { &mut shared_keys } else { &mut own_keys };
        for entry in at.items(name) {
            if let Some(key) = merge::key(entry.value, &below)
                && !keys.insert(key.to_string())
            {
                let found = key.as_str().map_or_else(|| key.to_string(), shown);
                findings.problem(&entry.path, format!("{found} a second time"), "only one");
            }
            refuse_duplicates(&entry, &below, findings);
        }
        if let Some(value) = at.get(name) {
            refuse_duplicates(&value, &below, findings);
        }
    }
}
