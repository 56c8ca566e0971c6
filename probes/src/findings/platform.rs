//! Identifiers that do not distinguish machines, power supplies, the last boot, the kernel and the firmware's strings.

use serde_json::{Value, json};

use super::{Finding, raise};
use crate::collect::Inventory;
use crate::dmi::is_placeholder;
use crate::identity::{Identifier, identity};
use crate::parts::{PartId, PartKind};
use crate::smbios::PowerSupply;

/// Identifiers that a vendor left unset or shipped on many machines.
pub(super) fn suspicious(inventory: &Inventory) -> Vec<Finding> {
    identity(inventory).into_iter().filter_map(suspicion).collect()
}

fn suspicion(identifier: Identifier) -> Option<Finding> {
    let (code, reason) = match identifier.suspicious?.as_str() {
        "placeholder" => ("identity.placeholder", "is a placeholder"),
        "zero" => ("identity.zero", "is all zeros, so it was never set"),
        "known duplicate" => ("identity.known_duplicate", "is known to occur on many machines"),
        // The USB port of a BMC has the same address on every machine: nothing is wrong.
        _ => return None,
    };
    let evidence = format!("\"{}\" {reason}", identifier.value.escape_debug());
    Some(raise(code, Some(PartId::new(PartKind::Identifier, identifier.kind)), evidence))
}

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
        Some(raise("power.supply", part, format!("{state} at power on")))
    };
    supplies.filter_map(finding).collect()
}

/// The last boot, if a fault caused it.
pub(super) fn last_start(inventory: &Inventory) -> Vec<Finding> {
    let status = inventory.smbios.as_ref().and_then(|table| table.boot_status.as_deref());
    let is_fault =
        |status: &&str| status.starts_with("hardware failure") || *status == "watchdog expired";
    let failed = status.filter(is_fault);
    let failed = failed.map(|status| raise("firmware.boot_status", None, status));
    let watchdogs = inventory.devices.iter().flat_map(|devices| &devices.watchdogs);
    let expired = watchdogs.filter(|watchdog| watchdog.caused_last_reset == Some(true));
    let expired = expired.map(|watchdog| {
        let evidence = "this watchdog caused the last reset";
        let part = PartId::called(PartKind::Other, &watchdog.name);
        raise("firmware.watchdog_reset", Some(part), evidence)
    });
    failed.into_iter().chain(expired).collect()
}

/// A machine check since boot (bit 4 of the kernel's taint).
pub(super) fn machine_check(inventory: &Inventory) -> Vec<Finding> {
    const MACHINE_CHECK: u64 = 1 << 4;
    let taint = inventory.os.as_ref().and_then(|os| os.kernel_taint).unwrap_or_default();
    let evidence = format!("the kernel's taint is {taint}: it handled a machine check");
    let has_happened = taint & MACHINE_CHECK != 0;
    has_happened.then(|| raise("cpu.machine_check", None, evidence)).into_iter().collect()
}

/// A container shows parts of the machine only, and some figures of the host.
pub(super) fn container(inventory: &Inventory) -> Vec<Finding> {
    let name = inventory.os.as_ref().and_then(|os| os.container.as_deref());
    let finding = |name: &str| {
        let evidence = format!(
            "the agent runs in a container ({name}); parts of the machine may be invisible"
        );
        raise("os.container", None, evidence)
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
        raise("firmware.clock", Some(PartId::new(PartKind::Other, "rtc0")), evidence)
    };
    offset.filter(|offset| offset.unsigned_abs() >= MINUTE).map(finding).into_iter().collect()
}

/// The fields that name vendor and model. Serial numbers and the UUID are checked as identifiers. Asset tags are for the
/// owner of the machine to set.
const NAMES: [(&str, &[&str]); 4] = [
    ("product", &["vendor", "name", "family", "sku", "version"]),
    ("baseboard", &["vendor", "product", "version"]),
    ("chassis", &["vendor", "version"]),
    ("bios", &["version"]),
];
/// The fields that name a FRU.
const NAMES_OF_FRU: [(&str, &[&str]); 2] = [
    ("board", &["manufacturer", "product", "serial", "part_number"]),
    ("product", &["manufacturer", "name", "serial", "part_number"]),
];

/// Strings that name vendor and model, and that the vendor never set.
pub(super) fn placeholders(inventory: &Inventory) -> Vec<Finding> {
    let Inventory { product, baseboard, chassis, bios, .. } = inventory;
    let sections =
        json!({"product": product, "baseboard": baseboard, "chassis": chassis, "bios": bios});
    let mut found = unset(&sections, &NAMES);
    for fru in inventory.bmc.iter().flat_map(|bmc| &bmc.frus) {
        let sections = json!({"board": fru.board, "product": fru.product});
        let unset = unset(&sections, &NAMES_OF_FRU).into_iter();
        found.extend(unset.map(|field| format!("bmc.frus {} {field}", fru.id)));
    }
    if found.is_empty() {
        return Vec::new();
    }
    let evidence = format!("never set by the vendor: {}", found.join(", "));
    vec![raise("firmware.placeholder", None, evidence)]
}

/// The fields that have a placeholder.
fn unset(sections: &Value, fields: &[(&str, &[&str])]) -> Vec<String> {
    let paths = fields
        .iter()
        .flat_map(|(section, names)| names.iter().map(move |name| [*section, *name].join(".")));
    let text = |path: &str| sections.pointer(&format!("/{}", path.replace('.', "/")))?.as_str();
    paths.filter(|path| text(path).is_some_and(is_placeholder)).collect()
}
