//! Drives that the kernel knows but does not expose as disks, since they belong to a RAID volume: those of
//! `hpsa` (HPE Smart Array), `aacraid` (Adaptec) and, if it has volumes, `mpt3sas` (Broadcom's
//! Integrated RAID) are SCSI devices without a block device (`no_uld_attach`,
//! `drivers/scsi/{hpsa.c,aacraid/linit.c,mpt3sas/mpt3sas_scsih.c}`; `/sys/bus/scsi/devices`).
//!
//! The controller reports their health only through ioctls specific to each vendor.

use formats::megaraid::naa;
use formats::raid::{RaidController, RaidDrive, RaidVolume};
use formats::vpd;
use formats::wwn::is_blank;
use std::collections::BTreeSet;

use crate::block::target;
use crate::machine::Machine;
use crate::pci_address::is_pci_address;

use super::host;

const DRIVERS: [&str; 4] = ["aacraid", "hpsa", "mpt2sas", "mpt3sas"];
/// Most SCSI devices of a host that are read.
const LIMIT_DEVICES: usize = 1024;

/// Reads the controllers.
pub(super) fn controllers(machine: &Machine) -> Vec<RaidController> {
    let present: BTreeSet<String> = machine.names("sys/bus/pci/drivers").into_iter().collect();
    let mut controllers = Vec::new();
    for driver in DRIVERS.into_iter().filter(|driver| present.contains(*driver)) {
        let bound = machine.list(&format!("sys/bus/pci/drivers/{driver}"));
        let bound = bound.into_iter().filter(|name| is_pci_address(name));
        controllers.extend(bound.filter_map(|address| controller(machine, driver, address)));
    }
    controllers
}

/// `None` for a host bus adapter without volumes, whose drives are ordinary disks.
fn controller(machine: &Machine, name: &str, pci_address: String) -> Option<RaidController> {
    let host = host(machine, &pci_address)?;
    let is_mpt = name.starts_with("mpt");
    let volumes = is_mpt.then(|| volumes(machine, host));
    if volumes.as_ref().is_some_and(Vec::is_empty) {
        return None;
    }
    // Without the disk driver no drive has a block device.
    let drives = machine.is_dir("sys/bus/scsi/drivers/sd").then(|| drives(machine, host));
    Some(RaidController {
        pci_address,
        driver: name.to_owned(),
        drives,
        volumes,
        ..RaidController::default()
    })
}

/// `/sys/class/raid_devices/H:C:T:L` (`drivers/scsi/raid_class.c`).
fn volumes(machine: &Machine, host: u16) -> Vec<RaidVolume> {
    let names = machine.list("sys/class/raid_devices");
    let of_host = names.iter().filter(|name| is_of(name, host));
    let mut volumes: Vec<RaidVolume> = of_host.filter_map(|name| volume(machine, name)).collect();
    volumes.sort_by_key(|volume| volume.id);
    volumes
}

fn volume(machine: &Machine, hctl: &str) -> Option<RaidVolume> {
    let at = |attribute: &str| format!("sys/class/raid_devices/{hctl}/{attribute}");
    let state = machine.parse(&at("state"), |text| match text {
        "active" => Ok(Some("optimal".to_owned())),
        "degraded" | "resyncing" | "offline" => Ok(Some(text.to_owned())),
        "unknown" => Ok(None),
        _ => Err("active, degraded, resyncing, offline or unknown"),
    });
    let level = machine.text(&at("level")).filter(|level| level != "unknown");
    let disks = machine.list(&format!("sys/bus/scsi/devices/{hctl}/block"));
    Some(RaidVolume {
        id: hctl.split(':').nth(2)?.parse().ok()?,
        state: state.flatten(),
        raid_level: level.map(|level| level.replacen("raid", "RAID ", 1).to_uppercase()),
        disk: disks.into_iter().next(),
        ..RaidVolume::default()
    })
}

/// The SCSI devices of the host that are disks without a block device.
fn drives(machine: &Machine, host: u16) -> Vec<RaidDrive> {
    const DIR: &str = "sys/bus/scsi/devices";
    let mut names = machine.list(DIR);
    names.retain(|name| is_of(name, host));
    if names.len() > LIMIT_DEVICES {
        let found = format!("{} devices of host{host}", names.len());
        machine.problem(DIR, found, format!("at most {LIMIT_DEVICES}; the others are not read"));
    }
    names.iter().take(LIMIT_DEVICES).filter_map(|name| drive(machine, name)).collect()
}

fn drive(machine: &Machine, hctl: &str) -> Option<RaidDrive> {
    let link = format!("sys/bus/scsi/devices/{hctl}");
    if machine.number::<u8>(&format!("{link}/type")) != Some(0)
        || machine.is_dir(&format!("{link}/block"))
    {
        return None;
    }
    let path = machine.device_path(&link);
    let text = |attribute: &str| {
        machine.text(&format!("{path}/{attribute}")).map(|text| text.trim().to_owned())
    };
    let page = |code: &str| machine.bytes(&format!("{path}/vpd_pg{code}"));
    let characteristics = page("b1").unwrap_or_default();
    Some(RaidDrive {
        hctl: Some(hctl.to_owned()),
        slot: target::sas_bay(machine, &path).and_then(|bay| u8::try_from(bay).ok()),
        vendor: text("vendor"),
        model: text("model"),
        firmware: text("rev"),
        serial: page("80").and_then(|page| vpd::unit_serial(&page)),
        wwn: page("83").and_then(|page| naa(&page)),
        sas_address: text("sas_address").filter(|address| !is_blank(address)),
        rotation_rpm: vpd::rotation_rpm(&characteristics),
        rotational: vpd::is_rotational(&characteristics),
        ..RaidDrive::default()
    })
}

/// True if a SCSI address belongs to the host.
fn is_of(hctl: &str, host: u16) -> bool {
    let mut parts = hctl.split(':');
    parts.next().and_then(|part| part.parse().ok()) == Some(host) && parts.count() == 3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree_of_bytes;

    const DRIVE: &str = "sys/devices/pci0000:02/0000:03:00.0/host1/target1:0:4/1:0:4:0";

    fn files<P: AsRef<str>>(driver: &str, more: &[(P, &[u8])]) -> Machine {
        let bound = format!("sys/bus/pci/drivers/{driver}/0000:03:00.0");
        let mut files: Vec<(&str, &[u8])> = vec![
            (&bound, b"-> ../../../../devices/pci0000:02/0000:03:00.0"),
            ("sys/bus/pci/devices/0000:03:00.0/host1/uevent", b""),
            ("sys/bus/scsi/drivers/sd/uevent", b""),
            (
                "sys/bus/scsi/devices/1:0:4:0",
                b"-> ../../../devices/pci0000:02/0000:03:00.0/host1/target1:0:4/1:0:4:0",
            ),
            ("sys/bus/scsi/devices/1:1:0:0/type", b"0\n"),
            ("sys/bus/scsi/devices/1:1:0:0/block/sda/size", b"8\n"),
            // An enclosure, the controller itself, and a disk of another host.
            ("sys/bus/scsi/devices/1:0:9:0/type", b"13\n"),
            ("sys/bus/scsi/devices/1:3:0:0/type", b"12\n"),
            ("sys/bus/scsi/devices/11:0:0:0/type", b"0\n"),
        ];
        files.extend(more.iter().map(|(path, content)| (path.as_ref(), *content)));
        tree_of_bytes(&files)
    }

    fn drive_files() -> Vec<(String, &'static [u8])> {
        let files: [(&str, &[u8]); 6] = [
            ("type", b"0\n"),
            ("vendor", b"HP      \n"),
            ("model", b"EG1200FCVBQ     \n"),
            ("rev", b"HPD3\n"),
            ("vpd_pg80", b"\0\x80\0\x08S4012345"),
            ("vpd_pg83", b"\0\x83\0\x0c\x01\x03\0\x08\x50\0\xc5\0\xa1\xb2\xc3\xd4"),
        ];
        files.into_iter().map(|(name, content)| (format!("{DRIVE}/{name}"), content)).collect()
    }

    #[test]
    fn drive_of_a_smart_array_is_listed_without_a_disk() {
        let machine = files("hpsa", &drive_files());
        let found = controllers(&machine);
        assert_eq!(
            (found.len(), found[0].driver.as_str(), machine.problems()),
            (1, "hpsa", vec![])
        );
        let drives: Vec<_> = found[0].drives().collect();
        assert_eq!((drives.len(), drives[0].hctl.as_deref()), (1, Some("1:0:4:0")));
        assert_eq!(drives[0].model.as_deref(), Some("EG1200FCVBQ"));
        assert_eq!(drives[0].serial.as_deref(), Some("S4012345"));
        assert_eq!(drives[0].wwn.as_deref(), Some("0x5000c500a1b2c3d4"));
        // Only the controller knows its health.
        assert_eq!((&drives[0].state, drives[0].media_errors), (&None, None));
        assert_eq!(found[0].volumes, None);
    }

    #[test]
    fn degraded_volume_of_integrated_raid_is_reported_and_adapter_without_volumes_is_no_controller()
    {
        assert_eq!(controllers(&files::<&str>("mpt3sas", &[])), []);
        let machine = files(
            "mpt3sas",
            &[
                ("sys/class/raid_devices/1:1:0:0/level", b"raid1\n"),
                ("sys/class/raid_devices/1:1:0:0/state", b"degraded\n"),
                ("sys/class/raid_devices/2:1:0:0/state", b"active\n"),
            ],
        );
        let found = controllers(&machine);
        let volumes: Vec<_> = found[0].volumes().collect();
        assert_eq!((volumes.len(), volumes[0].state.as_deref()), (1, Some("degraded")));
        assert_eq!(volumes[0].raid_level.as_deref(), Some("RAID 1"));
        assert_eq!(volumes[0].disk.as_deref(), Some("sda"));
    }

    #[test]
    fn more_devices_than_the_limit_are_a_problem() {
        let paths: Vec<String> = (0..=LIMIT_DEVICES)
            .map(|n| format!("sys/bus/scsi/devices/1:0:{}:{}/type", n / 8, n % 8))
            .collect();
        let mut all: Vec<(&str, &[u8])> = vec![
            ("sys/bus/pci/drivers/hpsa/0000:03:00.0", b"-> x"),
            ("sys/bus/pci/devices/0000:03:00.0/host1/uevent", b""),
            ("sys/bus/scsi/drivers/sd/uevent", b""),
        ];
        all.extend(paths.iter().map(|path| (path.as_str(), &b"0\n"[..])));
        let machine = tree_of_bytes(&all);
        assert_eq!(controllers(&machine)[0].drives().count(), LIMIT_DEVICES);
        assert_eq!(machine.problems()[0].found, "1025 devices of host1");
    }

    #[test]
    fn without_the_disk_driver_no_drive_is_hidden() {
        let machine = tree_of_bytes(&[
            ("sys/bus/pci/drivers/hpsa/0000:03:00.0", b"-> x"),
            ("sys/bus/pci/devices/0000:03:00.0/host1/uevent", b""),
            ("sys/bus/scsi/devices/1:0:4:0/type", b"0\n"),
        ]);
        assert_eq!(controllers(&machine)[0].drives, None);
    }
}
