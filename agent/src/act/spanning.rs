//! Arrays, volume groups, pools and file systems that the chosen disk shares with other disks or hosts. Overwriting one
//! member destroys the data on the others too, so no policy allows it; whether they are active at the moment does not count.
//!
//! A half of a RAID 1 is not such a member: the other half keeps everything.

use std::collections::BTreeSet;

use probes::block::{ContentAbove, Disk, Filesystem, Partition, Role, Volume, of_volume, role};

use super::saved::Saved;
use super::{Code, DETACH, Failure, describe, list, others};

/// The first group of digits in the types of partitions of Windows' dynamic disks: metadata and data, GPT and DOS.
const DYNAMIC: &[&str] = &["5808c8aa-", "af9b60a0-", "0x42"];
const STORAGE_POOL: &[&str] = &["e75caf8f-"];
const VSAN: &[&str] = &["381cfccc-"];
/// Of Ceph's journals, databases and write-ahead logs, plain, encrypted and on multipath devices (`ceph-disk`, `PTYPE`).
const CEPH: &[&str] = &[
    "45b0969e-",
    "30cd0809-",
    "166418da-",
    "93b0052d-",
    "ec6d6385-",
    "5ce17fce-",
    "86a32090-",
    "306e8683-",
    "01b41e1b-",
];
/// Of the OSDs that need them.
const OSD: &[&str] = &["4fbd7e29-", "cafecafe-"];
const GPFS: &[&str] = &["37affc90-"];
/// What no signature shows to span disks, the types of its partitions, and those of the rest that must be lost with them.
/// What several hosts use has no rest that could be.
const TYPES: [(&str, &[&str], &[&str]); 5] = [
    ("dynamic disks of Windows", DYNAMIC, DYNAMIC),
    ("disks of a storage pool of Windows", STORAGE_POOL, STORAGE_POOL),
    ("disks of VMware vSAN", VSAN, VSAN),
    ("disks of a Ceph OSD", CEPH, OSD),
    ("disks of IBM GPFS", GPFS, &[]),
];
/// Journals on a volume of their own, and the file systems that have them.
const JOURNALS: [(&str, &[&str]); 2] = [("jbd", &["ext3", "ext4"]), ("xfs_external_log", &["xfs"])];

/// Refuses if something on the target also lies on another disk, or on a partition that is kept. The content of the disks
/// with these kernel names is given up with it.
///
/// # Errors
/// `EXISTING_DATA` with the other members.
pub(super) fn check(
    target: &Disk,
    disks: &[Disk],
    saved: &Saved,
    given_up: &[String],
) -> Result<(), Failure> {
    let is_path = |disk: &&Disk| disk.unit().is_some_and(|unit| given_up.iter().any(|n| n == unit));
    let others = others(disks, target).filter(|disk| !is_path(disk));
    let (gone, others): (Vec<&Disk>, Vec<&Disk>) =
        others.partition(|disk| given_up.contains(&disk.name));
    let is_lost = |volume: &Volume<'_>| volume.partition.is_none_or(|part| !saved.keeps(part));
    let mut lost: Vec<Volume<'_>> = content(target).filter(is_lost).collect();
    lost.extend(gone.iter().flat_map(|disk| content(disk)));
    let mut rest: Vec<Volume<'_>> = others.iter().flat_map(|disk| content(disk)).collect();
    let is_kept = |volume: &Volume<'_>| volume.partition.is_none_or(|part| saved.keeps(part));
    rest.extend(target.volumes().filter(|volume| is_kept(volume) && volume.name != target.name));
    // One device above several disks is one volume. If some of these disks stay, what it is built on counts.
    let mut seen: BTreeSet<String> =
        rest.iter().filter(|v| is_above(v)).map(|v| v.name.clone()).collect();
    lost.retain(|volume| !is_above(volume) || seen.insert(volume.name.clone()));
    let of_target = lost.iter().filter(|volume| volume.disk.name == target.name);
    let shared = of_target.filter_map(|volume| match role(volume.filesystem) {
        Some(Role::Part | Role::Shared) => of_volume(&volume.name, volume.filesystem),
        Some(Role::Journal) => journal(volume, &lost, &rest),
        _ => {
            let members = members(volume, &lost, &rest).or_else(|| seed(volume, &lost, &rest));
            let members = members.map(|members| format!("{} {members}", volume.name));
            members.or_else(|| of_other_hosts(volume, target))
        }
    });
    let found: Vec<String> = shared.chain(by_type(target, &gone, &others, saved)).collect();
    if found.is_empty() {
        return Ok(());
    }
    let what = format!(
        "{} shares content with other disks or hosts, which would lose it too: {}",
        describe(target),
        list(found, "; ")
    );
    let is_of_hosts = |volume: &Volume<'_>| {
        let kind = &volume.filesystem.kind;
        let is_shared = matches!(role(volume.filesystem), Some(Role::Shared | Role::Datastore));
        is_shared || kind.starts_with("drbd") || kind.starts_with("VMFS")
    };
    let advice = if target.is_on_fabric || lost.iter().any(is_of_hosts) {
        DETACH
    } else {
        "no policy overwrites one member of several: first remove the disk from its array, volume group or pool \
         (vgreduce, mdadm --zero-superblock, zpool, btrfs device remove), or wipe every member by hand (wipefs)"
    };
    Err(Failure::new(Code::ExistingData, what).advise(advice))
}

/// Everything with known content on a disk, and in what the kernel has built on it, apart from parts of mappings.
fn content(disk: &Disk) -> impl Iterator<Item = Volume<'_>> {
    let is_own =
        |above: &&ContentAbove| disk.unit().is_none() && !above.filesystem.kind.starts_with("DM_");
    let above = disk.content_above.iter().filter(is_own).map(move |above| Volume {
        disk,
        partition: None,
        name: above.name.clone(),
        filesystem: &above.filesystem,
    });
    disk.volumes().chain(above)
}

/// True if a volume is built on its disk.
fn is_above(volume: &Volume<'_>) -> bool {
    volume.disk.content_above.iter().any(|above| above.name == volume.name)
}

/// Describes a journal, unless its file system can only be one that is overwritten too.
fn journal(volume: &Volume<'_>, lost: &[Volume<'_>], others: &[Volume<'_>]) -> Option<String> {
    let kind = volume.filesystem.kind.as_str();
    let (_, owners) = JOURNALS.iter().find(|(journal, _)| *journal == kind)?;
    let has_owner = |volumes: &[Volume<'_>]| {
        volumes.iter().any(|volume| owners.contains(&volume.filesystem.kind.as_str()))
    };
    let is_alone = has_owner(lost) && !has_owner(others);
    if is_alone { None } else { of_volume(&volume.name, volume.filesystem) }
}

/// Describes a member on a disk that other hosts may reach, unless its metadata say what it is a part of.
fn of_other_hosts(volume: &Volume<'_>, target: &Disk) -> Option<String> {
    let found = volume.filesystem;
    let is_known = found.membership.is_some() || found.n_devices.is_some();
    let is_datastore = role(found) == Some(Role::Datastore) || found.kind.starts_with("VMFS");
    let is_one_disk = found.kind == "mpath_member" || is_above(volume);
    if !target.is_on_fabric || is_one_disk || is_known && !is_datastore {
        return None;
    }
    let what = of_volume(&volume.name, found)?;
    Some(format!("{what}, on a disk that other hosts may reach"))
}

/// Describes the members that a volume shares its content with; `None` if it shares it with none.
fn members(volume: &Volume<'_>, lost: &[Volume<'_>], others: &[Volume<'_>]) -> Option<String> {
    let found = volume.filesystem;
    let membership = found.membership.as_deref();
    let is_mirror = membership.is_some_and(|membership| membership.is_mirror);
    if !can_span(found) || is_mirror || is_alone(found) {
        return None;
    }
    let is_same = |other: &&Volume<'_>| is_same_whole(found, other.filesystem);
    let n_lost = lost.iter().filter(is_same).count() as u64;
    let listed = membership.map(|membership| membership.members.as_slice()).unwrap_or_default();
    let known: BTreeSet<&str> = lost.iter().chain(others).filter_map(|v| member_id(v)).collect();
    let absent = listed.iter().filter(|id| !known.contains(id.as_str()));
    let mut named: Vec<String> = others
        .iter()
        .filter(is_same)
        .map(|other| format!("{} of {}", other.name, describe(other.disk)))
        .collect();
    named.extend(absent.map(|id| format!("{id}, which is not in this machine")));
    let n_members = membership.and_then(|membership| membership.n_members).or(found.n_devices);
    // A physical volume without a copy of its group's metadata; udev never knows the group of what it found.
    let is_of_unknown = found.kind == "LVM2_member"
        && membership.is_none()
        && !is_above(volume)
        && !lost.iter().any(|other| other.filesystem.membership.is_some() && is_same(&other));
    let is_alone = n_members.is_none() && named.is_empty() && !is_of_unknown;
    // Several volumes of the target may make up the whole of it.
    if n_members.is_some_and(|n| n <= n_lost) || is_alone {
        return None;
    }
    let name = membership.map_or(found.kind.as_str(), |membership| membership.name.as_str());
    let n_members = n_members.map(|n| format!("one of {n} members"));
    let n_members = n_members.as_deref().unwrap_or("a member");
    if named.is_empty() {
        named.push("not found in this machine".to_owned());
    }
    Some(format!("is {n_members} of the {name}; the others: {}", list(named, ", ")))
}

/// Describes a btrfs that may be the seed of another one: that counts it as a device, and has another UUID.
fn seed(volume: &Volume<'_>, lost: &[Volume<'_>], others: &[Volume<'_>]) -> Option<String> {
    let all = || lost.iter().chain(others).map(|volume| volume.filesystem);
    let lacks_a_device = |other: &&Volume<'_>| {
        let found = other.filesystem;
        let n_there = all().filter(|one| one.kind == found.kind && one.uuid == found.uuid).count();
        found.kind == "btrfs" && found.n_devices.is_some_and(|n| n > n_there as u64)
    };
    let sprout =
        others.iter().filter(|_| volume.filesystem.kind == "btrfs").find(lacks_a_device)?;
    let place = describe(sprout.disk);
    Some(format!("may be the missing device of the btrfs {} of {place}", sprout.name))
}

/// True if content of this kind can span several disks.
fn can_span(filesystem: &Filesystem) -> bool {
    let kind = filesystem.kind.as_str();
    // A path of a multipath device shares nothing: the device is one disk.
    kind != "mpath_member"
        && (kind == "btrfs" || matches!(role(filesystem), Some(Role::Member | Role::Datastore)))
}

/// True if two volumes are, or may be, parts of one whole.
fn is_same_whole(one: &Filesystem, other: &Filesystem) -> bool {
    if one.kind != other.kind {
        return false;
    }
    match (whole_id(one), whole_id(other)) {
        (Some(one), Some(other)) => one == other,
        // What is alone by its own metadata is no part of another whole, nor is what that does not list.
        _ => ![(one, other), (other, one)]
            .iter()
            .any(|(one, other)| is_alone(one) || excludes(one, other)),
    }
}

/// True if a volume group lists its physical volumes, and this is none of them.
fn excludes(one: &Filesystem, other: &Filesystem) -> bool {
    let group = one.membership.as_ref().filter(|group| group.group.is_some());
    group.zip(other.uuid.as_ref()).is_some_and(|(group, id)| !group.members.contains(id))
}

/// True if a volume is the only member, by its own metadata.
fn is_alone(filesystem: &Filesystem) -> bool {
    let membership = filesystem.membership.as_ref();
    filesystem.n_devices == Some(1) || membership.is_some_and(|found| found.n_members == Some(1))
}

/// Returns the ID of the whole that a volume is a part of.
fn whole_id(filesystem: &Filesystem) -> Option<&str> {
    let by_metadata = filesystem.membership.as_ref().and_then(|found| found.whole.as_deref());
    by_metadata.or(match filesystem.kind.as_str() {
        "linux_raid_member" | "btrfs" | "bcachefs" | "ceph_bluestore" => filesystem.uuid.as_deref(),
        "zfs_member" => filesystem.label.as_deref(),
        _ => None,
    })
}

/// Returns the ID of a volume in the list of members.
fn member_id<'d>(volume: &Volume<'d>) -> Option<&'d str> {
    match volume.filesystem.kind.as_str() {
        "isw_raid_member" => volume.disk.serial.as_deref().map(str::trim),
        _ => volume.filesystem.uuid.as_deref(),
    }
}

/// Partitions whose type alone says that they may span disks, unless the rest of the whole is lost with them.
fn by_type(target: &Disk, gone: &[&Disk], others: &[&Disk], saved: &Saved) -> Vec<String> {
    let find = |disk: &Disk, types: &[&str], is_kept: bool| {
        let is_it = |part: &&Partition| {
            let kind = part.type_uuid.as_deref().unwrap_or_default().to_ascii_lowercase();
            let is_lost = is_kept || !saved.keeps(part);
            is_lost && types.iter().any(|known| kind.starts_with(known))
        };
        disk.partitions.iter().find(is_it).map(|part| part.name.clone())
    };
    let describe = |(kind, types, rest): (&str, &[&str], &[&str])| {
        let lost = find(target, types, false)?;
        let other = others.iter().find(|disk| find(disk, rest, true).is_some());
        let is_whole = gone.iter().chain([&target]).any(|disk| find(disk, rest, false).is_some());
        let other = match other {
            None if is_whole => return None,
            None => "not found in this machine".to_owned(),
            Some(other) => describe(other),
        };
        Some(format!("{lost} may be one of several {kind}; the others: {other}"))
    };
    TYPES.into_iter().filter_map(describe).collect()
}

#[cfg(test)]
mod tests;
