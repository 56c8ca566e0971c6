//! Installs without a VIM, and live images that carry one, on the command line.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use crate::util::{agent, assert_refused, run, scratch, stderr, stdout};

/// An Ignition config that passes every check.
const IGNITION: &str = "{\"ignition\": {\"version\": \"3.3.0\"}}\n";

/// Of two agents on one machine only one installs.
static INSTALL: Mutex<()> = Mutex::new(());

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
        ("--ignition F --hints serial", "--hints \"serial\": expected KEY=VALUE"),
        ("--ignition F --hints colour=red", "--hints: the hint \"colour\" is unknown"),
        ("--ignition F --disk sda", "--disk is \"sda\", expected a path below /dev"),
        (
            "--ignition http://h/x.ign",
            "--ignition is \"http://h/x.ign\", expected https, or plain HTTP with --allow-plain-http",
        ),
        ("--ignition F --image http://h/x", "--image is \"http://h/x\", expected https, or plain"),
        ("--ignition F --hints serial=a --hints serial=b", "--hints contains \"serial\" twice"),
        ("--ignition /no/such.ign", "reading --ignition: opening /no/such.ign: No such file"),
        ("", "or install without one with --ignition"),
    ] {
        assert_refused(&format!("install {}", words.replace('F', &file)), expected);
    }
    let output =
        agent().env("RCI_VIM", "https://v").args(["install", "--ignition", &file]).output();
    let text = stderr(&output.unwrap());
    assert!(text.contains("drop RCI_VIM to install this config without a VIM"), "{text}");
}

#[test]
fn offline_install_starts_without_a_command_and_leaves_its_result_in_a_file() {
    let _alone = INSTALL.lock().unwrap_or_else(PoisonError::into_inner);
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

/// The file in a live image's config: its mode and its bytes.
fn file_of(config: &Value, path: &str) -> Option<(u64, Vec<u8>)> {
    let files = config["storage"]["files"].as_array().unwrap();
    let file = files.iter().find(|file| file["path"] == path)?;
    let source = file["contents"]["source"].as_str().unwrap();
    let data = source.strip_prefix("data:,").unwrap();
    let mut parts = data.split('%');
    let mut bytes = parts.next().unwrap().as_bytes().to_vec();
    for (digits, rest) in parts.map(|part| part.split_at(2)) {
        bytes.push(u8::from_str_radix(digits, 16).unwrap());
        bytes.extend(rest.bytes());
    }
    Some((file["mode"].as_u64().unwrap(), bytes))
}

#[test]
fn live_config_with_install_makes_an_image_whose_agent_installs_without_a_vim() {
    let _alone = INSTALL.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = scratch("offline-live");
    let file = ignition(&folder);
    let result = folder.join("result.json");
    let output = agent()
        .args(["live-config", "--install", file.to_str().unwrap()])
        .args(["--agent-option", "hints=serial=no-such-serial"])
        .args(["--agent-option", "append-karg=a=1", "--agent-option", "append-karg=b=2"])
        .args(["--agent-option", &format!("result={}", result.display())])
        .args(["--agent-option", "wait-for-disk=0", "--agent-option", "lldp-wait=0"])
        .args(["--agent-option", "bring-links-up=false", "--agent-option", "installer=/bin/false"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let live: Value = serde_json::from_slice(&output.stdout).unwrap();
    let place = "/etc/run-coreos-installer/target.ign";
    assert_eq!(file_of(&live, place), Some((0o600, IGNITION.into())));
    assert_eq!(file_of(&live, "/etc/hosts"), None);
    let (mode, config) = file_of(&live, "/etc/run-coreos-installer.yaml").unwrap();
    assert_eq!(mode, 0o600);
    // The agent of the live image, with its files in another place.
    let config = String::from_utf8(config).unwrap();
    assert!(config.contains(place) && config.contains("- \"b=2\""), "{config}");
    let moved = folder.join("agent.yaml");
    std::fs::write(&moved, config.replace(place, file.to_str().unwrap())).unwrap();
    let output = agent().arg("--config").arg(&moved).output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    let found: Value = serde_json::from_slice(&std::fs::read(&result).unwrap()).unwrap();
    assert_eq!(found["code"], "DISK_NONE", "{found:#}");
}

#[test]
fn live_config_refuses_an_install_that_the_agent_would_refuse() {
    let folder = scratch("offline-live-refused");
    let file = ignition(&folder).display().to_string();
    let bad = folder.join("bad.ign");
    std::fs::write(&bad, "{}").unwrap();
    let bad = bad.display().to_string();
    for (words, expected) in [
        ("--install F --vim https://v", "--vim and --install are both set: drop --vim for"),
        ("--install F --vim-address 192.0.2.1", "--vim-address is for a VIM: drop it"),
        ("--install F --token-file F", "--token-file is for a VIM: drop it"),
        ("--install F --agent-option on-refusal=stop", "--agent-option on-refusal is for a VIM"),
        (
            "--install https://h/x.ign --format kargs --append-karg rci.vim=https://v",
            "rci.vim is for a VIM",
        ),
        (
            "--vim https://v --agent-option disk=/dev/sda",
            "--agent-option disk is for an install without",
        ),
        ("--install F --agent-option hints=serial", "--hints \"serial\""),
        ("--install F --agent-option disk=sda", "--disk is \"sda\", expected a path below /dev"),
        (
            "--install F --agent-option after=explode",
            "holds \"explode\" for after, expected one of",
        ),
        ("--install F --agent-option dry-run=true", "dry-run cannot be used in a live image"),
        ("--install F --format kargs", "which cannot carry --install"),
        (
            "--install http://h/x.ign",
            "--install is \"http://h/x.ign\", expected https, or plain HTTP",
        ),
        ("--install BAD", "the config to install: the Ignition config is refused: "),
        ("--install /no/such.ign", "reading --install: opening /no/such.ign"),
        ("", "or a config to install without one with --install"),
    ] {
        let words = words.replace("BAD", &bad).replace(" F", &format!(" {file}"));
        assert_refused(&format!("live-config {words}"), expected);
    }
    let line = stdout(&run("live-config --format kargs --install https://h/x.ign"));
    assert!(line.trim_end().ends_with("rci.ignition=https://h/x.ign"), "{line}");
}
