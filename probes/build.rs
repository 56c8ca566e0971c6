//! Writes the names of the crate `pci-ids` as text that is embedded in the binary; linked directly, the crate's tables are
//! twice as large.
//!
//! A line is a key, a blank and a name. The key is made of hexadecimal ids: the vendor; vendor and device; these with
//! subvendor and subdevice; `C` and the class; `C`, class and subclass. The lines are sorted by byte.

use std::error::Error;
use std::io::Write as _;
use std::path::PathBuf;

use pci_ids::{Classes, Vendors};

fn main() -> Result<(), Box<dyn Error>> {
    writeln!(std::io::stdout(), "cargo::rerun-if-changed=build.rs")?;
    let mut lines = Vec::new();
    for vendor in Vendors::iter() {
        let key = format!("{:04x}", vendor.id());
        for device in vendor.devices() {
            let key = format!("{key}{:04x}", device.id());
            for part in device.subsystems() {
                let key = format!("{key}{:04x}{:04x}", part.subvendor(), part.subdevice());
                lines.push(line(&key, part.name()));
            }
            lines.push(line(&key, device.name()));
        }
        lines.push(line(&key, vendor.name()));
    }
    for class in Classes::iter() {
        let key = format!("C{:02x}", class.id());
        for subclass in class.subclasses() {
            lines.push(line(&format!("{key}{:02x}", subclass.id()), subclass.name()));
        }
        lines.push(line(&key, class.name()));
    }
    lines.sort();
    let folder = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("cargo sets no OUT_DIR")?);
    Ok(std::fs::write(folder.join("pci-names"), lines.concat())?)
}

fn line(key: &str, name: &str) -> String {
    let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("{key} {name}\n")
}
