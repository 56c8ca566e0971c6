//! Installs without a VIM: the same job, with its result in a file.

use std::fs;

use formats::digest;
use run_coreos_installer::cli::After;
use run_coreos_installer::exit_status::ExitStatus;
use serde_json::{Value, json};

use super::files::{Files, Sent};
use super::image;
use super::install::{inline, result, vim};
use super::machine::{IGNITION, Machine};
use super::mock::{Mock, Reply};
use super::stream::STREAMING;

const WRITE: &str = "write_image";

/// A machine that can install `install` without a VIM; `None` if the image cannot be made.
fn ready(install: &Value) -> Machine {
    let image = image::coreos(IGNITION, "ignition.platform.id=metal");
    let mut machine = Machine::offline(install);
    fs::write(machine.root.join("image"), image).unwrap();
    machine.installer("0.27.0", WRITE);
    machine
}

#[test]
fn offline_install_is_proved_and_leaves_its_result_in_the_file() {
    let mut machine = ready(&json!({"ignition": inline()}));
    let ended = machine.run();
    assert_eq!(ended.exit_status, ExitStatus::Done, "{ended:#?}");
    let result = machine.result();
    assert_eq!(result["outcome"], "installed");
    assert_eq!(result["disk"]["serial"], "SERIAL-sda");
    assert_eq!(result["request_id"], "offline");
    assert!(result.get("request_digest").is_none(), "no instruction was received");
    let checks = result["proof"]["checks"].as_array().unwrap();
    // The live image of the test has no image to compare with.
    let is_good = |check: &Value| check["ok"] == true || check["name"] == "image_content";
    assert!(checks.len() >= 10 && checks.iter().all(is_good), "{checks:#?}");
    let listed: Vec<_> = fs::read_dir(machine.root.join("run/private")).unwrap().collect();
    assert_eq!(listed.len(), 1, "{listed:?}");
}

#[test]
fn result_in_the_file_has_the_keys_and_values_that_a_vim_receives() {
    let install = json!({"ignition": inline(), "disk": {"device": "/dev/none"}});
    let mock = vim(install.clone());
    Machine::new(&mock.url).run();
    let posted = result(&mock);
    assert!(posted["message"].is_string());
    let mut machine = Machine::offline(&install);
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
    let mut machine = Machine::offline(&json!({"ignition": inline()}));
    machine.add_disk("sdb", 64 << 20);
    let ended = machine.run();
    assert_eq!(ended.exit_status, ExitStatus::Untouched);
    assert!(machine.is_untouched("sda") && machine.is_untouched("sdb"));
    assert!(machine.read("args").is_empty(), "the installer was run");
    assert_eq!(machine.n_collected, 1);
    assert!(machine.slept().is_empty(), "nobody can correct a configuration, but the agent waited");
    let result = machine.result();
    assert_eq!(result["code"], "DISK_AMBIGUOUS");
    assert_eq!(result["disk_state"], "untouched");
}

#[test]
fn ignition_config_is_fetched_by_url_and_checked_by_its_digest() {
    let server = Mock::start(|_, _| Reply::bytes(IGNITION.as_bytes()));
    let url = format!("{}/node.ign", server.url);
    let good = digest::sha512(IGNITION.as_bytes());
    let mut machine = ready(&json!({"ignition": {"url": url, "hash": good}}));
    assert_eq!(machine.run().exit_status, ExitStatus::Done);
    assert_eq!(machine.result()["outcome"], "installed");
    let paths: Vec<String> = server.requests("").into_iter().map(|request| request.path).collect();
    assert_eq!(paths, ["/node.ign"]);
    let wrong = digest::sha512(b"something else");
    let mut machine = Machine::offline(&json!({"ignition": {"url": url, "hash": wrong}}));
    assert_eq!(machine.run().exit_status, ExitStatus::Untouched);
    assert_eq!(machine.result()["code"], "IGNITION_HASH");
    assert!(machine.is_untouched("sda"));
}

#[test]
fn failed_install_and_failed_proof_have_the_exit_status_that_they_have_with_a_vim() {
    let install = json!({"ignition": inline()});
    let mut machine = Machine::offline(&install);
    machine.installer("0.27.0", "write_some; echo 'Error: broken pipe dream' >&2; exit 1");
    assert_eq!(machine.run().exit_status, ExitStatus::HalfWritten);
    let result = machine.result();
    assert_eq!(
        (&result["outcome"], &result["disk_state"]),
        (&json!("failed"), &json!("half_written"))
    );
    assert!(result["log_tail"].to_string().contains("broken pipe dream"), "{result:#}");
    let mut machine = Machine::offline(&install);
    machine.installer("0.27.0", "write_some; exit 0");
    assert_eq!(machine.run().exit_status, ExitStatus::Unproven);
    assert_eq!(machine.result()["outcome"], "unproven");
}

#[test]
fn after_stay_never_ends_with_the_status_that_reboots() {
    let mut machine = ready(&json!({"ignition": inline()}));
    machine.settings.offline.as_mut().unwrap().after = After::Stay;
    assert_eq!(machine.run().exit_status, ExitStatus::Staying);
    assert_eq!(machine.result()["outcome"], "installed");
}

#[test]
fn after_poweroff_powers_off_only_an_installed_machine() {
    let mut machine = ready(&json!({"ignition": inline()}));
    machine.settings.offline.as_mut().unwrap().after = After::Poweroff;
    let trace = machine.root.join("powered-off");
    machine.settings.poweroff = vec!["touch".into(), trace.to_str().unwrap().into()];
    machine.installer("0.27.0", "exit 1");
    assert_eq!(machine.run().exit_status, ExitStatus::Untouched);
    assert!(!trace.exists());
    machine.installer("0.27.0", WRITE);
    // The clock of the test lets the time pass in which systemd would have ended the agent.
    assert_eq!(machine.run().exit_status, ExitStatus::Staying);
    assert!(trace.exists());
}

/// A machine without a VIM, whose coreos-installer reads the image from the agent as the real one does.
fn streaming(install: &Value) -> Machine {
    let mut machine = Machine::offline(install);
    machine.installer("0.27.0", STREAMING);
    machine
}

fn check<'a>(result: &'a Value, name: &str) -> &'a Value {
    let checks = result["proof"]["checks"].as_array().unwrap();
    checks.iter().find(|check| check["name"] == name).unwrap()
}

#[test]
fn image_file_is_compared_in_full_if_the_configuration_asks_for_it() {
    let image = image::coreos(IGNITION, "ignition.platform.id=metal");
    let file = std::env::temp_dir().join(format!("rci-offline-image-{}", std::process::id()));
    fs::write(&file, &image).unwrap();
    let mut source = json!({"file": file, "insecure": true});
    for (verify, blocks) in [("sample", "blocks equal"), ("full", "32 MiB")] {
        let install = json!({"ignition": inline(), "image": source, "verify": verify});
        let mut machine = streaming(&install);
        assert_eq!(machine.run().exit_status, ExitStatus::Done);
        let result = machine.result();
        let content = check(&result, "image_content");
        let found = content["found"].as_str().unwrap();
        assert!(content["ok"] == true && found.contains(blocks), "{verify}: {found}");
        assert_eq!(content["fatal"], true);
        assert_eq!(result["image"]["source"], file.to_str().unwrap());
    }
    source["hash"] = json!(digest::sha256(b"something else"));
    let install = json!({"ignition": inline(), "image": source});
    let mut machine = streaming(&install);
    assert_eq!(machine.run().exit_status, ExitStatus::Untouched);
    assert_eq!(machine.result()["code"], "IMAGE_HASH");
    fs::remove_file(file).unwrap();
}

#[test]
fn stream_metadata_name_the_image_and_its_digest_without_a_vim_too() {
    let image = image::coreos(IGNITION, "ignition.platform.id=metal");
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
        let install = json!({"ignition": inline(), "image": stream});
        let mut machine = streaming(&install);
        let expected = if is_right { ExitStatus::Done } else { ExitStatus::Untouched };
        assert_eq!(machine.run().exit_status, expected);
        assert_eq!(machine.read("sig"), "its signature");
        let code = machine.result()["code"].clone();
        assert_eq!(code, if is_right { Value::Null } else { json!("IMAGE_HASH") });
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
        let mut machine =
            Machine::offline(&json!({"ignition": inline(), "on_unproved": on_unproved}));
        fs::write(machine.root.join("image"), &image).unwrap();
        machine.installer("0.27.0", WRITE);
        assert_eq!(machine.run().exit_status, ExitStatus::Unproven);
        let result = machine.result();
        assert_eq!(result["code"], "PROOF_IGNITION_DIGEST");
        assert_eq!(result["disk_state"], disk_state, "{on_unproved}");
        let disk = fs::read(machine.disk("sda")).unwrap();
        assert_eq!(disk[512..].starts_with(b"EFI PART"), has_table, "{on_unproved}");
    }
}

#[test]
fn result_of_an_earlier_run_does_not_survive_and_an_impossible_file_is_refused_first() {
    let mut machine =
        Machine::offline(&json!({"ignition": inline(), "disk": {"device": "/dev/none"}}));
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
    let mut machine = Machine::offline(&json!({"ignition": inline()}));
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
    let mut machine = Machine::offline(&json!({"ignition": inline()}));
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
    let plain = || json!({"ignition": inline()});
    let with = |key: &str, value: Value| {
        let mut install = plain();
        install[key] = value;
        install
    };
    let wrong = digest::sha512(b"something else");
    for install in [
        with("disk", json!({"device": "/dev/none"})),
        with("disk", json!({"hints": {"serial": "X"}})),
        with("disk", json!({"hints": {}})),
        json!({"ignition": {"inline": IGNITION, "hash": wrong}}),
        json!({"ignition": {"inline": "{}"}}),
        with("append_kargs", json!(["a b"])),
        with("copy_network", json!(true)),
        plain(),
    ] {
        let mut machine = Machine::offline(&install);
        machine.settings.site.osmet_dir = machine.root.join("none");
        assert_eq!(machine.run().exit_status, ExitStatus::Untouched, "{install}");
        let result = machine.result();
        for key in ["message", "advice"] {
            let text = result[key].as_str().unwrap_or_default();
            assert!(!text.contains("VIM") && !text.contains("instruction"), "{text}");
        }
    }
}
