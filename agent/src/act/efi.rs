//! The firmware's boot entry for the installed disk.
//!
//! coreos-installer makes none, so a machine whose firmware does not look for `\EFI\BOOT` by itself would boot
//! what it booted before. Boot entries are the variables `Boot####` and `BootOrder` (UEFI Specification 2.10,
//! §3.1; `EFI_LOAD_OPTION` §3.1.3, device paths §10.3) in efivarfs (`Documentation/filesystems/efivarfs.rst`);
//! the kernel does not protect these against writing. Nothing is removed, and an entry that already leads to
//! a loader of the disk's EFI system partition is left as it is.
//!
//! Disks that were written from one image have partitions with one GUID. So an entry counts only if number,
//! place and size of the partition are this disk's too, and if its device path does not begin with a controller:
//! such an entry may belong to the disk in the next bay.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;

use formats::device_path::{self, Node};
use formats::efi::{self, ACTIVE, LoadOption, boot_name};
use formats::gpt::Partition;
use formats::utf16;

use crate::bounded;

/// Non-volatile, boot service access, runtime access.
const ATTRIBUTES: [u8; 4] = [7, 0, 0, 0];
/// The largest variable that is read, in bytes.
const MAX_VARIABLE_BYTES: u64 = 64 * 1024;
/// The entry's name in the firmware's menu.
const DESCRIPTION: &str = "CoreOS";

/// Ensures that a boot entry leads to the EFI system partition `esp`; returns a description of the entry.
///
/// # Errors
/// A message if the variables cannot be read or written, or if the written data does not read back.
pub fn ensure_entry(efivars: &Path, esp: &Partition, loaders: &[String]) -> Result<String, String> {
    let loader = best_loader(loaders).ok_or("no boot loader to start")?;
    let order = boot_order(efivars)?;
    for number in &order {
        let is_there = read(efivars, &boot_name(*number)).is_some_and(|option| {
            LoadOption::parse(&option).is_active() && leads_to(&option, esp, loaders)
        });
        if is_there {
            return Ok(format!("{} already exists", boot_name(*number)));
        }
    }
    let number = (0..=u16::MAX)
        .find(|number| !variable(efivars, &boot_name(*number)).exists())
        .ok_or("no free boot entry")?;
    let option = load_option(esp, loader)?;
    write(efivars, &boot_name(number), &option)?;
    let others = order.into_iter().filter(|other| *other != number);
    let new_order: Vec<u16> = std::iter::once(number).chain(others).collect();
    write(efivars, "BootOrder", &efi::encode_boot_order(&new_order))?;
    Ok(format!("{} created for {loader}", boot_name(number)))
}

/// Checks that the firmware tries the entry of `esp` before any other, and that no entry of ours is left that leads elsewhere:
/// to a disk that this one replaced, or to this one as it was.
///
/// # Errors
/// A message with the entries that come first, and those that are left.
pub fn check_order(efivars: &Path, esp: &Partition, loaders: &[String]) -> Result<String, String> {
    let order = boot_order(efivars)?;
    let read = |number: &u16| Some((*number, read(efivars, &boot_name(*number))?));
    let options: Vec<(u16, Vec<u8>)> = order.iter().filter_map(read).collect();
    let is_own = |(_, option): &&(u16, Vec<u8>)| leads_to(option, esp, loaders);
    let is_active = |(_, option): &&(u16, Vec<u8>)| LoadOption::parse(option).is_active();
    let before: Vec<String> =
        options.iter().filter(is_active).take_while(|option| !is_own(option)).map(named).collect();
    let is_left = |(_, option): &&(u16, Vec<u8>)| is_ours(option);
    let left: Vec<String> =
        options.iter().filter(is_left).filter(|option| !is_own(option)).map(named).collect();
    let mut wrong = Vec::new();
    if !before.is_empty() {
        wrong.push(format!("the firmware tries {} before the disk", before.join(", ")));
    }
    if !left.is_empty() {
        wrong.push(format!("an earlier install left {}", left.join(", ")));
    }
    if wrong.is_empty() { Ok("the disk is first".into()) } else { Err(wrong.join("; ")) }
}

/// The entry as the firmware's menu shows it, `Boot0003 "UEFI PXE"`; only its number if the rest cannot be read.
fn named((number, option): &(u16, Vec<u8>)) -> String {
    let name = boot_name(*number);
    match LoadOption::parse(option).description.map(utf16::line) {
        Some(description) => format!("{name} {description:?}"),
        None => name,
    }
}

/// True if an earlier install of this agent made the entry.
fn is_ours(option: &[u8]) -> bool {
    let option = LoadOption::parse(option);
    let first = option.path.and_then(|path| device_path::nodes(path).next());
    option.description.map(utf16::line).as_deref() == Some(DESCRIPTION)
        && first.is_some_and(|node| node.kind() == device_path::PARTITION)
}

fn variable(efivars: &Path, name: &str) -> std::path::PathBuf {
    efivars.join(efi::file_name(name))
}

/// A variable's value, without the attributes that efivarfs puts before it.
fn read(efivars: &Path, name: &str) -> Option<Vec<u8>> {
    let bytes = bounded::read_file(&variable(efivars, name), MAX_VARIABLE_BYTES).ok()?;
    efi::value(&bytes).map(<[u8]>::to_vec)
}

/// Writes a variable in one call, as efivarfs asks for, and reads it back.
fn write(efivars: &Path, name: &str, value: &[u8]) -> Result<(), String> {
    let path = variable(efivars, name);
    let bytes = [&ATTRIBUTES, value].concat();
    // Not truncated: an empty variable is one that is deleted.
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .and_then(|mut file| file.write_all(&bytes))
        .map_err(|error| format!("writing {}: {error}", path.display()))?;
    match read(efivars, name) {
        Some(found) if found == value => Ok(()),
        _ => Err(format!("{} does not contain what was written", path.display())),
    }
}

/// The order of the entries; empty without such a variable. One that cannot be read is an error: to write a new one
/// would lose it.
fn boot_order(efivars: &Path) -> Result<Vec<u16>, String> {
    let path = variable(efivars, "BootOrder");
    let order = match read(efivars, "BootOrder") {
        Some(order) => order,
        None if std::fs::symlink_metadata(&path).is_ok() => {
            return Err(format!("{} cannot be read; no boot entry was created", path.display()));
        }
        None => Vec::new(),
    };
    Ok(efi::boot_order(&order))
}

/// True if a load option starts one of the `loaders` on this partition: its device path is that partition, a file or
/// none, and the end (the short form of §3.1.2 without a controller).
fn leads_to(option: &[u8], esp: &Partition, loaders: &[String]) -> bool {
    let Some(path) = LoadOption::parse(option).path else { return false };
    let mut nodes = device_path::nodes(path);
    if nodes.next().is_none_or(|node| node.bytes != device_path::partition_node(esp)) {
        return false;
    }
    let names = |file: &Node<'_>, loader: &String| {
        let expected = device_path::file_node(loader);
        expected.is_some_and(|expected| expected.eq_ignore_ascii_case(file.bytes))
    };
    match nodes.next() {
        Some(node) if node.is_end() => loaders.iter().any(|loader| is_fallback(loader)),
        Some(file) if file.kind() == device_path::FILE => {
            let is_last = nodes.next().is_some_and(|node| node.is_end());
            is_last && loaders.iter().any(|loader| names(&file, loader))
        }
        _ => false,
    }
}

/// The loader that firmware takes where an entry names none (§3.5.1.1).
fn is_fallback(loader: &str) -> bool {
    loader.to_ascii_lowercase().starts_with("/efi/boot/boot")
}

fn load_option(esp: &Partition, loader: &str) -> Result<Vec<u8>, String> {
    let too_long = || format!("the path of {loader} is too long for a boot entry");
    let file = device_path::file_node(loader).ok_or_else(too_long)?;
    let path = [device_path::partition_node(esp), file, device_path::END.to_vec()].concat();
    LoadOption::encode(ACTIVE, DESCRIPTION, &path).ok_or_else(too_long)
}

/// The loader that the entry names: a vendor's shim before the fallback before anything else.
fn best_loader(loaders: &[String]) -> Option<&String> {
    let ending = match std::env::consts::ARCH {
        "aarch64" => "aa64.efi",
        _ => "x64.efi",
    };
    let rank = |loader: &String| {
        let lower = loader.to_ascii_lowercase();
        let file = lower.rsplit('/').next().unwrap_or_default();
        let is_ours = file.ends_with(ending);
        match file {
            _ if is_ours && file.starts_with("shim") => 0,
            _ if is_ours && file.starts_with("boot") => 1,
            _ if is_ours => 2,
            _ => 3,
        }
    };
    loaders.iter().filter(|loader| loader.len() < 512).min_by_key(|loader| rank(loader))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::act::testing::{gpt_partition, texts};

    fn esp() -> Partition {
        let guid = formats::guid::Guid([0xab; 16]);
        let part = gpt_partition(2, "EFI-SYSTEM", 4096, 260_096);
        Partition { type_guid: formats::gpt::ESP_TYPE, guid, ..part }
    }

    fn loaders() -> Vec<String> {
        texts(&["/EFI/BOOT/BOOTX64.EFI", "/EFI/fedora/grubx64.efi", "/EFI/fedora/shimx64.efi"])
    }

    /// The bytes that `efibootmgr --create --disk … --part 2 --label CoreOS --loader '\EFI\a.efi'` writes,
    /// so that the writer and the check of this file cannot be wrong alike.
    #[test]
    fn an_entry_has_the_bytes_that_the_specification_asks_for() {
        let mut expected = vec![1, 0, 0, 0, 72, 0];
        expected.extend(b"C\0o\0r\0e\0O\0S\0\0\0");
        expected.extend([4, 1, 42, 0, 2, 0, 0, 0]);
        expected.extend([0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0xf8, 3, 0, 0, 0, 0, 0]);
        expected.extend([0xab; 16]);
        expected.extend([2, 2, 4, 4, 26, 0]);
        expected.extend(b"\\\0E\0F\0I\0\\\0a\0.\0e\0f\0i\0\0\0");
        expected.extend([0x7f, 0xff, 4, 0]);
        assert_eq!(load_option(&esp(), "/EFI/a.efi").unwrap(), expected);
        assert!(leads_to(&expected, &esp(), &["/EFI/a.efi".to_owned()]));
    }

    #[test]
    fn an_entry_is_made_once_and_put_first() {
        let dir = tempfile::tempdir().unwrap();
        let vars = dir.path();
        let pxe = LoadOption::encode(ACTIVE, "PXE", &[]).unwrap();
        let old = [&ATTRIBUTES[..], &pxe].concat();
        std::fs::write(variable(vars, "Boot0000"), old).unwrap();
        write(vars, "BootOrder", &[0, 0]).unwrap();
        let made = ensure_entry(vars, &esp(), &loaders()).unwrap();
        assert!(made.starts_with("Boot0001 created"), "{made}");
        assert_eq!(boot_order(vars).unwrap(), [1, 0]);
        let again = ensure_entry(vars, &esp(), &loaders()).unwrap();
        assert_eq!(again, "Boot0001 already exists");
        let other = Partition { guid: formats::guid::Guid([0xcd; 16]), ..esp() };
        assert!(ensure_entry(vars, &other, &loaders()).unwrap().starts_with("Boot0002 created"));
    }

    #[test]
    fn entries_that_come_first_and_those_of_earlier_installs_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let vars = dir.path();
        let shell = LoadOption::encode(ACTIVE, "EFI Shell", &[]).unwrap();
        let off = LoadOption::encode(0, "UEFI PXE", &[]).unwrap();
        let gone = Partition { guid: formats::guid::Guid([0xcd; 16]), ..esp() };
        let loader = "/EFI/BOOT/BOOTX64.EFI";
        let old = load_option(&gone, loader).unwrap();
        let own = load_option(&esp(), loader).unwrap();
        for (number, option) in [(0, &shell), (1, &off), (2, &old), (3, &own)] {
            write(vars, &boot_name(number), option).unwrap();
        }
        let found = |order: &[u16]| {
            std::fs::remove_file(variable(vars, "BootOrder")).ok();
            write(vars, "BootOrder", &efi::encode_boot_order(order)).unwrap();
            check_order(vars, &esp(), &loaders())
        };
        assert_eq!(found(&[3, 0, 1]), Ok("the disk is first".into()));
        assert_eq!(found(&[1, 3]), Ok("the disk is first".into()), "firmware skips what is off");
        let error = found(&[0, 1, 3]).unwrap_err();
        assert_eq!(error, "the firmware tries Boot0000 \"EFI Shell\" before the disk");
        assert_eq!(found(&[3, 2]).unwrap_err(), "an earlier install left Boot0002 \"CoreOS\"");
    }

    #[test]
    fn a_boot_order_that_cannot_be_read_is_not_written_over() {
        let dir = tempfile::tempdir().unwrap();
        let vars = dir.path();
        // Not even the attributes.
        std::fs::write(variable(vars, "BootOrder"), [7, 0]).unwrap();
        let error = ensure_entry(vars, &esp(), &loaders()).unwrap_err();
        assert!(error.contains("BootOrder") && error.contains("cannot be read"), "{error}");
        assert_eq!(std::fs::read(variable(vars, "BootOrder")).unwrap(), [7, 0]);
        assert!(!variable(vars, "Boot0000").exists());
    }

    #[test]
    fn an_entry_that_was_switched_off_does_not_count() {
        let dir = tempfile::tempdir().unwrap();
        let vars = dir.path();
        let mut option = load_option(&esp(), "/EFI/BOOT/BOOTX64.EFI").unwrap();
        option[0] = 0;
        write(vars, "Boot0000", &option).unwrap();
        write(vars, "BootOrder", &[0, 0]).unwrap();
        assert!(ensure_entry(vars, &esp(), &loaders()).unwrap().contains("created"));
    }

    #[test]
    fn the_entry_of_another_disk_with_the_same_guid_is_not_taken() {
        let here = |option: &[u8]| leads_to(option, &esp(), &loaders());
        let loader = "/EFI/BOOT/BOOTX64.EFI";
        assert!(here(&load_option(&esp(), &loader.to_lowercase()).unwrap()));
        for other in [
            Partition { guid: formats::guid::Guid([0xcd; 16]), ..esp() },
            Partition { number: 1, ..esp() },
            Partition { first_block: 2048, ..esp() },
            Partition { n_blocks: 1, ..esp() },
        ] {
            assert!(!here(&load_option(&other, loader).unwrap()), "{other:?}");
        }
        let good = load_option(&esp(), loader).unwrap();
        let at = good.windows(4).position(|window| window == [4, 1, 42, 0]).unwrap();
        // A signature of 16 bytes that is none of a GUID partition table: an MBR's, or of no kind.
        for (format, kind) in [(1, 1), (2, 1), (1, 2), (2, 0)] {
            let mut option = good.clone();
            option[at + 40..at + 42].copy_from_slice(&[format, kind]);
            assert!(!here(&option), "{format} {kind}");
        }
        // With a controller in front it may be the same partition of a clone.
        let pci = [1, 1, 6, 0, 0, 4];
        let mut long = [&good[..at], &pci, &good[at..]].concat();
        let n_bytes = u16::from_le_bytes([good[4], good[5]]) + 6;
        long[4..6].copy_from_slice(&n_bytes.to_le_bytes());
        assert!(!here(&long));
    }

    #[test]
    fn an_entry_for_a_loader_that_the_disk_does_not_hold_does_not_count() {
        let gone = load_option(&esp(), "/EFI/redhat/shimx64.efi").unwrap();
        assert!(!leads_to(&gone, &esp(), &loaders()));
        // Without a file the firmware takes the fallback, where there is one.
        let path = [device_path::partition_node(&esp()), device_path::END.to_vec()].concat();
        let bare = LoadOption::encode(ACTIVE, "x", &path).unwrap();
        assert!(leads_to(&bare, &esp(), &loaders()));
        assert!(!leads_to(&bare, &esp(), &["/EFI/fedora/shimx64.efi".to_owned()]));
    }

    #[test]
    fn malformed_variables_are_no_entries() {
        let good = load_option(&esp(), "/EFI/BOOT/BOOTX64.EFI").unwrap();
        let leads_to = |option: &[u8], esp: &Partition| leads_to(option, esp, &loaders());
        assert!(leads_to(&good, &esp()));
        for length in 0..good.len() - 4 {
            // What is cut off before its end has no whole device path.
            assert!(!leads_to(&good[..length], &esp()), "{length}");
        }
        for at in 0..good.len() {
            let mut damaged = good.clone();
            damaged[at] ^= 0xff;
            leads_to(&damaged, &esp());
        }
        assert!(!leads_to(&[], &esp()));
    }

    #[test]
    fn variables_that_cannot_be_written_are_an_error() {
        let missing = Path::new("/nonexistent");
        let error = ensure_entry(missing, &esp(), &loaders()).unwrap_err();
        assert!(error.contains("writing /nonexistent/Boot0000"), "{error}");
        assert!(ensure_entry(missing, &esp(), &[]).is_err());
    }
}
