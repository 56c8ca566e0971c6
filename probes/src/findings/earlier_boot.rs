//! Events before this boot: errors that the firmware recorded, crashes of an earlier kernel.

use std::collections::BTreeMap;

use super::{Finding, Severity, raise};
use crate::collect::Inventory;
use crate::firmware::BootError;
use crate::parts::{PartId, PartKind};
use crate::pci_address::Address;

/// Severities of an error, the worst last.
const SEVERITIES: [&str; 4] = ["informational", "corrected", "recoverable", "fatal"];

/// Errors of the hardware in the firmware's record, one finding for each part.
pub(super) fn boot_errors(inventory: &Inventory) -> Vec<Finding> {
    let mut by_part: BTreeMap<Option<&String>, Vec<&BootError>> = BTreeMap::new();
    for error in inventory.firmware.iter().flat_map(|firmware| &firmware.boot_errors) {
        let part = error.part.as_ref().or(error.unit.as_ref()).or(error.place.as_ref());
        by_part.entry(part).or_default().push(error);
    }
    let called = |name: &String| match Address::parse(name) {
        Some(_) => PartId::new(PartKind::Pci, name),
        None => PartId::called(PartKind::Dimm, name),
    };
    let rank = |error: &&BootError| SEVERITIES.iter().position(|one| *one == error.severity);
    let finding = |(part, errors): (Option<&String>, Vec<&BootError>)| {
        let worst = errors.iter().copied().max_by_key(rank)?;
        let error = format!("recorded before this boot: {} error, {}", worst.kind, worst.severity);
        let names = worst.unit.iter().chain(&worst.place).filter(|name| Some(*name) != part);
        let mut texts: Vec<String> = [error].into_iter().chain(names.cloned()).collect();
        if errors.len() > 1 {
            texts.push(format!("{} more errors of this part", errors.len() - 1));
        }
        let evidence = texts.join(", ");
        let mut finding = raise("firmware.boot_error", part.map(called), evidence);
        if !matches!(worst.severity.as_str(), "fatal" | "recoverable") {
            finding.severity = Severity::Info;
        }
        Some(finding)
    };
    by_part.into_iter().filter_map(finding).collect()
}

/// Crashes of an earlier kernel, which it stored for the next boot: the parts of one crash are several records.
pub(super) fn crashes(inventory: &Inventory) -> Vec<Finding> {
    let crashes = inventory.os.as_ref().map_or(&[][..], |os| &os.earlier_crashes);
    let Some(first) = crashes.first() else { return Vec::new() };
    let names: Vec<&str> = crashes.iter().map(|crash| crash.record.as_str()).take(8).collect();
    let more = if crashes.len() > names.len() { ", …" } else { "" };
    // The panic is in only one of the records.
    let messages = || crashes.iter().filter_map(|crash| crash.message.as_deref());
    let panic = messages().find(|message| message.contains("panic"));
    let message = panic.or_else(|| messages().next());
    let said = message.map(|message| format!(": {message}")).unwrap_or_default();
    let n = crashes.len();
    let records = if n == 1 { "a record".to_owned() } else { format!("{n} records") };
    let evidence =
        format!("{records} of a crash before this boot ({}{more}){said}", names.join(", "));
    let mut finding = raise("os.earlier_crash", None, evidence);
    finding.raw = message.or(Some(&first.record)).map(str::to_owned);
    vec![finding]
}
