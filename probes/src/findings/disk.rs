//! Disks: none to install on, without capacity, with an ambiguous identity.

use std::collections::{BTreeMap, BTreeSet};

use super::{Finding, of_each, raise};
use crate::block::{Block, Disk};
use crate::collect::Inventory;
use crate::parts::{self, PartId, PartKind};

/// Mount points of an installed system's root and boot file systems; `/sysroot` is that of ostree. The live image
/// mounts none of these from a disk.
const SYSTEM_MOUNTS: [&str; 6] = ["/", "/sysroot", "/usr", "/boot", "/boot/efi", "/efi"];

pub(super) fn disks(inventory: &Inventory) -> &[Disk] {
    inventory.block.as_ref().map_or(&[], |block| &block.disks)
}

/// A machine that neither runs an installed system nor has a disk to install one on.
pub(super) fn none_eligible(inventory: &Inventory) -> Vec<Finding> {
    // Without a count the disks were not listed: the tree has no /sys/block, or the collector did not
    // finish and only the RAID controllers are known.
    let Some(block) = inventory.block.as_ref().filter(|block| block.n_disks.is_some()) else {
        return Vec::new();
    };
    // Too little is known to judge such a disk. The kernel reports a size for every disk, so one without was not
    // captured; and without root rights the content cannot be examined.
    let is_unexamined = |disk: &Disk| disk.size_bytes.is_none() || disk.is_content_denied;
    let is_open = |disk: &Disk| disk.eligible || is_unexamined(disk);
    if block.disks.iter().any(is_open) || runs_from_disk(block) {
        return Vec::new();
    }
    let reason = |disk: &Disk| format!("{}: {}", disk.name, disk.not_eligible_because.join(", "));
    let reasons: Vec<String> = block.disks.iter().map(reason).collect();
    let evidence = match reasons.as_slice() {
        [] => "no disk was detected".to_owned(),
        _ => format!("no disk can be installed on ({})", reasons.join("; ")),
    };
    vec![raise("disk.none_eligible", None, evidence)]
}

/// True if the running system's root or boot file system is on a disk, directly or through LVM, encryption or RAID,
/// other than the medium of a live system.
fn runs_from_disk(block: &Block) -> bool {
    let is_system = |place: &String| SYSTEM_MOUNTS.contains(&place.as_str());
    let installed = block.disks.iter().filter(|disk| !disk.is_live_medium);
    let mut on_disk: BTreeSet<&str> = BTreeSet::new();
    for disk in installed {
        let partitions = &disk.partitions;
        let mut mounts =
            disk.mounted_at.iter().chain(partitions.iter().flat_map(|p| &p.mounted_at));
        if mounts.any(is_system) {
            return true;
        }
        on_disk.insert(&disk.name);
        on_disk.extend(partitions.iter().map(|partition| partition.name.as_str()));
    }
    // Layers are few, and each round adds at least one device or ends.
    loop {
        let n = on_disk.len();
        for device in &block.r#virtual {
            if device.members.iter().any(|member| on_disk.contains(member.as_str())) {
                if device.mounted_at.iter().any(is_system) {
                    return true;
                }
                on_disk.insert(&device.name);
                on_disk.extend(device.partitions.iter().map(String::as_str));
            }
        }
        if on_disk.len() == n {
            return false;
        }
    }
}

/// Disks that respond but report zero capacity.
pub(super) fn zero_size(inventory: &Inventory) -> Vec<Finding> {
    of_each(disks(inventory), "disk.zero_size", parts::disk, |disk| {
        let is_dead = disk.size_bytes == Some(0) && disk.is_removable != Some(true);
        is_dead.then(|| "the disk responds but reports zero capacity".to_owned())
    })
}

/// Disks that share a WWN without being paths of one multipath device.
pub(super) fn duplicate_identity(inventory: &Inventory) -> Vec<Finding> {
    let mut by_wwn: BTreeMap<&str, Vec<&Disk>> = BTreeMap::new();
    let is_joined = |disk: &&Disk| disk.multipath.is_some() || disk.name.starts_with("dm-");
    for disk in disks(inventory).iter().filter(|disk| !is_joined(disk)) {
        if let Some(wwn) = &disk.wwn {
            by_wwn.entry(wwn).or_default().push(disk);
        }
    }
    let duplicates = by_wwn.into_iter().filter(|(_, disks)| disks.len() > 1);
    let finding = |(wwn, disks): (&str, Vec<&Disk>)| {
        let names: Vec<&str> = disks.iter().map(|disk| disk.name.as_str()).collect();
        let part = PartId::called(PartKind::Other, names.join(", "));
        raise("disk.duplicate_identity", Some(part), format!("all report the WWN {wwn}"))
    };
    duplicates.map(finding).collect()
}
