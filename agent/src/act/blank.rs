//! Searches a disk for data that its facts do not show. Its facts come from its table, its signatures and its first block;
//! a disk whose beginning was erased may be full of data all the same. So before it counts as blank, it is read through
//! the descriptor of the chosen disk: all of its start and its end, the places of the second superblocks of lost volumes, what
//! it says it has allocated, and places all over it that differ in each run. A small disk is read whole.

use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use formats::signature::{Filesystem, detect};
use formats::superblock;
use probes::guard;
use tracing::info;

use super::target::Target;
use super::{ExistingDataPolicy, describe};
use crate::ask::{GRACE, Unanswered, ask_within, receive_within};

/// Number of places to read in an area.
const N_PLACES: u64 = 2048;
const BLOCK_BYTES: u64 = 4096;
/// Areas up to this size are read whole, which takes no longer than to read the places.
const WHOLE_BYTES: u64 = N_PLACES * (32 << 10);
/// Number of bytes to read at the beginning and at the end.
const EDGE_BYTES: u64 = 4 << 20;
/// Length of a read where everything is read.
const PIECE_BYTES: u64 = 256 << 10;
/// Where volumes begin: on whole disks, in the first partition of old and new tables, and of LVM in it.
const STARTS: [u64; 4] = [0, 63 * 512, 1 << 20, 2 << 20];
/// Where they repeat their superblocks: ext4 in groups of 128 MiB, btrfs at 64 MiB and 256 GiB; at 3 GiB NTFS begins its
/// list of files.
const COPIES: [u64; 7] = [64 << 20, 128 << 20, 384 << 20, 640 << 20, 896 << 20, 3 << 30, 256 << 30];
/// Distances from the start of a volume at which LUKS2 has its second header: after the first one, which has as many bytes.
const LUKS_HEADERS: [u64; 9] =
    [16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20];
/// The largest allocation group of XFS (`XFS_AG_MAX_BLOCKS` of 4 KiB). Disks of less than 4 TiB have four equal groups.
const MAX_GROUP_BYTES: u64 = (1 << 40) - BLOCK_BYTES;
/// Number of reads at a time: a rotating disk then reorders them, and one over a network answers them together.
const N_THREADS: usize = 8;
const STACK_BYTES: usize = 256 << 10;
/// Time limit for a question, and for a few reads.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// Time limit for reading places.
const LIMIT: Duration = Duration::from_mins(1);
/// Time limit for reading a whole disk, and the largest that is tried.
const WHOLE_LIMIT: Duration = Duration::from_mins(5);
const MAX_WHOLE_BYTES: u64 = 1 << 40;
/// How often a search is logged.
const LOG_INTERVAL: Duration = Duration::from_secs(30);

/// A search that found no data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NoData {
    n_places: usize,
    /// True if there cannot be any elsewhere: the disk was read whole, or says that it has nothing allocated.
    pub is_certain: bool,
    /// Why it was not read whole, although that was tried.
    why: Option<String>,
}

impl fmt::Display for NoData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_certain {
            return f.write_str("it is blank");
        }
        write!(f, "no data found in {} places", self.n_places)?;
        self.why.iter().try_for_each(|why| write!(f, " ({why})"))
    }
}

/// Why a disk does not count as blank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NotBlank {
    /// There are data at this offset in bytes.
    Data(u64),
    /// It could not be read; the reason.
    Unread(String),
}

impl fmt::Display for NotBlank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Data(offset) => write!(f, "there are data at byte {offset}"),
            Self::Unread(why) => write!(f, "whether it is blank is unknown: {why}"),
        }
    }
}

/// A place on a disk: offset and length in bytes.
type Place = (u64, u64);

/// Searches the held disk, and reads all of it if the policy requires a blank one.
///
/// # Errors
/// It contains data, or could not be read.
pub(super) fn check(target: &Target, policy: ExistingDataPolicy) -> Result<NoData, NotBlank> {
    let (disk, handle) = (target.disk().clone(), Arc::clone(target.handle()));
    let size_bytes = disk.size_bytes;
    let size_bytes = size_bytes.ok_or_else(|| NotBlank::Unread("its size is unknown".into()))?;
    let ask = move || handle.allocated(&disk);
    let allocated = ask_within("allocated", ANSWER_LIMIT, target.system().stop(), ask);
    let allocated = allocated.ok().flatten();
    let random = seed(target);
    let mut places = places(size_bytes, random);
    places.extend(allocated.iter().flat_map(|areas| all_or_some(areas, !random)));
    places.sort_unstable();
    places.dedup();
    let n_places = places.len();
    read(target, places, LIMIT)?;
    let is_unallocated = allocated.is_some_and(|areas| areas.is_empty());
    let is_certain = is_unallocated || size_bytes <= WHOLE_BYTES;
    let mut seen = NoData { n_places, is_certain, why: None };
    let is_required = policy == ExistingDataPolicy::Refuse && !seen.is_certain;
    if is_required && size_bytes <= MAX_WHOLE_BYTES {
        info!(
            "reading all of {}, for at most {} s",
            describe(target.disk()),
            WHOLE_LIMIT.as_secs()
        );
        match read(target, pieces(0..size_bytes).collect(), WHOLE_LIMIT) {
            Err(data @ NotBlank::Data(_)) => return Err(data),
            Err(NotBlank::Unread(why)) => seen.why = Some(why),
            Ok(()) => seen.is_certain = true,
        }
    }
    Ok(seen)
}

/// Searches areas of the held disk.
///
/// # Errors
/// They contain data, or could not be read.
pub(super) fn check_areas(target: &Target, areas: &[Range<u64>]) -> Result<(), NotBlank> {
    read(target, all_or_some(areas, seed(target)), LIMIT)
}

/// Finds a volume on the held disk where one begins without a table, or a copy of its superblock. Returns its place and
/// content.
pub(super) fn lost_volume(target: &Target) -> Option<(u64, Filesystem)> {
    let (file, size_bytes) = (target.file().ok()?, target.disk().size_bytes?);
    let search = move || lost_on(&file, size_bytes);
    ask_within("lost volume", ANSWER_LIMIT, target.system().stop(), search).ok().flatten()
}

fn lost_on(file: &File, size_bytes: u64) -> Option<(u64, Filesystem)> {
    let read = |at: u64, n_bytes: usize| {
        let mut bytes = vec![0; n_bytes];
        file.read_exact_at(&mut bytes, at).ok().map(|()| bytes)
    };
    let volume = |start: &u64| {
        let n_bytes = size_bytes.checked_sub(*start);
        let found =
            detect(&read(*start, 4096)?, n_bytes, &mut |at, n| read(start.checked_add(at)?, n));
        Some((*start, found?))
    };
    let copy = |at: u64| {
        let block = read(at, usize::try_from((size_bytes - at).min(BLOCK_BYTES)).ok()?)?;
        let of = |first: &[u8], kinds: &[&str]| {
            let found = detect(first, None, &mut |_, _| None)?;
            kinds.contains(&found.kind.as_str()).then_some(found)
        };
        // A copy of ext4's superblock begins its group; the superblock itself follows 1 KiB of other use.
        let shifted = [&[0; 1024], block.as_slice()].concat();
        let found =
            of(&shifted, &["ext2", "ext3", "ext4"]).or_else(|| of(&block, &["xfs", "ntfs"]));
        let found = found.or_else(|| superblock::btrfs(&block).map(Filesystem::from));
        let is_luks = block.starts_with(b"SKUL\xba\xbe");
        let luks = || Filesystem { kind: "crypto_LUKS".to_owned(), ..Filesystem::default() };
        Some((at, found.or_else(|| is_luks.then(luks))?))
    };
    let headers = STARTS.into_iter().flat_map(|start| LUKS_HEADERS.map(|at| start + at));
    // NTFS repeats its first sector in its last one, of 512 or 4096 bytes.
    let ends = [512, BLOCK_BYTES].into_iter().filter_map(|n| size_bytes.checked_sub(n));
    let copies = copies(size_bytes).chain(groups(size_bytes)).chain(headers).chain(ends);
    STARTS.iter().find_map(volume).or_else(|| copies.filter(|at| *at < size_bytes).find_map(copy))
}

/// The places of a disk that are read.
fn places(size_bytes: u64, random: u64) -> Vec<Place> {
    let mut places = all_or_some(std::slice::from_ref(&(0..size_bytes)), random);
    if size_bytes > WHOLE_BYTES {
        let edges = [0..EDGE_BYTES, size_bytes - EDGE_BYTES..size_bytes];
        places.extend(edges.into_iter().flat_map(pieces));
        places.extend(copies(size_bytes).map(|at| (at, BLOCK_BYTES)));
        // In a partition they lie up to 2 MiB further on, or 1 MiB before.
        let around = |at: u64| pieces(at - (1 << 20)..size_bytes.min(at + (3 << 20)));
        places.extend(groups(size_bytes).flat_map(around));
    }
    places
}

/// Where lost volumes repeat their superblocks.
fn copies(size_bytes: u64) -> impl Iterator<Item = u64> {
    let copies = STARTS.into_iter().flat_map(|start| COPIES.map(|copy| start + copy));
    copies.filter(move |at| at + BLOCK_BYTES <= size_bytes)
}

/// Where an XFS on the whole disk repeats its superblock: at the start of each allocation group.
fn groups(size_bytes: u64) -> impl Iterator<Item = u64> {
    let quarter = (size_bytes / BLOCK_BYTES).div_ceil(4) * BLOCK_BYTES;
    let quarters = (1..4).map(move |n| n * quarter);
    quarters.chain((1..=size_bytes / MAX_GROUP_BYTES).map(|n| n * MAX_GROUP_BYTES))
}

fn pieces(area: Range<u64>) -> impl Iterator<Item = Place> {
    let (start, end) = (area.start, area.end);
    let n_pieces = end.saturating_sub(start).div_ceil(PIECE_BYTES);
    let starts = (0..n_pieces).map(move |n| start + n * PIECE_BYTES);
    starts.map(move |at| (at, PIECE_BYTES.min(end - at)))
}

/// All of these areas if they are small, otherwise a random place in each of equal parts of them.
fn all_or_some(areas: &[Range<u64>], random: u64) -> Vec<Place> {
    let length = |area: &Range<u64>| area.end.saturating_sub(area.start);
    let n_bytes: u64 = areas.iter().map(length).sum();
    if n_bytes <= WHOLE_BYTES {
        return areas.iter().cloned().flat_map(pieces).collect();
    }
    let (part, mut state) = (n_bytes / N_PLACES, random);
    let place = |n: u64| {
        let mut at = n * part + next(&mut state) % part;
        let area = areas.iter().find(|area| match at.checked_sub(length(area)) {
            Some(beyond) => {
                at = beyond;
                false
            }
            None => true,
        })?;
        let at = (area.start + at / BLOCK_BYTES * BLOCK_BYTES).max(area.start);
        Some((at, BLOCK_BYTES.min(area.end - at)))
    };
    (0..N_PLACES).filter_map(place).collect()
}

fn seed(target: &Target) -> u64 {
    let clock = target.system().clock();
    u64::from(clock.random()) << 32 | u64::from(clock.random())
}

/// The next number of the sequence `SplitMix64`.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Reads places of the held disk, several at a time.
fn read(target: &Target, places: Vec<Place>, limit: Duration) -> Result<(), NotBlank> {
    let file = target.file().map_err(|failure| NotBlank::Unread(failure.message.to_string()))?;
    let (clock, stop) = (target.system().clock(), target.system().stop());
    let n_places = places.len();
    let search = Arc::new(Search { file, places, next: AtomicUsize::new(0) });
    let start = |_| {
        let search = Arc::clone(&search);
        guard::ask("blank", STACK_BYTES, move || search.run())
    };
    let threads: io::Result<Vec<_>> = (0..N_THREADS.min(n_places)).map(start).collect();
    let started = clock.now_outside();
    let late = NotBlank::Unread(Unanswered::Late(limit).to_string());
    let found = threads.map_err(|error| NotBlank::Unread(error.to_string())).and_then(|threads| {
        threads.iter().try_for_each(|answer| {
            loop {
                let spent = clock.now_outside().saturating_duration_since(started);
                let left = limit.saturating_sub(spent);
                let limits = (left.min(LOG_INTERVAL), GRACE);
                match receive_within(clock.as_ref(), answer, limits, stop) {
                    Ok(found) => break found,
                    Err(Unanswered::Late(_)) if left > LOG_INTERVAL => {
                        let n_read = search.next.load(Ordering::Relaxed).min(n_places);
                        info!("read {n_read} of {n_places} places of the disk");
                    }
                    Err(Unanswered::Late(_)) => break Err(late.clone()),
                    Err(why) => break Err(NotBlank::Unread(why.to_string())),
                }
            }
        })
    });
    search.end();
    found
}

/// Places that several threads read.
struct Search {
    file: File,
    places: Vec<Place>,
    /// The next one.
    next: AtomicUsize,
}

impl Search {
    /// Reads until no place is left, or one has data.
    fn run(&self) -> Result<(), NotBlank> {
        self.search().inspect_err(|_| self.end())
    }

    fn search(&self) -> Result<(), NotBlank> {
        let mut buffer = Vec::new();
        while let Some((at, n_bytes)) = self.places.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            buffer.resize(usize::try_from(*n_bytes).unwrap_or_default(), 0);
            self.file.read_exact_at(&mut buffer, *at).map_err(|error| {
                NotBlank::Unread(format!("reading {n_bytes} bytes at {at}: {error}"))
            })?;
            if let Some(beyond) = data_in(&buffer) {
                return Err(NotBlank::Data(at + beyond));
            }
        }
        Ok(())
    }

    /// Leaves no place.
    fn end(&self) {
        self.next.store(self.places.len(), Ordering::Relaxed);
    }
}

/// The offset of the first block that is not blank. Erased flash reads as ones on some drives.
fn data_in(bytes: &[u8]) -> Option<u64> {
    static BLANK: [[u8; 4096]; 2] = [[0x00; 4096], [0xff; 4096]];
    let is_blank = |block: &[u8]| BLANK.iter().any(|blank| blank.starts_with(block));
    let block = bytes.chunks(4096).position(|block| !is_blank(block))?;
    Some(block as u64 * BLOCK_BYTES)
}

#[cfg(test)]
mod tests;
