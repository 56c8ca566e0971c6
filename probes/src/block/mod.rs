//! Disks, what stands on them, and whether an install may take them: `/sys/block`
//! (`Documentation/ABI/stable/sysfs-block`), udev's database, `/proc/self/mountinfo`, `/proc/swaps`
//! and the first and last few KiB of each disk (that part needs root).
//!
//! Every disk is listed with the reasons why an install may not take it; what is unclear is such a
//! reason. Devices that the kernel makes of others (dm, md, loop, …) are in `virtual`.

mod content;
mod disk;
mod eligibility;
mod fc;
mod identity;
mod mounts;
mod multipath;
mod nvme;
mod partition;
mod partition_table;
mod scan;
mod signature;
mod transport;
mod virtual_devices;
mod virtual_media;
mod vpd;

pub use disk::{Disk, DiskPath};
pub use fc::FcHost;
pub use nvme::NvmeController;
pub use partition::Partition;
pub use signature::Filesystem;
pub use virtual_devices::VirtualDevice;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;

/// Disks, the devices made of them, and the controllers that report themselves.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Block {
    /// Number of physical disks or LUNs. A LUN that is seen over several paths counts once; optical
    /// and floppy drives, boot areas of an eMMC, virtual media of a BMC, and removable drives
    /// without a medium do not count. `None` where the source says nothing about block devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n_disks: Option<usize>,
    /// Their sizes added up, in bytes; `None` if the size of one is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub physical_bytes: Option<u64>,
    /// Every disk and drive, by name in natural order.
    pub disks: Vec<Disk>,
    /// Devices made of others or of memory, by name in natural order. Those without content (loop
    /// devices that are not set up and the like) are left out.
    pub r#virtual: Vec<VirtualDevice>,
    /// NVMe controllers, by name in natural order.
    pub nvme_controllers: Vec<NvmeController>,
    /// Fibre Channel host ports, by name in natural order.
    pub fc_hosts: Vec<FcHost>,
}

/// Reads the disks.
#[must_use]
pub fn block(machine: &Machine) -> Block {
    let scan = scan::scan(machine);
    let contents = content::read_all(machine, &scan);
    let usage = mounts::usage(machine, &scan);
    let controllers = nvme::controllers(machine);
    let mut disks: Vec<Disk> = scan
        .disks
        .iter()
        .map(|device| {
            let content = contents.get(&device.name);
            let mut disk = disk::read(machine, device, content, &usage);
            nvme::join(machine, &mut disk, device, &scan, &controllers);
            disk
        })
        .collect();
    let virtual_devices = virtual_devices::read(machine, &scan, &usage);
    multipath::mark(machine, &mut disks, &virtual_devices);
    eligibility::judge(machine, &mut disks, &scan, &contents, &usage);
    let counted = multipath::counted(&disks);
    Block {
        n_disks: scan.is_known.then_some(counted.len()),
        physical_bytes: counted
            .iter()
            .try_fold(0, |sum: u64, size| sum.checked_add((*size)?))
            .filter(|_| scan.is_known),
        disks,
        r#virtual: virtual_devices,
        nvme_controllers: controllers,
        fc_hosts: fc::hosts(machine),
    }
}
