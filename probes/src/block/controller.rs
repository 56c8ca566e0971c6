//! The controller that a disk is attached to: its driver, and whether it presents a volume instead of a
//! disk.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::machine::Machine;
use crate::pci_address::is_pci_address;

use super::listing::BlockDevice;
use super::sysfs_path::{hctl, pci_path};

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
const MARVELL: u32 = 0x1b4b;

/// Known facts about a disk's controller.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Controller {
    pub driver: Option<String>,
    /// PCI address of the Intel Volume Management Device in between.
    pub vmd_address: Option<String>,
    pub is_raid_volume: Option<bool>,
    pub raid_level: Option<String>,
}

/// The drivers read so far, by the path of the PCI device: many disks share one.
#[derive(Debug, Default)]
pub(super) struct Drivers(RefCell<BTreeMap<String, Option<Driver>>>);

#[derive(Debug, Clone)]
struct Driver {
    name: String,
    may_show_volumes: bool,
}

impl Drivers {
    fn of(&self, machine: &Machine, pci_path: &str) -> Option<Driver> {
        let mut known = self.0.borrow_mut();
        let read = || {
            let name = machine.link_name(&format!("{pci_path}/driver"))?;
            let may_show_volumes = may_show_volumes(machine, pci_path, &name);
            Some(Driver { name, may_show_volumes })
        };
        known.entry(pci_path.to_owned()).or_insert_with(read).clone()
    }
}

/// Reads the known facts about the controller of `device`, whose model is `model`.
pub(super) fn controller(
    machine: &Machine,
    device: &BlockDevice,
    model: Option<&str>,
    drivers: &Drivers,
) -> Controller {
    let driver = pci_path(&device.path).and_then(|path| drivers.of(machine, path));
    let is_unclear = driver.as_ref().is_some_and(|driver| driver.may_show_volumes);
    let driver = driver.map(|driver| driver.name);
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
    let is_maker = |text: &str| {
        let digits = text.strip_prefix("0x").ok_or("a hexadecimal number with 0x")?;
        u32::from_str_radix(digits, 16).map_err(|_| "a hexadecimal number with 0x")
    };
    let vendor = || machine.parse(&format!("{path}/vendor"), is_maker);
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
    use crate::testing::tree;

    const HBA: &str = "sys/devices/pci0000:00/0000:00:02.0/0000:03:00.0";

    fn of(driver: &str, channel: u32, level: Option<&str>, model: Option<&str>) -> Controller {
        let path = format!("{HBA}/host0/target0:{channel}:0/0:{channel}:0:0/block/sda");
        let driver_link = format!("{HBA}/driver");
        let target = format!("-> ../../../../bus/pci/drivers/{driver}");
        let attribute = format!("{path}/device/raid_level");
        let mut files = vec![(driver_link.as_str(), target.as_str())];
        files.extend(level.map(|level| (attribute.as_str(), level)));
        let device = BlockDevice { name: "sda".to_owned(), path, ..BlockDevice::default() };
        controller(&tree(&files), &device, model, &Drivers::default())
    }

    #[test]
    fn raid_volume_and_passed_through_disk_are_distinguished() {
        let volume = of("megaraid_sas", 2, None, None);
        assert_eq!(volume.driver.as_deref(), Some("megaraid_sas"));
        assert_eq!(volume.is_raid_volume, Some(true));
        assert_eq!(of("megaraid_sas", 0, None, None).is_raid_volume, Some(false));
        let volume = of("smartpqi", 1, Some("RAID 1\n"), None);
        assert_eq!(
            (volume.is_raid_volume, volume.raid_level.as_deref()),
            (Some(true), Some("RAID 1"))
        );
        let disk = of("smartpqi", 0, Some("N/A\n"), None);
        assert_eq!((disk.is_raid_volume, disk.raid_level), (Some(false), None));
        assert_eq!(of("3w-9xxx", 0, None, None).is_raid_volume, Some(true));
        assert_eq!(of("ahci", 0, None, Some("DELLBOSS VD")).is_raid_volume, Some(true));
        assert_eq!(of("unheard_of", 0, None, None).is_raid_volume, None);
    }

    #[test]
    fn firmware_raid_member_is_a_disk_and_a_disk_on_a_volume_chip_is_unclear() {
        let of = |vendor: &str, model: Option<&str>| {
            let path = format!("{HBA}/ata1/host0/target0:0:0/0:0:0:0/block/sda");
            let (driver, maker) = (format!("{HBA}/driver"), format!("{HBA}/vendor"));
            let machine = tree(&[(&driver, "-> ../../bus/pci/drivers/ahci"), (&maker, vendor)]);
            let device = BlockDevice { name: "sda".to_owned(), path, ..BlockDevice::default() };
            controller(&machine, &device, model, &Drivers::default()).is_raid_volume
        };
        assert_eq!(of("0x8086\n", None), Some(false));
        assert_eq!(of("0x1b4b\n", None), None);
        assert_eq!(of("0x1b4b\n", Some("DELLBOSS VD")), Some(true));
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
