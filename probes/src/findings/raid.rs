//! What RAID controllers know and the kernel does not: drives that failed behind a volume that can still
//! be read, volumes that have lost members.

use super::{Finding, Severity};
use crate::block::{RaidController, RaidDrive, RaidVolume};
use crate::collect::Inventory;

fn controllers(inventory: &Inventory) -> &[RaidController] {
    inventory.block.as_ref().map(|block| block.raid_controllers.as_slice()).unwrap_or_default()
}

fn finding(
    code: &str,
    severity: Severity,
    locator: String,
    evidence: String,
    advice: &str,
) -> Finding {
    Finding {
        code: code.to_owned(),
        severity,
        component: "disk".to_owned(),
        locator: Some(locator),
        evidence,
        advice: advice.to_owned(),
    }
}

/// Each drive with its controller.
fn drives(inventory: &Inventory) -> impl Iterator<Item = (&RaidController, &RaidDrive)> {
    let of = |controller| RaidController::drives(controller).map(move |drive| (controller, drive));
    controllers(inventory).iter().flat_map(of)
}

/// Slot and enclosure as they are printed, then what tells the drive from others.
fn drive_locator(controller: &RaidController, drive: &RaidDrive) -> String {
    let place = match (drive.enclosure, drive.slot) {
        (Some(enclosure), Some(slot)) => format!("slot {slot} of enclosure {enclosure}"),
        (None, Some(slot)) => format!("slot {slot}"),
        _ => match (drive.device_id, &drive.hctl) {
            (Some(id), _) => format!("drive {id}"),
            (None, hctl) => format!("drive {}", hctl.as_deref().unwrap_or_default()),
        },
    };
    let serial = drive.serial.as_ref().map(|serial| format!("serial {serial}, "));
    let address = &controller.pci_address;
    format!("{place} ({}RAID controller {address})", serial.unwrap_or_default())
}

/// A drive that the controller has given up.
pub(super) fn failed_drive(inventory: &Inventory) -> Vec<Finding> {
    let failed = |(controller, drive): (&RaidController, &RaidDrive)| {
        let state = drive.state.as_deref()?;
        let severity = match state {
            "failed" => Severity::Critical,
            "offline" | "unconfigured bad" => Severity::Warning,
            _ => return None,
        };
        let volumes = controller.volumes.iter().flatten();
        let of =
            volumes.filter(|volume| drive.device_id.is_some_and(|id| volume.drives.contains(&id)));
        let of: Vec<String> = of.map(volume_name).collect();
        let member = if of.is_empty() {
            String::new()
        } else {
            format!(", a member of {}", of.join(" and "))
        };
        let evidence = format!("the RAID controller calls the drive {state}{member}");
        let advice = "replace the drive; the controller rebuilds the volume onto the new one";
        let locator = drive_locator(controller, drive);
        Some(finding("disk.raid_drive_failed", severity, locator, evidence, advice))
    };
    drives(inventory).filter_map(failed).collect()
}

/// A drive that says itself that it is about to fail.
pub(super) fn failing_drive(inventory: &Inventory) -> Vec<Finding> {
    let failing = |(controller, drive): (&RaidController, &RaidDrive)| {
        let n = drive.predictive_failures.filter(|n| *n > 0)?;
        let evidence = format!("the drive has said {n} times that it is about to fail");
        let advice = "replace the drive before it fails, one drive of a volume at a time";
        let locator = drive_locator(controller, drive);
        let code = "disk.raid_drive_failing";
        Some(finding(code, Severity::Warning, locator, evidence, advice))
    };
    drives(inventory).filter_map(failing).collect()
}

/// A drive with places that could not be read or written.
pub(super) fn drive_errors(inventory: &Inventory) -> Vec<Finding> {
    let bad = |(controller, drive): (&RaidController, &RaidDrive)| {
        let n = drive.media_errors.filter(|n| *n > 0)?;
        let evidence = format!("the RAID controller has counted {n} errors of the drive's medium");
        let advice = "plan to replace the drive";
        let locator = drive_locator(controller, drive);
        Some(finding("disk.raid_drive_errors", Severity::Warning, locator, evidence, advice))
    };
    drives(inventory).filter_map(bad).collect()
}

/// A drive that carries the volumes of another controller.
pub(super) fn foreign_drive(inventory: &Inventory) -> Vec<Finding> {
    let foreign = |(controller, drive): (&RaidController, &RaidDrive)| {
        let evidence = "the drive holds the configuration of another RAID controller".to_owned();
        let advice = "import or clear the foreign configuration in the controller's setup";
        let locator = drive_locator(controller, drive);
        finding("disk.raid_drive_foreign", Severity::Info, locator, evidence, advice)
    };
    let all = drives(inventory).filter(|(_, drive)| drive.is_foreign == Some(true));
    all.map(foreign).collect()
}

fn volume_name(volume: &RaidVolume) -> String {
    let disk = volume.disk.as_ref().map(|disk| format!(" ({disk})")).unwrap_or_default();
    format!("volume {}{disk}", volume.id)
}

/// A volume that has lost members.
pub(super) fn volume(inventory: &Inventory) -> Vec<Finding> {
    let lost = |controller: &RaidController, volume: &RaidVolume| {
        let state = volume.state.as_deref()?;
        let (code, severity) = match state {
            "offline" => ("disk.raid_volume_offline", Severity::Critical),
            "degraded" | "partially degraded" => ("disk.raid_volume_degraded", Severity::Warning),
            _ => return None,
        };
        let level = volume.raid_level.as_ref().map(|level| format!(", {level},"));
        let missing = volume.n_missing_drives.filter(|n| *n > 0);
        let missing = missing.map(|n| format!("; {n} members are missing")).unwrap_or_default();
        let level = level.unwrap_or_default();
        let evidence = format!("the volume{level} is {state}{missing}");
        let locator =
            format!("{}, RAID controller {}", volume_name(volume), controller.pci_address);
        let advice = "find the drive that failed or was pulled, and replace it";
        Some(finding(code, severity, locator, evidence, advice))
    };
    let of = |controller| {
        let volumes = RaidController::volumes(controller);
        volumes.filter_map(move |volume| lost(controller, volume))
    };
    controllers(inventory).iter().flat_map(of).collect()
}

/// A controller whose cache memory loses data.
pub(super) fn memory(inventory: &Inventory) -> Vec<Finding> {
    let bad = |controller: &RaidController| {
        let n = controller.memory_uncorrectable_errors.filter(|n| *n > 0)?;
        let evidence = format!("{n} errors of the controller's memory could not be corrected");
        let advice = "replace the controller or its memory; data in its cache may be wrong";
        let locator = format!("RAID controller {}", controller.pci_address);
        Some(finding("disk.raid_memory_errors", Severity::Critical, locator, evidence, advice))
    };
    controllers(inventory).iter().filter_map(bad).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Block;

    fn inventory(drive: RaidDrive, volume: RaidVolume) -> Inventory {
        let controller = RaidController {
            pci_address: "0000:18:00.0".to_owned(),
            drives: Some(vec![drive]),
            volumes: Some(vec![volume]),
            ..RaidController::default()
        };
        let block = Block { raid_controllers: vec![controller], ..Block::default() };
        Inventory { block: Some(block), ..Inventory::default() }
    }

    fn drive(state: &str) -> RaidDrive {
        RaidDrive {
            device_id: Some(9),
            enclosure: Some(32),
            slot: Some(4),
            state: Some(state.to_owned()),
            serial: Some("WFK0A1B2".to_owned()),
            media_errors: Some(0),
            predictive_failures: Some(0),
            is_foreign: Some(false),
            ..RaidDrive::default()
        }
    }

    fn optimal() -> RaidVolume {
        RaidVolume { state: Some("optimal".to_owned()), drives: vec![9], ..RaidVolume::default() }
    }

    #[test]
    fn a_failed_drive_behind_an_optimal_volume_is_critical_and_named_by_its_slot() {
        let found = failed_drive(&inventory(drive("failed"), optimal()));
        assert_eq!(found[0].severity, Severity::Critical);
        assert_eq!(
            found[0].locator.as_deref(),
            Some("slot 4 of enclosure 32 (serial WFK0A1B2, RAID controller 0000:18:00.0)")
        );
        assert!(found[0].evidence.ends_with("failed, a member of volume 0"), "{found:?}");
        assert_eq!(
            failed_drive(&inventory(drive("offline"), optimal()))[0].severity,
            Severity::Warning
        );
    }

    #[test]
    fn predicted_failures_and_errors_are_warnings_and_foreign_drives_are_worth_knowing() {
        let bad = RaidDrive {
            predictive_failures: Some(3),
            media_errors: Some(12),
            is_foreign: Some(true),
            ..drive("online")
        };
        let inventory = inventory(bad, optimal());
        assert!(failing_drive(&inventory)[0].evidence.contains("3 times"));
        assert!(drive_errors(&inventory)[0].evidence.contains("12 errors"));
        assert_eq!(foreign_drive(&inventory)[0].severity, Severity::Info);
    }

    #[test]
    fn a_controller_whose_memory_loses_data_is_critical() {
        let with = |n| {
            let controller = RaidController {
                pci_address: "0000:18:00.0".to_owned(),
                memory_uncorrectable_errors: Some(n),
                ..RaidController::default()
            };
            let block = Block { raid_controllers: vec![controller], ..Block::default() };
            memory(&Inventory { block: Some(block), ..Inventory::default() })
        };
        let found = with(2);
        assert_eq!(
            (found[0].severity, found[0].locator.as_deref()),
            (Severity::Critical, Some("RAID controller 0000:18:00.0"))
        );
        assert!(found[0].evidence.starts_with("2 errors"), "{found:?}");
        assert!(with(0).is_empty());
    }

    #[test]
    fn a_volume_that_lost_members_is_a_warning_and_one_that_is_gone_is_critical() {
        let degraded = RaidVolume {
            state: Some("degraded".to_owned()),
            raid_level: Some("RAID 5".to_owned()),
            disk: Some("sda".to_owned()),
            n_missing_drives: Some(1),
            ..RaidVolume::default()
        };
        let found = volume(&inventory(drive("online"), degraded.clone()));
        assert_eq!(found[0].evidence, "the volume, RAID 5, is degraded; 1 members are missing");
        assert_eq!(
            found[0].locator.as_deref(),
            Some("volume 0 (sda), RAID controller 0000:18:00.0")
        );
        let offline = RaidVolume { state: Some("offline".to_owned()), ..degraded };
        assert_eq!(volume(&inventory(drive("online"), offline))[0].severity, Severity::Critical);
    }

    #[test]
    fn sound_drives_and_volumes_or_those_of_which_nothing_is_known_give_no_finding() {
        let checks = [failed_drive, failing_drive, drive_errors, foreign_drive, volume, memory];
        for drive in [drive("online"), drive("jbod"), drive("hot spare"), RaidDrive::default()] {
            for volume in [optimal(), RaidVolume::default()] {
                let inventory = inventory(drive.clone(), volume);
                assert!(checks.iter().all(|check| check(&inventory).is_empty()));
            }
        }
    }
}
