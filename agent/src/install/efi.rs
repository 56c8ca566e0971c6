//! The firmware's boot entry for the installed disk.
//!
//! coreos-installer makes none, so a machine whose firmware does not look for `\EFI\BOOT` by itself would boot
//! what it booted before. Boot entries are the variables `Boot####` and `BootOrder` (UEFI Specification 2.10,
//! §3.1; `EFI_LOAD_OPTION` §3.1.3, device paths §10.3) in efivarfs (`Documentation/filesystems/efivarfs.rst`);
//! the kernel does not protect these against writing. Nothing is removed, and an entry that already leads to
//! a loader of the disk's EFI system partition is left as it is.
//!
//! Disks that were written from one image have partitions with one GUID. So an entry counts only if number,
//! place and size of the partition are this disk's too, and if it does not name another way to the disk before:
//! such an entry may be that of the disk in the next bay.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;

use formats::gpt::Partition;

use crate::bounded;

/// The vendor GUID of the variables that the specification defines.
const GLOBAL: &str = "8be4df61-93ca-11d2-aa0d-00e098032b8c";
/// Non-volatile, boot service access, runtime access.
const ATTRIBUTES: [u8; 4] = [7, 0, 0, 0];
/// `LOAD_OPTION_ACTIVE`.
const ACTIVE: u32 = 1;
/// The largest variable that is read, in bytes.
const MAX_VARIABLE_BYTES: u64 = 64 * 1024;
/// How the entry is called in the firmware's menu.
const DESCRIPTION: &str = "CoreOS";

/// Makes sure that a boot entry leads to the EFI system partition `esp`; says which one does.
///
/// # Errors
/// In words: the variables cannot be read or written, or what was written does not read back.
pub fn ensure_entry(efivars: &Path, esp: &Partition, loaders: &[String]) -> Result<String, String> {
    let loader = best_loader(loaders).ok_or("no loader to point at")?;
    let order = boot_order(efivars)?;
    for number in &order {
        let is_there = read(efivars, &name(*number))
            .is_some_and(|option| is_active(&option) && leads_to(&option, esp, loaders));
        if is_there {
            return Ok(format!("{} was there", name(*number)));
        }
    }
    let number = (0..=u16::MAX)
        .find(|number| !variable(efivars, &name(*number)).exists())
        .ok_or("no free boot entry")?;
    let option = load_option(esp, loader);
    write(efivars, &name(number), &option)?;
    let mut new_order = number.to_le_bytes().to_vec();
    new_order.extend(order.iter().filter(|other| **other != number).flat_map(|n| n.to_le_bytes()));
    write(efivars, "BootOrder", &new_order)?;
    Ok(format!("{} made for {loader}", name(number)))
}

fn name(number: u16) -> String {
    format!("Boot{number:04X}")
}

fn variable(efivars: &Path, name: &str) -> std::path::PathBuf {
    efivars.join(format!("{name}-{GLOBAL}"))
}

/// A variable's value, without the attributes that efivarfs puts before it.
fn read(efivars: &Path, name: &str) -> Option<Vec<u8>> {
    let bytes = bounded::read_file(&variable(efivars, name), MAX_VARIABLE_BYTES).ok()?;
    bytes.get(4..).map(<[u8]>::to_vec)
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
        _ => Err(format!("{} does not hold what was written", path.display())),
    }
}

/// The order of the entries; none if there is no such variable. One that cannot be read is an error: to write
/// a new one would lose it.
fn boot_order(efivars: &Path) -> Result<Vec<u16>, String> {
    let path = variable(efivars, "BootOrder");
    let order = match read(efivars, "BootOrder") {
        Some(order) => order,
        None if std::fs::symlink_metadata(&path).is_ok() => {
            return Err(format!("{} cannot be read; no boot entry is made", path.display()));
        }
        None => Vec::new(),
    };
    Ok(order.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect())
}

fn is_active(option: &[u8]) -> bool {
    option.first().is_some_and(|byte| u32::from(*byte) & ACTIVE != 0)
}

/// Whether a load option leads to one of the `loaders` of this very partition: its device path is that
/// partition, a file or none, and the end (the short form of §3.1.2, which names no controller).
fn leads_to(option: &[u8], esp: &Partition, loaders: &[String]) -> bool {
    let Some(path) = device_path(option) else { return false };
    let Some((head, rest)) = node(path) else { return false };
    if head != drive(esp) {
        return false;
    }
    match node(rest) {
        Some(([0x7f, ..], _)) => loaders.iter().any(|loader| is_fallback(loader)),
        Some((file @ [4, 4, ..], behind)) => {
            let is_last = matches!(node(behind), Some(([0x7f, ..], _)));
            is_last && loaders.iter().any(|loader| file_node(loader).eq_ignore_ascii_case(file))
        }
        _ => false,
    }
}

/// The first node of a device path, and what follows it.
fn node(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let [_, _, low, high] = path.first_chunk()?;
    let length = usize::from(u16::from_le_bytes([*low, *high]));
    path.split_at_checked(length).filter(|(node, _)| node.len() >= 4)
}

/// The loader that firmware takes where an entry names none (§3.5.1.1).
fn is_fallback(loader: &str) -> bool {
    loader.to_ascii_lowercase().starts_with("/efi/boot/boot")
}

/// The device path of a load option: behind attributes, length and description.
fn device_path(option: &[u8]) -> Option<&[u8]> {
    let length = usize::from(u16::from_le_bytes([*option.get(4)?, *option.get(5)?]));
    let description = option.get(6..)?;
    let end = description.chunks_exact(2).position(|unit| unit == [0, 0])?;
    let paths = description.get((end + 1) * 2..)?;
    paths.get(..length)
}

/// The node of a partition in a GUID partition table.
fn drive(esp: &Partition) -> Vec<u8> {
    let mut drive = vec![4, 1, 42, 0];
    drive.extend(esp.number.to_le_bytes());
    drive.extend(esp.first_block.to_le_bytes());
    drive.extend(esp.n_blocks.to_le_bytes());
    drive.extend(esp.guid.0);
    // A GUID partition table, and a GUID as the signature.
    drive.extend([2, 2]);
    drive
}

/// The node of a file.
fn file_node(loader: &str) -> Vec<u8> {
    let text = utf16(&loader.replace('/', "\\"));
    let mut file = vec![4, 4];
    file.extend(length(text.len() + 4));
    file.extend(text);
    file
}

fn load_option(esp: &Partition, loader: &str) -> Vec<u8> {
    let path = [drive(esp), file_node(loader), vec![0x7f, 0xff, 4, 0]].concat();
    let mut option = ACTIVE.to_le_bytes().to_vec();
    option.extend(length(path.len()));
    option.extend(utf16(DESCRIPTION));
    option.extend(path);
    option
}

fn length(n_bytes: usize) -> [u8; 2] {
    u16::try_from(n_bytes).unwrap_or(u16::MAX).to_le_bytes()
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
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

    fn esp() -> Partition {
        Partition {
            number: 2,
            type_guid: formats::gpt::ESP_TYPE,
            guid: formats::guid::Guid([0xab; 16]),
            name: "EFI-SYSTEM".into(),
            first_block: 4096,
            n_blocks: 260_096,
            start_bytes: 4096 * 512,
            size_bytes: 260_096 * 512,
            entry_at: 128,
        }
    }

    struct Vars(std::path::PathBuf);

    impl Vars {
        fn new(name: &str) -> Self {
            let dir = std::env::temp_dir().join(format!("rci-efi-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&dir).unwrap();
            Self(dir)
        }
    }

    impl Drop for Vars {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).ok();
        }
    }

    fn loaders() -> Vec<String> {
        ["/EFI/BOOT/BOOTX64.EFI", "/EFI/fedora/grubx64.efi", "/EFI/fedora/shimx64.efi"]
            .map(str::to_owned)
            .to_vec()
    }

    #[test]
    fn an_entry_is_made_once_and_put_first() {
        let vars = Vars::new("once");
        let old = [&ATTRIBUTES[..], &1_u32.to_le_bytes(), &[0, 0], &utf16("PXE")].concat();
        std::fs::write(variable(&vars.0, "Boot0000"), old).unwrap();
        write(&vars.0, "BootOrder", &[0, 0]).unwrap();
        let made = ensure_entry(&vars.0, &esp(), &loaders()).unwrap();
        assert!(made.starts_with("Boot0001 made"), "{made}");
        assert_eq!(boot_order(&vars.0).unwrap(), [1, 0]);
        let again = ensure_entry(&vars.0, &esp(), &loaders()).unwrap();
        assert_eq!(again, "Boot0001 was there");
        let other = Partition { guid: formats::guid::Guid([0xcd; 16]), ..esp() };
        assert!(ensure_entry(&vars.0, &other, &loaders()).unwrap().starts_with("Boot0002 made"));
    }

    #[test]
    fn a_boot_order_that_cannot_be_read_is_not_written_over() {
        let vars = Vars::new("unread");
        // Not even the attributes.
        std::fs::write(variable(&vars.0, "BootOrder"), [7, 0]).unwrap();
        let error = ensure_entry(&vars.0, &esp(), &loaders()).unwrap_err();
        assert!(error.contains("BootOrder") && error.contains("cannot be read"), "{error}");
        assert_eq!(std::fs::read(variable(&vars.0, "BootOrder")).unwrap(), [7, 0]);
        assert!(!variable(&vars.0, "Boot0000").exists());
    }

    #[test]
    fn an_entry_that_was_switched_off_does_not_count() {
        let vars = Vars::new("off");
        let mut option = load_option(&esp(), "/EFI/BOOT/BOOTX64.EFI");
        option[0] = 0;
        write(&vars.0, "Boot0000", &option).unwrap();
        write(&vars.0, "BootOrder", &[0, 0]).unwrap();
        assert!(ensure_entry(&vars.0, &esp(), &loaders()).unwrap().contains("made"));
    }

    #[test]
    fn the_entry_of_another_disk_with_the_same_guid_is_not_taken() {
        let here = |option: &[u8]| leads_to(option, &esp(), &loaders());
        let loader = "/EFI/BOOT/BOOTX64.EFI";
        assert!(here(&load_option(&esp(), &loader.to_lowercase())));
        for other in [
            Partition { guid: formats::guid::Guid([0xcd; 16]), ..esp() },
            Partition { number: 1, ..esp() },
            Partition { first_block: 2048, ..esp() },
            Partition { n_blocks: 1, ..esp() },
        ] {
            assert!(!here(&load_option(&other, loader)), "{other:?}");
        }
        let good = load_option(&esp(), loader);
        let at = good.windows(4).position(|window| window == [4, 1, 42, 0]).unwrap();
        // A signature of 16 bytes that is none of a GUID partition table: an MBR's, or of no kind.
        for (format, kind) in [(1, 1), (2, 1), (1, 2), (2, 0)] {
            let mut option = good.clone();
            option[at + 40..at + 42].copy_from_slice(&[format, kind]);
            assert!(!here(&option), "{format} {kind}");
        }
        // With the way to a controller in front it may be the same partition of a clone.
        let pci = [1, 1, 6, 0, 0, 4];
        let mut long = [&good[..at], &pci, &good[at..]].concat();
        let n_bytes = u16::from_le_bytes([good[4], good[5]]) + 6;
        long[4..6].copy_from_slice(&n_bytes.to_le_bytes());
        assert!(!here(&long));
    }

    #[test]
    fn an_entry_for_a_loader_that_the_disk_does_not_hold_does_not_count() {
        let gone = load_option(&esp(), "/EFI/redhat/shimx64.efi");
        assert!(!leads_to(&gone, &esp(), &loaders()));
        // Without a file the firmware takes the fallback, where there is one.
        let path = [drive(&esp()), vec![0x7f, 0xff, 4, 0]].concat();
        let head = [&ACTIVE.to_le_bytes()[..], &length(path.len()), &utf16("x")].concat();
        let bare = [head, path].concat();
        assert!(leads_to(&bare, &esp(), &loaders()));
        assert!(!leads_to(&bare, &esp(), &["/EFI/fedora/shimx64.efi".to_owned()]));
    }

    #[test]
    fn malformed_variables_are_no_entries() {
        let good = load_option(&esp(), "/EFI/BOOT/BOOTX64.EFI");
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
        let error = ensure_entry(Path::new("/nonexistent"), &esp(), &loaders()).unwrap_err();
        assert!(error.contains("writing /nonexistent/Boot0000"), "{error}");
        assert!(ensure_entry(Path::new("/nonexistent"), &esp(), &[]).is_err());
    }
}
