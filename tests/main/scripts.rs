//! The scripts that a newcomer runs: those of `make report`, and the table at the end of `make test`.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output, Stdio};

use crate::util::{repository, scratch, stderr, stdout};

/// The lines that `tests/shorten.sh` makes of `report`, outside a terminal.
fn shortened(report: &str, columns: &str) -> Vec<String> {
    let mut child = Command::new(repository().join("tests/shorten.sh"))
        .env("COLUMNS", columns)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(report.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    stdout(&output).lines().map(str::to_owned).collect()
}

/// Runs `tests/setup.sh rust` where `rustc --version` is answered by `rustc`.
fn checked(name: &str, rustc: &str) -> Output {
    let folder = scratch(name);
    for (program, text) in [("rustc", rustc), ("cargo", "true")] {
        let path = folder.join(program);
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    Command::new(repository().join("tests/setup.sh"))
        .arg("rust")
        .env("PATH", path)
        .output()
        .unwrap()
}

#[test]
fn a_shortened_report_marks_every_cut_and_cuts_no_character_in_two() {
    let lines = shortened("####\nshort\n50 °C, 51 °C\n50 °C, 51 °\n3\n4\n5\n6\n7\n####\n", "11");
    assert_eq!(lines, ["####", "short", "50 °C, 51 …", "50 °C, 51 °", "3", "4", "5", " …", "####"]);
}

#[test]
fn a_shortened_report_is_as_wide_as_the_terminal_whatever_columns_says() {
    // A terminal of 11 columns; `pty` copies what is printed there.
    let program = "import pty; pty.spawn(['sh', '-c', 'stty cols 11; printf 123456789012 | tests/shorten.sh'])";
    let output = Command::new("python3")
        .args(["-c", program])
        .current_dir(repository())
        .env("COLUMNS", "100")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(stdout(&output).trim_end(), "1234567890…", "{}", stderr(&output));
}

#[test]
fn setup_accepts_the_rust_that_cargo_toml_requires_and_newer() {
    for (number, version) in ["1.95.0", "1.100.1"].iter().enumerate() {
        let output = checked(
            &format!("setup-rust-{number}"),
            &format!("echo 'rustc {version} (59807616e 2026-04-14)'"),
        );
        assert!(output.status.success(), "{version}: {}", stderr(&output));
        assert_eq!(stderr(&output), "");
    }
}

#[test]
fn setup_explains_how_to_get_rust_when_it_is_old_or_missing() {
    let cases = [
        ("old", "echo 'rustc 1.63.0'", "Rust 1.63.0 is too old: "),
        ("missing", "exit 127", "Rust is not installed: "),
    ];
    for (name, rustc, expected) in cases {
        let output = checked(&format!("setup-rust-{name}"), rustc);
        assert_eq!(output.status.code(), Some(1));
        let message = stderr(&output);
        assert!(message.starts_with(expected), "{message}");
        assert!(message.contains("1.95 or newer"), "{message}");
        assert!(message.contains("apt install cargo-web rustc-web"), "{message}");
    }
}

/// Runs `script` with the functions of `tests/parts.sh`.
fn parts(name: &str, script: &str) -> Output {
    let script = format!("set -euo pipefail; . tests/parts.sh; parts_begin \"$1\"; {script}");
    let mut command = Command::new("bash");
    command.args(["-c", &script, "bash"]).arg(scratch(name).join("run"));
    command.current_dir(repository()).output().unwrap()
}

#[test]
fn a_run_of_parts_ends_with_the_status_of_its_parts_whether_tests_were_skipped_or_not() {
    let cases = [
        ("part one true", 0, "skipped tests: 0"),
        ("part one echo 'skipped: name: no tool'", 0, "skipped tests: 1"),
        ("part one false; part two true", 1, "FAILED: one"),
        ("part one true; exit 3", 3, "skipped tests: 0"),
        ("part_aside one echo said; part two true; part_join one", 0, "said"),
        ("part_aside one sh -c 'echo said; exit 3'; part two true; part_join one", 3, "said"),
        ("part_aside one false; part two true; part_join one; part three true", 1, "FAILED: one"),
    ];
    for (script, status, shown) in cases {
        let output = parts("parts", script);
        let all = stdout(&output) + &stderr(&output);
        assert_eq!(output.status.code(), Some(status), "{script}: {all}");
        assert!(all.contains(shown), "{script}: {all}");
    }
}

#[test]
fn a_part_that_fails_ends_what_runs_at_the_same_time() {
    let script = "part_aside one sh -c 'echo $$; exec sleep 100'
        until grep -q . \"$1/one.log\"; do sleep 0.1; done 2>/dev/null
        echo \"pid=$(cat \"$1/one.log\")\"
        part two false";
    let output = parts("parts-aside", script);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let shown = stdout(&output);
    let pid = shown.lines().find_map(|line| line.strip_prefix("pid=")).unwrap().to_owned();
    let process = std::path::Path::new("/proc").join(pid.trim());
    // The signal has been sent; the process may take a moment.
    for _ in 0..100 {
        if !process.exists() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    panic!("process {pid} still runs");
}
