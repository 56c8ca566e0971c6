//! Packs the names of the crate `pci-ids` into a small file that is embedded in the binary.
//!
//! Linked directly, the crate's tables make the binary 3.2 MB larger; packed they take a tenth of that.
//! A machine has devices of a few vendors, so the names are packed in blocks, and only blocks that
//! contain a device of the machine are unpacked.
//!
//! The file: the words (16 bits: how many; for each its length in 8 bits and the word); the number of
//! blocks (16 bits); for each block its first vendor and device, its packed length, the length of its ids
//! and its whole length (16 bits each); then the blocks, compressed with deflate. These numbers are
//! little-endian.
//!
//! A block contains its ids, then its names in the same order, one a line. The ids are numbers in one to three
//! bytes: for each vendor its id; for each device the distance to the vendor's previous device (the first
//! counts from -1) and the number of its subsystems; for each subsystem its subvendor and subdevice, or,
//! where the subvendor is that of the subsystem before, the distance of the subdevices. A distance of 0
//! ends the devices of a vendor. A block that starts within a vendor repeats the vendor.
//!
//! In a name the most useful words are single bytes: 0x80 to 0xff, then 0x01 to 0x1e without the line feed.
//! 0x1f precedes a byte that is not ASCII. So deflate finds repetitions at larger distances, and less has to be unpacked.
//! The last block has the classes in place of vendors, and subclasses in place of devices.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write as _;
use std::num::TryFromIntError;
use std::path::PathBuf;

use pci_ids::{Classes, Vendors};

/// A block ends at the first device after this many bytes of names. Smaller blocks take more space in the
/// binary, larger ones more time for each name that is looked up.
const BLOCK_BYTES: usize = 40_000;

/// The subvendor is that of the vendor; the subvendor follows; the number follows in two bytes.
const VENDORS_OWN: u8 = 0xfd;
const OTHER: u8 = 0xfe;
const LONG: u8 = 0xff;

/// A vendor, or a class.
struct Vendor {
    id: u16,
    name: String,
    devices: Vec<Device>,
}

struct Device {
    id: u16,
    name: String,
    /// Subvendor, subdevice and name.
    subsystems: Vec<(u16, u16, String)>,
}

/// The ids and names of a block, and its first vendor and device.
#[derive(Default)]
struct Block {
    first: (u16, u16),
    ids: Vec<u8>,
    names: Vec<u8>,
}

fn main() -> Result<(), Box<dyn Error>> {
    writeln!(std::io::stdout(), "cargo::rerun-if-changed=build.rs")?;
    let (vendors, classes) = (vendors(), classes());
    let words = words(&vendors);
    let mut blocks = blocks(&vendors, &words, (0, 0))?;
    blocks.extend(self::blocks(&classes, &words, (u16::MAX, u16::MAX))?);
    let mut head = u16::try_from(words.len())?.to_le_bytes().to_vec();
    for word in &words {
        head.push(u8::try_from(word.len())?);
        head.extend(word);
    }
    head.extend(u16::try_from(blocks.len())?.to_le_bytes());
    let mut body = Vec::new();
    for block in blocks {
        let whole = [&*block.ids, &*block.names].concat();
        let mut packed = Vec::new();
        zopfli::compress(
            zopfli::Options::default(),
            zopfli::Format::Deflate,
            &*whole,
            &mut packed,
        )?;
        let (first, lengths) = (block.first, [packed.len(), block.ids.len(), whole.len()]);
        for number in [first.0, first.1] {
            head.extend(number.to_le_bytes());
        }
        for length in lengths {
            head.extend(u16::try_from(length)?.to_le_bytes());
        }
        body.extend(packed);
    }
    let folder = std::env::var_os("OUT_DIR").ok_or("cargo sets no OUT_DIR")?;
    head.extend(body);
    std::fs::write(PathBuf::from(folder).join("pci.ids.packed"), head)?;
    Ok(())
}

/// Vendors and devices in the order of their ids.
fn vendors() -> Vec<Vendor> {
    let device = |device: &pci_ids::Device| {
        let subsystems = device.subsystems();
        let mut subsystems: Vec<_> = subsystems
            .map(|part| (part.subvendor(), part.subdevice(), line(part.name())))
            .collect();
        subsystems.sort_by_key(|(vendor, device, _)| (*vendor, *device));
        Device { id: device.id(), name: line(device.name()), subsystems }
    };
    let vendor = |vendor: &pci_ids::Vendor| {
        let mut devices: Vec<Device> = vendor.devices().map(device).collect();
        devices.sort_by_key(|device| device.id);
        Vendor { id: vendor.id(), name: line(vendor.name()), devices }
    };
    let mut vendors: Vec<Vendor> = Vendors::iter().map(vendor).collect();
    vendors.sort_by_key(|vendor| vendor.id);
    vendors
}

fn classes() -> Vec<Vendor> {
    let subclass = |class: &pci_ids::Subclass| Device {
        id: class.id().into(),
        name: line(class.name()),
        subsystems: Vec::new(),
    };
    let class = |class: &pci_ids::Class| Vendor {
        id: class.id().into(),
        name: line(class.name()),
        devices: class.subclasses().map(subclass).collect(),
    };
    let mut classes: Vec<Vendor> = Classes::iter().map(class).collect();
    classes.sort_by_key(|class| class.id);
    for class in &mut classes {
        class.devices.sort_by_key(|device| device.id);
    }
    classes
}

/// The bytes that stand for words: a word's index is its byte's distance from 0x80. Unused ones have an empty word.
fn words(vendors: &[Vendor]) -> Vec<Vec<u8>> {
    let mut counts = BTreeMap::<&str, usize>::new();
    for vendor in vendors {
        count(&mut counts, &vendor.name);
        for device in &vendor.devices {
            count(&mut counts, &device.name);
            device.subsystems.iter().for_each(|part| count(&mut counts, &part.2));
        }
    }
    let mut best: Vec<(&str, usize)> = counts.into_iter().collect();
    best.sort_by_key(|(word, count)| std::cmp::Reverse((word.len() - 1) * count));
    let mut best = best.into_iter().map(|(word, _)| word.as_bytes().to_vec());
    let is_word = |byte: u8| !matches!(byte, 0 | b'\n');
    (0x80..=0xff)
        .chain(0..=0x1e)
        .map(|byte| if is_word(byte) { best.next().unwrap_or_default() } else { Vec::new() })
        .collect()
}

/// Counts the words of a name, each with the blank before it.
fn count<'a>(counts: &mut BTreeMap<&'a str, usize>, name: &'a str) {
    let bytes = name.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        at += usize::from(bytes[at] == b' ');
        let letters = bytes[at..].iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
        at += letters;
        if letters > 0 {
            *counts.entry(&name[start..at]).or_default() += 1;
        } else {
            at = start + 1;
            // The next character may have several bytes.
            at += bytes[at..].iter().take_while(|byte| **byte & 0xc0 == 0x80).count();
        }
    }
}

/// The blocks of `vendors`; `first` is what the first one starts with.
fn blocks(
    vendors: &[Vendor],
    words: &[Vec<u8>],
    first: (u16, u16),
) -> Result<Vec<Block>, TryFromIntError> {
    let mut blocks = Vec::new();
    let mut block = Block { first, ..Block::default() };
    for vendor in vendors {
        if block.names.len() >= BLOCK_BYTES {
            let next = Block { first: (vendor.id, 0), ..Block::default() };
            blocks.push(std::mem::replace(&mut block, next));
        }
        block.start(vendor, words);
        let mut next_id = 0_u32;
        for device in &vendor.devices {
            if block.names.len() >= BLOCK_BYTES {
                block.ids.push(0);
                let next = Block { first: (vendor.id, device.id), ..Block::default() };
                blocks.push(std::mem::replace(&mut block, next));
                block.start(vendor, words);
                next_id = 0;
            }
            let id = u32::from(device.id) + 1;
            number(&mut block.ids, u16::try_from(id - next_id)?);
            next_id = id;
            block.device(vendor.id, device, words)?;
        }
        block.ids.push(0);
    }
    blocks.push(block);
    Ok(blocks)
}

impl Block {
    fn start(&mut self, vendor: &Vendor, words: &[Vec<u8>]) {
        self.ids.extend(vendor.id.to_be_bytes());
        self.name(&vendor.name, words);
    }

    fn device(
        &mut self,
        vendor: u16,
        device: &Device,
        words: &[Vec<u8>],
    ) -> Result<(), TryFromIntError> {
        self.name(&device.name, words);
        number(&mut self.ids, u16::try_from(device.subsystems.len())?);
        let mut last = None;
        for (subvendor, subdevice, name) in &device.subsystems {
            self.name(name, words);
            match last.replace((subvendor, subdevice)) {
                Some((same, last)) if same == subvendor => number(&mut self.ids, subdevice - last),
                _ if *subvendor == vendor => {
                    self.ids.push(VENDORS_OWN);
                    self.ids.extend(subdevice.to_be_bytes());
                }
                _ => {
                    self.ids.push(OTHER);
                    self.ids.extend(subvendor.to_be_bytes());
                    self.ids.extend(subdevice.to_be_bytes());
                }
            }
        }
        Ok(())
    }

    /// Adds a name as a line, with bytes for words.
    fn name(&mut self, name: &str, words: &[Vec<u8>]) {
        let mut rest = name.as_bytes();
        while let Some(&byte) = rest.first() {
            let longest =
                (0_u8..).zip(words).filter(|(_, word)| !word.is_empty() && rest.starts_with(word));
            match longest.max_by_key(|(_, word)| word.len()) {
                Some((index, word)) => {
                    self.names.push(index.wrapping_add(0x80));
                    rest = &rest[word.len()..];
                    continue;
                }
                None if byte == b' ' || byte.is_ascii_graphic() => self.names.push(byte),
                None => self.names.extend([0x1f, byte]),
            }
            rest = &rest[1..];
        }
        self.names.push(b'\n');
    }
}

/// Adds a number in one byte (below 0x80), in two, or in three.
fn number(bytes: &mut Vec<u8>, number: u16) {
    match number.to_be_bytes() {
        [0, low] if low < 0x80 => bytes.push(low),
        [high, low] if high < VENDORS_OWN - 0x80 => bytes.extend([0x80 + high, low]),
        [high, low] => bytes.extend([LONG, high, low]),
    }
}

/// A name in one line.
fn line(name: &str) -> String {
    name.split_whitespace().collect::<Vec<_>>().join(" ")
}
