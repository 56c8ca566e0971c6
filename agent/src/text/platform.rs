//! Chassis, baseboard, product, BIOS, firmware, BMC and the running system: a line each.

use probes::collect::Inventory;
use probes::firmware::{BootMode, Firmware};
use probes::os::Os;

use super::management;
use super::page::{Page, Tone, pair, pairs, with};

pub(super) fn platform(page: &mut Page, inventory: &Inventory) {
    let mut heading = |name: &str, facts: &str| page.facts(name, facts, |_| {});
    if let Some(chassis) = &inventory.chassis {
        let facts = pairs!(chassis; "type" kind, vendor, serial, version, "asset" asset_tag);
        heading("chassis", &facts);
    }
    if let Some(board) = &inventory.baseboard {
        heading("baseboard", &pairs!(board; vendor, serial, version, product));
    }
    if let Some(product) = &inventory.product {
        let facts = pairs!(product; family, name, vendor, serial, uuid, sku, version);
        heading("product", &facts);
    }
    if let Some(bios) = &inventory.bios {
        let controller = pairs!(bios; "embedded-controller" embedded_controller_release);
        heading("bios", &(pairs!(bios; vendor, version, date) + &controller));
    }
    page.each(&inventory.firmware, boot);
    page.each(&inventory.bmc, management::bmc);
    page.each(&inventory.smbios, management::smbios);
    page.each(&inventory.os, os);
}

fn os(page: &mut Page, os: &Os) {
    let iommu = os.iommu.as_ref().and_then(|iommu| iommu.is_enabled);
    let clock = os.clock.as_ref().and_then(|clock| clock.is_synchronized);
    let taint = os.kernel_taint.map(taint_letters).filter(|letters| !letters.is_empty());
    let guest = os.confidential_computing.as_ref().and_then(|c| c.guest.as_ref());
    let facts = [
        pairs!(os; hostname, kernel, distribution, virtualization, container),
        pair("confidential-guest", guest),
        pair("iommu", on_off(iommu)),
        pair("clock-synchronized", clock.map(|is| if is { "yes" } else { "no" })),
        pair("lockdown", os.lockdown.as_deref().filter(|lockdown| *lockdown != "none")),
        pair("fips", on_off(os.is_fips_enabled.filter(|is_on| *is_on))),
        with(" taint=", taint),
    ];
    page.facts("os", &facts.concat(), |page| {
        if let Some(command_line) = &os.command_line {
            page.toned(Tone::Quiet, 1, &format!("command line: {command_line}"));
        }
    });
}

/// The letters that the kernel prints for its taint (`Documentation/admin-guide/tainted-kernels.rst`).
fn taint_letters(taint: u64) -> String {
    const LETTERS: &str = "PFSRMBUDAWCIOELKXTNJ";
    let is_set = |bit: &usize| taint >> bit & 1 == 1;
    let letters = LETTERS.chars().enumerate();
    letters.filter(|(bit, _)| is_set(bit)).map(|(_, letter)| letter).collect()
}

fn on_off(flag: Option<bool>) -> Option<&'static str> {
    flag.map(|on| if on { "on" } else { "off" })
}

fn boot(page: &mut Page, firmware: &Firmware) {
    let mode = firmware.boot_mode.map(|mode| match mode {
        BootMode::Uefi => "uefi",
        BootMode::Bios => "bios",
    });
    let facts = [
        pair("boot", mode),
        pair("secure-boot", on_off(firmware.secure_boot)),
        pair("setup-mode", on_off(firmware.setup_mode)),
        pairs!(firmware; "current" boot_current, "next" boot_next),
        with(" order=", firmware.boot_order.as_ref().map(|order| order.join(","))),
    ];
    page.facts("firmware", &facts.concat(), |page| {
        for entry in &firmware.boot_entries {
            let is_active = entry.is_active != Some(false);
            let words = [
                Some(entry.id.as_str()),
                (!is_active).then_some("(inactive)"),
                entry.description.as_deref(),
                entry.device_path.as_deref(),
            ];
            let words: Vec<&str> = words.into_iter().flatten().collect();
            let tone = if is_active { Tone::Plain } else { Tone::Quiet };
            page.toned(tone, 1, &format!("boot entry {}", words.join(" ")));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::page::tests::shown;
    use serde_json::json;

    #[test]
    fn the_boot_order_and_inactive_entries_are_shown() {
        let entry = |id: &str, is_active: bool| json!({"id": id, "description": "Fedora", "is_active": is_active});
        let text = shown(
            boot,
            json!({
                "boot_mode": "uefi", "boot_next": "0002", "boot_order": ["0002", "0001"],
                "boot_entries": [entry("0001", false), entry("0002", true)],
            }),
        );
        assert!(text.ends_with(
            "firmware boot=uefi next=0002 order=0002,0001\n boot entry 0001 (inactive) Fedora\n \
             boot entry 0002 Fedora\n"
        ));
    }

    #[test]
    fn a_part_without_a_known_fact_has_no_heading() {
        let parts = ["chassis", "baseboard", "product", "bios", "firmware", "bmc", "os"];
        let mut inventory: serde_json::Value =
            parts.map(|part| (part, json!({}))).into_iter().collect();
        assert_eq!(shown(platform, inventory.clone()), "");
        inventory["os"] = json!({"command_line": "quiet"});
        assert!(shown(platform, inventory).ends_with("\nos\n command line: quiet\n"));
    }

    #[test]
    fn taint_letters_are_those_of_the_kernel_log() {
        assert_eq!((taint_letters(0), taint_letters(1 << 13 | 1)), (String::new(), "PE".into()));
        assert_eq!(taint_letters(1 << 40), "");
    }
}
