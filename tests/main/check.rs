//! The findings in the forms of other programs, held to the programs' own schemas and checkers; the exit status.

use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

#[path = "../qr_reader.rs"]
mod qr_reader;
#[path = "../until.rs"]
mod until;

use self::until::until;
use crate::skipped::skipped;
use crate::util::{
    agent, assert_is_refused, assert_refused, cache, captured, json, machines, read, repository,
    run, scratch, stderr, stdout,
};

/// Captured machines of the repository, with faults and without.
fn roots() -> impl Iterator<Item = String> {
    let of_rack = ["worker-1", "worker-4-broken"].map(in_rack);
    machines().into_iter().map(|name| captured(&name)).chain(of_rack)
}

fn in_rack(name: &str) -> String {
    repository().join(format!("fixtures/rack/{name}.tar.zst")).display().to_string()
}

/// The published schema, with its parts by their `$id`.
fn schema() -> jsonschema::Validator {
    let documents = lines_of(include_str!("ocptv.jsonl").split_once('\n').unwrap().1);
    let root = documents.iter().find(|document| document["title"] == "OutputArtifact").unwrap();
    let mut options = jsonschema::options();
    for document in &documents {
        let id = document["$id"].as_str().unwrap();
        let resource = jsonschema::Resource::from_contents(document.clone()).unwrap();
        options = options.with_resource(id, resource);
    }
    options.should_validate_formats(true).build(root).unwrap()
}

/// A value on each line.
fn lines_of(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn ocptv_lines_of_every_machine_fit_the_published_schema() {
    let schema = schema();
    for root in roots() {
        let lines = lines_of(&stdout(&run(&format!("check --format ocptv --root {root}"))));
        assert!(lines.len() > 20, "{root}: {lines:#?}");
        for line in lines {
            let errors: Vec<String> = schema.iter_errors(&line).map(|e| e.to_string()).collect();
            assert!(errors.is_empty(), "{root}: {errors:#?}\n{line}");
        }
    }
    // The schema must be able to fail.
    let bad = serde_json::json!({"sequenceNumber": 0, "timestamp": "2026-11-20T10:00:00Z",
        "testRunArtifact": {"testRunEnd": {"status": "COMPLETE", "result": "GOOD"}}});
    assert!(!schema.is_valid(&bad));
}

#[test]
fn every_step_of_a_run_is_started_and_ended_once_with_its_diagnoses_between() {
    for root in roots() {
        let output = run(&format!("check --format ocptv --root {root}"));
        let lines = lines_of(&stdout(&output));
        let mut open: Option<Value> = None;
        let mut n_failed = 0;
        for (number, line) in lines.iter().enumerate() {
            assert_eq!(line["sequenceNumber"], number);
            let Some(step) = line.get("testStepArtifact") else {
                assert!(open.is_none(), "{line}");
                continue;
            };
            if step.get("testStepStart").is_some() {
                assert!(open.replace(step["testStepId"].clone()).is_none(), "{line}");
            }
            assert_eq!(open.as_ref(), Some(&step["testStepId"]), "{line}");
            n_failed += usize::from(step["diagnosis"]["type"] == "FAIL");
            if step.get("testStepEnd").is_some() {
                open = None;
            }
        }
        let result = &lines.last().unwrap()["testRunArtifact"]["testRunEnd"]["result"];
        assert_eq!(result == "FAIL", n_failed > 0, "{root}");
        assert_eq!(result == "FAIL", output.status.code() != Some(0), "{root}");
    }
}

#[test]
fn promtool_accepts_the_metrics_of_every_machine() {
    let cached = cache().map(|cache| cache.join("promtool/bin/promtool"));
    let promtool = cached.filter(|path| path.is_file()).unwrap_or_else(|| "promtool".into());
    let has_it = Command::new(&promtool).arg("--version").output().is_ok();
    let is_required = std::env::var_os("RCI_REQUIRE_TOOLS").is_some();
    assert!(has_it || !is_required, "promtool is missing, but RCI_REQUIRE_TOOLS is set");
    if !has_it {
        return skipped("promtool is missing");
    }
    let dir = scratch("prometheus");
    for root in roots() {
        let file = dir.join("check.prom");
        let words = format!("check --format prometheus --root {root} --output {}", file.display());
        assert_eq!(stdout(&run(&words)), "");
        let metrics = std::fs::File::open(&file).unwrap();
        let output = Command::new(&promtool)
            .args(["check", "metrics"])
            .stdin(Stdio::from(metrics))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned() + &stdout(&output);
        assert!(output.status.success() && said.is_empty(), "{root}: {said}");
    }
    // Nothing but the finished file is left.
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 1);
}

#[test]
fn output_file_is_replaced_as_a_whole_and_readable_for_others() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    let file = scratch("check-output").join("findings.json");
    std::fs::write(&file, "old").unwrap();
    let before = std::fs::metadata(&file).unwrap().ino();
    let root = captured("crowded-server");
    let words = format!("check --format json --root {root} -o {}", file.display());
    assert_eq!(stdout(&run(&words)), "");
    let after = std::fs::metadata(&file).unwrap();
    assert_ne!(after.ino(), before, "written in place");
    assert_eq!(after.permissions().mode() & 0o777, 0o644);
    let findings: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(json(&format!("check --format json --root {root}")), findings);
    assert_refused(&format!("check --root {root} -o /nonexistent/x"), "/nonexistent/x");
}

/// A machine with findings, as an option.
fn broken() -> String {
    format!("--root {}", in_rack("worker-4-broken"))
}

#[test]
fn text_names_the_machine_first_whatever_is_read() {
    for only in ["", "--only block"] {
        let text = stdout(&run(&format!("check {} {only}", broken())));
        let first = text.lines().next().unwrap();
        assert_eq!(first, "machine: Dell Inc. PowerEdge R650, serial 7XJ4KZ4", "{only}");
    }
}

#[test]
fn what_only_leaves_out_is_listed() {
    let note = "Not judged because of --only: os (with the kernel log), bmc";
    let text = stdout(&run(&format!("check {}", broken())));
    assert!(text.contains("disk.kernel_errors") && !text.contains("Not judged"), "{text}");
    let text = stdout(&run(&format!("check {} --only block", broken())));
    assert!(!text.contains("disk.kernel_errors") && text.contains(note), "{text}");
    let output = run(&format!("check {} --only block --format json", broken()));
    assert!(serde_json::from_str::<Vec<Value>>(&stdout(&output)).is_ok());
    assert!(stderr(&output).contains(note), "{}", stderr(&output));
}

#[test]
fn sample_waits_between_two_readings_and_reads_no_capture() {
    let start = std::time::Instant::now();
    assert!(json("check --only os --format json --sample 1").is_array());
    assert!(start.elapsed() >= std::time::Duration::from_secs(1));
    assert_refused(&format!("check --sample 1 {}", broken()), "--root");
}

#[test]
fn load_tests_every_cpu_in_the_time_asked_for_and_names_none_that_is_healthy() {
    let start = std::time::Instant::now();
    let output = run("check --only os --format json --load 1");
    assert!(start.elapsed() >= std::time::Duration::from_secs(1));
    assert!(start.elapsed() < std::time::Duration::from_secs(20), "{:?}", start.elapsed());
    let findings: Vec<Value> = serde_json::from_str(&stdout(&output)).unwrap();
    let codes: Vec<&str> = findings.iter().filter_map(|finding| finding["code"].as_str()).collect();
    let is_load = |code: &&str| ["cpu.wrong_result", "memory.wrong_content"].contains(code);
    assert!(!codes.iter().any(is_load), "{findings:?}");
    let log = stderr(&output);
    let n_cpus = std::thread::available_parallelism().unwrap();
    assert!(log.contains(&format!("computed on {n_cpus} CPUs and tested ")), "{log}");
    let n_mib = log.split("tested ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    assert!(n_mib.parse::<u64>().unwrap() > 0, "{log}");
    assert_refused(&format!("check --load 1 {}", broken()), "--root");
}

#[test]
fn signal_ends_a_load_at_once_with_all_its_processes() {
    let log = scratch("check-load").join("log");
    let mut check = agent()
        .args(["check", "--only", "os", "--load", "600"])
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let pid = check.id();
    let n_cpus = std::thread::available_parallelism().unwrap().get();
    let started = until("a process for each CPU", || {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
        let of =
            |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("children")).ok();
        let children: String = tasks.filter_map(of).collect();
        let children: Vec<String> = children.split_whitespace().map(str::to_owned).collect();
        let log = std::fs::read_to_string(&log).unwrap();
        assert!(check.try_wait().unwrap().is_none(), "{children:?}: {log}");
        (children.len() >= n_cpus).then_some(children)
    });
    kill(Pid::from_raw(pid.cast_signed()), Signal::SIGTERM).unwrap();
    let killed = std::time::Instant::now();
    assert!(!check.wait().unwrap().success());
    let is_running = |child: &String| {
        let state = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        !state.is_empty() && !state.contains(") Z ")
    };
    until("the end of every process", || (!started.iter().any(is_running)).then_some(()));
    assert!(killed.elapsed() < std::time::Duration::from_secs(5), "{started:?} ran on");
}

#[test]
fn exit_status_is_that_of_the_worst_finding() {
    let mut seen = std::collections::BTreeSet::new();
    for root in roots() {
        let output = run(&format!("check --format json --root {root}"));
        let findings: Vec<Value> = serde_json::from_str(&stdout(&output)).unwrap();
        let has = |severity: &str| findings.iter().any(|finding| finding["severity"] == severity);
        let expected = if has("critical") { 7 } else { i32::from(has("warning")) };
        assert_eq!(output.status.code(), Some(expected), "{root}");
        seen.insert(expected);
    }
    assert_eq!(seen, [0, 1, 7].into());
}

#[test]
fn qr_code_below_the_findings_reads_as_machine_and_faults() {
    let root = captured("two-socket-server");
    let output = agent()
        .args(["check", "--qr", "--root", &root])
        .envs([("LANG", "C.UTF-8"), ("COLUMNS", "120"), ("LINES", "60")])
        .output()
        .unwrap();
    let shown = stdout(&output);
    let (findings, code) = shown.split_at(shown.find('█').unwrap());
    assert_eq!(findings, stdout(&run(&format!("check --root {root}"))));
    assert_eq!(
        qr_reader::read(code),
        [
            "Dell Inc. PowerEdge R650\nserial 7XJ4KZ3\nwarning memory.dimm.mismatch: DIMM_B4, serial S0000007\nFit matching DIMMs (see the board manual)."
        ]
    );
    assert_eq!(output.status.code(), Some(1));
    assert!(read("README.md").contains(code), "README.md shows another code than {code}");
}

#[test]
fn qr_code_that_does_not_fit_and_other_formats_are_refused_in_a_line() {
    let check = |language: &str, arguments: &[&str]| {
        let mut command = agent();
        command.args(["check", "--qr", "--root", &captured("crowded-server")]).args(arguments);
        command.envs([("LANG", language), ("LINES", "12")]).output().unwrap()
    };
    let small = stderr(&check("C.UTF-8", &[]));
    let expected = "it does not fit 80 columns and 12 rows; enlarge the terminal";
    assert!(small.contains(expected), "{small}");
    let ascii = stderr(&check("C", &[]));
    assert!(ascii.contains("or choose a locale with UTF-8"), "{ascii}");
    let json = check("C.UTF-8", &["--format", "json"]);
    assert_is_refused(&json, "--qr needs --format text", "--format json");
}
