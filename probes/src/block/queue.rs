//! Settings by which the kernel sends requests to a disk: `/sys/block/*/queue`
//! (`Documentation/ABI/stable/sysfs-block`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;

use super::listing::BlockDevice;

/// The request queue of a disk.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DiskQueue {
    /// The scheduler in use, e.g. `none` or `mq-deadline` (`queue/scheduler`).
    pub scheduler: Option<String>,
    /// Requests that the kernel queues (`queue/nr_requests`).
    pub n_requests: Option<u32>,
    /// Commands that a SCSI disk accepts at once (`device/queue_depth`).
    pub depth: Option<u32>,
    /// Largest request that the kernel sends, in bytes (`queue/max_sectors_kb`).
    pub max_io_bytes: Option<u64>,
    /// Largest request that the controller accepts, in bytes (`queue/max_hw_sectors_kb`).
    pub max_hardware_io_bytes: Option<u64>,
    /// Best size of a request, in bytes, such as the stripe of an array (`queue/optimal_io_size`); absent
    /// if the disk reports none.
    pub optimal_io_bytes: Option<u64>,
    /// Largest discard, in bytes (`queue/discard_max_bytes`); absent if the disk does not support discard.
    pub max_discard_bytes: Option<u64>,
    /// `write back` or `write through`, as the kernel treats it (`queue/write_cache`).
    pub write_cache: Option<String>,
    /// True if files can be mapped to it without the page cache (`queue/dax`).
    pub is_dax: Option<bool>,
}

/// Reads the queue; `None` if nothing is known about it.
pub(super) fn read(machine: &Machine, device: &BlockDevice) -> Option<DiskQueue> {
    if !device.has("queue") {
        return None;
    }
    let bytes = |attribute: &str| device.number::<u64>(machine, attribute).filter(|n| *n != 0);
    let kib = |attribute: &str| bytes(attribute)?.checked_mul(1024);
    let is_scsi = device.name.starts_with("sd");
    let depth = is_scsi.then(|| device.number(machine, "device/queue_depth"));
    let queue = DiskQueue {
        scheduler: device.text(machine, "queue/scheduler").and_then(|text| scheduler(&text)),
        n_requests: device.number(machine, "queue/nr_requests"),
        depth: depth.flatten(),
        max_io_bytes: kib("queue/max_sectors_kb"),
        max_hardware_io_bytes: kib("queue/max_hw_sectors_kb"),
        optimal_io_bytes: bytes("queue/optimal_io_size"),
        max_discard_bytes: bytes("queue/discard_max_bytes"),
        write_cache: device.text(machine, "queue/write_cache"),
        is_dax: device.flag(machine, "queue/dax"),
    };
    (queue != DiskQueue::default()).then_some(queue)
}

/// The one in brackets of `mq-deadline [none]`; the only one if there are no brackets.
fn scheduler(text: &str) -> Option<String> {
    let mut words = text.split_whitespace();
    let chosen = words.clone().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    let only = words.next().filter(|_| words.next().is_none());
    chosen.or(only).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scheduler_is_the_chosen_one_or_the_only_one() {
        assert_eq!(scheduler("[none] kyber").as_deref(), Some("none"));
        assert_eq!(scheduler("none").as_deref(), Some("none"));
        assert_eq!(scheduler("a b"), None);
        assert_eq!(scheduler(""), None);
    }
}
