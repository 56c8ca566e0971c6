//! Installs without a VIM: the same job, with its result in a file.

use std::fs;

use formats::digest;
use run_coreos_installer::cli::After;
use run_coreos_installer::exit_status::ExitStatus;
use serde_json::{Value, json};

use super::files::{Files, Sent};
use super::image;
use super::install::{Job, check, checks, with};
use super::machine::{IGNITION, Machine};
use super::mock::{Mock, Reply, assert_has};
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
    let listed: Vec<_> = fs::read_dir(machine.root.join("run/private")).unwrap().collect();
    assert_eq!(listed.len(), 1, "{listed:?}");
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
fn ignition_config_is_fetched_by_url_and_checked_by_its_digest() {
    let server = Mock::start(|_, _| Reply::bytes(IGNITION.as_bytes()));
    let url = format!("{}/node.ign", server.url);
    let good = digest::sha512(IGNITION.as_bytes());
    let mut machine = ready(json!({"ignition": {"url": url, "hash": good}}));
    ends(&mut machine, ExitStatus::Done, &json!({"outcome": "installed"}));
    assert_eq!(server.paths(), ["/node.ign"]);
    let wrong = digest::sha512(b"something else");
    let mut machine = offline(json!({"ignition": {"url": url, "hash": wrong}}));
    ends(&mut machine, ExitStatus::Untouched, &json!({"code": "IGNITION_HASH"}));
    assert!(machine.is_untouched("sda"));
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

/// A machine without a VIM, whose coreos-installer reads the image from the agent as the real one does.
fn streaming(image: &Value, verify: &Value) -> Machine {
    let mut machine = offline(json!({"image": image, "verify": verify}));
    machine.script(STREAMING);
    machine
}

#[test]
fn image_file_is_compared_in_full_if_the_configuration_asks_for_it() {
    let image = image::plain();
    let file = std::env::temp_dir().join(format!("rci-offline-image-{}", std::process::id()));
    fs::write(&file, &image).unwrap();
    let mut source = json!({"file": file, "insecure": true});
    for (verify, blocks) in [("sample", "blocks equal"), ("full", "32 MiB")] {
        let mut machine = streaming(&source, &json!(verify));
        let expected = json!({"image": {"source": file}});
        let result = ends(&mut machine, ExitStatus::Done, &expected);
        let content = check(&result, "image_content").unwrap();
        assert_has(content, &json!({"ok": true, "fatal": true}));
        let found = content["found"].as_str().unwrap();
        assert!(found.contains(blocks), "{verify}: {found}");
    }
    source["hash"] = json!(digest::sha256(b"something else"));
    let mut machine = streaming(&source, &Value::Null);
    ends(&mut machine, ExitStatus::Untouched, &json!({"code": "IMAGE_HASH"}));
    fs::remove_file(file).unwrap();
}

#[test]
fn stream_metadata_name_the_image_and_its_digest_without_a_vim_too() {
    let image = image::plain();
    for is_right in [true, false] {
        let sha256 = digest::sha256(if is_right { &image } else { b"x" });
        let image = image.clone();
        let files = Files::start(move |asked| match asked.path.as_str() {
            "/stable.json" => {
                let host = format!("http://{}", asked.host.as_deref().unwrap());
                let sha256 = sha256.trim_start_matches("sha256-");
                let file = json!({"location": format!("{host}/i.raw"), "sha256": sha256,
                    "signature": format!("{host}/i.raw.sig")});
                let metal = json!({"metal": {"formats": {"raw.xz": {"disk": file}}}});
                let text = json!({"architectures": {std::env::consts::ARCH: {"artifacts": metal}}});
                Sent::new(text.to_string().as_bytes())
            }
            "/i.raw" => Sent::new(&image),
            "/i.raw.sig" => Sent::new(b"its signature"),
            _ => Sent::status(404),
        });
        let stream = json!({"stream": {"url": format!("{}/stable.json", files.url)}});
        let mut machine = streaming(&stream, &Value::Null);
        let (exit_status, code) = if is_right {
            (ExitStatus::Done, Value::Null)
        } else {
            (ExitStatus::Untouched, json!("IMAGE_HASH"))
        };
        ends(&mut machine, exit_status, &json!({ "code": code }));
        assert_eq!(machine.read("sig"), "its signature");
    }
}

#[test]
fn table_of_an_unproved_disk_is_kept_only_on_request() {
    let wrong = r#"{"ignition":{"version":"3.2.0"}}"#;
    let image = image::coreos(wrong, "ignition.platform.id=metal");
    for (on_unproved, disk_state, has_table) in [
        (json!(null), "erased", false),
        (json!("erase"), "erased", false),
        (json!("keep"), "written", true),
    ] {
        let mut machine = offline(json!({"on_unproved": on_unproved}));
        machine.writes(&image);
        let expected = json!({"code": "PROOF_IGNITION_DIGEST", "disk_state": disk_state});
        ends(&mut machine, ExitStatus::Unproven, &expected);
        let disk = fs::read(machine.disk("sda")).unwrap();
        assert_eq!(disk[512..].starts_with(b"EFI PART"), has_table, "{on_unproved}");
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
