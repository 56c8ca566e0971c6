//! Compares the reports of the captured machines in `fixtures/` with the expected ones.

use std::path::{Path, PathBuf};

use crate::skipped::skipped;
use crate::util::{assert_expected, repository, run, scratch, stderr, stdout};

fn fixtures() -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = std::fs::read_dir(repository().join("fixtures"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("root.tar.zst").exists())
        .collect();
    all.sort();
    all
}

/// The report without the times, which differ from run to run.
fn without_times(json: &str) -> String {
    let mut report: serde_json::Value = serde_json::from_str(json).unwrap();
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
    let fixtures = fixtures();
    assert!(fixtures.len() >= 2, "fixtures/ has too few machines: {fixtures:?}");
    for fixture in fixtures {
        let root = fixture.join("root.tar.zst");
        let json = run(&format!("inspect --format json --root {}", root.display()));
        assert!(json.status.success(), "{}: {}", fixture.display(), stderr(&json));
        assert_expected(&fixture.join("expected.json"), &without_times(&stdout(&json)));
        let text = run(&format!("inspect --root {}", root.display()));
        assert_expected(&fixture.join("expected.txt"), &stdout(&text));
    }
}

#[test]
fn every_captured_machine_documents_its_origin() {
    for fixture in fixtures() {
        let readme = std::fs::read_to_string(fixture.join("README.md")).unwrap_or_default();
        assert!(readme.len() > 100, "{} needs a README.md", fixture.display());
    }
}

#[test]
fn a_report_is_read_back_without_loss() {
    for fixture in fixtures() {
        let root = fixture.join("root.tar.zst");
        let json = stdout(&run(&format!("inspect --format json --root {}", root.display())));
        let report: run_coreos_installer::report::Report = serde_json::from_str(&json).unwrap();
        let written: serde_json::Value = serde_json::to_value(&report).unwrap();
        let read: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert!(written == read, "{} is not what it was", fixture.display());
    }
}

#[test]
fn the_report_in_the_readme_is_the_real_one() {
    let root = repository();
    let expected =
        std::fs::read_to_string(root.join("fixtures/two-socket-server/expected.txt")).unwrap();
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
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
    let fixture = fixtures().into_iter().next().unwrap();
    let archive = fixture.join("root.tar.zst");
    let dir = scratch("unpacked");
    let unpacked = std::process::Command::new("tar")
        .args(["--zstd", "-xf"])
        .arg(&archive)
        .arg("-C")
        .arg(&dir)
        .status()
        .unwrap();
    assert!(unpacked.success());
    let of = |root: &str| stdout(&run(&format!("inspect --format json --root {root}")));
    let from_archive = without_times(&of(&archive.display().to_string()));
    let from_directory = without_times(&of(&dir.display().to_string()));
    assert_eq!(from_archive, from_directory);
}

#[test]
fn a_capture_of_a_replay_gives_the_same_report_again() {
    for fixture in fixtures() {
        let root = fixture.join("root.tar.zst");
        let copy = scratch("recaptured").join("copy.tar.zst");
        let captured =
            run(&format!("capture --output {} --root {}", copy.display(), root.display()));
        assert!(captured.status.success(), "{}", stderr(&captured));
        let of = |root: &std::path::Path| {
            without_times(&stdout(&run(&format!(
                "inspect --format json --root {}",
                root.display()
            ))))
        };
        assert_eq!(of(&root), of(&copy), "{}", fixture.display());
    }
}

/// A file of an archive.
fn file_of(archive: &Path, name: &str) -> String {
    let output = std::process::Command::new("tar")
        .args(["--zstd", "-xOf"])
        .arg(archive)
        .arg(name)
        .output()
        .unwrap();
    assert!(output.status.success(), "{name} of {}", archive.display());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_capture_of_this_machine_replays_to_the_report_that_was_made_with_it() {
    let copy = scratch("live").join("live.tar.zst");
    for round in 0..3 {
        let captured = run(&format!("capture --output {}", copy.display()));
        assert!(captured.status.success(), "{}", stderr(&captured));
        assert!(!stderr(&captured).contains("gives another value"), "{}", stderr(&captured));
        let replayed = stdout(&run(&format!("inspect --format json --root {}", copy.display())));
        let made = file_of(&copy, "report.json");
        assert_eq!(without_times(&made), without_times(&replayed), "round {round}");
    }
    let live: serde_json::Value =
        serde_json::from_str(&stdout(&run("inspect --format json"))).unwrap();
    let made: serde_json::Value = serde_json::from_str(&file_of(&copy, "report.json")).unwrap();
    for section in ["cpu", "pci", "product", "node_id"] {
        assert_eq!(live[section], made[section], "{section}");
    }
}

/// Bytes as text with one character per byte, because the standard library searches text fast.
fn latin(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

/// The plain bytes of an archive.
fn unpacked(archive: &Path) -> String {
    let output = std::process::Command::new("zstd").arg("-dcq").arg(archive).output().unwrap();
    assert!(output.status.success() && output.stdout.len() > 10_000, "{}", archive.display());
    latin(&output.stdout)
}

/// The values of the report that identify the machine, selected by key.
fn secrets(value: &serde_json::Value, key: &str, found: &mut Vec<String>) {
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
        serde_json::Value::String(text) if KEYS.contains(&key) => found.push(text.clone()),
        serde_json::Value::Array(list) => list.iter().for_each(|value| secrets(value, key, found)),
        serde_json::Value::Object(keys) => {
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
fn shape(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::String(text) => {
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
        serde_json::Value::Array(list) => {
            list.iter_mut().for_each(shape);
            // Lists are sorted by names, which have changed.
            list.sort_by_cached_key(ToString::to_string);
        }
        serde_json::Value::Object(keys) => {
            // The raw table is base64 of bytes that have changed.
            keys.remove("raw_base64");
            keys.values_mut().for_each(shape);
        }
        _ => {}
    }
}

/// Anonymises a captured machine. Where the copy gives another report, warnings come first.
fn anonymise(root: &Path, copy: &Path) {
    let captured =
        run(&format!("capture --anonymize -o {} --root {}", copy.display(), root.display()));
    let printed = stderr(&captured);
    // Some foreign captures are of one part of a machine.
    let is_known = |line: &&str| line.contains("nothing about this machine's hardware could be");
    let first = printed.lines().find(|line| !is_known(line)).unwrap_or_default();
    assert!(first.starts_with(" INFO captured; "), "{}: {printed}", root.display());
}

#[test]
fn an_anonymised_capture_has_no_identifier_of_the_machine_and_gives_a_report_of_the_same_shape() {
    for fixture in fixtures() {
        let root = fixture.join("root.tar.zst");
        let copy = scratch("anonymised").join("copy.tar.zst");
        anonymise(&root, &copy);
        let report = |root: &Path| -> serde_json::Value {
            let json = stdout(&run(&format!("inspect --format json --root {}", root.display())));
            serde_json::from_str(&without_times(&json)).unwrap()
        };
        let (mut original, mut anonymous) = (report(&root), report(&copy));
        let mut found = Vec::new();
        secrets(&original, "", &mut found);
        let bytes = unpacked(&copy);
        found.retain(|secret| secret.len() >= 4 && !names_nothing(secret));
        assert!(found.len() >= 4, "{found:?}");
        for secret in found {
            for spelling in spellings(&secret) {
                let at = bytes.find(&latin(&spelling));
                assert_eq!(at, None, "{secret} in {}", fixture.display());
            }
        }
        let of = |value: &serde_json::Value, path: &str| value.pointer(path).cloned();
        for path in ["/product/name", "/product/vendor", "/memory", "/findings/0/code"] {
            let count = |value: Option<serde_json::Value>| {
                value.map(|v| v.as_object().map(serde_json::Map::len))
            };
            assert_eq!(count(of(&original, path)), count(of(&anonymous, path)), "{path}");
        }
        assert_eq!(of(&original, "/product/name"), of(&anonymous, "/product/name"));
        shape(&mut original);
        shape(&mut anonymous);
        let json = |value: &serde_json::Value| serde_json::to_string_pretty(value).unwrap();
        let (original, anonymous) = (json(&original), json(&anonymous));
        let differing = original.lines().zip(anonymous.lines()).find(|(a, b)| a != b);
        assert_eq!(differing, None, "{}", fixture.display());
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
        let root = folder.join(name).join("root.tar.zst");
        let copy = scratch("foreign").join("copy.tar.zst");
        anonymise(&root, &copy);
    }
}

#[test]
fn two_anonymised_captures_of_one_machine_share_no_identifier() {
    let root = fixtures().into_iter().find(|path| path.ends_with("two-socket-server")).unwrap();
    let serial = |name: &str| {
        let copy = scratch(name).join("copy.tar.zst");
        let root = root.join("root.tar.zst");
        anonymise(&root, &copy);
        let report: serde_json::Value =
            serde_json::from_str(&file_of(&copy, "report.json")).unwrap();
        (report["product"]["serial"].clone(), report["product"]["name"].clone())
    };
    let (one, other) = (serial("anonymous-1"), serial("anonymous-2"));
    assert_ne!(one.0, other.0);
    assert_eq!(one.1, other.1);
}
