//! `memory (…)`: the totals and every slot.

use probes::memory::{CxlMemory, DaxDevice, Dimm, Memory, PersistentMemory};

use super::page::{Page, Tone, heading, pair};
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
        let correction = memory.error_correction.as_deref();
        page.line(1, &format!("{populated} of {slots} slots{}", pair("ecc", correction)));
    }
    for entry in &memory.dimms {
        dimm(page, entry);
    }
    for device in &memory.cxl {
        cxl(page, device);
    }
    for device in &memory.dax {
        dax(page, device);
    }
    memory.persistent.iter().for_each(|memory| persistent(page, memory));
    for pages in memory.hugepages.iter().filter(|pages| pages.n_total.is_some_and(|n| n > 0)) {
        let n_total = pages.n_total.unwrap_or_default();
        page.line(1, &format!("huge pages {} × {n_total}", unit::memory(pages.size_bytes)));
    }
}

/// Formats the nonzero parts of a size, as ` (256GiB, 128GiB persistent)`.
fn sizes(parts: &[(Option<u64>, &str)]) -> String {
    let known = parts.iter().filter_map(|(bytes, what)| Some(((*bytes).filter(|b| *b > 0)?, what)));
    heading("", known.map(|(bytes, what)| format!("{}{what}", unit::memory(bytes))))
}

fn cxl(page: &mut Page, device: &CxlMemory) {
    let size = sizes(&[(device.volatile_bytes, ""), (device.persistent_bytes, " persistent")]);
    let line = format!(
        "CXL {}{size}{}{}{}{}",
        device.name,
        pair("pci", device.pci_address.as_deref()),
        pair("serial", device.serial.as_deref()),
        pair("firmware", device.firmware.as_deref()),
        pair("security", device.security.as_deref()),
    );
    page.line(1, &line);
}

fn dax(page: &mut Page, device: &DaxDevice) {
    let node = device.target_node.map(|node| node.to_string());
    let line = format!(
        "DAX {}{}{}{}{}",
        device.name,
        sizes(&[(device.size_bytes, "")]),
        pair("of", device.origin.as_deref()),
        pair("driver", device.driver.as_deref()),
        pair("node", node.as_deref()),
    );
    page.line(1, &line);
}

fn persistent(page: &mut Page, memory: &PersistentMemory) {
    for module in &memory.modules {
        let flags = Some(module.flags.join(",")).filter(|flags| !flags.is_empty());
        let line = format!(
            "NVDIMM {}{}{}{}",
            module.name,
            pair("serial", module.serial.as_deref()),
            pair("security", module.security.as_deref()),
            pair("flags", flags.as_deref()),
        );
        // `smart_notify` means that the firmware can send health events (`ACPI_NFIT_MEM_HEALTH_ENABLED`).
        let is_bad = module.flags.iter().any(|flag| flag != "smart_notify");
        page.toned(if is_bad { Tone::Warning } else { Tone::Plain }, 1, &line);
    }
    for region in &memory.regions {
        let modules = region.n_modules.map(|n| n.to_string());
        let read_only = (region.is_read_only == Some(true)).then_some("yes");
        let size = sizes(&[(region.size_bytes, "")]);
        let modules = pair("modules", modules.as_deref());
        let name = &region.name;
        page.line(1, &format!("NVDIMM {name}{size}{modules}{}", pair("read-only", read_only)));
    }
    for namespace in &memory.namespaces {
        let size = sizes(&[(namespace.size_bytes, "")]);
        let mode = pair("mode", namespace.mode.as_deref());
        page.line(2, &format!("{}{size}{mode}", namespace.name));
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
        "{locator}{size}{kind}{speed}{}{}{}{}{}{}{}{}",
        pair("bank", dimm.bank_locator.as_deref()),
        pair("manufacturer", dimm.manufacturer.as_deref()),
        pair("part", dimm.part_number.as_deref()),
        pair("serial", dimm.serial.as_deref()),
        pair("ranks", dimm.rank.map(|rank| rank.to_string()).as_deref()),
        pair("error", dimm.firmware_error.as_deref()),
        pair("corrected-errors", errors(dimm.ecc_correctable).as_deref()),
        pair("uncorrected-errors", errors(dimm.ecc_uncorrectable).as_deref()),
    );
    page.line(1, &line);
}

fn errors(n: Option<u64>) -> Option<String> {
    n.filter(|n| *n > 0).map(|n| n.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use probes::memory::Nvdimm;

    #[test]
    fn an_nvdimm_that_can_send_health_events_needs_no_attention() {
        let is_plain = |flags: &[&str]| {
            let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
            let module = Nvdimm { name: "nmem0".to_owned(), flags, ..Nvdimm::default() };
            let mut page = Page::new(true);
            let modules = vec![module];
            persistent(&mut page, &PersistentMemory { modules, ..Default::default() });
            !page.into_text().contains('\x1b')
        };
        assert!(is_plain(&[]) && is_plain(&["smart_notify"]));
        assert!(!is_plain(&["smart_notify", "not_armed"]) && !is_plain(&["smart_event"]));
    }

    #[test]
    fn cxl_memory_shows_the_kinds_that_it_has_and_no_zero() {
        let text = |volatile_bytes, persistent_bytes| {
            let mut page = Page::new(false);
            let name = "mem0".to_owned();
            let device = CxlMemory { name, volatile_bytes, persistent_bytes, ..Default::default() };
            cxl(&mut page, &device);
            page.into_text()
        };
        assert_eq!(text(Some(0), Some(256 << 20)), " CXL mem0 (256MiB persistent)\n");
        assert_eq!(text(Some(1 << 30), Some(1 << 30)), " CXL mem0 (1GiB, 1GiB persistent)\n");
        assert_eq!(text(None, None), " CXL mem0\n");
    }
}
