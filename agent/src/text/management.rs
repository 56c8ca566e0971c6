//! The management controller: its addresses, sensors and last events; power supplies and slots.

use probes::bmc::{Bmc, BmcEvent, BmcSensor, Fru, LanChannel};
use probes::smbios::{PowerSupply, Slot, SmbiosTable};

use super::page::{Page, Tone, joined, pair, pairs, with};
use super::unit;

/// Number of last events to print; the JSON report contains all that were read.
const N_EVENTS: usize = 10;

pub(super) fn bmc(page: &mut Page, bmc: &Bmc) {
    let facts = pairs!(bmc; ipv4, ipv6, mac, firmware, interface);
    page.facts("bmc", &facts, |page| {
        page.each(&bmc.lan_channels, channel);
        if let Some(redfish) = &bmc.redfish {
            page.line(1, &["redfish", &pairs!(redfish; address, port, "host" hostname)].concat());
        }
        page.each(&bmc.sensors, sensor);
        page.each(&bmc.frus, fru);
        events(page, bmc);
    });
}

/// A line for each area with a part or serial number, by which parts are ordered and replaced.
fn fru(page: &mut Page, fru: &Fru) {
    let name = fru.name.clone().unwrap_or_else(|| fru.id.to_string());
    let power = fru.power_supply.as_ref().and_then(|supply| supply.capacity_watts);
    let power = with(" power=", power.map(|watts| format!("{watts}W")));
    let mut line = |what: &str, pairs: &str| page.line(1, &format!("fru {name} {what}{pairs}"));
    if let Some(chassis) = &fru.chassis {
        line("chassis", &pairs!(chassis; "part" part_number, serial));
    }
    if let Some(board) = &fru.board {
        let pairs = pairs!(
            board; "vendor" manufacturer, "name" product, "part" part_number, serial, "made" mfg_date
        );
        line("board", &(pairs + if fru.product.is_none() { &power } else { "" }));
    }
    if let Some(product) = &fru.product {
        let pairs =
            pairs!(product; "vendor" manufacturer, name, "part" part_number, serial, version);
        line("product", &(pairs + &power));
    }
}

fn channel(page: &mut Page, channel: &LanChannel) {
    let length = with("/", channel.ipv4_prefix_length);
    let ipv4 = with(" ipv4=", channel.ipv4.as_ref().map(|ipv4| format!("{ipv4}{length}")));
    let line = format!(
        "channel {}{}{ipv4}{}{}{}",
        channel.number,
        pairs!(channel; mac),
        pairs!(channel; "source" ipv4_source, "gateway" ipv4_gateway),
        with(" ipv6=", joined(&channel.ipv6)),
        pairs!(channel; "vlan" vlan_id),
    );
    page.line(1, &line);
}

/// A line for each sensor that has a reading or needs attention.
fn sensor(page: &mut Page, sensor: &BmcSensor) {
    let is_bad = matches!(sensor.status.as_deref(), Some("critical" | "non-recoverable"));
    let tone = if is_bad || sensor.calls_for_attention { Tone::Warning } else { Tone::Quiet };
    let value = match sensor.reading_milli {
        Some(milli) => unit::measured(milli, sensor.unit.as_deref().unwrap_or_default()),
        None if sensor.calls_for_attention => sensor.states.join(", "),
        None if is_bad => String::new(),
        None => return,
    };
    let status = sensor.status.as_deref().filter(|status| *status != "ok").unwrap_or_default();
    let name = sensor.name.clone().unwrap_or_else(|| format!("number {}", sensor.number));
    let words: Vec<&str> = [value.as_str(), status].into_iter().filter(|w| !w.is_empty()).collect();
    page.toned(tone, 1, &format!("sensor {name}: {}", words.join(" ")));
}

fn events(page: &mut Page, bmc: &Bmc) {
    let Some(info) = &bmc.event_log_info else { return };
    let n_entries = usize::from(info.n_entries);
    let count = if n_entries == 1 { "1 entry".to_owned() } else { format!("{n_entries} entries") };
    let lost = if info.has_overflowed { ", overflowed" } else { "" };
    page.line(1, &format!("event log ({count}{lost})"));
    page.each(bmc.event_log.iter().rev().take(N_EVENTS).rev(), event);
}

fn event(page: &mut Page, event: &BmcEvent) {
    let since_start = || event.since_start_s.map(|seconds| format!("start+{seconds}s"));
    let time = event.time.clone().or_else(since_start).unwrap_or_else(|| "-".to_owned());
    let what = match (&event.event, &event.data_hex, &event.raw_hex) {
        (Some(what), _, _) => what.clone(),
        (None, Some(data), _) => format!("data {data}"),
        (None, None, raw) => format!("raw {}", raw.as_deref().unwrap_or_default()),
    };
    let (sensor, kind) = (with(" ", event.sensor.as_ref()), with(" ", event.kind.as_ref()));
    let end = if event.is_asserted == Some(false) { " (deasserted)" } else { "" };
    let tone = if event.calls_for_attention { Tone::Warning } else { Tone::Plain };
    page.toned(tone, 2, &format!("{time}{sensor}{kind}: {what}{end}"));
}

/// Power supplies and slots.
pub(super) fn smbios(page: &mut Page, table: &SmbiosTable) {
    if !table.power_supplies.is_empty() {
        page.section(&format!("power supplies ({})", table.power_supplies.len()));
    }
    page.each(&table.power_supplies, power_supply);
    if !table.slots.is_empty() {
        let n_used = table.slots.iter().filter(|s| s.usage.as_deref() == Some("in use")).count();
        page.section(&format!("slots ({}, {n_used} in use)", table.slots.len()));
    }
    page.each(&table.slots, slot);
}

fn power_supply(page: &mut Page, supply: &PowerSupply) {
    let plugged = supply.is_plugged.filter(|is_plugged| !is_plugged).map(|_| "no");
    let present = supply.is_present.filter(|is_present| !is_present).map(|_| "no");
    let line = format!(
        "{}{}{}{}{}{}",
        supply.location.as_deref().or(supply.name.as_deref()).unwrap_or("power supply"),
        pairs!(supply; "vendor" manufacturer, "part" part_number, serial),
        with(" power=", supply.max_power_watts.map(|watts| format!("{watts}W"))),
        pairs!(supply; status),
        pair("present", present),
        pair("plugged", plugged),
    );
    let is_bad = plugged.is_some() || supply.status.as_deref() == Some("critical");
    page.toned(if is_bad { Tone::Warning } else { Tone::Plain }, 1, &line);
}

fn slot(page: &mut Page, slot: &Slot) {
    let name = slot.designation.as_deref().unwrap_or("slot");
    let pairs = pairs!(slot; "type" kind) + &with(" lanes=x", slot.n_lanes);
    page.line(1, &format!("{name}{pairs}{}", pairs!(slot; usage, "pci" pci_address)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::page::tests::shown;
    use serde_json::json;

    #[test]
    fn a_technician_sees_the_part_and_serial_numbers_of_boards_and_power_supplies() {
        let product = json!({"part_number": "0PJMDN", "serial": "CN17"});
        let frus = json!([
            {"board": {"serial": "S2R0", "mfg_date": "2023-05-04"}},
            {"id": 2, "name": "PSU1", "product": product, "power_supply": {"capacity_watts": 750}},
        ]);
        let text = shown(bmc, json!({"frus": frus}));
        for line in [
            " fru 0 board serial=S2R0 made=2023-05-04\n",
            " fru PSU1 product part=0PJMDN serial=CN17 power=750W\n",
        ] {
            assert!(text.contains(line), "{line:?} is not in {text}");
        }
    }

    #[test]
    fn a_technician_sees_addresses_bad_sensors_and_the_last_events() {
        let event = |id: u8| {
            let time = format!("2026-11-20T10:00:{id:02}");
            json!({"id": id, "time": time, "kind": "memory", "event": "uncorrectable error"})
        };
        let text = shown(
            bmc,
            json!({
                "lan_channels": [{"number": 1, "ipv4": "192.0.2.9", "ipv4_prefix_length": 24}],
                "sensors": [
                    {"name": "Inlet", "reading_milli": -500, "unit": "°C", "status": "ok"},
                    {"name": "CPU1", "reading_milli": 97_250, "unit": "°C", "status": "critical"},
                    {"name": "Fan1", "status": "non-recoverable"},
                    {"name": "Quiet"},
                ],
                "event_log_info": {"n_entries": 12},
                "event_log": (1..=12).map(event).collect::<Vec<_>>(),
            }),
        );
        for line in [
            " channel 1 ipv4=192.0.2.9/24\n",
            " sensor Inlet: -0.5 °C\n",
            " sensor CPU1: 97.3 °C critical\n",
            " sensor Fan1: non-recoverable\n",
            " event log (12 entries)\n  2026-11-20T10:00:03 memory: uncorrectable error\n",
        ] {
            assert!(text.contains(line), "{line:?} is not in {text}");
        }
        assert!(!text.contains("Quiet"));
    }
}
