//! Which block devices there are, and of which sort: the entries of `/sys/block`.

use crate::machine::Machine;
use crate::udev::{self, UdevEntry};

/// Where the kernel lists block devices; partitions are only in the second.
const LISTS: [&str; 2] = ["sys/block", "sys/class/block"];

/// Name prefixes of devices without hardware of their own, for trees whose entries are no links.
const VIRTUAL_PREFIXES: [&str; 14] = [
    "dm-", "md", "loop", "ram", "zram", "nbd", "drbd", "rbd", "bcache", "zd", "ublkb", "nullb",
    "zloop", "vdpa",
];

/// Views of raw flash chips, which hold firmware and are no disks.
const NO_DISKS: [&str; 2] = ["mtdblock", "ubiblock"];

/// All block devices that are no partitions.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// Whether the source lists block devices at all.
    pub is_known: bool,
    /// Physical disks, drives and LUNs, also boot areas of an eMMC.
    pub disks: Vec<Listed>,
    /// Devices made of others or of memory.
    pub virtuals: Vec<Listed>,
    /// Paths of NVMe namespaces behind a multipath head, which the kernel hides.
    pub hidden_paths: Vec<Listed>,
}

/// One block device as the kernel lists it.
#[derive(Debug, Clone, Default)]
pub(super) struct Listed {
    /// Kernel name, e.g. `sda`; `!` stands for `/`.
    pub name: String,
    /// Its directory, links resolved, e.g. `sys/devices/…/block/sda`.
    pub path: String,
    /// `8:0`; hidden devices have none.
    pub device_number: Option<String>,
    /// In bytes.
    pub size_bytes: Option<u64>,
    /// What udev knows of it; empty where udev does not run.
    pub udev: UdevEntry,
    /// Its partitions.
    pub partitions: Vec<Node>,
}

/// A partition's name and number.
#[derive(Debug, Clone, Default)]
pub(super) struct Node {
    /// Kernel name, e.g. `sda1`.
    pub name: String,
    /// `8:1`.
    pub device_number: Option<String>,
}

impl Listed {
    /// The path below `/dev`.
    pub(super) fn node(&self) -> String {
        self.name.replace('!', "/")
    }
}

/// Lists the block devices.
pub(super) fn scan(machine: &Machine) -> Scan {
    let mut scan = Scan::default();
    for list in LISTS {
        for name in machine.list(list) {
            scan.is_known = true;
            let device_path = machine.device_path(&format!("{list}/{name}"));
            if list == LISTS[0] || !is_listed(&scan, &name) && !is_partition(machine, &device_path)
            {
                add(machine, &mut scan, name, device_path);
            }
        }
        if scan.is_known {
            break;
        }
    }
    scan.is_known |= LISTS.iter().any(|list| machine.is_dir(list));
    scan
}

fn is_listed(scan: &Scan, name: &str) -> bool {
    scan.disks.iter().chain(&scan.virtuals).any(|device| device.name == name)
}

fn is_partition(machine: &Machine, device_path: &str) -> bool {
    machine.text(&format!("{device_path}/partition")).is_some()
}

fn add(machine: &Machine, scan: &mut Scan, name: String, path: String) {
    let is_hidden = machine.flag(&format!("{path}/hidden")) == Some(true)
        || super::nvme::head_of_path(&name).is_some();
    if NO_DISKS.iter().any(|prefix| name.starts_with(prefix)) {
        return;
    }
    let is_virtual = is_virtual(&name, &path);
    if is_virtual && !has_content(machine, &name, &path) {
        return;
    }
    let device = read(machine, name, path);
    if is_hidden {
        scan.hidden_paths.push(device);
    } else if is_virtual {
        scan.virtuals.push(device);
    } else {
        scan.disks.push(device);
    }
}

/// Whether the device has no hardware of its own. The head of an NVMe multipath namespace lies below
/// `devices/virtual` too, and is a disk.
fn is_virtual(name: &str, path: &str) -> bool {
    match path.strip_prefix("sys/devices/") {
        Some(rest) if rest.starts_with("virtual/") => !rest.starts_with("virtual/nvme-"),
        Some(rest) if rest.starts_with("rbd/") => true,
        Some(_) => false,
        None => VIRTUAL_PREFIXES.iter().any(|prefix| {
            name.strip_prefix(prefix)
                .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        }),
    }
}

/// Kernels make loop, ram, nbd and zram devices in advance; those without content are no facts.
fn has_content(machine: &Machine, name: &str, path: &str) -> bool {
    let made_in_advance = ["loop", "ram", "nbd", "zram", "drbd"];
    if !made_in_advance.iter().any(|prefix| name.starts_with(prefix)) {
        return true;
    }
    if name.starts_with("loop") && machine.text(&format!("{path}/loop/backing_file")).is_some() {
        return true;
    }
    size_bytes(machine, path).is_some_and(|size_bytes| size_bytes > 0)
}

fn read(machine: &Machine, name: String, path: String) -> Listed {
    let device_number = machine.text(&format!("{path}/dev"));
    let udev =
        device_number.as_deref().and_then(|number| udev::entry(machine, &format!("b{number}")));
    let partitions = machine
        .list(&path)
        .into_iter()
        .filter(|child| child.len() > name.len() && child.starts_with(&name))
        .filter(|child| is_partition(machine, &format!("{path}/{child}")))
        .map(|child| Node {
            device_number: machine.text(&format!("{path}/{child}/dev")),
            name: child,
        })
        .collect();
    Listed {
        size_bytes: size_bytes(machine, &path),
        device_number,
        udev: udev.unwrap_or_default(),
        partitions,
        name,
        path,
    }
}

/// The size of the disk or partition at `path`. The kernel counts in 512 bytes, whatever the block
/// size is.
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
    use crate::testing::tree;

    #[test]
    fn disks_virtual_devices_and_hidden_paths_are_told_apart() {
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
        let scan = scan(&machine);
        let names = |list: &[Listed]| list.iter().map(|d| d.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&scan.disks), ["nvme0n1", "sda"]);
        assert_eq!(names(&scan.virtuals), ["dm-0", "md0"]);
        assert_eq!(names(&scan.hidden_paths), ["nvme0c0n1"]);
        assert_eq!(scan.disks[1].partitions[0].name, "sda1");
        assert_eq!(scan.disks[1].size_bytes, Some(4096));
    }

    #[test]
    fn a_size_that_overflows_is_not_known() {
        let machine = tree(&[("sys/block/sda/size", "18446744073709551615\n")]);
        assert_eq!(scan(&machine).disks[0].size_bytes, None);
    }
}
