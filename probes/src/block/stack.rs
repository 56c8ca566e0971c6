//! The devices that the kernel has currently built on one disk: mappings, arrays and swap areas, in the order in which
//! they can be taken down, and those of them that also need another disk.
//!
//! The source is the graph around the disk (`graph`).

use std::collections::BTreeSet;

use crate::machine::Machine;

use super::graph::{self, DeviceGraph, Node, Use};

/// Active devices and uses on a disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CurrentStack {
    /// Devices and partitions that are swap space in use, then mapped and assembled devices, those that nothing is
    /// built on first.
    pub devices: Vec<ActiveDevice>,
    /// Descriptions of the mounts.
    pub mounts: Vec<String>,
    /// Descriptions of the devices that are also built on something outside the disk.
    pub shared: Vec<String>,
}

/// A device that the kernel has built on a disk, or a swap area.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActiveDevice {
    /// Kernel name, e.g. `dm-3`.
    pub name: String,
    /// Major and minor number.
    pub number: String,
    /// Kind of the device.
    pub kind: ActiveKind,
}

/// The kinds of such devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ActiveKind {
    /// Swap space in use.
    Swap,
    /// A mapping of device-mapper, with its UUID if it has one.
    Mapping(Option<String>),
    /// An md array.
    Array,
    /// Another one.
    Other,
}

/// Reads the active devices and uses on the disk of this number. The disks and partitions with the names `given_up` are to
/// lose what they share with it.
///
/// # Errors
/// A message that names the data that could not be read, so that more may be active.
pub fn current_stack(
    machine: &Machine,
    device_number: &str,
    given_up: &[String],
) -> Result<CurrentStack, String> {
    let (graph, disk) = graph::around(machine, device_number)?;
    let shared = shared(&graph, &disk, given_up);
    let mut stack = CurrentStack { shared, ..CurrentStack::default() };
    for used in graph.uses(&disk) {
        match used {
            Use::Mounted(name, places) => {
                let at = places.iter().map(|place| format!("{name} is mounted at {place}"));
                stack.mounts.extend(at);
            }
            Use::Swap(name) => {
                stack.devices.push(active(&graph, name, ActiveKind::Swap)?);
            }
            // What holds a device is above it.
            Use::Held(..) => {}
        }
    }
    stack.devices.extend(devices(&graph, &disk)?);
    Ok(stack)
}

/// The devices above the disk, in an order in which each precedes the devices on which it is built.
fn devices(graph: &DeviceGraph, disk: &str) -> Result<Vec<ActiveDevice>, String> {
    let is_device = |name: &&str| graph.node(name).is_none_or(|node| !node.is_partition);
    let mut left: BTreeSet<&str> = graph.above(disk).into_iter().filter(is_device).collect();
    let mut devices = Vec::new();
    while !left.is_empty() {
        let is_top = |name: &&str| !graph.directly_above(name).any(|above| left.contains(above));
        let Some(name) = left.iter().copied().find(is_top) else {
            return Err("the devices built on it hold each other".to_owned());
        };
        left.remove(name);
        let kind = graph.node(name).map_or(ActiveKind::Other, kind);
        devices.push(active(graph, name, kind)?);
    }
    Ok(devices)
}

fn active(graph: &DeviceGraph, name: &str, kind: ActiveKind) -> Result<ActiveDevice, String> {
    let number = graph.node(name).and_then(|node| node.number.clone());
    let number = number.ok_or_else(|| format!("the device number of {name} is unknown"))?;
    Ok(ActiveDevice { name: name.to_owned(), number, kind })
}

fn kind(node: &Node) -> ActiveKind {
    match () {
        () if node.name.starts_with("dm-") => ActiveKind::Mapping(node.uuid.clone()),
        () if node.is_array => ActiveKind::Array,
        () => ActiveKind::Other,
    }
}

/// Devices above the disk that also need something else, and volumes of the same groups on other disks.
fn shared(graph: &DeviceGraph, disk: &str, given_up: &[String]) -> Vec<String> {
    let is_elsewhere = |slave: &&String| graph.node(slave).is_none() && !given_up.contains(slave);
    let built_on = |name: &str| {
        let slaves = graph.node(name)?.slaves.iter().filter(is_elsewhere);
        let slaves: Vec<&str> = slaves.map(String::as_str).collect();
        (!slaves.is_empty()).then(|| format!("{name} is also built on {}", slaves.join(", ")))
    };
    let shared = graph.above(disk).into_iter().filter_map(built_on);
    let stays = |node: &&Node| !node.slaves.iter().all(|slave| given_up.contains(slave));
    let siblings = graph.siblings.iter().filter(stays).map(|Node { name, slaves, .. }| {
        format!("{name} of the same volume group is built on {}", slaves.join(", "))
    });
    shared.chain(siblings).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree;

    const DISK: [(&str, &str); 5] = [
        ("sys/dev/block/8:0", "-> ../../devices/x/block/sda"),
        ("sys/devices/x/block/sda/dev", "8:0"),
        ("sys/devices/x/block/sda/sda1/partition", "1"),
        ("sys/devices/x/block/sda/sda1/dev", "8:1"),
        ("proc/self/mountinfo", "1 0 0:1 / / rw - tmpfs none rw\n"),
    ];
    /// An array on `sda1` with one volume on it, which is swap space.
    const STACK: [(&str, &str); 8] = [
        ("sys/devices/x/block/sda/sda1/holders/md0", "-> ../../../../../virtual/block/md0"),
        ("sys/devices/virtual/block/md0/dev", "9:0"),
        ("sys/devices/virtual/block/md0/md/level", "raid1"),
        ("sys/devices/virtual/block/md0/slaves/sda1/x", ""),
        ("sys/devices/virtual/block/md0/holders/dm-0", "-> ../../dm-0"),
        ("sys/devices/virtual/block/dm-0/dev", "253:0"),
        ("sys/devices/virtual/block/dm-0/dm/uuid", "LVM-0123456789abcdef0123456789abcdefVOLUME1"),
        ("proc/swaps", "Filename Type\n/dev/dm-0 partition 1 0 -2\n"),
    ];

    fn stack(more: &[(&str, &str)]) -> Result<CurrentStack, String> {
        current_stack(&tree(&[&DISK[..], &STACK, more].concat()), "8:0", &[])
    }

    #[test]
    fn swap_areas_and_then_devices_are_listed_from_the_top_down() {
        let found = stack(&[]).unwrap();
        let device = |name: &str, number: &str, kind: ActiveKind| ActiveDevice {
            name: name.to_owned(),
            number: number.to_owned(),
            kind,
        };
        let uuid = "LVM-0123456789abcdef0123456789abcdefVOLUME1".to_owned();
        let expected = [
            device("dm-0", "253:0", ActiveKind::Swap),
            device("dm-0", "253:0", ActiveKind::Mapping(Some(uuid))),
            device("md0", "9:0", ActiveKind::Array),
        ];
        assert_eq!(found, CurrentStack { devices: expected.to_vec(), ..CurrentStack::default() });
    }

    #[test]
    fn array_or_group_that_spans_another_disk_is_shared() {
        let array = ("sys/devices/virtual/block/md0/slaves/sdb1/x", "");
        assert_eq!(stack(&[array]).unwrap().shared, ["md0 is also built on sdb1"]);
        let group = [
            ("sys/block/dm-7/dm/uuid", "LVM-0123456789abcdef0123456789abcdefVOLUME2"),
            ("sys/block/dm-7/slaves/sdb1/x", ""),
        ];
        let expected = ["dm-7 of the same volume group is built on sdb1"];
        assert_eq!(stack(&group).unwrap().shared, expected);
        for more in [&[array][..], &group] {
            let files = tree(&[&DISK[..], &STACK, more].concat());
            let shared = |names: &[&str]| {
                let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
                current_stack(&files, "8:0", &names).unwrap().shared
            };
            assert!(shared(&["sdb", "sdb1"]).is_empty(), "given up too");
            assert_eq!(shared(&["sdb2", "sdc"]).len(), 1);
        }
        let other = ("sys/block/dm-7/dm/uuid", "LVM-ffffffffffffffff0123456789abcdefVOLUME2");
        assert!(stack(&[other]).unwrap().shared.is_empty());
    }

    #[test]
    fn mounts_on_a_device_above_are_found_and_unreadable_lists_are_errors() {
        let mount = ("proc/self/mountinfo", "1 0 253:0 / /data rw - xfs /dev/mapper/x rw\n");
        let files: Vec<_> = DISK[..4].iter().chain(&STACK).copied().chain([mount]).collect();
        let found = current_stack(&tree(&files), "8:0", &[]).unwrap();
        assert_eq!(found.mounts, ["dm-0 is mounted at /data"]);
        let refused = ("kernel/errors", "13:list sys/devices/virtual/block/md0/holders\n");
        assert!(stack(&[refused]).is_err());
        assert!(current_stack(&tree(&DISK), "8:16", &[]).is_err());
        assert_eq!(current_stack(&tree(&DISK), "8:0", &[]), Ok(CurrentStack::default()));
    }
}
