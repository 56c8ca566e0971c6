//! Appends files to an initramfs: an uncompressed archive in the `newc` form (kernel: `Documentation/driver-api/early-userspace/buffer-format.rst`).

use std::collections::BTreeSet;

/// A file as the guest will see it.
#[derive(Debug, Clone)]
pub(crate) struct GuestFile {
    /// Path without a leading slash, as `usr/local/bin/run-coreos-installer`.
    pub(crate) path: String,
    /// Permission bits, as `0o755`.
    pub(crate) mode: u32,
    /// Content of the file.
    pub(crate) content: Vec<u8>,
}

impl GuestFile {
    /// A file with these permission bits.
    pub(crate) fn new(path: &str, mode: u32, content: impl Into<Vec<u8>>) -> Self {
        let path = path.trim_start_matches('/').to_owned();
        Self { path, mode, content: content.into() }
    }
}

/// Returns `initramfs` followed by an archive of `files` and their folders.
pub(crate) fn append(mut initramfs: Vec<u8>, files: &[GuestFile]) -> Vec<u8> {
    pad(&mut initramfs, 512);
    let mut folders = BTreeSet::new();
    for file in files {
        for (end, _) in file.path.match_indices('/') {
            folders.insert(&file.path[..end]);
        }
    }
    let mut archive = Vec::new();
    for folder in folders {
        member(&mut archive, folder, 0o040_755, &[]);
    }
    for file in files {
        member(&mut archive, &file.path, 0o100_000 | file.mode, &file.content);
    }
    member(&mut archive, "TRAILER!!!", 0, &[]);
    initramfs.extend(archive);
    pad(&mut initramfs, 512);
    initramfs
}

/// Writes one member: thirteen fields of eight hexadecimal digits, name, content, each part padded to four bytes.
fn member(archive: &mut Vec<u8>, name: &str, mode: u32, content: &[u8]) {
    let fields = [0, mode as usize, 0, 0, 1, 0, content.len(), 0, 0, 0, 0, name.len() + 1, 0];
    archive.extend(b"070701");
    for field in fields {
        archive.extend(format!("{field:08x}").bytes());
    }
    archive.extend(name.bytes());
    archive.push(0);
    pad(archive, 4);
    archive.extend(content);
    pad(archive, 4);
}

/// Pads with zeros to a multiple of `to` bytes.
fn pad(bytes: &mut Vec<u8>, to: usize) {
    bytes.resize(bytes.len().next_multiple_of(to), 0);
}
