//! Installs without a VIM: the same job, with its result in a file.

use std::fs;
use std::io::Write as _;

use formats::digest;
use run_coreos_installer::cli::After;
use run_coreos_installer::exit_status::ExitStatus;
use serde_json::{Value, json};

use super::image;
use super::install::{Job, check, checks, with};
use super::machine::{IGNITION, Machine};
use super::mock::{assert_has, assert_says};
use super::stream::STREAMING;

/// A machine that installs with these keys without a VIM, of `IGNITION` if they name no config.
fn offline(keys: Value) -> Machine {
    Machine::offline(&with(keys))
}

/// The same with a coreos-installer that writes the right image.
fn ready(keys: Value) -> Machine {
    let mut machine = offline(keys);
    machine.writes(&image::plain());
    machine
}

/// Runs the job, which must end with this status and these values in its result. Returns that.
#[track_caller]
fn ends(machine: &mut Machine, exit_status: ExitStatus, expected: &Value) -> Value {
    let ended = machine.run();
    assert_eq!(ended.exit_status, exit_status, "{ended:#?}");
    let result = machine.result();
    assert_has(&result, expected);
    result
}

#[test]
fn offline_install_is_proved_and_leaves_its_result_in_the_file() {
    let mut machine = ready(json!({}));
    // No instruction was received, so there is no digest of one.
    let expected = json!({
        "outcome": "installed", "disk": {"serial": "SERIAL-sda"}, "request_id": "offline",
        "request_digest": null,
    });
    let result = ends(&mut machine, ExitStatus::Done, &expected);
    let checks = checks(&result);
    // The live image of the test has no image to compare with.
    let is_good = |check: &Value| check["ok"] == true || check["name"] == "image_content";
    assert!(checks.len() >= 10 && checks.iter().all(is_good), "{checks:#?}");
    let listed = fs::read_dir(machine.root.join("run/private")).unwrap().flatten();
    let mut listed: Vec<_> = listed.map(|entry| entry.file_name()).collect();
    listed.sort();
    assert_eq!(listed, ["lock", "result.json"], "nothing else, and no config");
}

#[test]
fn result_in_the_file_has_the_keys_and_values_that_a_vim_receives() {
    let keys = json!({"disk": {"device": "/dev/none"}});
    let posted = Job::new(keys.clone()).ends(ExitStatus::Untouched, &json!({}));
    assert!(posted["message"].is_string());
    let mut machine = offline(keys);
    machine.run();
    let mut written = machine.result();
    assert!(written.get("request_digest").is_none(), "no instruction was received");
    written["request_digest"] = posted["request_digest"].clone();
    // The message names the folder of the node.
    for key in ["message", "request_id", "live", "started_at", "finished_at"] {
        assert!(written.get(key).is_some(), "{key}");
        written[key] = posted[key].clone();
    }
    assert_eq!(written, posted);
}

#[test]
fn unclear_disk_is_refused_once_with_the_disk_untouched() {
    let mut machine = offline(json!({}));
    machine.add_disk("sdb", 64 << 20);
    let expected = json!({"code": "DISK_AMBIGUOUS", "disk_state": "untouched"});
    ends(&mut machine, ExitStatus::Untouched, &expected);
    assert!(machine.is_untouched("sda") && machine.is_untouched("sdb"));
    assert!(machine.read("args").is_empty(), "the installer was run");
    assert_eq!(machine.n_collected, 1);
    assert!(machine.slept().is_empty(), "nobody can correct a configuration, but the agent waited");
}

#[test]
fn failed_install_and_failed_proof_have_the_exit_status_that_they_have_with_a_vim() {
    let mut machine = offline(json!({}));
    machine.script("write_some; echo 'Error: broken pipe dream' >&2; exit 1");
    let expected = json!({"outcome": "failed", "disk_state": "half_written"});
    let result = ends(&mut machine, ExitStatus::HalfWritten, &expected);
    assert!(result["log_tail"].to_string().contains("broken pipe dream"), "{result:#}");
    let mut machine = offline(json!({}));
    machine.script("write_some; exit 0");
    ends(&mut machine, ExitStatus::Unproven, &json!({"outcome": "unproven"}));
}

#[test]
fn after_stay_never_ends_with_the_status_that_reboots() {
    let mut machine = ready(json!({}));
    machine.settings.offline.as_mut().unwrap().after = After::Stay;
    ends(&mut machine, ExitStatus::Staying, &json!({"outcome": "installed"}));
}

#[test]
fn after_poweroff_powers_off_only_an_installed_machine() {
    let mut machine = ready(json!({}));
    machine.settings.offline.as_mut().unwrap().after = After::Poweroff;
    let trace = machine.root.join("powered-off");
    machine.settings.poweroff = vec!["touch".into(), trace.to_str().unwrap().into()];
    machine.script("exit 1");
    assert_eq!(machine.run().exit_status, ExitStatus::Untouched);
    assert!(!trace.exists());
    machine.script("write_image");
    // The clock of the test lets the time pass in which systemd would have ended the agent.
    assert_eq!(machine.run().exit_status, ExitStatus::Staying);
    assert!(trace.exists());
}

#[test]
fn image_file_is_compared_in_full_unless_the_configuration_asks_for_a_sample() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&image::plain()).unwrap();
    let source = json!({"file": file.path(), "insecure": true});
    for (verify, compared, words) in [
        ("sample", "sample", "blocks equal"),
        ("full", "whole", "32 MiB"),
        ("full", "whole", "boot files"),
    ] {
        let mut machine = offline(json!({"image": source, "verify": verify}));
        machine.script(STREAMING);
        let expected = json!({"image": {"source": file.path()}});
        let result = ends(&mut machine, ExitStatus::Done, &expected);
        let content = check(&result, "image_content").unwrap();
        assert_has(content, &json!({"ok": true, "fatal": true}));
        assert_says(&content["found"], &[words]);
        assert_eq!(result["proof"]["compared"], compared);
    }
}

#[test]
fn result_of_an_earlier_run_does_not_survive_and_an_impossible_file_is_refused_first() {
    let mut machine = offline(json!({"disk": {"device": "/dev/none"}}));
    fs::create_dir_all(&machine.settings.site.run_dir).unwrap();
    let file = machine.settings.site.run_dir.join("result.json");
    machine.run();
    let earlier = fs::read_to_string(&file).unwrap();
    fs::write(&file, earlier.replace("refused", "installed")).unwrap();
    machine.run();
    assert_eq!(machine.result()["outcome"], "refused");
    let nowhere = machine.root.join("no/such/folder/result.json");
    machine.settings.offline.as_mut().unwrap().result.0 = nowhere;
    machine.n_collected = 0;
    assert_eq!(machine.run().exit_status, ExitStatus::Usage);
    assert_eq!(machine.n_collected, 0);
}

#[test]
fn file_that_is_no_earlier_result_is_never_removed_or_replaced() {
    let mut machine = offline(json!({}));
    let file = machine.root.join("config.ign");
    for content in [IGNITION, "", "{}", r#"{"outcome": "installed"}"#] {
        fs::write(&file, content).unwrap();
        machine.settings.offline.as_mut().unwrap().result.0.clone_from(&file);
        assert_eq!(machine.run().exit_status, ExitStatus::Usage, "{content}");
        assert_eq!(fs::read_to_string(&file).unwrap(), content);
    }
    let link = machine.root.join("link");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    machine.settings.offline.as_mut().unwrap().result.0 = link.clone();
    assert_eq!(machine.run().exit_status, ExitStatus::Usage);
    assert!(link.is_symlink() && file.exists());
    assert!(machine.is_untouched("sda") && machine.read("args").is_empty());
}

#[test]
fn dry_run_changes_nothing_not_even_the_result_of_an_earlier_run() {
    let mut machine = offline(json!({}));
    machine.settings.is_dry_run = true;
    fs::create_dir_all(&machine.settings.site.run_dir).unwrap();
    let file = machine.settings.site.run_dir.join("result.json");
    fs::write(&file, "earlier").unwrap();
    assert_eq!(machine.run().exit_status, ExitStatus::Done);
    machine.add_disk("sdb", 64 << 20);
    assert_eq!(machine.run().exit_status, ExitStatus::Untouched);
    assert_eq!(fs::read_to_string(&file).unwrap(), "earlier");
    assert!(machine.is_untouched("sda") && machine.read("args").is_empty());
}

#[test]
fn no_refusal_without_a_vim_speaks_of_one() {
    let wrong = digest::sha512(b"something else");
    for keys in [
        json!({"disk": {"device": "/dev/none"}}),
        json!({"disk": {"hints": {"serial": "X"}}}),
        json!({"disk": {"hints": {}}}),
        json!({"ignition": {"inline": IGNITION, "hash": wrong}}),
        json!({"ignition": {"inline": "{}"}}),
        json!({"append_kargs": ["a b"]}),
        json!({"copy_network": true}),
        json!({}),
    ] {
        let mut machine = offline(keys);
        machine.settings.site.osmet_dir = machine.root.join("none");
        let result = ends(&mut machine, ExitStatus::Untouched, &json!({}));
        for key in ["message", "advice"] {
            let text = result[key].as_str().unwrap_or_default();
            assert!(!text.contains("VIM") && !text.contains("instruction"), "{text}");
        }
    }
}
