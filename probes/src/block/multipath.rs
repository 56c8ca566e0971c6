//! Which disks are paths to one LUN: those that a multipath device holds, and those that share an
//! identity.

use std::collections::{BTreeMap, BTreeSet};

use crate::machine::{Machine, quote};

use super::disk::Disk;
use super::eligibility::is_storage;
use super::identity::squash;
use super::virtual_devices::VirtualDevice;

/// Marks the members of multipath devices, and identities that several disks share.
pub(super) fn mark(machine: &Machine, disks: &mut [Disk], virtual_devices: &[VirtualDevice]) {
    let maps = virtual_devices.iter().filter(|device| device.kind.as_deref() == Some("mpath"));
    for map in maps {
        for disk in disks.iter_mut().filter(|disk| map.members.contains(&disk.name)) {
            disk.multipath = Some(map.name.clone());
        }
    }
    let mut sharing: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (index, disk) in disks.iter().enumerate() {
        if let Some(id) = unit_id(disk) {
            sharing.entry(id).or_default().push(index);
        }
    }
    for (id, indices) in sharing.into_iter().filter(|(_, indices)| indices.len() > 1) {
        let names: Vec<String> = indices.iter().map(|index| disks[*index].name.clone()).collect();
        let first = &disks[indices[0]];
        let id = first.wwn.as_ref().or(first.serial.as_ref()).unwrap_or(&id);
        machine.problem(
            &format!("sys/block/{}", names[0]),
            format!("the identity {} on {}", quote(id), names.join(", ")),
            "an identity of its own, or a multipath device over the paths of one LUN",
        );
        for index in indices {
            let disk = &mut disks[index];
            let others: Vec<&str> =
                names.iter().filter(|name| **name != disk.name).map(String::as_str).collect();
            disk.identity_issues.push(format!("the same identity as {}", others.join(", ")));
        }
    }
}

/// What names the unit of storage, whatever path leads to it: the world-wide name, else vendor,
/// model, serial number and size together. `None` where the disk has neither.
fn unit_id(disk: &Disk) -> Option<String> {
    if !is_storage(disk) {
        return None;
    }
    if let Some(id) = disk.wwn.as_ref().or(disk.nguid.as_ref()).or(disk.eui64.as_ref()) {
        return Some(id.clone());
    }
    // The namespaces of one NVMe drive share its serial number; without a name of their own they
    // cannot be compared.
    let serial = disk.serial.as_ref().filter(|_| disk.transport.as_deref() != Some("nvme"))?;
    let text = |text: &Option<String>| squash(text.as_deref().unwrap_or_default());
    let size_bytes = disk.size_bytes.unwrap_or_default();
    Some(format!("{} {} {} {size_bytes}", text(&disk.vendor), text(&disk.model), squash(serial)))
}

/// The sizes of the units that count as physical storage, each once.
pub(super) fn counted(disks: &[Disk]) -> Vec<Option<u64>> {
    let mut seen = BTreeSet::new();
    let mut sizes = Vec::new();
    for disk in disks.iter().filter(|disk| is_storage(disk)) {
        let is_empty = disk.is_removable == Some(true) && disk.size_bytes == Some(0);
        let id = disk.multipath.clone().or_else(|| unit_id(disk));
        let is_new = id.is_none_or(|id| seen.insert(id));
        if is_new && !is_empty {
            sizes.push(disk.size_bytes);
        }
    }
    sizes
}

#[cfg(test)]
mod tests {
    use crate::testing::tree;

    #[test]
    fn two_paths_of_a_lun_count_once_and_neither_is_eligible() {
        let machine = tree(&[
            ("sys/block/sda/size", "2048\n"),
            ("sys/block/sda/wwid", "naa.6001405aabbccdd1\n"),
            ("sys/block/sdb/size", "2048\n"),
            ("sys/block/sdb/wwid", "naa.6001405aabbccdd1\n"),
            ("sys/block/sdc/size", "2048\n"),
            ("sys/block/sdc/removable", "0\n"),
            ("sys/block/sdc/ro", "0\n"),
            ("sys/block/sr0/size", "2097151\n"),
            ("sys/block/sdd/size", "0\n"),
            ("sys/block/sdd/removable", "1\n"),
        ]);
        let block = super::super::block(&machine);
        assert_eq!((block.n_disks, block.physical_bytes), (Some(2), Some(2 * 2048 * 512)));
        assert!(!block.disks[0].eligible && !block.disks[1].eligible);
        assert!(block.disks[0].not_eligible_because[0].contains("sdb"));
        assert!(block.disks[2].eligible, "{:?}", block.disks[2].not_eligible_because);
    }

    #[test]
    fn members_of_a_multipath_device_count_once_even_without_identity() {
        let machine = tree(&[
            ("sys/block/dm-0/dm/uuid", "mpath-3600\n"),
            ("sys/block/dm-0/slaves/sda/x", ""),
            ("sys/block/dm-0/slaves/sdb/x", ""),
            ("sys/block/sda/size", "8\n"),
            ("sys/block/sdb/size", "8\n"),
        ]);
        let block = super::super::block(&machine);
        assert_eq!((block.n_disks, block.physical_bytes), (Some(1), Some(4096)));
        assert_eq!(block.disks[0].multipath.as_deref(), Some("dm-0"));
        assert!(block.disks[0].not_eligible_because.iter().any(|r| r.contains("multipath")));
    }
}
