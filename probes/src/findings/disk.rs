//! Disks: none to install on, without capacity, with an ambiguous identity.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::table::{DISK_DUPLICATE_IDENTITY, DISK_NONE_ELIGIBLE, DISK_ZERO_SIZE};
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
    let is_open = |disk: &Disk| disk.eligible || !is_examined(disk);
    if block.disks.iter().any(is_open) || runs_from_disk(block) {
        return Vec::new();
    }
    let reasons = block
        .disks
        .iter()
        .map(|disk| format!("{}: {}", disk.name, disk.not_eligible_because.join(", ")));
    let reasons: Vec<String> = reasons.collect();
    let evidence = match reasons.as_slice() {
        [] => "no disk was detected".to_owned(),
        _ => format!("no disk can be installed on ({})", reasons.join("; ")),
    };
    vec![DISK_NONE_ELIGIBLE.finding(None, evidence)]
}

/// True if enough is known to judge the disk. The kernel reports a size for every disk, so one without was not
/// captured; and without root rights the content cannot be examined.
fn is_examined(disk: &Disk) -> bool {
    disk.size_bytes.is_some() && !disk.is_content_denied
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
    let is_dead = |disk: &&Disk| disk.size_bytes == Some(0) && disk.is_removable != Some(true);
    let evidence = "the disk responds but reports zero capacity";
    let dead = disks(inventory).iter().filter(is_dead);
    dead.map(|disk| DISK_ZERO_SIZE.finding(Some(parts::disk(disk)), evidence)).collect()
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
    duplicates
        .map(|(wwn, disks)| {
            let names: Vec<&str> = disks.iter().map(|disk| disk.name.as_str()).collect();
            let evidence = format!("all report the WWN {wwn}");
            DISK_DUPLICATE_IDENTITY
                .finding(Some(PartId::called(PartKind::Other, names.join(", "))), evidence)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(name: &str, wwn: Option<&str>, eligible: bool) -> Disk {
        Disk {
            name: name.to_owned(),
            wwn: wwn.map(str::to_owned),
            eligible,
            size_bytes: Some(1 << 30),
            ..Disk::default()
        }
    }

    fn inventory(disks: Vec<Disk>) -> Inventory {
        let block = Block { n_disks: Some(disks.len()), disks, ..Block::default() };
        Inventory { block: Some(block), ..Inventory::default() }
    }

    #[test]
    fn disk_is_unexamined_by_the_fact_and_not_by_the_wording() {
        let mut denied = disk("sda", None, false);
        denied.not_eligible_because = vec!["a volume called x: permission denied".to_owned()];
        assert_eq!(none_eligible(&inventory(vec![denied.clone()])).len(), 1);
        denied.not_eligible_because = vec!["its first bytes cannot be read".to_owned()];
        denied.is_content_denied = true;
        assert!(none_eligible(&inventory(vec![denied])).is_empty());
    }

    #[test]
    fn live_system_runs_from_no_disk_on_which_a_system_is_installed() {
        let mut live = inventory(vec![disk("sda", None, false)]);
        let disk = &mut live.block.as_mut().unwrap().disks[0];
        (disk.is_live_medium, disk.mounted_at) = (true, vec!["/boot".to_owned()]);
        assert_eq!(none_eligible(&live).len(), 1);
        live.block.as_mut().unwrap().disks[0].is_live_medium = false;
        assert!(none_eligible(&live).is_empty());
    }
}
