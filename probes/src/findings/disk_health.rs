//! Disks that fail, wear out, lose sectors, paths or members: what their health says.

use super::disk::{disks, locator};
use super::{Finding, Severity};
use crate::block::{Disk, Health};
use crate::collect::Inventory;

const REPLACE: &str = "save what is on the disk, and replace it";

fn finding(code: &str, severity: Severity, disk: &Disk, evidence: String, advice: &str) -> Finding {
    Finding {
        code: code.to_owned(),
        severity,
        component: "disk".to_owned(),
        locator: Some(locator(disk)),
        evidence,
        advice: advice.to_owned(),
    }
}

fn with_health(inventory: &Inventory) -> impl Iterator<Item = (&Disk, &Health)> {
    disks(inventory).iter().filter_map(|disk| Some((disk, disk.health.as_ref()?)))
}

/// A disk that says itself that it fails. That it is only too warm is another finding.
pub(super) fn failing(inventory: &Inventory) -> Vec<Finding> {
    let failing = |(disk, health): (&Disk, &Health)| {
        let warnings = &health.critical_warnings;
        let is_failing = health.is_passed == Some(false);
        let evidence = match warnings.as_slice() {
            [] => "the disk says that it is about to fail".to_owned(),
            _ => format!("the drive's critical warnings: {}", warnings.join(", ")),
        };
        let code = "disk.health.failing";
        is_failing.then(|| finding(code, Severity::Critical, disk, evidence, REPLACE))
    };
    with_health(inventory).filter_map(failing).collect()
}

/// A disk whose life, as its maker foresaw it, is over.
pub(super) fn worn(inventory: &Inventory) -> Vec<Finding> {
    let worn = |(disk, health): (&Disk, &Health)| {
        let used = health.used_percent.filter(|used| *used >= 100)?;
        let evidence = format!("{used} % of the life that its maker foresaw is used");
        let advice = "plan to replace the disk; it may become read-only";
        Some(finding("disk.health.worn", Severity::Warning, disk, evidence, advice))
    };
    with_health(inventory).filter_map(worn).collect()
}

/// A disk with places that cannot be read.
pub(super) fn bad_sectors(inventory: &Inventory) -> Vec<Finding> {
    let bad = |(disk, health): (&Disk, &Health)| {
        let counts = [
            ("sectors that wait to be replaced", health.pending_sectors),
            ("sectors that cannot be corrected", health.uncorrectable_sectors),
            ("reads or writes that could not be corrected", health.media_errors),
        ];
        let known = counts.iter().filter_map(|(what, n)| Some((what, (*n).filter(|n| *n > 0)?)));
        let evidence: Vec<String> = known.map(|(what, n)| format!("{n} {what}")).collect();
        let code = "disk.health.bad_sectors";
        (!evidence.is_empty())
            .then(|| finding(code, Severity::Warning, disk, evidence.join(", "), REPLACE))
    };
    with_health(inventory).filter_map(bad).collect()
}

/// A disk that is as warm as it calls too warm.
pub(super) fn hot(inventory: &Inventory) -> Vec<Finding> {
    let hot = |(disk, health): (&Disk, &Health)| {
        let (celsius, limit) = (health.temperature_celsius, health.warning_temperature_celsius);
        let is_over = celsius.zip(limit).is_some_and(|(celsius, limit)| celsius >= limit);
        let is_warned = health.critical_warnings.iter().any(|warning| warning == "temperature");
        let limit = limit.map(|limit| format!(", too warm from {limit} °C on")).unwrap_or_default();
        let evidence = match celsius {
            Some(celsius) => format!("{celsius} °C{limit}"),
            None => "the drive says that it is too warm".to_owned(),
        };
        let advice = "look at fans, blanks and the air's way through the chassis";
        let code = "disk.health.hot";
        (is_over || is_warned).then(|| finding(code, Severity::Warning, disk, evidence, advice))
    };
    with_health(inventory).filter_map(hot).collect()
}

/// A disk that has left commands unanswered, or that needed the error handler, since the kernel found it.
pub(super) fn late(inventory: &Inventory) -> Vec<Finding> {
    let late = |(disk, health): (&Disk, &Health)| {
        let n = health.late_commands.filter(|n| *n > 0)?;
        let evidence = format!("{n} commands were not answered in time or had to be aborted");
        let advice = "look at cable, backplane and disk; the kernel log names the commands";
        Some(finding("disk.late_commands", Severity::Warning, disk, evidence, advice))
    };
    with_health(inventory).filter_map(late).collect()
}

/// A disk that an ATA password or a TCG lock keeps from being read or written.
pub(super) fn locked(inventory: &Inventory) -> Vec<Finding> {
    let locked = |disk: &Disk| {
        let has_password =
            disk.security.as_ref().is_some_and(|security| security.is_locked == Some(true));
        let (evidence, advice) = if has_password {
            let advice = "unlock it in the firmware's setup, or erase it by its master password";
            ("an ATA password locks the disk".to_owned(), advice)
        } else {
            let advice = "unlock it, or revert it by the PSID on its label, which erases it";
            (disk.tcg.as_ref()?.obstacle()?, advice)
        };
        Some(finding("disk.locked", Severity::Warning, disk, evidence, advice))
    };
    disks(inventory).iter().filter_map(locked).collect()
}

/// A LUN or namespace of which a path is lost.
pub(super) fn path_lost(inventory: &Inventory) -> Vec<Finding> {
    let lost = |disk: &Disk| {
        let is_lost = |state: &str| !["live", "running"].contains(&state);
        let lost = disk.paths.iter().filter(|path| path.state.as_deref().is_some_and(is_lost));
        let lost: Vec<String> = lost
            .map(|path| {
                let target = path.target.as_ref().map(|target| format!(" to {}", target.name));
                let state = path.state.as_deref().unwrap_or_default();
                format!("{}{} is {state}", path.name, target.unwrap_or_default())
            })
            .collect();
        let evidence = format!("of {} paths {}", disk.paths.len(), lost.join(", "));
        let advice = "look at cable, switch port and controller of the path";
        (!lost.is_empty())
            .then(|| finding("disk.path_lost", Severity::Warning, disk, evidence, advice))
    };
    disks(inventory).iter().filter_map(lost).collect()
}

/// An array that lacks members.
pub(super) fn degraded_array(inventory: &Inventory) -> Vec<Finding> {
    let arrays = inventory.block.iter().flat_map(|block| &block.r#virtual);
    arrays
        .filter_map(|array| {
            let n_missing = array.n_missing_members.filter(|n| *n > 0)?;
            let kind = array.kind.as_deref().unwrap_or("array");
            Some(Finding {
                code: "disk.array_degraded".to_owned(),
                severity: Severity::Warning,
                component: "disk".to_owned(),
                locator: Some(array.name.clone()),
                evidence: format!(
                    "the {kind} of {} lacks {n_missing} members",
                    array.members.join(", ")
                ),
                advice: "find the disk that dropped out, and replace it or add it again".to_owned(),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{Block, DiskBay, DiskPath, DiskSecurity, DiskTcg, VirtualDevice};

    fn inventory(disk: Disk) -> Inventory {
        let disk = Disk { name: "sda".to_owned(), serial: Some("Z1".to_owned()), ..disk };
        Inventory {
            block: Some(Block { disks: vec![disk], ..Block::default() }),
            ..Inventory::default()
        }
    }

    fn of(health: Health) -> Inventory {
        inventory(Disk { health: Some(health), ..Disk::default() })
    }

    #[test]
    fn a_failing_disk_is_critical_and_one_that_is_only_warm_is_not() {
        let mut health = Health { is_passed: Some(false), ..Health::default() };
        let found = failing(&of(health.clone()));
        assert_eq!(found[0].severity, Severity::Critical);
        assert_eq!(found[0].locator.as_deref(), Some("sda (serial Z1)"));
        health.is_passed = Some(true);
        health.critical_warnings = vec!["temperature".to_owned()];
        assert!(failing(&of(health.clone())).is_empty());
        assert_eq!(hot(&of(health.clone())).len(), 1);
        health.is_passed = Some(false);
        health.critical_warnings.push("spare low".to_owned());
        assert!(failing(&of(health))[0].evidence.contains("temperature, spare low"));
    }

    #[test]
    fn wear_bad_sectors_heat_and_late_commands_are_warnings_with_figures() {
        let health = Health {
            used_percent: Some(112),
            pending_sectors: Some(8),
            media_errors: Some(0),
            temperature_celsius: Some(71),
            warning_temperature_celsius: Some(70),
            late_commands: Some(2),
            ..Health::default()
        };
        let inventory = of(health);
        assert!(worn(&inventory)[0].evidence.starts_with("112 %"));
        assert_eq!(bad_sectors(&inventory)[0].evidence, "8 sectors that wait to be replaced");
        assert_eq!(hot(&inventory)[0].evidence, "71 °C, too warm from 70 °C on");
        assert!(late(&inventory)[0].evidence.starts_with("2 commands"));
    }

    #[test]
    fn a_sound_disk_or_one_that_says_nothing_gives_no_finding() {
        let sound = Health {
            is_passed: Some(true),
            used_percent: Some(99),
            pending_sectors: Some(0),
            temperature_celsius: Some(40),
            warning_temperature_celsius: Some(70),
            ..Health::default()
        };
        for health in [sound, Health::default()] {
            let inventory = of(health);
            for check in [failing, worn, bad_sectors, hot, late, locked, path_lost] {
                assert_eq!(check(&inventory), []);
            }
        }
    }

    #[test]
    fn locked_disks_lost_paths_and_degraded_arrays_are_named() {
        let path = |name: &str, state: &str| DiskPath {
            name: name.to_owned(),
            state: Some(state.to_owned()),
            ..DiskPath::default()
        };
        let mut inventory = inventory(Disk {
            security: Some(DiskSecurity { is_locked: Some(true), ..DiskSecurity::default() }),
            bay: Some(DiskBay { slot: Some(3), ..DiskBay::default() }),
            paths: vec![path("nvme0c0n1", "live"), path("nvme0c1n1", "dead")],
            ..Disk::default()
        });
        assert_eq!(locked(&inventory)[0].locator.as_deref(), Some("sda (serial Z1, bay 3)"));
        let mut opal = inventory.clone();
        if let Some(disk) = opal.block.as_mut().and_then(|block| block.disks.first_mut()) {
            disk.security = None;
            disk.tcg = Some(DiskTcg { is_locked: Some(true), ..DiskTcg::default() });
        }
        assert!(locked(&opal)[0].evidence.starts_with("locked by TCG"));
        assert_eq!(path_lost(&inventory)[0].evidence, "of 2 paths nvme0c1n1 is dead");
        if let Some(block) = &mut inventory.block {
            block.r#virtual.push(VirtualDevice {
                name: "md0".to_owned(),
                kind: Some("raid1".to_owned()),
                members: vec!["sdb".to_owned()],
                n_missing_members: Some(1),
                ..VirtualDevice::default()
            });
        }
        assert_eq!(degraded_array(&inventory)[0].evidence, "the raid1 of sdb lacks 1 members");
    }
}
