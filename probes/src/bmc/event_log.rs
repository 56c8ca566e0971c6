//! The System Event Log (IPMI 2.0, chapters 31 and 32): the last entries, oldest first.

use std::time::Duration;

use formats::ipmi::record::Record;
use formats::ipmi::{self, BmcEvent, EventLogInfo};

use super::ask::{Controller, incomplete};
use super::log::{NEWEST, log};
use crate::machine::Machine;
use crate::sys::ipmi::IpmiCommand;

/// A log has 512 to 4096 entries; the last of them are read.
pub(super) const LIMIT_ENTRIES: u16 = 512;
const BUDGET: Duration = Duration::from_secs(4);

/// Reads the log. `records` give the sensors their names.
pub(super) fn event_log(
    machine: &Machine,
    records: &[Record],
) -> (Option<EventLogInfo>, Vec<BmcEvent>) {
    let controller = Controller::new(machine, BUDGET);
    let answer = controller.data_or_problem(IpmiCommand::EventLogInfo);
    let info = answer.and_then(|data| ipmi::event_log_info(&data));
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
    let events = entries.iter().map(|entry| ipmi::event(entry, records)).collect();
    (Some(info), events)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::bytes::full_record;
    use crate::testing::{has, problems, tree_from_bytes, tree_of_bytes};
    use formats::ipmi::record;
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
}
