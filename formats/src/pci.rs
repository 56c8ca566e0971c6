//! PCI devices: their ids as the kernel writes them and in the configuration space, and Vital Product Data (PCI Local Bus
//! Specification 3.0, appendix I).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bytes::array;
use crate::text::padded;

/// The identity of a device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ids {
    /// Class, subclass and programming interface, 24 bits.
    pub class: Option<u32>,
    /// Vendor.
    pub vendor: Option<u32>,
    /// Device, by its vendor.
    pub device: Option<u32>,
    /// Vendor of the card.
    pub subvendor: Option<u32>,
    /// The card, by its vendor.
    pub subdevice: Option<u32>,
    /// Revision, 8 bits.
    pub revision: Option<u32>,
}

impl Ids {
    /// Fills gaps from `other`.
    pub fn or(self, other: Ids) -> Ids {
        Ids {
            class: self.class.or(other.class),
            vendor: self.vendor.or(other.vendor),
            device: self.device.or(other.device),
            subvendor: self.subvendor.or(other.subvendor),
            subdevice: self.subdevice.or(other.subdevice),
            revision: self.revision.or(other.revision),
        }
    }

    /// True if class, vendor and device are known.
    pub fn is_known(&self) -> bool {
        self.class.is_some() && self.vendor.is_some() && self.device.is_some()
    }
}

/// The ids in a uevent: `PCI_CLASS=20000`, `PCI_ID=8086:10FB`, … (`pci_uevent`, `drivers/pci/pci-driver.c`).
pub fn uevent(variables: &BTreeMap<String, String>) -> Ids {
    let class = variables.get("PCI_CLASS").and_then(|class| u32::from_str_radix(class, 16).ok());
    let id = |text: &str| u32::from_str_radix(text, 16).ok().filter(|_| text.len() == 4);
    let pair = |name: &str| {
        let (vendor, device) = variables.get(name)?.split_once(':')?;
        id(vendor).zip(id(device))
    };
    let (vendor, device) = pair("PCI_ID").unzip();
    let (subvendor, subdevice) = pair("PCI_SUBSYS_ID").unzip();
    let class = class.filter(|class| *class < 1 << 24);
    Ids { class, vendor, device, subvendor, subdevice, revision: None }
}

/// The ids in a module alias: `pci:v00008086d000010FBsv00008086sd0000000Cbc02sc00i00` (`pci_match_device` aliases,
/// `scripts/mod/file2alias.c`).
pub fn modalias(text: &str) -> Ids {
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

/// The ids and the driver in a line of `/proc/bus/pci/devices`: `busdevfn vendordevice irq …7 addresses …7 sizes driver`
/// (`show_device`, `drivers/pci/proc.c`).
pub fn proc_line(line: &str) -> (Ids, Option<String>) {
    let mut fields = line.split_whitespace();
    let pair = fields.nth(1).filter(|pair| pair.len() == 8 && pair.is_ascii());
    let id = |range: std::ops::Range<usize>| {
        pair.and_then(|pair| u32::from_str_radix(pair.get(range)?, 16).ok())
    };
    let ids = Ids { vendor: id(0..4), device: id(4..8), ..Ids::default() };
    (ids, fields.nth(15).map(str::to_owned))
}

/// The ids in the header of the configuration space (PCI Local Bus Specification 3.0, 6.1).
pub fn config(bytes: &[u8]) -> Ids {
    let word = |at: usize| array(bytes, at).map(|word| u32::from(u16::from_le_bytes(word)));
    let is_there = |vendor: &u32| !matches!(vendor, 0 | 0xffff);
    let Some(vendor) = word(0).filter(is_there) else { return Ids::default() };
    // Bridges (header type 1) keep no subsystem ids in the header.
    let has_subsystem = bytes.get(14).is_some_and(|header| matches!(header, 0 | 0x80));
    let subsystem = |at: usize| word(at).filter(|_| has_subsystem);
    Ids {
        // The three bytes after the revision.
        class: array(bytes, 8).map(|word| u32::from_le_bytes(word) >> 8),
        vendor: Some(vendor),
        device: word(2),
        subvendor: subsystem(0x2c),
        subdevice: subsystem(0x2e),
        revision: bytes.get(8).map(|revision| u32::from(*revision)),
    }
}

/// The facts that a card reports about itself.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Vpd {
    /// Name of the product.
    pub name: Option<String>,
    /// Part number (`PN`).
    pub part_number: Option<String>,
    /// Serial number (`SN`).
    pub serial: Option<String>,
    /// Engineering change level (`EC`).
    pub engineering_change: Option<String>,
    /// Manufacturer ID (`MN`).
    pub manufacturer_id: Option<String>,
}

/// Parses Vital Product Data; `None` if it has none of these facts. Large resources follow each other: 82h the name, 90h
/// fields to read, 91h fields to write. A resource that exceeds the data ends it.
pub fn vpd(bytes: &[u8]) -> Option<Vpd> {
    let mut vpd = Vpd::default();
    let mut rest = bytes;
    while let [tag @ (0x82 | 0x90 | 0x91), low, high, tail @ ..] = rest {
        let len = usize::from(u16::from_le_bytes([*low, *high]));
        let Some((body, next)) = tail.split_at_checked(len) else { break };
        match tag {
            0x82 => vpd.name = padded(body),
            0x90 => fields(body, &mut vpd),
            _ => {}
        }
        rest = next;
    }
    (vpd != Vpd::default()).then_some(vpd)
}

/// Fields of two letters, a length and that number of bytes.
fn fields(mut rest: &[u8], vpd: &mut Vpd) {
    while let [first, second, len, tail @ ..] = rest {
        let Some((value, next)) = tail.split_at_checked(usize::from(*len)) else { return };
        match [*first, *second] {
            [b'P', b'N'] => vpd.part_number = padded(value),
            [b'S', b'N'] => vpd.serial = padded(value),
            [b'E', b'C'] => vpd.engineering_change = padded(value),
            [b'M', b'N'] => vpd.manufacturer_id = padded(value),
            _ => {}
        }
        rest = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const X520: Ids = Ids {
        class: Some(0x02_00_00),
        vendor: Some(0x8086),
        device: Some(0x10fb),
        subvendor: Some(0x8086),
        subdevice: Some(0x000c),
        revision: None,
    };

    fn parse_uevent(text: &str) -> Ids {
        let whole = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
        let pairs = whole.filter_map(|line| line.split_once('='));
        uevent(&pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    #[test]
    fn every_source_gives_the_same_ids() {
        let uevent = "DRIVER=ixgbe\nPCI_CLASS=20000\nPCI_ID=8086:10FB\nPCI_SUBSYS_ID=8086:000C\n";
        assert_eq!(parse_uevent(uevent), X520);
        assert_eq!(modalias("pci:v00008086d000010FBsv00008086sd0000000Cbc02sc00i00"), X520);
        let mut config = [0_u8; 64];
        config[..4].copy_from_slice(&[0x86, 0x80, 0xfb, 0x10]);
        config[8..12].copy_from_slice(&[1, 0, 0, 2]);
        config[0x2c..0x30].copy_from_slice(&[0x86, 0x80, 0x0c, 0]);
        assert_eq!(super::config(&config), Ids { revision: Some(1), ..X520 });
    }

    #[test]
    fn truncated_source_gives_no_wrong_ids() {
        let cut = "PCI_CLASS=20000\nPCI_ID=8086:10FB\nPCI_SUBSYS_ID=8086:0";
        assert_eq!(parse_uevent(cut).subvendor, None);
        assert_eq!(parse_uevent("PCI_CLASS=200"), Ids::default());
        assert_eq!(modalias("pci:v00008086d0000").device, None);
        assert_eq!(modalias("usb:v1D6Bp0002"), Ids::default());
        assert_eq!(modalias("pci:v0000808é"), Ids::default());
        assert_eq!(super::config(&[0xff; 64]), Ids::default());
        assert_eq!(super::config(&[0x86, 0x80, 0xfb]).device, None);
    }

    #[test]
    fn line_of_proc_has_ids_and_perhaps_a_driver() {
        let zeros = "\t0".repeat(14);
        let (ids, driver) = proc_line(&format!("0009\t80867010\t0{zeros}\tata_piix"));
        assert_eq!((ids.vendor, ids.device), (Some(0x8086), Some(0x7010)));
        assert_eq!(driver.as_deref(), Some("ata_piix"));
        assert_eq!(proc_line(&format!("0009\t80867010\t0{zeros}\t")).1, None);
        assert_eq!(proc_line("0009").0, Ids::default());
    }

    const GOOD: &[u8] = b"\x82\x05\0Card \x90\x0f\0PN\x04P123SN\x05\0A\xff7 \x78";

    #[test]
    fn name_part_and_serial_are_read_and_other_bytes_escaped() {
        let vpd = super::vpd(GOOD).unwrap();
        assert_eq!(vpd.name.as_deref(), Some("Card"));
        assert_eq!(vpd.part_number.as_deref(), Some("P123"));
        assert_eq!(vpd.serial.as_deref(), Some("A\\xff7"));
    }

    #[test]
    fn truncated_or_empty_data_gives_no_wrong_fields() {
        for length in 0..GOOD.len() {
            let vpd = super::vpd(&GOOD[..length]);
            assert!(vpd.is_none_or(|vpd| vpd.serial.is_none_or(|s| s == "A\\xff7")), "{length}");
        }
        for bytes in [&[0xff; 64][..], &[0; 64], &[0x90, 0xff, 0xff], &[0x82, 0, 0, 0x90, 3, 0, 1]]
        {
            assert_eq!(super::vpd(bytes), None);
        }
    }
}
