//! The System Event Log (IPMI 2.0, chapters 31 and 32): the last entries, oldest first.

use std::time::Duration;

use formats::bytes::array;
use formats::hex::hex;
use formats::time::date_time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ask::{Controller, incomplete};
use super::log::{NEWEST, log};
use super::names;
use super::record::{Record, THRESHOLD};
use crate::machine::Machine;
use crate::sys::ipmi::IpmiCommand;

/// A log has 512 to 4096 entries; the last of them are read.
pub(super) const LIMIT_ENTRIES: u16 = 512;
const BUDGET: Duration = Duration::from_secs(4);
const ENTRY_BYTES: usize = 16;
/// Times up to here count from the controller's start (37.1).
const LAST_SINCE_START: u32 = 0x2000_0000;

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

/// Reads the log. `records` give the sensors their names.
pub(super) fn event_log(
    machine: &Machine,
    records: &[Record],
) -> (Option<EventLogInfo>, Vec<BmcEvent>) {
    let controller = Controller::new(machine, BUDGET);
    let info =
        controller.data_or_problem(IpmiCommand::EventLogInfo).and_then(|data| parse_info(&data));
    let Some(info) = info else { return (None, Vec::new()) };
    if info.n_entries == 0 {
        return (Some(info), Vec::new());
    }
    let (entries, kept) = log(&controller, info.n_entries);
    if let Some(kept) = kept {
        // Without the last entry, the number of entries before it is unknown too.
        let limit = if kept == NEWEST { LIMIT_ENTRIES } else { u16::MAX };
        let n_wanted = usize::from(info.n_entries.min(limit)).max(entries.len());
        incomplete(machine, "ipmi/event_log", &format!("the {kept} "), entries.len(), n_wanted);
    }
    let events = entries.iter().map(|entry| parse_entry(entry, records)).collect();
    (Some(info), events)
}

fn parse_info(data: &[u8]) -> Option<EventLogInfo> {
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

pub(super) type Entry = [u8; ENTRY_BYTES];

pub(super) fn id(entry: &Entry) -> u16 {
    u16::from_le_bytes([entry[0], entry[1]])
}

/// Number, kind, then by kind: time, generator, version, type and number of the sensor, event type
/// and direction, three bytes of data; or OEM data, which begins with a time up to kind 0xDF.
fn parse_entry(entry: &Entry, records: &[Record]) -> BmcEvent {
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
    use crate::bmc::record::{self, tests::full_record};
    use crate::testing::{has, problems, tree_from_bytes, tree_of_bytes};
    use serde_json::json;

    fn info(n_entries: u16, flags: u8) -> Vec<u8> {
        let [low, high] = n_entries.to_le_bytes();
        vec![0, 0x51, low, high, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, flags]
    }

    /// An entry of the memory sensor 1 at 2026-11-20T10:00:00.
    fn entry(next: u16, id: u16, event: u8) -> Vec<u8> {
        let [low, high] = id.to_le_bytes();
        let mut answer = vec![0];
        answer.extend(next.to_le_bytes());
        answer.extend([low, high, 2]);
        answer.extend(1_795_168_800_u32.to_le_bytes());
        answer.extend([0x20, 0, 4, 0x0c, 1, event, 0xa1, 0xff, 3]);
        answer
    }

    #[test]
    fn event_has_its_sensor_state_and_time() {
        let record = full_record(1, 0x0c, 0, [0; 6], b"DIMM A1");
        let (first, second) = (entry(2, 1, 0x6f), entry(0xffff, 2, 0xef));
        let machine = tree_of_bytes(&[
            ("kernel/ipmi/event_log/info", &info(2, 0x80)),
            ("kernel/ipmi/event_log/0000", &first),
            ("kernel/ipmi/event_log/0002", &second),
        ]);
        let (info, events) = event_log(&machine, &record::parse(&record));
        let info = info.unwrap();
        assert_eq!((info.n_entries, info.free_bytes, info.has_overflowed), (2, Some(0), true));
        let event = &events[0];
        has(event, &json!({"time": "2026-11-20T10:00:00", "sensor": "DIMM A1", "kind": "memory"}));
        has(event, &json!({"event": "uncorrectable error", "data_hex": "a1ff03"}));
        has(event, &json!({"is_asserted": true, "calls_for_attention": true}));
        assert!(events[1].is_asserted == Some(false) && !events[1].calls_for_attention);
        assert!(machine.problems().is_empty(), "{:?}", machine.problems());
    }

    #[test]
    fn problem_of_a_log_without_newest_entries_counts_all() {
        let mut files = vec![("kernel/ipmi/event_log/info".to_owned(), info(600, 0))];
        for number in 0..520 {
            let path = format!("kernel/ipmi/event_log/{number:04x}");
            files.push((path, entry(number + 1, number, 0x6f)));
        }
        let machine = tree_from_bytes(&files);
        assert_eq!(event_log(&machine, &[]).1.len(), 512);
        assert_eq!(problems(&machine), ["/ipmi/event_log: the oldest 512 of 600 read"]);
    }

    #[test]
    fn oem_entry_is_reported_raw() {
        let mut oem = [0_u8; ENTRY_BYTES];
        (oem[0], oem[2], oem[3], oem[15]) = (7, 0xc0, 9, 0xee);
        let event = parse_entry(&oem, &[]);
        assert_eq!((event.id, event.since_start_s, event.time), (7, Some(9), None));
        assert_eq!(event.raw_hex.as_deref(), Some("0700c0090000000000000000000000ee"));
        oem[2] = 0xe0;
        assert_eq!(parse_entry(&oem, &[]).since_start_s, None, "this kind has no time");
    }

    #[test]
    fn unset_or_relative_time_is_no_date() {
        assert_eq!(time(u32::MAX), None);
        assert_eq!(parse_info(&[0x51, 1, 0, 0]), None);
        let mut data = info(1, 0);
        data[6..10].copy_from_slice(&1_795_168_800_u32.to_le_bytes());
        data[10..14].copy_from_slice(&u32::MAX.to_le_bytes());
        let found = parse_info(&data[1..]).unwrap();
        has(&found, &json!({"last_added": "2026-11-20T10:00:00", "last_cleared": null}));
        data[6..10].copy_from_slice(&99_u32.to_le_bytes());
        assert_eq!(parse_info(&data[1..]).unwrap().last_added, None);
    }
}
