//! The controller that a disk is attached to: its driver, and whether it presents a volume instead of a
//! disk.

use crate::machine::Machine;
use crate::pci_address::is_pci_address;

use super::listing::BlockDevice;
use super::sysfs_path::{hctl, pci_path, prefixed_hex};

/// SCSI channels that hold volumes, by driver (`MEGASAS_MAX_PD_CHANNELS`,
/// `drivers/scsi/megaraid/megaraid_sas.h`; `RAID_CHANNEL`, `drivers/scsi/mpt3sas/mpt3sas_base.h`;
/// `CONTAINER_CHANNEL`, `drivers/scsi/aacraid/aacraid.h`).
const CHANNELS: [(&str, std::ops::RangeInclusive<u32>); 4] =
    [("megaraid_sas", 2..=u32::MAX), ("mpt3sas", 1..=1), ("mpt2sas", 1..=1), ("aacraid", 0..=0)];

/// Drivers of controllers that present only volumes.
const ONLY_VOLUMES: [&str; 10] =
    ["3w-9xxx", "3w-sas", "3w-xxxx", "arcmsr", "cciss", "hptiop", "ips", "myrb", "myrs", "stex"];

/// Model prefixes of volumes that small boot controllers present as one plain disk.
const MODELS: [&str; 5] =
    ["DELLBOSS", "Dell BOSS", "HPE NS204i", "MARVELL Raid VD", "ThinkSystem M.2 VD"];

/// Marvell: some of its chips look like AHCI or NVMe to the kernel but make volumes themselves, so any
/// disk on them may be a volume unless its model says so.
const MARVELL: u64 = 0x1b4b;

/// Known facts about a disk's controller.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Controller {
    pub driver: Option<String>,
    /// PCI address of the Intel Volume Management Device in between.
    pub vmd_address: Option<String>,
    pub is_raid_volume: Option<bool>,
    pub raid_level: Option<String>,
}

/// Reads the known facts about the controller of `device`, whose model is `model`.
pub(super) fn controller(
    machine: &Machine,
    device: &BlockDevice,
    model: Option<&str>,
) -> Controller {
    let pci = pci_path(&device.path);
    let driver = pci.and_then(|path| machine.link_name(&format!("{path}/driver")));
    let is_unclear = pci
        .zip(driver.as_deref())
        .is_some_and(|(path, driver)| may_show_volumes(machine, path, driver));
    let level = raid_level(machine, device, driver.as_deref());
    let is_named = model.is_some_and(is_volume_model);
    let by_driver =
        driver.as_deref().and_then(|driver| is_volume(driver, &device.path, level.as_deref()));
    let by_driver = by_driver.filter(|_| !is_unclear);
    Controller {
        is_raid_volume: if is_named { Some(true) } else { by_driver },
        raid_level: level.filter(|level| level != "N/A"),
        vmd_address: vmd_address(&device.path),
        driver,
    }
}

/// True if a disk of this model is a volume of a small boot controller.
pub(super) fn is_volume_model(model: &str) -> bool {
    MODELS.iter().any(|start| model.starts_with(start))
}

/// `None` for drivers where this is unknown.
fn is_volume(driver: &str, path: &str, level: Option<&str>) -> Option<bool> {
    if ONLY_VOLUMES.contains(&driver) {
        return Some(true);
    }
    if let Some((_, channels)) = CHANNELS.iter().find(|(name, _)| *name == driver) {
        let channel = hctl(path)?.split(':').nth(1)?.parse().ok()?;
        return Some(channels.contains(&channel));
    }
    match driver {
        "hpsa" | "smartpqi" => level.map(|level| level != "N/A"),
        // The firmware RAID of a chipset is assembled by the operating system, from disks.
        "ahci" | "nvme" | "ata_piix" | "virtio-pci" => Some(false),
        _ => None,
    }
}

/// True if the PCI device at `path` is from a maker whose chips present volumes as plain disks.
fn may_show_volumes(machine: &Machine, path: &str, driver: &str) -> bool {
    let vendor = || machine.parse(&format!("{path}/vendor"), prefixed_hex);
    ["ahci", "nvme"].contains(&driver) && vendor() == Some(MARVELL)
}

/// `device/raid_level` of HPE and Microchip, `raid_devices/…/level` of Broadcom's older controllers.
fn raid_level(machine: &Machine, device: &BlockDevice, driver: Option<&str>) -> Option<String> {
    match driver? {
        "hpsa" | "smartpqi" | "aacraid" => device.text(machine, "device/raid_level"),
        "mpt3sas" | "mpt2sas" => {
            let hctl = hctl(&device.path).filter(|hctl| hctl.split(':').nth(1) == Some("1"))?;
            machine.text(&format!("sys/class/raid_devices/{hctl}/level"))
        }
        _ => None,
    }
}

/// The PCI device below which there is a PCI bus in a separate domain (`drivers/pci/controller/vmd.c`).
fn vmd_address(path: &str) -> Option<String> {
    let parts: Vec<&str> = path.split('/').collect();
    let is_domain = |part: &str| {
        part.strip_prefix("pci").is_some_and(|rest| {
            rest.split_once(':').is_some_and(|(domain, bus)| domain.len() > 4 && bus.len() == 2)
        })
    };
    let pairs = parts.windows(2).map(|pair| (pair[0], pair[1]));
    let mut found = pairs.filter(|(above, below)| is_pci_address(above) && is_domain(below));
    found.next().map(|(above, _)| above.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree_from;

    const HBA: &str = "sys/devices/pci0000:00/0000:00:02.0/0000:03:00.0";

    fn of(driver: &str, channel: u32, level: &str, model: &str, vendor: &str) -> Controller {
        let path = format!("{HBA}/host0/target0:{channel}:0/0:{channel}:0:0/block/sda");
        let files = [
            (format!("{HBA}/driver"), format!("-> ../../../../bus/pci/drivers/{driver}")),
            (format!("{HBA}/vendor"), vendor.to_owned()),
            (format!("{path}/device/raid_level"), level.to_owned()),
        ];
        let device = BlockDevice { name: "sda".to_owned(), path, ..BlockDevice::default() };
        controller(&tree_from(&files), &device, Some(model))
    }

    #[test]
    fn volume_disk_and_disk_on_a_chip_that_may_show_volumes_are_distinguished() {
        const INTEL: &str = "0x8086";
        for (driver, channel, level, model, vendor, expected) in [
            ("megaraid_sas", 2, "", "", INTEL, Some(true)),
            ("megaraid_sas", 0, "", "", INTEL, Some(false)),
            ("smartpqi", 1, "RAID 1", "", INTEL, Some(true)),
            ("smartpqi", 0, "N/A", "", INTEL, Some(false)),
            ("3w-9xxx", 0, "", "", INTEL, Some(true)),
            ("ahci", 0, "", "DELLBOSS VD", INTEL, Some(true)),
            ("unheard_of", 0, "", "", INTEL, None),
            // A member of a firmware RAID is a disk.
            ("ahci", 0, "", "", INTEL, Some(false)),
            ("ahci", 0, "", "", "0x1b4b", None),
            ("ahci", 0, "", "DELLBOSS VD", "0x1b4b", Some(true)),
        ] {
            let found = of(driver, channel, level, model, vendor);
            assert_eq!(found.is_raid_volume, expected, "{driver} {channel} {model} {vendor}");
            assert_eq!(found.driver.as_deref(), Some(driver));
            let level = Some(level).filter(|level| level.starts_with("RAID"));
            assert_eq!(found.raid_level.as_deref(), level);
        }
    }

    #[test]
    fn drive_on_a_volume_management_device_names_it_and_its_long_domain() {
        let path = "sys/devices/pci0000:e2/0000:e2:05.5/pci10000:e0/10000:e0:01.0/10000:e1:00.0/nvme/nvme0/nvme0n1";
        assert_eq!(vmd_address(path).as_deref(), Some("0000:e2:05.5"));
        assert_eq!(crate::ancestors::pci_address(path).as_deref(), Some("10000:e1:00.0"));
        assert!(pci_path(path).unwrap().ends_with("/10000:e1:00.0"));
        assert_eq!(vmd_address("sys/devices/pci0000:00/0000:00:1f.2/ata1"), None);
        assert_eq!(pci_path("sys/block/sda"), None);
    }
}
