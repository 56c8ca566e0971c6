//! Lists the block devices and sorts them by kind: the entries of `/sys/block`.

use std::str::FromStr;

use formats::wwn;

use crate::machine::Machine;
use crate::udev::{self, UdevEntry};

use super::sysfs_path::is_numbered;

/// The kernel's lists of block devices; partitions are only in the second.
const LISTS: [&str; 2] = ["sys/block", "sys/class/block"];

/// Name prefixes of devices without their own hardware, for trees whose entries are not links.
const VIRTUAL_PREFIXES: [&str; 14] = [
    "dm-", "md", "loop", "ram", "zram", "nbd", "drbd", "rbd", "bcache", "zd", "ublkb", "nullb",
    "zloop", "vdpa",
];

/// Size that the kernel reports for an optical drive without a medium (`get_sectorsize`,
/// `drivers/scsi/sr.c`). No medium has that size, since it is not a multiple of 2048 bytes.
const NO_MEDIUM_BYTES: u64 = 0x1f_ffff * 512;

/// Views of raw flash chips, which contain firmware and are not disks.
const NO_DISKS: [&str; 2] = ["mtdblock", "ubiblock"];

/// All block devices that are not partitions.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// True if the source lists block devices at all.
    pub is_known: bool,
    /// Physical disks, drives and LUNs, also boot areas of an eMMC.
    pub disks: Vec<BlockDevice>,
    /// Devices built on others or on memory.
    pub virtuals: Vec<BlockDevice>,
    /// Paths of NVMe namespaces with a multipath head, which the kernel hides.
    pub hidden_paths: Vec<BlockDevice>,
    /// Multipath devices of device-mapper, with their partitions; these are also in `virtuals`. Their paths are the
    /// devices that they are built on.
    pub heads: Vec<BlockDevice>,
    /// Volumes of firmware RAIDs that md assembles; these are also in `virtuals`. The caller adds them.
    pub volumes: Vec<BlockDevice>,
}

impl Listing {
    /// Physical disks, multipath devices and volumes of firmware RAIDs.
    pub(super) fn all(&self) -> impl Iterator<Item = &BlockDevice> {
        self.disks.iter().chain(&self.heads).chain(&self.volumes)
    }

    /// True if the device is a path of a multipath device.
    pub(super) fn is_path(&self, name: &str) -> bool {
        self.heads.iter().flat_map(|head| &head.slaves).any(|path| path == name)
    }
}

/// One block device as the kernel lists it.
#[derive(Debug, Clone, Default)]
pub(super) struct BlockDevice {
    /// Kernel name, e.g. `sda`, with `!` for `/`.
    pub name: String,
    /// Its directory, links resolved, e.g. `sys/devices/…/block/sda`.
    pub path: String,
    /// The names in that directory, so that absent attributes are not opened.
    pub children: Vec<String>,
    /// `8:0`; hidden devices have none.
    pub device_number: Option<String>,
    /// True if the kernel hides it.
    pub is_hidden: Option<bool>,
    /// In bytes.
    pub size_bytes: Option<u64>,
    /// Logical block size in bytes.
    pub logical_block_bytes: Option<u32>,
    /// VPD page 89h of a SCSI disk: an ATA disk's report about itself; empty if the kernel has none.
    pub ata_page: Vec<u8>,
    /// Names in `slaves`: the devices that it is built on.
    pub slaves: Vec<String>,
    /// UUID of a device-mapper device.
    pub mapping_uuid: Option<String>,
    /// The UUID of a firmware RAID volume's container as mdadm writes it.
    pub container_uuid: Option<String>,
    /// udev's entry for it; empty if udev does not run.
    pub udev: UdevEntry,
    /// Its partitions.
    pub partitions: Vec<PartitionDevice>,
}

/// A partition as the kernel lists it.
#[derive(Debug, Clone, Default)]
pub(super) struct PartitionDevice {
    /// Kernel name, e.g. `sda1`; `dm-1` for a partition of a multipath device.
    pub name: String,
    /// Its directory.
    pub path: String,
    /// `8:1`.
    pub device_number: Option<String>,
    /// Number in the table.
    pub number: Option<u32>,
    /// Its start, in bytes; the kernel does not report it for partitions that are mappings.
    pub start_bytes: Option<u64>,
    /// In bytes.
    pub size_bytes: Option<u64>,
}

impl BlockDevice {
    /// The path below `/dev`.
    pub(super) fn node(&self) -> String {
        self.name.replace('!', "/")
    }

    /// True if its directory contains `child`; a directory that was not listed may contain anything.
    pub(super) fn has(&self, child: &str) -> bool {
        self.children.is_empty() || self.children.iter().any(|name| name == child)
    }

    /// The path of `attribute`, e.g. `queue/zoned`, if its first part is present.
    pub(super) fn at(&self, attribute: &str) -> Option<String> {
        let first = attribute.split('/').next()?;
        self.has(first).then(|| format!("{}/{attribute}", self.path))
    }

    /// The text of `attribute`.
    pub(super) fn text(&self, machine: &Machine, attribute: &str) -> Option<String> {
        machine.text(&self.at(attribute)?)
    }

    /// The flag in `attribute`.
    pub(super) fn flag(&self, machine: &Machine, attribute: &str) -> Option<bool> {
        machine.flag(&self.at(attribute)?)
    }

    /// The number in `attribute`.
    pub(super) fn number<T: FromStr>(&self, machine: &Machine, attribute: &str) -> Option<T> {
        machine.number(&self.at(attribute)?)
    }

    /// The block size in `attribute`: a power of two; anything else is a driver's mistake.
    pub(super) fn block_bytes(&self, machine: &Machine, attribute: &str) -> Option<u32> {
        machine.parse(&self.at(attribute)?, |text| match text.parse::<u32>() {
            Ok(bytes) if bytes.is_power_of_two() && bytes >= 512 => Ok(bytes),
            _ => Err("a power of two of at least 512"),
        })
    }

    /// The UUID of a device-mapper device, from the kernel or from udev; otherwise empty.
    pub(super) fn mapping_uuid(&self) -> &str {
        let uuid = self.mapping_uuid.as_deref().or_else(|| self.udev.property("DM_UUID"));
        uuid.unwrap_or_default()
    }

    /// The names in the directory `child`.
    pub(super) fn list(&self, machine: &Machine, child: &str) -> Vec<String> {
        self.at(child).map(|path| machine.list(&path)).unwrap_or_default()
    }
}

/// Lists the block devices.
pub(super) fn list(machine: &Machine) -> Listing {
    let mut listing = Listing::default();
    for list in LISTS {
        for name in machine.list(list) {
            listing.is_known = true;
            let path = machine.device_path(&format!("{list}/{name}"));
            if list == LISTS[0] || !is_partition(machine, &path) {
                add(machine, &mut listing, name, path);
            }
        }
        if listing.is_known {
            break;
        }
    }
    listing.is_known = listing.is_known || LISTS.iter().any(|list| machine.is_dir(list));
    listing.heads = heads(&listing.virtuals);
    listing
}

/// The multipath devices among `virtuals`; their partitions are separate mappings (`part1-mpath-…`).
fn heads(virtuals: &[BlockDevice]) -> Vec<BlockDevice> {
    let is_head = |device: &&BlockDevice| wwn::is_multipath(device.mapping_uuid());
    let head = |device: &BlockDevice| {
        let mut device = device.clone();
        for part in virtuals {
            let number = wwn::multipath_partition(part.mapping_uuid(), device.mapping_uuid());
            if number.is_some() {
                device.partitions.push(PartitionDevice {
                    name: part.name.clone(),
                    path: part.path.clone(),
                    device_number: part.device_number.clone(),
                    number,
                    start_bytes: None,
                    size_bytes: part.size_bytes,
                });
            }
        }
        device
    };
    virtuals.iter().filter(is_head).map(head).collect()
}

/// True if the device at `path` is a partition: only partitions have either attribute (`part_attrs`,
/// `block/partitions/core.c`).
fn is_partition(machine: &Machine, path: &str) -> bool {
    ["partition", "start"].iter().any(|name| machine.text(&format!("{path}/{name}")).is_some())
}

fn add(machine: &Machine, listing: &mut Listing, name: String, path: String) {
    if NO_DISKS.iter().any(|prefix| name.starts_with(prefix)) {
        return;
    }
    let is_virtual = is_virtual(&name, &path);
    if is_virtual && !has_content(machine, &name, &path) {
        return;
    }
    let is_path = super::kernel_name::head_of_path(&name).is_some();
    let mut device = read(machine, name, path);
    if is_virtual {
        device.slaves = device.list(machine, "slaves");
        device.mapping_uuid = device.text(machine, "dm/uuid");
        listing.virtuals.push(device);
    } else if is_path || device.is_hidden == Some(true) {
        listing.hidden_paths.push(device);
    } else {
        require_size(machine, &device);
        let page = device.at("device/vpd_pg89").filter(|_| device.name.starts_with("sd"));
        device.ata_page = page.and_then(|path| machine.bytes(&path)).unwrap_or_default();
        listing.disks.push(device);
    }
}

/// The kernel gives every disk a size; without one its directory was not read, and faults of the disk are missed. A
/// size that is not a number is a problem already.
fn require_size(machine: &Machine, disk: &BlockDevice) {
    if disk.size_bytes.is_none() && !disk.children.iter().any(|name| name == "size") {
        machine.problem(&format!("{}/size", disk.path), "no such file", "the size of the disk");
    }
}

/// True if the device does not have its own hardware. The head of an NVMe multipath namespace is below
/// `devices/virtual` too, but is a disk.
fn is_virtual(name: &str, path: &str) -> bool {
    match path.strip_prefix("sys/devices/") {
        Some(rest) if rest.starts_with("virtual/") => !rest.starts_with("virtual/nvme-"),
        Some(rest) if rest.starts_with("rbd/") => true,
        Some(_) => false,
        None => VIRTUAL_PREFIXES.iter().any(|prefix| is_numbered(name, prefix)),
    }
}

/// Kernels create loop, ram, nbd and zram devices in advance; those without content are not listed.
fn has_content(machine: &Machine, name: &str, path: &str) -> bool {
    let made_in_advance = ["loop", "ram", "nbd", "zram", "drbd"];
    let is_backed =
        || name.starts_with("loop") && machine.text(&format!("{path}/loop/backing_file")).is_some();
    !made_in_advance.iter().any(|prefix| name.starts_with(prefix))
        || is_backed()
        || size_bytes(machine, path).is_some_and(|size_bytes| size_bytes > 0)
}

fn read(machine: &Machine, name: String, path: String) -> BlockDevice {
    let mut device =
        BlockDevice { children: machine.list(&path), name, path, ..BlockDevice::default() };
    device.device_number = device.text(machine, "dev");
    device.is_hidden = device.flag(machine, "hidden");
    let number = device.device_number.as_deref();
    let udev = number.and_then(|number| udev::entry(machine, &format!("b{number}")));
    device.udev = udev.unwrap_or_default();
    device.size_bytes = if device.has("size") { size_bytes(machine, &device.path) } else { None };
    if device.name.starts_with("sr") && device.size_bytes == Some(NO_MEDIUM_BYTES) {
        device.size_bytes = Some(0);
    }
    device.logical_block_bytes = device.block_bytes(machine, "queue/logical_block_size");
    let name = device.name.as_str();
    let children = device.children.iter();
    let nodes = children
        .filter(|child| child.len() > name.len() && child.starts_with(name))
        .filter_map(|child| node(machine, name, child, &format!("{}/{child}", device.path)));
    device.partitions = nodes.collect();
    device
}

/// The partition `name` of `disk` at `path`, if it is one. A partition whose number cannot be read still
/// counts: it may be in use.
fn node(machine: &Machine, disk: &str, name: &str, path: &str) -> Option<PartitionDevice> {
    let number = machine.number(&format!("{path}/partition"));
    let start_bytes = sectors(machine, &format!("{path}/start"));
    if number.is_none() && !is_partition(machine, path) {
        return None;
    }
    Some(PartitionDevice {
        number: number.or_else(|| number_in_name(disk, name)),
        device_number: machine.text(&format!("{path}/dev")),
        start_bytes,
        size_bytes: size_bytes(machine, path),
        name: name.to_owned(),
        path: path.to_owned(),
    })
}

/// The number in a name such as `sda1`, `nvme0n1p1` (`add_partition`, `block/partitions/core.c`).
fn number_in_name(disk: &str, name: &str) -> Option<u32> {
    let rest = name.strip_prefix(disk)?;
    let is_parted = disk.ends_with(|last: char| last.is_ascii_digit());
    let digits = if is_parted { rest.strip_prefix('p')? } else { rest };
    digits.parse().ok()
}

/// The size of the disk or partition at `path`. The kernel counts in units of 512 bytes, whatever the
/// block size.
pub(super) fn size_bytes(machine: &Machine, path: &str) -> Option<u64> {
    sectors(machine, &format!("{path}/size"))
}

/// A number of 512-byte sectors, as bytes.
pub(super) fn sectors(machine: &Machine, path: &str) -> Option<u64> {
    machine.number::<u64>(path)?.checked_mul(512)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{tree, tree_in};

    #[test]
    fn disk_without_a_size_is_a_problem_and_a_wrong_size_is_one_problem() {
        let machine = tree_in(&[
            ("sys/block", &[("sda", "-> ../devices/pci0000:00/ata1/block/sda")]),
            ("sys/block", &[("sdb/dev", "8:16"), ("sdc/size", "many"), ("sdd/size", "8")]),
        ]);
        assert_eq!(list(&machine).disks.len(), 4);
        let problems = machine.problems().into_iter().map(|problem| problem.path);
        let problems: Vec<String> = problems.collect();
        let expected =
            ["/sys/devices/pci0000:00/ata1/block/sda", "/sys/block/sdb", "/sys/block/sdc"];
        assert_eq!(problems, expected.map(|disk| format!("{disk}/size")));
    }

    #[test]
    fn disks_virtual_devices_and_hidden_paths_are_distinguished() {
        let machine = tree(&[
            ("sys/block/sda", "-> ../devices/pci0000:00/0000:00:1f.2/ata1/block/sda"),
            ("sys/devices/pci0000:00/0000:00:1f.2/ata1/block/sda/size", "8\n"),
            ("sys/devices/pci0000:00/0000:00:1f.2/ata1/block/sda/sda1/partition", "1\n"),
            ("sys/devices/pci0000:00/0000:00:1f.2/ata1/block/sda/slaves/x", ""),
            ("sys/block/dm-0", "-> ../devices/virtual/block/dm-0"),
            ("sys/devices/virtual/block/dm-0/size", "8\n"),
            ("sys/block/loop0", "-> ../devices/virtual/block/loop0"),
            ("sys/devices/virtual/block/loop0/size", "0\n"),
            ("sys/block/nvme0n1", "-> ../devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1"),
            ("sys/devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1/size", "8\n"),
            ("sys/block/nvme0c0n1/hidden", "1\n"),
            ("sys/block/md0/size", "8\n"),
        ]);
        let listing = list(&machine);
        let names = |list: &[BlockDevice]| list.iter().map(|d| d.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&listing.disks), ["nvme0n1", "sda"]);
        assert_eq!(names(&listing.virtuals), ["dm-0", "md0"]);
        assert_eq!(names(&listing.hidden_paths), ["nvme0c0n1"]);
        assert_eq!(listing.disks[1].partitions[0].name, "sda1");
        assert_eq!(listing.disks[1].size_bytes, Some(4096));
    }

    #[test]
    fn partition_with_unreadable_number_still_counts() {
        let machine = tree_in(&[
            ("sys/class/block/sda", &[("size", "8"), ("sda2/start", "4")]),
            ("sys/class/block", &[("sda/sda_more/size", "4"), ("sda2/start", "4")]),
            ("sys/class/block/mmcblk0", &[("mmcblk0p3/start", "4"), ("mmcblk0boot0/size", "4")]),
        ]);
        let listing = list(&machine);
        let names: Vec<&str> = listing.disks.iter().map(|disk| disk.name.as_str()).collect();
        assert_eq!(names, ["mmcblk0", "sda"]);
        let parts: Vec<_> = listing.disks.iter().flat_map(|disk| &disk.partitions).collect();
        let parts: Vec<_> = parts.iter().map(|part| (part.name.as_str(), part.number)).collect();
        assert_eq!(parts, [("mmcblk0p3", Some(3)), ("sda2", Some(2))]);
    }

    #[test]
    fn size_that_overflows_is_not_known() {
        let machine = tree(&[("sys/block/sda/size", "18446744073709551615\n")]);
        assert_eq!(list(&machine).disks[0].size_bytes, None);
    }
}
