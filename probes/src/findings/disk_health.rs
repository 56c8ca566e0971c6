//! Disks that fail, wear out or are locked, and disks and arrays that lost a path or a member.

use super::disk::disks;
use super::{Finding, Observation, of_each, raise};
use crate::block::{Disk, DiskPath, Health, VirtualDevice};
use crate::collect::Inventory;
use crate::parts::{self, PartId, PartKind};

/// Disks whose own health data show a fault.
pub(super) fn health(inventory: &Inventory) -> Vec<Finding> {
    let checks: [Observation<Health>; 5] = [
        ("disk.health.failing", failing),
        ("disk.health.worn", worn),
        ("disk.health.bad_sectors", bad_sectors),
        ("disk.health.hot", hot),
        ("disk.late_commands", late),
    ];
    let of = |(code, observed): Observation<Health>| {
        of_each(disks(inventory), code, parts::disk, move |disk| observed(disk.health.as_ref()?))
    };
    checks.into_iter().flat_map(of).collect()
}

/// The disk predicts or reports its own failure. A mere temperature warning is another finding.
fn failing(health: &Health) -> Option<String> {
    let warnings = &health.critical_warnings;
    let evidence = match warnings.as_slice() {
        [] => "the disk predicts its own failure".to_owned(),
        _ => format!("the drive reports critical warnings: {}", warnings.join(", ")),
    };
    (health.is_passed == Some(false)).then_some(evidence)
}

/// The disk has used up its rated endurance.
fn worn(health: &Health) -> Option<String> {
    let used = health.used_percent.filter(|used| *used >= 100)?;
    Some(format!("{used} % of the rated endurance is used"))
}

/// The disk has data that cannot be read.
fn bad_sectors(health: &Health) -> Option<String> {
    let counts = [
        ("pending sectors", health.pending_sectors),
        ("uncorrectable sectors", health.uncorrectable_sectors),
        ("uncorrected read or write errors", health.media_errors),
    ];
    let known = counts.iter().filter_map(|(what, n)| Some((what, (*n).filter(|n| *n > 0)?)));
    let evidence: Vec<String> = known.map(|(what, n)| format!("{n} {what}")).collect();
    (!evidence.is_empty()).then(|| evidence.join(", "))
}

/// The disk is at or above its own warning temperature.
fn hot(health: &Health) -> Option<String> {
    let (celsius, limit) = (health.temperature_celsius, health.warning_temperature_celsius);
    let is_over = celsius.zip(limit).is_some_and(|(celsius, limit)| celsius >= limit);
    let is_warned = health.critical_warnings.iter().any(|warning| warning == "temperature");
    let evidence = match (celsius, limit) {
        (Some(celsius), Some(limit)) => format!("{celsius} °C; the disk warns at {limit} °C"),
        (Some(celsius), None) => format!("{celsius} °C; the disk warns that this is too hot"),
        (None, _) => "the disk warns that it is too hot".to_owned(),
    };
    (is_over || is_warned).then_some(evidence)
}

/// Commands of the disk timed out or were aborted since boot.
fn late(health: &Health) -> Option<String> {
    let n = health.late_commands.filter(|n| *n > 0)?;
    Some(format!("{n} commands timed out or were aborted"))
}

/// Disks whose first bytes, middle or end cannot be read. A passive path to a LUN returns errors too, and a locked disk has its own
/// finding.
pub(super) fn unreadable(inventory: &Inventory) -> Vec<Finding> {
    let finding = |disk: &Disk| {
        let first = |why: &String| format!("its first bytes cannot be read: {why}");
        // A zone that was never written may return errors.
        let sample = disk.sample_failure.clone().filter(|_| disk.zoned.is_none());
        of_unreadable(disk, disk.unreadable_because.as_ref().map(first).or(sample)?)
    };
    disks(inventory).iter().filter_map(finding).collect()
}

/// The finding about a disk that could not be read; `None` for a disk that is expected to refuse.
pub fn of_unreadable(disk: &Disk, evidence: String) -> Option<Finding> {
    let is_ignored = disk.is_removable == Some(true)
        || disk.is_locked()
        || disk.shared_identities().next().is_some();
    (!is_ignored).then(|| raise("disk.unreadable", Some(parts::disk(disk)), evidence))
}

/// Disks that an ATA password or a TCG lock keeps from being read or written.
pub(super) fn locked(inventory: &Inventory) -> Vec<Finding> {
    let locked = |disk: &Disk| {
        let (evidence, advice) = if disk.is_locked_by_password() {
            let advice = "Unlock it in the firmware setup, or erase it with its master password.";
            ("locked by an ATA password".to_owned(), advice)
        } else {
            let advice =
                "Unlock it, or revert it with the PSID printed on its label, which erases it.";
            (disk.tcg.as_ref()?.obstacle()?, advice)
        };
        let finding = raise("disk.locked", Some(parts::disk(disk)), evidence);
        Some(Finding { advice: advice.to_owned(), ..finding })
    };
    disks(inventory).iter().filter_map(locked).collect()
}

/// LUNs and namespaces that have lost a path.
pub(super) fn path_lost(inventory: &Inventory) -> Vec<Finding> {
    let is_lost = |state: &str| !["live", "running"].contains(&state);
    let describe = |path: &DiskPath| {
        let state = path.state.as_deref().filter(|state| is_lost(state))?;
        let target = path.target.as_ref().map(|target| format!(" to {}", target.name));
        Some(format!("{}{} is {state}", path.name, target.unwrap_or_default()))
    };
    of_each(disks(inventory), "disk.path_lost", parts::disk, |disk| {
        let lost: Vec<String> = disk.paths.iter().filter_map(describe).collect();
        let (n, n_lost) = (disk.paths.len(), lost.len());
        (n_lost > 0).then(|| format!("{n_lost} of {n} paths lost: {}", lost.join(", ")))
    })
}

/// Arrays that lack members.
pub(super) fn degraded_array(inventory: &Inventory) -> Vec<Finding> {
    let arrays = inventory.block.iter().flat_map(|block| &block.r#virtual);
    let degraded = |array: &VirtualDevice| {
        let n_missing = array.n_missing_members.filter(|n| *n > 0)?;
        let kind = array.kind.as_deref().unwrap_or("array");
        let members = match array.members.as_slice() {
            [] => String::new(),
            members => format!(" on {}", members.join(", ")),
        };
        let plural = if n_missing == 1 { "" } else { "s" };
        let evidence = format!("the {kind}{members} is missing {n_missing} member{plural}");
        let part = PartId::called(PartKind::Other, &array.name);
        Some(raise("disk.array_degraded", Some(part), evidence))
    };
    arrays.filter_map(degraded).collect()
}
