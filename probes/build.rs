//! Packs the names of the crate `pci-ids` into a small file that is embedded in the binary.
//!
//! Linked directly, the crate's tables make the binary 3.2 MB larger; packed they take a tenth of that.
//! A machine has devices of a few vendors, so the names are packed in blocks, and only blocks that
//! contain a device of the machine are unpacked.
//!
//! The file: the number of blocks (16 bits); for each block its first vendor and device, its packed
//! length (16 bits each) and its unpacked length (32 bits); then the blocks. Numbers are little-endian,
//! and each block is compressed with deflate. The text of a block is like that of pci.ids:
//! `vendor name`, below it with one tab `device name`, with two tabs `subvendor subdevice name`. A
//! device has the difference of its id to the vendor's previous device in the block, and a further
//! subsystem of the same subvendor is `\t\t difference name`: small numbers pack better. A block that starts
//! within a vendor repeats the vendor's line. The last block has the classes: `C class name` and with
//! one tab `subclass name`.

use std::error::Error;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;

use flate2::Compression;
use flate2::write::DeflateEncoder;
use pci_ids::{Classes, Vendors};

/// A block ends at the first device after this many bytes of text. Smaller blocks take more space in the
/// binary, larger ones more time: blocks of 24 KiB take 8 % more space than a single block, of 40 KiB 5 %.
const BLOCK_BYTES: usize = 40 << 10;

/// The text of a block, and its first vendor and device.
struct Block {
    first: (u16, u16),
    text: String,
}

fn main() -> Result<(), Box<dyn Error>> {
    writeln!(std::io::stdout(), "cargo::rerun-if-changed=build.rs")?;
    let mut blocks = vendors()?;
    blocks.push(Block { first: (u16::MAX, u16::MAX), text: classes()? });
    let (mut head, mut body) = (Vec::new(), Vec::new());
    head.extend(u16::try_from(blocks.len())?.to_le_bytes());
    for block in blocks {
        let mut packed = DeflateEncoder::new(Vec::new(), Compression::best());
        packed.write_all(block.text.as_bytes())?;
        let packed = packed.finish()?;
        for number in [block.first.0, block.first.1, u16::try_from(packed.len())?] {
            head.extend(number.to_le_bytes());
        }
        head.extend(u32::try_from(block.text.len())?.to_le_bytes());
        body.extend(packed);
    }
    let folder = std::env::var_os("OUT_DIR").ok_or("cargo sets no OUT_DIR")?;
    head.extend(body);
    std::fs::write(PathBuf::from(folder).join("pci.ids.packed"), head)?;
    Ok(())
}

/// Vendors and devices in the order of their ids.
fn vendors() -> Result<Vec<Block>, std::fmt::Error> {
    let mut blocks = Vec::new();
    let mut block = Block { first: (0, 0), text: String::new() };
    let mut vendors: Vec<_> = Vendors::iter().collect();
    vendors.sort_by_key(|vendor| vendor.id());
    for vendor in vendors {
        if block.text.len() >= BLOCK_BYTES {
            let next = Block { first: (vendor.id(), 0), text: String::new() };
            blocks.push(std::mem::replace(&mut block, next));
        }
        writeln!(block.text, "{:04x} {}", vendor.id(), line(vendor.name()))?;
        let mut devices: Vec<_> = vendor.devices().collect();
        devices.sort_by_key(|device| device.id());
        let mut last_id = 0;
        for device in devices {
            if block.text.len() >= BLOCK_BYTES {
                last_id = 0;
                let text = format!("{:04x} {}\n", vendor.id(), line(vendor.name()));
                let next = Block { first: (vendor.id(), device.id()), text };
                blocks.push(std::mem::replace(&mut block, next));
            }
            writeln!(block.text, "\t{:x} {}", device.id() - last_id, line(device.name()))?;
            last_id = device.id();
            subsystems(&mut block.text, device)?;
        }
    }
    blocks.push(block);
    Ok(blocks)
}

fn subsystems(text: &mut String, device: &pci_ids::Device) -> std::fmt::Result {
    let mut parts: Vec<_> = device.subsystems().collect();
    parts.sort_by_key(|part| (part.subvendor(), part.subdevice()));
    let mut last = None;
    for part in parts {
        let (vendor, device) = (part.subvendor(), part.subdevice());
        match last.replace((vendor, device)) {
            Some((same, last)) if same == vendor => write!(text, "\t\t {:x}", device - last)?,
            _ => write!(text, "\t\t{vendor:x} {device:x}")?,
        }
        writeln!(text, " {}", line(part.name()))?;
    }
    Ok(())
}

fn classes() -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    let mut classes: Vec<_> = Classes::iter().collect();
    classes.sort_by_key(|class| class.id());
    for class in classes {
        writeln!(text, "C {:02x} {}", class.id(), line(class.name()))?;
        for subclass in class.subclasses() {
            writeln!(text, "\t{:02x} {}", subclass.id(), line(subclass.name()))?;
        }
    }
    Ok(text)
}

/// A name in one line.
fn line(name: &str) -> String {
    name.split_whitespace().collect::<Vec<_>>().join(" ")
}
