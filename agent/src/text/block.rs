//! `block storage (…)`: physical disks with their partitions, RAID controllers, virtual devices.

use probes::block::{Block, Disk, Filesystem, Health, Partition, VirtualDevice};

use super::page::{Page, Tone, counted, heading, nonzero, pairs, with};
use super::unit;

pub(super) fn block(page: &mut Page, block: &Block) {
    let parts = [
        block.n_disks.map(|n| counted(n, "disk")),
        block.physical_bytes.map(|bytes| format!("{} physical storage", unit::disk(bytes))),
    ];
    page.section(&heading("block storage", parts.into_iter().flatten()));
    page.each(&block.disks, disk);
    page.each(&block.raid_controllers, super::raid::controller);
    page.each(&block.r#virtual, virtual_device);
}

fn disk(page: &mut Page, disk: &Disk) {
    let kind = match disk.rotational {
        // `rotational` of an optical drive describes its medium.
        _ if disk.name.starts_with("sr") => " optical",
        Some(true) => " HDD",
        Some(false) => " SSD",
        None => "",
    };
    let line = format!(
        "{}{kind}{}{}{}{}{}",
        disk.name,
        heading("", disk.size_bytes.map(unit::disk)),
        with(" ", disk.transport.as_ref()),
        place(disk),
        pairs!(disk; vendor, model, firmware, serial, "WWN" wwn),
        if disk.is_removable == Some(true) { " removable=true" } else { "" },
    );
    page.line(1, &line);
    page.lines(3, details(disk));
    page.each(&disk.health, health_line);
    if !disk.eligible {
        let reasons = disk.not_eligible_because.join("; ");
        page.toned(Tone::Quiet, 3, &format!("not eligible: {reasons}"));
    }
    if let Some(filesystem) = &disk.filesystem {
        page.line(2, &format!("whole disk{}", content(Some(filesystem), &disk.mounted_at)));
    }
    page.each(&disk.partitions, partition);
    for path in &disk.paths {
        let target = with(" target=", path.target.as_ref().map(|target| &target.name));
        let pairs = pairs!(path; state, "access" ana_state, controller);
        page.line(2, &format!("path {}{pairs}{target}", path.name));
    }
}

/// Details for technicians: location, construction, content.
fn details(disk: &Disk) -> Vec<String> {
    let bay = disk.bay.as_ref().and_then(|bay| {
        let light = if bay.is_fault_on == Some(true) { ", fault light on" } else { "" };
        let of = with(" of enclosure ", bay.enclosure.as_ref());
        Some(format!("bay {}{of}{light}", bay.name()?))
    });
    let volume = (disk.is_raid_volume == Some(true)).then(|| {
        let level = with(" ", disk.raid_level.as_ref());
        let driver = with(" driver=", disk.controller_driver.as_ref());
        format!("volume of a RAID controller{level}{driver}")
    });
    let vmd =
        disk.vmd_address.as_ref().map(|address| format!("attached through the VMD at {address}"));
    let target = disk.target.as_ref();
    let target = target.map(|it| format!("target {}{}", it.name, with(" at ", it.portal.as_ref())));
    let blocks = (disk.logical_block_bytes == Some(4096)).then(|| "4096-byte blocks".into());
    let system = (!disk.existing_os.is_empty())
        .then(|| format!("appears to contain {}", disk.existing_os.join(" and ")));
    let known = [bay, volume, vmd, target, blocks, locks(disk), system].into_iter().flatten();
    let is_listed = |issue: &&String| disk.not_eligible_because.iter().any(|b| b.contains(*issue));
    let issues = disk.identity_issues.iter().filter(|issue| !is_listed(issue));
    known.chain(issues.map(|issue| format!("identity: {issue}"))).collect()
}

/// Formats the locks of a self-encrypting disk, once they have been enabled.
fn locks(disk: &Disk) -> Option<String> {
    let tcg = disk.tcg.as_ref()?;
    let state = tcg.obstacle().or_else(|| {
        let is_on = tcg.is_locking_enabled == Some(true);
        is_on.then(|| format!("locking enabled, {}", tcg.standards.join(", ")))
    })?;
    Some(format!("self-encrypting: {state}"))
}

fn health_line(page: &mut Page, health: &Health) {
    let mut facts: Vec<String> = Vec::new();
    let mut add = |fact: Option<String>| facts.extend(fact);
    add(health.is_passed.map(|is| if is { "passed".into() } else { "FAILING".into() }));
    add((!health.critical_warnings.is_empty()).then(|| health.critical_warnings.join(" and ")));
    add(health.temperature_celsius.map(|celsius| format!("{celsius} °C")));
    add(health.used_percent.map(|used| format!("{used} % used")));
    let limit = health.spare_threshold_percent.map(|limit| format!(" (minimum {limit} %)"));
    let limit = limit.unwrap_or_default();
    add(health.available_spare_percent.map(|spare| format!("{spare} % spare{limit}")));
    add(health.power_on_hours.map(|hours| format!("{hours} h")));
    facts.extend(nonzero(&[
        (health.media_errors, "media errors"),
        (health.reallocated_sectors, "reallocated"),
        (health.pending_sectors, "pending"),
        (health.late_commands, "late commands"),
    ]));
    if !facts.is_empty() {
        let is_bad = health.is_passed == Some(false);
        let tone = if is_bad { Tone::Critical } else { Tone::Plain };
        page.toned(tone, 3, &format!("health: {}", facts.join(", ")));
    }
}

/// Formats ` [@path (node #0)]`, or the known part of it.
fn place(disk: &Disk) -> String {
    let node = disk.numa_node.map(|node| format!("(node #{node})"));
    let path = disk.by_path.as_ref().or(disk.pci_address.as_ref()).map(|path| format!("@{path}"));
    let known: Vec<String> = path.into_iter().chain(node).collect();
    if known.is_empty() { String::new() } else { format!(" [{}]", known.join(" ")) }
}

fn partition(page: &mut Page, partition: &Partition) {
    let size = heading("", partition.size_bytes.map(unit::disk));
    let content = content(partition.filesystem.as_ref(), &partition.mounted_at);
    page.line(2, &format!("{}{size}{content}{}", partition.name, pairs!(partition; label)));
}

fn content(filesystem: Option<&Filesystem>, mounted_at: &[String]) -> String {
    let kind = filesystem.map(|f| format!(" [{}]", f.kind)).unwrap_or_default();
    format!("{kind}{}", with(" mounted@", mounted_at.first()))
}

fn virtual_device(page: &mut Page, device: &VirtualDevice) {
    let members = (!device.members.is_empty()).then(|| device.members.join(", "));
    let members = with(" of ", members);
    let size = heading("", device.size_bytes.map(unit::disk));
    let kind = device.kind.as_deref().unwrap_or("virtual");
    page.toned(Tone::Quiet, 1, &format!("{} {kind}{size}{members}", device.name));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::page::tests::shown;
    use serde_json::json;

    #[test]
    fn disks_that_could_not_be_listed_are_not_counted() {
        for (n_disks, expected) in [(json!(null), "\n"), (json!(0), " (0 disks)\n")] {
            let text = shown(block, json!({"n_disks": n_disks}));
            assert!(text.ends_with(&format!("#\nblock storage{expected}")), "{text}");
        }
    }

    #[test]
    fn locks_are_shown_once_they_are_enabled() {
        let of = |is_enabled: bool, is_locked: bool| {
            let tcg = json!({
                "standards": ["Opal 2"], "is_locking_enabled": is_enabled, "is_locked": is_locked,
            });
            let disk = serde_json::from_value(json!({"tcg": tcg})).unwrap();
            details(&disk).join("; ")
        };
        assert_eq!(of(false, false), "");
        assert_eq!(of(true, false), "self-encrypting: locking enabled, Opal 2");
        assert!(of(true, true).starts_with("self-encrypting: locked by TCG Opal 2"));
    }
}
