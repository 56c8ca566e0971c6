//! Partitions that coreos-installer keeps: read before the write, and compared afterwards.
//!
//! coreos-installer keeps place, size, type, GUID, attributes and name, but numbers the partitions after those of
//! the image (`src/blockdev.rs`, `SavedPartitions`).

use formats::digest::sha256;
use formats::gpt::Partition;
use formats::partition_filter::Filter;

use super::disk::{Disk, ReadAt as _};
use super::gpt;
use crate::act::{Order, spread};

/// The size of one piece that is compared.
const PIECE_BYTES: u64 = 64 << 10;
/// Maximum number of pieces read, over all partitions.
const MAX_PIECES: u64 = 2048;
/// Minimum number of pieces per partition: also the first and the last one.
const MIN_PIECES: u64 = 16;

/// A partition to keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saved {
    /// Its entry in the table.
    pub partition: Partition,
    /// Pieces of its content.
    pieces: Vec<Piece>,
}

/// A piece of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Piece {
    at: u64,
    n_bytes: u64,
    digest: String,
}

/// Reads the partitions that the order asks to keep. A disk without a GUID partition table has none.
///
/// # Errors
/// A message if the disk cannot be read, or the order has no valid pattern.
pub(super) fn sample(
    disk: &mut Disk,
    sector_bytes: u64,
    order: &Order,
) -> Result<Vec<Saved>, String> {
    let filters = Filter::parse_all(&order.save_partlabel, &order.save_partindex)?;
    if filters.is_empty() {
        return Ok(Vec::new());
    }
    let Some(table) = gpt::read_any(disk, sector_bytes)? else { return Ok(Vec::new()) };
    let is_kept = |part: &Partition| filters.iter().any(|f| f.matches(part.number, &part.name));
    let kept: Vec<Partition> = table.partitions.into_iter().filter(is_kept).collect();
    let n_pieces = (MAX_PIECES / (kept.len() as u64).max(1)).max(MIN_PIECES);
    kept.into_iter()
        .map(|partition| {
            let digested = |(at, n_bytes)| digest_of(disk, &partition, at, n_bytes);
            let pieces = places(partition.size_bytes, n_pieces).into_iter().map(digested);
            let pieces = pieces.collect::<Result<_, _>>()?;
            Ok(Saved { partition, pieces })
        })
        .collect()
}

/// Checks that each partition is in the table as before, and that its content is unchanged.
///
/// # Errors
/// A message with the missing and differing partitions.
pub(super) fn check(
    disk: &mut Disk,
    table: &[Partition],
    saved: &[Saved],
) -> Result<String, String> {
    let mut wrong = Vec::new();
    let mut found = Vec::new();
    for Saved { partition, pieces } in saved {
        let name = format!("{} {:?}", partition.number, partition.name);
        let kept = table.iter().find(|part| is_same(part, partition));
        let Some(kept) = kept else {
            wrong.push(format!("partition {name} is not in the table as before"));
            continue;
        };
        let differs = pieces.iter().find_map(|piece| {
            match digest_of(disk, partition, piece.at, piece.n_bytes) {
                Ok(now) if now == *piece => None,
                Ok(_) => Some(format!("{} bytes at {} differ", piece.n_bytes, piece.at)),
                Err(error) => Some(error),
            }
        });
        match differs {
            Some(differs) => wrong.push(format!("partition {name}: {differs}")),
            None => found.push(format!("{name} as {}, {} pieces equal", kept.number, pieces.len())),
        }
    }
    if wrong.is_empty() { Ok(found.join(", ")) } else { Err(wrong.join("; ")) }
}

/// True if two entries describe the same partition; its number may have changed.
pub(super) fn is_same(one: &Partition, other: &Partition) -> bool {
    Partition { number: other.number, ..one.clone() } == *other
}

/// Returns the positions of a partition's pieces: all of a small one, otherwise the first, the last, and others at
/// equal distances.
fn places(size_bytes: u64, n_pieces: u64) -> Vec<(u64, u64)> {
    let place =
        |number: u64| (number * PIECE_BYTES, PIECE_BYTES.min(size_bytes - number * PIECE_BYTES));
    spread(size_bytes.div_ceil(PIECE_BYTES), n_pieces).map(place).collect()
}

fn digest_of(disk: &mut Disk, part: &Partition, at: u64, n_bytes: u64) -> Result<Piece, String> {
    let bytes = disk
        .window(part.start_bytes, part.size_bytes)?
        .bytes_at(at, usize::try_from(n_bytes).unwrap_or_default())
        .map_err(|error| format!("partition {}: {error}", part.number))?;
    Ok(Piece { at, n_bytes, digest: sha256(&bytes) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_include_the_first_and_the_last_and_never_exceed_the_partition() {
        for (size_bytes, n_pieces, expected) in [
            (0, 16, vec![]),
            (100, 16, vec![(0, 100)]),
            (PIECE_BYTES + 1, 16, vec![(0, PIECE_BYTES), (PIECE_BYTES, 1)]),
        ] {
            assert_eq!(places(size_bytes, n_pieces), expected);
        }
        for size_bytes in [1 << 30, (1 << 40) + 512, u64::MAX] {
            let places = places(size_bytes, 16);
            assert_eq!((places.len(), places[0]), (16, (0, PIECE_BYTES)));
            let (at, n_bytes) = places[15];
            assert_eq!(at + n_bytes, size_bytes);
            assert!(places.windows(2).all(|pair| pair[0].0 < pair[1].0));
        }
    }
}
