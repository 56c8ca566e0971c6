//! Metadata of arrays and pools at the end of the chosen disk, where an image that is smaller does not reach.
//!
//! The policy for existing data decides about them as about all other data, so they are looked for at the choice. Once
//! coreos-installer has written the disk they are erased, through the held descriptor and after another check of its
//! identity; nothing is written if there are none.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use formats::gpt::{BLOCK_BYTES, Header};
use probes::block::Partition;

use super::target::Target;
use super::{Failure, System};
use crate::act::array_metadata::{Found, covered, describe, find, gaps};
use crate::ask::ask_within;

/// Time limit for reading or erasing 2 MiB.
const LIMIT: Duration = Duration::from_secs(30);

/// Finds such metadata on the held disk before it is written, outside of its partitions. An end that cannot be read is
/// logged; the proof reads it again.
pub(super) fn before(target: &Target) -> Vec<Found> {
    let disk = target.disk();
    let span = |part: &Partition| {
        let start = part.start_bytes?;
        Some(start..start.saturating_add(part.size_bytes?))
    };
    let partitions: Vec<Range<u64>> = disk.partitions.iter().filter_map(span).collect();
    let (Ok(file), Some(disk_bytes)) = (target.file(), disk.size_bytes) else { return Vec::new() };
    let search =
        move || find(disk_bytes, &gaps(disk_bytes, &partitions), &mut |at, n| read(&file, at, n));
    ask(target.system(), search).unwrap_or_else(|why| {
        tracing::warn!("metadata at the end of {} was not looked for: {why}", disk.device);
        Vec::new()
    })
}

/// Erases their remains after the write: everything in the last 2 MiB that neither a partition nor the table covers.
/// Returns descriptions of the erased data.
///
/// # Errors
/// A message if the disk is another one, does not respond, or cannot be read or written.
pub fn erase(target: &Target) -> Result<Vec<String>, String> {
    let message = |failure: Failure| failure.message.to_string();
    let disk = target.disk();
    let disk_bytes = disk.size_bytes.ok_or("the size of the disk is unknown")?;
    let sector_bytes = disk.logical_block_bytes.map_or(512, u64::from);
    let file = target.file().map_err(message)?;
    let search = move || {
        // Without a table it is unknown what must stay, and the proof fails.
        let Some(covered) = covered_on(&file, sector_bytes) else { return Ok(Default::default()) };
        let gaps = gaps(disk_bytes, &covered);
        let found = find(disk_bytes, &gaps, &mut |at, n| read(&file, at, n))?;
        Ok((found, gaps))
    };
    let (found, gaps): (Vec<Found>, Vec<Range<u64>>) = ask(target.system(), search)?;
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let file = target.writable().map_err(message)?;
    let write = move || {
        for Range { start, end } in gaps {
            let zeros = vec![0; usize::try_from(end - start).unwrap_or_default()];
            let written = file.write_all_at(&zeros, start).and_then(|()| file.sync_all());
            written
                .map_err(|error| format!("writing {} bytes at {start}: {error}", zeros.len()))?;
        }
        Ok(())
    };
    ask(target.system(), write)?;
    Ok(found.iter().map(describe).collect())
}

/// Returns the areas that the table on the disk covers; `None` if it has none.
fn covered_on(file: &File, sector_bytes: u64) -> Option<Vec<Range<u64>>> {
    let header = Header::parse(&read(file, sector_bytes, BLOCK_BYTES).ok()?).ok()?;
    let (at, n_bytes) = header.entries_place(sector_bytes).ok()?;
    let partitions = header.partitions(&read(file, at, n_bytes).ok()?, sector_bytes).ok()?;
    Some(covered(&header, &partitions, sector_bytes))
}

fn read(file: &File, at: u64, n_bytes: usize) -> Result<Vec<u8>, String> {
    let mut bytes = vec![0; n_bytes];
    let read = file.read_exact_at(&mut bytes, at);
    read.map_err(|error| format!("reading {n_bytes} bytes at {at}: {error}")).map(|()| bytes)
}

fn ask<T: Send + 'static>(
    system: &System,
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    ask_within("remains", LIMIT, system.stop(), work).unwrap_or_else(|why| Err(why.to_string()))
}
