//! Chassis, baseboard, product, BIOS, firmware, BMC and the running system: a line each.

use probes::collect::Inventory;
use probes::dmi::{Baseboard, Bios, Chassis, Product};
use probes::firmware::{BootMode, Firmware};
use probes::os::Os;

use super::management;
use super::page::{Page, Tone, pair};

pub(super) fn platform(page: &mut Page, inventory: &Inventory) {
    inventory.chassis.iter().for_each(|part| chassis(page, part));
    inventory.baseboard.iter().for_each(|part| baseboard(page, part));
    inventory.product.iter().for_each(|part| product(page, part));
    inventory.bios.iter().for_each(|part| bios(page, part));
    inventory.firmware.iter().for_each(|firmware| boot(page, firmware));
    inventory.bmc.iter().for_each(|bmc| management::bmc(page, bmc));
    inventory.smbios.iter().for_each(|table| management::smbios(page, table));
    inventory.os.iter().for_each(|part| os(page, part));
}

fn chassis(page: &mut Page, chassis: &Chassis) {
    let facts = [
        pair("type", chassis.kind.as_deref()),
        pair("vendor", chassis.vendor.as_deref()),
        pair("serial", chassis.serial.as_deref()),
        pair("version", chassis.version.as_deref()),
        pair("asset", chassis.asset_tag.as_deref()),
    ];
    page.facts("chassis", &facts, |_| {});
}

fn baseboard(page: &mut Page, board: &Baseboard) {
    let facts = [
        pair("vendor", board.vendor.as_deref()),
        pair("serial", board.serial.as_deref()),
        pair("version", board.version.as_deref()),
        pair("product", board.product.as_deref()),
    ];
    page.facts("baseboard", &facts, |_| {});
}

fn product(page: &mut Page, product: &Product) {
    let facts = [
        pair("family", product.family.as_deref()),
        pair("name", product.name.as_deref()),
        pair("vendor", product.vendor.as_deref()),
        pair("serial", product.serial.as_deref()),
        pair("uuid", product.uuid.as_deref()),
        pair("sku", product.sku.as_deref()),
        pair("version", product.version.as_deref()),
    ];
    page.facts("product", &facts, |_| {});
}

fn bios(page: &mut Page, bios: &Bios) {
    let facts = [
        pair("vendor", bios.vendor.as_deref()),
        pair("version", bios.version.as_deref()),
        pair("date", bios.date.as_deref()),
        pair("embedded-controller", bios.embedded_controller_release.as_deref()),
    ];
    page.facts("bios", &facts, |_| {});
}

fn os(page: &mut Page, os: &Os) {
    let iommu = os.iommu.as_ref().and_then(|iommu| iommu.is_enabled);
    let clock = os.clock.as_ref().and_then(|clock| clock.is_synchronized);
    let taint = os.kernel_taint.map(taint_letters).filter(|letters| !letters.is_empty());
    let guest = os.confidential_computing.as_ref().and_then(|c| c.guest.as_deref());
    let facts = [
        pair("hostname", os.hostname.as_deref()),
        pair("kernel", os.kernel.as_deref()),
        pair("distribution", os.distribution.as_deref()),
        pair("virtualization", os.virtualization.as_deref()),
        pair("container", os.container.as_deref()),
        pair("confidential-guest", guest),
        pair("iommu", on_off(iommu)),
        pair("clock-synchronized", clock.map(|is| if is { "yes" } else { "no" })),
        pair("lockdown", os.lockdown.as_deref().filter(|lockdown| *lockdown != "none")),
        pair("fips", on_off(os.is_fips_enabled.filter(|is_on| *is_on))),
        pair("taint", taint.as_deref()),
    ];
    page.facts("os", &facts, |page| {
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
        pair("current", firmware.boot_current.as_deref()),
        pair("next", firmware.boot_next.as_deref()),
        pair("order", firmware.boot_order.as_ref().map(|order| order.join(",")).as_deref()),
    ];
    page.facts("firmware", &facts, |page| {
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
    use probes::bmc::Bmc;
    use probes::firmware::BootEntry;

    #[test]
    fn the_boot_order_and_inactive_entries_are_shown() {
        let entry = |id: &str, is_active| BootEntry {
            id: id.to_owned(),
            description: Some("Fedora".to_owned()),
            is_active: Some(is_active),
            ..BootEntry::default()
        };
        let firmware = Firmware {
            boot_mode: Some(BootMode::Uefi),
            boot_next: Some("0002".to_owned()),
            boot_order: Some(vec!["0002".to_owned(), "0001".to_owned()]),
            boot_entries: vec![entry("0001", false), entry("0002", true)],
            ..Firmware::default()
        };
        let mut page = Page::new(false);
        boot(&mut page, &firmware);
        let text = page.into_text();
        assert!(text.ends_with(
            "firmware boot=uefi next=0002 order=0002,0001\n boot entry 0001 (inactive) Fedora\n \
             boot entry 0002 Fedora\n"
        ));
    }

    #[test]
    fn a_part_without_a_known_fact_has_no_heading() {
        let mut inventory = Inventory {
            chassis: Some(Chassis::default()),
            baseboard: Some(Baseboard::default()),
            product: Some(Product::default()),
            bios: Some(Bios::default()),
            firmware: Some(Firmware::default()),
            bmc: Some(Bmc::default()),
            os: Some(Os::default()),
            ..Inventory::default()
        };
        let text = |inventory: &Inventory| {
            let mut page = Page::new(true);
            platform(&mut page, inventory);
            page.into_text()
        };
        assert_eq!(text(&inventory), "");
        inventory.os = Some(Os { command_line: Some("quiet".to_owned()), ..Os::default() });
        let shown = text(&inventory);
        assert!(shown.contains("os\x1b[0m\n") && shown.contains("command line: quiet"), "{shown}");
    }

    #[test]
    fn taint_letters_are_those_of_the_kernel_log() {
        assert_eq!((taint_letters(0), taint_letters(1 << 13 | 1)), (String::new(), "PE".into()));
        assert_eq!(taint_letters(1 << 40), "");
    }
}
