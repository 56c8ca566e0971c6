//! Power supplies, the last start, the kernel and the firmware's strings.

use super::{Finding, Severity};
use crate::bmc::Fru;
use crate::collect::Inventory;
use crate::dmi::is_placeholder;
use crate::smbios::PowerSupply;

/// Power supplies that the firmware found bad or unplugged when the machine was started.
pub(super) fn power_supplies(inventory: &Inventory) -> Vec<Finding> {
    // Where not even the name was filled in, the bits behind it were not either.
    let is_real = |text: &Option<String>| text.as_ref().is_some_and(|text| !is_placeholder(text));
    let supplies = inventory.smbios.iter().flat_map(|table| &table.power_supplies);
    let supplies = supplies.filter(|supply| is_real(&supply.location) || is_real(&supply.name));
    let finding = |supply: &PowerSupply| {
        let evidence = match (supply.status.as_deref(), supply.is_plugged) {
            (Some(status @ ("critical" | "non-critical")), _) => format!("status {status}"),
            (_, Some(false)) => "not plugged in".to_owned(),
            _ => return None,
        };
        Some(Finding {
            code: "power.supply".to_owned(),
            severity: Severity::Warning,
            component: "power".to_owned(),
            locator: supply.location.clone().or_else(|| supply.name.clone()),
            evidence: format!("{evidence} when the machine was started"),
            advice: "look at this power supply, its cable and its feed".to_owned(),
        })
    };
    supplies.filter_map(finding).collect()
}

/// How the machine came to its last start, where that was by a fault.
pub(super) fn last_start(inventory: &Inventory) -> Vec<Finding> {
    let finding = |code: &str, locator: Option<&str>, evidence: String| Finding {
        code: code.to_owned(),
        severity: Severity::Warning,
        component: "firmware".to_owned(),
        locator: locator.map(str::to_owned),
        evidence,
        advice: "look in the event log of firmware and BMC for what failed".to_owned(),
    };
    let status = inventory.smbios.as_ref().and_then(|table| table.boot_status.as_deref());
    let is_fault =
        |status: &&str| status.starts_with("hardware failure") || *status == "watchdog expired";
    let failed = status.filter(is_fault);
    let failed = failed.map(|status| finding("firmware.boot_status", None, status.to_owned()));
    let watchdogs = inventory.devices.iter().flat_map(|devices| &devices.watchdogs);
    let expired = watchdogs.filter(|watchdog| watchdog.caused_last_reset == Some(true));
    let expired = expired.map(|watchdog| {
        let evidence = "this watchdog reset the machine last time".to_owned();
        finding("firmware.watchdog_reset", Some(&watchdog.name), evidence)
    });
    failed.into_iter().chain(expired).collect()
}

/// A machine check since the kernel was started (bit 4 of its taint).
pub(super) fn machine_check(inventory: &Inventory) -> Vec<Finding> {
    const MACHINE_CHECK: u64 = 1 << 4;
    let taint = inventory.os.as_ref().and_then(|os| os.kernel_taint).unwrap_or_default();
    let finding = || Finding {
        code: "cpu.machine_check".to_owned(),
        severity: Severity::Warning,
        component: "cpu".to_owned(),
        locator: None,
        evidence: format!("the kernel is tainted ({taint}): a machine check has happened"),
        advice: "look in the kernel's log for \"Hardware Error\"".to_owned(),
    };
    (taint & MACHINE_CHECK != 0).then(finding).into_iter().collect()
}

/// A container sees part of the machine, and numbers that are the host's.
pub(super) fn container(inventory: &Inventory) -> Vec<Finding> {
    let name = inventory.os.as_ref().and_then(|os| os.container.as_deref());
    let finding = |name: &str| Finding {
        code: "os.container".to_owned(),
        severity: Severity::Info,
        component: "os".to_owned(),
        locator: None,
        evidence: format!("runs in a container ({name}): parts of the machine may not be visible"),
        advice: "run on the host itself for the whole machine".to_owned(),
    };
    name.map(finding).into_iter().collect()
}

/// A battery-backed clock that is wrong by a minute and more, while the kernel's is known to be
/// right.
pub(super) fn clock(inventory: &Inventory) -> Vec<Finding> {
    const MINUTE: u64 = 60;
    let clock = inventory.os.as_ref().and_then(|os| os.clock.as_ref());
    let right = clock.filter(|clock| clock.is_synchronized == Some(true));
    let offset = right.and_then(|clock| clock.rtc_offset_s);
    let finding = |offset: i64| Finding {
        code: "firmware.clock".to_owned(),
        severity: Severity::Info,
        component: "firmware".to_owned(),
        locator: Some("rtc0".to_owned()),
        evidence: format!("the battery-backed clock is off by {offset} s"),
        advice: "set it (hwclock --systohc), and see whether its battery holds".to_owned(),
    };
    offset.filter(|offset| offset.unsigned_abs() >= MINUTE).map(finding).into_iter().collect()
}

/// Strings that name maker and machine, and that the maker never filled in. Serial numbers and the
/// UUID are with the identifiers.
pub(super) fn placeholders(inventory: &Inventory) -> Vec<Finding> {
    let (product, board) = (inventory.product.as_ref(), inventory.baseboard.as_ref());
    let (chassis, bios) = (inventory.chassis.as_ref(), inventory.bios.as_ref());
    let fields = [
        ("product.vendor", product.and_then(|p| p.vendor.as_ref())),
        ("product.name", product.and_then(|p| p.name.as_ref())),
        ("product.family", product.and_then(|p| p.family.as_ref())),
        ("product.sku", product.and_then(|p| p.sku.as_ref())),
        ("product.version", product.and_then(|p| p.version.as_ref())),
        ("baseboard.vendor", board.and_then(|b| b.vendor.as_ref())),
        ("baseboard.product", board.and_then(|b| b.product.as_ref())),
        ("baseboard.version", board.and_then(|b| b.version.as_ref())),
        ("baseboard.asset_tag", board.and_then(|b| b.asset_tag.as_ref())),
        ("chassis.vendor", chassis.and_then(|c| c.vendor.as_ref())),
        ("chassis.version", chassis.and_then(|c| c.version.as_ref())),
        ("chassis.asset_tag", chassis.and_then(|c| c.asset_tag.as_ref())),
        ("bios.version", bios.and_then(|b| b.version.as_ref())),
    ];
    let named = fields.into_iter().filter_map(|(field, value)| Some((field.to_owned(), value?)));
    let named = named.chain(inventory.bmc.iter().flat_map(|bmc| bmc.frus.iter().flat_map(of_fru)));
    let found: Vec<String> =
        named.filter(|(_, value)| is_placeholder(value)).map(|(field, _)| field).collect();
    if found.is_empty() {
        return Vec::new();
    }
    vec![Finding {
        code: "firmware.placeholder".to_owned(),
        severity: Severity::Info,
        component: "firmware".to_owned(),
        locator: None,
        evidence: format!("never filled in by the maker: {}", found.join(", ")),
        advice: "do not tell machines apart by these; set them with the maker's tool".to_owned(),
    }]
}

/// The texts of a part that name it, with the part in front of each key.
fn of_fru(fru: &Fru) -> Vec<(String, &String)> {
    let (board, product) = (fru.board.as_ref(), fru.product.as_ref());
    let fields = [
        ("board.manufacturer", board.and_then(|b| b.manufacturer.as_ref())),
        ("board.product", board.and_then(|b| b.product.as_ref())),
        ("board.serial", board.and_then(|b| b.serial.as_ref())),
        ("board.part_number", board.and_then(|b| b.part_number.as_ref())),
        ("product.manufacturer", product.and_then(|p| p.manufacturer.as_ref())),
        ("product.name", product.and_then(|p| p.name.as_ref())),
        ("product.serial", product.and_then(|p| p.serial.as_ref())),
        ("product.part_number", product.and_then(|p| p.part_number.as_ref())),
    ];
    let named = fields.into_iter().filter_map(|(field, value)| Some((field, value?)));
    named.map(|(field, value)| (format!("bmc.frus {} {field}", fru.id), value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bmc::{Bmc, FruBoard};
    use crate::clock::Clock;
    use crate::dmi::Product;
    use crate::os::Os;
    use crate::smbios::SmbiosTable;

    #[test]
    fn a_power_supply_without_power_is_found() {
        let supply = |status: Option<&str>, is_plugged| PowerSupply {
            location: Some("PSU 1".to_owned()),
            name: Some("OEM_Define1".to_owned()),
            status: status.map(str::to_owned),
            is_plugged,
            ..PowerSupply::default()
        };
        let found = |supply| {
            let table = SmbiosTable { power_supplies: vec![supply], ..SmbiosTable::default() };
            power_supplies(&Inventory { smbios: Some(table), ..Inventory::default() }).len()
        };
        assert_eq!(found(supply(Some("critical"), Some(true))), 1);
        assert_eq!(found(supply(Some("ok"), Some(false))), 1);
        assert_eq!(found(supply(Some("ok"), Some(true))), 0);
        assert_eq!(found(supply(None, None)), 0);
        let location = Some("OEM_Define0".to_owned());
        let unnamed = PowerSupply { location, ..supply(None, Some(false)) };
        assert_eq!(found(unnamed), 0, "a table that nobody filled in says nothing");
    }

    #[test]
    fn a_start_after_a_failure_or_by_a_watchdog_is_found() {
        let found = |status: &str| {
            let boot_status = Some(status.to_owned());
            let table = SmbiosTable { boot_status, ..SmbiosTable::default() };
            last_start(&Inventory { smbios: Some(table), ..Inventory::default() }).len()
        };
        assert_eq!(found("hardware failure detected by firmware"), 1);
        assert_eq!(found("watchdog expired"), 1);
        assert_eq!((found("no errors detected"), found("boot requested by user")), (0, 0));
    }

    #[test]
    fn a_container_a_machine_check_and_a_wrong_clock_are_said() {
        let clock_of = |is_synchronized, offset| Clock {
            is_synchronized: Some(is_synchronized),
            rtc_offset_s: Some(offset),
        };
        let with = |os: Os| Inventory { os: Some(os), ..Inventory::default() };
        let bad = with(Os {
            container: Some("podman".to_owned()),
            kernel_taint: Some(16 | 512),
            clock: Some(clock_of(true, -3600)),
            ..Os::default()
        });
        assert_eq!(
            (container(&bad).len(), machine_check(&bad).len(), clock(&bad).len()),
            (1, 1, 1)
        );
        let good = with(Os {
            kernel_taint: Some(512),
            clock: Some(clock_of(false, -3600)),
            ..Os::default()
        });
        let found = (container(&good).len(), machine_check(&good).len(), clock(&good).len());
        assert_eq!(found, (0, 0, 0), "against a clock that may be wrong nothing is measured");
    }

    #[test]
    fn strings_that_nobody_filled_in_are_named_once_and_stay() {
        let product = Product {
            name: Some("To Be Filled By O.E.M.".to_owned()),
            sku: Some("Default string".to_owned()),
            vendor: Some("Dell Inc.".to_owned()),
            ..Product::default()
        };
        let board = FruBoard {
            serial: Some("0000000000".to_owned()),
            product: Some("Z12PP".to_owned()),
            ..FruBoard::default()
        };
        let frus = vec![Fru { id: 3, board: Some(board), ..Fru::default() }];
        let inventory = Inventory {
            product: Some(product),
            bmc: Some(Bmc { frus, ..Bmc::default() }),
            ..Inventory::default()
        };
        let found = placeholders(&inventory);
        assert_eq!(found.len(), 1);
        let named = ": product.name, product.sku, bmc.frus 3 board.serial";
        assert!(found[0].evidence.ends_with(named), "{}", found[0].evidence);
        assert!(placeholders(&Inventory::default()).is_empty());
    }
}
