//! What the kernel has built on one disk at this moment: mappings, arrays and swap areas, in the order in which they
//! can be taken down, and whether any of them also needs another disk.
//!
//! Sources: `holders`, `slaves`, `dm/uuid`, `md` below `/sys/dev/block/<major>:<minor>`
//! (`Documentation/ABI/testing/sysfs-block-dm`, `Documentation/admin-guide/md.rst`), `/proc/self/mountinfo`,
//! `/proc/swaps`.

use std::collections::{BTreeMap, BTreeSet};

use crate::machine::Machine;

use super::current::{self, Part};
use super::mounts;

/// More devices than these on one disk are no plausible stack.
const MAX_DEVICES: usize = 256;
/// Length of a volume group's UUID in the UUID of its mappings: `LVM-`, the group's, the volume's.
const GROUP_BYTES: usize = 36;

/// What is active on a disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CurrentStack {
    /// Mapped and assembled devices, those that nothing is built on first.
    pub devices: Vec<ActiveDevice>,
    /// Devices and partitions that are swap space in use.
    pub swaps: Vec<ActiveSwap>,
    /// Mounts, in words.
    pub mounts: Vec<String>,
    /// Devices that are also built on something outside the disk, in words.
    pub shared: Vec<String>,
}

/// A device or partition that is swap space in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActiveSwap {
    /// Kernel name, e.g. `sda2`.
    pub name: String,
    /// Major and minor number.
    pub number: String,
}

/// A device that the kernel has built on a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActiveDevice {
    /// Kernel name, e.g. `dm-3`.
    pub name: String,
    /// Major and minor number.
    pub number: String,
    /// What it is.
    pub kind: ActiveKind,
}

/// The kinds of such devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ActiveKind {
    /// A mapping of device-mapper, with its UUID if it has one.
    Mapping(Option<String>),
    /// An md array.
    Array,
    /// Another one.
    Other,
}

/// A device above the disk, or a partition of one.
struct Node {
    path: String,
    number: Option<String>,
    is_partition: bool,
    above: Vec<String>,
}

/// Reads what is active on the disk of this number.
///
/// # Errors
/// In words: what could not be read, so that more may be active.
pub fn current_stack(machine: &Machine, device_number: &str) -> Result<CurrentStack, String> {
    let Some(path) = current::device(machine, device_number) else {
        return Err(format!("no device {device_number}"));
    };
    let parts = current::parts(machine, &path, device_number);
    let nodes = nodes(machine, &parts)?;
    let mut stack = CurrentStack { shared: shared(machine, &parts, &nodes), ..Default::default() };
    stack.devices = ordered(machine, &nodes)?;
    let Some((mounts, true)) = mounts::mounts(machine) else {
        return Err(current::unread(machine, "the list of mounts"));
    };
    let swaps = mounts::swap_areas(machine);
    if swaps.as_ref().is_some_and(|(_, is_whole)| !is_whole) || machine.is_refused("proc/swaps") {
        return Err(current::unread(machine, "the list of swap areas"));
    }
    let areas = swaps.map(|(areas, _)| areas).unwrap_or_default();
    let of_parts = parts.iter().map(|part| (part.name.clone(), part.number.clone()));
    let of_nodes =
        nodes.iter().filter_map(|(name, node)| Some((name.clone(), node.number.clone()?)));
    for (name, number) in of_parts.chain(of_nodes) {
        let node = format!("/dev/{}", name.replace('!', "/"));
        let is_it = |path: &str| {
            let mapped = machine.text(&format!("sys/dev/block/{number}/dm/name"));
            mounts::is_path_of(path, &node, &number)
                || mapped.is_some_and(|mapped| path == format!("/dev/mapper/{mapped}"))
        };
        let at = mounts.iter().filter(|mount| {
            mount.device_number.as_ref() == Some(&number)
                || mount.source.as_deref().is_some_and(is_it)
        });
        stack.mounts.extend(at.map(|at| format!("{name} is mounted at {}", at.mount_point)));
        if areas.iter().any(|area| is_it(&area.path)) {
            stack.swaps.push(ActiveSwap { name, number });
        }
    }
    if !machine.problems().is_empty() {
        return Err(current::unread(machine, "the devices made of the disk"));
    }
    Ok(stack)
}

/// Everything above the parts of the disk, by name.
fn nodes(machine: &Machine, parts: &[Part]) -> Result<BTreeMap<String, Node>, String> {
    let is_part = |name: &str| parts.iter().any(|part| part.name == name);
    let mut nodes: BTreeMap<String, Node> = BTreeMap::new();
    let mut todo: Vec<String> = parts.iter().map(|part| part.path.clone()).collect();
    while let Some(below) = todo.pop() {
        for name in machine.list(&format!("{below}/holders")) {
            if nodes.contains_key(&name) || is_part(&name) {
                continue;
            }
            let path = machine.device_path(&format!("{below}/holders/{name}"));
            let mut above = machine.list(&format!("{path}/holders"));
            let partitions = machine.list(&path).into_iter();
            for partition in partitions {
                let path = format!("{path}/{partition}");
                if machine.text(&format!("{path}/partition")).is_none() {
                    continue;
                }
                let holders = machine.list(&format!("{path}/holders"));
                above.extend(holders.iter().cloned());
                let number = machine.text(&format!("{path}/dev"));
                todo.push(path.clone());
                let node = Node { path, number, is_partition: true, above: holders };
                nodes.insert(partition, node);
            }
            let number = machine.text(&format!("{path}/dev"));
            todo.push(path.clone());
            nodes.insert(name, Node { path, number, is_partition: false, above });
        }
        if nodes.len() > MAX_DEVICES {
            return Err(format!("more than {MAX_DEVICES} devices are built on it"));
        }
    }
    Ok(nodes)
}

/// The devices in an order in which each comes before what it is built on.
fn ordered(machine: &Machine, nodes: &BTreeMap<String, Node>) -> Result<Vec<ActiveDevice>, String> {
    let mut left: BTreeSet<&String> =
        nodes.iter().filter(|(_, node)| !node.is_partition).map(|(name, _)| name).collect();
    let mut devices = Vec::new();
    while !left.is_empty() {
        let is_top = |name: &&&String| {
            nodes.get(**name).is_some_and(|node| !node.above.iter().any(|a| left.contains(a)))
        };
        let Some(name) = left.iter().find(is_top).copied() else {
            return Err("the devices built on it hold each other".to_owned());
        };
        left.remove(name);
        let Some(node) = nodes.get(name) else { continue };
        let number = node.number.clone();
        let number = number.ok_or_else(|| format!("the device number of {name} is unknown"))?;
        devices.push(ActiveDevice { name: name.clone(), number, kind: kind(machine, name, node) });
    }
    Ok(devices)
}

fn kind(machine: &Machine, name: &str, node: &Node) -> ActiveKind {
    if name.starts_with("dm-") {
        return ActiveKind::Mapping(
            machine.text(&format!("{}/dm/uuid", node.path)).filter(|u| !u.is_empty()),
        );
    }
    let is_array = name.starts_with("md") && machine.is_dir(&format!("{}/md", node.path));
    if is_array { ActiveKind::Array } else { ActiveKind::Other }
}

/// Devices above the disk that also need something else, and volumes of the same groups on other disks.
fn shared(machine: &Machine, parts: &[Part], nodes: &BTreeMap<String, Node>) -> Vec<String> {
    let is_ours =
        |name: &String| nodes.contains_key(name) || parts.iter().any(|part| part.name == *name);
    let mut shared = Vec::new();
    let mut groups: BTreeSet<String> = BTreeSet::new();
    for (name, node) in nodes.iter().filter(|(_, node)| !node.is_partition) {
        let slaves = machine.list(&format!("{}/slaves", node.path));
        let foreign: Vec<String> = slaves.into_iter().filter(|slave| !is_ours(slave)).collect();
        if !foreign.is_empty() {
            shared.push(format!("{name} is also built on {}", foreign.join(", ")));
        }
        let uuid = machine.text(&format!("{}/dm/uuid", node.path)).unwrap_or_default();
        groups.extend(group(&uuid));
    }
    if groups.is_empty() {
        return shared;
    }
    for name in machine.list("sys/block").into_iter().filter(|name| name.starts_with("dm-")) {
        let path = machine.device_path(&format!("sys/block/{name}"));
        let uuid = machine.text(&format!("{path}/dm/uuid")).unwrap_or_default();
        if !is_ours(&name) && group(&uuid).is_some_and(|group| groups.contains(&group)) {
            let slaves = machine.list(&format!("{path}/slaves")).join(", ");
            shared.push(format!("{name} of the same volume group is built on {slaves}"));
        }
    }
    shared
}

/// The part of a logical volume's UUID that its volume group shares.
fn group(uuid: &str) -> Option<String> {
    uuid.starts_with("LVM-").then(|| uuid.get(..GROUP_BYTES).map(str::to_owned))?
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
        current_stack(&tree(&[&DISK[..], &STACK, more].concat()), "8:0")
    }

    #[test]
    fn devices_are_listed_from_the_top_down() {
        let found = stack(&[]).unwrap();
        let names: Vec<&str> = found.devices.iter().map(|device| device.name.as_str()).collect();
        assert_eq!(names, ["dm-0", "md0"]);
        assert!(
            matches!(&found.devices[0].kind, ActiveKind::Mapping(Some(uuid)) if uuid.starts_with("LVM-"))
        );
        assert_eq!(
            (&found.devices[1].kind, &*found.devices[1].number),
            (&ActiveKind::Array, "9:0")
        );
        assert_eq!(
            (found.swaps, found.mounts, found.shared),
            (vec![ActiveSwap { name: "dm-0".into(), number: "253:0".into() }], vec![], vec![])
        );
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
        let other = ("sys/block/dm-7/dm/uuid", "LVM-ffffffffffffffff0123456789abcdefVOLUME2");
        assert!(stack(&[other]).unwrap().shared.is_empty());
    }

    #[test]
    fn mounts_on_a_device_above_are_found_and_unreadable_lists_are_errors() {
        let mount = ("proc/self/mountinfo", "1 0 253:0 / /data rw - xfs /dev/mapper/x rw\n");
        let files: Vec<_> = DISK[..4].iter().chain(&STACK).copied().chain([mount]).collect();
        let found = current_stack(&tree(&files), "8:0").unwrap();
        assert_eq!(found.mounts, ["dm-0 is mounted at /data"]);
        let refused = ("kernel/errors", "13:list sys/devices/virtual/block/md0/holders\n");
        assert!(stack(&[refused]).is_err());
        assert!(current_stack(&tree(&DISK), "8:16").is_err());
        assert_eq!(current_stack(&tree(&DISK), "8:0"), Ok(CurrentStack::default()));
    }
}
