//! Arrays, volume groups, pools and file systems that the chosen disk shares with other disks or hosts. Overwriting one
//! member destroys the data on the others too, so no policy allows it; whether they are active at the moment does not count.
//!
//! A half of a RAID 1 is not such a member: the other half keeps everything.

use std::collections::BTreeSet;

use probes::block::{Disk, Filesystem, Partition, Role, Volume, of_volume, role};

use super::saved::Saved;
use super::{Code, DETACH, Failure, describe, list, others};

/// Types of partitions whose content may span disks, although no signature shows it: of Windows' dynamic disks
/// (metadata and data, GPT and DOS), of its storage pools, and of vSAN. What the disks are called comes first.
const TYPES: [(&str, &[&str]); 3] = [
    (
        "dynamic disks of Windows",
        &["5808c8aa-7e8f-42e0-85d2-e1e90434cfb3", "af9b60a0-1431-4f62-bc68-3311714a69ad", "0x42"],
    ),
    ("disks of a storage pool of Windows", &["e75caf8f-f680-4cee-afa3-b001e56efc2d"]),
    ("disks of VMware vSAN", &["381cfccc-7288-11e0-92ee-000c2911d0b2"]),
];
/// Journals on a volume of their own, and the file systems that have them.
const JOURNALS: [(&str, &[&str]); 2] = [("jbd", &["ext3", "ext4"]), ("xfs_external_log", &["xfs"])];

/// Refuses if something on the target also lies on another disk, or on a partition that is kept.
///
/// # Errors
/// `EXISTING_DATA` with the other members.
pub(super) fn check(target: &Disk, disks: &[Disk], saved: &Saved) -> Result<(), Failure> {
    let is_lost = |volume: &Volume<'_>| volume.partition.is_none_or(|part| !saved.keeps(part));
    let lost: Vec<Volume<'_>> = target.volumes().filter(is_lost).collect();
    let mut rest: Vec<Volume<'_>> = others(disks, target).flat_map(Disk::volumes).collect();
    let is_kept = |volume: &Volume<'_>| volume.partition.is_none_or(|part| saved.keeps(part));
    rest.extend(target.volumes().filter(|volume| is_kept(volume) && volume.name != target.name));
    let shared = lost.iter().filter_map(|volume| match role(volume.filesystem) {
        Some(Role::Part | Role::Shared) => of_volume(&volume.name, volume.filesystem),
        Some(Role::Journal) => journal(volume, &lost, &rest),
        _ => {
            let members = members(volume, &lost, &rest);
            let members = members.map(|members| format!("{} {members}", volume.name));
            members.or_else(|| of_other_hosts(volume, target))
        }
    });
    let found: Vec<String> = shared.chain(by_type(target, disks, saved)).collect();
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
    if !target.is_on_fabric || found.kind == "mpath_member" || is_known && !is_datastore {
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
    // Several volumes of the target may make up the whole of it.
    if n_members.is_some_and(|n| n <= n_lost) || n_members.is_none() && named.is_empty() {
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
        // What is alone by its own metadata is no part of another whole.
        _ => !is_alone(one) && !is_alone(other),
    }
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
        "linux_raid_member" | "btrfs" | "bcachefs" => filesystem.uuid.as_deref(),
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

/// Partitions whose type alone says that they may span disks, where another disk has one of the same type.
fn by_type(target: &Disk, disks: &[Disk], saved: &Saved) -> Vec<String> {
    let has = |part: &Partition, types: &[&str]| {
        let kind = part.type_uuid.as_deref().unwrap_or_default();
        types.iter().any(|known| known.eq_ignore_ascii_case(kind))
    };
    let mut found = Vec::new();
    for (kind, types) in TYPES {
        let lost = target.partitions.iter().find(|part| has(part, types) && !saved.keeps(part));
        let mut others = others(disks, target);
        let other = others.find(|disk| disk.partitions.iter().any(|part| has(part, types)));
        if let (Some(lost), Some(other)) = (lost, other) {
            let other = describe(other);
            found.push(format!("{} may be one of several {kind}, as {other}", lost.name));
        }
    }
    found
}

#[cfg(test)]
mod tests;
