//! Power supplies, the last boot, the kernel and the firmware's strings.

use super::Finding;
use super::table::{
    CPU_MACHINE_CHECK, FIRMWARE_BOOT_STATUS, FIRMWARE_CLOCK, FIRMWARE_PLACEHOLDER,
    FIRMWARE_WATCHDOG_RESET, OS_CONTAINER, POWER_SUPPLY,
};
use crate::bmc::Fru;
use crate::collect::Inventory;
use crate::dmi::is_placeholder;
use crate::parts::{PartId, PartKind};
use crate::smbios::PowerSupply;

/// Power supplies that the firmware found faulty or unplugged at power on.
pub(super) fn power_supplies(inventory: &Inventory) -> Vec<Finding> {
    // If not even the name was filled in, the status flags were not either.
    let is_real = |text: &Option<String>| text.as_ref().is_some_and(|text| !is_placeholder(text));
    let supplies = inventory.smbios.iter().flat_map(|table| &table.power_supplies);
    let supplies = supplies.filter(|supply| is_real(&supply.location) || is_real(&supply.name));
    let finding = |supply: &PowerSupply| {
        let state = match (supply.status.as_deref(), supply.is_plugged) {
            (Some(status @ ("critical" | "non-critical")), _) => format!("status {status}"),
            (_, Some(false)) => "not plugged in".to_owned(),
            _ => return None,
        };
        let locator = supply.location.clone().or_else(|| supply.name.clone());
        let part = locator.map(|name| PartId::called(PartKind::PowerSupply, name));
        Some(POWER_SUPPLY.finding(part, format!("{state} at power on")))
    };
    supplies.filter_map(finding).collect()
}

/// The last boot, if a fault caused it.
pub(super) fn last_start(inventory: &Inventory) -> Vec<Finding> {
    let status = inventory.smbios.as_ref().and_then(|table| table.boot_status.as_deref());
    let is_fault =
        |status: &&str| status.starts_with("hardware failure") || *status == "watchdog expired";
    let failed = status.filter(is_fault);
    let failed = failed.map(|status| FIRMWARE_BOOT_STATUS.finding(None, status));
    let watchdogs = inventory.devices.iter().flat_map(|devices| &devices.watchdogs);
    let expired = watchdogs.filter(|watchdog| watchdog.caused_last_reset == Some(true));
    let expired = expired.map(|watchdog| {
        let evidence = "this watchdog caused the last reset";
        let part = PartId::called(PartKind::Other, &watchdog.name);
        FIRMWARE_WATCHDOG_RESET.finding(Some(part), evidence)
    });
    failed.into_iter().chain(expired).collect()
}

/// A machine check since boot (bit 4 of the kernel's taint).
pub(super) fn machine_check(inventory: &Inventory) -> Vec<Finding> {
    const MACHINE_CHECK: u64 = 1 << 4;
    let taint = inventory.os.as_ref().and_then(|os| os.kernel_taint).unwrap_or_default();
    let evidence = format!("the kernel's taint is {taint}: it handled a machine check");
    let has_happened = taint & MACHINE_CHECK != 0;
    has_happened.then(|| CPU_MACHINE_CHECK.finding(None, evidence)).into_iter().collect()
}

/// A container shows parts of the machine only, and some figures of the host.
pub(super) fn container(inventory: &Inventory) -> Vec<Finding> {
    let name = inventory.os.as_ref().and_then(|os| os.container.as_deref());
    let finding = |name: &str| {
        let evidence = format!(
            "the agent runs in a container ({name}); parts of the machine may be invisible"
        );
        OS_CONTAINER.finding(None, evidence)
    };
    name.map(finding).into_iter().collect()
}

/// A battery-backed clock that is off by a minute or more, while the kernel's clock is known to be
/// correct.
pub(super) fn clock(inventory: &Inventory) -> Vec<Finding> {
    const MINUTE: u64 = 60;
    let clock = inventory.os.as_ref().and_then(|os| os.clock.as_ref());
    let correct = clock.filter(|clock| clock.is_synchronized == Some(true));
    let offset = correct.and_then(|clock| clock.rtc_offset_s);
    let finding = |offset: i64| {
        let evidence = format!("the battery-backed clock is off by {offset} s");
        FIRMWARE_CLOCK.finding(Some(PartId::new(PartKind::Other, "rtc0")), evidence)
    };
    offset.filter(|offset| offset.unsigned_abs() >= MINUTE).map(finding).into_iter().collect()
}

/// Strings that name vendor and model, and that the vendor never set. Serial numbers and the UUID are
/// checked as identifiers. Asset tags are for the owner of the machine to set.
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
        ("chassis.vendor", chassis.and_then(|c| c.vendor.as_ref())),
        ("chassis.version", chassis.and_then(|c| c.version.as_ref())),
        ("bios.version", bios.and_then(|b| b.version.as_ref())),
    ];
    let named = fields.into_iter().filter_map(|(field, value)| Some((field.to_owned(), value?)));
    let named = named.chain(inventory.bmc.iter().flat_map(|bmc| bmc.frus.iter().flat_map(of_fru)));
    let found: Vec<String> =
        named.filter(|(_, value)| is_placeholder(value)).map(|(field, _)| field).collect();
    if found.is_empty() {
        return Vec::new();
    }
    let evidence = format!("never set by the vendor: {}", found.join(", "));
    vec![FIRMWARE_PLACEHOLDER.finding(None, evidence)]
}

/// The strings of a FRU that name it, each with a key that begins with the FRU.
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

    #[test]
    fn placeholders_are_listed_in_one_finding() {
        let inventory = serde_json::json!({
            "product": {"name": "To Be Filled By O.E.M.", "sku": "Default string", "vendor": "Dell Inc."},
            "bmc": {"frus": [{"id": 3, "board": {"serial": "0000000000", "product": "Z12PP"}}]},
        });
        let found = placeholders(&serde_json::from_value(inventory).unwrap());
        assert_eq!(found.len(), 1);
        let named = ": product.name, product.sku, bmc.frus 3 board.serial";
        assert!(found[0].evidence.ends_with(named), "{}", found[0].evidence);
        assert!(placeholders(&Inventory::default()).is_empty());
    }
}
