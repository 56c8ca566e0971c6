//! RAID controllers, the drives that they hide and the volumes on these, as the controller's firmware reports
//! them. Only `megaraid_sas` (Broadcom MegaRAID, Dell PERC, Lenovo `ThinkSystem` RAID, Fujitsu PRAID, …) is
//! asked; see [`crate::sys::megaraid`]. Needs root. For some other controllers the kernel itself knows the
//! drives (`hidden`).
//!
//! A volume looks healthy to the kernel as long as it can be read. Only the controller knows that one of its
//! drives has failed.

mod hidden;
mod megaraid;

use formats::raid::{RaidController, RaidDrive};

use crate::machine::Machine;

use super::disk::Disk;

/// Reads the RAID controllers, by PCI address.
pub fn controllers(machine: &Machine) -> Vec<RaidController> {
    let mut controllers = megaraid::controllers(machine, megaraid::PAGES_LIMIT);
    controllers.extend(hidden::controllers(machine));
    controllers.sort_by(|a, b| crate::natural::compare(&a.pci_address, &b.pci_address));
    controllers
}

/// Number of the SCSI host of the PCI device at `address`.
fn host(machine: &Machine, address: &str) -> Option<u16> {
    let names = machine.names(&format!("sys/bus/pci/devices/{address}"));
    names.iter().find_map(|name| name.strip_prefix("host")?.parse().ok())
}

/// Links the volumes and drives of the controllers to the disks they appear as.
pub(super) fn join(disks: &mut [Disk], controllers: &mut [RaidController]) {
    for controller in controllers.iter_mut().filter(|one| one.driver == megaraid::DRIVER) {
        let address = controller.pci_address.as_str();
        for volume in controller.volumes.iter_mut().flatten() {
            let is_it = |disk: &&mut Disk| {
                disk.pci_address.as_deref() == Some(address) && megaraid::is_volume(disk, volume.id)
            };
            if let Some(disk) = disks.iter_mut().find(is_it) {
                volume.disk = Some(disk.name.clone());
                volume.size_bytes = disk.size_bytes.or(volume.size_bytes);
                if disk.raid_level.is_none() {
                    disk.raid_level.clone_from(&volume.raid_level);
                }
            }
        }
        for drive in controller.drives.iter_mut().flatten() {
            let is_it = |disk: &&Disk| {
                disk.pci_address.as_deref() == Some(address)
                    && drive.device_id.is_some_and(|id| megaraid::is_drive(disk, id))
                    && !is_other(drive, disk)
            };
            drive.disk = disks.iter().find(is_it).map(|disk| disk.name.clone());
        }
    }
}

/// True if both NAA names are known and differ: newer firmware may pass a drive through with a target other than its
/// device id (`support_pd_map_target_id`).
fn is_other(drive: &RaidDrive, disk: &Disk) -> bool {
    let of_disk = disk.wwn.as_ref().filter(|wwn| wwn.starts_with("0x"));
    drive.wwn.is_some() && of_disk.is_some() && drive.wwn.as_ref() != of_disk
}

#[cfg(test)]
mod tests;
