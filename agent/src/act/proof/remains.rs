//! Checks that nothing makes the written disk, or one of its partitions, a member of an array or pool.

use probes::block::foreign_content;

use super::disk::{Disk, ReadAt as _};
use super::gpt::Table;
use super::saved::{Saved, is_same};
use crate::act::array_metadata::{covered, describe, find, gaps};

/// Checks the end of the disk outside of its partitions, its beginning, and each partition. Partitions that were kept may be
/// members.
///
/// # Errors
/// A message with the findings, or with the parts that cannot be read.
pub(super) fn check(
    disk: &Disk,
    sector_bytes: u64,
    table: &Table,
    saved: &[Saved],
) -> Result<String, String> {
    let (mut whole, disk_bytes) = (disk.clone(), disk.size()?);
    let gaps = gaps(disk_bytes, &covered(&table.header, &table.partitions, sector_bytes));
    let found = find(disk_bytes, &gaps, &mut |at, n| whole.bytes_at(at, n))?;
    let mut wrong: Vec<String> = found.iter().map(describe).collect();
    // Not its end, which was searched above; a partition that was kept may lie there.
    wrong.extend(foreign_content("the disk", None, &mut |at, n| whole.bytes_at(at, n).ok()));
    let is_kept = |part| saved.iter().any(|saved| is_same(&saved.partition, part));
    for part in table.partitions.iter().filter(|part| !is_kept(part)) {
        let mut window = disk.window(part.start_bytes, part.size_bytes)?;
        let name = format!("partition {}", part.number);
        let read = &mut |at, n| window.bytes_at(at, n).ok();
        wrong.extend(foreign_content(&name, Some(part.size_bytes), read));
    }
    if wrong.is_empty() { Ok("none".into()) } else { Err(wrong.join("; ")) }
}
