//! Checksums of partition tables: a GPT whose GUIDs were replaced must stay a good one, and a damaged
//! one damaged (UEFI 2.10 §5.3.2).

use std::collections::BTreeMap;
use std::ops::Range;

use crate::proof::gpt::crc32;

/// The fields that are needed of a header.
const HEADER_BYTES: usize = 92;

/// Mends the headers in `files` that were good in `originals`; `name` gives a file's new path.
pub(super) fn reseal(
    originals: &BTreeMap<String, Vec<u8>>,
    files: &mut BTreeMap<String, Vec<u8>>,
    name: impl Fn(&str) -> String,
) {
    let reads = originals.iter().filter_map(|(path, content)| {
        Some((path, path.strip_prefix("kernel/disk/")?.split_once('/')?, content))
    });
    for (path, (device, place), content) in reads {
        let Some(start) = place.split_once('-').and_then(|(at, _)| at.parse::<u64>().ok()) else {
            continue;
        };
        for at in (0..content.len()).step_by(512) {
            let Some(header) = good_header(&content[at..]) else { continue };
            let block_bytes = (start + at as u64).checked_div(le(header, 24..32)).unwrap_or(0);
            let Some(first) = le(header, 72..80).checked_mul(block_bytes) else { continue };
            let n_bytes = le(header, 80..84).saturating_mul(le(header, 84..88));
            let of = |files: &BTreeMap<String, Vec<u8>>, device: &str| {
                read(files, device, first, n_bytes)
            };
            let was_good =
                of(originals, device).is_some_and(|e| u64::from(crc32(&e)) == le(header, 88..92));
            let entries =
                of(files, &name(device)).filter(|_| was_good).map(|entries| crc32(&entries));
            if let Some(file) = files.get_mut(&name(path)).and_then(|file| file.get_mut(at..)) {
                seal(file, entries);
            }
        }
    }
}

/// A header with the right checksum at the start of `bytes`.
fn good_header(bytes: &[u8]) -> Option<&[u8]> {
    let length = usize::try_from(le(bytes.get(..HEADER_BYTES)?, 12..16)).ok()?;
    let header = bytes.get(..length.min(512)).filter(|h| h.len() >= HEADER_BYTES)?;
    let is_good =
        header.starts_with(b"EFI PART") && u64::from(checksum(header)) == le(header, 16..20);
    is_good.then_some(header)
}

/// Writes the checksum of the entries, if it is known, and that of the header itself.
fn seal(bytes: &mut [u8], entries: Option<u32>) {
    let length = usize::try_from(le(bytes, 12..16)).unwrap_or_default();
    let Some(header) = bytes.get_mut(..length.min(512)).filter(|h| h.len() >= HEADER_BYTES) else {
        return;
    };
    if let Some(entries) = entries {
        header[88..92].copy_from_slice(&entries.to_le_bytes());
    }
    let sum = checksum(header);
    header[16..20].copy_from_slice(&sum.to_le_bytes());
}

fn checksum(header: &[u8]) -> u32 {
    let mut header = header.to_vec();
    header[16..20].fill(0);
    crc32(&header)
}

/// Bytes of a disk, put together of what was read of it.
fn read(
    files: &BTreeMap<String, Vec<u8>>,
    device: &str,
    first: u64,
    n_bytes: u64,
) -> Option<Vec<u8>> {
    let folder = format!("kernel/disk/{device}/");
    let n_bytes = usize::try_from(n_bytes).ok().filter(|n| *n <= 1 << 20)?;
    let mut bytes = Vec::with_capacity(n_bytes);
    while bytes.len() < n_bytes {
        let at = first + bytes.len() as u64;
        let part = files
            .range(folder.clone()..)
            .take_while(|(path, _)| path.starts_with(&folder))
            .find_map(|(path, content)| {
                let start: u64 = path.strip_prefix(&folder)?.split_once('-')?.0.parse().ok()?;
                let from = usize::try_from(at.checked_sub(start)?).ok()?;
                content.get(from..).filter(|part| !part.is_empty())
            })?;
        bytes.extend_from_slice(&part[..part.len().min(n_bytes - bytes.len())]);
    }
    Some(bytes)
}

/// A number in little-endian order; 0 where there are too few bytes.
fn le(bytes: &[u8], range: Range<usize>) -> u64 {
    let bytes = bytes.get(range).unwrap_or_default();
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}
