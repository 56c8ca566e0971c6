//! Content that spans disks, active or not.

use probes::block::{ContentAbove, Membership};

use super::*;
use crate::act::testing::{self, partition};

fn membership(whole: &str, n_members: Option<u64>, members: &[&str]) -> Membership {
    Membership {
        name: format!("volume group {whole:?}"),
        whole: Some(whole.into()),
        n_members,
        members: testing::texts(members),
        ..Membership::default()
    }
}

fn member(kind: &str, uuid: &str, membership: Option<Membership>) -> Filesystem {
    let (uuid, membership) = (Some(uuid.into()), membership.map(Box::new));
    Filesystem { uuid, membership, ..testing::filesystem(kind, None) }
}

fn disk(name: &str, content: Vec<Filesystem>) -> Disk {
    let part = |(number, filesystem): (u32, Filesystem)| Partition {
        filesystem: Some(filesystem),
        ..partition(name, number, "", "")
    };
    Disk { partitions: (1..).zip(content).map(part).collect(), ..testing::disk(name, 9) }
}

fn refusal(disks: &[Disk]) -> Option<String> {
    let failure = check(&disks[0], disks, &Saved::default(), &[]).err()?;
    assert_eq!(failure.code, Code::ExistingData);
    Some(failure.message.to_string())
}

/// A physical volume of a group that has these.
fn volume(id: &str, all: &[&str]) -> Filesystem {
    member("LVM2_member", id, Some(membership("vg0", Some(all.len() as u64), all)))
}

#[test]
fn volume_group_on_two_disks_is_refused_with_the_name_of_the_other() {
    let disks =
        [disk("sda", vec![volume("A", &["A", "B"])]), disk("sdb", vec![volume("B", &["A", "B"])])];
    let message = refusal(&disks).unwrap();
    let expected =
        "sda1 is one of 2 members of the volume group \"vg0\"; the others: sdb1 of /dev/sdb";
    assert!(message.contains(expected), "{message}");
    // The other disk may have been pulled out.
    let message = refusal(&disks[..1]).unwrap();
    assert!(message.contains("the others: B, which is not in this machine"), "{message}");
}

#[test]
fn group_that_lies_on_the_target_alone_is_no_obstacle() {
    let all = ["A", "B"];
    let target = disk("sda", vec![volume("A", &all), volume("B", &all)]);
    let other =
        disk("sdb", vec![member("LVM2_member", "C", Some(membership("vg1", Some(1), &["C"])))]);
    let disks = [target, other];
    assert_eq!(refusal(&disks), None);
    let orphan = Membership { n_members: Some(1), ..Membership::default() };
    let disks = [disk("sda", vec![member("LVM2_member", "A", Some(orphan))]), disks[1].clone()];
    assert_eq!(refusal(&disks), None, "a volume of no group");
    // A volume that is kept would lose the other one.
    let kept = Saved::parse(&[], &["2".to_owned()]).unwrap();
    let target = disk("sda", vec![volume("A", &all), volume("B", &all)]);
    let failure = check(&target, std::slice::from_ref(&target), &kept, &[]).unwrap_err();
    assert!(failure.to_string().contains("the others: sda2 of /dev/sda"), "{}", failure);
    let kept = Saved::parse(&[], &["1,2".to_owned()]).unwrap();
    assert_eq!(check(&target, std::slice::from_ref(&target), &kept, &[]), Ok(()));
}

#[test]
fn stripes_pools_and_file_systems_of_several_disks_are_refused_and_a_mirror_half_is_not() {
    let array = |level: u32, is_mirror: bool| Membership {
        name: format!("array of RAID {level}"),
        is_mirror,
        ..membership("ARRAY", Some(2), &[])
    };
    let raid =
        |level, is_mirror| member("linux_raid_member", "ARRAY", Some(array(level, is_mirror)));
    let both = |found: Filesystem| [disk("sda", vec![found.clone()]), disk("sdb", vec![found])];
    assert!(refusal(&both(raid(0, false))).unwrap().contains("RAID 0; the others: sdb1"));
    assert!(refusal(&both(raid(5, false))[..1]).unwrap().contains("not found in this machine"));
    assert_eq!(refusal(&both(raid(1, true))), None);
    let btrfs = |n| Filesystem { n_devices: Some(n), ..member("btrfs", "FS", None) };
    assert!(refusal(&both(btrfs(2))).unwrap().contains("one of 2 members of the btrfs"));
    assert_eq!(refusal(&both(btrfs(1))), None, "a copy");
    let pool = membership("77", Some(3), &[]);
    assert!(refusal(&both(member("zfs_member", "", Some(pool)))).is_some());
    let firmware = membership("f00d", Some(2), &["SERIAL-sda", "GONE"]);
    let message = refusal(&both(member("isw_raid_member", "", Some(firmware)))).unwrap();
    assert!(message.contains("GONE, which is not in this machine"), "{message}");
}

#[test]
fn member_whose_metadata_are_unknown_is_refused_next_to_another_of_its_kind_only() {
    let unknown = || member("ddf_raid_member", "", None);
    assert_eq!(refusal(&[disk("sda", vec![unknown()])]), None);
    let two = [disk("sda", vec![unknown()]), disk("sdb", vec![unknown()])];
    assert!(refusal(&two).unwrap().contains("a member of the ddf_raid_member; the others: sdb1"));
    let lvm = [
        disk("sda", vec![member("LVM2_member", "A", None)]),
        disk("sdb", vec![volume("B", &["B", "C"])]),
    ];
    assert!(refusal(&lvm).is_some());
    let plain = || member("xfs", "SAME", None);
    assert_eq!(refusal(&[disk("sda", vec![plain()]), disk("sdb", vec![plain()])]), None);
}

#[test]
fn dynamic_disks_of_windows_count_as_shared_if_there_are_several() {
    let dynamic = |name: &str| {
        let mut disk = disk(name, vec![member("ntfs", "", None)]);
        disk.partitions[0].type_uuid = Some("AF9B60A0-1431-4F62-BC68-3311714A69AD".into());
        disk
    };
    assert!(refusal(&[dynamic("sda"), dynamic("sdb")]).unwrap().contains("dynamic disks"));
    assert_eq!(refusal(&[dynamic("sda"), disk("sdb", vec![])]), None);
}

#[test]
fn every_kind_that_spans_disks_or_is_used_by_other_hosts_is_refused() {
    let two = |kind: &str, other: &str| {
        let found = |kind: &str, id: &str| member(kind, id, None);
        refusal(&[disk("sda", vec![found(kind, "A")]), disk("sdb", vec![found(other, "B")])])
    };
    for kind in ["stratis", "oracleasm", "vdo", "DM_integrity", "VMFS"] {
        assert!(two(kind, kind).unwrap().contains("the others: sdb1"), "{kind}");
        assert_eq!(two(kind, "xfs"), None, "{kind} alone, as a group of one disk");
    }
    // What is never all, or is never used by one host alone.
    for kind in [
        "drbd",
        "DM_snapshot_cow",
        "DM_verity_hash",
        "gfs",
        "gfs2",
        "ocfs",
        "ocfs2",
        "lustre",
        "exfs",
        "scoutfs_meta",
        "scoutfs_data",
    ] {
        assert!(two(kind, "vfat").unwrap().contains("sda1 "), "{kind}");
    }
    let kept = Saved::parse(&[], &["1".to_owned()]).unwrap();
    let target = disk("sda", vec![member("gfs2", "A", None)]);
    for (kind, is_on_fabric, says) in [
        ("gfs2", false, "change nothing on it"),
        ("drbd", false, "change nothing on it"),
        ("DM_snapshot_cow", false, "(wipefs)"),
        ("DM_snapshot_cow", true, "change nothing on it"),
    ] {
        let disks = [Disk { is_on_fabric, ..disk("sda", vec![member(kind, "A", None)]) }];
        let failure = check(&disks[0], &disks, &Saved::default(), &[]).unwrap_err();
        assert!(failure.advice.unwrap().to_string().contains(says), "{kind}");
    }
    assert_eq!(check(&target, std::slice::from_ref(&target), &kept, &[]), Ok(()));
}

#[test]
fn journal_is_refused_unless_its_file_system_is_overwritten_with_it() {
    let plain = |kind: &str| member(kind, "A", None);
    for (journal, owner) in [("jbd", "ext4"), ("xfs_external_log", "xfs")] {
        let other = |kind: &str| disk("sdb", vec![plain(kind)]);
        let alone = disk("sda", vec![plain(journal)]);
        assert!(refusal(&[alone.clone(), other(owner)]).is_some());
        assert!(refusal(std::slice::from_ref(&alone)).is_some(), "its owner is not there");
        let both = disk("sda", vec![plain(journal), plain(owner)]);
        assert_eq!(refusal(&[both.clone(), other("vfat")]), None);
        assert!(refusal(&[both, other(owner)]).unwrap().contains("journal"), "whose?");
    }
}

#[test]
fn datastore_of_one_disk_is_no_obstacle_unless_other_hosts_reach_it() {
    let extent = |n| member("VMFS_volume_member", "A", Some(membership("STORE", Some(n), &[])));
    let one = disk("sda", vec![extent(1)]);
    assert_eq!(refusal(&[one.clone(), disk("sdb", vec![extent(1)])]), None);
    assert!(refusal(&[disk("sda", vec![extent(2)])]).unwrap().contains("one of 2 members"));
    let shared = |disk: Disk| Disk { is_on_fabric: true, ..disk };
    assert!(refusal(&[shared(one)]).unwrap().contains("that other hosts may reach"));
    assert!(refusal(&[shared(disk("sda", vec![member("oracleasm", "A", None)]))]).is_some());
    assert_eq!(refusal(&[shared(disk("sda", vec![volume("A", &["A"])]))]), None);
    assert_eq!(refusal(&[shared(disk("sda", vec![member("xfs", "A", None)]))]), None);
}

#[test]
fn partitions_of_ceph_and_gpfs_are_known_by_their_type_alone() {
    let typed = |name: &str, types: &[&str]| {
        let mut disk = disk(name, types.iter().map(|_| member("vfat", "", None)).collect());
        for (part, kind) in disk.partitions.iter_mut().zip(types) {
            part.type_uuid = Some((*kind).into());
        }
        disk
    };
    let osd = "4fbd7e29-9d25-41b8-afd0-062c0ceff05d";
    for kind in [
        "30cd0809-c2b2-499c-8879-2d6b78529876",
        "5ce17fce-4087-4169-b7ff-056cc58473f9",
        "45b0969e-9b03-4f30-b4c6-b4b80ceff106",
    ] {
        let (needed, other) = (typed("sda", &[kind]), typed("sdb", &[osd]));
        assert!(refusal(&[needed.clone(), other.clone()]).unwrap().contains("Ceph OSD"), "{kind}");
        assert!(refusal(std::slice::from_ref(&needed)).is_some(), "its OSD is not there");
        assert_eq!(refusal(&[typed("sda", &[kind, osd])]), None, "an OSD with its own");
        let both = [needed, other];
        assert_eq!(check(&both[0], &both, &Saved::default(), &["sdb".into()]), Ok(()));
    }
    assert_eq!(refusal(&[typed("sda", &[osd]), typed("sdb", &[osd])]), None, "two OSDs");
    let gpfs = typed("sda", &["37AFFC90-EF7D-4E96-91C3-2D7AE055B174"]);
    assert!(refusal(&[gpfs]).unwrap().contains("GPFS"));
    // An OSD is one whole, and its database may be on another disk.
    let store = |name: &str, id: &str| disk(name, vec![member("ceph_bluestore", id, None)]);
    assert_eq!(refusal(&[store("sda", "A"), store("sdb", "B")]), None);
    assert!(refusal(&[store("sda", "A"), store("sdb", "A")]).is_some());
}

#[test]
fn what_is_built_on_the_disk_may_be_one_of_several_too() {
    let luks = |name: &str, above: &str, found: Filesystem| Disk {
        content_above: vec![ContentAbove { name: above.into(), filesystem: found }],
        ..disk(name, vec![member("crypto_LUKS", name, None)])
    };
    // As udev knows it.
    let pv = |id: &str| member("LVM2_member", id, None);
    let disks = [luks("sda", "dm-0", pv("A")), luks("sdb", "dm-1", pv("B"))];
    assert!(refusal(&disks).unwrap().contains("the others: dm-1 of /dev/sdb"));
    assert_eq!(refusal(&disks[..1]), None, "the usual encrypted system");
    assert_eq!(refusal(&[disks[0].clone(), disk("sdb", vec![volume("C", &["C"])])]), None);
    assert_eq!(check(&disks[0], &disks, &Saved::default(), &["sdb".into()]), Ok(()));
    let known = |id| volume(id, &["A", "B"]);
    let disks = [luks("sda", "dm-0", known("A")), luks("sdb", "dm-1", known("B"))];
    assert!(refusal(&disks).unwrap().contains("one of 2 members"));
    // A mirror of two disks goes on without one.
    let disks = [luks("sda", "md0", known("A")), luks("sdb", "md0", known("A"))];
    assert_eq!(refusal(&disks), None);
    let message = check(&disks[0], &disks, &Saved::default(), &["sdb".into()]).unwrap_err();
    assert!(message.to_string().contains("B, which is not in this machine"), "one volume");
}

#[test]
fn member_without_a_record_of_its_whole_is_refused() {
    let without = |name: &str| disk(name, vec![member("LVM2_member", "B", None)]);
    assert!(refusal(&[without("sda")]).unwrap().contains("sda1 is a member of the LVM2_member"));
    let group = disk("sdb", vec![volume("A", &["A", "B"])]);
    let message = refusal(&[without("sda"), group.clone()]).unwrap();
    assert!(message.contains("the others: sdb1 of /dev/sdb"), "{message}");
    for disks in [[without("sda"), group.clone()], [group, without("sda")]] {
        let given_up = [disks[1].name.clone()];
        assert_eq!(check(&disks[0], &disks, &Saved::default(), &given_up), Ok(()));
    }
    let btrfs = |name: &str, uuid: &str, n| {
        disk(name, vec![Filesystem { n_devices: Some(n), ..member("btrfs", uuid, None) }])
    };
    let message = refusal(&[btrfs("sda", "SEED", 1), btrfs("sdb", "SPROUT", 2)]).unwrap();
    assert!(message.contains("missing device of the btrfs sdb1 of /dev/sdb"), "{message}");
    let pair = [btrfs("sda", "A", 1), btrfs("sdb", "B", 2), btrfs("sdc", "B", 2)];
    assert_eq!(refusal(&pair), None);
}
