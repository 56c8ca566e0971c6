//! Content that lies above a disk: in the mappings and arrays that the kernel has built on it, as udev knows it. Their
//! members on the disk show nothing of it.

use crate::machine::Machine;
use crate::udev;

use super::disk::{ContentAbove, Disk};
use super::filesystem;
use super::graph::DeviceGraph;
use super::listing::Listing;
use super::virtual_devices::VirtualDevice;

/// Adds to each disk the content above it.
pub(super) fn attach(
    machine: &Machine,
    disks: &mut [Disk],
    virtuals: &[VirtualDevice],
    listing: &Listing,
    graph: &DeviceGraph,
) {
    for disk in disks.iter_mut() {
        let reached = graph.above(&disk.name);
        let devices = virtuals.iter().filter(|device| reached.contains(device.name.as_str()));
        let mut above: Vec<ContentAbove> = devices
            .filter_map(|device| {
                let filesystem = device.filesystem.clone()?;
                Some(ContentAbove { name: device.name.clone(), filesystem })
            })
            .collect();
        for node in listing.virtuals.iter().flat_map(|device| &device.partitions) {
            let number =
                node.device_number.as_ref().filter(|_| reached.contains(node.name.as_str()));
            let entry = number.and_then(|number| udev::entry(machine, &format!("b{number}")));
            let filesystem = entry.and_then(|entry| filesystem::of_udev(&entry));
            above.extend(
                filesystem.map(|filesystem| ContentAbove { name: node.name.clone(), filesystem }),
            );
        }
        disk.content_above = above;
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::tree;

    #[test]
    fn content_of_mappings_and_arrays_is_known_of_every_disk_below_them() {
        let machine = tree(&[
            ("sys/block/sda/size", "2048\n"),
            ("sys/block/sda/sda1/partition", "1\n"),
            ("sys/block/sdb/size", "2048\n"),
            ("sys/block/sdc/size", "2048\n"),
            ("sys/block/md0/md/level", "raid1\n"),
            ("sys/block/md0/dev", "9:0\n"),
            ("sys/block/md0/slaves/sda1/x", ""),
            ("sys/block/md0/slaves/sdb/x", ""),
            ("sys/block/md0/md0p1/partition", "1\n"),
            ("sys/block/md0/md0p1/dev", "259:0\n"),
            ("sys/block/dm-0/dev", "253:0\n"),
            ("sys/block/dm-0/dm/uuid", "LVM-x\n"),
            ("sys/block/dm-0/slaves/md0/x", ""),
            ("run/udev/data/b253:0", "E:ID_FS_TYPE=xfs\nE:ID_FS_LABEL=root\n"),
            ("run/udev/data/b259:0", "E:ID_FS_TYPE=ext4\nE:ID_FS_LABEL=boot\n"),
        ]);
        let disks = super::super::block(&machine).disks;
        let of = |n: usize| -> Vec<(String, String)> {
            let above = disks[n].content_above.iter();
            above
                .map(|a| (a.name.clone(), a.filesystem.label.clone().unwrap_or_default()))
                .collect()
        };
        let expected = [("dm-0", "root"), ("md0p1", "boot")];
        let expected: Vec<(String, String)> =
            expected.map(|(name, label)| (name.to_owned(), label.to_owned())).to_vec();
        assert_eq!((of(0), of(1), of(2)), (expected.clone(), expected, vec![]));
    }
}
