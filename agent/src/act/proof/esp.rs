//! Checks that the EFI system partition contains a boot loader (UEFI Specification 2.10, §13.3.1.3).

use std::env::consts::ARCH;
use std::io::Read as _;

use formats::executable;
use formats::gpt::{ESP_TYPE, Partition};

use super::disk::Disk;
use super::fat::{Fat, Root};

/// The most directories and files that are read.
const MAX_NAMES: usize = 1024;
/// The most loaders that are named.
const MAX_LOADERS: usize = 16;

/// The EFI system partition of a disk and the boot loaders in it.
///
/// # Errors
/// As for [`loaders`]; a message if the disk cannot be read, or has no such partition.
pub fn read(disk: &Disk, sector_bytes: u64) -> Result<(Partition, Vec<String>), String> {
    let part = partition(disk, sector_bytes)?;
    let loaders = loaders(disk, std::slice::from_ref(&part))?;
    Ok((part, loaders))
}

/// The EFI system partition of a disk.
///
/// # Errors
/// A message if the disk cannot be read, or has none.
fn partition(disk: &Disk, sector_bytes: u64) -> Result<Partition, String> {
    let table = super::gpt::read(&mut disk.clone(), sector_bytes)?.partitions;
    let part = table.into_iter().find(|part| part.type_guid == ESP_TYPE);
    part.ok_or_else(|| "no EFI system partition".into())
}

/// At most `max_bytes` of a file in the EFI system partition; `None` if there is no such file.
///
/// # Errors
/// A message if the disk cannot be read, or has no such partition.
pub fn content(
    disk: &Disk,
    sector_bytes: u64,
    path: String,
    max_bytes: usize,
) -> Result<Option<Vec<u8>>, String> {
    let part = partition(disk, sector_bytes)?;
    Fat::open(disk.window(part.start_bytes, part.size_bytes)?)?.ask(move |root| {
        let file = match root.open_file(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let mut content = Vec::new();
        file.take(max_bytes as u64).read_to_end(&mut content)?;
        Ok(Some(content))
    })
}

/// The boot loaders for this machine in the EFI system partition, e.g. `/EFI/BOOT/BOOTX64.EFI`.
///
/// # Errors
/// A message if the partition is missing or cannot be read, or has no loader for this machine.
pub fn loaders(disk: &Disk, table: &[Partition]) -> Result<Vec<String>, String> {
    let part =
        table.iter().find(|part| part.type_guid == ESP_TYPE).ok_or("no EFI system partition")?;
    let window = disk.window(part.start_bytes, part.size_bytes)?;
    let found = Fat::open(window).and_then(|fat| fat.ask(in_fat));
    let mut found = found.map_err(|error| format!("reading partition {}: {error}", part.number))?;
    if found.is_empty() {
        return Err("no .efi file below /EFI".into());
    }
    found.sort();
    let is_own = |(_, first): &(String, Vec<u8>)| {
        executable::architecture(first).is_some_and(|found| executable::runs_on(found, ARCH))
    };
    let (own, other): (Vec<_>, Vec<_>) = found.into_iter().partition(is_own);
    let names = |loaders: Vec<(String, Vec<u8>)>| -> Vec<String> {
        loaders.into_iter().map(|(name, _)| name).take(MAX_LOADERS).collect()
    };
    match &own[..] {
        [] => Err(format!("no program for {ARCH}: {}", names(other).join(", "))),
        _ => Ok(names(own)),
    }
}

/// The loaders, and the beginning of each.
fn in_fat(root: &Root<'_>) -> std::io::Result<Vec<(String, Vec<u8>)>> {
    let mut found = Vec::new();
    let efi = match root.open_dir("EFI") {
        Ok(efi) => efi,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(found),
        Err(error) => return Err(error),
    };
    for dir in efi.iter().take(MAX_NAMES) {
        let dir = dir?;
        let name = dir.file_name();
        if !dir.is_dir() || name == "." || name == ".." {
            continue;
        }
        for file in dir.to_dir().iter().take(MAX_NAMES) {
            let file = file?;
            let is_loader = file.is_file()
                && file.len() > 0
                && file.file_name().to_ascii_lowercase().ends_with(".efi");
            if is_loader {
                let mut first = Vec::new();
                let mut content = file.to_file().take(executable::FIRST_BYTES as u64);
                content.read_to_end(&mut first)?;
                found.push((format!("/EFI/{name}/{}", file.file_name()), first));
            }
        }
    }
    Ok(found)
}
