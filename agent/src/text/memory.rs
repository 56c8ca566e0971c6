//! `memory (…)`: the totals and every slot.

use probes::memory::{CxlMemory, DaxDevice, Dimm, HugePages, Memory, PersistentMemory};

use super::page::{Page, Tone, heading, joined, pair, pairs, with};
use super::unit;

pub(super) fn memory(page: &mut Page, memory: &Memory) {
    let totals = [
        (memory.installed_bytes, "installed"),
        (memory.firmware_map_bytes, "in firmware map"),
        (memory.kernel_present_bytes, "physical"),
        (memory.online_blocks_bytes, "in online blocks"),
        (memory.usable_bytes, "usable"),
    ];
    let known = totals.iter().filter_map(|(bytes, name)| Some((unit::memory((*bytes)?), name)));
    page.section(&heading("memory", known.map(|(size, name)| format!("{size} {name}"))));
    if let (Some(populated), Some(slots)) = (memory.n_slots_populated, memory.n_slots) {
        let correction = pairs!(memory; "ecc" error_correction);
        page.line(1, &format!("{populated} of {slots} slots{correction}"));
    }
    page.each(&memory.dimms, dimm);
    page.each(&memory.cxl, cxl);
    page.each(&memory.dax, dax);
    page.each(&memory.persistent, persistent);
    page.lines(1, memory.hugepages.iter().filter_map(huge_pages));
}

/// Formats the reserved huge pages of one size, if there are any.
pub(super) fn huge_pages(pages: &HugePages) -> Option<String> {
    let n_total = pages.n_total.filter(|n| *n > 0)?;
    Some(format!("huge pages {} × {n_total}", unit::memory(pages.size_bytes)))
}

/// Formats the nonzero parts of a size, as ` (256GiB, 128GiB persistent)`.
fn sizes(parts: &[(Option<u64>, &str)]) -> String {
    let known = parts.iter().filter_map(|(bytes, what)| Some(((*bytes).filter(|b| *b > 0)?, what)));
    heading("", known.map(|(bytes, what)| format!("{}{what}", unit::memory(bytes))))
}

fn cxl(page: &mut Page, device: &CxlMemory) {
    let size = sizes(&[(device.volatile_bytes, ""), (device.persistent_bytes, " persistent")]);
    let pairs = pairs!(device; "pci" pci_address, serial, firmware, security);
    page.line(1, &format!("CXL {}{size}{pairs}", device.name));
}

fn dax(page: &mut Page, device: &DaxDevice) {
    let pairs = pairs!(device; "of" origin, driver, "node" target_node);
    page.line(1, &format!("DAX {}{}{pairs}", device.name, sizes(&[(device.size_bytes, "")])));
}

fn persistent(page: &mut Page, memory: &PersistentMemory) {
    for module in &memory.modules {
        let pairs = pairs!(module; serial, security) + &with(" flags=", joined(&module.flags));
        let line = format!("NVDIMM {}{pairs}", module.name);
        // `smart_notify` means that the firmware can send health events (`ACPI_NFIT_MEM_HEALTH_ENABLED`).
        let is_bad = module.flags.iter().any(|flag| flag != "smart_notify");
        page.toned(if is_bad { Tone::Warning } else { Tone::Plain }, 1, &line);
    }
    for region in &memory.regions {
        let read_only = (region.is_read_only == Some(true)).then_some("yes");
        let size = sizes(&[(region.size_bytes, "")]);
        let modules = pairs!(region; "modules" n_modules);
        let name = &region.name;
        page.line(1, &format!("NVDIMM {name}{size}{modules}{}", pair("read-only", read_only)));
    }
    page.lines(
        2,
        memory.namespaces.iter().map(|namespace| {
            let size = sizes(&[(namespace.size_bytes, "")]);
            format!("{}{size}{}", namespace.name, pairs!(namespace; mode))
        }),
    );
}

fn dimm(page: &mut Page, dimm: &Dimm) {
    let locator = dimm.locator.as_deref().unwrap_or("DIMM");
    if dimm.is_populated == Some(false) {
        let bank = pairs!(dimm; "bank" bank_locator);
        page.toned(Tone::Quiet, 1, &format!("{locator} empty{bank}"));
        return;
    }
    let size = heading("", dimm.size_bytes.map(unit::memory));
    let kind = with(" ", dimm.kind.as_ref());
    let speed = match (dimm.configured_speed_mt_s, dimm.speed_mt_s) {
        (Some(configured), Some(rated)) if configured != rated => {
            format!(" {configured} of {rated} MT/s")
        }
        (Some(speed), _) | (None, Some(speed)) => format!(" {speed} MT/s"),
        (None, None) => String::new(),
    };
    let pairs = pairs!(
        dimm; "bank" bank_locator, manufacturer, "part" part_number, serial, "ranks" rank,
        "error" firmware_error
    );
    let corrected = with(" corrected-errors=", dimm.ecc_correctable.filter(|n| *n > 0));
    let uncorrected = with(" uncorrected-errors=", dimm.ecc_uncorrectable.filter(|n| *n > 0));
    page.line(1, &format!("{locator}{size}{kind}{speed}{pairs}{corrected}{uncorrected}"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::page::tests::shown;
    use serde_json::json;

    #[test]
    fn an_nvdimm_that_can_send_health_events_needs_no_attention() {
        let is_plain = |flags: &[&str]| {
            let mut page = Page::new(true);
            let memory = json!({"modules": [{"name": "nmem0", "flags": flags}]});
            persistent(&mut page, &serde_json::from_value(memory).unwrap());
            !page.into_text().contains('\x1b')
        };
        assert!(is_plain(&[]) && is_plain(&["smart_notify"]));
        assert!(!is_plain(&["smart_notify", "not_armed"]) && !is_plain(&["smart_event"]));
    }

    #[test]
    fn cxl_memory_shows_the_kinds_that_it_has_and_no_zero() {
        for (volatile, persistent, expected) in [
            (json!(0), json!(256 << 20), " CXL mem0 (256MiB persistent)\n"),
            (json!(1 << 30), json!(1 << 30), " CXL mem0 (1GiB, 1GiB persistent)\n"),
            (json!(null), json!(null), " CXL mem0\n"),
        ] {
            let bytes =
                json!({"name": "mem0", "volatile_bytes": volatile, "persistent_bytes": persistent});
            assert_eq!(shown(cxl, bytes), expected);
        }
    }
}
