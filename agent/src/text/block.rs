//! `block storage (…)`: physical disks with their partitions; below them what is made of them.

use probes::block::{Block, Disk, Filesystem, Partition, VirtualDevice};

use super::page::{Page, Tone, counted, pair};
use super::unit;

pub(super) fn block(page: &mut Page, block: &Block) {
    let n_disks = block.n_disks.unwrap_or(block.disks.len());
    let physical = block.physical_bytes.map(|b| format!(", {} physical storage", unit::disk(b)));
    let physical = physical.unwrap_or_default();
    page.section(&format!("block storage ({}{physical})", counted(n_disks, "disk")));
    for entry in &block.disks {
        disk(page, entry);
    }
    for entry in &block.r#virtual {
        virtual_device(page, entry);
    }
}

fn disk(page: &mut Page, disk: &Disk) {
    let kind = match disk.rotational {
        Some(true) => " HDD",
        Some(false) => " SSD",
        None => "",
    };
    let transport = disk.transport.as_ref().map(|t| format!(" {t}")).unwrap_or_default();
    let line = format!(
        "{}{kind}{}{transport}{}{}{}{}{}{}",
        disk.name,
        size(disk.size_bytes),
        place(disk),
        pair("vendor", disk.vendor.as_deref()),
        pair("model", disk.model.as_deref()),
        pair("serial", disk.serial.as_deref()),
        pair("WWN", disk.wwn.as_deref()),
        if disk.is_removable == Some(true) { " removable=true" } else { "" },
    );
    page.line(1, &line);
    if !disk.eligible {
        let reasons = disk.not_eligible_because.join("; ");
        page.toned(Tone::Quiet, 3, &format!("not for installing: {reasons}"));
    }
    if let Some(filesystem) = &disk.filesystem {
        page.line(2, &format!("whole disk{}", content(Some(filesystem), &disk.mounted_at)));
    }
    for entry in &disk.partitions {
        partition(page, entry);
    }
    for path in &disk.paths {
        page.line(2, &format!("path {}{}", path.name, pair("state", path.state.as_deref())));
    }
}

/// ` [@path (node #0)]` with what is known of both.
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
    page.line(2, &format!("{}{}{content}{label}", partition.name, size(partition.size_bytes)));
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
    let size = size(device.size_bytes);
    let kind = device.kind.as_deref().unwrap_or("virtual");
    page.toned(Tone::Quiet, 1, &format!("{} {kind}{size}{members}", device.name));
}

fn size(bytes: Option<u64>) -> String {
    bytes.map(|bytes| format!(" ({})", unit::disk(bytes))).unwrap_or_default()
}
