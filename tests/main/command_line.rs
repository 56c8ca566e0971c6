//! The program as a user runs it.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::util::{
    agent, assert_is_refused, assert_refused, captured, json, read, run, scratch, stderr, stdout,
    write,
};

#[test]
fn without_a_command_and_without_a_vim_it_prints_help_and_ends_with_2() {
    let output = run("");
    assert_eq!(output.status.code(), Some(2));
    assert!(stdout(&output).contains("Usage: run-coreos-installer"));
    // Standard input is no terminal, as in a live image, whose console shows the last lines.
    let error = stderr(&output);
    assert!(error.contains("ERROR nothing to do: neither a VIM nor"), "{error}");
    assert!(error.contains("rci.vim=URL"), "{error}");
}

#[test]
fn misspelt_option_or_variable_is_refused_with_the_nearest_and_nothing_runs() {
    let error = stderr(&run("inspect --buget 3"));
    assert!(error.contains("a similar argument exists: '--budget'"), "{error}");
    let installer = scratch("misspelt").join("installer");
    let marker = installer.with_extension("ran");
    std::fs::write(&installer, format!("#!/bin/sh\n: >{}\n", marker.display())).unwrap();
    for command in ["install", "report"] {
        let output = agent()
            .args([command, "--vim", "http://127.0.0.1:1", "--allow-plain-http"])
            .args(["--give-up-after", "0"])
            .env("RCI_INSTALLER", &installer)
            .env("RCI_DRYRUN", "1")
            .output()
            .unwrap();
        let expected = "RCI_DRYRUN is not an option, did you mean \"RCI_DRY_RUN\"?";
        assert_is_refused(&output, expected, command);
        assert!(!marker.exists());
    }
}

#[test]
fn wrong_words_are_refused_with_what_is_expected_or_was_probably_meant() {
    for (words, expected) in [
        ("inspect --formt json", "--formt"),
        ("install --vmi https://v", "a similar argument exists: '--vim'"),
        ("check some.tar.zst", "to read a captured machine, use 'check --root some.tar.zst'"),
        ("inspect --only cpu some.tar.zst", "use 'inspect --root some.tar.zst'"),
        ("--log-level report check some.tar.zst", "use 'check --root some.tar.zst'"),
        ("inspect --only cpus", "\"cpus\", expected one of cpu, memory"),
        ("explain memory.ecc.uncorrectible", "memory.ecc.uncorrectable"),
        ("explain TARGET_IO", "codes in capitals are those of results"),
        ("locate chassis --root machine.tar.zst", "unexpected argument '--root'"),
        ("locate rci-none0", "neither `chassis` nor a network port or disk"),
    ] {
        assert_refused(words, expected);
    }
    assert!(!stderr(&run("inspect --zzz")).contains("tip"));
    let error = assert_refused("locate lo --seconds 1", "");
    assert!(
        error.contains("lo cannot make its light blink") || error.contains("Operation"),
        "{error}"
    );
}

#[test]
fn port_that_cannot_exist_is_refused_by_option_without_a_password() {
    for (words, option) in [
        ("install --vim http://host:99999", "--vim"),
        ("report --vim http://host:65536", "--vim"),
        ("install --vim https://v --proxy http://me:SECRET@p:99999", "--proxy"),
        ("install --vim https://v --proxy http://me:99999/SECRET@p:1", "--proxy"),
        ("live-config --vim https://v --config-url http://h:70000/x", "--config-url"),
    ] {
        let error = assert_refused(words, &format!("{option} is \"http"));
        assert!(error.contains("expected a port from 1 to 65535"), "{error}");
        assert!(!error.contains("SECRET"), "{error}");
    }
    let output = agent().arg("install").env("RCI_VIM", "http://host:99999").output().unwrap();
    assert!(stderr(&output).contains("RCI_VIM is \"http://host:99999\""), "{}", stderr(&output));
}

#[test]
fn kind_of_fault_that_check_names_is_explained_by_its_findings() {
    let output = run("explain memory.setup.mismatch");
    assert_eq!(output.status.code(), Some(0));
    let text = stdout(&output);
    assert!(text.starts_with("memory.setup.mismatch is a kind of fault. It is"), "{text}");
    assert!(text.contains("\nmemory.dimm.mismatch (memory, "), "{text}");
    let rows = json("explain memory.setup.mismatch --format json");
    assert!(rows.as_array().is_some_and(|rows| !rows.is_empty()));
}

/// Runs `inspect --root` on what cannot be replayed; it must end with 2 and say what is expected.
fn refused_root(root: &Path) -> String {
    let text = assert_refused(&format!("inspect --root {}", root.display()), "");
    let expected = "; expected a directory that contains sys/ or proc/, or a tar or tar.zst archive \
                    made by `run-coreos-installer capture`\n";
    let found = text.strip_suffix(expected).unwrap_or_else(|| panic!("{text}")).to_owned();
    found.split_once(&format!("--root {}: ", root.display())).unwrap().1.to_owned()
}

#[test]
fn a_tree_without_facts_gives_a_report_and_a_name_of_its_own() {
    let root = tree("empty-tree", &[("proc/unknown", "")]);
    let report = json(&format!("inspect --format json --root {}", root.display()));
    let node_id = report["node_id"].as_str().unwrap();
    assert!(node_id.starts_with("capture-"), "{node_id}");
    let problems = report["problems"].as_array().unwrap();
    assert!(problems.len() == 1 && problems[0]["collector"] == "identity", "{problems:?}");
}

#[test]
fn a_root_that_is_no_captured_machine_is_refused_with_what_was_found_and_expected() {
    let dir = scratch("roots");
    let file = |name: &str, content: &[u8]| {
        let path = dir.join(name);
        std::fs::write(&path, content).unwrap();
        path
    };
    assert_eq!(refused_root("/nowhere/at/all".as_ref()), "there is no such file or directory");
    assert_eq!(refused_root(&file("empty", b"")), "the file is empty");
    assert_eq!(refused_root(&file("text", b"hello\n")), "the file is not an archive");
    let gzip = refused_root(&file("x.gz", b"\x1f\x8b\x08\0\0\0\0\0"));
    assert_eq!(gzip, "the file is compressed with gzip; unpack it first");
    std::fs::create_dir(dir.join("folder")).unwrap();
    assert_eq!(refused_root(&dir.join("folder")), "the directory is empty");
    std::fs::write(dir.join("folder/notes.txt"), "").unwrap();
    let archive = archive("other-archive", &["a.txt", "b.txt"]);
    for (root, what, names) in [
        (dir.join("folder"), "directory", "\"notes.txt\""),
        (archive, "archive", "\"a.txt\" and 1 more"),
    ] {
        let expected =
            format!("the {what} contains no machine: neither sys/ nor proc/, but {names}");
        assert_eq!(refused_root(&root), expected);
    }
    std::fs::create_dir(dir.join("folder/proc")).unwrap();
    let found = refused_root(&dir.join("folder"));
    assert!(found.starts_with("proc in the directory is empty and there is no sys"), "{found}");
}

#[test]
fn root_whose_sys_is_empty_or_a_file_is_refused_even_with_a_proc() {
    let dir = scratch("sys-of-no-machine");
    let expected = "expected what a kernel shows in /sys";
    for has_proc in [false, true] {
        if has_proc {
            write(&dir.join("proc/version"), "Linux version 6.1\n");
        }
        std::fs::create_dir(dir.join("sys")).unwrap();
        let found = refused_root(&dir);
        assert_eq!(found, format!("sys in the directory is empty, {expected}"));
        std::fs::remove_dir(dir.join("sys")).unwrap();
        std::fs::write(dir.join("sys"), "{}").unwrap();
        let found = refused_root(&dir);
        assert_eq!(found, format!("sys in the directory is not a directory, {expected}"));
        std::fs::remove_file(dir.join("sys")).unwrap();
    }
}

#[test]
fn a_directory_that_only_shares_names_with_a_capture_is_refused() {
    let dir = scratch("like-etc");
    std::fs::create_dir(dir.join("kernel")).unwrap();
    std::fs::write(dir.join("report.json"), "{}").unwrap();
    let found = refused_root(&dir);
    assert!(found.starts_with("the directory contains no machine"), "{found}");
    write(&dir.join("proc/version"), "Linux version 6.1\n");
    let output = agent().args(["inspect", "--root"]).arg(&dir).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn a_damaged_capture_is_refused_wherever_it_is_cut_and_a_whole_one_is_replayed() {
    let dir = scratch("cut-roots");
    let whole = std::fs::read(captured("plain-guest")).unwrap();
    let path = dir.join("cut.tar.zst");
    for length in [3, 5, 20, whole.len() / 2, whole.len() - 1] {
        std::fs::write(&path, &whole[..length]).unwrap();
        let found = refused_root(&path);
        let expected = "the archive is cut short or damaged";
        assert!(found == expected || length == 3, "{length} bytes: {found}");
    }
    // A plain tar, cut between two files: each file is whole, and yet the machine is not.
    let mut plain = Vec::new();
    let decoder = ruzstd::decoding::StreamingDecoder::new(whole.as_slice()).unwrap();
    std::io::Read::read_to_end(&mut { decoder }, &mut plain).unwrap();
    let path = dir.join("machine.tar");
    std::fs::write(&path, &plain).unwrap();
    let output = agent().args(["inspect", "--only", "os", "--root"]).arg(&path).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let second = 512 + usize::try_from(tar_size(&plain)).unwrap().div_ceil(512) * 512;
    std::fs::write(&path, &plain[..second]).unwrap();
    assert_eq!(refused_root(&path), "the archive is cut short or damaged");
}

/// The size of the first file in a tar archive.
fn tar_size(archive: &[u8]) -> u64 {
    let mut archive = tar::Archive::new(archive);
    archive.entries().unwrap().next().unwrap().unwrap().size()
}

#[test]
fn check_reports_when_part_of_the_machine_could_not_be_read() {
    let files = [("proc/meminfo", "MemTotal: many kB\n"), ("proc/cpuinfo", "processor\t: 0\n\n")];
    let root = tree("unread-tree", &[&files[..], &[IDENTIFIER]].concat());
    let output = run(&format!("check --only cpu,memory --root {}", root.display()));
    assert!(stdout(&output).contains("not read (1)") && stderr(&output).is_empty());
    let output = run(&format!("check --format json --only cpu,memory --root {}", root.display()));
    let printed = stderr(&output);
    assert!(
        printed.contains("some data was unreadable") && printed.contains("/proc/meminfo"),
        "{printed}"
    );
    let root = tree("nothing-to-read", &[IDENTIFIER]);
    let output = run(&format!("check --format json --only gpu --root {}", root.display()));
    let printed = stderr(&output);
    assert_eq!((printed.lines().count(), output.status.code()), (1, Some(0)), "{printed}");
    assert!(printed.starts_with(" INFO Not judged because of --only: os "), "{printed}");
}

#[test]
fn machine_without_any_readable_hardware_is_never_healthy() {
    let empty = scratch("no-hardware");
    for folder in ["sys/class", "proc"] {
        std::fs::create_dir_all(empty.join(folder)).unwrap();
    }
    let archive = archive("no-hardware-archive", &["proc/version"]);
    let only_sys = tree("no-hardware-sys", &[IDENTIFIER]);
    std::fs::create_dir_all(only_sys.join("sys/class/net")).unwrap();
    let expected = "nothing about this machine's hardware could be read: \
                    no processors, memory, disks, network ports, PCI devices";
    for root in [&empty, &archive, &only_sys] {
        let root = root.display();
        let refused = [
            format!("check --root {root}"),
            format!("check --format json --root {root}"),
            format!("check --format prometheus --root {root}"),
            format!("check --only memory,gpu --root {root}"),
            format!("expect --root {root}"),
            format!("diff {root} {root}"),
            format!("cohort {root} {root} {root}"),
        ];
        for words in refused {
            let expected = if words.contains("--only") {
                "nothing about this machine's hardware could be read: no memory"
            } else {
                expected
            };
            let printed = assert_refused(&words, expected);
            assert!(printed.contains(&root.to_string()), "{words}: {printed}");
        }
        let output = run(&format!("inspect --root {root}"));
        assert_eq!(output.status.code(), Some(0));
        assert!(stderr(&output).contains(expected), "{}", stderr(&output));
    }
}

#[test]
fn check_of_part_of_a_machine_names_what_is_missing() {
    let root = tree("memory-only", &[("proc/meminfo", "MemTotal: 1024 kB\n")]);
    let missing = "nothing was found about processors, disks, network ports, PCI devices";
    let output = run(&format!("check --root {}", root.display()));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains(missing), "{}", stdout(&output));
    let output = run(&format!("check --format json --root {}", root.display()));
    assert_eq!(output.status.code(), Some(0));
    assert!(stderr(&output).contains(missing), "{}", stderr(&output));
}

/// A tree of these files.
fn tree(name: &str, files: &[(&str, &str)]) -> PathBuf {
    let root = scratch(name);
    for (path, content) in files {
        write(&root.join(path), content);
    }
    root
}

/// An archive of files with a line of text.
fn archive(folder: &str, names: &[&str]) -> PathBuf {
    let path = scratch(folder).join("x.tar");
    let mut tar = tar::Builder::new(std::fs::File::create(&path).unwrap());
    let text = b"Linux version 6.1.0\n";
    let mut header = tar::Header::new_ustar();
    header.set_size(text.len() as u64);
    for name in names {
        tar.append_data(&mut header, name, &text[..]).unwrap();
    }
    tar.finish().unwrap();
    path
}

/// An identifier; a tree without one has a problem more.
const IDENTIFIER: (&str, &str) = ("sys/class/dmi/id/product_serial", "SERIAL-01\n");

#[test]
fn the_name_of_a_node_does_not_depend_on_the_sections_that_are_asked_for() {
    let root = captured("two-socket-server");
    let read = |only: &str| json(&format!("inspect --format json --root {root} {only}"));
    let whole = read("");
    assert!(whole["node_id"].as_str().unwrap().starts_with("uuid-"), "{}", whole["node_id"]);
    for section in ["cpu", "network", "product", "gpu"] {
        let part = read(&format!("--only {section}"));
        assert_eq!((&part["node_id"], &part["identity"]), (&whole["node_id"], &whole["identity"]));
        let sections = ["cpu", "network", "product", "bios", "bmc", "pci", "gpu"];
        let there = sections.into_iter().filter(|name| part.get(*name).is_some());
        assert_eq!(there.collect::<Vec<_>>(), [section]);
    }
}

#[test]
fn anonymised_capture_does_not_contain_the_boot_id_that_names_the_node() {
    const BOOT_ID: &str = "0f6a9f4c-2c1d-4b57-9a3e-2f0d8a7b6c5d";
    let boot_id = format!("{BOOT_ID}\n");
    let root = tree("boot-id-tree", &[("proc/sys/kernel/random/boot_id", &boot_id)]);
    let file = root.with_extension("tar.zst");
    let name = |root: &Path| {
        let report = json(&format!("inspect --format json --root {}", root.display()));
        report["node_id"].as_str().unwrap().to_owned()
    };
    assert_eq!(name(&root), format!("boot-{BOOT_ID}"));
    run(&format!("capture --anonymize -o {} --root {}", file.display(), root.display()));
    let replayed = name(&file);
    assert!(replayed.starts_with("boot-") && replayed.len() == 41, "{replayed}");
    let archive = probes::machine::Archive::open(&file).unwrap();
    for (path, node) in archive.nodes() {
        let probes::machine::Node::File(content) = node else { continue };
        let content = String::from_utf8_lossy(content);
        assert!(
            !content.contains(BOOT_ID) && !content.contains(&BOOT_ID.replace('-', "")),
            "{path}"
        );
    }
}

#[test]
fn two_reports_of_a_running_machine_differ_in_times_and_live_figures_alone() {
    let read = || {
        let mut report = json("inspect --format json");
        for key in ["collected_at", "duration_ms", "timings", "live"] {
            report.as_object_mut().unwrap().remove(key);
        }
        report
    };
    let (one, other) = (read(), read());
    let mut differing = differences("", &one, &other);
    differing.retain(|difference| !is_measured(difference));
    assert!(differing.is_empty(), "{differing:#?}");
}

/// Whether a fact is measured anew each time: a sensor's reading, a clock's offset, free huge pages.
fn is_measured(difference: &str) -> bool {
    let path = difference.split(": ").next().unwrap_or_default();
    let endings = ["celsius", "_rpm", "volts", "amperes", "watts", "percent", "_milli", "/n_free"];
    path.ends_with("/rtc_offset_s") || endings.iter().any(|ending| path.ends_with(ending))
}

/// Where two values differ, by path.
fn differences(path: &str, one: &Value, other: &Value) -> Vec<String> {
    use Value::{Array, Object};
    match (one, other) {
        (Object(a), Object(b)) if a.keys().eq(b.keys()) => {
            let pairs = a.iter().zip(b.values());
            pairs.flat_map(|((key, a), b)| differences(&format!("{path}/{key}"), a, b)).collect()
        }
        (Array(a), Array(b)) if a.len() == b.len() => {
            let pairs = a.iter().zip(b).enumerate();
            pairs.flat_map(|(i, (a, b))| differences(&format!("{path}/{i}"), a, b)).collect()
        }
        _ if one == other => Vec::new(),
        _ => vec![format!("{path}: {one} against {other}")],
    }
}

#[test]
fn a_pipe_that_closes_early_is_no_error() {
    use std::io::Read as _;
    let mut child = agent()
        .args(["inspect", "--format", "json"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 1];
    let mut pipe = child.stdout.take().unwrap();
    pipe.read_exact(&mut first).unwrap();
    drop(pipe);
    let output = child.wait_with_output().unwrap();
    assert_eq!(stderr(&output), "");
}

#[test]
fn print_config_shows_where_each_value_came_from() {
    let file = scratch("config").join("agent.yaml");
    std::fs::write(&file, "vim: https://vim.example\nallow_plain_http: true\n").unwrap();
    let output = agent()
        .args(["report", "--print-config", "--budget", "7", "--config"])
        .arg(&file)
        .env("RCI_GIVE_UP_AFTER", "60")
        .output()
        .unwrap();
    let text = stdout(&output);
    let line = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert!(line("vim ").contains("https://vim.example"), "{text}");
    assert!(line("vim ").contains("configuration file"), "{text}");
    assert!(line("give-up-after").contains("RCI_GIVE_UP_AFTER"), "{text}");
    assert!(line("budget").contains("[command line]"), "{text}");
    assert!(line("root").contains("[default]"), "{text}");
}

#[test]
fn a_vim_that_does_not_answer_is_logged_and_a_report_that_is_given_up_says_why() {
    let start = std::time::Instant::now();
    for (options, expected) in [
        (
            "--give-up-after 2 --log-level warn",
            ["posting the report: cannot reach", "; failed tries: 1, next try in "],
        ),
        (
            "--give-up-after 0 --log-level error",
            ["the report could not be posted: cannot reach", "the time limit has passed"],
        ),
    ] {
        let vim = "--vim http://127.0.0.1:1 --allow-plain-http --lldp-wait 0";
        let output = run(&format!("report --only os {vim} {options}"));
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(3), "{text}");
        assert!(expected.iter().all(|part| text.contains(part)), "{text}");
    }
    // The agent may give up early, when the next wait would exceed the time given.
    assert!(start.elapsed() < std::time::Duration::from_secs(30), "{:?}", start.elapsed());
}

#[test]
fn print_config_hides_the_password_of_an_address() {
    for vim in ["http://user:hunter2@vim.example", "user:hunter2@vim.example"] {
        let text = stdout(&run(&format!("report --vim {vim} --print-config")));
        assert!(text.contains("vim.example") && !text.contains("hunter2"), "{text}");
    }
}

#[test]
fn print_config_hides_secrets_in_kernel_arguments() {
    let output = agent()
        .args(["install", "--ignition", "/x", "--print-config", "--append-karg"])
        .args([
            "rd.token=hunter2a quiet",
            "--append-karg",
            "proxy=http://joe:hunter2b@p.example:3128",
        ])
        .args([
            "--delete-karg",
            "luks.passphrase=hunter2c",
            "--firstboot-args",
            "ks.key=\"hunter 2d\"",
        ])
        .output()
        .unwrap();
    let live =
        run("live-config --vim https://v.example --print-config --agent-option token=hunter2e \
                    --append-karg coreos.inst.ignition_url=https://h.example/c?sig=hunter2f");
    for text in [stdout(&output), stdout(&live)] {
        assert!(text.contains("append-karg") && !text.contains("hunter"), "{text}");
    }
    let text = stdout(&output);
    assert!(text.contains("quiet") && text.contains("p.example:3128"), "{text}");
}

#[test]
fn command_that_capture_prints_ends_the_line() {
    let path = scratch("printed-command").join("machine.tar.zst");
    let output = agent().args(["capture", "--only", "os", "-o"]).arg(&path).output().unwrap();
    let command = format!("run-coreos-installer inspect --root {}", path.display());
    let text = stderr(&output);
    assert!(text.lines().any(|line| line.ends_with(&command)), "{text}");
}

#[test]
fn print_config_without_a_command_shows_the_options_of_the_default_command() {
    let output = run("--print-config");
    assert_eq!(output.status.code(), Some(0));
    assert!(stdout(&output).contains("wait-for-disk"), "{}", stdout(&output));
}

#[test]
fn the_readme_shows_the_help_that_the_program_prints() {
    let help = stdout(&run("-h"));
    assert!(
        read("README.md").contains(help.trim_end()),
        "README.md does not contain this:\n{help}"
    );
}

#[test]
fn text_for_a_pipe_has_no_colour() {
    assert!(!stdout(&run("inspect")).contains('\x1b'));
    assert!(stdout(&run("inspect --color always")).contains('\x1b'));
}

#[test]
fn wait_for_lldp_is_announced() {
    let announced = |words: &str| stderr(&run(words)).contains("listening to LLDP for 1 s");
    assert!(announced("inspect --only network --lldp-wait 1"));
    assert!(!announced("inspect --only network"));
}

#[test]
fn explain_describes_a_code_and_lists_all() {
    let text = stdout(&run("explain memory.ecc.uncorrectable"));
    for part in ["critical", "What it means\n", "What to do\n", "False alarms\n", "Source\n"] {
        assert!(text.contains(part), "{text}");
    }
    let one = json("explain memory.ecc.uncorrectable --format json");
    assert_eq!(one["code"], "memory.ecc.uncorrectable");
    let all = json("explain --format json");
    let list = stdout(&run("explain"));
    // A wrapped line begins with a blank.
    let n_entries = list.lines().filter(|line| !line.starts_with(' ')).count();
    assert_eq!(n_entries, all.as_array().unwrap().len());
    assert!(list.lines().any(|line| line.starts_with("disk.none_eligible ")), "{list}");
}

#[test]
fn list_of_codes_is_as_wide_as_columns_says_and_80_otherwise() {
    let widest = |columns: Option<&str>| {
        let mut command = agent();
        command.arg("explain").envs(columns.map(|columns| ("COLUMNS", columns)));
        let text = stdout(&command.output().unwrap());
        text.lines().map(|line| line.chars().count()).max().unwrap()
    };
    assert!(widest(None) <= 80 && widest(Some("x")) <= 80);
    assert!((81..=120).contains(&widest(Some("120"))));
}
