//! Disks: none to install on, without capacity, with an ambiguous identity.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::table::{DISK_DUPLICATE_IDENTITY, DISK_NONE_ELIGIBLE, DISK_ZERO_SIZE};
use crate::block::{Block, Disk};
use crate::collect::Inventory;
use crate::parts::{self, PartId, PartKind};

/// Where an installed system mounts its root and boot file systems; `/sysroot` is that of ostree.
/// The live image mounts none of these from a disk.
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

/// Whether enough is known to judge the disk. The kernel reports a size for every disk, so one
/// without was not captured; and without root rights the content cannot be examined.
fn is_examined(disk: &Disk) -> bool {
    disk.size_bytes.is_some() && !disk.is_content_denied
}

/// Whether the running system's root or boot file system is on a disk, directly or through LVM,
/// encryption or RAID, other than the medium of a live system.
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
    use crate::block::{Partition, VirtualDevice};

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
    fn machine_without_an_eligible_disk_lists_the_reasons() {
        let mut used = disk("sda", None, false);
        used.not_eligible_because = vec!["read-only".to_owned()];
        let found = none_eligible(&inventory(vec![used]));
        assert!(found[0].evidence.contains("sda: read-only"), "{found:?}");
        assert!(none_eligible(&inventory(vec![disk("sda", None, true)])).is_empty());
        assert!(none_eligible(&Inventory::default()).is_empty());
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

    /// A machine whose only disk has a partition, a mapping on that, and a mount of either.
    fn mounted(partition_at: Option<&str>, mapping_at: Option<&str>) -> Block {
        let at = |place: Option<&str>| place.map(str::to_owned).into_iter().collect();
        let partition = Partition {
            name: "sda3".to_owned(),
            mounted_at: at(partition_at),
            ..Partition::default()
        };
        let mapping = VirtualDevice {
            name: "dm-0".to_owned(),
            members: vec!["sda3".to_owned()],
            mounted_at: at(mapping_at),
            ..VirtualDevice::default()
        };
        let disk = Disk { partitions: vec![partition], ..disk("sda", None, false) };
        let mut block = inventory(vec![disk]).block.unwrap();
        block.r#virtual = vec![mapping];
        block
    }

    #[test]
    fn installed_machine_needs_no_eligible_disk() {
        let n_found = |block: Block| {
            none_eligible(&Inventory { block: Some(block), ..Inventory::default() }).len()
        };
        assert_eq!(n_found(mounted(Some("/sysroot"), None)), 0);
        assert_eq!(n_found(mounted(None, Some("/"))), 0, "through LVM or LUKS");
        assert_eq!(n_found(mounted(None, None)), 1);
        assert_eq!(n_found(mounted(Some("/srv/data"), None)), 1, "a data disk of a live system");
        let mut live = mounted(Some("/boot"), Some("/"));
        live.disks[0].is_live_medium = true;
        assert_eq!(n_found(live), 1, "a live system does not run from an installed disk");
        let mut not_listed = mounted(None, None);
        not_listed.n_disks = None;
        assert_eq!(n_found(not_listed), 0);
    }

    #[test]
    fn two_disks_with_one_wwn_are_found_and_two_paths_are_not() {
        let one = disk("sda", Some("0x5000"), true);
        let two = disk("sdb", Some("0x5000"), true);
        assert_eq!(duplicate_identity(&inventory(vec![one.clone(), two.clone()])).len(), 1);
        let path = |disk: Disk| Disk { multipath: Some("dm-0".to_owned()), ..disk };
        assert!(duplicate_identity(&inventory(vec![path(one), path(two)])).is_empty());
    }

    #[test]
    fn disk_without_capacity_is_found_and_an_empty_drive_is_not() {
        let dead = Disk { size_bytes: Some(0), ..disk("sda", None, false) };
        assert_eq!(zero_size(&inventory(vec![dead.clone()])).len(), 1);
        let empty = Disk { is_removable: Some(true), ..dead };
        assert!(zero_size(&inventory(vec![empty])).is_empty());
    }
}
