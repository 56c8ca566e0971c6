//! Tests which disk is written, and which never is.

use probes::block::{ContentAbove, Membership, ObstacleKind, Partition, UnlistedPartition};
use serde_json::{Value, json};

use super::*;
use crate::act::testing::{disk, filesystem, partition};
use crate::engines::vim::order::tests::of as order_of;

fn with_obstacle(mut disk: Disk, kind: ObstacleKind, text: &str) -> Disk {
    disk.obstacles.push(kind.because(text));
    disk.not_eligible_because.push(text.into());
    disk.eligible = false;
    disk
}

/// A disk with an LVM physical volume.
fn lvm(name: &str, size_bytes: u64) -> Disk {
    let mut disk = disk(name, size_bytes);
    disk.partitions = vec![partition(name, 1, "pv", "LVM2_member")];
    let alone = Membership { n_members: Some(1), ..Membership::default() };
    disk.partitions[0].filesystem.as_mut().unwrap().membership = Some(Box::new(alone));
    disk.existing_os = vec!["Linux".into()];
    let text = format!("{name}1 is a member of an array or pool: LVM2_member");
    with_obstacle(disk, ObstacleKind::Content, &text)
}

/// A disk with data that make it no less eligible.
fn data(name: &str, size_bytes: u64) -> Disk {
    Disk { filesystem: Some(filesystem("xfs", Some("data"))), ..disk(name, size_bytes) }
}

/// A disk with an earlier CoreOS.
fn coreos(name: &str, size_bytes: u64) -> Disk {
    let mut boot = partition(name, 3, "boot", "ext4");
    boot.filesystem = Some(filesystem("ext4", Some("boot")));
    let mut root = partition(name, 4, "root", "xfs");
    root.filesystem = Some(filesystem("xfs", Some("root")));
    Disk {
        partition_table: Some("gpt".into()),
        existing_os: vec!["Fedora or RHEL CoreOS".into()],
        partitions: vec![partition(name, 2, "EFI-SYSTEM", "vfat"), boot, root],
        ..disk(name, size_bytes)
    }
}

fn wanted(order: &Order) -> Wanted<'_> {
    Wanted { order, protect: &[], min_bytes: None }
}

/// Decides for an order that contains these keys of `install`.
fn of(disks: &[Disk], order: Value) -> Result<String, Code> {
    decided(disks, order).map_err(|failure| failure.code)
}

fn decided(disks: &[Disk], order: impl Into<Value>) -> Result<String, Failure> {
    let order = order_of(&order.into());
    decide(disks, &wanted(&order), &|_| None)
        .map(|decision| decision.disk.name.clone())
        .map_err(|undecided| undecided.failure)
}

fn chosen(disks: &[Disk], disk: &Value) -> Result<String, Code> {
    of(disks, json!({ "disk": disk }))
}

#[test]
fn ineligible_disk_is_never_replaced_by_the_next_one() {
    // sda may be the boot disk; before, every one of these wrote the data on sdb.
    let disks = [lvm("sda", 240 << 30), data("sdb", 8 << 40)];
    assert_eq!(of(&disks, json!({})), Err(Code::DiskAmbiguous));
    assert_eq!(chosen(&disks, &json!({})), Err(Code::DiskAmbiguous));
    assert_eq!(chosen(&disks, &json!({"if_several": "smallest"})), Err(Code::ExistingData));
    assert_eq!(chosen(&disks, &json!({"if_several": "first"})), Err(Code::ExistingData));
    assert_eq!(chosen(&disks, &json!({"if_several": "first_by_path"})), Err(Code::ExistingData));
    let both = json!({"size": ">= 100"});
    assert_eq!(chosen(&disks, &json!({ "hints": both })), Err(Code::DiskAmbiguous));
    for rule in ["smallest", "first", "first_by_path", "largest"] {
        let choice = json!({"hints": both, "if_several": rule});
        assert_eq!(chosen(&disks, &choice), Err(Code::ExistingData), "{rule}");
    }
}

#[test]
fn no_rule_skips_a_disk_that_is_merely_ineligible() {
    let kinds = [ObstacleKind::State, ObstacleKind::Mounted, ObstacleKind::Unknown];
    for kind in kinds {
        let disks = [with_obstacle(disk("sda", 100), kind, "odd"), disk("sdb", 200)];
        for rule in ["smallest", "first", "first_by_path"] {
            let found = chosen(&disks, &json!({"if_several": rule}));
            assert_eq!(found, Err(Code::DiskNotEligible), "{kind:?} {rule}");
        }
        assert_eq!(chosen(&disks, &json!({"if_several": "largest"})), Ok("sdb".into()));
        assert_eq!(of(&disks, json!({})), Err(Code::DiskAmbiguous), "{kind:?}");
        for hints in [json!({"by_path": "<in> pci"}), json!({"size": "< 1000"})] {
            assert_eq!(chosen(&disks, &json!({ "hints": hints })), Err(Code::DiskAmbiguous));
        }
    }
}

#[test]
fn disk_that_nobody_can_mean_does_not_make_the_choice_unclear() {
    let stick = with_obstacle(disk("sda", 8), ObstacleKind::Structural, "an optical drive");
    let disks = [stick, disk("sdb", 100)];
    for rule in ["refuse", "smallest", "first", "first_by_path"] {
        assert_eq!(chosen(&disks, &json!({"if_several": rule})), Ok("sdb".into()), "{rule}");
    }
    assert_eq!(of(&disks, json!({})), Ok("sdb".into()));
    let hints = json!({"hints": {"by_path": "<in> pci"}});
    assert_eq!(chosen(&disks, &hints), Ok("sdb".into()));
    assert_eq!(chosen(&disks, &json!({"device": "/dev/sda"})), Err(Code::DiskNotEligible));
    assert_eq!(of(&disks[..1], json!({})), Err(Code::DiskNotEligible));
}

#[test]
fn disk_too_small_for_the_image_does_not_make_the_choice_unclear() {
    let disks = [disk("sda", 100), disk("sdb", 4000)];
    let image = json!({"url": "http://x/", "uncompressed_bytes": 3000});
    assert_eq!(of(&disks, json!({ "image": image })), Ok("sdb".into()));
    let smallest = json!({"image": image, "disk": {"if_several": "smallest"}});
    assert_eq!(of(&disks, smallest), Ok("sdb".into()));
    let named = json!({"image": image, "disk": {"device": "/dev/sda"}});
    assert_eq!(of(&disks, named), Err(Code::DiskTooSmall));
    assert_eq!(of(&disks[..1], json!({ "image": image })), Err(Code::DiskTooSmall));
    let unknown = [Disk { size_bytes: None, ..disk("sda", 0) }, disk("sdb", 4000)];
    assert_eq!(of(&unknown, json!({ "image": image })), Err(Code::DiskAmbiguous));
}

#[test]
fn only_disk_is_written_without_a_description_if_it_is_blank_or_has_coreos() {
    assert_eq!(of(&[disk("sda", 100)], json!({})), Ok("sda".into()));
    assert_eq!(of(&[coreos("sda", 100)], json!({})), Ok("sda".into()));
    let unknown = Disk { has_unknown_content: true, ..disk("sda", 100) };
    let unlisted = UnlistedPartition { number: 1, ..UnlistedPartition::default() };
    let hidden = Disk { unlisted: vec![unlisted.clone()], ..disk("sda", 100) };
    let hidden_too = Disk { unlisted: vec![unlisted], ..coreos("sda", 100) };
    let empty_table = Disk { partition_table: Some("gpt".into()), ..disk("sda", 100) };
    for (found, wiped) in [
        (data("sda", 1), Err(Code::ExistingData)),
        (lvm("sda", 1), Err(Code::ExistingData)),
        (hidden, Err(Code::ExistingData)),
        (hidden_too, Err(Code::ExistingData)),
        (unknown, Ok("sda".into())),
        (empty_table, Ok("sda".into())),
    ] {
        let of = |order: Value| of(std::slice::from_ref(&found), order);
        assert_eq!(of(json!({})), Err(Code::ExistingData));
        assert_eq!(of(json!({"existing_data": "coreos"})), Err(Code::ExistingData));
        assert_eq!(of(json!({"existing_data": "wipe"})), wiped, "{found:?}");
    }
    let two = [disk("sda", 100), disk("sdb", 100)];
    assert_eq!(of(&two, json!({})), Err(Code::DiskAmbiguous));
    assert_eq!(of(&[], json!({})), Err(Code::DiskNone));
}

#[test]
fn existing_data_is_overwritten_as_the_policy_allows_and_by_default_on_named_disks() {
    let named = json!({"device": "/dev/disk/by-id/ata-sda"});
    let serial = json!({"hints": {"serial": "SERIAL-sda"}});
    let described = json!({"hints": {"by_path": "<in> sda"}});
    let order = |disk: &Value, policy: Option<&str>| match policy {
        Some(policy) => json!({"disk": disk, "existing_data": policy}),
        None => json!({ "disk": disk }),
    };
    let (ok, no) = (Ok("sda".to_owned()), Err(Code::ExistingData));
    // Blank, CoreOS, LVM, by each policy.
    for (policy, expected) in [
        (Some("refuse"), [&ok, &no, &no]),
        (Some("coreos"), [&ok, &ok, &no]),
        (Some("wipe"), [&ok, &ok, &ok]),
    ] {
        for choice in [&named, &serial, &described] {
            for (found, expected) in
                [disk("sda", 9), coreos("sda", 9), lvm("sda", 9)].into_iter().zip(expected)
            {
                assert_eq!(of(&[found], order(choice, policy)), *expected, "{policy:?}");
            }
        }
    }
    let of_lvm = |choice: &Value| of(&[lvm("sda", 9)], order(choice, None));
    assert_eq!((of_lvm(&named), of_lvm(&serial)), (ok.clone(), ok));
    assert_eq!(of_lvm(&described), no);
    for hints in [
        json!({"serial": "<in> SERIAL"}),
        json!({"serial": "s!= X"}),
        json!({"serial": "<or> SERIAL-sda <or> SERIAL-sdb"}),
        json!({"size": ">= 1"}),
        json!({"model": "x"}),
    ] {
        let hints: serde_json::Map<String, Value> = serde_json::from_value(hints).unwrap();
        let hints = crate::act::hints::Hints::parse(&hints).unwrap();
        assert!(!hints.identify(&Disk::default(), &[]));
    }
}

#[test]
fn first_half_of_a_wwn_which_volumes_of_an_array_share_identifies_no_disk() {
    let whole = "0x600a0b80001234560000000000000022";
    let lun = Disk { wwn: Some(whole.into()), ..data("sdc", 9) };
    let of = |value: Value| of(std::slice::from_ref(&lun), value);
    let hint = |wwn: &str| json!({"disk": {"hints": {"wwn": wwn}}});
    assert_eq!(of(hint("0x600a0b8000123456")), Err(Code::ExistingData));
    assert_eq!(of(hint(whole)), Ok("sdc".to_owned()));
    let expect = |wwn: &str| json!({"disk": {"hints": {"wwn": whole}}, "expect": {"wwn": wwn}});
    assert_eq!(of(expect("0x600a0b8000123456")), Err(Code::DiskChanged));
    assert_eq!(of(expect("naa.600a0b80001234560000000000000022")), Ok("sdc".to_owned()));
}

#[test]
fn kernel_name_does_not_allow_to_overwrite_data() {
    let lvm = || lvm("sda", 9);
    let resolve = |_: &str| Some("/dev/sda".to_owned());
    let of = |disk: Disk, choice: &Value, policy: Option<&str>| {
        let order = order_of(&json!({"disk": choice, "existing_data": policy}));
        let decided = decide(std::slice::from_ref(&disk), &wanted(&order), &resolve)
            .map(|decision| decision.policy);
        decided.map_err(|undecided| undecided.failure)
    };
    for weak in [
        json!({"device": "/dev/sda"}),
        json!({"device": "/dev/disk/by-diskseq/3"}),
        json!({"device": "/dev/disk/by-label/data"}),
        json!({"device": "/dev/disk/by-id/dm-name-mpatha"}),
        json!({"device": "/dev/disk/by-id/md-name-node:data"}),
        json!({"device": "/dev/disk/by-id/lvm-pv-uuid-x"}),
        json!({"device": "/dev/disk/by-id/./dm-name-mpatha"}),
        json!({"hints": {"name": "/dev/sda"}}),
        json!({"hints": {"name": "s== /dev/sda"}}),
        json!({"hints": {"deviceName": "/dev/sda"}}),
    ] {
        let failure = of(lvm(), &weak, None).unwrap_err();
        assert_eq!(failure.code, Code::ExistingData, "{weak}");
        let advice = failure.advice.unwrap().in_words(crate::engines::vim::words);
        assert!(advice.contains("/dev/disk/by-path, or set existing_data to wipe"), "{advice}");
        assert_eq!(of(lvm(), &weak, Some("wipe")), Ok(ExistingDataPolicy::Wipe), "{weak}");
        assert_eq!(of(disk("sda", 9), &weak, None), Ok(ExistingDataPolicy::Coreos), "{weak}");
    }
    for strong in [
        json!({"device": "/dev/disk/by-id/ata-sda"}),
        json!({"device": "/dev/disk/by-id/dm-uuid-mpath-x"}),
        json!({"device": "/dev/disk/by-id/md-uuid-x"}),
        json!({"device": "/dev/disk/by-path/pci-sda"}),
        json!({"hints": {"deviceName": "/dev/disk/by-path/pci-sda"}}),
        json!({"hints": {"name": "/dev/disk/by-id/ata-sda"}}),
        json!({"hints": {"deviceName": "/dev/sda", "serialNumber": "SERIAL-sda"}}),
    ] {
        assert_eq!(of(lvm(), &strong, None), Ok(ExistingDataPolicy::Wipe), "{strong}");
    }
}

#[test]
fn hints_that_fit_several_disks_identify_none_of_them() {
    let serial = |disk: Disk| Disk { serial: Some("DRIVE".into()), ..disk };
    let order = json!({"disk": {"hints": {"serial": "DRIVE"}}});
    let odd = with_obstacle(serial(disk("nvme0n1", 9)), ObstacleKind::Structural, "odd blocks");
    let second = serial(data("nvme0n2", 9));
    assert_eq!(of(&[odd, second.clone()], order.clone()), Err(Code::ExistingData));
    assert_eq!(of(std::slice::from_ref(&second), order.clone()), Ok("nvme0n2".into()));
    let path = Disk { multipath: Some("nvme0n2".into()), ..serial(disk("sda", 9)) };
    let path = with_obstacle(path, ObstacleKind::Structural, "a path");
    assert_eq!(of(&[path, second], order), Ok("nvme0n2".into()), "its own path");
}

#[test]
fn shared_serial_number_is_no_identity_whatever_other_hints_select_one_of_the_disks() {
    let serial = |disk: Disk| Disk { serial: Some("SHARED".into()), ..disk };
    let disks = [serial(data("sda", 1 << 30)), serial(data("sdb", 2 << 30))];
    for (key, value, expected) in [
        ("size", json!(2), Err(Code::ExistingData)),
        ("name", json!("/dev/sdb"), Err(Code::ExistingData)),
        ("by_path", json!("<in> sdb"), Err(Code::ExistingData)),
        ("by_path", json!("/dev/disk/by-path/pci-sdb"), Ok("sdb".to_owned())),
    ] {
        let hints = json!({"serial": "SHARED", key: value});
        assert_eq!(chosen(&disks, &json!({ "hints": hints })), expected, "{hints}");
    }
}

#[test]
fn rule_without_hints_describes_no_disk_and_wipes_no_known_data() {
    let disks = [data("sda", 9), data("sdb", 10)];
    for rule in ["first", "first_by_path", "smallest", "largest"] {
        let order = |hints: Value| {
            let disk = json!({"if_several": rule, "hints": hints});
            of(&disks, json!({"disk": disk, "existing_data": "wipe"}))
        };
        assert_eq!(order(json!(null)), Err(Code::ExistingData), "{rule}");
        assert!(order(json!({"by_path": "<in> pci"})).is_ok(), "{rule}");
    }
}

#[test]
fn coreos_with_more_than_coreos_is_not_an_earlier_coreos() {
    let described = |disk: Disk, more: Value| {
        let mut order = json!({"disk": {"hints": {"by_path": "<in> sda"}}});
        order.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        of(&[disk], order)
    };
    let mut ceph = coreos("sda", 9);
    ceph.partitions.push(partition("sda", 5, "osd", "ceph_bluestore"));
    let text = "sda5 is a member of an array or pool: ceph_bluestore";
    let ceph = with_obstacle(ceph, ObstacleKind::Content, text);
    assert_eq!(described(ceph.clone(), json!({})), Err(Code::ExistingData));
    assert_eq!(described(ceph, json!({"save_partlabel": ["osd"]})), Ok("sda".into()));
    let mut windows = coreos("sda", 9);
    windows.existing_os.push("Windows".into());
    assert_eq!(described(windows, json!({})), Err(Code::ExistingData));
    let active =
        with_obstacle(coreos("sda", 9), ObstacleKind::Active, "in use: sda4 is held by dm-0");
    assert_eq!(described(active, json!({})), Err(Code::ExistingData));
    let mut mirror = Disk {
        partition_table: Some("gpt".into()),
        existing_os: vec!["Fedora or RHEL CoreOS".into()],
        partitions: vec![partition("sda", 4, "root-1", "linux_raid_member")],
        ..disk("sda", 9)
    };
    mirror = with_obstacle(
        mirror,
        ObstacleKind::Content,
        "sda4 is a member of an array or pool: linux_raid_member \"any:md-root\"",
    );
    assert_eq!(described(mirror, json!({})), Ok("sda".into()));
}

#[test]
fn further_partitions_next_to_an_earlier_coreos_are_named_unless_they_are_kept() {
    let with = |label: &str, kind: &str| {
        let mut disk = coreos("sda", 9);
        disk.partitions.push(partition("sda", 5, label, kind));
        disk
    };
    let named = |policy: &str| json!({"disk": {"device": "/dev/sda"}, "existing_data": policy});
    for (label, kind) in [("var", "xfs"), ("data", ""), ("root", "xfs"), ("", "ext4")] {
        for order in [json!({}), json!({"existing_data": "coreos"}), named("coreos")] {
            let failure = decided(&[with(label, kind)], order).unwrap_err();
            assert_eq!(failure.code, Code::ExistingData, "{label}");
            assert!(failure.to_string().contains("(sda5: "), "{}", failure.message);
        }
        assert_eq!(of(&[with(label, kind)], named("wipe")), Ok("sda".into()), "{label}");
        let kept = json!({"save_partindex": ["5"]});
        assert_eq!(of(&[with(label, kind)], kept), Ok("sda".into()), "{label}");
    }
    assert_eq!(of(&[with("BIOS-BOOT", "")], json!({})), Ok("sda".into()));
    assert_eq!(of(&[with("reserved", "")], json!({})), Ok("sda".into()));
}

#[test]
fn label_of_coreos_counts_only_with_the_content_that_coreos_has_there() {
    let with = |parts: &[(&str, &str)]| {
        let mut disk = coreos("sda", 9);
        let more = (5..).zip(parts).map(|(n, (label, kind))| partition("sda", n, label, kind));
        disk.partitions.extend(more);
        of(&[disk], json!({}))
    };
    for part in [
        ("reserved", "xfs"),
        ("BIOS-BOOT", "swap"),
        ("PowerPC-PReP-boot", "vfat"),
        ("se", "xfs"),
        ("boothash", "xfs"),
        ("luks_root", "xfs"),
        ("luks_root", "crypto_LUKS"),
        ("root-7", "xfs"),
        ("root-7", "linux_raid_member"),
        ("boot-2", "ext4"),
        ("esp-1", "xfs"),
        ("bios-1", "ext4"),
    ] {
        assert_eq!(with(&[part]), Err(Code::ExistingData), "{part:?}");
    }
    let mut large = coreos("sda", 9);
    let reserved = partition("sda", 5, "reserved", "");
    large.partitions.push(Partition { size_bytes: Some(1 << 30), ..reserved });
    assert_eq!(of(&[large], json!({})), Err(Code::ExistingData));
    // x86_64, ppc64le, s390x with Secure Execution.
    let (prep, reserved) = (("PowerPC-PReP-boot", ""), ("reserved", ""));
    let secure = [("se", "ext4"), ("boothash", ""), ("roothash", "")];
    for parts in [&[("BIOS-BOOT", "")][..], &[prep, reserved], &secure] {
        assert_eq!(with(parts), Ok("sda".into()), "{parts:?}");
    }
    for parts in [["bios-2", "esp-2"], ["reserved-2", "esp-2"], ["prep-2", "reserved-2"]] {
        let mut mirror = coreos("sda", 9);
        let kind = |label: &str| if label == "esp-2" { "vfat" } else { "" };
        let labels = ["boot-2", "root-2"].map(|label| (label, "linux_raid_member"));
        let all = parts.map(|label| (label, kind(label))).into_iter().chain(labels);
        let all = (1..).zip(all).map(|(n, (label, kind))| partition("sda", n, label, kind));
        mirror.partitions = all.collect();
        for part in &mut mirror.partitions[2..] {
            let alike = Membership { n_members: Some(2), is_mirror: true, ..Membership::default() };
            part.filesystem.as_mut().unwrap().membership = Some(Box::new(alike));
        }
        assert_eq!(of(&[mirror], json!({})), Ok("sda".into()), "{parts:?}");
    }
}

#[test]
fn protected_disk_is_never_written() {
    let disks = [disk("sda", 100), disk("sdb", 200)];
    let order = json!({
        "disk": {"device": "/dev/sda"}, "existing_data": "wipe", "protect": ["serial-SDA"],
    });
    assert_eq!(of(&disks, order), Err(Code::Protected));
    let smallest = json!({"disk": {"if_several": "smallest"}, "protect": ["SERIAL-sda"]});
    assert_eq!(of(&disks, smallest), Err(Code::Protected), "and no other takes its place");
    assert_eq!(of(&disks, json!({"protect": ["SERIAL-sda"]})), Err(Code::DiskAmbiguous));
}

#[test]
fn entry_of_protect_that_names_no_disk_is_refused_if_the_order_says_so() {
    let order = |missing: &str, entries: &[&str]| {
        let disk = json!({"device": "/dev/sda"});
        json!({"disk": disk, "protect": entries, "protect_missing": missing})
    };
    let disks = [disk("sda", 9), disk("sdb", 9)];
    assert_eq!(of(&disks, order("refuse", &["SERIAL-sdb"])), Ok("sda".into()));
    assert_eq!(of(&disks, order("warn", &["SERIAL-sdc"])), Ok("sda".into()));
    let failure = decided(&disks, order("refuse", &["SERIAL-sdb", "SERIAL-sdc"])).unwrap_err();
    assert_eq!(failure.code, Code::Protected);
    let expected = "protect contains \"SERIAL-sdc\", which names no disk of this machine";
    assert_eq!(failure.message.to_string(), expected);
}

#[test]
fn disk_on_a_fabric_is_written_only_if_it_is_identified() {
    let on_fabric = |disk: Disk| Disk {
        is_on_fabric: true,
        transport: Some("fc".into()),
        by_path: Some("/dev/disk/by-path/fc-1".into()),
        ..disk
    };
    for lun in [on_fabric(coreos("sda", 9)), on_fabric(disk("sda", 9))] {
        let of = |order: Value| decided(std::slice::from_ref(&lun), order);
        for order in [
            json!({}),
            json!({"existing_data": "wipe"}),
            json!({"disk": {"if_several": "smallest"}}),
            json!({"disk": {"hints": {"size": "< 1000"}}}),
            json!({"disk": {"hints": {"by_path": "<in> fc"}}}),
            json!({"disk": {"device": "/dev/sda"}, "existing_data": "wipe"}),
            json!({"disk": {"hints": {"deviceName": "/dev/sda"}}}),
        ] {
            let failure = of(order.clone()).unwrap_err();
            assert_eq!(failure.code, Code::DiskNotEligible, "{order}");
            assert!(failure.to_string().contains("over a network (fc)"), "{}", failure);
        }
        for named in [
            json!({"device": "/dev/disk/by-id/ata-sda"}),
            json!({"device": "/dev/disk/by-path/fc-1"}),
            json!({"hints": {"serial": "SERIAL-sda"}}),
            json!({"hints": {"deviceName": "/dev/disk/by-id/ata-sda"}}),
        ] {
            assert_eq!(of(json!({ "disk": named })), Ok("sda".into()), "{named}");
        }
    }
    // It could be meant, so another disk does not take its place.
    let disks = [on_fabric(disk("sda", 9)), disk("sdb", 9)];
    assert_eq!(of(&disks, json!({})), Err(Code::DiskAmbiguous));
}

#[test]
fn root_label_on_another_disk_is_refused_as_boot_is() {
    let with = |disk: Disk, kind: &str, label: &str| {
        let filesystem = Some(filesystem(kind, Some(label)));
        Disk { filesystem, ..disk }
    };
    let named = || json!({"disk": {"device": "/dev/sda"}, "existing_data": "wipe"});
    let failure = decided(&[disk("sda", 9), with(disk("sdb", 9), "xfs", "root")], named());
    let failure = failure.unwrap_err();
    assert_eq!(failure.code, Code::BootLabel);
    let expected = "labelled \"root\" is also on the whole of /dev/sdb (serial SERIAL-sdb";
    assert!(failure.to_string().contains(expected), "{}", failure);
    let member = with(disk("sdb", 9), "linux_raid_member", "root");
    for other in [member, with(disk("sdb", 9), "xfs", "rootfs")] {
        assert_eq!(of(&[with(disk("sda", 9), "xfs", "root"), other], named()), Ok("sda".into()));
    }
}

#[test]
fn boot_label_in_an_array_or_volume_of_another_disk_is_refused_too() {
    let boot = ContentAbove { name: "dm-3".into(), filesystem: filesystem("xfs", Some("boot")) };
    let with = |disk: Disk| Disk { content_above: vec![boot.clone()], ..disk };
    let order = || json!({"disk": {"hints": {"serial": "SERIAL-sda"}}});
    let failure = decided(&[disk("sda", 9), with(disk("sdb", 9))], order()).unwrap_err();
    assert_eq!(failure.code, Code::BootLabel);
    assert!(failure.to_string().contains("dm-3 of /dev/sdb"), "{}", failure);
    // Built on the target as well: that is a matter of the take-down.
    let both = [with(disk("sda", 9)), with(disk("sdb", 9))];
    assert_eq!(of(&both, order()), Ok("sda".into()));
}

#[test]
fn boot_label_on_another_disk_is_refused_and_the_disk_is_named() {
    let named = json!({"disk": {"device": "/dev/sda"}});
    let disks = [coreos("sda", 9), coreos("sdb", 9)];
    let failure = decided(&disks, named.clone()).unwrap_err();
    assert_eq!(failure.code, Code::BootLabel);
    assert!(
        failure.to_string().contains("sdb3 of /dev/sdb (serial SERIAL-sdb"),
        "{}",
        failure.message
    );
    // Its own paths show the same file system.
    let path = Disk { multipath: Some("sda".into()), ..coreos("sdb", 9) };
    let path = with_obstacle(path, ObstacleKind::Structural, "a path");
    assert_eq!(of(&[coreos("sda", 9), path], named.clone()), Ok("sda".into()));
    // A partition label is no label of a file system, and that of a member is the name of its array.
    let mut member = disk("sdb", 9);
    member.partitions = vec![partition("sdb", 3, "boot", "linux_raid_member")];
    member.partitions[0].filesystem = Some(filesystem("linux_raid_member", Some("boot")));
    assert_eq!(of(&[disk("sda", 9), member], named.clone()), Ok("sda".into()));
    let kept = json!({"disk": {"device": "/dev/sda"}, "save_partindex": ["3"]});
    assert_eq!(of(&[coreos("sda", 9)], kept), Err(Code::BootLabel));
}

#[test]
fn pattern_that_keeps_nothing_is_refused() {
    let order = |labels: Value| json!({"disk": {"device": "/dev/sda"}, "save_partlabel": labels});
    let disks = [coreos("sda", 9)];
    assert_eq!(of(&disks, order(json!(["Root"]))), Err(Code::SavedPartition));
    assert_eq!(of(&disks, order(json!(["EFI*"]))), Ok("sda".into()));
    assert_eq!(of(&[disk("sda", 9)], order(json!(["data*"]))), Err(Code::SavedPartition));
}

#[test]
fn name_that_a_lun_shares_with_its_paths_means_the_lun() {
    let name = "/dev/disk/by-id/wwn-0x600a0b80001111550000ee0000000001";
    let named = |disk: Disk| Disk { by_id: vec![name.into()], ..disk };
    let path = |name: &str| {
        let path = Disk { multipath: Some("dm-0".into()), ..named(disk(name, 1)) };
        with_obstacle(path, ObstacleKind::Structural, "a path of the multipath device dm-0")
    };
    let disks = [named(disk("dm-0", 1)), path("sda"), path("sdb")];
    assert_eq!(chosen(&disks, &json!({"device": name})), Ok("dm-0".into()));
    assert_eq!(chosen(&disks[1..], &json!({"device": name})), Err(Code::DiskAmbiguous));
}

/// A volume of Intel's firmware RAID with its two members, which show its content as their own.
fn vroc() -> [Disk; 3] {
    let volume = Disk { serial: None, wwn: None, ..coreos("md126", 9) };
    let member = |name: &str| {
        let member = Disk { raid_member_of: Some("md126".into()), ..coreos(name, 10) };
        with_obstacle(member, ObstacleKind::Structural, "a member of the RAID volume md126")
    };
    [volume, member("nvme0n1"), member("nvme1n1")]
}

#[test]
fn vroc_volume_is_installed_on_as_a_whole_and_never_one_of_its_members() {
    let disks = vroc();
    assert_eq!(of(&disks, json!({})), Ok("md126".into()), "it is the only disk that can be meant");
    let by_id = json!({"device": "/dev/disk/by-id/ata-md126"});
    assert_eq!(chosen(&disks, &by_id), Ok("md126".into()));
    for member in [
        json!({"device": "/dev/nvme0n1"}),
        json!({"hints": {"serial": "SERIAL-nvme1n1"}}),
        json!({"device": "/dev/disk/by-path/pci-nvme1n1"}),
    ] {
        let order = json!({"disk": member, "existing_data": "wipe"});
        let failure = decided(&disks, order).unwrap_err();
        assert_eq!(failure.code, Code::DiskNotEligible);
        assert!(failure.to_string().contains("member of the RAID volume md126"), "{}", failure);
    }
    let protect = json!({"disk": by_id, "protect": ["SERIAL-nvme1n1"]});
    assert_eq!(of(&disks, protect), Err(Code::Protected));
    // A further disk has the same label and is no member.
    let [volume, first, _] = disks;
    let disks = [volume, first, coreos("sda", 9)];
    assert_eq!(of(&disks, json!({"disk": by_id})), Err(Code::BootLabel));
}

#[test]
fn device_built_on_disks_is_refused_with_the_disks_that_it_is_built_on() {
    let mut disks = [disk("sda", 9), disk("sdb", 9)];
    disks[0].holders = vec!["md0".into()];
    disks[1].partitions = vec![partition("sdb", 1, "x", "linux_raid_member")];
    disks[1].partitions[0].holders = vec!["md0".into()];
    let failure = decided(&disks, json!({"disk": {"device": "/dev/md0"}})).unwrap_err();
    assert_eq!(failure.code, Code::DiskNotEligible);
    assert!(failure.to_string().contains("/dev/md0 is built on sda, sdb"), "{}", failure);
}

#[test]
fn rules_choose_among_several_disks_and_ties_are_refused() {
    let disks = [disk("sdb", 100), disk("sda", 50), disk("sdc", 200)];
    assert_eq!(chosen(&disks, &json!({"if_several": "smallest"})), Ok("sda".into()));
    assert_eq!(chosen(&disks, &json!({"if_several": "largest"})), Ok("sdc".into()));
    assert_eq!(chosen(&disks, &json!({"if_several": "first"})), Ok("sdb".into()));
    assert_eq!(chosen(&disks, &json!({"if_several": "first_by_path"})), Ok("sda".into()));
    let twins = [disk("sda", 100), disk("sdb", 100)];
    assert_eq!(chosen(&twins, &json!({"if_several": "largest"})), Err(Code::DiskAmbiguous));
    let advice =
        |disks: &[Disk]| decided(disks, json!({})).unwrap_err().advice.unwrap().to_string();
    assert!(advice(&twins).starts_with("identify one by serial, WWN"), "{}", advice(&twins));
    let same = twins.map(|disk| Disk { serial: Some("0123456789".into()), ..disk });
    let expected = "some of them have the same serial number, so identify one by WWN";
    assert!(advice(&same).starts_with(expected), "{}", advice(&same));
    for (lacking, rules) in [
        (Disk { size_bytes: None, ..disk("sdb", 0) }, &["smallest", "largest"][..]),
        (Disk { by_path: None, ..disk("sdb", 9) }, &["first_by_path"]),
    ] {
        let disks = [disk("sda", 100), lacking];
        for rule in rules {
            let found = chosen(&disks, &json!({"if_several": rule}));
            assert_eq!(found, Err(Code::DiskAmbiguous), "{rule}");
        }
    }
}

#[test]
fn disk_is_found_by_each_of_its_names() {
    let disks = [disk("sda", 100), disk("sdb", 50)];
    for name in ["/dev/sdb", "/dev/disk/by-id/ata-sdb", "/dev/disk/by-path/pci-sdb"] {
        assert_eq!(chosen(&disks, &json!({"device": name})), Ok("sdb".into()), "{name}");
    }
    let order = order_of(&json!({"disk": {"device": "/dev/disk/by-diskseq/2"}}));
    let resolved = decide(&disks, &wanted(&order), &|_| Some("/dev/sdb".into()));
    assert_eq!(resolved.unwrap().disk.name, "sdb");
}

#[test]
fn missing_or_ineligible_disk_is_refused() {
    let busy = with_obstacle(disk("sda", 100), ObstacleKind::Mounted, "in use");
    let disks = [busy, disk("sdb", 50)];
    assert_eq!(chosen(&disks, &json!({"device": "/dev/sda"})), Err(Code::DiskNotEligible));
    assert_eq!(chosen(&disks, &json!({"device": "/dev/sdz"})), Err(Code::DiskNone));
    for bad in ["sda", "/dev/../etc/passwd", "/dev/a b", "--help"] {
        assert_eq!(chosen(&disks, &json!({"device": bad})), Err(Code::InstructionInvalid));
    }
    let hints = json!({"hints": {"serial": "SERIAL-sda"}});
    assert_eq!(chosen(&disks, &hints), Err(Code::DiskNotEligible));
    assert_eq!(chosen(&disks, &json!({"hints": {"serial": "S-x"}})), Err(Code::DiskNone));
    // Facts of a report carry no kinds of obstacles.
    let reported = Disk { eligible: false, ..disk("sda", 100) };
    assert_eq!(chosen(&[reported], &json!({"device": "/dev/sda"})), Err(Code::DiskNotEligible));
}

#[test]
fn another_disk_than_the_expected_one_is_refused() {
    let disks = [disk("sda", 100)];
    for (expect, is_ok) in [
        (json!({"serial": "SERIAL-sda", "size_bytes": 100}), true),
        (json!({"serial": "SERIAL-sdb"}), false),
        (json!({"size_bytes": 101}), false),
        (json!({"wwn": "0x1"}), false),
    ] {
        let expected = if is_ok { Ok("sda".to_owned()) } else { Err(Code::DiskChanged) };
        assert_eq!(of(&disks, json!({ "expect": expect })), expected);
    }
}

#[test]
fn gaps_of_an_earlier_coreos_lie_outside_of_its_partitions_and_tables() {
    const GIB: u64 = 1 << 30;
    let of = |root_gib: u64, change: &dyn Fn(&mut Disk)| {
        let mut disk = coreos("sda", 100 * GIB);
        for (part, (start, n_bytes)) in disk.partitions.iter_mut().zip([
            (1 << 21, 1 << 27),
            (1 << 28, GIB),
            (2 * GIB, root_gib * GIB),
        ]) {
            (part.start_bytes, part.size_bytes) = (Some(start), Some(n_bytes));
        }
        change(&mut disk);
        existing::gaps(&disk)
    };
    let gap = |range: std::ops::Range<u64>| range.start + (2 << 20)..range.end;
    let middle = (1 << 28) + GIB;
    let end = 100 * GIB - (2 << 20);
    let before = gap((1 << 21) + (1 << 27)..1 << 28);
    assert_eq!(of(20, &|_| ()), [before.clone(), gap(middle..2 * GIB), gap(22 * GIB..end)]);
    assert_eq!(of(98, &|_| ()), [before, gap(middle..2 * GIB)]);
    // As the image has it: the rest may be what the disk contained before its last install.
    assert_eq!(of(2, &|_| ()), []);
    assert_eq!(of(20, &|disk| disk.partitions[1].start_bytes = None), []);
    assert_eq!(of(20, &|disk| disk.existing_os.clear()), []);
    let more = Disk { has_unknown_content: true, ..coreos("sda", 9) };
    let failure = decided(&[more], json!({})).unwrap_err();
    assert!(
        failure.to_string().contains("(data outside of its partitions), and only an"),
        "{failure}"
    );
}

#[test]
fn decision_says_why_and_what_was_found() {
    let disks = [coreos("sda", 9)];
    let decision = decide(&disks, &wanted(&Order::default()), &|_| None).unwrap();
    assert_eq!(
        decision.because.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["it is the only disk that could be meant", "it contains an earlier CoreOS"]
    );
    let found = existing::found(decision.disk);
    assert_eq!(found[0].what, "Fedora or RHEL CoreOS");
    assert_eq!(found[2].what, "ext4 \"boot\", partition label \"boot\"");
    assert_eq!(decision.policy, ExistingDataPolicy::Coreos);
}

/// The obstacles that can be overruled, with their words.
const OVERRULED: [(ObstacleKind, &str); 6] = [
    (ObstacleKind::Removable, "removable"),
    (ObstacleKind::DamagedTable, "damaged_table"),
    (ObstacleKind::ManyPartitions, "many_partitions"),
    (ObstacleKind::LiveImage, "leftover_live_medium"),
    (ObstacleKind::UnreadableEnd, "unreadable_end"),
    (ObstacleKind::SharedIdentity, "same_serial"),
];

#[test]
fn each_override_allows_its_own_obstacle_on_an_identified_disk_only() {
    let path = "/dev/disk/by-path/pci-sda";
    for (kind, word) in OVERRULED {
        let disks = [with_obstacle(disk("sda", 9), kind, "odd")];
        let order = |device: &str, more: Value| {
            let mut order = json!({"disk": {"device": device}, "override": [word]});
            order.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            of(&disks, order)
        };
        let refused = Err(Code::DiskNotEligible);
        assert_eq!(order(path, json!({})), Ok("sda".into()), "{word}");
        assert_eq!(order(path, json!({"existing_data": "wipe"})), Ok("sda".into()), "{word}");
        assert_eq!(order(path, json!({"existing_data": "coreos"})), refused, "{word}");
        assert_eq!(order("/dev/sda", json!({"existing_data": "wipe"})), refused, "{word}");
        let others = OVERRULED.iter().map(|(_, other)| *other).filter(|other| *other != word);
        let others: Vec<&str> = others.collect();
        assert_eq!(order(path, json!({"override": others})), refused, "{word}");
        assert_eq!(of(&disks, json!({"override": [word]})), refused, "{word}");
        let by_id = if word == "same_serial" { refused } else { Ok("sda".into()) };
        assert_eq!(order("/dev/disk/by-id/ata-sda", json!({})), by_id, "{word}");
        let protected = json!({"protect": ["SERIAL-sda"]});
        assert_eq!(order(path, protected), Err(Code::Protected), "{word}");
    }
}

#[test]
fn advice_names_an_override_only_where_it_would_help() {
    let advice = |disk: Disk, order: Value| {
        let advice = decided(&[disk], order).unwrap_err().advice.unwrap();
        advice.in_words(crate::engines::vim::words)
    };
    let odd = || with_obstacle(disk("sda", 9), ObstacleKind::Removable, "removable");
    let path = || json!({"device": "/dev/disk/by-path/pci-sda"});
    let end = "; to allow it, add to install.override: removable";
    assert!(advice(odd(), json!({"disk": path()})).ends_with(end));
    let both = with_obstacle(odd(), ObstacleKind::DamagedTable, "damaged");
    let said = advice(both.clone(), json!({"disk": path(), "override": ["removable"]}));
    assert!(said.ends_with("; to allow it, add to install.override: damaged_table"), "{said}");
    let said = advice(both, json!({"existing_data": "coreos"}));
    assert!(
        said.ends_with(
            "; to allow it, identify the disk by serial, WWN, /dev/disk/by-id or /dev/disk/by-path, and set \
             existing_data to wipe, and add to install.override: removable,damaged_table"
        ),
        "{said}"
    );
    let twin = with_obstacle(disk("sda", 9), ObstacleKind::SharedIdentity, "twin");
    let by_id = json!({"disk": {"device": "/dev/disk/by-id/ata-sda"}});
    assert!(
        advice(twin, by_id).contains("to allow it, name the disk by its /dev/disk/by-path, and")
    );
    for kind in [ObstacleKind::State, ObstacleKind::Mounted, ObstacleKind::Unknown] {
        let said = advice(with_obstacle(odd(), kind, "x"), json!({"disk": path()}));
        assert!(!said.contains("override"), "{said}");
    }
}

#[test]
fn disk_whose_twin_is_in_use_is_refused_whatever_is_overridden() {
    let twin = |name| with_obstacle(disk(name, 9), ObstacleKind::SharedIdentity, "the same as");
    let order =
        json!({"disk": {"device": "/dev/disk/by-path/pci-sda"}, "override": ["same_serial"]});
    assert_eq!(of(&[twin("sda"), twin("sdb")], order.clone()), Ok("sda".into()));
    let used = with_obstacle(twin("sdb"), ObstacleKind::Mounted, "in use: sdb1 is mounted");
    let failure = decided(&[twin("sda"), used.clone()], order.clone()).unwrap_err();
    assert_eq!(failure.code, Code::DiskNotEligible);
    assert!(!failure.advice.unwrap().to_string().contains("override"));
    let larger = Disk { size_bytes: Some(10), ..used };
    assert_eq!(of(&[twin("sda"), larger], order), Ok("sda".into()), "not the same LUN");
}

#[test]
fn same_serial_counts_only_for_a_disk_that_is_named_by_its_place() {
    let twin = |name| Disk { wwn: Some("0x5000c50000000001".into()), ..disk(name, 9) };
    let twin = |name| with_obstacle(twin(name), ObstacleKind::SharedIdentity, "the same as");
    let of = |hints: Value| {
        let order = json!({"disk": {"hints": hints}, "override": ["same_serial"]});
        of(&[twin("sda"), twin("sdb")], order)
    };
    for hints in [
        json!({"serial": "SERIAL-sdb"}),
        json!({"wwn": "0x5000c50000000001", "name": "<in> dev/sdb"}),
        json!({"by_path": "<in> sdb"}),
    ] {
        assert_eq!(of(hints.clone()), Err(Code::DiskNotEligible), "{hints}");
    }
    for key in ["by_path", "deviceName"] {
        assert_eq!(of(json!({key: "/dev/disk/by-path/pci-sdb"})), Ok("sdb".into()), "{key}");
    }
}

#[test]
fn boot_label_elsewhere_is_allowed_or_renamed_but_never_on_a_protected_disk() {
    let with = |words: Value, protect: Value| {
        let disk = json!({"device": "/dev/disk/by-path/pci-sda"});
        json!({"disk": disk, "override": words, "protect": protect})
    };
    let refused = |disks: &[Disk], words: Value, protect: Value| {
        decided(disks, with(words, protect)).unwrap_err()
    };
    // A disk whose only label is `boot`: a `root` is never renamed.
    let boot = |name: &str| {
        let mut disk = coreos(name, 9);
        disk.partitions.pop();
        disk
    };
    let lun = Disk { is_on_fabric: true, ..boot("sdb") };
    let advice = |other: &Disk| {
        let failure = refused(&[disk("sda", 9), other.clone()], json!([]), json!([]));
        failure.advice.unwrap().to_string()
    };
    assert!(advice(&boot("sdb")).starts_with("wipe or relabel"));
    assert!(advice(&lun).starts_with("another host may use that disk, so change nothing on it"));
    let disks = [disk("sda", 9), boot("sdb")];
    let failure = refused(&disks, json!([]), json!([]));
    assert_eq!(failure.code, Code::BootLabel);
    assert!(failure.advice.unwrap().to_string().ends_with("override: disarm_boot_label"));
    for word in ["boot_label_elsewhere", "disarm_boot_label"] {
        assert_eq!(of(&disks, with(json!([word]), json!([]))), Ok("sda".into()), "{word}");
        let named = order_of(&with(json!([word]), json!([])));
        let warnings = label_warnings(&named, &disks[0], &disks);
        assert_eq!(
            warnings.iter().any(|text| text.contains("sdb3 of /dev/sdb")),
            word.starts_with("boot")
        );
    }
    let protected = refused(&disks, json!(["disarm_boot_label"]), json!(["SERIAL-sdb"]));
    assert_eq!(protected.code, Code::Protected);
    // Neither what is in use, another kind of file system, `root`, nor what may be another host's is renamed.
    let mut mounted = boot("sdb");
    mounted.partitions[1].mounted_at = vec!["/boot".into()];
    let mut xfs = boot("sdb");
    xfs.partitions[1].filesystem = Some(filesystem("xfs", Some("boot")));
    for other in [mounted, xfs, coreos("sdb", 9), lun] {
        let failure = refused(&[disk("sda", 9), other], json!(["disarm_boot_label"]), json!([]));
        assert_eq!(failure.code, Code::BootLabel);
        assert!(failure.advice.unwrap().to_string().ends_with("override: boot_label_elsewhere"));
    }
    let kept = json!({"disk": {"device": "/dev/disk/by-path/pci-sda"}, "save_partindex": ["3"],
        "override": ["boot_label_elsewhere", "disarm_boot_label"]});
    assert_eq!(of(&[coreos("sda", 9)], kept), Err(Code::BootLabel), "on the target itself");
}
