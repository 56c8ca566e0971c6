//! The name under which the agent speaks of a node, from the identifiers of the machine, else from
//! `/proc/sys/kernel/random/boot_id` (`Documentation/admin-guide/sysctl/kernel.rst`).

use std::sync::Arc;

use formats::guid;
use formats::hex::hex;
use probes::identity::Identifier;
use probes::machine::{Machine, Problem, Source};
use probes::sys::random_id::RANDOM_ID;
use sha2::{Digest as _, Sha256};

/// Random per boot and the same until the next one.
pub(crate) const BOOT_ID: &str = "proc/sys/kernel/random/boot_id";
/// The longest name that VIM API v1 allows.
const MAX_ID_BYTES: usize = 128;
/// What distinguishes captured trees that contain nothing else to name them by.
const CONTENT: &[&str] = &["proc/version", "proc/cmdline", "proc/cpuinfo", "proc/meminfo"];

/// The name of the node, and a problem if it does not identify the machine.
///
/// The first trusted identifier names it. Without one the name is good for this boot only, so that
/// two such machines never share it.
pub(crate) fn node_id(identity: &[Identifier], source: &Arc<Source>) -> (String, Option<Problem>) {
    if let Some(id) = identified(identity) {
        return (id, None);
    }
    let machine = Machine::new(Arc::clone(source), "identity");
    let random = || parse_uuid(String::from_utf8_lossy(&machine.ask(&RANDOM_ID)?).trim()).ok();
    let uuid = machine.parse(BOOT_ID, parse_uuid).or_else(random);
    let id = uuid.map_or_else(|| capture_id(&machine), |uuid| format!("boot-{uuid}"));
    let found = "no UUID, serial number or MAC address that can be trusted";
    let expected = format!("one that identifies the machine; it is called {id}");
    let problem = Machine::new(Arc::clone(source), "identity");
    problem.problem("sys/class/dmi/id/product_uuid", found, expected);
    (id, problem.problems().into_iter().next())
}

/// The name made of the first trusted identifier.
fn identified(identity: &[Identifier]) -> Option<String> {
    let kinds = [
        ("smbios_uuid", "uuid"),
        ("permanent_mac", "mac"),
        ("product_serial", "serial"),
        ("baseboard_serial", "serial"),
    ];
    kinds.into_iter().find_map(|(kind, word)| {
        let found = identity.iter().find(|i| i.kind == kind && i.suspicious.is_none())?;
        let mac = || found.value.replace([':', '-'], "").to_ascii_lowercase();
        let value = if word == "mac" { mac() } else { found.value.clone() };
        Some(safe_id(&format!("{word}-{value}")))
    })
}

/// The name of a captured tree by what it contains: only a running kernel can give a random number,
/// and a replay must name the same tree the same each time, with or without `--only`.
fn capture_id(machine: &Machine) -> String {
    let mut digest = Sha256::new();
    for path in CONTENT {
        let content = machine.bytes(path).unwrap_or_default();
        digest.update(format!("{path} {}\n", content.len()));
        digest.update(content);
    }
    format!("capture-{}", short_digest(&digest.finalize()))
}

/// The first 8 bytes in hexadecimal: short enough for a name, long enough for any fleet.
fn short_digest(digest: &[u8]) -> String {
    hex(digest.iter().take(8))
}

fn parse_uuid(text: &str) -> Result<String, &'static str> {
    guid::parse(text).map(|bytes| guid::uuid(&bytes)).ok_or("a UUID")
}

/// Keeps what is allowed in a path (`NODE_ID_PATTERN`); anything else becomes a dash. A value that
/// loses characters ends in a digest of the whole, so that `AB/1` and `AB-1` are different nodes.
fn safe_id(whole: &str) -> String {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || "._:-".contains(c);
    if whole.len() <= MAX_ID_BYTES && whole.chars().all(is_safe) {
        return whole.to_owned();
    }
    let kept = whole.chars().take(MAX_ID_BYTES - 17).map(|c| if is_safe(c) { c } else { '-' });
    let mut id: String = kept.chain(['-']).collect();
    id.push_str(&short_digest(&Sha256::digest(whole)));
    id
}

#[cfg(test)]
mod tests {
    use super::*;
    use probes::machine::{Archive, Node};
    use serde_json::json;

    fn identifier(kind: &str, value: &str, suspicious: Option<&str>) -> Identifier {
        let identifier = json!({"kind": kind, "value": value, "suspicious": suspicious});
        serde_json::from_value(identifier).unwrap()
    }

    fn tree(files: &[(&str, &str)]) -> Arc<Source> {
        let mut archive = Archive::default();
        for (path, content) in files {
            archive.set(path, Some(Node::File(content.as_bytes().into())));
        }
        Arc::new(Source::unpacked(archive))
    }

    fn named(identity: &[Identifier]) -> String {
        node_id(identity, &tree(&[])).0
    }

    #[test]
    fn serials_that_a_path_cannot_hold_become_different_safe_names() {
        let name = |serial: &str| named(&[identifier("product_serial", serial, None)]);
        assert_eq!(name("AB-12345"), "serial-AB-12345");
        let long = "x".repeat(200);
        let serials = [
            "",
            "../../ä b",
            "AB/12345",
            "AB 12345",
            "日本語製造番号",
            "日本語製造番九",
            &long,
            &long[1..],
        ];
        let names: std::collections::BTreeSet<String> =
            serials.iter().map(|serial| name(serial)).collect();
        assert_eq!(names.len(), serials.len(), "{names:?}");
        assert!(names.iter().all(|name| crate::api::is_node_id(name)), "{names:?}");
        assert!(crate::api::is_node_id(&named(&[])));
    }

    #[test]
    fn a_suspicious_uuid_does_not_name_the_node() {
        let zero = identifier("smbios_uuid", "00000000-0000-0000-0000-000000000000", Some("zero"));
        let mac = identifier("permanent_mac", "02:00:00:00:00:0A", None);
        assert_eq!(named(&[zero, mac]), "mac-02000000000a");
        let good = identifier("smbios_uuid", "4c4c4544-0058-4a10-8034-b7c04f4b5a33", None);
        assert_eq!(named(&[good]), "uuid-4c4c4544-0058-4a10-8034-b7c04f4b5a33");
    }

    #[test]
    fn machine_without_identifier_is_named_after_its_boot_and_says_so() {
        let boot = ("proc/sys/kernel/random/boot_id", "0F6A9F4C-2c1d-4b57-9a3e-2f0d8a7b6c5d\n");
        let (id, problem) = node_id(&[], &tree(&[boot]));
        assert_eq!(id, "boot-0f6a9f4c-2c1d-4b57-9a3e-2f0d8a7b6c5d");
        let problem = problem.unwrap();
        assert!(problem.collector == "identity" && problem.expected.contains(&id), "{problem:?}");
        let named = identifier("product_serial", "SERIAL-01", None);
        assert_eq!(node_id(&[named], &tree(&[boot])), ("serial-SERIAL-01".to_owned(), None));
    }

    #[test]
    fn running_machine_without_boot_id_has_a_random_name_that_its_capture_keeps() {
        let random = ("kernel/random_id", "6fa459ea-ee8a-4ca4-894e-db77e160355e\n");
        let (id, _) = node_id(&[], &tree(&[random]));
        assert_eq!(id, "boot-6fa459ea-ee8a-4ca4-894e-db77e160355e");
        let damaged = ("proc/sys/kernel/random/boot_id", "../../etc\n");
        assert_eq!(node_id(&[], &tree(&[damaged, random])).0, id);
    }

    #[test]
    fn captured_trees_without_identifier_have_each_their_own_name() {
        let one = node_id(&[], &tree(&[("proc/meminfo", "MemTotal: 1 kB\n")])).0;
        let other = node_id(&[], &tree(&[("proc/meminfo", "MemTotal: 2 kB\n")])).0;
        let again = node_id(&[], &tree(&[("proc/meminfo", "MemTotal: 1 kB\n")])).0;
        assert!(one != other && one == again && one.starts_with("capture-"), "{one} {other}");
    }

    #[test]
    fn running_machine_has_one_name_for_this_boot() {
        let name = || node_id(&[], &Arc::new(Source::live())).0;
        let first = name();
        assert!(first.starts_with("boot-"), "{first}");
        let has_boot_id = std::path::Path::new("/").join(BOOT_ID).exists();
        assert_eq!(first == name(), has_boot_id);
    }
}
