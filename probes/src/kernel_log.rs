//! Hardware faults that the kernel has logged since boot: `/dev/kmsg`, grouped by part.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::firmware_reports::{FirmwareReport, reports};
use crate::kernel_messages::message;
use crate::machine::Machine;
use crate::sys::kmsg::{KERNEL_LOG, MORE};

/// The most groups that are kept: more than the largest machines have parts.
const MOST_GROUPS: usize = 4096;
const LOG: &str = "dev/kmsg";

/// Messages of one meaning about one part.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct KernelMessages {
    /// The code of the finding that they lead to, e.g. `disk.kernel_errors`.
    pub code: String,
    /// The part as the kernel names it, e.g. `sda`, `0000:3b:00.0`, `3` for a CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Number in the log; the kernel overwrites the oldest messages when the log is full.
    pub n: u32,
    /// The first of them.
    pub first: String,
}

/// Reads the messages, in the order in which the first of each group was logged; those that the firmware reported
/// come last.
pub fn kernel_log(machine: &Machine) -> Vec<KernelMessages> {
    let log = machine.ask(&KERNEL_LOG).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    let mut groups: Vec<KernelMessages> = Vec::new();
    let mut known: BTreeMap<(&str, Option<&str>), usize> = BTreeMap::new();
    let mut n_lost = 0_u32;
    let reports = reports(&log);
    let messages = log.lines().filter(|line| !line.starts_with(' ')).filter_map(message);
    for message in messages.chain(reports.iter().filter_map(FirmwareReport::message)) {
        let key = (message.code, message.subject);
        if let Some(group) = known.get(&key).and_then(|at| groups.get_mut(*at)) {
            group.n = group.n.saturating_add(1);
        } else if groups.len() < MOST_GROUPS {
            known.insert(key, groups.len());
            groups.push(KernelMessages {
                code: message.code.to_owned(),
                subject: message.subject.map(str::to_owned),
                n: 1,
                first: message.text.to_owned(),
            });
        } else {
            n_lost = n_lost.saturating_add(1);
        }
    }
    if n_lost > 0 {
        let expected = format!("at most {MOST_GROUPS} parts; messages about others are ignored");
        machine.problem(LOG, format!("{n_lost} messages about further parts"), expected);
    }
    if log.lines().next_back() == Some(MORE) {
        let found = "more messages about faults than are read";
        machine.problem(LOG, found, "fewer; only the oldest are counted");
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_grouped_by_part_and_the_first_is_kept() {
        let log = "3,1,10,-;I/O error, dev sda, sector 1\n SUBSYSTEM=block\n\
            6,2,20,-;usb 1-1: new device\n\
            3,3,30,-;I/O error, dev sdb, sector 2\n3,4,40,-;I/O error, dev sda, sector 3\n";
        let machine = crate::testing::tree(&[("kernel/kmsg", log)]);
        let groups: Vec<(Option<String>, u32, String)> =
            kernel_log(&machine).into_iter().map(|g| (g.subject, g.n, g.first)).collect();
        let first = "I/O error, dev sda, sector 1".to_owned();
        assert_eq!(groups[0], (Some("sda".to_owned()), 2, first));
        assert_eq!((groups.len(), groups[1].1), (2, 1));
        assert!(kernel_log(&crate::testing::tree(&[("proc/version", "x")])).is_empty());
    }

    #[test]
    fn messages_beyond_the_limits_are_a_problem() {
        let line = |part: usize| format!("3,1,10,-;I/O error, dev sd{part}, sector 1\n");
        let log: String = (0..MOST_GROUPS).map(line).collect();
        let machine = crate::testing::tree(&[("kernel/kmsg", &log)]);
        assert_eq!((kernel_log(&machine).len(), machine.problems().len()), (MOST_GROUPS, 0));
        let more = log + &line(MOST_GROUPS) + &line(0) + MORE;
        let machine = crate::testing::tree(&[("kernel/kmsg", &more)]);
        let groups = kernel_log(&machine);
        assert_eq!((groups.len(), groups[0].n), (MOST_GROUPS, 2));
        let found: Vec<String> = machine.problems().into_iter().map(|p| p.found).collect();
        let expected =
            ["1 messages about further parts", "more messages about faults than are read"];
        assert_eq!(found, expected);
    }
}
