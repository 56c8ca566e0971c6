//! The graph of all devices that the report lists. Facts that the listing has are not read again.

use crate::block::listing::{BlockDevice, Listing, PartitionDevice};
use crate::block::mounts::{self, Usage};
use crate::machine::Machine;
use crate::udev;

use super::{DeviceGraph, Node};

/// Reads the graph of the listed devices.
pub(crate) fn listed(machine: &Machine, listing: &Listing) -> DeviceGraph {
    let mut graph = DeviceGraph::default();
    // Multipath devices and RAID volumes are disks and virtual devices; as disks they have partitions.
    for device in listing.all().chain(&listing.virtuals) {
        if graph.node(&device.name).is_none() {
            add(machine, listing, &mut graph, device);
        }
    }
    let resolve = |number: Option<&str>, path: &str| {
        graph.resolve(number, path).or_else(|| linked(machine, listing, path))
    };
    let usage = mounts::usage(machine, &resolve);
    let loops = mounts::loops(machine, &resolve);
    for (name, below) in loops {
        graph.insert_loop(name, below);
    }
    graph.usage = Usage { live_labels: mounts::live_labels(machine), ..usage };
    graph
}

fn add(machine: &Machine, listing: &Listing, graph: &mut DeviceGraph, device: &BlockDevice) {
    let is_mapping = |part: &PartitionDevice| listing.virtuals.iter().any(|d| d.name == part.name);
    let mut partitions: Vec<&PartitionDevice> = device.partitions.iter().collect();
    partitions.sort_by_key(|part| part.number);
    for part in partitions.iter().filter(|part| !is_mapping(part)) {
        graph.insert(Node {
            name: part.name.clone(),
            number: part.device_number.clone(),
            holders: machine.list(&format!("{}/holders", part.path)),
            is_partition: true,
            ..Node::default()
        });
    }
    let is_mapped = device.name.starts_with("dm-");
    graph.insert(Node {
        name: device.name.clone(),
        number: device.device_number.clone(),
        holders: device.list(machine, "holders"),
        slaves: members(machine, device),
        partitions: partitions.into_iter().map(|part| part.name.clone()).collect(),
        is_partition: false,
        is_array: device.name.starts_with("md") && device.children.iter().any(|name| name == "md"),
        mapper_name: is_mapped.then(|| device.text(machine, "dm/name")).flatten(),
        uuid: device.mapping_uuid.clone(),
    });
    for link in &device.udev.links {
        graph.by_path.insert(format!("/dev/{link}"), device.name.clone());
    }
}

/// The members: the links in `slaves`, or, if a tree has none, the array's own list
/// (`md/dev-sda1`).
fn members(machine: &Machine, device: &BlockDevice) -> Vec<String> {
    if !device.slaves.is_empty() || !device.name.starts_with("md") {
        return device.slaves.clone();
    }
    let list = device.list(machine, "md");
    list.iter().filter_map(|name| name.strip_prefix("dev-")).map(str::to_owned).collect()
}

/// The partition with the udev link `path`, e.g. `/dev/disk/by-path/…-part1`.
fn linked(machine: &Machine, listing: &Listing, path: &str) -> Option<String> {
    let link = mounts::existing(path).strip_prefix("/dev/").filter(|link| link.contains('/'))?;
    let is_linked = |number: &str| {
        let entry = udev::entry(machine, &format!("b{number}"));
        entry.is_some_and(|entry| entry.links.iter().any(|known| known == link))
    };
    let devices = listing.disks.iter().chain(&listing.virtuals);
    let mut partitions = devices.flat_map(|device| &device.partitions);
    let found = partitions.find(|part| part.device_number.as_deref().is_some_and(is_linked))?;
    Some(found.name.clone())
}
