//! `diff`, `expect` and `cohort`: captured machines against themselves and against copies with one part changed.

use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::util::{
    agent, assert_refused, captured, json as printed, machines, run, scratch, stderr, stdout,
};

fn report(name: &str) -> Value {
    printed(&format!("inspect --format json --root {}", captured(name)))
}

/// A report in a file of its own.
fn written(name: &str, report: &Value) -> String {
    let path = scratch(name).join("report.json");
    std::fs::write(&path, report.to_string()).unwrap();
    path.display().to_string()
}

#[test]
fn captured_machine_does_not_differ_from_itself_or_from_its_report() {
    for name in machines() {
        let capture = captured(&name);
        let report = written(&format!("diff-{name}"), &report(&name));
        for (a, b) in [(&capture, &capture), (&report, &capture)] {
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
    let other = written("diff-altered", &other);
    let output = run(&format!("diff {} {other}", captured("crowded-server")));
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
        .args(["diff", &captured("plain-guest"), "-", "--format", "json"])
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
    let change = &found["differences"][0]["changes"][0];
    assert_eq!((&change["name"], &change["path"]), (&json!("version"), &json!("version")));
    assert_eq!(change["b"], "9");
}

#[test]
fn unreadable_input_ends_with_2_and_says_what_was_expected() {
    let folder = scratch("diff-unreadable");
    for (content, expected) in [
        ("{", "is not JSON: line 1, column 1; expected a report"),
        ("{\"a\": 1}", "has no schema_version, expected a report"),
        ("{\"schema_version\": \"99.0\"}", "has the schema_version \"99.0\", expected 1.0"),
        ("{\"schema_version\": 1}", "has the schema_version 1, expected 1.0"),
        ("text", "expected a directory that contains sys/ or proc/"),
    ] {
        let path = folder.join("a");
        std::fs::write(&path, content).unwrap();
        assert_refused(&format!("diff {} {}", path.display(), captured("plain-guest")), expected);
    }
    let missing = format!("diff {}/none {}", folder.display(), captured("plain-guest"));
    assert_refused(&missing, "there is no such file");
}

#[test]
fn reports_without_a_common_section_are_not_called_the_same() {
    let a = written("nothing-in-common-a", &json!({"schema_version": "1.0"}));
    let with_bios = json!({"schema_version": "1.0", "bios": {"version": "1"}});
    for b in [&a, &written("nothing-in-common-b", &with_bios)] {
        assert_refused(&format!("diff {a} {b}"), "no section in common");
    }
}

#[test]
fn report_comes_through_a_pipe() {
    let pipe = scratch("diff-pipe").join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let text = report("plain-guest").to_string();
    let writer = std::thread::spawn({
        let pipe = pipe.clone();
        move || std::fs::write(pipe, text).unwrap()
    });
    let output = run(&format!("diff {} {}", pipe.display(), captured("plain-guest")));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    writer.join().unwrap();
}

/// The findings of expectations, as `check --expect` prints them.
fn deviations(report: &str, expect: &Path) -> (Option<i32>, Vec<Value>) {
    let output = run(&format!("check --format json --root {report} --expect {}", expect.display()));
    let findings: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let is_expected =
        |finding: &Value| finding["code"].as_str().unwrap().starts_with("expectation.");
    (output.status.code(), findings.into_iter().filter(is_expected).collect())
}

#[test]
fn machine_has_what_is_expected_of_a_machine_like_it() {
    for name in machines() {
        let capture = captured(&name);
        let output = run(&format!("expect {capture}"));
        assert_eq!(output.status.code(), Some(0));
        let by_root = run(&format!("expect --root {capture}"));
        assert_eq!(stdout(&by_root), stdout(&output), "{name}");
        let file = scratch(&format!("expect-{name}")).join("expect.yaml");
        std::fs::write(&file, &output.stdout).unwrap();
        assert_eq!(deviations(&capture, &file).1, Vec::<Value>::new(), "{}", stdout(&output));
    }
}

#[test]
fn parts_that_were_not_read_are_named_because_nothing_is_expected_of_them() {
    let mut without_disks = report("two-socket-server");
    without_disks.as_object_mut().unwrap().remove("block");
    let output = run(&format!("expect {}", written("expect-unread", &without_disks)));
    assert_eq!(output.status.code(), Some(0));
    let last = stdout(&output).lines().last().unwrap().to_owned();
    assert!(
        last.starts_with("# Nothing is expected of these, as the report has no data of them: disk")
    );
    assert!(stderr(&output).contains("nothing is expected of them: disk"), "{}", stderr(&output));
    let whole = run(&format!("expect {}", written("expect-read", &report("two-socket-server"))));
    assert!(!stderr(&whole).contains("disk"), "{}", stderr(&whole));
}

#[test]
fn deviation_is_a_critical_finding_with_the_part_and_both_values() {
    let machine = captured("two-socket-server");
    let output = run(&format!("expect {machine}"));
    let text = stdout(&output);
    assert!(text.contains("    size: 16 GiB\n"), "{text}");
    let file = scratch("expect-other").join("expect.yaml");
    let other = text.replace("version: \"2.19.1\"", "version: \"2.20.*\"");
    std::fs::write(&file, other.replacen("count: 6", "count: 8", 1)).unwrap();
    let (status, found) = deviations(&machine, &file);
    assert_eq!(status, Some(7));
    let bios = found.iter().find(|finding| finding["locator"] == "BIOS").unwrap();
    assert_eq!(bios["evidence"], "version is 2.19.1, expected 2.20.*");
    assert_eq!((&bios["severity"], &bios["component"]), (&json!("critical"), &json!("firmware")));
    let dimm = found.iter().find(|finding| finding["code"] == "expectation.missing").unwrap();
    let evidence = dimm["evidence"].as_str().unwrap();
    assert!(evidence.starts_with("found 6, expected 8 with size 16 GiB"), "{evidence}");
    assert_eq!(found.len(), 2, "{found:#?}");
    let output = run(&format!("inspect --root {machine} --expect {}", file.display()));
    assert!(stdout(&output).contains("critical expectation.mismatch BIOS: version is 2.19.1"));
}

#[test]
fn file_of_expectations_that_means_nothing_is_refused_by_key() {
    let file = scratch("expect-refused").join("expect.yaml");
    for (text, expected) in [
        ("dimm: {sise: 1 GiB}", "dimm: \"sise\" is not a known key, did you mean \"size\"?"),
        ("bios: {version: 2.10}", "bios: version is the number 2.1, expected text"),
        (
            "bios: {version: a}\nbios: {version: b}",
            "has key \"bios\" twice, expected each key once",
        ),
        ("dimm: [", "line 1 of "),
        (
            "bios:\n  version: a\n\tx",
            "is not YAML: it is indented with a tab, which YAML does not allow, expected lines",
        ),
        ("bios: \"SECRET", "is not YAML: \"bios\": a quotation mark or bracket of its value"),
        ("disk: >= 200", "is not YAML: \"disk\": its value begins with >, so it needs quotes"),
        ("~: a\n~: b", "has a key twice, expected each key once"),
        ("1: a", "a key is not text"),
        ("", "it is empty, expected a key for each kind of part"),
    ] {
        std::fs::write(&file, text).unwrap();
        for command in ["check", "inspect", "install --dry-run --vim http://127.0.0.1:1"] {
            assert_refused(&format!("{command} --expect {}", file.display()), expected);
        }
    }
}

#[test]
fn cohort_names_the_machine_that_departs_and_the_part() {
    let mut paths = Vec::new();
    for n in 0..4 {
        let mut report = report("two-socket-server");
        report["product"]["serial"] = format!("SERIAL-{n}").into();
        report["findings"] = json!([]);
        if n == 2 {
            let dimms = report["memory"]["dimms"].as_array_mut().unwrap();
            dimms[0] =
                json!({"locator": "DIMM_A1", "bank_locator": "NODE 0", "is_populated": false});
            report["bios"]["version"] = "2.18.0".into();
        }
        paths.push(written(&format!("cohort-{n}"), &report));
    }
    let output = run(&format!("cohort {}", paths.join(" ")));
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let text = stdout(&output);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "Dell Inc. PowerEdge R650: 4 reports, 2 departures", "{text}");
    assert!(lines[1].contains("cohort-2"), "{text}");
    assert!(lines[1].ends_with("BIOS          version 2.18.0; 3 of 4 have 2.19.1"), "{text}");
    assert!(lines[2].contains("DIMM DIMM_A1  missing; 3 of 4 have 16 GiB, DDR4"), "{text}");
    assert_eq!(lines.len(), 3, "{text}");
    let found = printed(&format!("cohort --format json {}", paths.join(" ")));
    assert_eq!(found["models"][0]["departures"][0]["serial"], "SERIAL-2");
    // A machine that is listed twice does not become the norm of its model.
    let copy = scratch("cohort-copy").join("report.json");
    std::fs::copy(&paths[2], &copy).unwrap();
    let output = run(&format!("cohort {0} {1} {1} {2}", paths.join(" "), paths[2], copy.display()));
    assert_eq!(stdout(&output), text);
    let warning =
        format!("{} and {} are reports of one machine; only the first", paths[2], copy.display());
    assert!(stderr(&output).contains(&warning), "{}", stderr(&output));
    let output = run(&format!("cohort {}", paths[..2].join(" ")));
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("no model has 3 reports"), "{}", stderr(&output));
}
