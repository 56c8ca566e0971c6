//! `PCI (…)` and `gpu (…)`: devices with their drivers and names; cards.

use compare::quantity::Unit;
use probes::gpu::{Card, CardKind, Gpu};
use probes::pci::{Aer, Link, Pci, PciDevice};

use super::page::{Page, Tone, counted, heading, nonzero, pair, pairs};
use super::unit;

pub(super) fn pci(page: &mut Page, pci: &Pci) {
    let count = (!pci.devices.is_empty()).then(|| counted(pci.devices.len(), "device"));
    page.section(&heading("PCI", count));
    page.each(&pci.devices, device);
}

fn device(page: &mut Page, device: &PciDevice) {
    let id = |name: Option<&String>, vendor: Option<&String>| match (name, vendor) {
        (Some(name), Some(id)) => format!("'{name}' [{id}]"),
        (Some(text), None) | (None, Some(text)) => format!("'{text}'"),
        (None, None) => "''".to_owned(),
    };
    let driver = device.driver.as_deref().unwrap_or("");
    let node = device.numa_node.map(|node| format!(" [NUMA node {node}]")).unwrap_or_default();
    let line = format!(
        "{} -> driver: '{driver}' class: {} vendor: {} product: {}{}{node}",
        device.address,
        id(device.class_name.as_ref(), device.class.as_ref()),
        id(device.vendor_name.as_ref(), device.vendor_id.as_ref()),
        id(device.device_name.as_ref(), device.device_id.as_ref()),
        pairs!(device; slot),
    );
    page.line(1, &line);
    if let Some(vpd) = &device.vpd {
        page.toned(Tone::Quiet, 2, &["vpd", &pairs!(vpd; "part" part_number, serial)].concat());
    }
    if let Some(text) = device.link.as_ref().and_then(link) {
        page.toned(Tone::Quiet, 2, &text);
    }
    if let Some(text) = device.aer.as_ref().and_then(errors) {
        page.toned(Tone::Warning, 2, &text);
    }
}

/// Formats the counted errors, if any. Corrected ones too: many of them slow a link down.
fn errors(aer: &Aer) -> Option<String> {
    let counts =
        [(aer.n_correctable, "corrected"), (aer.n_nonfatal, "nonfatal"), (aer.n_fatal, "fatal")];
    let counts = nonzero(&counts);
    (!counts.is_empty()).then(|| format!("PCIe errors since boot: {}", counts.join(", ")))
}

/// Formats `link 8 GT/s x4 of 16 GT/s x4`; without the second part if the link runs at its best.
fn link(link: &Link) -> Option<String> {
    let side = |gt_s_x10: Option<u32>, width: Option<u32>| {
        Some(format!("{} x{}", Unit::GigaTransfers.text(&gt_s_x10?.into()), width?))
    };
    let current = side(link.current_gt_s_x10, link.current_width)?;
    let possible = side(link.possible_gt_s_x10, link.possible_width)
        .or_else(|| side(link.max_gt_s_x10, link.max_width));
    match possible {
        Some(possible) if possible != current => Some(format!("link {current} of {possible}")),
        _ => Some(format!("link {current}")),
    }
}

/// Cards. No card is a fact only if PCI devices could be listed.
pub(super) fn gpu(page: &mut Page, gpu: &Gpu, pci: Option<&Pci>) {
    let is_known = !gpu.cards.is_empty() || pci.is_some_and(|pci| !pci.devices.is_empty());
    let count = is_known.then(|| counted(gpu.cards.len(), "graphics card"));
    page.section(&heading("gpu", count));
    gpu.cards.iter().enumerate().for_each(|(index, entry)| card(page, index, entry));
}

fn card(page: &mut Page, index: usize, card: &Card) {
    let node = card.numa_node.map(|n| format!(" [affined to NUMA node {n}]")).unwrap_or_default();
    let ids = [&card.vendor_id, &card.device_id].map(|id| id.as_deref().unwrap_or("????"));
    let ids = ids.join(":");
    let name = card.model.as_deref().or(card.name.as_deref()).unwrap_or(&ids);
    let memory = heading("", card.memory_bytes.map(unit::memory));
    let driver = card.driver.as_deref().unwrap_or("");
    let kind = match card.kind {
        CardKind::Gpu => "gpu",
        CardKind::Accelerator => "accelerator",
        CardKind::BmcDisplay => "BMC display",
        CardKind::Switch => "switch",
    };
    let line = format!(
        "card #{index} @{} -> {kind} '{name}'{memory} driver: '{driver}'{node}{}{}{}",
        card.address,
        pairs!(card; uuid, serial),
        pair("firmware", card.firmware.as_ref().or(card.video_bios.as_ref())),
        pairs!(card; status),
    );
    page.line(1, &line);
    let n_vfs = card.n_vfs.filter(|n| *n > 0).and_then(|n| usize::try_from(n).ok());
    let parts = [
        n_vfs.map(|n| counted(n, "virtual function")),
        card.n_mig_instances.filter(|n| *n > 0).map(|n| counted(n, "MIG instance")),
        card.compute_partition.as_ref().map(|mode| format!("compute {mode}")),
        card.memory_partition.as_ref().map(|mode| format!("memory {mode}")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if !parts.is_empty() {
        page.toned(Tone::Quiet, 2, &format!("split: {}", parts.join(", ")));
    }
}
