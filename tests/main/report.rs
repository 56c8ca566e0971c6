//! Captured machines in `fixtures/` against what is expected of them.

use std::path::{Path, PathBuf};

use crate::util::{assert_expected, repository, run, scratch, stderr, stdout};

fn fixtures() -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = std::fs::read_dir(repository().join("fixtures"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    all.sort();
    all
}

/// The report without what differs from run to run: times.
fn without_times(json: &str) -> String {
    let mut report: serde_json::Value = serde_json::from_str(json).unwrap();
    for key in ["collected_at", "duration_ms", "timings"] {
        report.as_object_mut().unwrap().remove(key).unwrap();
    }
    report["agent"]["version"] = "0.0.0".into();
    serde_json::to_string_pretty(&report).unwrap() + "\n"
}

#[test]
fn every_captured_machine_gives_the_expected_json_and_text() {
    let fixtures = fixtures();
    assert!(fixtures.len() >= 2, "fixtures/ holds too few machines: {fixtures:?}");
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
fn every_captured_machine_says_where_it_comes_from() {
    for fixture in fixtures() {
        let readme = std::fs::read_to_string(fixture.join("README.md")).unwrap_or_default();
        assert!(readme.len() > 100, "{} needs a README.md", fixture.display());
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
