//! Metadata of arrays and pools that an image does not overwrite, since the disk is larger than the image.
//!
//! udev, mdadm, ZFS or a firmware RAID would still treat the installed disk as a member, at its first boot or when the
//! root partition has grown up to them. What they look like is in `probes::block::remains`. They are looked for at the
//! choice, erased after the write, and looked for again by the proof.

use std::ops::Range;

use formats::gpt::{Header, Partition};
use probes::block::{REMAINS_BYTES, remains};

/// Length of the entries before the backup header of a table: 128 entries.
const ENTRIES_BYTES: u64 = 16 << 10;

/// Metadata that was found: where it begins, in bytes, and its kind.
pub type Found = (u64, &'static str);

/// Reads bytes at an offset, or says why it cannot.
pub type Read<'a> = dyn FnMut(u64, usize) -> Result<Vec<u8>, String> + 'a;

/// Returns the parts of a disk's last 2 MiB that lie outside these.
pub fn gaps(disk_bytes: u64, covered: &[Range<u64>]) -> Vec<Range<u64>> {
    outside(disk_bytes.saturating_sub(REMAINS_BYTES)..disk_bytes, covered)
}

/// Returns the parts of an area that lie outside these.
pub fn outside(area: Range<u64>, covered: &[Range<u64>]) -> Vec<Range<u64>> {
    covered.iter().fold(vec![area], |gaps, part| {
        let without = |gap: Range<u64>| {
            [gap.start..gap.end.min(part.start), gap.start.max(part.end)..gap.end]
        };
        gaps.into_iter().flat_map(without).filter(|gap| !gap.is_empty()).collect()
    })
}

/// Returns the areas that the table of a disk covers: its partitions and its backup.
pub fn covered(header: &Header, partitions: &[Partition], sector_bytes: u64) -> Vec<Range<u64>> {
    let span = |start: u64, n_bytes: u64| start..start.saturating_add(n_bytes);
    let backup = header.alternate_lba.saturating_mul(sector_bytes);
    let entries = backup.saturating_sub(ENTRIES_BYTES);
    let parts = partitions.iter().map(|part| span(part.start_bytes, part.size_bytes));
    parts.chain([span(entries, ENTRIES_BYTES.saturating_add(sector_bytes))]).collect()
}

/// Finds metadata in these parts of a disk.
///
/// # Errors
/// A message if a part cannot be read.
pub fn find(
    disk_bytes: u64,
    gaps: &[Range<u64>],
    read: &mut Read<'_>,
) -> Result<Vec<Found>, String> {
    let mut found = Vec::new();
    for gap in gaps {
        let n_bytes = usize::try_from(gap.end - gap.start).unwrap_or_default();
        let here = remains(&read(gap.start, n_bytes)?, gap.end == disk_bytes);
        found.extend(here.into_iter().map(|(at, kind)| (gap.start + at as u64, kind)));
    }
    Ok(found)
}

/// Describes a finding as text.
pub fn describe((at, kind): &Found) -> String {
    format!("{kind} at byte {at}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_what_neither_partitions_nor_the_table_cover() {
        const MIB: u64 = 1 << 20;
        let of = |disk_mib: u64, covered: &[(u64, u64)]| -> Vec<(u64, u64)> {
            let covered: Vec<Range<u64>> =
                covered.iter().map(|(start, end)| *start..*end).collect();
            gaps(disk_mib * MIB, &covered).into_iter().map(|gap| (gap.start, gap.end)).collect()
        };
        assert_eq!(of(64, &[]), [(62 * MIB, 64 * MIB)]);
        assert_eq!(of(64, &[(MIB, 32 * MIB), (40 * MIB, 41 * MIB)]), [(62 * MIB, 64 * MIB)]);
        assert_eq!(of(64, &[(MIB, 63 * MIB)]), [(63 * MIB, 64 * MIB)]);
        let (start, end) = (63 * MIB, 63 * MIB + 512);
        assert_eq!(of(64, &[(start, end)]), [(62 * MIB, start), (end, 64 * MIB)]);
        assert_eq!(of(64, &[(MIB, 64 * MIB)]), []);
        assert_eq!(of(64, &[(MIB, 63 * MIB), (63 * MIB, u64::MAX)]), []);
        assert_eq!(of(1, &[]), [(0, MIB)]);
    }
}
