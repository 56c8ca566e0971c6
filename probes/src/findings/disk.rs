//! Disks: none to install on, without size, with an identity that cannot be trusted.

use std::collections::BTreeMap;

use super::{Finding, Severity};
use crate::block::Disk;
use crate::collect::Inventory;

pub(super) fn disks(inventory: &Inventory) -> &[Disk] {
    inventory.block.as_ref().map_or(&[], |block| &block.disks)
}

/// Kernel name, serial and bay: what a technician reads on the label, and where.
pub(super) fn locator(disk: &Disk) -> String {
    let serial = disk.serial.as_ref().map(|serial| format!("serial {serial}"));
    let bay = disk.bay.as_ref().and_then(|bay| {
        let slot = bay.slot.map(|slot| slot.to_string());
        bay.label.clone().or(slot).map(|bay| format!("bay {bay}"))
    });
    match [serial, bay].into_iter().flatten().collect::<Vec<_>>().join(", ") {
        known if known.is_empty() => disk.name.clone(),
        known => format!("{} ({known})", disk.name),
    }
}

/// A machine without a disk that could be installed on.
pub(super) fn none_eligible(inventory: &Inventory) -> Vec<Finding> {
    let Some(block) = &inventory.block else { return Vec::new() };
    if block.disks.iter().any(|disk| disk.eligible) {
        return Vec::new();
    }
    let reasons = block
        .disks
        .iter()
        .map(|disk| format!("{}: {}", disk.name, disk.not_eligible_because.join(", ")));
    let reasons: Vec<String> = reasons.collect();
    let evidence = match reasons.as_slice() {
        [] => "no disk is there".to_owned(),
        _ => format!("no disk can be installed on ({})", reasons.join("; ")),
    };
    vec![Finding {
        code: "disk.none_eligible".to_owned(),
        severity: Severity::Warning,
        component: "disk".to_owned(),
        locator: None,
        evidence,
        advice: "look for a disk that is not plugged in, a controller without driver, or a RAID \
                 volume that is not configured"
            .to_owned(),
    }]
}

/// A disk that is there and has no size: often a dead one, or a slot of virtual media.
pub(super) fn zero_size(inventory: &Inventory) -> Vec<Finding> {
    let is_dead = |disk: &&Disk| disk.size_bytes == Some(0) && disk.is_removable != Some(true);
    let finding = |disk: &Disk| Finding {
        code: "disk.zero_size".to_owned(),
        severity: Severity::Warning,
        component: "disk".to_owned(),
        locator: Some(locator(disk)),
        evidence: "the disk answers and has no size".to_owned(),
        advice: "replace the disk if it is no virtual medium of the BMC".to_owned(),
    };
    disks(inventory).iter().filter(is_dead).map(finding).collect()
}

/// Several disks with one WWN that are not paths of one multipath device.
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
            Finding {
                code: "disk.duplicate_identity".to_owned(),
                severity: Severity::Warning,
                component: "disk".to_owned(),
                locator: Some(names.join(", ")),
                evidence: format!("all have the WWN {wwn}"),
                advice: "if these are paths to one disk, start multipath; else choose the disk by \
                         serial or path"
                    .to_owned(),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Block;

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
        Inventory { block: Some(Block { disks, ..Block::default() }), ..Inventory::default() }
    }

    #[test]
    fn a_machine_without_a_usable_disk_says_why() {
        let mut used = disk("sda", None, false);
        used.not_eligible_because = vec!["mounted at /".to_owned()];
        let found = none_eligible(&inventory(vec![used]));
        assert!(found[0].evidence.contains("sda: mounted at /"), "{found:?}");
        assert!(none_eligible(&inventory(vec![disk("sda", None, true)])).is_empty());
        assert!(none_eligible(&Inventory::default()).is_empty());
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
    fn a_disk_without_size_is_found_and_an_empty_drive_is_not() {
        let dead = Disk { size_bytes: Some(0), ..disk("sda", None, false) };
        assert_eq!(zero_size(&inventory(vec![dead.clone()])).len(), 1);
        let empty = Disk { is_removable: Some(true), ..dead };
        assert!(zero_size(&inventory(vec![empty])).is_empty());
    }
}
