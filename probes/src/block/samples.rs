//! Short reads at the start, in the middle and at the end of a disk, as a quick test: at most 64 KiB each.
//!
//! They use the descriptor through which the content was read, so they open nothing.

use crate::machine::Machine;
use crate::sys::disk::{DiskBytes, DiskHandle, DiskSample, LIMIT_BYTES};

use super::content_reader::is_fault;
use super::listing::BlockDevice;

/// Reads start and end at a multiple of this; a read that fails is repeated in such pieces.
const PIECE_BYTES: u64 = 4096;
/// The unit in which the kernel counts sectors, whatever the blocks of the disk are.
const SECTOR_BYTES: u64 = 512;

/// The areas of the disk that cannot be read, if the disk itself is the cause.
pub(super) fn failure(
    machine: &Machine,
    device: &BlockDevice,
    disk: &DiskHandle,
) -> Option<String> {
    let size_bytes = device.size_bytes.filter(|_| machine.extras().disk_samples)?;
    let n_bytes = u64::try_from(LIMIT_BYTES).unwrap_or_default();
    let last = size_bytes.saturating_sub(n_bytes).next_multiple_of(PIECE_BYTES);
    let middle = size_bytes / 2 / PIECE_BYTES * PIECE_BYTES;
    let places = [("start", 0), ("middle", middle), ("end", last)];
    places.into_iter().find_map(|(place, at)| {
        let end = size_bytes.min(at.saturating_add(n_bytes));
        let why = read(machine, disk, at, end)?;
        let pieces = (at..end).step_by(LIMIT_BYTES / 16);
        let piece = |at: u64| (at, end.min(at.saturating_add(PIECE_BYTES)));
        // Nothing fails again if the disk has repaired it, and then the whole part is named.
        let failed = pieces.map(piece).find(|(at, end)| read(machine, disk, *at, *end).is_some());
        let (at, end) = failed.unwrap_or((at, end));
        let (first, last) = (at / SECTOR_BYTES, end.div_ceil(SECTOR_BYTES).saturating_sub(1));
        Some(format!("sectors {first} to {last} at its {place} cannot be read: {why}"))
    })
}

/// Reason that the part from `at` to `end` cannot be read.
fn read(machine: &Machine, disk: &DiskHandle, at: u64, end: u64) -> Option<String> {
    let n_bytes = usize::try_from(end.saturating_sub(at)).ok().filter(|n| *n > 0)?;
    let question = DiskSample(DiskBytes { disk, offset_bytes: at, n_bytes });
    let why = machine.ask_or_why(&question).err().flatten()?;
    is_fault(&why).then_some(why.why)
}

#[cfg(test)]
mod tests {
    use crate::block::block;
    use crate::machine::Extras;
    use crate::testing::tree_of_bytes;

    /// The failure found for a disk of `n_sectors` with these errors, and the number of problems.
    fn failure(n_sectors: &str, errors: &str, disk_samples: bool) -> (Option<String>, usize) {
        let files: [(&str, &[u8]); 3] = [
            ("sys/block/sda/size", n_sectors.as_bytes()),
            ("kernel/disk/sda/0-4096", &[0; 4096]),
            ("kernel/errors", errors.as_bytes()),
        ];
        let machine = tree_of_bytes(&files);
        let machine = machine.with_extras(Extras { disk_samples, ..Extras::default() });
        let disk = block(&machine).disks.remove(0);
        (disk.sample_failure, machine.problems().len())
    }

    #[test]
    fn unreadable_sector_is_named_wherever_the_sample_is() {
        let whole = "5 kernel/disk-sample/sda/524288-65536\n5 kernel/disk-sample/sda/532480-4096\n";
        let (found, _) = failure("2048\n", whole, true);
        let expected = "sectors 1040 to 1047 at its middle cannot be read: ";
        assert!(found.as_deref().is_some_and(|found| found.starts_with(expected)), "{found:?}");
        let (found, _) = failure("2048\n", "61 kernel/disk-sample/sda/983040-65536\n", true);
        let expected = "sectors 1920 to 2047 at its end cannot be read: ";
        assert!(found.as_deref().is_some_and(|found| found.starts_with(expected)), "{found:?}");
        let (found, _) = failure("2055\n", "5 kernel/disk-sample/sda/987136-65024\n", true);
        let expected = "sectors 1928 to 2054 at its end cannot be read: ";
        assert!(found.as_deref().is_some_and(|found| found.starts_with(expected)), "{found:?}");
    }

    #[test]
    fn nothing_is_read_unless_it_is_asked_for_and_a_capture_without_samples_is_no_problem() {
        let errors = "5 kernel/disk-sample/sda/524288-65536\n";
        assert_eq!(failure("2048\n", errors, false).0, None);
        let (found, n_problems) = failure("2048\n", "", true);
        assert_eq!((found, n_problems), (None, failure("2048\n", "", false).1));
        assert_eq!(failure("8\n", "", true).0, None);
    }

    #[test]
    fn missing_right_and_lost_path_are_no_fault_of_the_disk() {
        for errno in [13, 52, 67] {
            let errors = format!("{errno} kernel/disk-sample/sda/524288-65536\n");
            assert_eq!(failure("2048\n", &errors, true).0, None, "{errno}");
        }
    }
}
