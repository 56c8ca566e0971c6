//! The health and locks that a disk reports: the SMART log of NVMe, SMART on ATA disks, log pages of SAS, the wear of
//! an eMMC, the kernel's own count of commands that timed out, and the TCG Level 0 Discovery.
//!
//! Only disks that the kernel talks to directly are asked: never a RAID volume, a USB bridge or virtual
//! media, since some of these hang or log errors on such a command. Each disk is asked on its own thread
//! after its content was read, so one that hangs costs its own health alone. Needs root.

mod ata;
mod locks;
mod nvme;

use crate::machine::Machine;
use crate::sys::disk::DiskHandle;
use crate::sys::scsi::{ScsiCommand, ScsiQuestion};

use super::bay::DiskBay;
use super::controller::is_volume_model;
use super::listing::BlockDevice;
use super::sysfs_path::{numbered_part, prefixed_hex};
use formats::ata_identify::Identify;
use formats::disk_security::DiskSecurity;
use formats::health::{Health, scsi};
use formats::tcg::DiskTcg;

/// Method of reading a disk's health; chosen in advance, since it depends on other facts about the disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum HealthMethod {
    /// From the NVMe controller of this name.
    Nvme(String),
    /// With ATA commands, as far as the disk claims to support them; only through the kernel's own ATA driver.
    Ata,
    /// With SCSI commands to a SAS disk; to the path of this name for a multipath device.
    Sas(Option<String>),
    /// Not at all.
    #[default]
    None,
}

/// Selects the method of reading the disk's health by the devices above it. `controller` is the one that an NVMe
/// namespace is reached through.
pub(super) fn method(device: &BlockDevice, controller: Option<String>) -> HealthMethod {
    if let Some(controller) = controller {
        return HealthMethod::Nvme(controller);
    }
    let is_below = |prefix: &str| numbered_part(&device.path, prefix).is_some();
    match () {
        () if is_below("usb") || !device.name.starts_with("sd") => HealthMethod::None,
        // Only the kernel's own ATA driver: other controllers translate or emulate ATA commands.
        () if is_below("ata") => {
            let identify = Identify::of_page(&device.ata_page);
            // Some boot controllers present a volume as a SATA disk.
            let is_disk = identify.is_some_and(|identify| {
                !identify.model().is_some_and(|model| is_volume_model(&model))
            });
            if is_disk { HealthMethod::Ata } else { HealthMethod::None }
        }
        () if is_below("end_device-") => HealthMethod::Sas(None),
        () => HealthMethod::None,
    }
}

/// Answers of a disk, and of the enclosure about its bay.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Answers {
    /// The health that it reports.
    pub health: Option<Health>,
    /// Ways to erase it, if its controller was asked.
    pub security: Option<DiskSecurity>,
    /// TCG standards that it supports, and the locks set by them.
    pub tcg: Option<DiskTcg>,
    /// The bay that it is in.
    pub bay: Option<DiskBay>,
}

/// Asks the disk; empty if it cannot be asked or reports nothing. An unreadable disk is asked only whether it is locked:
/// that may be the reason.
pub(super) fn read(
    machine: &Machine,
    device: &BlockDevice,
    disk: &DiskHandle,
    method: &HealthMethod,
    is_readable: bool,
) -> Answers {
    let of_sas = |disk: &DiskHandle| {
        let ask = |page| machine.ask(&ScsiQuestion { disk, command: ScsiCommand::LogPage(page) });
        let health = if is_readable { scsi::read(&ask) } else { None };
        let tcg = locks::of_disk(machine, disk, locks::SCSI);
        Answers { health, tcg, ..Answers::default() }
    };
    match method {
        HealthMethod::Nvme(controller) => nvme::read(machine, controller, is_readable),
        HealthMethod::Ata => Identify::of_page(&device.ata_page)
            .map(|identify| ata::read(machine, disk, identify, is_readable))
            .unwrap_or_default(),
        HealthMethod::Sas(None) => of_sas(disk),
        HealthMethod::Sas(Some(path)) => of_sas(&DiskHandle::new(path)),
        HealthMethod::None => Answers::default(),
    }
}

/// Reads what files contain, without asking the disk: counts of the kernel, and the wear of an eMMC (JESD84-B51
/// §7.4.41 and 7.4.42: `device/life_time` in tenths, `device/pre_eol_info`).
pub(super) fn of_files(
    machine: &Machine,
    device: &BlockDevice,
    health: Option<Health>,
) -> Option<Health> {
    let mut health = health.unwrap_or_default();
    let at = |attribute: &str| format!("{}/device/{attribute}", device.path);
    if device.name.starts_with("sd") {
        // Not `ioerr_cnt`: it counts every answer with sense data, including those to our own commands.
        health.late_commands = machine.parse(&at("iotmo_cnt"), prefixed_hex);
    }
    if device.name.starts_with("mmcblk") {
        health.used_percent = machine.parse(&at("life_time"), life_time).flatten();
        health.is_passed = machine.parse(&at("pre_eol_info"), pre_eol).flatten();
    }
    (health != Health::default()).then_some(health)
}

/// Two estimates, of both types of memory in the chip: 1 is up to 10 % used, 11 is more than 100 %.
fn life_time(text: &str) -> Result<Option<u8>, &'static str> {
    let expected = "two numbers from 0x00 to 0x0b";
    let steps: Result<Vec<u64>, _> = text.split_whitespace().map(prefixed_hex).collect();
    let most = steps.map_err(|_| expected)?.into_iter().max().ok_or(expected)?;
    match u8::try_from(most) {
        Ok(0) => Ok(None),
        Ok(step @ 1..=11) => Ok(Some(step * 10)),
        _ => Err(expected),
    }
}

/// 1 normal, 2 warning, 3 urgent: the spare blocks are nearly used up.
fn pre_eol(text: &str) -> Result<Option<bool>, &'static str> {
    match prefixed_hex(text)? {
        0 => Ok(None),
        1 | 2 => Ok(Some(true)),
        3 => Ok(Some(false)),
        _ => Err("a number from 0x00 to 0x03"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::bytes::log_page;
    use crate::testing::{SAS, disk_at, tree_in};

    fn method_of(path: &str) -> HealthMethod {
        let name = path.rsplit('/').next().unwrap().to_owned();
        method(&BlockDevice { name, path: path.to_owned(), ..BlockDevice::default() }, None)
    }

    #[test]
    fn only_disks_that_the_kernel_talks_to_directly_are_sent_a_command() {
        let pci = "sys/devices/pci0000:00";
        for (path, expected) in [
            ("0000:00:14.0/usb1/1-7/host6/target6:0:0/6:0:0:0/block/sda", HealthMethod::None),
            ("0000:00:04.0/virtio1/block/vda", HealthMethod::None),
            ("0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/sr0", HealthMethod::None),
            ("0000:03:00.0/host0/target0:2:0/0:2:0:0/block/sda", HealthMethod::None),
            // The firmware of a SAS controller translates, so even a SATA disk there is asked in SCSI.
            ("0000:3b:00.0/host0/end_device-0:0/0:0:0:0/block/sda", HealthMethod::Sas(None)),
            // A disk that claims no support is not asked.
            ("0000:00:1f.2/ata5/host4/target4:0:0/4:0:0:0/block/sdb", HealthMethod::None),
        ] {
            assert_eq!(method_of(&format!("{pci}/{path}")), expected, "{path}");
        }
        assert_eq!(method_of("sys/block/sda"), HealthMethod::None);
    }

    #[test]
    fn wear_of_an_emmc_is_read_from_files() {
        let machine = tree_in(&[
            ("sys/block/mmcblk0", &[("size", "8")]),
            ("sys/block/mmcblk0/device", &[("life_time", "0x02 0x0b"), ("pre_eol_info", "0x03")]),
            ("sys/block/sda", &[("size", "8"), ("device/iotmo_cnt", "0x1f")]),
            ("sys/block/sdb", &[("size", "8"), ("device/iotmo_cnt", "31")]),
        ]);
        let disks = super::super::block(&machine).disks;
        let emmc = disks[0].health.as_ref().unwrap();
        assert_eq!((emmc.used_percent, emmc.is_passed), (Some(110), Some(false)));
        assert_eq!(disks[1].health.as_ref().unwrap().late_commands, Some(31));
        assert_eq!(disks[2].health, None);
        assert_eq!(machine.problems().len(), 1);
        assert_eq!(life_time("0x00 0x00"), Ok(None));
        assert!(life_time("").is_err() && life_time("0xff 0x01").is_err() && pre_eol("7").is_err());
    }

    #[test]
    fn sas_disk_is_asked_only_for_the_pages_that_it_has() {
        let supported = [&[0, 0, 0, 5, 0x00, 0x03, 0x0d, 0x15, 0x2f][..], &[0; 400]].concat();
        let files = [
            ("kernel/scsi/sda/log-00", supported),
            ("kernel/scsi/sda/log-03", log_page(0x03, &[(0, &[1]), (6, &[0, 0, 1, 2])])),
            ("kernel/scsi/sda/log-0d", log_page(0x0d, &[(0, &[0, 33]), (1, &[0, 0xff])])),
            ("kernel/scsi/sda/log-11", log_page(0x11, &[(1, &[0, 0, 0, 9])])),
            ("kernel/scsi/sda/log-15", log_page(0x15, &[(0, &[0, 0, 0, 120, 0, 0])])),
            ("kernel/scsi/sda/log-2f", log_page(0x2f, &[(0, &[0x5d, 0x10, 33])])),
        ];
        let health = crate::block::block(&disk_at(SAS, &files)).disks.remove(0).health.unwrap();
        assert_eq!(health.is_passed, Some(false));
        assert_eq!(health.temperature_celsius, Some(33));
        assert_eq!(health.warning_temperature_celsius, None);
        assert_eq!((health.power_on_hours, health.media_errors), (Some(2), Some(258)));
        assert_eq!(health.used_percent, None);
    }
}
