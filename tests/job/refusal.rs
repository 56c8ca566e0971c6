//! Installs that are refused before the disk is touched, and what is reported to the VIM.

use std::fs;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use formats::digest;
use serde_json::{Value, json};

use super::install::{Job, vim};
use super::machine::{IGNITION, Machine, osmet};

type Change<'a> = &'a dyn Fn(&mut Machine);

/// Each install is refused with its code, on a machine that was changed.
#[track_caller]
pub(crate) fn each_is_refused(cases: Vec<(Value, Change<'_>, &str)>) {
    for (keys, change, code) in cases {
        let mut job = Job::new(keys.clone());
        change(&mut job.machine);
        let result = job.is_refused(&json!({"outcome": "refused", "code": code}));
        assert!(!result["message"].as_str().unwrap().is_empty());
        assert!(job.machine.read("args").is_empty(), "{keys}: the installer was run");
    }
}

#[test]
fn a_wrong_ignition_hash_leaves_the_disk_as_it_was() {
    let hashed = |hash: &str| json!({"ignition": {"inline": IGNITION, "hash": hash}});
    each_is_refused(vec![
        (hashed(&digest::sha512(b"something else")), &|_| {}, "IGNITION_HASH"),
        (hashed("md5-00"), &|_| {}, "INSTRUCTION_INVALID"),
    ]);
}

#[test]
fn ignition_configs_that_the_installed_system_would_refuse_are_refused() {
    let config = |text: &str| json!({"ignition": {"inline": text}});
    each_is_refused(vec![
        (config(r#"{"ignition":{"version":"2.2.0"}}"#), &|_| {}, "IGNITION_VERSION"),
        (config("{}"), &|_| {}, "IGNITION_VERSION"),
        (config("not json"), &|_| {}, "IGNITION_INVALID"),
    ]);
}

#[test]
fn ignition_config_that_may_erase_a_protected_disk_is_refused() {
    let of = |storage: Value| json!({"ignition": {"version": "3.3.0"}, "storage": storage});
    let table = |device: &str| of(json!({"disks": [{"device": device, "wipeTable": true}]}));
    let text = BASE64_STANDARD.encode(table("/dev/disk/by-id/b").to_string());
    let source = json!({"source": format!("data:;base64,{text}")});
    let containing = |key: Value| json!({"ignition": {"version": "3.3.0", "config": key}});
    let luks = json!({"name": "x", "device": "/dev/vg0/home", "wipeVolume": true});
    let filesystem = json!({"device": "/dev/md/data", "format": "xfs", "wipeFilesystem": true});
    let configs = [
        table("/dev/disk/by-id/b"),
        table("/dev/sda"),
        table("/dev/sdz"),
        of(json!({"luks": [luks]})),
        of(json!({"filesystems": [filesystem]})),
        containing(json!({"merge": [source]})),
        containing(json!({"replace": source})),
    ];
    let change = |machine: &mut Machine| {
        machine.add_disk("sdb", 1 << 30);
        for disk in &mut machine.collected.disks {
            disk.by_id = vec!["/dev/disk/by-id/b".into()];
        }
        let names = ["/dev/md/data", "/dev/vg0/home"].map(str::to_owned);
        machine.collected.disks[1].names_above = names.to_vec();
    };
    let case = |config: Value| {
        let disk = json!({"hints": {"serial": "SERIAL-sda"}});
        let ignition = json!({"inline": config.to_string()});
        let keys = json!({"disk": disk, "protect": ["SERIAL-sdb"], "ignition": ignition});
        (keys, &change as Change<'_>, "PROTECTED")
    };
    each_is_refused(configs.map(case).to_vec());
}

#[test]
fn misspelt_key_or_code_is_refused() {
    each_is_refused(vec![
        (json!({"block_also": ["memory.ecc.corectable"]}), &|_| {}, "INSTRUCTION_INVALID"),
        (json!({"disc": {"device": "/dev/sdb"}}), &|_| {}, "INSTRUCTION_INVALID"),
    ]);
}

#[test]
fn an_ambiguous_or_unexpected_disk_is_refused() {
    let plain = || json!({});
    let write = |machine: &mut Machine, path: &str, text: &str| {
        let path = machine.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let protect = |machine: &mut Machine| machine.settings.site.protect = vec!["serial-sda".into()];
    let mount = "22 1 8:0 / /mnt rw - ext4 /dev/sda rw\n";
    each_is_refused(vec![
        (plain(), &|machine| machine.add_disk("sdb", 64 << 20), "DISK_AMBIGUOUS"),
        (json!({"disk": {"device": "/dev/nope"}}), &|_| {}, "DISK_NONE"),
        (json!({"disk": {"hints": {"serial": "X"}}}), &|_| {}, "DISK_NONE"),
        (json!({"disk": {"hints": {"odd": "X"}}}), &|_| {}, "INSTRUCTION_INVALID"),
        (json!({"disk": {"hints": {"size": ">= 0"}}}), &|_| {}, "INSTRUCTION_INVALID"),
        (json!({"expect": {"serial": "X"}}), &|_| {}, "DISK_CHANGED"),
        (plain(), &|machine| machine.collected.disks[0].eligible = false, "DISK_NOT_ELIGIBLE"),
        (plain(), &protect, "PROTECTED"),
        (json!({"save_partlabel": ["data*"]}), &|_| {}, "SAVED_PARTITION"),
        (plain(), &|machine| write(machine, "sys/devices/sda/size", "8\n"), "DISK_CHANGED"),
        (plain(), &|machine| write(machine, "sys/devices/sda/serial", "OTHER\n"), "DISK_CHANGED"),
        (plain(), &|machine| write(machine, "sys/devices/sda/holders/dm-0/x", ""), "DISK_BUSY"),
        (plain(), &|machine| write(machine, "proc/self/mountinfo", mount), "DISK_BUSY"),
    ]);
}

#[test]
fn a_machine_without_the_prerequisites_refuses() {
    let plain = || json!({});
    let finding = |machine: &mut Machine| {
        let row = probes::findings::row("memory.ecc.uncorrectable").unwrap();
        machine.collected.findings = vec![row.finding(Some("DIMM A1".into()), "3 errors")];
    };
    let remove = |machine: &mut Machine| fs::remove_file(&machine.settings.site.installer).unwrap();
    let osmet_dir = |machine: &mut Machine| machine.settings.site.osmet_dir.clone();
    let larger = osmet((64 << 20) + 1);
    let grow = |machine: &mut Machine| {
        fs::write(osmet_dir(machine).join("x86_64.osmet"), &larger).unwrap();
    };
    each_is_refused(vec![
        (plain(), &finding, "FINDINGS"),
        (
            plain(),
            &|machine| machine.settings.site.available_memory_bytes = || Some(100 << 20),
            "MEMORY_LOW",
        ),
        (json!({"append_kargs": ["a b"]}), &|_| {}, "KARGS"),
        (json!({"copy_network": true}), &|_| {}, "NETWORK"),
        (plain(), &remove, "INSTALLER_MISSING"),
        (plain(), &|machine| machine.installer("0.10.0", ""), "INSTALLER_TOO_OLD"),
        (plain(), &|machine| fs::remove_dir_all(osmet_dir(machine)).unwrap(), "MEDIUM_LOST"),
        (plain(), &grow, "DISK_TOO_SMALL"),
    ]);
}

#[test]
fn an_unusable_source_is_refused() {
    let files = vim(json!({}));
    let url = files.url.as_str();
    let image = |path: &str, extra: Value| {
        let mut image = json!({"url": format!("{url}{path}"), "insecure": true});
        image.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        json!({ "image": image })
    };
    let huge = image("/image.raw", json!({"uncompressed_bytes": 1_u64 << 40}));
    let forbid = |machine: &mut Machine| machine.settings.site.is_insecure_image_allowed = false;
    let other = json!({"url": format!("{url}/config.ign"), "hash": digest::sha512(b"x")});
    each_is_refused(vec![
        (image("/missing.raw", json!({})), &|_| {}, "IMAGE_FETCH"),
        (image("/image.raw", json!({"insecure": false})), &|_| {}, "SIGNATURE"),
        (image("/image.raw", json!({})), &forbid, "IMAGE_INSECURE"),
        (huge, &|_| {}, "DISK_TOO_SMALL"),
        (image("/image.raw", json!({"sector_bytes": 4096})), &|_| {}, "SECTOR_SIZE"),
        (image("/image.raw", json!({"hash": "md5-00"})), &|_| {}, "INSTRUCTION_INVALID"),
        (json!({"ignition": {"url": format!("{url}/missing")}}), &|_| {}, "IGNITION_FETCH"),
        (json!({"ignition": {"url": "ftp://x/y"}}), &|_| {}, "INSTRUCTION_INVALID"),
        (json!({ "ignition": other }), &|_| {}, "IGNITION_HASH"),
    ]);
}
