//! `memory (…)`: the totals and every slot.

use probes::memory::{Dimm, Memory};

use super::page::{Page, Tone, heading, pair};
use super::unit;

pub(super) fn memory(page: &mut Page, memory: &Memory) {
    let totals = [
        (memory.installed_bytes, "installed"),
        (memory.firmware_map_bytes, "in the firmware's map"),
        (memory.kernel_present_bytes, "physical"),
        (memory.online_blocks_bytes, "in online blocks"),
        (memory.usable_bytes, "usable"),
    ];
    let known = totals.iter().filter_map(|(bytes, name)| Some((unit::memory((*bytes)?), name)));
    page.section(&heading("memory", known.map(|(size, name)| format!("{size} {name}"))));
    if let (Some(populated), Some(slots)) = (memory.n_slots_populated, memory.n_slots) {
        let correction = memory.error_correction.as_deref();
        page.line(1, &format!("{populated} of {slots} slots{}", pair("ecc", correction)));
    }
    for entry in &memory.dimms {
        dimm(page, entry);
    }
    for device in &memory.cxl {
        let size = device.volatile_bytes.map(|bytes| format!(" ({})", unit::memory(bytes)));
        let serial = pair("serial", device.serial.as_deref());
        page.line(1, &format!("CXL {}{}{serial}", device.name, size.unwrap_or_default()));
    }
    for pages in memory.hugepages.iter().filter(|pages| pages.n_total.is_some_and(|n| n > 0)) {
        let n_total = pages.n_total.unwrap_or_default();
        page.line(1, &format!("huge pages {} × {n_total}", unit::memory(pages.size_bytes)));
    }
}

fn dimm(page: &mut Page, dimm: &Dimm) {
    let locator = dimm.locator.as_deref().unwrap_or("DIMM");
    if dimm.is_populated == Some(false) {
        page.toned(
            Tone::Quiet,
            1,
            &format!("{locator} empty{}", pair("bank", dimm.bank_locator.as_deref())),
        );
        return;
    }
    let size =
        dimm.size_bytes.map(|bytes| format!(" ({})", unit::memory(bytes))).unwrap_or_default();
    let kind = dimm.kind.as_ref().map(|kind| format!(" {kind}")).unwrap_or_default();
    let speed = match (dimm.configured_speed_mt_s, dimm.speed_mt_s) {
        (Some(configured), Some(rated)) if configured != rated => {
            format!(" {configured} of {rated} MT/s")
        }
        (Some(speed), _) | (None, Some(speed)) => format!(" {speed} MT/s"),
        (None, None) => String::new(),
    };
    let line = format!(
        "{locator}{size}{kind}{speed}{}{}{}{}{}",
        pair("bank", dimm.bank_locator.as_deref()),
        pair("manufacturer", dimm.manufacturer.as_deref()),
        pair("part", dimm.part_number.as_deref()),
        pair("serial", dimm.serial.as_deref()),
        pair("error", dimm.firmware_error.as_deref()),
    );
    page.line(1, &line);
}
