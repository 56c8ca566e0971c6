//! Checksums of partition tables: a GPT whose GUIDs were replaced must stay a good one, and a damaged
//! one damaged (UEFI 2.10 §5.3.2).

use std::collections::BTreeMap;

use formats::crc::crc32;
use formats::gpt::Header;

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
            let Ok(header) = Header::parse(&content[at..]) else { continue };
            // A header states its own block, and so the size of one.
            let block_bytes = (start + at as u64).checked_div(header.own_lba).unwrap_or(0);
            let of = |files: &BTreeMap<String, Vec<u8>>, device: &str| {
                let (first, n_bytes) = header.entries_place(block_bytes).ok()?;
                read(files, device, first, n_bytes)
            };
            let was_good = of(originals, device)
                .is_some_and(|entries| header.partitions(&entries, block_bytes).is_ok());
            let entries =
                of(files, &name(device)).filter(|_| was_good).map(|entries| crc32(&entries));
            if let Some(file) = files.get_mut(&name(path)).and_then(|file| file.get_mut(at..)) {
                header.seal(file, entries);
            }
        }
    }
}

/// Bytes of a disk, put together of what was read of it.
fn read(
    files: &BTreeMap<String, Vec<u8>>,
    device: &str,
    first: u64,
    n_bytes: usize,
) -> Option<Vec<u8>> {
    let folder = format!("kernel/disk/{device}/");
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
