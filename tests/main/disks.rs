//! `disks`: the list, the choice, and the exit status of each outcome.

use std::process::Output;

use serde_json::Value;

use crate::util::{agent, assert_is_refused, assert_refused, captured, scratch, stderr, stdout};

/// Runs `disks` on a captured machine with more words, each one argument.
fn disks(machine: &str, words: &[&str]) -> Output {
    agent().args(["disks", "--root", &captured(machine)]).args(words).output().unwrap()
}

/// Exit status and decision, from the JSON.
fn decision(machine: &str, words: &[&str]) -> (Option<i32>, Value) {
    let output = disks(machine, &[words, &["--format", "json"]].concat());
    let printed: Value = serde_json::from_str(&stdout(&output)).unwrap();
    (output.status.code(), printed["decision"].clone())
}

#[test]
fn only_disk_of_a_machine_is_chosen_with_status_0() {
    let output = disks("plain-guest", &[]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(
        stdout(&output),
        "DEVICE    SIZE   MODEL  SERIAL    ELIGIBLE\n\
         /dev/vda  3.2GB  -      TARGET-0  yes, blank\n\
         \n\
         Would be written: /dev/vda (serial TARGET-0)\n\
         \x20 - it is the only disk that could be meant\n\
         \x20 - it is blank\n"
    );
    let (status, decision) = decision("plain-guest", &[]);
    assert_eq!((status, &decision["device"]), (Some(0), &"/dev/vda".into()));
    assert_eq!(decision["existing_data"], "coreos");
}

#[test]
fn unclear_choice_and_protected_disk_end_with_status_1() {
    let (status, unclear) = decision("crowded-server", &[]);
    assert_eq!((status, &unclear["code"]), (Some(1), &"DISK_AMBIGUOUS".into()));
    let named = ["--hints", "serial=WFK0A1B2"];
    let (status, found) = decision("crowded-server", &named);
    assert_eq!((status, &found["device"]), (Some(0), &"/dev/sdc".into()));
    assert_eq!(found["existing_data"], "wipe", "the disk is identified");
    let (status, found) =
        decision("crowded-server", &[&named[..], &["--protect", "WFK0A1B2"]].concat());
    assert_eq!((status, &found["code"]), (Some(1), &"PROTECTED".into()));
    assert_eq!(found["refused_device"], "/dev/sdc");
    let (status, found) = decision("crowded-server", &["--hints", r#"{"size": ">= 1000"}"#]);
    assert_eq!((status, &found["code"]), (Some(1), &"DISK_NONE".into()));
}

#[test]
fn node_that_an_instruction_is_for_is_named_as_not_compared() {
    let file = scratch("disks-node").join("instruction.json");
    let text = r#"{"api_version": "1", "request_id": "r", "action": "install", "node_id": "uuid-other",
                   "install": {"ignition": {"url": "https://x/"}}}"#;
    std::fs::write(&file, text).unwrap();
    let output = disks("crowded-server", &["--instruction", file.to_str().unwrap()]);
    assert!(stderr(&output).contains("is for node uuid-other"), "{}", stderr(&output));
}

#[test]
fn instruction_decides_and_a_refused_one_ends_with_status_2() {
    let folder = scratch("disks-instruction");
    let of = |install: &str| {
        let file = folder.join("instruction.json");
        let text = format!(
            r#"{{"api_version": "1", "request_id": "r", "action": "install",
                "install": {{"ignition": {{"url": "https://x/"}}, {install}}}}}"#
        );
        std::fs::write(&file, text).unwrap();
        disks("crowded-server", &["--instruction", file.to_str().unwrap()])
    };
    let smallest = of(r#""disk": {"hints": {"vendor": "SEAGATE"}, "if_several": "smallest"}"#);
    assert_eq!(smallest.status.code(), Some(0), "{}", stdout(&smallest));
    assert!(stdout(&smallest).contains("Would be written: /dev/sdc (serial WFK0A1B2)"));
    assert_is_refused(&of(r#""disc": {}"#), "disc", "a misspelt key");
    let unknown = disks("crowded-server", &["--hints", "serail=S1"]);
    assert_is_refused(&unknown, "did you mean \"serial\"?", "a misspelt hint");
    assert_refused("disks --instruction /nowhere/instruction.json", "/nowhere/instruction.json");
}

#[test]
fn disk_is_named_as_for_an_install() {
    let (status, found) = decision("crowded-server", &["--disk", "/dev/sdc"]);
    assert_eq!((status, &found["device"]), (Some(0), &"/dev/sdc".into()), "{found}");
    let (status, found) = decision("crowded-server", &["--disk", "/dev/none"]);
    assert_eq!((status, &found["code"]), (Some(1), &"DISK_NONE".into()));
    let bad = disks("crowded-server", &["--disk", "sdc"]);
    assert_is_refused(&bad, "--disk is \"sdc\", expected a path below /dev", "a name");
}
