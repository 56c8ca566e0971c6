//! The firmware's boot entry for the installed disk.
//!
//! coreos-installer makes none, so a machine whose firmware does not look for `\EFI\BOOT` by itself would boot
//! what it booted before. Boot entries are the variables `Boot####`, `BootOrder` and `BootNext` (UEFI Specification 2.10,
//! §3.1; `EFI_LOAD_OPTION` §3.1.3, device paths §10.3). Only second entries that this agent made for this disk are removed.
//!
//! Disks that were written from one image have partitions with one GUID. So an entry counts only if number,
//! place and size of the partition are this disk's too, and if its device path does not begin with a controller:
//! such an entry may belong to the disk in the next bay.

use std::collections::BTreeSet;
use std::path::Path;

use formats::efi::{self, LoadOption, boot_name};
use formats::gpt::Partition;

use super::{BootOrder, efivar};

/// The most entries that are read.
const MAX_ENTRIES: usize = 1024;
/// The entry's name in the firmware's menu.
const DESCRIPTION: &str = "CoreOS";

/// How the firmware is to find the disk.
#[derive(Debug, Clone, Copy)]
pub struct Wish {
    /// The disk's place in the order.
    pub place: BootOrder,
    /// True if the next boot is from the disk, wherever it is in the order: that of some firmware does not last.
    pub is_next: bool,
}

/// The written disk as the firmware finds it.
#[derive(Debug)]
pub struct Bootable<'a> {
    /// Its EFI system partition.
    pub esp: &'a Partition,
    /// The loaders in it.
    pub loaders: &'a [String],
}

/// An entry: its number and its value.
type Entry = (u16, Vec<u8>);

impl Bootable<'_> {
    /// Ensures that a boot entry leads to the disk, as it is wished for; returns a description of the entry.
    ///
    /// # Errors
    /// A message if the variables cannot be read or written, or if the written data does not read back.
    pub fn ensure_entry(&self, efivars: &Path, wish: Wish) -> Result<String, String> {
        let loader = best_loader(self.loaders).ok_or("no boot loader to start")?;
        let order = boot_order(efivars)?;
        let entries = all_entries(efivars);
        let own: Vec<&Entry> =
            entries.iter().filter(|(_, option)| self.is_led_to_by(option)).collect();
        let position = |number: u16| order.iter().position(|other| *other == number);
        let usable = own.iter().filter(|(_, option)| LoadOption::parse(option).is_active());
        // Firmware may have dropped it from the order: that is no reason for a second one.
        let usable = usable.min_by_key(|(number, _)| position(*number).unwrap_or(usize::MAX));
        let (number, done) = match usable {
            Some((number, _)) => (*number, "already exists".to_owned()),
            None => (self.create(efivars, loader)?, format!("created for {loader}")),
        };
        if wish.is_next {
            write(efivars, "BootNext", &number.to_le_bytes())?;
        }
        let is_second = |(other, option): &&&Entry| {
            wish.place != BootOrder::Keep && *other != number && is_named_by_us(option)
        };
        let seconds: Vec<u16> = own.iter().filter(is_second).map(|(other, _)| *other).collect();
        let new_order = placed(&entries, wish.place, (number, &seconds), &order);
        if new_order != order {
            write(efivars, "BootOrder", &efi::encode_boot_order(&new_order))?;
        }
        let removed = seconds.iter().map(|second| {
            match efivar::remove(&variable(efivars, &boot_name(*second))) {
                Ok(()) => format!("; {} removed", boot_name(*second)),
                Err(why) => format!("; {why}"),
            }
        });
        Ok(format!("{} {done}{}", boot_name(number), removed.collect::<String>()))
    }

    /// Checks that the firmware tries the disk at the place that is wished for; `None` if the order was to stay as it was.
    ///
    /// # Errors
    /// A message with the entries that come first.
    pub fn check_order(&self, efivars: &Path, wish: BootOrder) -> Option<Result<String, String>> {
        if wish == BootOrder::Keep {
            return None;
        }
        let order = boot_order(efivars);
        let entries = order.map(|order| entries(efivars, &order));
        Some(entries.and_then(|entries| {
            let is_active = |(_, option): &&Entry| LoadOption::parse(option).is_active();
            let comes_first = |(_, option): &&Entry| !self.is_led_to_by(option);
            let may_come_first = |(_, option): &&Entry| {
                wish == BootOrder::Network && LoadOption::parse(option).leads_to_network()
            };
            let before: Vec<String> = entries
                .iter()
                .filter(is_active)
                .take_while(comes_first)
                .filter(|entry| !may_come_first(entry))
                .map(named)
                .collect();
            if before.is_empty() {
                return Ok("the disk has its place".into());
            }
            Err(format!("the firmware tries {} before the disk", before.join(", ")))
        }))
    }

    fn create(&self, efivars: &Path, loader: &str) -> Result<u16, String> {
        let number = (0..=u16::MAX)
            .find(|number| !variable(efivars, &boot_name(*number)).exists())
            .ok_or("no free boot entry")?;
        let option = LoadOption::encode_loader(DESCRIPTION, self.esp, loader)
            .ok_or_else(|| format!("the path of {loader} is too long for a boot entry"))?;
        write(efivars, &boot_name(number), &option)?;
        Ok(number)
    }

    fn is_led_to_by(&self, option: &[u8]) -> bool {
        LoadOption::parse(option).leads_to(self.esp, self.loaders)
    }
}

/// The order with this entry at its place, and without the second ones.
fn placed(
    entries: &[Entry],
    place: BootOrder,
    (number, seconds): (u16, &[u16]),
    order: &[u16],
) -> Vec<u16> {
    let is_other = |other: &u16| *other != number && !seconds.contains(other);
    let rest = order.iter().copied().filter(is_other);
    let is_network = |other: &u16| {
        let mut own = entries.iter().filter(|(number, _)| number == other);
        own.any(|(_, option)| LoadOption::parse(option).leads_to_network())
    };
    match place {
        BootOrder::Disk => std::iter::once(number).chain(rest).collect(),
        BootOrder::Network => {
            let (network, rest): (Vec<u16>, Vec<u16>) = rest.partition(is_network);
            [network, vec![number], rest].concat()
        }
        BootOrder::Keep if order.contains(&number) => order.to_vec(),
        BootOrder::Keep => rest.chain([number]).collect(),
    }
}

/// All entries that can be read, whether they are in the order or not.
fn all_entries(efivars: &Path) -> Vec<Entry> {
    let files = std::fs::read_dir(efivars).into_iter().flatten().flatten();
    let number =
        |file: std::fs::DirEntry| efi::boot_number(efi::variable_of(file.file_name().to_str()?)?);
    let numbers: BTreeSet<u16> = files.filter_map(number).take(MAX_ENTRIES).collect();
    entries(efivars, &Vec::from_iter(numbers))
}

/// True if the entry has the name that this agent gives.
fn is_named_by_us(option: &[u8]) -> bool {
    LoadOption::parse(option).name().as_deref() == Some(DESCRIPTION)
}

/// Those of these entries that can be read.
fn entries(efivars: &Path, order: &[u16]) -> Vec<Entry> {
    let read = |number: &u16| Some((*number, read(efivars, &boot_name(*number))?));
    order.iter().filter_map(read).collect()
}

/// The entry as the firmware's menu shows it, `Boot0003 "UEFI PXE"`; only its number if the rest cannot be read.
fn named((number, option): &Entry) -> String {
    let name = boot_name(*number);
    match LoadOption::parse(option).name() {
        Some(description) => format!("{name} {description:?}"),
        None => name,
    }
}

fn variable(efivars: &Path, name: &str) -> std::path::PathBuf {
    efivars.join(efi::file_name(name))
}

fn read(efivars: &Path, name: &str) -> Option<Vec<u8>> {
    efivar::read(&variable(efivars, name))
}

fn write(efivars: &Path, name: &str, value: &[u8]) -> Result<(), String> {
    efivar::write(&variable(efivars, name), value)
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
    use formats::device_path;
    use formats::efi::ACTIVE;

    fn esp() -> Partition {
        let guid = formats::guid::Guid([0xab; 16]);
        let part = gpt_partition(2, "EFI-SYSTEM", 4096, 260_096);
        Partition { type_guid: formats::gpt::ESP_TYPE, guid, ..part }
    }

    /// Ensures the entry of a disk with this EFI system partition.
    fn ensure(vars: &Path, esp: &Partition, place: BootOrder) -> Result<String, String> {
        let wish = Wish { place, is_next: place == BootOrder::Disk };
        Bootable { esp, loaders: &loaders() }.ensure_entry(vars, wish)
    }

    fn loaders() -> Vec<String> {
        texts(&["/EFI/BOOT/BOOTX64.EFI", "/EFI/fedora/grubx64.efi", "/EFI/fedora/shimx64.efi"])
    }

    #[test]
    fn an_entry_is_made_once_and_put_first() {
        let dir = tempfile::tempdir().unwrap();
        let vars = dir.path();
        let pxe = LoadOption::encode(ACTIVE, "PXE", &[]).unwrap();
        write(vars, "Boot0000", &pxe).unwrap();
        write(vars, "BootOrder", &[0, 0]).unwrap();
        let made = ensure(vars, &esp(), BootOrder::Disk).unwrap();
        assert!(made.starts_with("Boot0001 created"), "{made}");
        assert_eq!(boot_order(vars).unwrap(), [1, 0]);
        let again = ensure(vars, &esp(), BootOrder::Disk).unwrap();
        assert_eq!(again, "Boot0001 already exists");
        let other = Partition { guid: formats::guid::Guid([0xcd; 16]), ..esp() };
        assert!(ensure(vars, &other, BootOrder::Disk).unwrap().starts_with("Boot0002 created"));
    }

    /// A machine that tries a shell, then the network, then the disk; two entries of earlier installs lead to disks that are not
    /// there or are others, and one is a second one of the disk.
    fn messy(vars: &Path) {
        let loader = "/EFI/BOOT/BOOTX64.EFI";
        let mac = device_path::node(device_path::MAC, &[0; 33]).unwrap();
        let entry = |guid| {
            let esp = Partition { guid: formats::guid::Guid([guid; 16]), ..esp() };
            LoadOption::encode_loader(DESCRIPTION, &esp, loader)
        };
        let shell = LoadOption::encode(ACTIVE, "EFI Shell", &device_path::END);
        let pxe = LoadOption::encode(ACTIVE, "UEFI PXE", &[&mac[..], &device_path::END].concat());
        let entries = [shell, pxe, entry(0xee), entry(0xcd), entry(0xab), entry(0xab)];
        for (number, option) in (0..).zip(entries) {
            write(vars, &boot_name(number), &option.unwrap()).unwrap();
        }
        write(vars, "BootOrder", &efi::encode_boot_order(&[0, 1, 2, 3, 4, 5])).unwrap();
    }

    #[test]
    fn the_disk_gets_the_place_that_is_wished_for_and_its_second_entry_goes() {
        for (wish, order, next) in [
            (BootOrder::Disk, &[4, 0, 1, 2, 3][..], Some(vec![4, 0])),
            (BootOrder::Network, &[1, 4, 0, 2, 3], None),
            (BootOrder::Keep, &[0, 1, 2, 3, 4, 5], None),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let vars = dir.path();
            messy(vars);
            let said = ensure(vars, &esp(), wish).unwrap();
            assert!(said.starts_with("Boot0004 already exists"), "{said}");
            assert_eq!((boot_order(vars).unwrap(), read(vars, "BootNext")), (order.to_vec(), next));
            let n_entries = (0..6).filter(|n| variable(vars, &boot_name(*n)).exists()).count();
            assert_eq!(n_entries, order.len(), "{said}");
        }
        let dir = tempfile::tempdir().unwrap();
        let new = Partition { guid: formats::guid::Guid([0x12; 16]), ..esp() };
        messy(dir.path());
        ensure(dir.path(), &new, BootOrder::Keep).unwrap();
        assert_eq!(boot_order(dir.path()).unwrap(), [0, 1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn entry_that_the_firmware_dropped_from_its_order_is_taken_again() {
        let dir = tempfile::tempdir().unwrap();
        let vars = dir.path();
        messy(vars);
        write(vars, "BootOrder", &efi::encode_boot_order(&[0, 1, 2, 3, 0, 1])).unwrap();
        let said = ensure(vars, &esp(), BootOrder::Disk).unwrap();
        assert_eq!(said, "Boot0004 already exists; Boot0005 removed");
        assert_eq!(boot_order(vars).unwrap()[..2], [4, 0]);
        assert!(!variable(vars, "Boot0006").exists());
    }

    #[test]
    fn entries_that_come_before_the_disk_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let vars = dir.path();
        messy(vars);
        let check = |order: &[u16], wish| {
            write(vars, "BootOrder", &efi::encode_boot_order(order)).unwrap();
            let disk = Bootable { esp: &esp(), loaders: &loaders() };
            disk.check_order(vars, wish)
        };
        let good = Some(Ok("the disk has its place".to_owned()));
        assert_eq!(check(&[4, 0, 1], BootOrder::Disk), good);
        assert_eq!(check(&[1, 4, 0], BootOrder::Network), good);
        assert_eq!(check(&[0, 1], BootOrder::Keep), None);
        let wrong = |named: &str| Some(Err(format!("the firmware tries {named} before the disk")));
        assert_eq!(check(&[1, 4], BootOrder::Disk), wrong("Boot0001 \"UEFI PXE\""));
        assert_eq!(check(&[1, 0, 4], BootOrder::Network), wrong("Boot0000 \"EFI Shell\""));
        // Firmware skips what is off.
        write(vars, "Boot0000", &LoadOption::encode(0, "EFI Shell", &[]).unwrap()).unwrap();
        assert_eq!(check(&[0, 4], BootOrder::Disk), good);
    }

    #[test]
    fn a_boot_order_that_cannot_be_read_is_not_written_over() {
        let dir = tempfile::tempdir().unwrap();
        let vars = dir.path();
        // Not even the attributes.
        std::fs::write(variable(vars, "BootOrder"), [7, 0]).unwrap();
        let error = ensure(vars, &esp(), BootOrder::Disk).unwrap_err();
        assert!(error.contains("BootOrder") && error.contains("cannot be read"), "{error}");
        assert_eq!(std::fs::read(variable(vars, "BootOrder")).unwrap(), [7, 0]);
        assert!(!variable(vars, "Boot0000").exists());
    }

    #[test]
    fn an_entry_that_was_switched_off_does_not_count() {
        let dir = tempfile::tempdir().unwrap();
        let vars = dir.path();
        let loader = "/EFI/BOOT/BOOTX64.EFI";
        let mut option = LoadOption::encode_loader(DESCRIPTION, &esp(), loader).unwrap();
        option[0] = 0;
        write(vars, "Boot0000", &option).unwrap();
        write(vars, "BootOrder", &[0, 0]).unwrap();
        assert!(ensure(vars, &esp(), BootOrder::Disk).unwrap().contains("created"));
    }

    #[test]
    fn variables_that_cannot_be_written_are_an_error() {
        let missing = Path::new("/nonexistent");
        let error = ensure(missing, &esp(), BootOrder::Disk).unwrap_err();
        assert!(error.contains("writing /nonexistent/Boot0000"), "{error}");
    }
}
