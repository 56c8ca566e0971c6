//! Reports of the BMC: its sensors now, and its event log.

use std::collections::BTreeMap;

use super::{Finding, raise};
use crate::bmc::{Bmc, BmcEvent, BmcSensor, EventLogInfo};
use crate::collect::Inventory;
use crate::parts::{PartId, PartKind};

/// Size of one log entry (IPMI 2.0, section 32.1).
const ENTRY_BYTES: u16 = 16;

/// Sensors beyond a critical threshold, or in a state that needs attention.
pub(super) fn sensors(inventory: &Inventory) -> Vec<Finding> {
    let sensors = inventory.bmc.iter().flat_map(|bmc| &bmc.sensors);
    sensors.filter_map(sensor).collect()
}

fn sensor(sensor: &BmcSensor) -> Option<Finding> {
    let status = sensor.status.as_deref().filter(|s| matches!(*s, "critical" | "non-recoverable"));
    let evidence = match status {
        Some(status) => format!("{}is {status}", reading(sensor)),
        None if sensor.calls_for_attention => sensor.states.join(", "),
        None => return None,
    };
    let kind = sensor.kind.as_deref().unwrap_or("sensor");
    let is_power = matches!(kind, "power supply" | "power unit");
    let code = if is_power { "power.supply" } else { "bmc.sensor" };
    let name = sensor.name.clone().unwrap_or_else(|| format!("sensor {}", sensor.number));
    let of = if is_power { PartKind::PowerSupply } else { PartKind::Sensor };
    Some(raise(code, Some(PartId::called(of, name)), format!("{kind} {evidence}")))
}

fn reading(sensor: &BmcSensor) -> String {
    let unit = sensor.unit.as_deref().unwrap_or_default();
    let number = sensor.reading_milli.map(decimal);
    number.map(|number| format!("of {number} {unit} ")).unwrap_or_default()
}

/// Thousandths as a number, without trailing zeros: `0.85`, `-0.5`, `97`.
fn decimal(milli: i64) -> String {
    let sign = if milli < 0 { "-" } else { "" };
    let (whole, rest) = (milli.unsigned_abs() / 1000, milli.unsigned_abs() % 1000);
    let text = format!("{sign}{whole}.{rest:03}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Memory errors in the log, by sensor and kind of error, then other entries that needed attention. They may be long past.
pub(super) fn events(inventory: &Inventory) -> Vec<Finding> {
    let is_memory = |event: &&BmcEvent| event.kind.as_deref() == Some("memory");
    // The BMC calls a corrected error harmless; many of them announce a failing DIMM.
    let is_bad = |event: &&BmcEvent| {
        event.calls_for_attention || event.event.as_deref() == Some("correctable error")
    };
    let of_memory = grouped(inventory, |event| {
        is_memory(event) && event.is_asserted == Some(true) && is_bad(event)
    });
    let of_memory = of_memory.into_iter().map(|((sensor, what), events)| Finding {
        advice: format!(
            "Replace the DIMM that the log calls {sensor}. If that has been done, clear the log."
        ),
        ..raise(
            "memory.event_log",
            Some(PartId::called(PartKind::Dimm, sensor)),
            summary(&what, &events),
        )
    });
    let others = grouped(inventory, |event| event.calls_for_attention && !is_memory(event));
    let others = others.into_iter().map(|((sensor, what), events)| {
        let part = PartId::called(PartKind::Sensor, sensor);
        raise("bmc.event_log", Some(part), summary(&what, &events))
    });
    of_memory.chain(others).collect()
}

type Groups<'a> = BTreeMap<(String, String), Vec<&'a BmcEvent>>;

/// Groups events by sensor and by kind of event.
fn grouped(inventory: &Inventory, is_wanted: impl Fn(&&BmcEvent) -> bool) -> Groups<'_> {
    let mut groups = Groups::new();
    let events = inventory.bmc.iter().flat_map(|bmc| &bmc.event_log);
    for event in events.filter(is_wanted) {
        let number = event.sensor_number.unwrap_or_default();
        let sensor = event.sensor.clone().unwrap_or_else(|| format!("sensor {number}"));
        let kind = event.kind.as_deref().unwrap_or_default();
        let what = format!("{kind} {}", event.event.as_deref().unwrap_or_default());
        groups.entry((sensor, what)).or_default().push(event);
    }
    groups
}

fn summary(what: &str, events: &[&BmcEvent]) -> String {
    let last = events.iter().rev().find_map(|event| event.time.as_deref());
    let last = last.map(|time| format!(", last {time}")).unwrap_or_default();
    format!("{}x {what} in the event log{last}", events.len())
}

/// A log that is full, or that has lost entries because it was.
pub(super) fn full_log(inventory: &Inventory) -> Vec<Finding> {
    let info = inventory.bmc.as_ref().and_then(|bmc| bmc.event_log_info.as_ref());
    let is_full = info.filter(|info| {
        // Some BMCs report no free space at all times; then an empty log gives them away.
        info.has_overflowed
            || (info.n_entries > 0 && info.free_bytes.is_some_and(|n| n < ENTRY_BYTES))
    });
    let finding = |info: &EventLogInfo| {
        let has_room = info.free_bytes.is_none_or(|bytes| bytes >= ENTRY_BYTES);
        let state = match (info.has_overflowed, has_room) {
            (true, false) => "the log is full and later entries were lost",
            (true, true) => "later entries were lost while the log was full",
            (false, _) => "the log is full",
        };
        raise("bmc.event_log.full", None, format!("{} entries; {state}", info.n_entries))
    };
    is_full.map(finding).into_iter().collect()
}

/// A controller that the firmware describes and that did not respond, or was not asked.
pub(super) fn silent(inventory: &Inventory) -> Vec<Finding> {
    let is_silent = |bmc: &&Bmc| bmc.firmware.is_none() && !bmc.is_unexamined;
    let named = inventory.bmc.as_ref().filter(is_silent);
    let interface = named.and_then(|bmc| bmc.interface.as_deref());
    let finding = |interface: &str| {
        let evidence =
            format!("the firmware describes a BMC with a {interface} interface; none responded");
        raise("bmc.silent", None, evidence)
    };
    interface.map(finding).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_keep_sign_and_thousandths() {
        let texts = [850, -500, 97_000, 12_060, -1_001, 0].map(decimal);
        assert_eq!(texts, ["0.85", "-0.5", "97", "12.06", "-1.001", "0"]);
        assert_eq!(decimal(i64::MIN), "-9223372036854775.808");
    }
}
