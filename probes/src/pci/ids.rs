//! Class and ids of one device, from the cheapest source that has them.

use std::collections::BTreeMap;

use formats::bytes::array;

use super::find::Place;
use super::{Attributes, PciDevice};
use crate::machine::Machine;
use crate::udev;

/// The identity of a device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Ids {
    /// Class, subclass and programming interface, 24 bits.
    pub(super) class: Option<u32>,
    pub(super) vendor: Option<u32>,
    pub(super) device: Option<u32>,
    pub(super) subvendor: Option<u32>,
    pub(super) subdevice: Option<u32>,
    pub(super) revision: Option<u32>,
}

impl Ids {
    /// Fills gaps from `other`.
    fn or(self, other: Ids) -> Ids {
        Ids {
            class: self.class.or(other.class),
            vendor: self.vendor.or(other.vendor),
            device: self.device.or(other.device),
            subvendor: self.subvendor.or(other.subvendor),
            subdevice: self.subdevice.or(other.subdevice),
            revision: self.revision.or(other.revision),
        }
    }

    fn is_known(&self) -> bool {
        self.class.is_some() && self.vendor.is_some() && self.device.is_some()
    }

    pub(super) fn write_to(&self, device: &mut PciDevice) {
        let four = |id: Option<u32>| id.map(|id| format!("{id:04x}"));
        device.class = self.class.map(|class| format!("{:04x}", class >> 8));
        device.prog_if = self.class.map(|class| format!("{:02x}", class & 0xff));
        device.vendor_id = four(self.vendor);
        device.device_id = four(self.device);
        device.revision = self.revision.map(|revision| format!("{revision:02x}"));
        // Without a subsystem both registers are 0.
        if self.subvendor.is_some_and(|id| id != 0) {
            device.subsystem_vendor_id = four(self.subvendor);
            device.subsystem_device_id = four(self.subdevice);
        }
    }
}

/// Reads the ids of the device at `place`, and its driver if the same file names it.
pub(super) fn read(
    machine: &Machine,
    place: &Place,
    attributes: &Attributes,
) -> (Ids, Option<String>) {
    if let Some(line) = &place.line {
        let (ids, driver) = parse_proc_line(line);
        return (ids.or(config(machine, &place.path)), driver);
    }
    let path = &place.path;
    if !path.starts_with("sys/") {
        return (config(machine, path), None);
    }
    let at = |name: &str| attributes.at(name);
    let uevent = at("uevent").map(|path| udev::variables(machine, &path)).unwrap_or_default();
    let mut ids = from_attributes(machine, &from_uevent(&uevent), &at);
    if !ids.is_known() || ids.subvendor.is_none() {
        let modalias = at("modalias").and_then(|path| machine.text(&path));
        ids = ids.or(modalias.map(|text| parse_modalias(&text)).unwrap_or_default());
    }
    if !ids.is_known()
        && let Some(path) = at("config")
    {
        ids = ids.or(config(machine, &path));
    }
    (ids, uevent.get("DRIVER").filter(|name| !name.is_empty()).cloned())
}

/// The ids that are `known`, and those that are not from the attribute files.
fn from_attributes(machine: &Machine, known: &Ids, at: &dyn Fn(&str) -> Option<String>) -> Ids {
    let read = |known: Option<u32>, name: &str, digits: usize| {
        known.or_else(|| machine.parse(&at(name)?, |text| parse_hex(text, digits)))
    };
    Ids {
        class: read(known.class, "class", 6),
        vendor: read(known.vendor, "vendor", 4),
        device: read(known.device, "device", 4),
        subvendor: read(known.subvendor, "subsystem_vendor", 4),
        subdevice: read(known.subdevice, "subsystem_device", 4),
        revision: read(known.revision, "revision", 2),
    }
}

/// A number that the kernel writes as `0x` and a fixed number of digits; fewer mean a truncated file.
fn parse_hex(text: &str, digits: usize) -> Result<u32, &'static str> {
    let expected = match digits {
        2 => "0x and 2 hexadecimal digits",
        4 => "0x and 4 hexadecimal digits",
        _ => "0x and 6 hexadecimal digits",
    };
    let text = text.strip_prefix("0x").filter(|text| text.len() == digits).ok_or(expected)?;
    u32::from_str_radix(text, 16).map_err(|_| expected)
}

/// `PCI_CLASS=20000`, `PCI_ID=8086:10FB`, … (`pci_uevent`, `drivers/pci/pci-driver.c`).
fn from_uevent(uevent: &BTreeMap<String, String>) -> Ids {
    let class = uevent.get("PCI_CLASS").and_then(|class| u32::from_str_radix(class, 16).ok());
    let id = |text: &str| u32::from_str_radix(text, 16).ok().filter(|_| text.len() == 4);
    let pair = |name: &str| {
        let (vendor, device) = uevent.get(name)?.split_once(':')?;
        id(vendor).zip(id(device))
    };
    let (vendor, device) = pair("PCI_ID").unzip();
    let (subvendor, subdevice) = pair("PCI_SUBSYS_ID").unzip();
    let class = class.filter(|class| *class < 1 << 24);
    Ids { class, vendor, device, subvendor, subdevice, revision: None }
}

/// `pci:v00008086d000010FBsv00008086sd0000000Cbc02sc00i00` (`pci_match_device` aliases,
/// `scripts/mod/file2alias.c`).
fn parse_modalias(text: &str) -> Ids {
    let mut rest = text.strip_prefix("pci:").unwrap_or_default();
    let mut take = |key: &str, digits: usize| -> Option<u32> {
        let value = rest.strip_prefix(key)?;
        let (number, next) = (value.get(..digits)?, value.get(digits..)?);
        rest = next;
        u32::from_str_radix(number, 16).ok()
    };
    let four = |id: Option<u32>| id.filter(|id| *id <= 0xffff);
    let (vendor, device) = (four(take("v", 8)), four(take("d", 8)));
    let (subvendor, subdevice) = (four(take("sv", 8)), four(take("sd", 8)));
    let class = take("bc", 2).zip(take("sc", 2)).zip(take("i", 2));
    let class = class.map(|((base, sub), interface)| base << 16 | sub << 8 | interface);
    Ids { class, vendor, device, subvendor, subdevice, revision: None }
}

/// `busdevfn vendordevice irq …7 addresses …7 sizes driver` (`show_device`, `drivers/pci/proc.c`).
fn parse_proc_line(line: &str) -> (Ids, Option<String>) {
    let mut fields = line.split_whitespace();
    let pair = fields.nth(1).filter(|pair| pair.len() == 8 && pair.is_ascii());
    let id = |range: std::ops::Range<usize>| {
        pair.and_then(|pair| u32::from_str_radix(pair.get(range)?, 16).ok())
    };
    let ids = Ids { vendor: id(0..4), device: id(4..8), ..Ids::default() };
    (ids, fields.nth(15).map(str::to_owned))
}

fn config(machine: &Machine, path: &str) -> Ids {
    machine.bytes(path).map(|bytes| parse_config(&bytes)).unwrap_or_default()
}

/// The header of the configuration space (PCI Local Bus Specification 3.0, 6.1).
fn parse_config(bytes: &[u8]) -> Ids {
    let word = |at: usize| array(bytes, at).map(|word| u32::from(u16::from_le_bytes(word)));
    let vendor = word(0).filter(|vendor| !matches!(vendor, 0 | 0xffff));
    if vendor.is_none() {
        return Ids::default();
    }
    // Bridges (header type 1) keep no subsystem ids in the header.
    let has_subsystem = bytes.get(14).is_some_and(|header| matches!(header, 0 | 0x80));
    let subsystem = |at: usize| word(at).filter(|_| has_subsystem);
    Ids {
        // The three bytes after the revision.
        class: array(bytes, 8).map(|word| u32::from_le_bytes(word) >> 8),
        vendor,
        device: word(2),
        subvendor: subsystem(0x2c),
        subdevice: subsystem(0x2e),
        revision: bytes.get(8).map(|revision| u32::from(*revision)),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::pci) const X520: Ids = Ids {
        class: Some(0x02_00_00),
        vendor: Some(0x8086),
        device: Some(0x10fb),
        subvendor: Some(0x8086),
        subdevice: Some(0x000c),
        revision: None,
    };

    fn parse_uevent(text: &str) -> Ids {
        from_uevent(&udev::parse_variables(text))
    }

    #[test]
    fn every_source_gives_the_same_ids() {
        let uevent = "DRIVER=ixgbe\nPCI_CLASS=20000\nPCI_ID=8086:10FB\nPCI_SUBSYS_ID=8086:000C\n";
        assert_eq!(parse_uevent(uevent), X520);
        assert_eq!(parse_modalias("pci:v00008086d000010FBsv00008086sd0000000Cbc02sc00i00"), X520);
        let mut config = [0_u8; 64];
        config[..4].copy_from_slice(&[0x86, 0x80, 0xfb, 0x10]);
        config[8..12].copy_from_slice(&[1, 0, 0, 2]);
        config[0x2c..0x30].copy_from_slice(&[0x86, 0x80, 0x0c, 0]);
        assert_eq!(parse_config(&config), Ids { revision: Some(1), ..X520 });
    }

    #[test]
    fn truncated_source_gives_no_wrong_ids() {
        let cut = "PCI_CLASS=20000\nPCI_ID=8086:10FB\nPCI_SUBSYS_ID=8086:0";
        assert_eq!(parse_uevent(cut).subvendor, None);
        assert_eq!(parse_uevent("PCI_CLASS=200"), Ids::default());
        assert!(parse_hex("0x80", 4).is_err());
        assert_eq!(parse_modalias("pci:v00008086d0000").device, None);
        assert_eq!(parse_modalias("usb:v1D6Bp0002"), Ids::default());
        assert_eq!(parse_modalias("pci:v0000808é"), Ids::default());
        assert_eq!(parse_config(&[0xff; 64]), Ids::default());
        assert_eq!(parse_config(&[0x86, 0x80, 0xfb]).device, None);
    }

    #[test]
    fn line_of_proc_has_ids_and_perhaps_a_driver() {
        let zeros = "\t0".repeat(14);
        let (ids, driver) = parse_proc_line(&format!("0009\t80867010\t0{zeros}\tata_piix"));
        assert_eq!((ids.vendor, ids.device), (Some(0x8086), Some(0x7010)));
        assert_eq!(driver.as_deref(), Some("ata_piix"));
        assert_eq!(parse_proc_line(&format!("0009\t80867010\t0{zeros}\t")).1, None);
        assert_eq!(parse_proc_line("0009").0, Ids::default());
    }
}
