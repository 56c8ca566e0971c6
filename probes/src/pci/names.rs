//! Names of vendors, devices and classes from pci.ids, which `build.rs` packs into the binary.

use std::collections::BTreeMap;
use std::io::Read as _;

use super::PciDevice;
use super::ids::Ids;

/// The names, packed; `build.rs` tells the form.
const PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/pci.ids.deflate"));
/// The list has 1.5 MB.
const LIMIT_BYTES: u64 = 16 << 20;

/// All names as text.
pub(super) fn unpack() -> String {
    let mut text = String::new();
    let mut plain = flate2::read::DeflateDecoder::new(PACKED).take(LIMIT_BYTES);
    // The bytes are our own and cannot be damaged but together with the program.
    plain.read_to_string(&mut text).ok();
    text
}

/// The names, found by vendor and class; a vendor's devices are looked through when first asked for.
#[derive(Debug)]
pub(super) struct Names<'t> {
    /// Name and the lines below, by key: `8086` for a vendor, `C 02` for a class.
    blocks: BTreeMap<&'t str, (&'t str, &'t str)>,
    devices: BTreeMap<u16, BTreeMap<&'t str, (&'t str, &'t str)>>,
}

impl<'t> Names<'t> {
    pub(super) fn new(text: &'t str) -> Names<'t> {
        Names { blocks: blocks(text, ""), devices: BTreeMap::new() }
    }

    /// Fills in the names of the ids; a name that the list lacks stays absent.
    pub(super) fn set(&mut self, ids: &Ids, device: &mut PciDevice) {
        device.class_name = ids.class.and_then(|class| self.class(class)).map(str::to_owned);
        let Some(vendor) = ids.vendor else { return };
        let Some((vendor_name, below)) = self.blocks.get(format!("{vendor:04x}").as_str()) else {
            return;
        };
        device.vendor_name = Some((*vendor_name).to_owned());
        let devices = self.devices.entry(vendor).or_insert_with(|| blocks(below, "\t"));
        let key = ids.device.map(|id| format!("{id:04x}"));
        let Some((name, below)) = key.and_then(|key| devices.get(key.as_str())) else { return };
        device.device_name = Some((*name).to_owned());
        if let (Some(subvendor), Some(subdevice)) = (ids.subvendor, ids.subdevice) {
            let start = format!("\t\t{subvendor:04x} {subdevice:04x} ");
            let subsystem = below.lines().find_map(|line| line.strip_prefix(&start));
            device.subsystem_name = subsystem.map(str::to_owned);
        }
    }

    /// The name of the subclass, else that of the class.
    fn class(&self, class: u32) -> Option<&'t str> {
        let [_, base, sub, _] = class.to_be_bytes();
        let (name, below) = self.blocks.get(format!("C {base:02x}").as_str())?;
        let start = format!("\t{sub:02x} ");
        below.lines().find_map(|line| line.strip_prefix(&start)).or(Some(name))
    }
}

/// Splits `text` at the lines that are indented by exactly `indent`: by key, the name and the lines
/// below. Keys are four digits, or `C` and two.
fn blocks<'t>(text: &'t str, indent: &str) -> BTreeMap<&'t str, (&'t str, &'t str)> {
    let mut blocks = BTreeMap::new();
    let (mut head, mut start, mut at) = (None, 0, 0);
    let mut close = |head: Option<&'t str>, below: &'t str| {
        let split = head.and_then(|head| Some((head.get(..4)?, head.get(5..)?)));
        if let Some((key, name)) = split {
            blocks.insert(key, (name, below));
        }
    };
    for line in text.split_inclusive('\n') {
        let inner = line.strip_prefix(indent).filter(|inner| !inner.starts_with('\t'));
        if let Some(inner) = inner {
            close(head, &text[start..at]);
            (head, start) = (Some(inner.trim_end()), at + line.len());
        }
        at += line.len();
    }
    close(head, &text[start..]);
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(ids: Ids) -> PciDevice {
        let text = unpack();
        let mut device = PciDevice::default();
        Names::new(&text).set(&ids, &mut device);
        device
    }

    #[test]
    fn known_ids_have_names_and_unknown_ones_have_none() {
        let ids = Ids {
            class: Some(0x02_00_00),
            vendor: Some(0x8086),
            device: Some(0x10fb),
            subvendor: Some(0x8086),
            subdevice: Some(0x000c),
            revision: None,
        };
        let device = named(ids);
        assert_eq!(device.class_name.as_deref(), Some("Ethernet controller"));
        assert_eq!(device.vendor_name.as_deref(), Some("Intel Corporation"));
        assert_eq!(
            device.device_name.as_deref(),
            Some("82599ES 10-Gigabit SFI/SFP+ Network Connection")
        );
        assert_eq!(device.subsystem_name.as_deref(), Some("Ethernet Server Adapter X520-2"));
        let unknown = named(Ids { class: Some(0x02_7f_00), device: Some(0xfffe), ..ids });
        assert_eq!(unknown.class_name.as_deref(), Some("Network controller"));
        assert_eq!(unknown.device_name, None);
        assert_eq!(named(Ids { class: Some(0x77_00_00), ..Ids::default() }), PciDevice::default());
    }

    #[test]
    fn the_packed_list_is_whole() {
        let text = unpack();
        let names = Names::new(&text);
        assert!(names.blocks.len() > 2000, "{}", names.blocks.len());
        assert!(names.blocks.contains_key("ffff") && names.blocks.contains_key("C ff"));
    }
}
