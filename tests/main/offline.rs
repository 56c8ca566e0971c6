//! Installs without a VIM, and live images that carry one, on the command line.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::util::{agent, run, scratch, stderr};

/// An Ignition config that passes every check.
const IGNITION: &str = "{\"ignition\": {\"version\": \"3.3.0\"}}\n";

fn ignition(folder: &Path) -> PathBuf {
    let file = folder.join("target.ign");
    std::fs::write(&file, IGNITION).unwrap();
    file
}

#[test]
fn options_that_contradict_each_other_are_usage_errors_that_say_which_to_drop() {
    let file = ignition(&scratch("offline-usage")).display().to_string();
    for (words, expected) in [
        (
            "--vim https://v --ignition F",
            "--vim and --ignition are both set: drop --vim to install",
        ),
        ("--vim https://v --disk /dev/sda", "--disk is for an install without a VIM: drop it"),
        ("--vim https://v --after stay", "--after is for an install without a VIM: drop it"),
        ("--ignition F --token-file x", "--token-file is for an install with a VIM: drop it"),
        ("--ignition F --disk /dev/a --hints serial=S", "cannot be used with"),
        ("--ignition F --image-hash sha256-0", "--image <FILE|URL>"),
        ("--ignition F --hints serial", "--hints contains \"serial\", expected KEY=VALUE"),
        ("--ignition F --hints colour=red", "--hints: the hint \"colour\" is unknown"),
        ("--ignition F --hints serial=a --hints serial=b", "--hints names \"serial\" twice"),
        ("--ignition /no/such.ign", "reading --ignition: opening /no/such.ign: No such file"),
        ("", "or install without one with --ignition"),
    ] {
        let output = run(&format!("install {}", words.replace('F', &file)));
        assert_eq!(output.status.code(), Some(2), "{words}: {}", stderr(&output));
        assert!(stderr(&output).contains(expected), "{words}: {}", stderr(&output));
    }
    let output =
        agent().env("RCI_VIM", "https://v").args(["install", "--ignition", &file]).output();
    let text = stderr(&output.unwrap());
    assert!(text.contains("drop RCI_VIM to install this config without a VIM"), "{text}");
}

#[test]
fn offline_install_starts_without_a_command_and_leaves_its_result_in_a_file() {
    let folder = scratch("offline-bare");
    let file = ignition(&folder);
    let config = folder.join("agent.yaml");
    let result = folder.join("result.json");
    let text = format!(
        "ignition: {}\ndisk: /dev/disk/by-id/no-such-disk\nresult: {}\nappend_karg: [a=1, console=ttyS0]\n\
         lldp_wait: 0\nwait_for_disk: 0\nbring_links_up: false\ninstaller: /bin/false\n",
        file.display(),
        result.display()
    );
    std::fs::write(&config, text).unwrap();
    let output = agent().arg("--config").arg(&config).output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    let found: Value = serde_json::from_slice(&std::fs::read(&result).unwrap()).unwrap();
    assert_eq!((&found["outcome"], &found["code"]), (&"refused".into(), &"DISK_NONE".into()));
    let text = stderr(&output);
    assert!(text.contains("there is no disk /dev/disk/by-id/no-such-disk"), "{text}");
    assert!(text.contains(&format!("the result is in {}", result.display())), "{text}");
    assert!(!text.contains("WARN"), "{text}");
}
