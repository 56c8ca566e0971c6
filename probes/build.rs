//! Packs the names of the crate `pci-ids` into a small file that the binary carries.
//!
//! Linked as they are, the crate's tables make the binary 3.2 MB larger; packed they take a tenth.
//! The text is as pci.ids itself: `vendor name`, below it with one tab `device name`, with two tabs
//! `subvendor subdevice name`; classes come as `C class name` and with one tab `subclass name`.

use std::error::Error;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;

use flate2::Compression;
use flate2::write::DeflateEncoder;
use pci_ids::{Classes, Vendors};

fn main() -> Result<(), Box<dyn Error>> {
    writeln!(std::io::stdout(), "cargo::rerun-if-changed=build.rs")?;
    let folder = std::env::var_os("OUT_DIR").ok_or("cargo sets no OUT_DIR")?;
    let file = File::create(PathBuf::from(folder).join("pci.ids.deflate"))?;
    let mut packed = DeflateEncoder::new(file, Compression::best());
    packed.write_all(text()?.as_bytes())?;
    packed.finish()?;
    Ok(())
}

/// All names, in the order of their ids.
fn text() -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    let mut vendors: Vec<_> = Vendors::iter().collect();
    vendors.sort_by_key(|vendor| vendor.id());
    for vendor in vendors {
        writeln!(text, "{:04x} {}", vendor.id(), line(vendor.name()))?;
        let mut devices: Vec<_> = vendor.devices().collect();
        devices.sort_by_key(|device| device.id());
        for device in devices {
            writeln!(text, "\t{:04x} {}", device.id(), line(device.name()))?;
            for part in device.subsystems() {
                let (vendor, device) = (part.subvendor(), part.subdevice());
                writeln!(text, "\t\t{vendor:04x} {device:04x} {}", line(part.name()))?;
            }
        }
    }
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
