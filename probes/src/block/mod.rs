//! Disks, what stands on them, and whether an install may take them: `/sys/block`
//! (`Documentation/ABI/stable/sysfs-block`), udev's database, `/proc/self/mountinfo`, `/proc/swaps`
//! and the first and last few KiB of each disk (that part needs root).
//!
//! Every disk is listed with the reasons why an install may not take it; what is unclear is such a
//! reason. Devices that the kernel makes of others (dm, md, loop, …) are in `virtual`.

mod ata_identify;
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
mod health;
mod identifier;
mod identity;
mod kernel_name;
mod listing;
mod mounts;
mod multipath;
mod nvme;
mod partition;
mod partition_table;
mod queue;
mod raid;
mod security;
mod signature;
mod sysfs_path;
mod target;
mod tcg;
#[cfg(test)]
mod tests;
mod transport;
mod virtual_devices;
mod virtual_media;
mod vpd;

pub use bay::DiskBay;
pub use current::{CurrentDisk, CurrentUse, current, current_use};
pub use disk::{Disk, DiskPath};
pub use fc::FcHost;
pub use health::Health;
pub use nvme::{NvmeController, NvmeSubsystem};
pub use partition::Partition;
pub use queue::DiskQueue;
pub use raid::{RaidController, RaidDrive, RaidVolume, controllers as raid_controllers};
pub use security::DiskSecurity;
pub use signature::Filesystem;
pub use target::DiskTarget;
pub use tcg::DiskTcg;
pub use virtual_devices::VirtualDevice;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use std::collections::BTreeMap;

use crate::machine::Machine;

use disk_threads::Asking;
use health::Way;
use listing::{BlockDevice, Listing};

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
    /// Every disk and drive, by name in natural order. A LUN that multipath joins is there as the
    /// multipath device, and so is each of its paths, which no install may take.
    pub disks: Vec<Disk>,
    /// Devices made of others or of memory, by name in natural order. Those without content (loop
    /// devices that are not set up and the like) are left out.
    pub r#virtual: Vec<VirtualDevice>,
    /// NVMe controllers, by name in natural order.
    pub nvme_controllers: Vec<NvmeController>,
    /// NVMe subsystems, by name in natural order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nvme_subsystems: Vec<NvmeSubsystem>,
    /// Fibre Channel host ports, by name in natural order.
    pub fc_hosts: Vec<FcHost>,
    /// RAID controllers and the drives that they hide, by PCI address: of `megaraid_sas`, and as far as
    /// the kernel knows them of `hpsa`, `aacraid` and `mpt3sas`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub raid_controllers: Vec<RaidController>,
}

/// Reads the disks.
#[must_use]
pub fn block(machine: &Machine) -> Block {
    let listing = listing::list(machine);
    let controllers = nvme::controllers(machine);
    let asking = asking(machine, &listing, &controllers);
    let contents = disk_threads::read_all(machine, &listing, &asking);
    let usage = mounts::usage(machine, &listing);
    let (hosts, drivers) = (transport::Hosts::new(machine), controller::Drivers::default());
    let shared = disk_reader::Shared { usage: &usage, hosts: &hosts, drivers: &drivers };
    let mut disks: Vec<Disk> = listing
        .all()
        .map(|device| {
            let content = contents.get(&device.name);
            let mut disk = disk_reader::read(machine, device, content, &shared);
            nvme::join(machine, &mut disk, device, &listing, &controllers);
            disk.existing_os = existing_os::existing_os(&disk);
            disk
        })
        .collect();
    disks.sort_by(|a, b| crate::natural::compare(&a.name, &b.name));
    multipath::mark(machine, &mut disks, &listing);
    eligibility::judge(machine, &mut disks, &listing, &contents, &usage);
    let counted = multipath::counted(&disks);
    Block {
        n_disks: listing.is_known.then_some(counted.len()),
        physical_bytes: counted
            .iter()
            .try_fold(0, |sum: u64, size| sum.checked_add((*size)?))
            .filter(|_| listing.is_known),
        disks,
        r#virtual: virtual_devices::read(machine, &listing, &usage),
        nvme_controllers: controllers,
        nvme_subsystems: nvme::subsystems(machine),
        fc_hosts: fc::hosts(machine),
        // They have a collector of their own.
        raid_controllers: Vec::new(),
    }
}

/// Puts the controllers into the section, and joins their volumes with the disks that they are.
pub(crate) fn attach_raid(block: &mut Block, mut controllers: Vec<RaidController>) {
    raid::join(&mut block.disks, &mut controllers);
    block.raid_controllers = controllers;
}

/// How each disk is asked for its health, and the bay that it sticks in.
fn asking(
    machine: &Machine,
    listing: &Listing,
    controllers: &[NvmeController],
) -> BTreeMap<String, Asking> {
    let bays = bay::bays(machine);
    let of_disk = |device: &BlockDevice| Asking {
        way: health::way(device, nvme::controller_of(machine, device, listing, controllers)),
        bay: bay::bay_of(machine, &device.path, &bays),
    };
    let mut asking: BTreeMap<String, Asking> =
        listing.disks.iter().map(|device| (device.name.clone(), of_disk(device))).collect();
    for head in &listing.heads {
        // Paths are not read, so the LUN is asked over the first of them.
        let path = head.paths.first();
        if let Some((path, Asking { way: Way::Sas(None), bay })) =
            path.and_then(|path| Some((path, asking.get(path)?.clone())))
        {
            let own = Asking { way: Way::Sas(Some(path.clone())), bay };
            asking.insert(head.device.name.clone(), own);
        }
    }
    asking
}
