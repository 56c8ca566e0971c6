//! Content and names above a disk: of the mappings and arrays that the kernel has built on it, as the kernel and udev know
//! them. Their members on the disk show nothing of it.

use crate::machine::Machine;
use crate::udev::{self, UdevEntry, unescape_hex};

use super::disk::{ContentAbove, Disk};
use super::filesystem;
use super::graph::DeviceGraph;
use super::listing::Listing;
use super::virtual_devices::VirtualDevice;
use formats::data;
use formats::signature::Filesystem;

/// Properties of udev that are names of a device or of its content.
const NAMES: &str = include_str!("../../data/names-above.txt");

/// Adds to each disk the content and the names above it.
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
        let of_device = |device: &VirtualDevice| content(&device.name, device.filesystem.clone());
        let mut above: Vec<ContentAbove> = devices.filter_map(of_device).collect();
        let known = listing.virtuals.iter().filter(|device| reached.contains(device.name.as_str()));
        let mut names: Vec<String> =
            known.flat_map(|device| names(graph, &device.name, &device.udev)).collect();
        let nodes = listing.virtuals.iter().flat_map(|device| &device.partitions);
        for node in nodes.filter(|node| reached.contains(node.name.as_str())) {
            let number = node.device_number.as_ref();
            let entry = number.and_then(|number| udev::entry(machine, &format!("b{number}")));
            let entry = entry.unwrap_or_default();
            names.extend(self::names(graph, &node.name, &entry));
            above.extend(content(&node.name, filesystem::of_udev(&entry)));
        }
        disk.content_above = above;
        disk.names_above = names;
    }
}

fn content(name: &str, filesystem: Option<Filesystem>) -> Option<ContentAbove> {
    Some(ContentAbove { name: name.to_owned(), filesystem: filesystem? })
}

/// Every name of a device: those of the kernel, and those that udev has for it and its content.
fn names(graph: &DeviceGraph, name: &str, udev: &UdevEntry) -> Vec<String> {
    let node = graph.node(name);
    let mapped = node.and_then(|node| node.mapper_name.clone());
    let of_kernel = [
        Some(name.to_owned()),
        Some(format!("/dev/{}", name.replace('!', "/"))),
        mapped.as_ref().map(|mapped| format!("/dev/mapper/{mapped}")),
        mapped,
        node.and_then(|node| node.uuid.clone()),
    ];
    let links = udev.links.iter().map(|link| format!("/dev/{link}"));
    let properties = data::rows(NAMES).filter_map(|name| udev.property(name)).map(unescape_hex);
    of_kernel.into_iter().flatten().chain(links).chain(properties).collect()
}

#[cfg(test)]
mod tests {
    use super::Disk;
    use crate::testing::tree_in;

    const UDEV: &str =
        "S:vg/root\nE:ID_FS_TYPE=xfs\nE:ID_FS_LABEL=root\nE:DM_VG_NAME=vg\nE:ID_FS_UUID=1-2\n";

    #[test]
    fn content_of_mappings_and_arrays_is_known_of_every_disk_below_them() {
        let machine = tree_in(&[
            ("sys/block/sda", &[("size", "2048"), ("sda1/partition", "1")]),
            ("sys/block", &[("sdb/size", "2048"), ("sdc/size", "2048"), ("md0/md/level", "raid1")]),
            ("sys/block/md0", &[("dev", "9:0"), ("slaves/sda1/x", ""), ("slaves/sdb/x", "")]),
            ("sys/block/md0/md0p1", &[("partition", "1"), ("dev", "259:0")]),
            ("sys/block/dm-0", &[("dev", "253:0"), ("dm/uuid", "LVM-x")]),
            ("sys/block/dm-0", &[("dm/name", "vg-root"), ("slaves/md0/x", "")]),
            ("run/udev/data", &[("b253:0", UDEV)]),
            ("run/udev/data", &[("b259:0", "E:ID_FS_TYPE=ext4\nE:ID_FS_LABEL=boot\n")]),
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
        let names =
            ["dm-0", "/dev/dm-0", "/dev/mapper/vg-root", "vg-root", "LVM-x", "/dev/vg/root"];
        for name in names.iter().chain(&["vg", "root", "1-2", "md0", "/dev/md0p1", "boot"]) {
            let has_it = |disk: &Disk| disk.names_above.iter().any(|found| found == name);
            assert!(disks[..2].iter().all(has_it), "{name}: {:?}", disks[0].names_above);
        }
        assert!(disks[2].names_above.is_empty());
    }
}
