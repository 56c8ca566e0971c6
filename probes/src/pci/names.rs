//! Names of vendors, devices and classes from pci.ids, which `build.rs` packs into the binary.

use std::collections::BTreeMap;
use std::ops::Range;

use flate2::{Decompress, FlushDecompress};

use super::PciDevice;
use super::ids::Ids;

/// The names, packed; `build.rs` describes the form.
const PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/pci.ids.packed"));
/// Size of the entry for each block, before the first block.
const HEAD_BYTES: usize = 10;

/// The names; a block is unpacked when a device in it is first requested.
#[derive(Debug)]
pub(super) struct Names {
    /// The location of each block, by the vendor and the device that it starts with.
    places: BTreeMap<(u16, u16), Place>,
    blocks: BTreeMap<(u16, u16), Block>,
    /// One for all blocks: creating one costs as much as unpacking a block.
    inflate: Decompress,
    /// Names of the classes requested so far, by class and subclass.
    classes: BTreeMap<(u8, u8), Option<String>>,
}

/// The location of a packed block, and the length of its text.
#[derive(Debug, Clone)]
struct Place {
    packed: Range<usize>,
    n_bytes: usize,
}

/// A block: its text, and the positions of each vendor's line and each device's lines in it, both in the
/// order of the ids.
#[derive(Debug, Default)]
struct Block {
    text: String,
    vendors: Vec<(u16, Range<usize>)>,
    devices: Vec<((u16, u16), Range<usize>)>,
}

/// The text at the position of `key`.
fn at<'a, K: Ord>(text: &'a str, places: &[(K, Range<usize>)], key: &K) -> Option<&'a str> {
    let index = places.binary_search_by(|(known, _)| known.cmp(key)).ok()?;
    text.get(places.get(index)?.1.clone())
}

impl Names {
    pub(super) fn new() -> Names {
        let (places, inflate) = (places().unwrap_or_default(), Decompress::new(false));
        Names { places, blocks: BTreeMap::new(), inflate, classes: BTreeMap::new() }
    }

    /// Fills in the names of the ids; a name that the list lacks stays absent.
    pub(super) fn set(&mut self, ids: &Ids, device: &mut PciDevice) {
        device.class_name = ids.class.and_then(|class| {
            let [_, base, sub, _] = class.to_be_bytes();
            if !self.classes.contains_key(&(base, sub)) {
                let name = self.class(base, sub);
                self.classes.insert((base, sub), name);
            }
            self.classes.get(&(base, sub)).cloned().flatten()
        });
        let Some(vendor) = ids.vendor else { return };
        // A device after the vendor's last one belongs to the block of that one.
        let Some(block) = self.block((vendor, ids.device.unwrap_or_default())) else { return };
        device.vendor_name = at(&block.text, &block.vendors, &vendor).map(name);
        let lines = ids.device.and_then(|id| at(&block.text, &block.devices, &(vendor, id)));
        let Some(lines) = lines else { return };
        device.device_name = Some(name(lines));
        let sub = ids.subvendor.zip(ids.subdevice);
        device.subsystem_name = sub.and_then(|ids| subsystem(lines, ids));
    }

    /// The name of the subclass, else that of the class.
    fn class(&mut self, base: u8, sub: u8) -> Option<String> {
        let text = &self.block((u16::MAX, u16::MAX))?.text;
        let start = format!("C {base:02x} ");
        let mut lines = text.lines().skip_while(|line| !line.starts_with(&start));
        let name = lines.next()?.strip_prefix(&start)?;
        let start = format!("\t{sub:02x} ");
        let mut below = lines.take_while(|line| line.starts_with('\t'));
        Some(below.find_map(|line| line.strip_prefix(&start)).unwrap_or(name).to_owned())
    }

    /// The block that contains `key`.
    fn block(&mut self, key: (u16, u16)) -> Option<&Block> {
        let (first, place) = self.places.range(..=key).next_back()?;
        let inflate = &mut self.inflate;
        Some(self.blocks.entry(*first).or_insert_with(|| unpack(inflate, place)))
    }
}

/// The location of each block in the packed bytes. `None` is impossible: the bytes are our own.
fn places() -> Option<BTreeMap<(u16, u16), Place>> {
    let number = |at: usize| Some(u16::from_le_bytes(PACKED.get(at..at + 2)?.try_into().ok()?));
    let long = |at: usize| Some(u32::from_le_bytes(PACKED.get(at..at + 4)?.try_into().ok()?));
    let n_blocks = usize::from(number(0)?);
    let mut start = 2 + n_blocks * HEAD_BYTES;
    let mut places = BTreeMap::new();
    for at in (0..n_blocks).map(|index| 2 + index * HEAD_BYTES) {
        let end = start + usize::from(number(at + 4)?);
        let n_bytes = usize::try_from(long(at + 6)?).ok()?;
        places.insert((number(at)?, number(at + 2)?), Place { packed: start..end, n_bytes });
        start = end;
    }
    Some(places)
}

fn unpack(inflate: &mut Decompress, place: &Place) -> Block {
    let mut block = Block { text: inflated(inflate, place), ..Block::default() };
    let (mut vendor, mut last_id, mut at) = (None, 0, 0);
    for line in block.text.split_inclusive('\n') {
        let end = at + line.len();
        match line.strip_prefix('\t') {
            None => {
                // Not a class, whose line begins with a letter and a blank.
                (vendor, last_id) =
                    (line.get(..4).and_then(|id| u16::from_str_radix(id, 16).ok()), 0);
                block.vendors.extend(vendor.map(|vendor| (vendor, at..end)));
            }
            Some(line) if !line.starts_with('\t') => {
                last_id = number(line).unwrap_or_default().wrapping_add(last_id);
                let device = vendor.map(|vendor| (vendor, last_id));
                block.devices.extend(device.map(|device| (device, at + 1..end)));
            }
            // A subsystem belongs to the device above it.
            Some(_) => block.devices.last_mut().into_iter().for_each(|(_, lines)| lines.end = end),
        }
        at = end;
    }
    block
}

/// The text of a block. The bytes are our own and can be damaged only together with the program.
fn inflated(inflate: &mut Decompress, place: &Place) -> String {
    let packed = PACKED.get(place.packed.clone()).unwrap_or_default();
    let mut text = Vec::with_capacity(place.n_bytes);
    inflate.reset(false);
    inflate.decompress_vec(packed, &mut text, FlushDecompress::Finish).ok();
    String::from_utf8(text).unwrap_or_default()
}

/// The name of a subsystem in the lines of its device.
fn subsystem(lines: &str, ids: (u16, u16)) -> Option<String> {
    let mut last = (0, 0);
    let mut parts = lines.lines().filter_map(|line| line.strip_prefix("\t\t"));
    parts.find_map(|line| {
        let (vendor, rest) = line.split_once(' ')?;
        let device = number(rest)?;
        last = match number(vendor) {
            Some(vendor) => (vendor, device),
            None => (last.0, last.1.wrapping_add(device)),
        };
        (last == ids).then(|| name(rest))
    })
}

/// The hexadecimal number at the start of a line.
fn number(line: &str) -> Option<u16> {
    u16::from_str_radix(line.split(' ').next()?, 16).ok()
}

/// The text after the number in the first of `lines`.
fn name(lines: &str) -> String {
    let line = lines.lines().next().and_then(|line| line.split_once(' '));
    line.map(|(_, name)| name).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(ids: Ids) -> PciDevice {
        let mut device = PciDevice::default();
        Names::new().set(&ids, &mut device);
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
        assert_eq!(unknown.vendor_name.as_deref(), Some("Intel Corporation"));
        assert_eq!(named(Ids { class: Some(0x77_00_00), ..Ids::default() }), PciDevice::default());
        let gone = Ids { vendor: Some(0xfff1), device: Some(1), ..Ids::default() };
        assert_eq!(named(gone), PciDevice::default());
    }

    #[test]
    fn packed_list_is_whole_and_every_name_is_found_where_it_is_looked_for() {
        let mut names = Names::new();
        let mut inflate = Decompress::new(false);
        let blocks: Vec<Block> =
            names.places.values().map(|place| unpack(&mut inflate, place)).collect();
        for (block, place) in blocks.iter().zip(names.places.values()) {
            assert_eq!(block.text.len(), place.n_bytes);
        }
        let n_vendors: usize = blocks.iter().map(|block| block.vendors.len()).sum();
        let n_devices: usize = blocks.iter().map(|block| block.devices.len()).sum();
        assert!(n_vendors > 2000 && n_devices > 15_000, "{n_vendors} {n_devices}");
        for (vendor, device) in blocks.iter().flat_map(|block| block.devices.iter().map(|d| d.0)) {
            let ids = Ids { vendor: Some(vendor), device: Some(device), ..Ids::default() };
            let mut found = PciDevice::default();
            names.set(&ids, &mut found);
            assert!(found.vendor_name.is_some(), "{vendor:04x}");
            assert!(found.device_name.is_some_and(|name| !name.is_empty()), "{device:04x}");
        }
    }

    #[test]
    fn few_devices_unpack_few_blocks() {
        let mut names = Names::new();
        for device in [0x2f00, 0x2f02, 0x2f68] {
            let ids = Ids { vendor: Some(0x8086), device: Some(device), ..Ids::default() };
            names.set(&ids, &mut PciDevice::default());
        }
        assert!(names.blocks.len() <= 2, "{}", names.blocks.len());
        assert!(names.places.len() > 30, "{}", names.places.len());
    }
}
