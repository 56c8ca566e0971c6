//! Current activity of a disk: completed requests, requests in flight, and errors.
//!
//! Sources: `/sys/dev/block/<major>:<minor>/{stat,queue/iostats,device/state,device/ioerr_cnt}`, kernel
//! `Documentation/block/stat.rst`, `Documentation/ABI/stable/sysfs-block`. The kernel answers from memory; the disk
//! itself is not asked.

use crate::machine::Machine;

use super::sysfs_path::{by_number, prefixed_hex};

/// Bytes of the sectors that `stat` counts in, whatever the disk's blocks are.
const SECTOR_BYTES: u64 = 512;

/// The counters of a disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CurrentIo {
    /// True if the kernel counts its requests.
    pub is_accounted: Option<bool>,
    /// Reads that were completed.
    pub n_reads: u64,
    /// Requests of any kind that were completed.
    pub n_completed: u64,
    /// Requests that were sent to the disk and are not completed.
    pub n_in_flight: u64,
    /// Bytes that were written or discarded.
    pub bytes_written: u64,
    /// `running` or `offline` of a SCSI disk, `live` or `resetting` of an NVMe controller.
    pub state: Option<String>,
    /// Requests of a SCSI disk that failed.
    pub n_errors: Option<u64>,
}

/// Reads the counters of the disk with this number; `None` if that disk does not exist or its counters are unreadable.
pub fn current_io(machine: &Machine, device_number: &str) -> Option<CurrentIo> {
    let path = by_number(machine, device_number)?;
    let counted = machine.parse(&format!("{path}/stat"), parse_stat)?;
    Some(CurrentIo {
        is_accounted: machine.flag(&format!("{path}/queue/iostats")),
        state: machine.text(&format!("{path}/device/state")),
        n_errors: machine.parse(&format!("{path}/device/ioerr_cnt"), prefixed_hex),
        ..counted
    })
}

/// Fields of `stat`: reads 1, writes 5, sectors written 7, in flight 9; discards 12, sectors discarded 14 (since
/// Linux 4.18); flushes 16 (since Linux 5.5).
fn parse_stat(text: &str) -> Result<CurrentIo, &'static str> {
    let fields: Result<Vec<u64>, _> = text.split_whitespace().map(str::parse).collect();
    let fields = fields.ok().filter(|fields| fields.len() >= 11).ok_or("at least 11 numbers")?;
    let field = |number: usize| fields.get(number - 1).copied().unwrap_or_default();
    let sum = |numbers: &[usize]| numbers.iter().map(|n| field(*n)).fold(0, u64::saturating_add);
    Ok(CurrentIo {
        n_reads: field(1),
        n_completed: sum(&[1, 5, 12, 16]),
        n_in_flight: field(9),
        bytes_written: sum(&[7, 14]).saturating_mul(SECTOR_BYTES),
        ..CurrentIo::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree_in;

    #[test]
    fn counters_are_those_of_the_device_number() {
        let stat = "  120 0 960 4 3 0 2048 10 2 14 14 1 0 8 0 5 1";
        let machine = tree_in(&[
            ("sys/dev/block", &[("8:0", "-> ../../devices/x/block/sda")]),
            ("sys/devices/x/block/sda", &[("stat", stat), ("queue/iostats", "1")]),
            ("sys/devices/x/block/sda/device", &[("state", "running"), ("ioerr_cnt", "0x1f")]),
        ]);
        let found = current_io(&machine, "8:0").unwrap();
        let expected = CurrentIo {
            is_accounted: Some(true),
            n_reads: 120,
            n_completed: 129,
            n_in_flight: 2,
            bytes_written: 2056 * 512,
            state: Some("running".into()),
            n_errors: Some(31),
        };
        assert_eq!(found, expected);
        assert_eq!(current_io(&machine, "8:16"), None);
    }

    #[test]
    fn counters_of_an_old_kernel_are_read_and_truncated_ones_are_not() {
        let old = parse_stat("1 0 8 0 2 0 16 0 0 0 0").unwrap();
        assert_eq!((old.n_completed, old.bytes_written), (3, 16 * 512));
        for text in ["", "1 0 8 0 2 0 16", "1 0 8 0 2 0 16 0 0 0 x"] {
            assert!(parse_stat(text).is_err(), "{text}");
        }
    }
}
