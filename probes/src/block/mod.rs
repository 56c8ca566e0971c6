//! Disks, their content, and whether an install may use them: `/sys/block`
//! (`Documentation/ABI/stable/sysfs-block`), udev's database, `/proc/self/mountinfo`, `/proc/swaps`
//! and the first and last few KiB of each disk (that part needs root).
//!
//! Every disk is listed with the reasons why an install may not use it; uncertainty is such a reason.
//! Devices that the kernel builds on others (dm, md, loop, …) are in `virtual`.
//!
//! The modules form layers (`tests/main/layers.rs`): plain data and helpers at the bottom (`kernel_name`,
//! `sysfs_path`, `identifier`), readers of one topic above them, then `disk` and
//! `content`, then what compares disks (`multipath`, `eligibility`), and this file on top. How devices are used is
//! read once, into `graph`.

mod above;
mod activity;
mod arrivals;
mod bay;
mod content;
mod content_reader;
mod controller;
mod current;
mod disk;
mod disk_reader;
mod disk_threads;
mod eligibility;
mod existing_os;
mod fc;
mod filesystem;
mod graph;
mod health;
mod identifier;
mod identity;
mod imsm;
mod kernel_name;
mod listing;
mod mounts;
mod multipath;
mod nvme;
mod obstacle;
mod partition;
mod partition_table;
mod queue;
mod raid;
mod samples;
mod stack;
mod sysfs_path;
mod target;
#[cfg(test)]
mod tests;
mod transport;
mod virtual_devices;
mod virtual_media;

pub use activity::{CurrentIo, current_io};
pub use arrivals::{Arrival, Arrivals, arrivals};
pub use bay::DiskBay;
pub use content_reader::is_read_fault;
pub use current::{CurrentDisk, CurrentUse, current, current_use};
pub use disk::{ContentAbove, Disk, DiskPath, UnlistedPartition, Volume};
pub use fc::FcHost;
pub use formats::disk_security::DiskSecurity;
pub use formats::health::Health;
pub use formats::raid::{RaidController, RaidDrive, RaidVolume};
pub use formats::signature::foreign::{Role, of_volume, role};
pub use formats::signature::{Filesystem, Membership, REMAINS_BYTES, foreign_content, remains};
pub use formats::tcg::DiskTcg;
pub use nvme::{NvmeController, NvmeSubsystem};
pub use obstacle::{Obstacle, ObstacleKind};
pub use partition::Partition;
pub use queue::DiskQueue;
pub use raid::controllers as raid_controllers;
pub use stack::{ActiveDevice, ActiveKind, CurrentStack, current_stack};
pub use target::DiskTarget;
pub use virtual_devices::VirtualDevice;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;

use disk_threads::{Request, Requests};
use health::HealthMethod;
use listing::BlockDevice;
use partition::View;

/// Disks, the devices built on them, and the controllers.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Block {
    /// Number of physical disks or LUNs. A LUN with several paths counts once; optical and floppy
    /// drives, boot areas of an eMMC, virtual media of a BMC, and removable drives without a medium
    /// do not count. `None` if the source does not list block devices.
    pub n_disks: Option<usize>,
    /// Sum of their sizes, in bytes; `None` if one size is unknown.
    pub physical_bytes: Option<u64>,
    /// Every disk and drive, by name in natural order. A LUN under multipath is listed as the multipath
    /// device; each of its paths is listed too, and no install may use those. The same holds for a volume of Intel's
    /// firmware RAID (RAID 1) and its members.
    pub disks: Vec<Disk>,
    /// Devices built on others or on memory, by name in natural order. Those without content (such as
    /// unused loop devices) are omitted.
    pub r#virtual: Vec<VirtualDevice>,
    /// NVMe controllers, by name in natural order.
    pub nvme_controllers: Vec<NvmeController>,
    /// NVMe subsystems, by name in natural order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nvme_subsystems: Vec<NvmeSubsystem>,
    /// Fibre Channel host ports, by name in natural order.
    pub fc_hosts: Vec<FcHost>,
    /// RAID controllers and the drives that they hide, by PCI address: those of `megaraid_sas`, and those of
    /// `hpsa`, `aacraid` and `mpt3sas` as far as the kernel knows them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub raid_controllers: Vec<RaidController>,
}

/// Reads the disks.
pub fn block(machine: &Machine) -> Block {
    let mut listing = listing::list(machine);
    listing.volumes = imsm::volumes(machine, &listing.virtuals);
    let controllers = nvme::controllers(machine);
    let nvme = nvme::Controllers { machine, listing: &listing, all: &controllers };
    let requests = requests(&nvme);
    let contents = disk_threads::read_all(machine, &listing, &requests);
    let graph = graph::listed(machine, &listing);
    let mut disks: Vec<Disk> = listing
        .all()
        .map(|device| {
            let content = contents.get(&device.name);
            let mut disk = disk_reader::read(&View { machine, device, content, graph: &graph });
            nvme.join(&mut disk, device);
            disk.existing_os = existing_os::existing_os(&disk);
            disk
        })
        .collect();
    disks.sort_by(|a, b| crate::natural::compare(&a.name, &b.name));
    imsm::mark(&mut disks, &listing);
    multipath::mark(machine, &mut disks, &listing);
    for disk in &mut disks {
        disk.is_on_fabric = is_on_fabric(disk, &controllers);
    }
    eligibility::judge(machine, &mut disks, &contents, &graph);
    let virtuals = listing.virtuals.iter();
    let virtuals = virtuals.map(|device| virtual_devices::read(machine, device, &graph));
    let virtuals: Vec<VirtualDevice> = virtuals.collect();
    above::attach(machine, &mut disks, &virtuals, &listing, &graph);
    let counted = multipath::counted(&disks);
    Block {
        n_disks: listing.is_known.then_some(counted.len()),
        physical_bytes: counted
            .iter()
            .try_fold(0, |sum: u64, size| sum.checked_add((*size)?))
            .filter(|_| listing.is_known),
        disks,
        r#virtual: virtuals,
        nvme_controllers: controllers,
        nvme_subsystems: nvme::subsystems(machine),
        fc_hosts: fc::hosts(machine),
        // A separate collector reads them: a hanging controller must not cost the disks.
        raid_controllers: Vec::new(),
    }
}

/// True if the disk is reached over a fabric. An expander of SAS is none, nor is the host of a virtual machine.
fn is_on_fabric(disk: &Disk, controllers: &[NvmeController]) -> bool {
    let is_far = |controller: &NvmeController| {
        matches!(controller.transport.as_deref(), Some("tcp" | "rdma" | "fc"))
            && controller.namespaces.contains(&disk.name)
    };
    // FCoE is Fibre Channel to the kernel.
    matches!(disk.transport.as_deref(), Some("fc" | "iscsi" | "srp"))
        || controllers.iter().any(is_far)
}

/// Adds the controllers to the section, and links their volumes to the disks they appear as.
pub(crate) fn attach_raid(block: &mut Block, mut controllers: Vec<RaidController>) {
    raid::join(&mut block.disks, &mut controllers);
    block.raid_controllers = controllers;
}

/// The method of reading each disk's health, and the bay that it is in.
fn requests(nvme: &nvme::Controllers) -> Requests {
    let (machine, listing) = (nvme.machine, nvme.listing);
    let bays = bay::bays(machine);
    let of_disk = |device: &BlockDevice| Request {
        method: health::method(device, nvme.of(device)),
        bay: bay::bay_of(machine, &device.path, &bays),
    };
    let mut requests: Requests =
        listing.disks.iter().map(|device| (device.name.clone(), of_disk(device))).collect();
    for head in &listing.heads {
        // The paths themselves are not read, so the LUN's health is read through the first of them.
        let Some(path) = head.slaves.first() else { continue };
        if let Some(Request { method: HealthMethod::Sas(None), bay }) = requests.get(path).cloned()
        {
            let method = HealthMethod::Sas(Some(path.clone()));
            requests.insert(head.name.clone(), Request { method, bay });
        }
    }
    requests
}
