//! `block storage (…)`: physical disks with their partitions, RAID controllers, virtual devices.

use probes::block::{Block, Disk, Filesystem, Health, Partition, VirtualDevice};

use super::page::{Page, Tone, counted, heading, pair};
use super::unit;

pub(super) fn block(page: &mut Page, block: &Block) {
    let parts = [
        block.n_disks.map(|n| counted(n, "disk")),
        block.physical_bytes.map(|bytes| format!("{} physical storage", unit::disk(bytes))),
    ];
    page.section(&heading("block storage", parts.into_iter().flatten()));
    for entry in &block.disks {
        disk(page, entry);
    }
    for entry in &block.raid_controllers {
        super::raid::controller(page, entry);
    }
    for entry in &block.r#virtual {
        virtual_device(page, entry);
    }
}

fn disk(page: &mut Page, disk: &Disk) {
    let kind = match disk.rotational {
        // `rotational` of an optical drive describes its medium.
        _ if disk.name.starts_with("sr") => " optical",
        Some(true) => " HDD",
        Some(false) => " SSD",
        None => "",
    };
    let transport = disk.transport.as_ref().map(|t| format!(" {t}")).unwrap_or_default();
    let line = format!(
        "{}{kind}{}{transport}{}{}{}{}{}{}{}",
        disk.name,
        unit::disk_size(disk.size_bytes),
        place(disk),
        pair("vendor", disk.vendor.as_deref()),
        pair("model", disk.model.as_deref()),
        pair("firmware", disk.firmware.as_deref()),
        pair("serial", disk.serial.as_deref()),
        pair("WWN", disk.wwn.as_deref()),
        if disk.is_removable == Some(true) { " removable=true" } else { "" },
    );
    page.line(1, &line);
    for text in details(disk) {
        page.line(3, &text);
    }
    if let Some(health) = &disk.health {
        health_line(page, health);
    }
    if !disk.eligible {
        let reasons = disk.not_eligible_because.join("; ");
        page.toned(Tone::Quiet, 3, &format!("not eligible: {reasons}"));
    }
    if let Some(filesystem) = &disk.filesystem {
        page.line(2, &format!("whole disk{}", content(Some(filesystem), &disk.mounted_at)));
    }
    for entry in &disk.partitions {
        partition(page, entry);
    }
    for path in &disk.paths {
        let target = path.target.as_ref().map(|target| target.name.as_str());
        page.line(
            2,
            &format!(
                "path {}{}{}{}{}",
                path.name,
                pair("state", path.state.as_deref()),
                pair("access", path.ana_state.as_deref()),
                pair("controller", path.controller.as_deref()),
                pair("target", target),
            ),
        );
    }
}

/// Details for technicians: location, construction, content.
fn details(disk: &Disk) -> Vec<String> {
    let bay = disk.bay.as_ref().and_then(|bay| {
        let light = if bay.is_fault_on == Some(true) { ", fault light on" } else { "" };
        let of = bay.enclosure.as_ref().map(|enclosure| format!(" of enclosure {enclosure}"));
        let name = bay.name()?;
        Some(format!("bay {name}{}{light}", of.unwrap_or_default()))
    });
    let volume = (disk.is_raid_volume == Some(true)).then(|| {
        let level = disk.raid_level.as_ref().map(|level| format!(" {level}")).unwrap_or_default();
        let driver = pair("driver", disk.controller_driver.as_deref());
        format!("volume of a RAID controller{level}{driver}")
    });
    let vmd =
        disk.vmd_address.as_ref().map(|address| format!("attached through the VMD at {address}"));
    let target = disk.target.as_ref().map(|target| {
        let portal = target.portal.as_ref().map(|portal| format!(" at {portal}"));
        format!("target {}{}", target.name, portal.unwrap_or_default())
    });
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
    let counts = [
        ("media errors", health.media_errors),
        ("reallocated", health.reallocated_sectors),
        ("pending", health.pending_sectors),
        ("late commands", health.late_commands),
    ];
    for (what, n) in counts {
        add(n.filter(|n| *n > 0).map(|n| format!("{n} {what}")));
    }
    if !facts.is_empty() {
        let is_bad = health.is_passed == Some(false);
        let tone = if is_bad { Tone::Critical } else { Tone::Plain };
        page.toned(tone, 3, &format!("health: {}", facts.join(", ")));
    }
}

/// Formats ` [@path (node #0)]`, or the known part of it.
fn place(disk: &Disk) -> String {
    let node = disk.numa_node.map(|node| format!("(node #{node})"));
    let path = disk.by_path.as_deref().or(disk.pci_address.as_deref());
    match (path, node) {
        (Some(path), Some(node)) => format!(" [@{path} {node}]"),
        (Some(path), None) => format!(" [@{path}]"),
        (None, Some(node)) => format!(" [{node}]"),
        (None, None) => String::new(),
    }
}

fn partition(page: &mut Page, partition: &Partition) {
    let label = pair("label", partition.label.as_deref());
    let content = content(partition.filesystem.as_ref(), &partition.mounted_at);
    page.line(
        2,
        &format!("{}{}{content}{label}", partition.name, unit::disk_size(partition.size_bytes)),
    );
}

fn content(filesystem: Option<&Filesystem>, mounted_at: &[String]) -> String {
    let kind = filesystem.map(|f| format!(" [{}]", f.kind)).unwrap_or_default();
    let mounted = mounted_at.first().map(|at| format!(" mounted@{at}")).unwrap_or_default();
    format!("{kind}{mounted}")
}

fn virtual_device(page: &mut Page, device: &VirtualDevice) {
    let members = if device.members.is_empty() {
        String::new()
    } else {
        format!(" of {}", device.members.join(", "))
    };
    let size = unit::disk_size(device.size_bytes);
    let kind = device.kind.as_deref().unwrap_or("virtual");
    page.toned(Tone::Quiet, 1, &format!("{} {kind}{size}{members}", device.name));
}

#[cfg(test)]
mod tests {
    use super::*;
    use probes::block::DiskTcg;

    #[test]
    fn disks_that_could_not_be_listed_are_not_counted() {
        let heading = |n_disks| {
            let mut page = Page::new(false);
            block(&mut page, &Block { n_disks, ..Block::default() });
            page.into_text()
        };
        assert!(heading(None).ends_with("#\nblock storage\n"));
        assert!(heading(Some(0)).ends_with("#\nblock storage (0 disks)\n"));
    }

    #[test]
    fn locks_are_shown_once_they_are_enabled() {
        let of = |is_locking_enabled: bool, is_locked: bool| {
            let tcg = DiskTcg {
                standards: vec!["Opal 2".to_owned()],
                is_locking_enabled: Some(is_locking_enabled),
                is_locked: Some(is_locked),
                ..DiskTcg::default()
            };
            details(&Disk { tcg: Some(tcg), ..Disk::default() }).join("; ")
        };
        assert_eq!(of(false, false), "");
        assert_eq!(of(true, false), "self-encrypting: locking enabled, Opal 2");
        assert!(of(true, true).starts_with("self-encrypting: locked by TCG Opal 2"));
    }
}
