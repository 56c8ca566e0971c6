//! One disk: size, blocks, place and identity, from its directory in sysfs and from udev.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ancestors;
use crate::machine::Machine;

use super::content::Content;
use super::identity::identity;
use super::mounts::Usage;
use super::partition::{self, Partition};
use super::scan::{Listed, sectors};
use super::signature::Filesystem;
use super::transport::{hctl, transport};

/// One physical disk, LUN or drive.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Disk {
    /// Kernel name, e.g. `sda`. It may change across boots, so it is never a key.
    pub name: String,
    /// Path of the device, e.g. `/dev/sda`.
    pub device: String,
    /// Major and minor number, e.g. `8:0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_number: Option<String>,
    /// Number that the kernel never gives twice while it runs (since Linux 5.15).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diskseq: Option<u64>,
    /// Size in bytes; 0 for a drive without a medium.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// Whether the kernel takes it for a disk that turns; virtual machines often say so of any disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotational: Option<bool>,
    /// `sata`, `ata`, `sas`, `scsi` (a RAID controller's volume and the like), `nvme`, `usb`,
    /// `virtio`, `mmc`, `fc`, `iscsi`, `xen`, `nvdimm`, `ccw`, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport: Option<String>,
    /// Vendor as the disk says it; `ATA` for SATA disks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vendor: Option<String>,
    /// Model as the disk says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Serial number of the unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// Other serial numbers that some source gives for it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub other_serials: Vec<String>,
    /// Firmware revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firmware: Option<String>,
    /// World-wide name as udev writes it, e.g. `0x5000c500a1b2c3d4` or `eui.0025385b11b2c3d4`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wwn: Option<String>,
    /// The kernel's own identifier, e.g. `naa.5000c500a1b2c3d4` or `t10.ATA …`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wwid: Option<String>,
    /// EUI-64 of an NVMe namespace, 16 hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eui64: Option<String>,
    /// NGUID of an NVMe namespace, 32 hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nguid: Option<String>,
    /// What is wrong with the identifiers: blank, or shared with another disk.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub identity_issues: Vec<String>,
    /// SCSI Host:Channel:Target:LUN; it may change across boots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hctl: Option<String>,
    /// Path by place, e.g. `/dev/disk/by-path/pci-0000:00:1f.2-ata-1`; `None` without udev.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_path: Option<String>,
    /// Paths by identity, e.g. `/dev/disk/by-id/wwn-0x5000c500a1b2c3d4`.
    pub by_id: Vec<String>,
    /// PCI address of the controller; `None` where paths lead over several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pci_address: Option<String>,
    /// NUMA node of the controller; `None` where the kernel does not know it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numa_node: Option<u32>,
    /// Logical block size in bytes: 4096 needs an image made for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logical_block_bytes: Option<u32>,
    /// Physical block size in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub physical_block_bytes: Option<u32>,
    /// Whether the medium can be taken out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_removable: Option<bool>,
    /// Whether it refuses writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_read_only: Option<bool>,
    /// Whether the kernel hides it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hidden: Option<bool>,
    /// `running` or `offline` of a SCSI disk, `live` or `dead` of an NVMe controller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// `host-managed` or `host-aware` for zoned disks; `None` for all others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zoned: Option<String>,
    /// Whether an install may take it, as far as the disk itself is concerned.
    pub eligible: bool,
    /// Why it may not; empty if it may.
    pub not_eligible_because: Vec<String>,
    /// Whether the running system was started from it.
    pub is_live_medium: bool,
    /// The disk that this boot area of an eMMC is a part of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part_of: Option<String>,
    /// Boot areas and the like of an eMMC; each is listed as a disk of its own that is not eligible.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub areas: Vec<String>,
    /// The multipath device that this path belongs to, e.g. `dm-0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multipath: Option<String>,
    /// `gpt` or `dos`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition_table: Option<String>,
    /// What stands on the whole disk, outside partitions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filesystem: Option<Filesystem>,
    /// Where the whole disk is mounted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mounted_at: Vec<String>,
    /// Whether the whole disk is swap in use.
    pub is_swap: bool,
    /// Devices that the kernel has made of the whole disk, e.g. `dm-0`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<String>,
    /// Partitions, by number.
    pub partitions: Vec<Partition>,
    /// Paths of an NVMe namespace with native multipath.
    pub paths: Vec<DiskPath>,
}

/// One path to a namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DiskPath {
    /// Kernel name, e.g. `nvme0c0n1`.
    pub name: String,
    /// The controller, e.g. `nvme0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<String>,
    /// State of the controller, e.g. `live`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Asymmetric access state, e.g. `optimized`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ana_state: Option<String>,
    /// PCI address of the controller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pci_address: Option<String>,
    /// NUMA node of the controller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numa_node: Option<u32>,
}

/// Reads the disk; eligibility is judged when all are read.
pub(super) fn read(
    machine: &Machine,
    device: &Listed,
    content: Option<&Content>,
    usage: &Usage,
) -> Disk {
    let transport = transport(machine, device);
    let identity = identity(machine, device, transport.as_deref());
    let path = &device.path;
    let at = |attribute: &str| format!("{path}/{attribute}");
    let filesystem = content.and_then(|content| content.filesystem.clone());
    let table = content.and_then(|content| content.table.as_ref());
    Disk {
        device: format!("/dev/{}", device.node()),
        device_number: device.device_number.clone(),
        diskseq: machine.number(&at("diskseq")),
        size_bytes: device.size_bytes,
        rotational: machine.flag(&at("queue/rotational")),
        transport,
        vendor: identity.vendor,
        model: identity.model,
        serial: identity.serial,
        other_serials: identity.other_serials,
        firmware: identity.firmware,
        wwn: identity.wwn,
        wwid: identity.wwid,
        eui64: identity.eui64,
        nguid: identity.nguid,
        identity_issues: identity.issues,
        hctl: hctl(path).map(str::to_owned).or_else(|| linked_hctl(machine, path)),
        by_path: links(device, "disk/by-path/").next(),
        by_id: links(device, "disk/by-id/").collect(),
        pci_address: ancestors::pci_address(path),
        numa_node: ancestors::numa_node(machine, path),
        logical_block_bytes: block_bytes(machine, &at("queue/logical_block_size")),
        physical_block_bytes: block_bytes(machine, &at("queue/physical_block_size")),
        is_removable: machine.flag(&at("removable")),
        is_read_only: machine.flag(&at("ro")),
        hidden: machine.flag(&at("hidden")),
        state: machine.text(&at("device/state")),
        zoned: machine.text(&at("queue/zoned")).filter(|zoned| zoned != "none"),
        partition_table: table
            .map(|table| table.kind.to_owned())
            .or_else(|| device.udev.property("ID_PART_TABLE_TYPE").map(str::to_owned)),
        filesystem: filesystem.or_else(|| Filesystem::of_udev(&device.udev)),
        mounted_at: usage.mounts_of(&device.name),
        is_swap: usage.swaps.contains(&device.name),
        holders: machine.list(&at("holders")),
        partitions: partition::partitions(machine, device, content, usage),
        name: device.name.clone(),
        ..Disk::default()
    }
}

/// In trees whose entries are no links, the disk's `device` link still names the place.
fn linked_hctl(machine: &Machine, path: &str) -> Option<String> {
    let target = machine.link(&format!("{path}/device"))?;
    hctl(&target).map(str::to_owned)
}

fn links<'a>(device: &'a Listed, prefix: &'a str) -> impl Iterator<Item = String> + 'a {
    let links = device.udev.links.iter().filter(move |link| link.starts_with(prefix));
    links.map(|link| format!("/dev/{link}"))
}

/// Block sizes are powers of two; anything else is a driver's slip.
fn block_bytes(machine: &Machine, path: &str) -> Option<u32> {
    machine.parse(path, |text| match text.parse::<u32>() {
        Ok(bytes) if bytes.is_power_of_two() && bytes >= 512 => Ok(bytes),
        _ => Err("a power of two of at least 512"),
    })
}

/// Start and size of the partition at `path`, in bytes.
pub(super) fn extent(machine: &Machine, path: &str) -> (Option<u64>, Option<u64>) {
    (sectors(machine, &format!("{path}/start")), sectors(machine, &format!("{path}/size")))
}
