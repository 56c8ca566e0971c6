//! RAID controllers: failed drives that a working volume hides from the kernel, and volumes that have
//! lost drives.

use super::{Finding, Observation, Severity, of_each, raise};
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
            raise("disk.raid_drive_failed", Some(parts::drive(controller, drive)), evidence);
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

/// Drives that predicted their own failure, that have media errors, or that contain the configuration of another
/// controller.
pub(super) fn drives_of_controllers(inventory: &Inventory) -> Vec<Finding> {
    let checks: [Observation<RaidDrive>; 3] = [
        ("disk.raid_drive_failing", |drive| {
            let n = drive.predictive_failures.filter(|n| *n > 0)?;
            Some(format!("the drive predicted its failure {n} times"))
        }),
        ("disk.raid_drive_errors", |drive| {
            let n = drive.media_errors.filter(|n| *n > 0)?;
            Some(format!("the RAID controller counted {n} media errors"))
        }),
        ("disk.raid_drive_foreign", |drive| {
            let evidence = "the drive contains the configuration of another RAID controller";
            (drive.is_foreign == Some(true)).then(|| evidence.to_owned())
        }),
    ];
    let of = |(code, observed): Observation<RaidDrive>| {
        of_each(
            drives(inventory),
            code,
            |(of, drive)| parts::drive(of, drive),
            move |(_, drive)| observed(drive),
        )
    };
    checks.into_iter().flat_map(of).collect()
}

fn volume_name(volume: &RaidVolume) -> String {
    let disk = volume.disk.as_ref().map(|disk| format!(" ({disk})")).unwrap_or_default();
    format!("volume {}{disk}", volume.id)
}

/// Volumes that have lost drives.
pub(super) fn volume(inventory: &Inventory) -> Vec<Finding> {
    let lost = |controller: &RaidController, volume: &RaidVolume| {
        let state = volume.state.as_deref()?;
        let code = match state {
            "offline" => "disk.raid_volume_offline",
            "degraded" | "partially degraded" => "disk.raid_volume_degraded",
            _ => return None,
        };
        let level = volume.raid_level.as_ref().map(|level| format!("{level} "));
        let missing = volume.n_missing_drives.filter(|n| *n > 0);
        let missing = missing.map(|n| format!("; missing drives: {n}")).unwrap_or_default();
        let evidence = format!("the {}volume is {state}{missing}", level.unwrap_or_default());
        Some(raise(code, Some(parts::volume(controller, volume)), evidence))
    };
    let of = |controller| {
        let volumes = RaidController::volumes(controller);
        volumes.filter_map(move |volume| lost(controller, volume))
    };
    controllers(inventory).iter().flat_map(of).collect()
}

/// Controllers whose cache memory loses data.
pub(super) fn memory(inventory: &Inventory) -> Vec<Finding> {
    let code = "disk.raid_memory_errors";
    of_each(controllers(inventory), code, parts::raid_controller, |controller| {
        let n = controller.memory_uncorrectable_errors.filter(|n| *n > 0)?;
        Some(format!("{n} uncorrectable errors of the controller's cache memory"))
    })
}
