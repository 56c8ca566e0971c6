//! Compares the reports of the captured machines in `fixtures/` with the expected ones.

use std::path::PathBuf;

use run_coreos_installer::report::Report;
use serde_json::Value;

use crate::skipped::skipped;
use crate::util::{
    assert_expected, captured, json, machines, read, repository, run, scratch, stderr, stdout,
};

/// A file that belongs to a captured machine.
fn file(machine: &str, name: &str) -> PathBuf {
    repository().join("fixtures").join(machine).join(name)
}

/// The report of a captured machine, without the times.
fn report(root: &str) -> String {
    without_times(json(&format!("inspect --format json --root {root}")))
}

/// The report without the times, which differ from run to run.
fn without_times(mut report: Value) -> String {
    for key in ["collected_at", "duration_ms", "timings"] {
        report.as_object_mut().unwrap().remove(key).unwrap();
    }
    // Only a running machine has it.
    report.as_object_mut().unwrap().remove("live");
    report["agent"]["version"] = "0.0.0".into();
    serde_json::to_string_pretty(&report).unwrap() + "\n"
}

#[test]
fn every_captured_machine_gives_the_expected_json_and_text() {
    for machine in machines() {
        let root = captured(&machine);
        assert_expected(&file(&machine, "expected.json"), &report(&root));
        let text = run(&format!("inspect --root {root}"));
        assert!(text.status.success(), "{machine}: {}", stderr(&text));
        assert_expected(&file(&machine, "expected.txt"), &stdout(&text));
    }
}

#[test]
fn every_captured_machine_documents_its_origin() {
    for machine in machines() {
        let readme = std::fs::read_to_string(file(&machine, "README.md")).unwrap_or_default();
        assert!(readme.len() > 100, "{machine} needs a README.md");
    }
}

#[test]
fn a_report_is_read_back_without_loss() {
    for machine in machines() {
        let printed = json(&format!("inspect --format json --root {}", captured(&machine)));
        let report: Report = serde_json::from_value(printed.clone()).unwrap();
        let written = serde_json::to_value(&report).unwrap();
        assert!(written == printed, "{machine} is not what it was");
    }
}

#[test]
fn the_report_in_the_readme_is_the_real_one() {
    let expected = read("fixtures/two-socket-server/expected.txt");
    let readme = read("README.md");
    let shown = readme.split("```text\n").find(|block| block.starts_with("####")).unwrap();
    let shown = shown.split("```").next().unwrap();
    assert!(shown.lines().count() > 60, "the report of the README is too short");
    let mut rest = expected.lines();
    for line in shown.lines().filter(|line| line.trim() != "…") {
        let start = line.strip_suffix('…').unwrap_or(line);
        let fits = |real: &str| if start == line { real == line } else { real.starts_with(start) };
        assert!(rest.any(fits), "{line:?} is not in the report, or not there");
    }
}

#[test]
fn a_directory_and_an_archive_of_the_same_machine_give_the_same_report() {
    let archive = captured("crowded-server");
    let dir = scratch("unpacked");
    let unpacked = std::process::Command::new("tar")
        .args(["--zstd", "-xf"])
        .arg(&archive)
        .arg("-C")
        .arg(&dir)
        .status()
        .unwrap();
    assert!(unpacked.success());
    assert_eq!(report(&archive), report(&dir.display().to_string()));
}

#[test]
fn a_capture_of_a_replay_gives_the_same_report_again() {
    for machine in machines() {
        let root = captured(&machine);
        let copy = scratch("recaptured").join("copy.tar.zst").display().to_string();
        let again = run(&format!("capture --output {copy} --root {root}"));
        assert!(again.status.success(), "{}", stderr(&again));
        assert_eq!(report(&root), report(&copy), "{machine}");
    }
}

/// The report in an archive.
fn report_in(archive: &str) -> Value {
    let mut tar = std::process::Command::new("tar");
    let output = tar.args(["--zstd", "-xOf", archive, "report.json"]).output().unwrap();
    assert!(output.status.success(), "{archive}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_capture_of_this_machine_replays_to_the_report_that_was_made_with_it() {
    let copy = scratch("live").join("live.tar.zst").display().to_string();
    for round in 0..3 {
        let captured = run(&format!("capture --output {copy}"));
        assert!(captured.status.success(), "{}", stderr(&captured));
        assert!(!stderr(&captured).contains("gives another value"), "{}", stderr(&captured));
        assert_eq!(without_times(report_in(&copy)), report(&copy), "round {round}");
    }
    let (live, made) = (json("inspect --format json"), report_in(&copy));
    for section in ["cpu", "pci", "product", "node_id"] {
        assert_eq!(live[section], made[section], "{section}");
    }
}

/// Bytes as text with one character per byte, because the standard library searches text fast.
fn latin(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

/// The plain bytes of an archive.
fn unpacked(archive: &str) -> String {
    let output = std::process::Command::new("zstd").args(["-dcq", archive]).output().unwrap();
    assert!(output.status.success() && output.stdout.len() > 10_000, "{archive}");
    latin(&output.stdout)
}

/// The values of the report that identify the machine, selected by key.
fn secrets(value: &Value, key: &str, found: &mut Vec<String>) {
    const KEYS: [&str; 10] = [
        "serial",
        "asset_tag",
        "uuid",
        "wwn",
        "wwid",
        "guid",
        "current_mac",
        "permanent_mac",
        "value",
        "address",
    ];
    match value {
        Value::String(text) if KEYS.contains(&key) => found.push(text.clone()),
        Value::Array(list) => list.iter().for_each(|value| secrets(value, key, found)),
        Value::Object(keys) => {
            keys.iter().for_each(|(key, value)| secrets(value, key, found));
        }
        _ => {}
    }
}

/// Every spelling of a value: both cases, without separators, as bytes.
fn spellings(secret: &str) -> Vec<Vec<u8>> {
    let bare: String = secret.chars().filter(|c| !":-".contains(*c)).collect();
    let bare = bare.trim_start_matches("0x").trim_start_matches("naa.").to_owned();
    // Shorter text occurs by chance.
    let bare = if bare.len() < 6 { secret.to_owned() } else { bare };
    let mut all: Vec<Vec<u8>> = [secret.to_owned(), bare.clone()]
        .iter()
        .flat_map(|text| {
            [text.to_lowercase().into(), text.to_uppercase().into(), text.clone().into()]
        })
        .collect();
    if bare.len() >= 12
        && bare.len().is_multiple_of(2)
        && bare.bytes().all(|b| b.is_ascii_hexdigit())
    {
        let byte = |at: usize| u8::from_str_radix(&bare[at..at + 2], 16).unwrap();
        all.push((0..bare.len()).step_by(2).map(byte).collect());
    }
    all
}

/// Whether a value identifies no machine: a PCI address, a number that was never set or that many machines share, or
/// a network address that is the same everywhere.
fn names_nothing(secret: &str) -> bool {
    let is_unset = secret.chars().all(|c| "0-: ".contains(c));
    is_unset
        || secret.starts_with("0000:")
        || ["fe80::2", "::1/128", "127.0.0.1/8", "04030201-0605-0807-090a-0b0c0d0e0f10"]
            .contains(&secret)
}

/// Reduces each text in `value` to its form: letters and digits become `x`, the rest stays.
fn shape(value: &mut Value) {
    match value {
        Value::String(text) => {
            let class = |c: char| match c {
                _ if c.is_ascii_alphanumeric() => 'x',
                other => other,
            };
            // Addresses have no fixed length.
            let is_address =
                text.split('/').next().is_some_and(|t| t.parse::<std::net::IpAddr>().is_ok());
            *text =
                if is_address { "address".to_owned() } else { text.chars().map(class).collect() };
        }
        Value::Array(list) => {
            list.iter_mut().for_each(shape);
            // Lists are sorted by names, which have changed.
            list.sort_by_cached_key(ToString::to_string);
        }
        Value::Object(keys) => {
            // The raw table is base64 of bytes that have changed.
            keys.remove("raw_base64");
            keys.values_mut().for_each(shape);
        }
        _ => {}
    }
}

/// Anonymises a captured machine, and returns the copy. Where it gives another report, warnings come first.
fn anonymised(root: &str, name: &str) -> String {
    let copy = scratch(name).join("copy.tar.zst").display().to_string();
    let captured = run(&format!("capture --anonymize -o {copy} --root {root}"));
    let printed = stderr(&captured);
    // Some foreign captures are of one part of a machine.
    let is_known = |line: &&str| line.contains("nothing about this machine's hardware could be");
    let first = printed.lines().find(|line| !is_known(line)).unwrap_or_default();
    assert!(first.starts_with(" INFO captured; "), "{root}: {printed}");
    copy
}

#[test]
fn an_anonymised_capture_has_no_identifier_of_the_machine_and_gives_a_report_of_the_same_shape() {
    for machine in machines() {
        let root = captured(&machine);
        let copy = anonymised(&root, "anonymised");
        let report = |root: &str| -> Value { serde_json::from_str(&report(root)).unwrap() };
        let (mut original, mut anonymous) = (report(&root), report(&copy));
        let mut found = Vec::new();
        secrets(&original, "", &mut found);
        let bytes = unpacked(&copy);
        found.retain(|secret| secret.len() >= 4 && !names_nothing(secret));
        assert!(found.len() >= 4, "{found:?}");
        for secret in found {
            for spelling in spellings(&secret) {
                let at = bytes.find(&latin(&spelling));
                assert_eq!(at, None, "{secret} in {machine}");
            }
        }
        let of = |value: &Value, path: &str| value.pointer(path).cloned();
        for path in ["/product/name", "/product/vendor", "/memory", "/findings/0/code"] {
            let count =
                |value: Option<Value>| value.map(|v| v.as_object().map(serde_json::Map::len));
            assert_eq!(count(of(&original, path)), count(of(&anonymous, path)), "{path}");
        }
        assert_eq!(of(&original, "/product/name"), of(&anonymous, "/product/name"));
        shape(&mut original);
        shape(&mut anonymous);
        let json = |value: &Value| serde_json::to_string_pretty(value).unwrap();
        let (original, anonymous) = (json(&original), json(&anonymous));
        let differing = original.lines().zip(anonymous.lines()).find(|(a, b)| a != b);
        assert_eq!(differing, None, "{machine}");
        assert_eq!(original.len(), anonymous.len());
    }
}

/// Foreign machines, if they are next to the repository: networks wider than 256 addresses, volumes, iSCSI,
/// multipath, partitions of both kinds, and every kind of firmware.
#[test]
fn an_anonymised_capture_of_a_foreign_machine_gives_a_report_of_the_same_shape() {
    const MACHINES: [&str; 14] = [
        "checkbox__DELL_POWEREDGE_R820_NVME",
        "checkbox__IBM_PSERIES_POWER8",
        "ghw__amd64-accel",
        "hotsos__kubernetes",
        "libnvme__config-pcie-with-tcp-config",
        "node_exporter__fixtures",
        "nvme-cli__tree-apple-nvme",
        "openshift-ntio__sno-sno",
        "procfs__fixtures",
        "smbios__siderolabs-SuperMicro-Dual-Xeon",
        "util-linux__lsblk-simple-lvm",
        "util-linux__lsblk-simple-nvme",
        "vm__dell-2s8t-3numa",
        "vm__ovmf-tpm-cxl-numa",
    ];
    let folder = repository().join("../shared/fixtures");
    if !folder.exists() {
        return skipped("no captures of foreign machines are next to the repository");
    }
    for name in MACHINES {
        anonymised(&folder.join(name).join("root.tar.zst").display().to_string(), "foreign");
    }
}

#[test]
fn two_anonymised_captures_of_one_machine_share_no_identifier() {
    let root = captured("two-socket-server");
    let product = |name: &str| report_in(&anonymised(&root, name))["product"].clone();
    let (one, other) = (product("anonymous-1"), product("anonymous-2"));
    assert_ne!(one["serial"], other["serial"]);
    assert_eq!(one["name"], other["name"]);
}
