//! RAID controllers: failed drives that a working volume hides from the kernel, and volumes that have
//! lost drives.

use super::table::{
    DISK_RAID_DRIVE_ERRORS, DISK_RAID_DRIVE_FAILED, DISK_RAID_DRIVE_FAILING,
    DISK_RAID_DRIVE_FOREIGN, DISK_RAID_MEMORY_ERRORS, DISK_RAID_VOLUME_DEGRADED,
    DISK_RAID_VOLUME_OFFLINE, Row,
};
use super::{Finding, Severity};
use crate::block::{RaidController, RaidDrive, RaidVolume};
use crate::collect::Inventory;
use crate::parts;

fn controllers(inventory: &Inventory) -> &[RaidController] {
    inventory.block.as_ref().map(|block| block.raid_controllers.as_slice()).unwrap_or_default()
}

/// Each drive with its controller.
fn drives(inventory: &Inventory) -> impl Iterator<Item = (&RaidController, &RaidDrive)> {
    let of = |controller| RaidController::drives(controller).map(move |drive| (controller, drive));
    controllers(inventory).iter().flat_map(of)
}

/// Drives that the controller has taken out of service.
pub(super) fn failed_drive(inventory: &Inventory) -> Vec<Finding> {
    let failed = |(controller, drive): (&RaidController, &RaidDrive)| {
        let state = drive.state.as_deref()?;
        let severity = match state {
            "failed" => Severity::Critical,
            "offline" | "unconfigured bad" => Severity::Warning,
            _ => return None,
        };
        let volumes = controller.volumes.iter().flatten();
        let has_it =
            |volume: &&RaidVolume| drive.device_id.is_some_and(|id| volume.drives.contains(&id));
        let of: Vec<&RaidVolume> = volumes.filter(has_it).collect();
        if state == "offline" && is_in_use(drive, &of) {
            return None;
        }
        let of: Vec<String> = of.into_iter().map(volume_name).collect();
        let member = if of.is_empty() {
            String::new()
        } else {
            format!(", a member of {}", of.join(" and "))
        };
        let evidence = format!("the RAID controller reports the drive as {state}{member}");
        let finding =
            DISK_RAID_DRIVE_FAILED.finding(Some(parts::drive(controller, drive)), evidence);
        Some(Finding { severity, ..finding })
    };
    drives(inventory).filter_map(failed).collect()
}

/// True if the system reads the drive itself, or volumes have lost nothing although it is a member. The emulated
/// controller of QEMU's guests calls every drive offline (`megasas_pd_get_info_submit`); a real one degrades the volume
/// of an offline drive.
fn is_in_use(drive: &RaidDrive, volumes: &[&RaidVolume]) -> bool {
    let is_optimal = |volume: &&RaidVolume| volume.state.as_deref() == Some("optimal");
    drive.disk.is_some() || (!volumes.is_empty() && volumes.iter().all(is_optimal))
}

/// A finding about each drive that `observed` describes.
fn of_drives(
    inventory: &Inventory,
    row: &Row,
    observed: impl Fn(&RaidDrive) -> Option<String>,
) -> Vec<Finding> {
    let finding = |(controller, drive): (&RaidController, &RaidDrive)| {
        Some(row.finding(Some(parts::drive(controller, drive)), observed(drive)?))
    };
    drives(inventory).filter_map(finding).collect()
}

/// Drives that predicted their own failure.
pub(super) fn failing_drive(inventory: &Inventory) -> Vec<Finding> {
    of_drives(inventory, &DISK_RAID_DRIVE_FAILING, |drive| {
        let n = drive.predictive_failures.filter(|n| *n > 0)?;
        Some(format!("the drive predicted its failure {n} times"))
    })
}

/// Drives with media errors.
pub(super) fn drive_errors(inventory: &Inventory) -> Vec<Finding> {
    of_drives(inventory, &DISK_RAID_DRIVE_ERRORS, |drive| {
        let n = drive.media_errors.filter(|n| *n > 0)?;
        Some(format!("the RAID controller counted {n} media errors"))
    })
}

/// Drives that contain the configuration of another controller.
pub(super) fn foreign_drive(inventory: &Inventory) -> Vec<Finding> {
    of_drives(inventory, &DISK_RAID_DRIVE_FOREIGN, |drive| {
        let evidence = "the drive contains the configuration of another RAID controller";
        (drive.is_foreign == Some(true)).then(|| evidence.to_owned())
    })
}

fn volume_name(volume: &RaidVolume) -> String {
    let disk = volume.disk.as_ref().map(|disk| format!(" ({disk})")).unwrap_or_default();
    format!("volume {}{disk}", volume.id)
}

/// Volumes that have lost drives.
pub(super) fn volume(inventory: &Inventory) -> Vec<Finding> {
    let lost = |controller: &RaidController, volume: &RaidVolume| {
        let state = volume.state.as_deref()?;
        let row = match state {
            "offline" => &DISK_RAID_VOLUME_OFFLINE,
            "degraded" | "partially degraded" => &DISK_RAID_VOLUME_DEGRADED,
            _ => return None,
        };
        let level = volume.raid_level.as_ref().map(|level| format!("{level} "));
        let missing = volume.n_missing_drives.filter(|n| *n > 0);
        let missing = missing.map(|n| format!("; missing drives: {n}")).unwrap_or_default();
        let evidence = format!("the {}volume is {state}{missing}", level.unwrap_or_default());
        Some(row.finding(Some(parts::volume(controller, volume)), evidence))
    };
    let of = |controller| {
        let volumes = RaidController::volumes(controller);
        volumes.filter_map(move |volume| lost(controller, volume))
    };
    controllers(inventory).iter().flat_map(of).collect()
}

/// Controllers whose cache memory loses data.
pub(super) fn memory(inventory: &Inventory) -> Vec<Finding> {
    let bad = |controller: &RaidController| {
        let n = controller.memory_uncorrectable_errors.filter(|n| *n > 0)?;
        let evidence = format!("{n} uncorrectable errors of the controller's cache memory");
        Some(DISK_RAID_MEMORY_ERRORS.finding(Some(parts::raid_controller(controller)), evidence))
    };
    controllers(inventory).iter().filter_map(bad).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn inventory(drive: &RaidDrive, volume: &RaidVolume) -> Inventory {
        let controller =
            json!({"pci_address": "0000:18:00.0", "drives": [drive], "volumes": [volume]});
        serde_json::from_value(json!({"block": {"raid_controllers": [controller]}})).unwrap()
    }

    fn drive(state: &str) -> RaidDrive {
        let place = json!({"device_id": 9, "enclosure": 32, "slot": 4, "state": state});
        let drive: RaidDrive = serde_json::from_value(place).unwrap();
        RaidDrive {
            media_errors: Some(0),
            predictive_failures: Some(0),
            is_foreign: Some(false),
            ..drive
        }
    }

    fn optimal() -> RaidVolume {
        RaidVolume { state: Some("optimal".to_owned()), drives: vec![9], ..RaidVolume::default() }
    }

    #[test]
    fn healthy_and_unknown_drives_and_volumes_raise_nothing() {
        let checks = [failed_drive, failing_drive, drive_errors, foreign_drive, volume, memory];
        for drive in [drive("online"), drive("jbod"), drive("hot spare"), RaidDrive::default()] {
            for volume in [optimal(), RaidVolume::default()] {
                let inventory = inventory(&drive, &volume);
                assert!(checks.iter().all(|check| check(&inventory).is_empty()));
            }
        }
    }

    #[test]
    fn offline_drive_that_the_system_reads_is_in_use_and_one_without_a_volume_is_not() {
        let found = |drive, volume| failed_drive(&inventory(drive, volume)).len();
        let degraded = RaidVolume { state: Some("degraded".to_owned()), ..optimal() };
        let passed_through = RaidDrive { disk: Some("sda".to_owned()), ..drive("offline") };
        let unused = RaidVolume { drives: Vec::new(), ..optimal() };
        assert_eq!((found(&passed_through, &degraded), found(&drive("offline"), &unused)), (0, 1));
    }

    #[test]
    fn volume_has_its_level_its_disk_and_how_many_drives_are_missing() {
        let degraded = RaidVolume {
            state: Some("degraded".to_owned()),
            raid_level: Some("RAID 5".to_owned()),
            disk: Some("sda".to_owned()),
            n_missing_drives: Some(1),
            ..RaidVolume::default()
        };
        let found = volume(&inventory(&drive("online"), &degraded)).remove(0);
        assert_eq!(found.evidence, "the RAID 5 volume is degraded; missing drives: 1");
        assert_eq!(found.part(), "volume 0 (sda), RAID controller 0000:18:00.0");
    }
}
