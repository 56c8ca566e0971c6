//! The kernel and the initramfs of each boot loader entry, by the digest in the name of their directory, which `OSTree`
//! computed when the image was built: `/ostree/<os>-<SHA-256>/`, over the kernel, then the initramfs
//! (`get_kernel_from_tree_usrlib_modules`, `src/libostree/ostree-sysroot-deploy.c`).
//!
//! A devicetree would follow, so a directory with one is not checked. Neither are the archives that coreos-installer
//! appends to the initramfs.

use std::env::consts::ARCH;

use formats::digest::{Algorithm, Hasher};
use formats::executable::{self, FIRST_BYTES, runs_on};

use super::boot::{BootFiles, Entry};
use super::initramfs::stream_bytes;

/// Length of one read, in bytes.
const CHUNK_BYTES: u64 = 1 << 20;
/// A kernel or an initramfs that is larger is not plausible, in bytes.
const MAX_BYTES: u64 = 1 << 30;
/// Hexadecimal digits of a SHA-256 digest.
const DIGEST_CHARS: usize = 64;
/// An archive that is appended begins at a multiple of this.
const ALIGNMENT: u64 = 4;

/// Checks the files of every entry that names such a directory; `None` if none does.
///
/// # Errors
/// A message with a file that differs or cannot be read.
pub(super) fn check(
    files: &BootFiles,
    entries: &[Entry],
    has_appended: bool,
) -> Option<Result<String, String>> {
    let mut checked = Vec::new();
    for entry in entries {
        let Some((kernel, initrd, expected)) = named(entry) else { continue };
        match has_other_files(files, kernel) {
            Ok(true) => continue,
            Ok(false) => {}
            Err(why) => return Some(Err(why)),
        }
        match digest(files, kernel, initrd, expected, has_appended) {
            Ok(n_bytes) => {
                let mib = n_bytes.div_ceil(1 << 20);
                checked
                    .push(format!("{kernel} and {initrd}, {mib} MiB with the digest {expected}"));
            }
            Err(why) => return Some(Err(format!("{kernel} and {initrd}: {why}"))),
        }
    }
    (!checked.is_empty()).then(|| Ok(checked.join("; ")))
}

/// Checks that every kernel is for this machine; `None` if none is of a known form.
///
/// # Errors
/// A message with a kernel for another architecture.
pub(super) fn architecture(files: &BootFiles, entries: &[Entry]) -> Option<Result<String, String>> {
    let mut found = Vec::new();
    for path in entries.iter().filter_map(|entry| entry.linux.as_deref()) {
        let n_bytes = files.size(path).map_or(0, |n_bytes| n_bytes.min(FIRST_BYTES as u64));
        let first = files.read_part(path, 0, n_bytes).unwrap_or_default();
        let Some(architecture) = executable::architecture(&first) else { continue };
        if !runs_on(architecture, ARCH) {
            return Some(Err(format!("{path} is for {architecture}")));
        }
        found.push(format!("{path} for {architecture}"));
    }
    (!found.is_empty()).then(|| Ok(found.join(", ")))
}

/// The kernel, the initramfs and their digest.
fn named(entry: &Entry) -> Option<(&str, &str, &str)> {
    let (kernel, initrd) = (entry.linux.as_deref()?, entry.initrd.as_deref()?);
    let (directory, _) = kernel.rsplit_once('/')?;
    let name = directory.strip_prefix("/boot").unwrap_or(directory).strip_prefix("/ostree/")?;
    let (_, digest) = name.rsplit_once('-')?;
    let is_digest =
        digest.len() == DIGEST_CHARS && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_same_directory = initrd.rsplit_once('/').is_some_and(|(other, _)| other == directory);
    (is_digest && is_same_directory).then_some((kernel, initrd, digest))
}

/// True if the kernel's directory contains files, such as a devicetree, that the digest may include.
fn has_other_files(files: &BootFiles, kernel: &str) -> Result<bool, String> {
    let directory = kernel.rsplit_once('/').map_or(kernel, |(directory, _)| directory);
    let is_known = |name: &String| {
        ["vmlinuz-", "initramfs-", ".vmlinuz-"].iter().any(|prefix| name.starts_with(prefix))
            || [".", ".."].contains(&name.as_str())
    };
    let names = files.names(directory).map_err(|why| format!("{directory}: {why}"))?;
    Ok(!names.iter().all(is_known))
}

/// Compares the digest of both files; returns how many bytes were read.
fn digest(
    files: &BootFiles,
    kernel: &str,
    initrd: &str,
    expected: &str,
    has_appended: bool,
) -> Result<u64, String> {
    let mut hasher = Hasher::new(Algorithm::Sha256);
    let kernel_bytes = size(files, kernel)?;
    add(files, kernel, 0..kernel_bytes, &mut hasher)?;
    let initrd_bytes = size(files, initrd)?;
    let n_read = kernel_bytes + initrd_bytes;
    let expected = format!("sha256-{expected}");
    let is_it = |hasher: &Hasher| hasher.clone().finish().eq_ignore_ascii_case(&expected);
    let mut at = 0;
    if has_appended {
        let read = |at, n| files.read_part(initrd, at, n);
        let appended = stream_bytes(initrd_bytes, &read)?.unwrap_or_default();
        let end = initrd_bytes - appended;
        // Up to three zeros fill the space before an archive.
        for until in end.saturating_sub(ALIGNMENT - 1)..=end {
            add(files, initrd, at..until, &mut hasher)?;
            at = until;
            if is_it(&hasher) {
                return Ok(n_read);
            }
        }
    }
    add(files, initrd, at..initrd_bytes, &mut hasher)?;
    if is_it(&hasher) {
        return Ok(n_read);
    }
    Err(format!("their digest is {}, expected {expected}", hasher.finish()))
}

fn size(files: &BootFiles, path: &str) -> Result<u64, String> {
    let n_bytes = files.size(path).map_err(|why| format!("{path}: {why}"))?;
    if n_bytes > MAX_BYTES {
        return Err(format!("{path}: {n_bytes} bytes, expected at most {MAX_BYTES}"));
    }
    Ok(n_bytes)
}

/// Adds a part of a file to the digest.
fn add(
    files: &BootFiles,
    path: &str,
    part: std::ops::Range<u64>,
    hasher: &mut Hasher,
) -> Result<(), String> {
    let mut at = part.start;
    while at < part.end {
        let n_bytes = CHUNK_BYTES.min(part.end - at);
        let bytes = files.read_part(path, at, n_bytes);
        hasher.update(&bytes.map_err(|why| format!("{path} at {at}: {why}"))?);
        at += n_bytes;
    }
    Ok(())
}
