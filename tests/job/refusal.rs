//! Installs that are refused before the disk is touched, and what is reported to the VIM.

use std::fs;

use formats::digest;
use run_coreos_installer::exit_status::ExitStatus;
use serde_json::{Value, json};

use super::install::{inline, result, vim};
use super::machine::{IGNITION, Machine, osmet};

/// Runs one install and returns the exit status and the code.
fn refused(install: Value, change: impl FnOnce(&mut Machine)) -> (ExitStatus, String, Value) {
    let mock = vim(install);
    let mut machine = Machine::new(&mock.url);
    change(&mut machine);
    let exit_status = machine.run().exit_status;
    assert!(machine.is_untouched("sda"));
    assert!(machine.read("args").is_empty(), "the installer was run");
    let result = result(&mock);
    assert_eq!(result["outcome"], "refused");
    assert_eq!(result["disk_state"], "untouched");
    let code = result["code"].as_str().unwrap().to_owned();
    (exit_status, code, result)
}

#[test]
fn a_wrong_ignition_hash_leaves_the_disk_as_it_was() {
    let wrong = digest::sha512(b"something else");
    for source in
        [json!({"inline": IGNITION, "hash": wrong}), json!({"inline": IGNITION, "hash": "md5-00"})]
    {
        let (exit_status, code, _) = refused(json!({"ignition": source}), |_| {});
        assert_eq!((exit_status, code.as_str()), (ExitStatus::Untouched, "IGNITION_HASH"));
    }
}

#[test]
fn ignition_configs_that_the_installed_system_would_refuse_are_refused() {
    for (text, code) in [
        (r#"{"ignition":{"version":"2.2.0"}}"#, "IGNITION_VERSION"),
        ("{}", "IGNITION_VERSION"),
        ("not json", "IGNITION_INVALID"),
    ] {
        let (_, found, _) = refused(json!({"ignition": {"inline": text}}), |_| {});
        assert_eq!(found, code, "{text}");
    }
}

type Change<'a> = &'a dyn Fn(&mut Machine);

/// Each install is refused with its code, on a machine that was changed.
fn each_is_refused(cases: Vec<(Value, Change<'_>, &str)>) {
    for (install, change, expected) in cases {
        let (exit_status, code, result) = refused(install.clone(), change);
        assert_eq!(
            (exit_status, code.as_str()),
            (ExitStatus::Untouched, expected),
            "{install}\n{result:#}"
        );
        assert!(!result["message"].as_str().unwrap().is_empty());
    }
}

fn with(key: &str, value: Value) -> Value {
    let mut install = json!({"ignition": inline()});
    install[key] = value;
    install
}

#[test]
fn an_ambiguous_or_unexpected_disk_is_refused() {
    let plain = || json!({"ignition": inline()});
    let write = |machine: &mut Machine, path: &str, text: &str| {
        fs::write(machine.root.join(path), text).unwrap();
    };
    each_is_refused(vec![
        (plain(), &|machine| machine.add_disk("sdb", 64 << 20), "DISK_AMBIGUOUS"),
        (with("verify", json!("full")), &|_| {}, "KEY_UNSUPPORTED"),
        (with("disk", json!({"device": "/dev/nope"})), &|_| {}, "DISK_NONE"),
        (with("disk", json!({"hints": {"serial": "X"}})), &|_| {}, "DISK_NONE"),
        (with("disk", json!({"hints": {"odd": "X"}})), &|_| {}, "INSTRUCTION_INVALID"),
        (with("disk", json!({"hints": {"size": ">= 0"}})), &|_| {}, "INSTRUCTION_INVALID"),
        (with("expect", json!({"serial": "X"})), &|_| {}, "DISK_CHANGED"),
        (plain(), &|machine| machine.collected.disks[0].eligible = false, "DISK_NOT_ELIGIBLE"),
        (plain(), &|machine| write(machine, "sys/devices/sda/size", "8\n"), "DISK_CHANGED"),
        (plain(), &|machine| write(machine, "sys/devices/sda/serial", "OTHER\n"), "DISK_CHANGED"),
        (
            plain(),
            &|machine| {
                fs::create_dir_all(machine.root.join("sys/devices/sda/holders/dm-0")).unwrap();
            },
            "DISK_BUSY",
        ),
        (
            plain(),
            &|machine| {
                write(machine, "proc/self/mountinfo", "22 1 8:0 / /mnt rw - ext4 /dev/sda rw\n");
            },
            "DISK_BUSY",
        ),
    ]);
}

#[test]
fn a_machine_without_the_prerequisites_refuses() {
    let plain = || json!({"ignition": inline()});
    let finding = |machine: &mut Machine| {
        let row = probes::findings::row("memory.ecc.uncorrectable").unwrap();
        machine.collected.findings = vec![row.finding(Some("DIMM A1".into()), "3 errors")];
    };
    each_is_refused(vec![
        (plain(), &finding, "FINDINGS"),
        (
            plain(),
            &|machine| machine.settings.site.available_memory_bytes = || Some(100 << 20),
            "MEMORY_LOW",
        ),
        (with("append_kargs", json!(["a b"])), &|_| {}, "KARGS"),
        (with("copy_network", json!(true)), &|_| {}, "NETWORK"),
        (
            plain(),
            &|machine| fs::remove_file(&machine.settings.site.installer).unwrap(),
            "INSTALLER_MISSING",
        ),
        (plain(), &|machine| machine.installer("0.10.0", ""), "INSTALLER_TOO_OLD"),
        (
            plain(),
            &|machine| fs::remove_dir_all(&machine.settings.site.osmet_dir).unwrap(),
            "MEDIUM_LOST",
        ),
        (
            plain(),
            &|machine| {
                let larger = osmet((64 << 20) + 1);
                fs::write(machine.settings.site.osmet_dir.join("x86_64.osmet"), larger).unwrap();
            },
            "DISK_TOO_SMALL",
        ),
    ]);
}

#[test]
fn an_unusable_source_is_refused() {
    let files = vim(json!({}));
    let url = files.url.as_str();
    let image = |path: &str, extra: Value| {
        let mut image = json!({"url": format!("{url}{path}"), "insecure": true});
        image.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        with("image", image)
    };
    each_is_refused(vec![
        (image("/missing.raw", json!({})), &|_| {}, "IMAGE_FETCH"),
        (image("/image.raw", json!({"insecure": false})), &|_| {}, "SIGNATURE"),
        (
            image("/image.raw", json!({"uncompressed_bytes": 1_u64 << 40})),
            &|_| {},
            "DISK_TOO_SMALL",
        ),
        (image("/image.raw", json!({"sector_bytes": 4096})), &|_| {}, "SECTOR_SIZE"),
        (image("/image.raw", json!({"hash": "md5-00"})), &|_| {}, "IMAGE_HASH"),
        (json!({"ignition": {"url": format!("{url}/missing")}}), &|_| {}, "IGNITION_FETCH"),
        (json!({"ignition": {"url": "ftp://x/y"}}), &|_| {}, "IGNITION_FETCH"),
    ]);
}
