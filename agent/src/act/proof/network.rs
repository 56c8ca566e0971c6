//! The network profiles that coreos-installer copies to the installed system.
//!
//! Before 0.27 it copies them to `/coreos-firstboot-network` of the boot file system, since then into the
//! initramfs of the boot loader entry (`src/install.rs`, `copy_network_config`).

use std::collections::BTreeMap;
use std::path::Path;

use formats::digest::sha256;

use super::boot::{BootFiles, Entry};
use super::initramfs;
use crate::bounded;

/// Directory of the profiles in the boot file system.
const IN_BOOT: &str = "/coreos-firstboot-network";
/// Directory of the profiles in the initramfs.
const IN_INITRAMFS: &str = "etc/coreos-firstboot-network/";
/// The largest profile in bytes.
const MAX_PROFILE_BYTES: u64 = 1 << 20;
/// The most profiles.
const MAX_PROFILES: usize = 4096;

/// Digests of the profiles, by file name.
pub type Profiles = BTreeMap<String, String>;

/// The profiles in `dir`, as coreos-installer selects them: every file, also where a link leads to one.
///
/// # Errors
/// A message if the directory or a file in it cannot be read.
pub(super) fn profiles(dir: &Path) -> Result<Profiles, String> {
    let failed = |error: std::io::Error| format!("reading {}: {error}", dir.display());
    let mut profiles = Profiles::new();
    for entry in std::fs::read_dir(dir).map_err(failed)?.take(MAX_PROFILES) {
        let entry = entry.map_err(failed)?;
        let path = entry.path();
        if path.is_file() {
            let bytes = bounded::read_file(&path, MAX_PROFILE_BYTES);
            let bytes = bytes.map_err(|error| format!("{error:#}"))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            profiles.insert(name, sha256(&bytes));
        }
    }
    Ok(profiles)
}

/// Checks that the installed system has these profiles with these digests. Returns their location.
///
/// # Errors
/// A message with the missing and differing profiles.
pub(super) fn check(
    expected: &Profiles,
    files: &BootFiles,
    entries: &Result<Vec<Entry>, String>,
) -> Result<String, String> {
    let in_boot =
        wrong(expected, |name| files.read(&format!("{IN_BOOT}/{name}"), MAX_PROFILE_BYTES));
    if in_boot.is_empty() {
        return Ok(format!("{} files in {IN_BOOT}", expected.len()));
    }
    let mut initramfs = Vec::new();
    for entry in entries.as_ref().map_err(Clone::clone)? {
        let path = entry.initrd.as_ref();
        let path = path.ok_or_else(|| format!("{} names no initramfs", entry.name))?;
        let failed = |error| format!("{error} to {path}, and in {IN_BOOT}: {}", in_boot.join(", "));
        let n_bytes = files.size(path).map_err(failed)?;
        let read = |at, n| files.read_part(path, at, n);
        let found = initramfs::appended(n_bytes, &read).map_err(failed)?;
        let wrong = wrong(expected, |name| {
            let content = found.get(&format!("{IN_INITRAMFS}{name}"));
            content.cloned().ok_or_else(|| "not found".into())
        });
        if !wrong.is_empty() {
            return Err(format!("in {path}: {}", wrong.join(", ")));
        }
        initramfs.push(path.as_str());
    }
    match &initramfs[..] {
        [] => Err(in_boot.join(", ")),
        _ => Ok(format!("{} files in {}", expected.len(), initramfs.join(", "))),
    }
}

/// The profiles that are missing or differ, each with its fault.
fn wrong(expected: &Profiles, read: impl Fn(&str) -> Result<Vec<u8>, String>) -> Vec<String> {
    let of = |(name, digest): (&String, &String)| match read(name) {
        Ok(bytes) if sha256(&bytes) == *digest => None,
        Ok(bytes) => Some(format!("{name} has {}, expected {digest}", sha256(&bytes))),
        Err(error) => Some(format!("{name}: {error}")),
    };
    expected.iter().filter_map(of).take(16).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_the_files_of_the_directory() {
        let temporary = tempfile::tempdir().unwrap();
        let dir = temporary.path();
        std::fs::create_dir_all(dir.join("subdirectory")).unwrap();
        std::fs::write(dir.join("a.nmconnection"), "a").unwrap();
        std::os::unix::fs::symlink(dir.join("a.nmconnection"), dir.join("b.nmconnection")).unwrap();
        let found = profiles(dir).unwrap();
        let expected =
            ["a.nmconnection", "b.nmconnection"].map(|name| (name.to_owned(), sha256(b"a")));
        assert_eq!(found, Profiles::from(expected));
        assert!(profiles(&dir.join("none")).is_err());
    }
}
