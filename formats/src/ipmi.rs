//! Answers of a management controller: its sensors with their readings (IPMI 2.0, 35.14), and the System Event Log
//! (chapters 31 and 32).

pub mod names;
pub mod record;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bytes::array;
use crate::hex::hex;
use crate::time::date_time;
use record::{BMC, Record, THRESHOLD};

/// Times up to here count from the controller's start (37.1).
const LAST_SINCE_START: u32 = 0x2000_0000;

/// A sensor of the management controller.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct BmcSensor {
    /// Its number, unique within its controller and logical unit.
    pub number: u8,
    /// Address of the controller that has it; `None` for the BMC itself, 32. An odd number belongs to
    /// software, whose sensors cannot be read.
    pub owner: Option<u8>,
    /// The bus on which that controller is, 0 for the primary IPMB; `None` for the BMC's own sensors.
    pub owner_channel: Option<u8>,
    /// Its name, e.g. `Inlet Temp`.
    pub name: Option<String>,
    /// The quantity or part that it watches, e.g. `temperature`, `power supply` (table 42-3).
    pub kind: Option<String>,
    /// The part that it is at, e.g. `processor 1` (table 43-13).
    pub entity: Option<String>,
    /// Unit of the numbers below, e.g. `°C`, `rpm`, `V`, `W`, `%`.
    pub unit: Option<String>,
    /// The reading in thousandths of `unit`; `None` if it is not a number, not scanned or not
    /// available.
    pub reading_milli: Option<i64>,
    /// Thresholds in thousandths of `unit`, as its record has them.
    pub lower_critical_milli: Option<i64>,
    /// Like `lower_critical_milli`.
    pub lower_non_critical_milli: Option<i64>,
    /// Like `lower_critical_milli`.
    pub upper_non_critical_milli: Option<i64>,
    /// Like `lower_critical_milli`.
    pub upper_critical_milli: Option<i64>,
    /// `ok`, `non-critical`, `critical` or `non-recoverable`: the most severe threshold
    /// that the reading crosses.
    pub status: Option<String>,
    /// The states that a sensor without thresholds is in, e.g. `present`, `failure predicted`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub states: Vec<String>,
    /// True if the meaning of one of `states` calls for attention.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub calls_for_attention: bool,
}

/// A sensor with the facts from its record alone.
pub fn sensor(record: &Record) -> BmcSensor {
    let [lower_non_critical, lower_critical, _, upper_non_critical, upper_critical, _] =
        record.thresholds.map(|raw| record.scale?.thousandths(raw?));
    BmcSensor {
        number: record.number,
        owner: Some(record.owner).filter(|owner| *owner != BMC),
        owner_channel: Some(record.channel).filter(|_| record.owner != BMC),
        name: record.name.clone(),
        kind: names::sensor_kind(record.kind).map(str::to_owned),
        entity: names::entity(record.entity, record.entity_instance),
        unit: record.scale.map(|scale| scale.unit.to_owned()),
        lower_critical_milli: lower_critical,
        lower_non_critical_milli: lower_non_critical,
        upper_non_critical_milli: upper_non_critical,
        upper_critical_milli: upper_critical,
        ..BmcSensor::default()
    }
}

/// Adds the answer to Get Sensor Reading: reading, flags, then one or two bytes of states. A sensor that is not
/// scanned, or whose reading is marked unavailable, is left without a reading.
pub fn apply_reading(record: &Record, data: &[u8], sensor: &mut BmcSensor) {
    let Some(&[raw, flags]) = data.first_chunk::<2>() else { return };
    let (is_scanned, is_unavailable) = (flags & 0x40 != 0, flags & 0x20 != 0);
    if !is_scanned || is_unavailable {
        return;
    }
    sensor.reading_milli = record.scale.and_then(|scale| scale.thousandths(raw));
    let low = data.get(2).copied();
    if record.event_type == THRESHOLD {
        sensor.status = low.map(|bits| status(bits).to_owned());
        return;
    }
    // The highest bit of the second byte is not a state.
    let high = data.get(3).copied().unwrap_or_default() & 0x7f;
    let bits = u16::from_le_bytes([low.unwrap_or_default(), high]);
    for offset in (0..15_u8).filter(|offset| bits & (1 << offset) != 0) {
        let known = names::state(record.kind, record.event_type, offset);
        let name = known.map_or_else(|| format!("state {offset}"), |(name, _)| name.to_owned());
        sensor.calls_for_attention |= known.is_some_and(|(_, is_bad)| is_bad);
        sensor.states.push(name);
    }
}

/// The most severe of six bits (table 35-15).
fn status(bits: u8) -> &'static str {
    match bits & 0x3f {
        bits if bits & 0b10_0100 != 0 => "non-recoverable",
        bits if bits & 0b01_0010 != 0 => "critical",
        0 => "ok",
        _ => "non-critical",
    }
}

/// The log as a whole.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct EventLogInfo {
    /// Number of entries.
    pub n_entries: u16,
    /// Free space in bytes; an entry needs 16. `None` if it is 65535 or more.
    pub free_bytes: Option<u16>,
    /// True if entries were lost because the log was full.
    pub has_overflowed: bool,
    /// When the last entry was made, as the time of an entry.
    pub last_added: Option<String>,
    /// When entries were last removed, as the time of an entry.
    pub last_cleared: Option<String>,
}

/// An entry of the log.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct BmcEvent {
    /// Its number in the log.
    pub id: u16,
    /// When it happened, `YYYY-MM-DDThh:mm:ss` by the controller's clock, whose time zone is unknown;
    /// `None` if the entry has no time or the clock was not set.
    pub time: Option<String>,
    /// When it happened, in seconds since the controller started; only if its clock was not set.
    pub since_start_s: Option<u32>,
    /// The sensor's name, if its records contain one.
    pub sensor: Option<String>,
    /// The sensor's number; `None` for OEM entries.
    pub sensor_number: Option<u8>,
    /// The quantity or part that the sensor watches, e.g. `memory` (table 42-3).
    pub kind: Option<String>,
    /// The event, e.g. `uncorrectable error`; `None` for OEM events.
    pub event: Option<String>,
    /// True if the state was entered, false if it was left.
    pub is_asserted: Option<bool>,
    /// True if the state was entered and its meaning calls for attention.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub calls_for_attention: bool,
    /// The three bytes of event data in hexadecimal.
    pub data_hex: Option<String>,
    /// All 16 bytes of an OEM entry, in hexadecimal.
    pub raw_hex: Option<String>,
}

/// An entry as the controller sends it.
pub type Entry = [u8; 16];

/// The number of an entry.
pub fn id(entry: &Entry) -> u16 {
    u16::from_le_bytes([entry[0], entry[1]])
}

/// Parses the answer to Get SEL Info (31.2); `None` if it is truncated.
pub fn event_log_info(data: &[u8]) -> Option<EventLogInfo> {
    let word = |at: usize| array(data, at).map(u16::from_le_bytes);
    let time = |at: usize| array(data, at).and_then(|bytes| time(u32::from_le_bytes(bytes)));
    Some(EventLogInfo {
        n_entries: word(1)?,
        free_bytes: Some(word(3)?).filter(|bytes| *bytes != u16::MAX),
        has_overflowed: data.get(13).is_some_and(|flags| flags & 0x80 != 0),
        last_added: time(5),
        last_cleared: time(9),
    })
}

/// Parses an entry of the log; `records` give the sensors their names. Number, kind, then by kind: time, generator,
/// version, type and number of the sensor, event type and direction, three bytes of data; or OEM data, which begins with
/// a time up to kind 0xDF.
pub fn event(entry: &Entry, records: &[Record]) -> BmcEvent {
    let [_, _, kind, t0, t1, t2, t3, owner, lun, _, sensor, number, event, data @ ..] = *entry;
    let seconds = u32::from_le_bytes([t0, t1, t2, t3]);
    let mut found = BmcEvent { id: id(entry), ..BmcEvent::default() };
    if kind < 0xe0 {
        found.time = time(seconds);
        found.since_start_s = (seconds <= LAST_SINCE_START).then_some(seconds);
    }
    if kind != 0x02 {
        found.raw_hex = Some(hex(entry));
        return found;
    }
    let (event_type, offset) = (event & 0x7f, data[0] & 0x0f);
    let is_asserted = event & 0x80 == 0;
    // The same number at another controller or logical unit is another sensor.
    let is_same = |record: &&Record| {
        (record.owner, record.lun, record.number, record.kind)
            == (owner, lun & 0x03, number, sensor)
    };
    let known = names::state(sensor, event_type, offset);
    BmcEvent {
        sensor: records.iter().find(is_same).and_then(|record| record.name.clone()),
        sensor_number: Some(number),
        kind: names::sensor_kind(sensor).map(str::to_owned),
        event: known.map(|(name, _)| name.to_owned()),
        is_asserted: Some(is_asserted),
        // A fan that is not yet spinning crosses its thresholds at every start of the machine.
        calls_for_attention: is_asserted
            && event_type != THRESHOLD
            && known.is_some_and(|(_, is_bad)| is_bad),
        data_hex: Some(hex(&data)),
        ..found
    }
}

/// Seconds since 1970 as `YYYY-MM-DDThh:mm:ss`; `None` if they count from the controller's start, and for all ones, which
/// mean no time.
fn time(seconds: u32) -> Option<String> {
    let is_date = seconds > LAST_SINCE_START && seconds != u32::MAX;
    is_date.then(|| date_time(u64::from(seconds)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{full_record, has};
    use serde_json::json;

    #[test]
    fn unscanned_or_unavailable_sensor_has_no_reading() {
        let record = record::parse(&full_record(1, 1, 1, [1, 0, 0, 0, 0, 0], b"T")).remove(0);
        let read = |data: &[u8]| {
            let mut sensor = super::sensor(&record);
            apply_reading(&record, data, &mut sensor);
            (sensor.reading_milli, sensor.status)
        };
        for flags in [0x00, 0x80, 0x60, 0xe0] {
            assert_eq!(read(&[0, flags, 0xc7]), (None, None), "{flags:#x}");
        }
        assert_eq!(read(&[0, 0x40]), (Some(0), None));
    }

    #[test]
    fn status_is_the_most_severe_threshold() {
        for (bits, expected) in [
            (0xc0, "ok"),
            (0x01, "non-critical"),
            (0x08, "non-critical"),
            (0x03, "critical"),
            (0x18, "critical"),
            (0x07, "non-recoverable"),
            (0x38, "non-recoverable"),
        ] {
            assert_eq!(status(bits), expected, "{bits:#x}");
        }
    }

    #[test]
    fn oem_entry_is_reported_raw() {
        let mut oem = [0_u8; 16];
        (oem[0], oem[2], oem[3], oem[15]) = (7, 0xc0, 9, 0xee);
        let event = super::event(&oem, &[]);
        assert_eq!((event.id, event.since_start_s, event.time), (7, Some(9), None));
        assert_eq!(event.raw_hex.as_deref(), Some("0700c0090000000000000000000000ee"));
        oem[2] = 0xe0;
        assert_eq!(super::event(&oem, &[]).since_start_s, None, "this kind has no time");
    }

    #[test]
    fn unset_or_relative_time_is_no_date() {
        assert_eq!(time(u32::MAX), None);
        assert_eq!(event_log_info(&[0x51, 1, 0, 0]), None);
        let mut data = [0x51, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        data[5..9].copy_from_slice(&1_795_168_800_u32.to_le_bytes());
        data[9..13].copy_from_slice(&u32::MAX.to_le_bytes());
        let found = event_log_info(&data).unwrap();
        has(&found, &json!({"last_added": "2026-11-20T10:00:00", "last_cleared": null}));
        data[5..9].copy_from_slice(&99_u32.to_le_bytes());
        assert_eq!(event_log_info(&data).unwrap().last_added, None);
    }
}
