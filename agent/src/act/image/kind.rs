//! Recognises files that are not raw disk images. coreos-installer writes anything to the disk, and finds out at the end.
//!
//! The first bytes are those of the formats' own specifications (QEMU `docs/interop/qcow2.txt`, `[MS-VHDX]` 2.2.1, ECMA-119
//! 8.4.2, POSIX `pax`), most of them also in `file(1)`.

use formats::gpt::{Header, has_signature};

use super::decode::Format;
use super::head::{Head, SECTOR_SIZES};
use crate::act::Code;

/// The place of an ISO 9660 volume descriptor. A hybrid ISO has a partition table, too.
const ISO: (usize, &[u8]) = (0x8001, b"CD001");
/// Offset, bytes and name of what people mistake for a disk image.
const KINDS: [(usize, &[u8], &str); 17] = [
    (0, b"QFI\xfb", "a qcow2 image"),
    (0, b"KDMV", "a VMDK image"),
    (0, b"# Disk DescriptorFile", "the descriptor of a VMDK image"),
    (0, b"vhdxfile", "a VHDX image"),
    (0, b"conectix", "a VHD image"),
    (0, b"\x1f\x8b", "a gzip file inside another packed file"),
    (0, b"\xfd7zXZ\0", "an xz file inside another packed file"),
    (0, b"\x28\xb5\x2f\xfd", "a zstd file inside another packed file"),
    (0, b"BZh", "a bzip2 file"),
    (0, b"PK\x03\x04", "a zip file"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z file"),
    (0x101, b"ustar", "a tar archive"),
    (0, b"0707", "a cpio archive"),
    (0, b"hsqs", "a squashfs file system"),
    (0, b"XFSB", "an XFS file system"),
    (0x438, b"\x53\xef", "an ext file system"),
    (0x1fe, b"\x55\xaa", "a disk image without a GPT"),
];
/// Beginnings of text in lower case, with its name.
const TEXTS: [(&str, &str); 6] = [
    ("<!doctype html", "an HTML page"),
    ("<html", "an HTML page"),
    ("<", "an XML document"),
    ("{", "a JSON document"),
    ("-----begin pgp", "a PGP signature or key"),
    ("", "a text"),
];
/// Length of the beginning of a disk in which the header of its GPT lies, whatever the size of its sectors.
const HEADERS_BYTES: usize = 8192;
/// Length of the beginning that is text if all of it is.
const TEXT_BYTES: usize = 512;

/// What the file is and the code for it, unless it begins as a disk with a GPT does or too little of it could be
/// decompressed.
pub(super) fn not_a_disk(head: &Head) -> Option<(Code, String)> {
    let bytes = head.unpacked.as_slice();
    let named = |name: &str| Some((Code::ImageInvalid, name.to_owned()));
    if has(bytes, ISO.0, ISO.1) {
        return named("an ISO image");
    }
    if !head.is_readable() || head.sector_bytes.is_some() {
        return None;
    }
    if let Some(damage) = damage(bytes) {
        return named(&format!("a disk image with {damage}"));
    }
    if let Some((.., name)) = KINDS.iter().find(|(at, magic, _)| has(bytes, *at, magic)) {
        return named(name);
    }
    if let Some(name) = text(bytes) {
        // The page of a server or proxy may give way to the image.
        return Some((Code::ImageFetch, name.to_owned()));
    }
    if bytes.is_empty() {
        return Some((Code::ImageFetch, "an empty file".to_owned()));
    }
    if head.format != Format::Raw && bytes.len() <= HEADERS_BYTES {
        return None;
    }
    let what = if bytes.iter().all(|byte| *byte == 0) { "zeros" } else { "data" };
    named(&format!("{what} without a partition table in the first {} bytes", bytes.len()))
}

fn has(bytes: &[u8], at: usize, magic: &[u8]) -> bool {
    bytes.get(at..).is_some_and(|rest| rest.starts_with(magic))
}

/// The damage of a header that is there.
fn damage(bytes: &[u8]) -> Option<String> {
    let blocks =
        SECTOR_SIZES.into_iter().filter_map(|size| bytes.get(usize::try_from(size).ok()?..));
    blocks.filter(|block| has_signature(block)).find_map(|block| Header::parse(block).err())
}

fn text(bytes: &[u8]) -> Option<&'static str> {
    let text = String::from_utf8_lossy(bytes.get(..TEXT_BYTES).unwrap_or(bytes));
    let is_plain = |c: char| !c.is_control() || matches!(c, '\n' | '\r' | '\t');
    // A character may be cut at the end.
    let n_broken = text.matches('\u{fffd}').count();
    if text.is_empty() || !text.chars().all(is_plain) || n_broken > 1 {
        return None;
    }
    let text = text.trim_start().to_ascii_lowercase();
    TEXTS.iter().find(|(start, _)| text.starts_with(start)).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(bytes: &[u8]) -> Option<(Code, String)> {
        not_a_disk(&Head::new(bytes.to_vec(), None))
    }

    #[test]
    fn every_kind_of_file_that_is_no_disk_is_named() {
        for (at, magic, name) in KINDS {
            // Unpacked, these are the formats of packed images.
            if name.contains("another packed file") {
                continue;
            }
            let mut bytes = vec![1; 0x9000];
            bytes[at..at + magic.len()].copy_from_slice(magic);
            assert_eq!(found(&bytes).unwrap().1, name);
        }
        let mut iso = vec![0; 0x9000];
        iso[0x8001..0x8006].copy_from_slice(b"CD001");
        assert_eq!(found(&iso).unwrap().1, "an ISO image");
        assert_eq!(
            found(&[0; 9000]).unwrap().1,
            "zeros without a partition table in the first 9000 bytes"
        );
    }

    #[test]
    fn text_is_named_by_its_beginning_and_may_be_a_servers_answer() {
        for (text, name) in [
            ("\n<!DOCTYPE html><title>Wartung für", "an HTML page"),
            ("<?xml version", "an XML document"),
            ("{\"error\": 1}", "a JSON document"),
            ("-----BEGIN PGP SIGNATURE-----", "a PGP signature or key"),
            ("not found\n", "a text"),
        ] {
            let found = found(text.as_bytes());
            assert_eq!(found, Some((Code::ImageFetch, name.to_owned())), "{text}");
        }
    }
}
