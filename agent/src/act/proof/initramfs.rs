//! The archive that coreos-installer appends to the initramfs: network profiles below
//! `/etc/coreos-firstboot-network`, since 0.27 (`src/io/initrd.rs`, `embed_network_files`).
//!
//! It is one xz stream (tukaani.org, "The .xz File Format" 1.2.1) with a cpio archive
//! (`Documentation/driver-api/early-userspace/buffer-format.rst`), at the very end of the file. The stream's
//! index says how long it is, so that the initramfs before it need not be read.

use std::collections::BTreeMap;
use std::io::Read as _;

use formats::bytes::le32;
use formats::xz::number;
use lzma_rust2::XzReader;

/// The largest archive in bytes, packed and unpacked.
const MAX_BYTES: u64 = 64 << 20;
/// Header and footer of an xz stream have this length.
const FRAME_BYTES: u64 = 12;
/// The largest index of a stream: two numbers for each of its blocks, which are one for each file.
const MAX_INDEX_BYTES: u64 = 1 << 20;
/// The most memory for the dictionary, in KiB: `xz -9` needs 64 MiB.
const MAX_DICTIONARY_KIB: u32 = 80 << 10;
/// A cpio header: six bytes of magic and 13 numbers of eight hexadecimal digits.
const HEADER_BYTES: usize = 110;
/// The name that ends an archive.
const TRAILER: &str = "TRAILER!!!";

/// Reads a part of a file: offset and length.
pub(super) type Read<'a> = dyn Fn(u64, u64) -> Result<Vec<u8>, String> + 'a;

/// Returns the regular files of the archive at the end of a file with `n_bytes`, by path.
///
/// # Errors
/// A message if the archive is missing or damaged.
pub(super) fn appended(n_bytes: u64, read: &Read<'_>) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let none = || "no archive was appended".to_owned();
    let length = stream_bytes(n_bytes, read)?.ok_or_else(none)?;
    let packed = read(n_bytes - length, length)?;
    let mut archive = Vec::new();
    XzReader::new_mem_limit(&packed[..], false, MAX_DICTIONARY_KIB)
        .take(MAX_BYTES + 1)
        .read_to_end(&mut archive)
        .map_err(|error| format!("the appended archive cannot be unpacked: {error}"))?;
    if archive.len() as u64 > MAX_BYTES {
        return Err(format!("the appended archive is larger than {MAX_BYTES} bytes"));
    }
    files(&archive).ok_or_else(|| "the appended archive is damaged".to_owned())
}

/// Returns the length of the xz stream at the end of the file; `None` if there is none.
pub(super) fn stream_bytes(n_bytes: u64, read: &Read<'_>) -> Result<Option<u64>, String> {
    let Some(footer_at) = n_bytes.checked_sub(FRAME_BYTES) else { return Ok(None) };
    let footer = read(footer_at, FRAME_BYTES)?;
    let index_bytes = (u64::from(le32(&footer, 4)) + 1) * 4;
    let index_at = footer_at.checked_sub(index_bytes);
    let (Some(index_at), true) = (index_at, footer.ends_with(b"YZ")) else { return Ok(None) };
    if index_bytes > MAX_INDEX_BYTES {
        return Ok(None);
    }
    let blocks_bytes = blocks_bytes(&read(index_at, index_bytes)?);
    let length = blocks_bytes.and_then(|blocks| blocks.checked_add(index_bytes + 2 * FRAME_BYTES));
    Ok(length.filter(|length| *length <= n_bytes && *length <= MAX_BYTES))
}

/// The length of all blocks together, from the index of the stream.
fn blocks_bytes(index: &[u8]) -> Option<u64> {
    let (n_blocks, mut rest) = number(index.strip_prefix(&[0])?)?;
    let mut sum = 0_u64;
    // Each record takes at least two bytes, so a wrong number ends with the index.
    for _ in 0..n_blocks {
        let (unpadded, after) = number(rest)?;
        (_, rest) = number(after)?;
        sum = sum.checked_add(unpadded.checked_next_multiple_of(4)?)?;
    }
    Some(sum)
}

/// The regular files of a cpio archive; `None` if it is damaged.
fn files(archive: &[u8]) -> Option<BTreeMap<String, Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut at = 0_usize;
    loop {
        let header = archive.get(at..at.checked_add(HEADER_BYTES)?)?;
        if !header.starts_with(b"070701") {
            return None;
        }
        let field = |index: usize| {
            let digits = std::str::from_utf8(header.get(6 + index * 8..14 + index * 8)?).ok()?;
            usize::try_from(u32::from_str_radix(digits, 16).ok()?).ok()
        };
        let (mode, n_bytes, name_bytes) = (field(1)?, field(6)?, field(11)?);
        let name_at = at + HEADER_BYTES;
        let name_end = name_at.checked_add(name_bytes)?;
        let name = archive.get(name_at..name_end)?.strip_suffix(&[0])?;
        let name = String::from_utf8_lossy(name).into_owned();
        if name == TRAILER {
            return Some(found);
        }
        let content_at = name_end.checked_next_multiple_of(4)?;
        let content_end = content_at.checked_add(n_bytes)?;
        let content = archive.get(content_at..content_end)?;
        if mode & 0o170_000 == 0o100_000 {
            found.insert(name, content.to_vec());
        }
        at = content_end.checked_next_multiple_of(4)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The output of `coreos-installer pxe network wrap` of 0.27.0 for two files, with the code that appends them to an
    /// initramfs.
    const APPENDED: &[u8] = include_bytes!("testdata/network.img");

    fn read_of(bytes: &[u8]) -> Result<BTreeMap<String, Vec<u8>>, String> {
        appended(bytes.len() as u64, &|at, n| {
            let at = usize::try_from(at).unwrap();
            let end = at.checked_add(usize::try_from(n).unwrap()).unwrap();
            bytes.get(at..end).map(<[u8]>::to_vec).ok_or_else(|| "read beyond the end".to_owned())
        })
    }

    #[test]
    fn files_that_coreos_installer_appended_are_found_at_the_end() {
        for before in [&b""[..], b"070701 an uncompressed archive", &[0xfd; 5000]] {
            let found = read_of(&[before, APPENDED].concat()).unwrap();
            let names: Vec<&String> = found.keys().collect();
            assert_eq!(
                names,
                [
                    "etc/coreos-firstboot-network/a.nmconnection",
                    "etc/coreos-firstboot-network/b.nmconnection"
                ]
            );
            assert_eq!(found.values().next().unwrap(), b"[connection]\nid=a\n");
        }
    }

    #[test]
    fn initramfs_without_an_appended_archive_has_none() {
        for bytes in [&b""[..], b"070701", &[0; 4096], &APPENDED[..300]] {
            assert_eq!(read_of(bytes).unwrap_err(), "no archive was appended");
        }
    }

    #[test]
    fn damaged_archive_is_an_error_and_never_a_panic() {
        for at in 0..APPENDED.len() {
            for mask in [0xff, 1] {
                let mut damaged = APPENDED.to_vec();
                damaged[at] ^= mask;
                read_of(&damaged).ok();
            }
        }
        let mut wrong = APPENDED.to_vec();
        wrong[40] ^= 1;
        read_of(&wrong).unwrap_err();
        assert_eq!(files(b"070701 too short"), None);
    }
}
