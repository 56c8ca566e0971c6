//! Rules of the source tree that no compiler checks.

use std::path::{Path, PathBuf};

use crate::util::{read, repository};

/// The sources of every crate that is shipped.
const CRATES: [&str; 6] =
    ["agent/src", "compare/src", "formats/src", "probes/src", "ignition/src", "lab/src"];

/// The Rust files below a folder, with their text.
pub(crate) fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    fn walk(dir: &Path, found: &mut Vec<(PathBuf, String)>) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("target") {
                walk(&path, found);
            } else if path.extension().is_some_and(|e| e == "rs") {
                found.push((path.clone(), std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    let mut found = Vec::new();
    walk(&repository().join(folder), &mut found);
    assert!(!found.is_empty(), "{folder} has no sources");
    found
}

/// Whether a file contains tests or helpers of tests.
fn is_test(path: &Path) -> bool {
    path.ends_with("tests.rs") || path.ends_with("testing.rs")
}

/// The part of a file before its module of tests. Items for tests only that come before it are checked as code.
fn code(text: &str) -> &str {
    ["#[cfg(test)]\nmod tests", "#[cfg(test)]\npub(super) mod tests"]
        .iter()
        .fold(text, |code, tests| code.split(tests).next().unwrap_or_default())
}

#[test]
fn code_after_an_item_for_tests_is_checked() {
    let text = "fn a() {}\n#[cfg(test)]\nfn helper() {}\nfn b() {}\n#[cfg(test)]\nmod tests {\n}";
    assert!(code(text).contains("fn b()") && !code(text).contains("mod tests"));
}

/// No line of code in these files, apart from comments, has one of these words where `is_forbidden` holds for file and word.
fn forbid(
    files: impl IntoIterator<Item = (PathBuf, String)>,
    words: &[&str],
    is_forbidden: impl Fn(&Path, &str) -> bool,
) {
    for (path, text) in files {
        for line in code(&text).lines().filter(|line| !line.trim().starts_with("//")) {
            let is_found = |word: &&str| line.contains(word) && is_forbidden(&path, word);
            assert!(!words.iter().any(is_found), "{}: {line}", path.display());
        }
    }
}

/// The sources of a folder without tests.
fn tested_sources(folder: &str) -> impl Iterator<Item = (PathBuf, String)> {
    sources(folder).into_iter().filter(|(path, _)| !is_test(path))
}

/// An item for tests belongs into the tests; only a module for tests may be declared among the code.
#[test]
fn items_for_tests_are_in_modules_for_tests() {
    for folder in CRATES {
        for (path, text) in sources(folder) {
            for item in text.split("#[cfg(test)]").skip(1) {
                let first = item.trim_start().lines().next().unwrap_or_default();
                assert!(first.contains("mod "), "{}: {first}", path.display());
            }
        }
    }
}

#[test]
fn probes_read_only_through_the_machine() {
    let files = ["std::fs", "std::process", "File::", " Command::", "libc::"];
    let words = [&files[..], &["TcpStream", "UdpSocket", "TcpListener"]].concat();
    forbid(tested_sources("probes/src"), &words, |path, _| {
        !path.components().any(|c| c.as_os_str() == "machine" || c.as_os_str() == "sys")
    });
}

/// These crates and calls read the running host by themselves: no replay could feed them.
#[test]
fn only_the_section_live_is_read_outside_of_the_machine() {
    let words = ["sysinfo::", "procfs::", "getrusage", "::current()", "from_file("];
    let files = ["probes/src", "formats/src"].into_iter().flat_map(sources);
    forbid(files, &words, |path, _| !path.ends_with("probes/src/live.rs"));
}

/// Files of the agent that name a file below `/sys` or `/proc` themselves, and what they do with it that the
/// machine, which only reads, cannot do.
const KERNEL_FILES: [(&str, &str); 9] = [
    ("agent/src/links.rs", "writes the flags that bring a port up and down"),
    ("agent/src/check/load/child.rs", "makes itself the first process that a lack of memory ends"),
    ("agent/src/check/load/memory.rs", "reads the one entry of a large table that a page has"),
    ("agent/src/job/supervise.rs", "starts the program that is running once more"),
    ("agent/src/act/device.rs", "opens a device once more by its descriptor"),
    (
        "agent/src/act/mounted.rs",
        "names an open device to mount, and reads the mounts of its thread",
    ),
    ("agent/src/act/proof/fsck.rs", "names an open disk for a program that reads it"),
    (
        "agent/src/act/system.rs",
        "says where efivarfs is mounted, where act/efi.rs and act/trace write",
    ),
    ("agent/src/act/takedown/kernel.rs", "names a swap area by its open descriptor"),
];

#[test]
fn agent_reads_sys_and_proc_only_through_the_machine() {
    let words = ["\"/sys", "\"/proc", "join(\"sys", "join(\"proc"];
    forbid(tested_sources("agent/src"), &words, |path, _| {
        !KERNEL_FILES.iter().any(|(file, _)| path.ends_with(file))
    });
}

/// The modules of `act` that its proof may use: what was ordered and fetched, the form of what it finds, and what its tests
/// order.
const USED_BY_PROOF: [&str; 4] = ["array_metadata", "proof", "stream_facts", "testing"];

#[test]
fn the_proof_needs_nothing_that_writes_and_only_prove_and_the_trace_need_the_proof() {
    for (path, text) in sources("agent/src/act") {
        if path.components().any(|part| part.as_os_str() == "proof") {
            for used in text.split("crate::act::").skip(1) {
                let is_type = used.starts_with(|c: char| c.is_uppercase() || c == '{');
                let is_allowed = USED_BY_PROOF.iter().any(|name| used.starts_with(name));
                assert!(is_type || is_allowed, "{} uses {used:.40}", path.display());
            }
        } else if !path.ends_with("prove.rs") && !path.ends_with("trace/file.rs") {
            assert!(!text.contains("act::proof"), "{} needs the proof", path.display());
        }
    }
}

/// Files of `act` that name a program besides its writers, and why.
const NAME_A_PROGRAM: [(&str, &str); 4] = [
    ("act/advice.rs", "texts for people"),
    ("act/install.rs", "chooses the writer"),
    ("act/preflight.rs", "asks the writer for its version"),
    ("act/site.rs", "the program and its image in a live system"),
];

#[test]
fn act_needs_no_wire_and_no_fleet_and_few_files_name_a_program() {
    for (path, text) in tested_sources("agent/src/act") {
        let (code, shown) = (code(&text), path.display());
        for word in ["crate::engines", "crate::api", "crate::job", "crate::checkpoint"] {
            assert!(!code.contains(word), "{shown} needs {word}");
        }
        let is_writer = path.components().any(|part| part.as_os_str() == "writers");
        if is_writer || NAME_A_PROGRAM.iter().any(|(file, _)| path.ends_with(file)) {
            continue;
        }
        for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
            let line = line.replace("run-coreos-installer", "");
            let names = line.contains("coreos-installer") || line.contains("coreos_installer::");
            assert!(!names, "{shown} names a program: {line}");
        }
    }
}

#[test]
fn no_probe_can_write() {
    let forbidden = [
        "fs::write",
        "File::create",
        ".write(true)",
        ".append(true)",
        ".truncate(true)",
        "O_RDWR",
        "O_WRONLY",
        "O_CREAT",
        "fs::remove",
        "fs::rename",
        "mknod(",
        "unlink(",
        "Command::new",
        "write_all",
    ];
    let allowed = [
        // The devices of BMC and TPM accept requests only when opened for writing; these files send only commands that read.
        ("sys/ipmi.rs", ".write(true)"),
        ("sys/tpm.rs", ".write(true)"),
        // The driver of MegaRAID controllers has a device without a node: one is made, opened and removed.
        ("sys/megaraid.rs", "mknod("),
        ("sys/megaraid.rs", "unlink("),
    ];
    forbid(tested_sources("probes/src"), &forbidden, |path, word| {
        !allowed.iter().any(|(file, of_file)| path.ends_with(file) && *of_file == word)
    });
}

/// So that a run can be driven in the time of a test.
#[test]
fn jobs_take_time_from_the_clock_and_threads_from_the_guard() {
    let times = ["Instant::now", "SystemTime::now", ".elapsed()", "recv_timeout("];
    let words = [&times[..], &["thread::sleep", "thread::spawn"]].concat();
    for room in ["act", "engines", "http", "job"] {
        forbid(tested_sources(&format!("agent/src/{room}")), &words, |_, _| true);
    }
}

/// The statics that can change, and why they are not parts of a value that is passed.
const STATICS: [(&str, &str, &str); 8] = [
    ("agent/src/secret.rs", "HIDDEN", "the log, which must not show them, is one for the process"),
    ("agent/src/signals.rs", "CAUGHT", "the kernel keeps one handler for a signal"),
    ("probes/src/guard.rs", "ON_PANIC", "the process has one panic hook, which asks the thread"),
    ("probes/src/guard.rs", "ONCE", "the process has one panic hook"),
    ("probes/src/machine/folder.rs", "LAST", "the open directory of a thread"),
    ("probes/src/machine/live.rs", "BUFFER", "the buffer of a thread"),
    ("probes/src/machine/directory.rs", "LAST_OWNER", "counts owners of the threads' directories"),
    ("probes/src/sys/netlink/ethtool.rs", "FAMILY", "a number that the running kernel chose"),
];

#[test]
fn no_static_can_change_unless_it_is_listed() {
    let changing = ["Mutex", "RwLock", "OnceLock", "Once ", "Atomic", "Cell<", "static mut "];
    let mut n_found = 0;
    for (path, text) in CRATES.into_iter().flat_map(tested_sources) {
        for line in code(&text).lines().filter(|line| changing.iter().any(|t| line.contains(t))) {
            let words: Vec<&str> = line.split([' ', ':']).collect();
            let Some(at) = words.iter().position(|word| *word == "static") else { continue };
            let is_known = |(file, name, _): &(&str, &str, &str)| {
                path.ends_with(file) && words.get(at + 1) == Some(name)
            };
            assert!(STATICS.iter().any(is_known), "{}: {line}", path.display());
            n_found += 1;
        }
    }
    assert_eq!(n_found, STATICS.len());
}

/// Files of the agent with a command of the library, and what it starts.
const COMMANDS: [(&str, &str); 5] = [
    ("agent/src/act/programs.rs", "every other program"),
    ("agent/src/check/load/mod.rs", "this program, to load a CPU"),
    ("agent/src/engines/offline/options.rs", "none: it is a part of our own command line"),
    ("agent/src/job/supervise.rs", "this program, for the job"),
    ("agent/src/namespace.rs", "a test in a namespace of its own"),
];

/// So that a test can put a script in the place of programs and servers.
#[test]
fn programs_are_started_and_requests_are_sent_in_one_file_each() {
    forbid(tested_sources("agent/src"), &["Command::new("], |path, _| {
        !COMMANDS.iter().any(|(file, _)| path.ends_with(file))
    });
    let words = ["ureq::Agent", "ureq::{Agent", "ureq::Body", "configure_request("];
    forbid(tested_sources("agent/src"), &words, |path, _| !path.ends_with("http/transport.rs"));
}

#[test]
fn only_http_names_its_client() {
    for room in ["act", "engines", "job"] {
        forbid(tested_sources(&format!("agent/src/{room}")), &["ureq"], |_, _| true);
    }
}

#[test]
fn formats_exports_and_comparisons_do_no_io() {
    let of_system = ["std::fs", "std::process", "std::env", "File::", "nix::", "unsafe "];
    let words = [&of_system[..], &["UdpSocket", "UnixStream", "TcpStream"]].concat();
    let files = ["formats/src", "agent/src/export", "compare/src"].into_iter().flat_map(sources);
    forbid(files, &words, |_, _| true);
}

#[test]
fn every_file_begins_with_its_documentation() {
    for folder in CRATES.into_iter().chain(["lab/tests", "tests"]) {
        for (path, text) in sources(folder) {
            assert!(text.starts_with("//!"), "{} begins without //!", path.display());
        }
    }
}

/// `Debug` of text ignores a precision, so that a text of megabytes would be shown whole.
#[test]
fn no_text_is_shortened_by_a_precision_that_debug_ignores() {
    for folder in CRATES {
        for (path, text) in sources(folder) {
            for (n, line) in code(&text).lines().enumerate() {
                let is_precision = |rest: &str| {
                    let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
                    rest.starts_with("?}")
                };
                let is_comment = line.trim_start().starts_with("//");
                let found = !is_comment && line.split(":.").skip(1).any(is_precision);
                assert!(!found, "{}:{}: {line}", path.display(), n + 1);
            }
        }
    }
}

/// A row with fewer would be ignored.
#[test]
fn rows_of_tables_have_all_their_cells() {
    for (table, n_cells) in [
        ("agent/src/live_config/names.txt", 2),
        ("formats/data/codes.txt", 3),
        ("formats/data/command-line.txt", 2),
        ("formats/data/foreign.txt", 2),
        ("ignition/src/check/later.txt", 2),
        ("ignition/src/merge.txt", 2),
        ("lab/src/page/report.txt", 2),
        ("probes/data/arm-midr.txt", 3),
        ("probes/data/bmc-usb.txt", 2),
        ("probes/data/existing-os.txt", 2),
        ("probes/data/transports.txt", 3),
        ("probes/data/virtual-media.txt", 2),
    ] {
        let text = read(table);
        for row in text.lines().filter(|row| !row.is_empty() && !row.starts_with('#')) {
            assert_eq!(row.split('|').count(), n_cells, "{table}: {row}");
        }
    }
}

#[test]
fn no_file_is_too_long_to_read() {
    for folder in CRATES {
        for (path, text) in tested_sources(folder) {
            let n_lines = code(&text).lines().count();
            assert!(n_lines <= 400, "{} has {n_lines} lines without its tests", path.display());
        }
    }
}

#[test]
fn the_top_of_the_repository_has_only_known_files() {
    let expected = [
        ".cargo",
        ".ci",
        ".gitignore",
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "Cargo.lock",
        "Cargo.toml",
        "LICENSE",
        "Makefile",
        "README.md",
        "agent",
        "clippy.toml",
        "compare",
        "deny.toml",
        "docs",
        "fixtures",
        "formats",
        "ignition",
        "lab",
        "probes",
        "rustfmt.toml",
        "systemd",
        "tests",
    ];
    let listed = std::process::Command::new("git")
        .args(["ls-tree", "--name-only", "HEAD"])
        .current_dir(repository())
        .output()
        .unwrap();
    for name in String::from_utf8_lossy(&listed.stdout).lines() {
        assert!(expected.contains(&name), "{name} is at the top of the repository");
    }
}

#[test]
fn every_test_that_the_safety_page_names_exists() {
    let page = read("docs/safety.md");
    let all: String = CRATES
        .iter()
        .chain(&["tests", "lab/tests"])
        .flat_map(|f| sources(f))
        .map(|(_, text)| text)
        .collect();
    let rows = page.lines().filter(|line| line.starts_with("| ")).skip(1);
    let mut n_named = 0;
    for row in rows {
        let tests = row.trim_end_matches(" |").rsplit(" | ").next().unwrap();
        for name in tests.split('`').skip(1).step_by(2) {
            assert!(all.contains(&format!("fn {name}()")), "{name} is no test");
            n_named += 1;
        }
    }
    assert!(n_named > 40, "{n_named}");
}
