//! `diff`: captured machines against themselves and against copies with one part changed.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::util::{agent, repository, run, scratch, stderr, stdout};

const MACHINES: [&str; 4] = ["crowded-server", "many-nodes", "plain-guest", "two-socket-server"];

fn capture(name: &str) -> String {
    repository().join(format!("fixtures/{name}/root.tar.zst")).display().to_string()
}

fn report(name: &str) -> Value {
    let output = run(&format!("inspect --format json --root {}", capture(name)));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A report in a file of its own.
fn written(name: &str, report: &Value) -> PathBuf {
    let path = scratch(name).join("report.json");
    std::fs::write(&path, report.to_string()).unwrap();
    path
}

#[test]
fn captured_machine_does_not_differ_from_itself_or_from_its_report() {
    for name in MACHINES {
        let capture = capture(name);
        let report = written(&format!("diff-{name}"), &report(name));
        for (a, b) in [(&capture, &capture), (&report.display().to_string(), &capture)] {
            let output = run(&format!("diff --counters {a} {b}"));
            assert_eq!(output.status.code(), Some(0), "{name}: {}", stdout(&output));
            assert_eq!(stdout(&output), "", "{name}");
        }
    }
}

#[test]
fn altered_copy_differs_in_the_altered_parts_alone() {
    let mut other = report("crowded-server");
    let dimms = other["memory"]["dimms"].as_array_mut().unwrap();
    let dimm = dimms.iter_mut().find(|dimm| dimm["locator"] == "P1-DIMMB1").unwrap();
    *dimm = json!({"locator": "P1-DIMMB1", "is_populated": false});
    let disks = other["block"]["disks"].as_array_mut().unwrap();
    let disk = |name: &'static str| move |disk: &&mut Value| disk["name"] == name;
    let virtio = disks.iter_mut().find(disk("vda")).unwrap();
    virtio["serial"] = "VIRT-0043".into();
    let moved = disks.iter_mut().find(disk("sde")).unwrap();
    moved["hctl"] = "9:0:7:0".into();
    other["bios"]["version"] = "4.0".into();
    let path = written("diff-altered", &other);
    let output = run(&format!("diff {} {}", capture("crowded-server"), path.display()));
    assert_eq!(output.status.code(), Some(1));
    let text = stdout(&output);
    let lines: Vec<String> = text
        .lines()
        .skip(3)
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(lines[0], "BIOS changed version 3.9 -> 4.0", "{text}");
    assert!(lines[1].starts_with("DIMM P1-DIMMB1 gone 31.5 GiB"), "{text}");
    assert_eq!(
        lines[2], "disk sde moved from 0000:00:05.0 9:0:1:0 to 0000:00:05.0 9:0:7:0",
        "{text}"
    );
    assert_eq!(lines[3], "disk vda replaced serial VIRT-0042 -> VIRT-0043", "{text}");
    assert_eq!(lines.len(), 4, "{text}");
}

#[test]
fn json_on_standard_input_is_compared_and_printed_as_json() {
    let mut other = report("plain-guest");
    other["bios"]["version"] = "9".into();
    let mut child = agent()
        .args(["diff", &capture("plain-guest"), "-", "--format", "json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(other.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["same"], json!(false));
    assert_eq!(found["differences"][0]["kind"], "bios");
    assert_eq!(found["differences"][0]["changes"][0]["b"], "9");
}

#[test]
fn unreadable_input_ends_with_2_and_says_what_was_expected() {
    let folder = scratch("diff-unreadable");
    for (content, expected) in [
        ("{", "is not JSON: line 1, column 1; expected a report"),
        ("{\"a\": 1}", "has no schema_version, expected a report"),
        ("text", "expected a directory that contains sys/ or proc/"),
    ] {
        let path = folder.join("a");
        std::fs::write(&path, content).unwrap();
        let output = run(&format!("diff {} {}", path.display(), capture("plain-guest")));
        assert_eq!(output.status.code(), Some(2), "{content}");
        assert!(stderr(&output).contains(expected), "{}", stderr(&output));
    }
    let output = run(&format!("diff {} {}", folder.join("none").display(), capture("plain-guest")));
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("there is no such file"), "{}", stderr(&output));
}
