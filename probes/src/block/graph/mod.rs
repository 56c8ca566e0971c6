//! The block devices of a machine as one graph: the devices on which each is built, its mount points, and its use as
//! swap space. Whether a disk is in use, what to take down and what lies above it are questions to this graph.
//!
//! It is read once: from the devices that the report lists (`listed`), or, right before a write, from the kernel's
//! links around one disk (`around`). Reading it again makes it fresh.

mod around;
mod listed;

use std::collections::{BTreeMap, BTreeSet};

use super::mounts::{self, Usage};

pub(super) use around::around;
pub(super) use listed::listed;

/// The devices and how they are used, by kernel name, e.g. `sda1` or `dm-0`.
#[derive(Debug, Default)]
pub(super) struct DeviceGraph {
    nodes: BTreeMap<String, Node>,
    /// Devices that the kernel has built directly on each device: its holders, and the devices that name it as theirs.
    above: BTreeMap<String, BTreeSet<String>>,
    by_number: BTreeMap<String, String>,
    by_path: BTreeMap<String, String>,
    /// Mounts and swap areas.
    pub usage: Usage,
    /// Volumes on other disks whose volume group also has volumes in this graph; only read around one disk.
    pub siblings: Vec<Node>,
}

/// A disk, a partition, or a device that the kernel has built on others.
#[derive(Debug, Clone, Default)]
pub(super) struct Node {
    /// Kernel name.
    pub name: String,
    /// Major and minor number, e.g. `8:1`.
    pub number: Option<String>,
    /// The devices that its `holders` names.
    pub holders: Vec<String>,
    /// The devices that it is built on.
    pub slaves: Vec<String>,
    /// Its partitions; those of a multipath device are mappings, which also hold it.
    pub partitions: Vec<String>,
    /// True if it is a partition itself, and not a mapping.
    pub is_partition: bool,
    /// True if it is an array of md.
    pub is_array: bool,
    /// Its name in device-mapper, e.g. `mpatha`.
    pub mapper_name: Option<String>,
    /// Its UUID in device-mapper.
    pub uuid: Option<String>,
}

/// One kind of use of one device.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Use<'g> {
    /// The device is mounted at these places.
    Mounted(&'g str, &'g [String]),
    /// The device is swap space.
    Swap(&'g str),
    /// The kernel has built these devices on it.
    Held(&'g str, Vec<&'g str>),
}

impl DeviceGraph {
    fn insert(&mut self, node: Node) {
        let name = &node.name;
        if let Some(number) = &node.number {
            self.by_number.insert(number.clone(), name.clone());
        }
        self.by_path.insert(format!("/dev/{}", name.replace('!', "/")), name.clone());
        if let Some(mapped) = &node.mapper_name {
            self.by_path.insert(format!("/dev/mapper/{mapped}"), name.clone());
        }
        for holder in &node.holders {
            self.above.entry(name.clone()).or_default().insert(holder.clone());
        }
        for slave in &node.slaves {
            self.above.entry(slave.clone()).or_default().insert(name.clone());
        }
        self.nodes.insert(name.clone(), node);
    }

    /// Adds a loop device to what is built on the device that is its backing file; the kernel does not link them.
    fn insert_loop(&mut self, name: String, below: String) {
        self.above.entry(below).or_default().insert(name);
    }

    /// The device with this name, unless it is outside the graph.
    pub(super) fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.get(name)
    }

    /// The devices that the kernel lists as holders of this one.
    pub(super) fn holders_of(&self, name: &str) -> Vec<String> {
        self.node(name).map(|node| node.holders.clone()).unwrap_or_default()
    }

    /// The device with this number, or with this path below `/dev`. A file system on several devices (btrfs) has a
    /// separate number, so the path counts too.
    fn resolve(&self, number: Option<&str>, path: &str) -> Option<String> {
        let path = mounts::existing(path);
        let mut numbers = [number, path.strip_prefix("/dev/block/")].into_iter().flatten();
        let by_number = numbers.find_map(|number| self.by_number.get(number));
        by_number.or_else(|| self.by_path.get(path)).cloned()
    }

    /// A disk and its partitions.
    pub(super) fn parts<'g>(&'g self, disk: &'g str) -> Vec<&'g str> {
        let partitions = self.node(disk).into_iter().flat_map(|node| &node.partitions);
        [disk].into_iter().chain(partitions.map(String::as_str)).collect()
    }

    /// The devices built directly on a device or its partitions, without the partitions.
    pub(super) fn directly_above<'g>(&'g self, name: &'g str) -> impl Iterator<Item = &'g str> {
        let parts = self.parts(name).into_iter();
        parts.filter_map(|part| self.above.get(part)).flatten().map(String::as_str)
    }

    /// A disk, its partitions, and everything that is built on these, directly or not.
    pub(super) fn reach<'g>(&'g self, disk: &'g str) -> Vec<&'g str> {
        let mut todo = self.parts(disk);
        todo.reverse();
        let mut seen: BTreeSet<&str> = todo.iter().copied().collect();
        let mut reached = Vec::new();
        while let Some(name) = todo.pop() {
            reached.push(name);
            let partitions = self.node(name).map(|node| &node.partitions).into_iter().flatten();
            let next = self.above.get(name).into_iter().flatten().chain(partitions);
            todo.extend(next.map(String::as_str).filter(|name| seen.insert(name)));
        }
        reached
    }

    /// Everything that is built on a disk, without its partitions.
    pub(super) fn above<'g>(&'g self, disk: &'g str) -> BTreeSet<&'g str> {
        let parts = self.parts(disk);
        self.reach(disk).into_iter().filter(|name| !parts.contains(name)).collect()
    }

    /// All uses of a disk: its own, those of its partitions, and those of everything above them. The partitions of a
    /// multipath device hold it, which is not a use.
    pub(super) fn uses<'g>(&'g self, disk: &'g str) -> Vec<Use<'g>> {
        let parts = self.parts(disk);
        let uses_of = |name: &'g str| {
            let places = self.usage.mounted_at.get(name);
            let mounted = places.map(|places| Use::Mounted(name, places));
            let swap = (self.usage.is_swap(name) == Some(true)).then_some(Use::Swap(name));
            let holders = self.above.get(name).into_iter().flatten().map(String::as_str);
            let holders: Vec<&str> = holders.filter(|holder| !parts.contains(holder)).collect();
            let held = (!holders.is_empty()).then_some(Use::Held(name, holders));
            [mounted, swap, held].into_iter().flatten()
        };
        self.reach(disk).into_iter().flat_map(uses_of).collect()
    }
}

#[cfg(test)]
mod tests;
