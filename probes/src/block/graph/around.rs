//! The graph around one disk at this moment, from the kernel's own links. Whatever cannot be read is an error: the disk
//! may be in use by it.
//!
//! Sources: `holders`, `slaves`, `dm/{name,uuid}`, `md`, `loop/backing_file` below `/sys/dev/block/<major>:<minor>`
//! (`Documentation/ABI/testing/sysfs-block-dm`, `Documentation/admin-guide/md.rst`), `/proc/self/mountinfo`,
//! `/proc/swaps`, `/sys/fs/btrfs`. udev's database is not read: it may still describe an earlier disk of this number.

use std::collections::BTreeSet;

use formats::wwn;

use crate::block::mounts;
use crate::block::sysfs_path;
use crate::machine::Machine;

use super::{DeviceGraph, Node};

/// Maximum number of devices in a plausible stack on one disk.
const MAX_DEVICES: usize = 256;
/// Length of a volume group's UUID in the UUID of its mappings: `LVM-`, the group's, the volume's.
const GROUP_BYTES: usize = 36;

/// Reads the graph around the disk with this number. Returns it with the kernel name of the disk.
///
/// # Errors
/// A message that names the data that could not be read, or whose disk is unknown, so that the disk may be in use.
pub(crate) fn around(machine: &Machine, number: &str) -> Result<(DeviceGraph, String), String> {
    let path =
        sysfs_path::by_number(machine, number).ok_or_else(|| format!("no device {number}"))?;
    let disk = name_of(&path);
    let mut graph = DeviceGraph::default();
    let mut seen = BTreeSet::from([disk.clone()]);
    let mut todo = vec![path];
    let loops = mounts::loops(machine, &|number, path| kernel_name(machine, number, path));
    while let Some(path) = todo.pop() {
        for (path, mut node) in device(machine, &path) {
            if node.name == disk {
                node.number = Some(number.to_owned());
            }
            let holders = node.holders.iter().map(|name| (name, format!("{path}/holders/{name}")));
            let loops = loops.iter().filter(|(_, below)| *below == node.name);
            let loops = loops.map(|(name, _)| (name, format!("sys/block/{name}")));
            for (name, path) in holders.chain(loops.clone()) {
                if seen.insert(name.clone()) {
                    todo.push(machine.device_path(&path));
                }
            }
            loops.for_each(|(name, _)| graph.insert_loop(name.clone(), node.name.clone()));
            graph.insert(node);
        }
        if seen.len() > MAX_DEVICES {
            return Err(format!("more than {MAX_DEVICES} devices are built on it"));
        }
    }
    add_mapped_partitions(&mut graph);
    graph.siblings = siblings(machine, &graph);
    let resolve = |number: Option<&str>, path: &str| {
        graph.resolve(number, path).or_else(|| kernel_name(machine, number, path))
    };
    let usage = mounts::usage(machine, &resolve);
    graph.usage = usage;
    check(machine, &graph).map(|()| (graph, disk))
}

/// Refuses a graph that may lack a use.
fn check(machine: &Machine, graph: &DeviceGraph) -> Result<(), String> {
    let unread = |what: &str| match machine.problems().pop() {
        Some(problem) => format!("reading {}: {}", problem.path, problem.found),
        None => format!("{what} is not there"),
    };
    let usage = &graph.usage;
    if !usage.is_known || usage.is_incomplete {
        return Err(unread("the list of mounts"));
    }
    if usage.is_swap_incomplete {
        return Err(unread("the list of swap areas"));
    }
    if let Some(what) = usage.unresolved.first() {
        return Err(format!("{what}, and its disk is unknown"));
    }
    if machine.problems().is_empty() { Ok(()) } else { Err(unread("the devices made of the disk")) }
}

/// A device that is not a partition, and its partitions, each with its directory.
fn device(machine: &Machine, path: &str) -> Vec<(String, Node)> {
    let children = machine.list(path);
    // A partition is a directory with a number of its own.
    let partition = |name: &String| {
        let path = format!("{path}/{name}");
        machine.text(&format!("{path}/partition"))?;
        let node = Node { is_partition: true, ..node(machine, &path) };
        Some((path, node))
    };
    let partitions: Vec<(String, Node)> = children.iter().filter_map(partition).collect();
    let whole = node(machine, path);
    let mapping = |attribute: &str| {
        let text = || machine.text(&format!("{path}/dm/{attribute}"));
        whole.name.starts_with("dm-").then(text).flatten()
    };
    let whole = Node {
        slaves: machine.list(&format!("{path}/slaves")),
        partitions: partitions.iter().map(|(_, part)| part.name.clone()).collect(),
        is_array: whole.name.starts_with("md") && children.iter().any(|name| name == "md"),
        mapper_name: mapping("name"),
        uuid: mapping("uuid"),
        ..whole
    };
    [(path.to_owned(), whole)].into_iter().chain(partitions).collect()
}

/// The facts that disks and partitions have.
fn node(machine: &Machine, path: &str) -> Node {
    Node {
        name: name_of(path),
        number: machine.text(&format!("{path}/dev")),
        holders: machine.list(&format!("{path}/holders")),
        ..Node::default()
    }
}

fn name_of(path: &str) -> String {
    path.rsplit('/').next().unwrap_or_default().to_owned()
}

/// The partitions of a LUN with several paths are mappings that hold the LUN and are named after it (kpartx(8)).
fn add_mapped_partitions(graph: &mut DeviceGraph) {
    let mapping = |node: &Node| Some((node.name.clone(), node.uuid.clone()?));
    let mappings: Vec<(String, String)> = graph.nodes.values().filter_map(mapping).collect();
    for node in graph.nodes.values_mut() {
        let Some(whole) = node.uuid.as_deref().filter(|uuid| wwn::is_multipath(uuid)) else {
            continue;
        };
        let parts = mappings.iter().filter_map(|(name, uuid)| {
            Some((wwn::multipath_partition(uuid, whole)?, name.clone()))
        });
        let mut parts: Vec<(u32, String)> = parts.collect();
        parts.sort();
        node.partitions.extend(parts.into_iter().map(|(_, name)| name));
    }
}

/// Volumes outside the graph that belong to the volume group of one in it.
fn siblings(machine: &Machine, graph: &DeviceGraph) -> Vec<Node> {
    let group = |node: &Node| {
        let uuid = node.uuid.as_deref().filter(|uuid| uuid.starts_with("LVM-"))?;
        uuid.get(..GROUP_BYTES).map(str::to_owned)
    };
    let groups: BTreeSet<String> = graph.nodes.values().filter_map(group).collect();
    if groups.is_empty() {
        return Vec::new();
    }
    let names = machine.list("sys/block").into_iter();
    let others = names.filter(|name| name.starts_with("dm-") && graph.node(name).is_none());
    let others = others.map(|name| {
        let path = machine.device_path(&format!("sys/block/{name}"));
        let uuid = machine.text(&format!("{path}/dm/uuid"));
        Node { slaves: machine.list(&format!("{path}/slaves")), name, uuid, ..Node::default() }
    });
    others.filter(|node| group(node).is_some_and(|group| groups.contains(&group))).collect()
}

/// The kernel name of any block device that exists now: by its number, or by a path below `/dev`, directly, by its
/// name in device-mapper, or through a link of udev.
fn kernel_name(machine: &Machine, number: Option<&str>, path: &str) -> Option<String> {
    let by_number =
        |number: &str| sysfs_path::by_number(machine, number).map(|path| name_of(&path));
    // File systems without a device have numbers with major 0.
    let number = number.filter(|number| !number.starts_with("0:"));
    number.and_then(by_number).or_else(|| {
        let path = mounts::existing(path).strip_prefix('/').filter(|p| p.starts_with("dev/"))?;
        let resolved = machine.device_path(path);
        let mut names = [path, &resolved].into_iter().filter_map(|path| path.strip_prefix("dev/"));
        names.find_map(|name| match name.split_once('/') {
            Some(("block", number)) => by_number(number),
            Some(("mapper", name)) => mapped(machine, name),
            _ => {
                let name = name.replace('/', "!");
                machine.link(&format!("sys/class/block/{name}")).map(|_| name)
            }
        })
    })
}

/// The kernel name of a mapping with this name in device-mapper.
fn mapped(machine: &Machine, mapper_name: &str) -> Option<String> {
    let is_it = |name: &String| {
        let at = format!("sys/class/block/{name}/dm/name");
        name.starts_with("dm-") && machine.text(&at).as_deref() == Some(mapper_name)
    };
    machine.names("sys/class/block").into_iter().find(is_it)
}
