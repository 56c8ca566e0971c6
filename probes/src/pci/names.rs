//! Names of vendors, devices and classes from pci.ids, which `build.rs` packs into the binary.

use std::collections::BTreeMap;
use std::ops::Range;

use flate2::{Decompress, FlushDecompress};

use super::PciDevice;
use super::ids::Ids;

/// The names, packed; `build.rs` describes the form.
const PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/pci.ids.packed"));
/// Bytes among the ids: the subvendor is that of the vendor; it follows; the number follows in two bytes.
const VENDORS_OWN: u8 = 0xfd;
const OTHER: u8 = 0xfe;
const LONG: u8 = 0xff;
/// Size of the entry of each block, before the first block.
const BLOCK_HEAD_BYTES: usize = 10;
/// In a name: the next byte is not ASCII.
const NOT_ASCII: u8 = 0x1f;

/// The names; a block is unpacked when a device in it is first requested.
#[derive(Debug)]
pub(super) struct Names {
    /// What single bytes in a name mean, by their distance from 0x80.
    words: Vec<&'static [u8]>,
    places: Places,
    blocks: BTreeMap<(u16, u16), Block>,
    /// One for all blocks: creating one costs as much as unpacking a block.
    inflate: Decompress,
    /// Names of the classes requested so far, by class and subclass.
    classes: BTreeMap<(u8, u8), Option<String>>,
}

/// The location of a packed block, the length of its ids, and its unpacked length.
#[derive(Debug, Clone)]
struct Place {
    packed: Range<usize>,
    ids_bytes: usize,
    n_bytes: usize,
}

/// The location of each block, by the vendor and the device that it starts with.
type Places = BTreeMap<(u16, u16), Place>;

/// A block: its ids, its names, and the place of each name.
#[derive(Debug, Default)]
struct Block {
    ids: Vec<u8>,
    names: Vec<u8>,
    /// The place of each name in `names`.
    lines: Vec<Range<usize>>,
    /// Each vendor and the index of its name, in the order of the ids.
    vendors: Vec<(u16, usize)>,
    /// Each device, in the order of the ids.
    devices: Vec<((u16, u16), Device)>,
}

/// A device of a block.
#[derive(Debug, Clone, Copy)]
struct Device {
    /// The index of its name, which the names of its subsystems follow.
    name: usize,
    /// Where the number of its subsystems is in the ids.
    subsystems: usize,
}

/// The value of `key` in a list that is sorted by key.
fn at<K: Ord, V: Copy>(places: &[(K, V)], key: &K) -> Option<V> {
    let index = places.binary_search_by(|(known, _)| known.cmp(key)).ok()?;
    Some(places.get(index)?.1)
}

/// Reads ids.
#[derive(Clone, Copy)]
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn id(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes([self.byte()?, self.byte()?]))
    }

    /// A number in one byte, in two, or in three.
    fn number(&mut self) -> Option<u16> {
        Some(match self.byte()? {
            low @ 0..0x80 => low.into(),
            LONG => self.id()?,
            high => u16::from_be_bytes([high - 0x80, self.byte()?]),
        })
    }

    /// A subsystem of a device of `vendor`, after the subsystem `last`.
    fn subsystem(&mut self, vendor: u16, last: (u16, u16)) -> Option<(u16, u16)> {
        match *self.bytes.get(self.at)? {
            VENDORS_OWN => {
                self.at += 1;
                Some((vendor, self.id()?))
            }
            OTHER => {
                self.at += 1;
                Some((self.id()?, self.id()?))
            }
            _ => Some((last.0, last.1.wrapping_add(self.number()?))),
        }
    }
}

impl Names {
    pub(super) fn new() -> Names {
        // `None` is impossible: the bytes are our own.
        let (words, places) = head().unwrap_or_default();
        let inflate = Decompress::new(false);
        Names { words, places, blocks: BTreeMap::new(), inflate, classes: BTreeMap::new() }
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
        let key = (vendor, ids.device.unwrap_or_default());
        let Some((block, words)) = self.block(key) else { return };
        device.vendor_name = at(&block.vendors, &vendor).map(|line| block.name(line, words));
        let found = ids.device.and_then(|id| at(&block.devices, &(vendor, id)));
        let Some(found) = found else { return };
        device.device_name = Some(block.name(found.name, words));
        let sub = ids.subvendor.zip(ids.subdevice);
        let sub = sub.and_then(|sub| subsystem(block, vendor, found, sub));
        device.subsystem_name = sub.map(|line| block.name(line, words));
    }

    /// The name of the subclass, else that of the class.
    fn class(&mut self, base: u8, sub: u8) -> Option<String> {
        let (block, words) = self.block((u16::MAX, u16::MAX))?;
        let class = at(&block.vendors, &base.into())?;
        let subclass = at(&block.devices, &(base.into(), sub.into()));
        Some(block.name(subclass.map_or(class, |subclass| subclass.name), words))
    }

    /// The block that contains `key`, and the words of its names.
    fn block(&mut self, key: (u16, u16)) -> Option<(&Block, &[&'static [u8]])> {
        let (first, place) = self.places.range(..=key).next_back()?;
        let inflate = &mut self.inflate;
        let block = self.blocks.entry(*first).or_insert_with(|| unpack(inflate, place));
        Some((block, &self.words))
    }
}

impl Block {
    /// The name in a line.
    fn name(&self, line: usize, words: &[&[u8]]) -> String {
        let packed = self.lines.get(line).and_then(|place| self.names.get(place.clone()));
        let mut packed = packed.unwrap_or_default().iter();
        let mut name = Vec::with_capacity(48);
        while let Some(&byte) = packed.next() {
            match byte {
                b' '..=b'~' => name.push(byte),
                NOT_ASCII => name.extend(packed.next()),
                _ => {
                    let word = words.get(usize::from(byte.wrapping_sub(0x80)));
                    name.extend_from_slice(word.copied().unwrap_or_default());
                }
            }
        }
        String::from_utf8(name).unwrap_or_default()
    }
}

/// The words, and the location of each block in the packed bytes.
fn head() -> Option<(Vec<&'static [u8]>, Places)> {
    let mut head = PACKED;
    let mut words = Vec::new();
    for _ in 0..short(&mut head)? {
        let (&length, rest) = head.split_first()?;
        let (word, rest) = rest.split_at_checked(length.into())?;
        words.push(word);
        head = rest;
    }
    let mut places = BTreeMap::new();
    let n_blocks = short(&mut head)?;
    let mut start = PACKED.len() - head.len() + usize::from(n_blocks) * BLOCK_HEAD_BYTES;
    for _ in 0..n_blocks {
        let first = (short(&mut head)?, short(&mut head)?);
        let end = start + usize::from(short(&mut head)?);
        let (ids_bytes, n_bytes) = (short(&mut head)?.into(), short(&mut head)?.into());
        places.insert(first, Place { packed: start..end, ids_bytes, n_bytes });
        start = end;
    }
    Some((words, places))
}

/// Takes the number that `bytes` begin with.
fn short(bytes: &mut &[u8]) -> Option<u16> {
    let (number, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u16::from_le_bytes(*number))
}

fn unpack(inflate: &mut Decompress, place: &Place) -> Block {
    let packed = PACKED.get(place.packed.clone()).unwrap_or_default();
    let mut ids = Vec::with_capacity(place.n_bytes);
    inflate.reset(false);
    // The bytes are our own and can be damaged only together with the program.
    inflate.decompress_vec(packed, &mut ids, FlushDecompress::Finish).ok();
    let names = ids.split_off(place.ids_bytes.min(ids.len()));
    let mut block = Block { ids, names, ..Block::default() };
    let mut start = 0;
    for (end, _) in block.names.iter().enumerate().filter(|(_, byte)| **byte == b'\n') {
        block.lines.push(start..end);
        start = end + 1;
    }
    list(&mut block);
    block
}

/// Lists the vendors and devices of a block. `None` after the last one.
fn list(block: &mut Block) -> Option<()> {
    let mut reader = Reader { bytes: &block.ids, at: 0 };
    let mut line = 0;
    loop {
        let vendor = reader.id()?;
        block.vendors.push((vendor, line));
        line += 1;
        // The first device counts from -1.
        let mut device = u16::MAX;
        loop {
            let distance = reader.number()?;
            if distance == 0 {
                break;
            }
            device = device.wrapping_add(distance);
            block.devices.push(((vendor, device), Device { name: line, subsystems: reader.at }));
            let n_subsystems = reader.number()?;
            let mut last = (0, 0);
            for _ in 0..n_subsystems {
                last = reader.subsystem(vendor, last)?;
            }
            line += 1 + usize::from(n_subsystems);
        }
    }
}

/// The line of the name of a subsystem.
fn subsystem(block: &Block, vendor: u16, device: Device, ids: (u16, u16)) -> Option<usize> {
    let mut reader = Reader { bytes: &block.ids, at: device.subsystems };
    let n_subsystems = usize::from(reader.number()?);
    let mut last = (0, 0);
    (1..=n_subsystems).find_map(|index| {
        last = reader.subsystem(vendor, last)?;
        (last == ids).then_some(device.name + index)
    })
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
        let places: Vec<Place> = names.places.values().cloned().collect();
        let mut blocks: Vec<Block> =
            places.iter().map(|place| unpack(&mut inflate, place)).collect();
        for (block, place) in blocks.iter().zip(&places) {
            assert_eq!(block.ids.len() + block.names.len(), place.n_bytes);
        }
        let classes = blocks.pop().unwrap();
        assert!(classes.vendors.len() > 20 && classes.devices.len() > 100, "{classes:?}");
        let n_vendors: usize = blocks.iter().map(|block| block.vendors.len()).sum();
        let n_devices: usize = blocks.iter().map(|block| block.devices.len()).sum();
        let n_names: usize = blocks.iter().map(|block| block.lines.len()).sum();
        assert!(n_vendors > 2000 && n_devices > 15_000, "{n_vendors} {n_devices}");
        assert!(n_names > 35_000, "{n_names}");
        for (block, (key, device)) in
            blocks.iter().flat_map(|block| block.devices.iter().map(move |device| (block, device)))
        {
            let ids = Ids { vendor: Some(key.0), device: Some(key.1), ..Ids::default() };
            let mut found = PciDevice::default();
            names.set(&ids, &mut found);
            assert!(found.vendor_name.is_some(), "{key:04x?}");
            assert_eq!(found.device_name, Some(block.name(device.name, &names.words)));
            assert!(found.device_name.is_some_and(|name| !name.is_empty()), "{key:04x?}");
        }
    }

    #[test]
    fn names_with_words_and_with_letters_outside_ascii_are_unpacked() {
        let names = Names::new();
        let mut text = Vec::new();
        for place in names.places.values() {
            let block = unpack(&mut Decompress::new(false), place);
            text.extend((0..block.lines.len()).map(|line| block.name(line, &names.words)));
        }
        let has = |part: &str| text.iter().any(|name| name.contains(part));
        assert!(has("Ethernet Controller") && has("®") && !has("\u{fffd}"));
        assert!(text.iter().all(|name| !name.is_empty() && !name.contains(char::is_control)));
    }

    #[test]
    fn few_devices_unpack_few_blocks() {
        let mut names = Names::new();
        for device in [0x2f00, 0x2f02, 0x2f68] {
            let ids = Ids { vendor: Some(0x8086), device: Some(device), ..Ids::default() };
            names.set(&ids, &mut PciDevice::default());
        }
        assert!(names.blocks.len() <= 2, "{}", names.blocks.len());
        assert!(names.places.len() > 15, "{}", names.places.len());
    }
}
