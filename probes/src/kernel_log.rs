//! What the kernel logged about faults of the hardware since boot: `/dev/kmsg`, grouped by part.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kernel_messages::message;
use crate::machine::Machine;
use crate::sys::kmsg::KernelLog;

/// The most groups that are kept.
const MOST_GROUPS: usize = 64;

/// Messages of one meaning about one part.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct KernelMessages {
    /// The code of the finding that they lead to, e.g. `disk.kernel_errors`.
    pub code: String,
    /// The part as the kernel names it, e.g. `sda`, `0000:3b:00.0`, `3` for a CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// How many there were; the oldest may have been overwritten.
    pub n: u32,
    /// The first of them.
    pub first: String,
}

/// Reads the messages, in the order in which the first of each group was logged.
#[must_use]
pub fn kernel_log(machine: &Machine) -> Vec<KernelMessages> {
    let log = machine.ask(&KernelLog).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    let mut groups: Vec<KernelMessages> = Vec::new();
    for message in log.lines().filter(|line| !line.starts_with(' ')).filter_map(message) {
        let is_same = |group: &&mut KernelMessages| {
            group.code == message.code && group.subject.as_deref() == message.subject
        };
        if let Some(group) = groups.iter_mut().find(is_same) {
            group.n = group.n.saturating_add(1);
        } else if groups.len() < MOST_GROUPS {
            groups.push(KernelMessages {
                code: message.code.to_owned(),
                subject: message.subject.map(str::to_owned),
                n: 1,
                first: message.text.to_owned(),
            });
        }
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
}
