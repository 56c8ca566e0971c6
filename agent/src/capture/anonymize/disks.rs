//! Data read from disks (`kernel/disk/<device>/<offset>-<length>`): boot records, GUID partition tables,
//! LVM labels and metadata. A valid GPT stays valid, and a damaged one stays damaged (UEFI 2.10
//! §5.3.2).

use std::collections::BTreeMap;

use formats::gpt::{Header, crc32};
use formats::{Field, lvm, mbr};

/// Step between possible header positions: blocks have 512 bytes or a multiple of it.
const STEP_BYTES: usize = 512;

/// Returns true if the file at `path` was read from a disk.
pub(super) fn is_disk(path: &str) -> bool {
    place(path).is_some()
}

/// Splits `path` into the disk that was read and the offset of the read.
fn place(path: &str) -> Option<(&str, u64)> {
    let (device, place) = path.strip_prefix("kernel/disk/")?.split_once('/')?;
    Some((device, place.split_once('-')?.0.parse().ok()?))
}

/// Returns the fields of one read. GPT entries may extend over several: see [`entry_guids`].
pub(super) fn fields(path: &str, content: &[u8]) -> Vec<Field> {
    let Some((_, start)) = place(path) else { return Vec::new() };
    let boot_record = if start == 0 { mbr::fields(content) } else { Vec::new() };
    let label = lvm::label(content).map(|label| label.fields).unwrap_or_default();
    let of_header = |(at, header): (usize, Header)| {
        header.fields().into_iter().map(move |field| field.moved(at))
    };
    let of_lvm = label.into_iter().chain(lvm::metadata_fields(content));
    boot_record.into_iter().chain(of_lvm).chain(headers(content).flat_map(of_header)).collect()
}

/// Finds the GPT headers in a read, damaged ones too.
fn headers(content: &[u8]) -> impl Iterator<Item = (usize, Header)> {
    let places = (0..content.len()).step_by(STEP_BYTES);
    places.filter_map(|at| Some((at, Header::unverified(content.get(at..)?).ok()?)))
}

/// A header in one read from a disk.
struct Table<'a> {
    path: &'a str,
    device: &'a str,
    /// Its offset in the read.
    at: usize,
    header: Header,
    /// The block size, which follows from the header's own block number.
    block_bytes: u64,
}

impl Table<'_> {
    /// Its entries, which may be in another read: fewer where a part was not read.
    fn entries(&self, files: &BTreeMap<String, Vec<u8>>, device: &str) -> Option<Vec<u8>> {
        let (first, n_bytes) = self.header.entries_place(self.block_bytes).ok()?;
        Some(read(files, device, first, n_bytes))
    }
}

/// The headers in all reads.
fn tables(files: &BTreeMap<String, Vec<u8>>) -> impl Iterator<Item = Table<'_>> {
    let reads = files.iter().filter_map(|(path, content)| Some((path, place(path)?, content)));
    reads.flat_map(|(path, (device, start), content)| {
        headers(content).map(move |(at, header)| {
            let offset = start.saturating_add(at as u64);
            let block_bytes = offset.checked_div(header.own_lba).unwrap_or(0);
            Table { path, device, at, header, block_bytes }
        })
    })
}

/// Finds the GUIDs in GPT entries.
pub(super) fn entry_guids(files: &BTreeMap<String, Vec<u8>>) -> impl Iterator<Item = Vec<u8>> {
    tables(files).flat_map(|table| {
        let entries = table.entries(files, table.device).unwrap_or_default();
        let fields = table.header.entry_fields(&entries);
        fields.iter().map(|field| field.bytes(&entries).to_vec()).collect::<Vec<Vec<u8>>>()
    })
}

/// Repairs the headers in `files` that were good in `originals`; `name` gives a file's new path.
pub(super) fn reseal(
    originals: &BTreeMap<String, Vec<u8>>,
    files: &mut BTreeMap<String, Vec<u8>>,
    name: impl Fn(&str) -> String,
) {
    for table in tables(originals) {
        let block = originals.get(table.path).and_then(|content| content.get(table.at..));
        let Some(header) = block.and_then(|block| Header::parse(block).ok()) else { continue };
        let is_good = |entries: &Vec<u8>| header.partitions(entries, table.block_bytes).is_ok();
        let was_good = table.entries(originals, table.device).is_some_and(|found| is_good(&found));
        let entries = table.entries(files, &name(table.device)).filter(|_| was_good);
        let sum = entries.map(|entries| crc32(&entries));
        if let Some(file) =
            files.get_mut(&name(table.path)).and_then(|file| file.get_mut(table.at..))
        {
            header.seal(file, sum);
        }
    }
}

/// Assembles disk bytes from the reads; returns fewer where a part was not read.
fn read(files: &BTreeMap<String, Vec<u8>>, device: &str, first: u64, n_bytes: usize) -> Vec<u8> {
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
            });
        let Some(part) = part else { break };
        bytes.extend_from_slice(&part[..part.len().min(n_bytes - bytes.len())]);
    }
    bytes
}
