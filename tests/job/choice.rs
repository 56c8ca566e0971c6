//! Which disk a whole job writes, and which it refuses before anything is written.

use std::os::unix::fs::FileExt as _;

use probes::block::{Disk, Filesystem, ObstacleKind, Partition};
use run_coreos_installer::exit_status::ExitStatus;
use serde_json::{Value, json};

use super::install::Job;
use super::machine::Machine;
use super::mock::assert_says;

/// Runs a job with these keys of `install` and returns the result; no disk may be written.
fn refused(keys: Value, prepare: &dyn Fn(&mut Machine)) -> Value {
    let mut job = Job::new(keys);
    prepare(&mut job.machine);
    let result = job.ends(ExitStatus::Untouched, &json!({"disk_state": "untouched"}));
    assert!(job.machine.read("args").is_empty(), "coreos-installer ran: {result:#}");
    result
}

fn by_serial() -> Value {
    json!({"hints": {"serial": "SERIAL-sda"}})
}

fn partition(
    name: &str,
    number: u32,
    label: &str,
    kind: &str,
    fs_label: Option<&str>,
) -> Partition {
    Partition {
        name: name.into(),
        number: Some(number),
        label: Some(label.into()),
        filesystem: Some(Filesystem {
            kind: kind.into(),
            label: fs_label.map(str::to_owned),
            ..Filesystem::default()
        }),
        ..Partition::default()
    }
}

/// Puts an LVM physical volume on a disk.
fn add_lvm(disk: &mut Disk) {
    let text = "sda1 is a member of an array or pool: LVM2_member";
    disk.partitions = vec![partition("sda1", 1, "pv", "LVM2_member", None)];
    disk.obstacles = vec![ObstacleKind::Content.because(text)];
    disk.not_eligible_because = vec![text.into()];
    disk.eligible = false;
}

fn add_data(machine: &mut Machine) {
    machine.add_disk("sdb", 128 << 20);
    let filesystem = Filesystem { kind: "xfs".into(), ..Filesystem::default() };
    machine.collected.disks[1].filesystem = Some(filesystem);
}

#[test]
fn data_disk_is_not_written_because_the_boot_disk_is_ineligible() {
    let both = json!({"serial": "<in> SERIAL"});
    for (disk, code) in [
        (json!({}), "DISK_AMBIGUOUS"),
        (json!({"hints": both}), "DISK_AMBIGUOUS"),
        (json!({"if_several": "smallest"}), "EXISTING_DATA"),
        (json!({"if_several": "first"}), "EXISTING_DATA"),
        (json!({"hints": both, "if_several": "smallest"}), "EXISTING_DATA"),
    ] {
        let result = refused(json!({ "disk": disk }), &|machine| {
            add_lvm(&mut machine.collected.disks[0]);
            add_data(machine);
        });
        assert_eq!(result["code"], code, "{disk}");
    }
}

#[test]
fn disk_with_lvm_is_written_if_it_is_named_and_what_was_on_it_is_in_the_result() {
    let existing = json!([{"name": "sda1", "what": "LVM2_member, partition label \"pv\""}]);
    let mut job = Job::new(json!({"disk": by_serial()})).script("exit 1");
    add_lvm(&mut job.machine.collected.disks[0]);
    add_data(&mut job.machine);
    job.ends(ExitStatus::Untouched, &json!({"existing_data": existing}));
    assert!(job.machine.seen_config()["dest-device"].as_str().unwrap().ends_with("/sda"));
    let keys = json!({"disk": by_serial(), "existing_data": "refuse"});
    let kept = refused(keys, &|machine| add_lvm(&mut machine.collected.disks[0]));
    assert_eq!((&kept["code"], &kept["existing_data"]), (&json!("EXISTING_DATA"), &existing));
}

#[test]
fn boot_label_on_another_disk_is_refused_before_the_write_and_the_disk_is_named() {
    let result = refused(json!({"disk": by_serial()}), &|machine| {
        machine.add_disk("sdb", 64 << 20);
        let boot = partition("sdb3", 3, "boot", "ext4", Some("boot"));
        machine.collected.disks[1].partitions = vec![boot];
    });
    assert_eq!(result["code"], "BOOT_LABEL");
    assert_says(&result["message"], &["sdb3", "SERIAL-sdb"]);
}

#[test]
fn pattern_of_partitions_to_keep_that_matches_none_is_refused() {
    let keys = json!({"disk": by_serial(), "save_partlabel": ["data*"]});
    let result = refused(keys, &|machine| {
        let data = partition("sda5", 5, "Data", "xfs", None);
        machine.collected.disks[0].partitions = vec![data];
    });
    assert_eq!(result["code"], "SAVED_PARTITION");
    assert_says(&result["message"], &["\"data*\"", "\"Data\""]);
}

#[test]
fn disk_too_small_for_the_image_is_no_candidate() {
    let image = json!({
        "url": "http://127.0.0.1:1/image.raw", "insecure": true, "uncompressed_bytes": 100 << 20,
    });
    let result = refused(json!({ "image": image }), &|machine| {
        machine.settings.site.is_insecure_image_allowed = true;
        machine.add_disk("sdb", 128 << 20);
    });
    assert_eq!(result["disk"]["serial"], "SERIAL-sdb", "{result:#}");
    assert_ne!(result["code"], "DISK_AMBIGUOUS");
}

#[test]
fn disk_that_the_configuration_protects_is_never_written() {
    let keys = json!({"disk": by_serial(), "existing_data": "wipe"});
    let result = refused(keys, &|machine| {
        machine.settings.site.protect = vec!["serial-sda".into()];
    });
    assert_eq!(result["code"], "PROTECTED");
}

#[test]
fn data_in_the_middle_of_a_disk_that_seems_blank_are_found_before_the_write() {
    let fill = |machine: &mut Machine| {
        let disk = std::fs::File::options().write(true).open(machine.disk("sda")).unwrap();
        disk.write_all_at(&vec![7; 8 << 20], 30 << 20).unwrap();
    };
    let result = refused(json!({}), &fill);
    assert_eq!(result["code"], "EXISTING_DATA");
    let words = ["data without a known signature", "; there are data at byte "];
    assert_says(&result["message"], &words);
    // A disk that is identified may contain anything, and the result says so.
    let mut job = Job::new(json!({"disk": by_serial()})).script("exit 1");
    fill(&mut job.machine);
    let result = job.ends(ExitStatus::Untouched, &json!({}));
    assert!(!job.machine.read("args").is_empty());
    assert_eq!(result["existing_data"][0]["name"], "sda");
}
