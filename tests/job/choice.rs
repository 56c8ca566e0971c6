//! Which disk a whole job writes, and which it refuses before anything is written.

use probes::block::{Filesystem, Membership, ObstacleKind, Partition};
use run_coreos_installer::act::ProtectMissing;
use run_coreos_installer::exit_status::ExitStatus;
use serde_json::json;

use super::image;
use super::install::Job;
use super::machine::{IGNITION, Machine};
use super::mock::{assert_has, assert_says};
use super::refusal::each_is_refused;

/// Puts an LVM physical volume on the first disk, and data on a larger second one.
fn lvm_and_data(machine: &mut Machine) {
    let filesystem = |kind: &str| Filesystem { kind: kind.into(), ..Filesystem::default() };
    machine.add_disk("sdb", 128 << 20);
    machine.collected.disks[1].filesystem = Some(filesystem("xfs"));
    let text = "sda1 is a member of an array or pool: LVM2_member";
    let alone = Membership { n_members: Some(1), ..Membership::default() };
    let disk = &mut machine.collected.disks[0];
    disk.partitions = vec![Partition {
        name: "sda1".into(),
        label: Some("pv".into()),
        filesystem: Some(Filesystem {
            membership: Some(Box::new(alone)),
            ..filesystem("LVM2_member")
        }),
        ..Partition::default()
    }];
    disk.obstacles = vec![ObstacleKind::Content.because(text)];
    disk.not_eligible_because = vec![text.into()];
    disk.eligible = false;
}

#[test]
fn data_disk_is_not_written_because_the_boot_disk_is_ineligible() {
    let both = json!({"serial": "<in> SERIAL"});
    let cases = [
        (json!({}), "DISK_AMBIGUOUS"),
        (json!({"hints": both}), "DISK_AMBIGUOUS"),
        (json!({"if_several": "first"}), "EXISTING_DATA"),
        (json!({"hints": both, "if_several": "smallest"}), "EXISTING_DATA"),
    ];
    for (disk, code) in cases {
        each_is_refused(vec![(json!({"disk": disk}), &lvm_and_data, code)]);
    }
}

#[test]
fn disk_with_lvm_is_written_if_it_is_named_and_what_was_on_it_is_in_the_result() {
    let existing = json!([{"name": "sda1", "what": "LVM2_member, partition label \"pv\""}]);
    let disk = json!({"hints": {"serial": "SERIAL-sda"}});
    for (policy, code, runs) in
        [(json!(null), "INSTALLER_FAILED", true), (json!("refuse"), "EXISTING_DATA", false)]
    {
        let keys = json!({"disk": disk, "existing_data": policy});
        let mut job = Job::new(keys).script("exit 1");
        lvm_and_data(&mut job.machine);
        let expected =
            json!({"code": code, "existing_data": existing, "disk": {"serial": "SERIAL-sda"}});
        job.is_refused(&expected);
        assert_eq!(!job.machine.read("args").is_empty(), runs);
        let messages = job.mock.messages().concat();
        assert_eq!(messages.contains(", which erases sda1: LVM2_member"), runs, "{messages}");
    }
}

#[test]
fn disk_too_small_for_the_image_is_no_candidate() {
    let image = json!({
        "url": "http://127.0.0.1:1/image.raw", "insecure": true, "uncompressed_bytes": 100 << 20,
    });
    let mut job = Job::new(json!({ "image": image }));
    job.machine.add_disk("sdb", 128 << 20);
    job.is_refused(&json!({"disk": {"serial": "SERIAL-sdb"}, "code": "IMAGE_FETCH"}));
    assert!(job.machine.read("args").is_empty(), "the installer was run");
}

#[test]
fn data_in_the_middle_of_a_disk_that_seems_blank_are_found_before_the_write() {
    for (disk, code) in [
        (json!({}), "EXISTING_DATA"),
        // A disk that is identified may contain anything, and the result says so.
        (json!({"hints": {"serial": "SERIAL-sda"}}), "INSTALLER_FAILED"),
    ] {
        let mut job = Job::new(json!({"disk": disk})).script("exit 1");
        job.machine.put(&vec![7; 8 << 20], 30 << 20);
        let result = job.ends(ExitStatus::Untouched, &json!({"code": code}));
        if code == "EXISTING_DATA" {
            let words = ["data without a known signature", "; there are data at byte "];
            assert_says(&result["message"], &words);
            assert!(job.machine.read("args").is_empty());
        }
        assert_has(&result["existing_data"][0], &json!({"name": "sda"}));
    }
}

/// Puts an image with three partitions, which seem to be those of a CoreOS, on the only disk.
fn with_labels(machine: &mut Machine, image: &[u8], kinds: [Option<&str>; 3]) {
    machine.put(image, 0);
    let disk = &mut machine.collected.disks[0];
    let parts = (1_u32..).zip(["EFI-SYSTEM", "boot", "root"]).zip(image::PARTS).zip(kinds);
    let parts = parts.map(|(((number, label), (start, size)), kind)| Partition {
        name: format!("sda{number}"),
        number: Some(number),
        label: Some(label.into()),
        start_bytes: Some((start as u64) << 20),
        size_bytes: Some((size as u64) << 20),
        filesystem: kind.map(|kind| Filesystem { kind: kind.into(), ..Filesystem::default() }),
        ..Partition::default()
    });
    disk.partitions = parts.collect();
    disk.partition_table = Some("gpt".into());
    disk.existing_os = vec!["Fedora or RHEL CoreOS".into()];
}

#[test]
fn labels_alone_are_no_earlier_coreos_and_what_is_there_instead_is_named() {
    let kinds = [Some("vfat"), Some("ext4"), Some("xfs")];
    let options = "ostree=/ostree/boot.1/fedora-coreos/1/0 ignition.platform.id=metal";
    let coreos = || image::coreos(IGNITION, options);
    let with = |part: usize, byte: u8| {
        let mut image = coreos();
        image::put(&mut image, part, &vec![byte; 1 << 20]);
        image
    };
    let no_root = [kinds[0], kinds[1], None];
    for (image, kinds, expected) in [
        (coreos(), kinds, None),
        (coreos(), [kinds[0], kinds[1], Some("crypto_LUKS")], None),
        (coreos(), [kinds[0], Some("linux_raid_member"), Some("linux_raid_member")], None),
        (with(2, 0), no_root, None),
        (with(2, 7), no_root, Some("sda3 (\"root\") contains data without a known signature")),
        (with(1, 7), kinds, Some("sda2 (\"boot\") cannot be read: neither ext4")),
        (coreos(), [None, kinds[1], kinds[2]], Some("sda1 (\"EFI-SYSTEM\") contains data")),
        (
            image::coreos(IGNITION, "ostree=/ostree/boot.1/fedora/1/0 quiet"),
            kinds,
            Some("sda2 (\"boot\") has no boot loader entry of CoreOS"),
        ),
    ] {
        let mut job = Job::new(json!({})).script("exit 1");
        with_labels(&mut job.machine, &image, kinds);
        let code = if expected.is_some() { "EXISTING_DATA" } else { "INSTALLER_FAILED" };
        let result = job.ends(ExitStatus::Untouched, &json!({"code": code}));
        if let Some(expected) = expected {
            assert_says(
                &result["message"],
                &["it is labelled as an earlier CoreOS, but ", expected],
            );
            assert_says(&result["advice"], &["identify the disk by serial"]);
        }
    }
    // A disk that is identified may contain anything.
    let disk = json!({"hints": {"serial": "SERIAL-sda"}});
    let mut job = Job::new(json!({ "disk": disk })).script("exit 1");
    with_labels(&mut job.machine, &with(1, 7), kinds);
    job.ends(ExitStatus::Untouched, &json!({"code": "INSTALLER_FAILED"}));
}

#[test]
fn entry_of_protect_that_names_no_disk_is_a_warning_in_the_result() {
    let mut job = Job::new(json!({"protect": ["SERIAL-sdx"]})).script("exit 1");
    let result = job.ends(ExitStatus::Untouched, &json!({"code": "INSTALLER_FAILED"}));
    let expected = "protect contains \"SERIAL-sdx\", which names no disk of this machine";
    assert_eq!(result["warnings"][0], expected, "{result:#}");
    let mut job = Job::new(json!({"protect": ["SERIAL-sdx"], "protect_missing": "refuse"}));
    job.is_refused(&json!({"code": "PROTECTED", "message": expected}));
    let mut job = Job::new(json!({"protect_missing": "warn"}));
    job.machine.settings.site.protect = vec!["SERIAL-sdx".into()];
    job.machine.settings.site.protect_missing = Some(ProtectMissing::Refuse);
    job.is_refused(&json!({"code": "PROTECTED", "message": expected}));
}

#[test]
fn disk_that_was_read_only_in_places_is_blank_unless_the_policy_is_refuse() {
    // Larger than what a search reads whole in any case.
    for (policy, code) in [(json!(null), "INSTALLER_FAILED"), (json!("refuse"), "EXISTING_DATA")] {
        let mut job = Job::new(json!({"existing_data": policy})).script("exit 1");
        job.machine.collected.disks.clear();
        std::fs::remove_dir_all(job.machine.root.join("sys/devices/sda")).unwrap();
        std::fs::remove_file(job.machine.root.join("sys/dev/block/8:0")).unwrap();
        job.machine.add_disk("sda", 2 << 40);
        let result = job.ends(ExitStatus::Untouched, &json!({"code": code}));
        if code == "EXISTING_DATA" {
            let words = ["may contain data: no data found in 2", "existing_data is refuse"];
            assert_says(&result["message"], &words);
            assert_says(&result["advice"], &["set existing_data to coreos"]);
            assert!(job.machine.read("args").is_empty());
        }
    }
}

#[test]
fn undescribed_disk_is_wiped_only_if_what_it_contains_has_no_known_owner() {
    let superblock = [0x53, 0xef];
    for (at, bytes, code) in [
        (440, &b"\x01\x02\x03\x04"[..], "INSTALLER_FAILED"),
        (30 << 20, &b"random"[..], "INSTALLER_FAILED"),
        // The file system of a partition that a table lost.
        ((1 << 20) + 1024 + 56, &superblock[..], "EXISTING_DATA"),
    ] {
        let mut job = Job::new(json!({"existing_data": "wipe"})).script("exit 1");
        job.machine.collected.disks[0].has_unknown_content = at < 4096;
        job.machine.put(bytes, at);
        let result = job.ends(ExitStatus::Untouched, &json!({"code": code}));
        if code == "EXISTING_DATA" {
            assert_says(&result["message"], &["; ext2 at byte 1048576, in no partition"]);
        }
    }
}

#[test]
fn data_outside_of_the_partitions_of_an_earlier_coreos_are_found_before_the_write() {
    for (root_gib, data_at, code) in [
        (20, Some(40_u64 << 30), "EXISTING_DATA"),
        (20, None, "INSTALLER_FAILED"),
        // Its first start has not grown it, so that what follows is older than the install.
        (2, Some(40 << 30), "INSTALLER_FAILED"),
    ] {
        let mut job = Job::new(json!({})).script("exit 1");
        let kinds = [Some("vfat"), Some("ext4"), Some("ext4")];
        let options = "ostree=/ostree/boot.1/fedora-coreos/1/0 ignition.platform.id=metal";
        with_labels(&mut job.machine, &image::coreos(IGNITION, options), kinds);
        let disk = &mut job.machine.collected.disks[0];
        disk.size_bytes = Some(64 << 30);
        let start_bytes = disk.partitions[2].start_bytes.unwrap();
        disk.partitions[2].size_bytes = Some((root_gib << 30) - start_bytes);
        let sys = job.machine.root.join("sys/devices/sda/size");
        std::fs::write(sys, format!("{}\n", (64_u64 << 30) / 512)).unwrap();
        let file = std::fs::File::options().write(true).open(job.machine.disk("sda")).unwrap();
        file.set_len(64 << 30).unwrap();
        if let Some(at) = data_at {
            // As large as two of the parts that a place is read in.
            job.machine.put(&vec![7; 44 << 20], at);
        }
        let result = job.ends(ExitStatus::Untouched, &json!({"code": code}));
        if code == "EXISTING_DATA" {
            let words = ["data outside of its partitions", "; there are data at byte 4"];
            assert_says(&result["message"], &words);
        }
    }
}

#[test]
fn label_elsewhere_is_renamed_before_the_write_or_nothing_is_written() {
    let disk = json!({"hints": {"serial": "SERIAL-sda"}});
    let install = json!({"disk": disk, "override": ["disarm_boot_label"]});
    let mut job = Job::new(install).script("exit 1");
    job.machine.add_disk("sdb", 1 << 30);
    job.machine.collected.disks[1].partitions = vec![Partition {
        name: "no-such-partition".into(),
        number: Some(1),
        filesystem: Some(Filesystem {
            kind: "ext4".into(),
            label: Some("boot".into()),
            ..Filesystem::default()
        }),
        ..Partition::default()
    }];
    let result = job.ends(ExitStatus::Untouched, &json!({"code": "TARGET_IO"}));
    let expected = "renaming the label \"boot\" of /dev/no-such-partition: No such file";
    assert_says(&result["message"], &[expected]);
    assert!(job.machine.read("args").is_empty());
}

#[test]
fn partition_to_keep_that_only_the_kernel_has_is_refused_before_the_write() {
    let disk = json!({"hints": {"serial": "SERIAL-sda"}});
    let mut job = Job::new(json!({"disk": disk, "save_partlabel": ["data"]})).script("exit 1");
    job.machine.put(&image::with_empty_table(vec![0; 137 * 512]), 0);
    let disk = &mut job.machine.collected.disks[0];
    disk.partition_table = Some("gpt".into());
    disk.partitions = vec![Partition {
        name: "sda5".into(),
        number: Some(5),
        label: Some("data".into()),
        start_bytes: Some(32 << 20),
        ..Partition::default()
    }];
    let result = job.ends(ExitStatus::Untouched, &json!({"code": "SAVED_PARTITION"}));
    assert_says(&result["message"], &["sda5 is not in the table on the disk"]);
    assert!(job.machine.read("args").is_empty());
}
