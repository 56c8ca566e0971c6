//! The management controller: its addresses, sensors and last events; power supplies and slots.

use probes::bmc::{Bmc, BmcEvent, BmcSensor, Fru, LanChannel};
use probes::smbios::{PowerSupply, Slot, SmbiosTable};

use super::page::{Page, Tone, joined, pair, pairs, with};
use super::unit;

/// Number of last events to print; the JSON report contains all that were read.
const N_EVENTS: usize = 10;

pub(super) fn bmc(page: &mut Page, bmc: &Bmc) {
    let facts = pairs!(bmc; ipv4, ipv6, mac, firmware, interface);
    page.facts("bmc", &facts, |page| below(page, bmc));
}

fn below(page: &mut Page, bmc: &Bmc) {
    page.each(&bmc.lan_channels, channel);
    if let Some(redfish) = &bmc.redfish {
        page.line(1, &["redfish", &pairs!(redfish; address, port, "host" hostname)].concat());
    }
    page.each(&bmc.sensors, sensor);
    page.each(&bmc.frus, fru);
    events(page, bmc);
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
    use crate::text::page::tests::text_of;
    use probes::bmc::{EventLogInfo, FruBoard, FruPowerSupply, FruProduct};

    #[test]
    fn a_technician_sees_the_part_and_serial_numbers_of_boards_and_power_supplies() {
        let text = |text: &str| Some(text.to_owned());
        let supply = FruPowerSupply { capacity_watts: Some(750), ..FruPowerSupply::default() };
        let board =
            FruBoard { serial: text("S2R0"), mfg_date: text("2023-05-04"), ..FruBoard::default() };
        let product = FruProduct {
            part_number: text("0PJMDN"),
            serial: text("CN17"),
            ..FruProduct::default()
        };
        let frus = vec![
            Fru { board: Some(board), ..Fru::default() },
            Fru {
                id: 2,
                name: text("PSU1"),
                product: Some(product),
                power_supply: Some(supply),
                ..Fru::default()
            },
        ];
        let text = text_of(|page| bmc(page, &Bmc { frus, ..Bmc::default() }));
        for line in [
            " fru 0 board serial=S2R0 made=2023-05-04\n",
            " fru PSU1 product part=0PJMDN serial=CN17 power=750W\n",
        ] {
            assert!(text.contains(line), "{line:?} is not in {text}");
        }
    }

    #[test]
    fn a_technician_sees_addresses_bad_sensors_and_the_last_events() {
        let sensor = |name: &str, reading_milli, status: Option<&str>| BmcSensor {
            name: Some(name.to_owned()),
            reading_milli,
            unit: Some("°C".to_owned()),
            status: status.map(str::to_owned),
            ..BmcSensor::default()
        };
        let event = |id| BmcEvent {
            id,
            time: Some(format!("2026-11-20T10:00:{id:02}")),
            kind: Some("memory".to_owned()),
            event: Some("uncorrectable error".to_owned()),
            ..BmcEvent::default()
        };
        let found = Bmc {
            lan_channels: vec![LanChannel {
                number: 1,
                ipv4: Some("192.0.2.9".to_owned()),
                ipv4_prefix_length: Some(24),
                ..LanChannel::default()
            }],
            sensors: vec![
                sensor("Inlet", Some(-500), Some("ok")),
                sensor("CPU1", Some(97_250), Some("critical")),
                sensor("Fan1", None, Some("non-recoverable")),
                sensor("Quiet", None, None),
            ],
            event_log_info: Some(EventLogInfo { n_entries: 12, ..EventLogInfo::default() }),
            event_log: (1..=12).map(event).collect(),
            ..Bmc::default()
        };
        let text = text_of(|page| bmc(page, &found));
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
