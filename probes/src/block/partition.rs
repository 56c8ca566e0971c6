//! Partitions as the kernel sees them, with names and types from the table on the disk or from udev.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::udev::{self, UdevEntry, unescape_hex};

use super::content::Content;
use super::filesystem;
use super::graph::DeviceGraph;
use super::listing::{BlockDevice, PartitionDevice};
use super::partition_table::{Entry, Table};
use formats::signature::Filesystem;

/// One disk, what its bytes contain, and the devices around it.
pub(super) struct View<'a> {
    pub machine: &'a Machine,
    pub device: &'a BlockDevice,
    pub content: Option<&'a Content>,
    pub graph: &'a DeviceGraph,
}

/// One partition.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Partition {
    /// Kernel name, e.g. `sda1`.
    pub name: String,
    /// Major and minor number, e.g. `8:1`.
    pub device_number: Option<String>,
    /// Number in the table.
    pub number: Option<u32>,
    /// Its start, in bytes from the start of the disk.
    pub start_bytes: Option<u64>,
    /// Size in bytes.
    pub size_bytes: Option<u64>,
    /// Name in a GPT, e.g. `EFI-SYSTEM`.
    pub label: Option<String>,
    /// Its own UUID; of a DOS table the disk's signature and the number, e.g. `55fef5a1-01`.
    pub uuid: Option<String>,
    /// Type as UUID; of a DOS table as number, e.g. `0x83`.
    pub type_uuid: Option<String>,
    /// Its content.
    pub filesystem: Option<Filesystem>,
    /// Its mount points.
    pub mounted_at: Vec<String>,
    /// True if it is swap in use; `None` if the list of swap areas (`/proc/swaps`) is unknown.
    pub is_swap: Option<bool>,
    /// Devices that the kernel has built on it, e.g. `dm-0`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<String>,
}

/// Reads the partitions of a disk, by number.
pub(super) fn partitions(view: &View) -> Vec<Partition> {
    let View { machine, device, content, .. } = *view;
    let nodes = device.partitions.iter();
    let mut partitions: Vec<Partition> = nodes.map(|node| partition(view, node)).collect();
    // The kernel does not read backup tables, so it has no partitions to compare with one.
    let table = content.and_then(|content| content.table.as_ref());
    if let Some(table) = table.filter(|table| !table.is_backup) {
        compare(machine, device, table);
    }
    partitions.sort_by_key(|partition| partition.number);
    partitions
}

fn partition(view: &View, node: &PartitionDevice) -> Partition {
    let View { machine, content, graph, .. } = *view;
    let udev = node.device_number.as_ref().and_then(|id| udev::entry(machine, &format!("b{id}")));
    let udev = udev.unwrap_or_default();
    let table = content.and_then(|content| content.table.as_ref());
    let entry = table.and_then(|table| entry_of(table, node));
    let start_bytes = node.start_bytes.or_else(|| Some(entry?.start_bytes));
    let entry = entry.cloned().unwrap_or_else(|| of_udev(&udev));
    let filesystem = content.and_then(|content| content.partitions.get(&node.name).cloned());
    Partition {
        device_number: node.device_number.clone(),
        number: node.number,
        start_bytes,
        size_bytes: node.size_bytes,
        label: entry.label,
        uuid: entry.uuid,
        type_uuid: entry.type_uuid,
        filesystem: filesystem::compared(machine, &node.path, filesystem, &udev),
        mounted_at: graph.usage.mounts_of(&node.name),
        is_swap: graph.usage.is_swap(&node.name),
        holders: graph.holders_of(&node.name),
        name: node.name.clone(),
    }
}

/// The table's entry for the partition, unless the kernel places it elsewhere.
pub(super) fn entry_of<'a>(table: &'a Table, node: &PartitionDevice) -> Option<&'a Entry> {
    table.entries.iter().find(|entry| is_entry_of(entry, node))
}

/// The entries of the table for partitions that the kernel does not have.
pub(super) fn unlisted<'a>(
    device: &'a BlockDevice,
    table: Option<&'a Table>,
) -> impl Iterator<Item = &'a Entry> {
    let is_known = |entry: &Entry| device.partitions.iter().any(|node| is_entry_of(entry, node));
    let entries = table.into_iter().flat_map(|table| &table.entries);
    entries.filter(move |entry| !entry.is_extended && !is_known(entry))
}

/// True if the kernel's partition belongs to this entry: same number, and same start if it is known.
fn is_entry_of(entry: &Entry, node: &PartitionDevice) -> bool {
    node.number == Some(entry.number)
        && node.start_bytes.is_none_or(|start_bytes| start_bytes == entry.start_bytes)
}

/// Compares the table on the disk with the kernel's partitions. A difference is a problem: an install that
/// trusts one of them may destroy the other.
fn compare(machine: &Machine, device: &BlockDevice, table: &Table) {
    let problem = |found: String| {
        machine.problem(&device.path, found, "the same partitions in the kernel as in the table");
    };
    for entry in &table.entries {
        let Some(node) = device.partitions.iter().find(|node| node.number == Some(entry.number))
        else {
            problem(format!("partition {} is in the table but not in the kernel", entry.number));
            continue;
        };
        // The kernel exposes only the first blocks of an extended partition, so its size differs.
        let size_bytes = node.size_bytes.filter(|_| !entry.is_extended);
        for (what, by_kernel, in_table) in
            [("start", node.start_bytes, entry.start_bytes), ("size", size_bytes, entry.size_bytes)]
        {
            if let Some(by_kernel) = by_kernel.filter(|by_kernel| *by_kernel != in_table) {
                let number = entry.number;
                problem(format!(
                    "partition {number}: {what} {by_kernel} in the kernel, {in_table} in the table"
                ));
            }
        }
    }
    let is_in_table = |number: u32| table.entries.iter().any(|entry| entry.number == number);
    for number in device.partitions.iter().filter_map(|node| node.number) {
        if !is_in_table(number) {
            problem(format!("partition {number} is in the kernel but not in the table"));
        }
    }
}

/// The table's entry as udev keeps it (`ID_PART_ENTRY_*`).
fn of_udev(udev: &UdevEntry) -> Entry {
    let property = |name: &str| udev.property(name).map(str::to_owned);
    Entry {
        label: udev.property("ID_PART_ENTRY_NAME").map(unescape_hex),
        uuid: property("ID_PART_ENTRY_UUID"),
        type_uuid: property("ID_PART_ENTRY_TYPE"),
        ..Entry::default()
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::tree_in;

    #[test]
    fn partition_without_readable_table_is_described_by_udev() {
        let udev = "E:ID_PART_ENTRY_NAME=EFI\\x20System\nE:ID_PART_ENTRY_TYPE=0xc\nE:ID_FS_TYPE=vfat\n\
                    E:ID_FS_LABEL_ENC=EFI\\x2fSYS\nE:ID_FS_UUID=092C-1688\n";
        let machine = tree_in(&[
            ("sys/block/sda", &[("size", "2048"), ("sda1/partition", "1")]),
            ("sys/block/sda/sda1", &[("dev", "8:1"), ("start", "8"), ("size", "16")]),
            ("sys/block/sda", &[("sda10/partition", "10"), ("sda2/partition", "2")]),
            ("run/udev/data", &[("b8:1", udev)]),
        ]);
        let disks = super::super::block(&machine).disks;
        let names: Vec<&str> = disks[0].partitions.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names, ["sda1", "sda2", "sda10"]);
        let first = &disks[0].partitions[0];
        assert_eq!((first.start_bytes, first.size_bytes), (Some(4096), Some(8192)));
        assert_eq!(first.label.as_deref(), Some("EFI System"));
        let filesystem = first.filesystem.as_ref().unwrap();
        assert_eq!(filesystem.kind, "vfat");
        assert_eq!(filesystem.label.as_deref(), Some("EFI/SYS"));
    }
}
