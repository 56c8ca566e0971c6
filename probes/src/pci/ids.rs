//! Class and ids of one device, from the cheapest source that has them.

use formats::pci::{self, Ids};

use super::find::Place;
use super::{Attributes, PciDevice};
use crate::machine::Machine;
use crate::udev;

/// Reads the ids of the device at `place`, and its driver if the same file names it.
pub(super) fn read(
    machine: &Machine,
    place: &Place,
    attributes: &Attributes,
) -> (Ids, Option<String>) {
    if let Some(line) = &place.line {
        let (ids, driver) = pci::proc_line(line);
        return (ids.or(config(machine, &place.path)), driver);
    }
    let path = &place.path;
    if !path.starts_with("sys/") {
        return (config(machine, path), None);
    }
    let at = |name: &str| attributes.at(name);
    let uevent = at("uevent").map(|path| udev::variables(machine, &path)).unwrap_or_default();
    let mut ids = from_attributes(machine, &pci::uevent(&uevent), &at);
    if !ids.is_known() || ids.subvendor.is_none() {
        let modalias = at("modalias").and_then(|path| machine.text(&path));
        ids = ids.or(modalias.map(|text| pci::modalias(&text)).unwrap_or_default());
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

fn config(machine: &Machine, path: &str) -> Ids {
    machine.bytes(path).map(|bytes| pci::config(&bytes)).unwrap_or_default()
}

/// Fills in the ids of a device.
pub(super) fn write(ids: &Ids, device: &mut PciDevice) {
    let four = |id: Option<u32>| id.map(|id| format!("{id:04x}"));
    device.class = ids.class.map(|class| format!("{:04x}", class >> 8));
    device.prog_if = ids.class.map(|class| format!("{:02x}", class & 0xff));
    device.vendor_id = four(ids.vendor);
    device.device_id = four(ids.device);
    device.revision = ids.revision.map(|revision| format!("{revision:02x}"));
    // Without a subsystem both registers are 0.
    if ids.subvendor.is_some_and(|id| id != 0) {
        device.subsystem_vendor_id = four(ids.subvendor);
        device.subsystem_device_id = four(ids.subdevice);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_of_too_few_digits_is_an_error() {
        assert!(parse_hex("0x80", 4).is_err());
        assert_eq!(parse_hex("0x8086", 4), Ok(0x8086));
    }
}
