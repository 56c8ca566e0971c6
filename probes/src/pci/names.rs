//! Names of vendors, devices and classes from pci.ids, which `build.rs` writes into the binary.

use formats::pci::Ids;

use super::PciDevice;

/// Sorted lines, each a key and a name; `build.rs` describes the keys.
const NAMES: &str = include_str!(concat!(env!("OUT_DIR"), "/pci-names"));

/// Fills in the names of the ids; a name that the list lacks stays absent.
pub(super) fn set(ids: &Ids, device: &mut PciDevice) {
    device.class_name = ids.class.and_then(class);
    let Some(vendor) = ids.vendor else { return };
    let vendor = format!("{vendor:04x}");
    device.vendor_name = find(&vendor);
    let Some(id) = ids.device else { return };
    let key = format!("{vendor}{id:04x}");
    device.device_name = find(&key);
    let Some((vendor, id)) = ids.subvendor.zip(ids.subdevice) else { return };
    device.subsystem_name = find(&format!("{key}{vendor:04x}{id:04x}"));
}

/// The name of the subclass, else that of the class.
fn class(class: u32) -> Option<String> {
    let [_, base, sub, _] = class.to_be_bytes();
    find(&format!("C{base:02x}{sub:02x}")).or_else(|| find(&format!("C{base:02x}")))
}

/// The name in the line that begins with `key`.
fn find(key: &str) -> Option<String> {
    let key = format!("{key} ");
    let mut lines = NAMES;
    while !lines.is_empty() {
        let (before, after) = halves(lines);
        let (line, rest) = after.split_once('\n')?;
        if let Some(name) = line.strip_prefix(&key) {
            return Some(name.to_owned());
        }
        lines = if *line < *key { rest } else { before };
    }
    None
}

/// Splits before the line that contains the middle.
fn halves(lines: &str) -> (&str, &str) {
    let first = &lines.as_bytes()[..lines.len() / 2];
    let start = first.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
    lines.split_at(start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::has;
    use serde_json::json;

    fn named(ids: Ids) -> PciDevice {
        let mut device = PciDevice::default();
        set(&ids, &mut device);
        device
    }

    #[test]
    fn known_ids_have_names_and_unknown_ones_have_none() {
        let x520 = formats::pci::modalias("pci:v00008086d000010FBsv00008086sd0000000Cbc02sc00i00");
        let device = named(x520);
        has(&device, &json!({"class_name": "Ethernet controller"}));
        has(&device, &json!({"device_name": "82599ES 10-Gigabit SFI/SFP+ Network Connection"}));
        has(&device, &json!({"subsystem_name": "Ethernet Server Adapter X520-2"}));
        let unknown = named(Ids { class: Some(0x02_7f_00), device: Some(0xfffe), ..x520 });
        has(&unknown, &json!({"class_name": "Network controller", "device_name": null}));
        has(&unknown, &json!({"vendor_name": "Intel Corporation"}));
        assert_eq!(named(Ids { class: Some(0x77_00_00), ..Ids::default() }), PciDevice::default());
        let gone = Ids { vendor: Some(0xfff1), device: Some(1), ..Ids::default() };
        assert_eq!(named(gone), PciDevice::default());
    }

    #[test]
    fn list_is_whole_and_every_name_is_found_where_it_is_looked_for() {
        let (mut n_vendors, mut n_devices, mut n_classes) = (0, 0, 0);
        for line in NAMES.lines() {
            let (key, name) = line.split_once(' ').unwrap();
            assert_eq!(find(key).as_deref(), Some(name), "{key}");
            assert!(!name.is_empty() && !name.contains(char::is_control), "{line}");
            match key.len() {
                3 | 5 => n_classes += 1,
                4 => n_vendors += 1,
                8 => n_devices += 1,
                _ => assert_eq!(key.len(), 16, "{line}"),
            }
        }
        assert!(n_vendors > 2000 && n_devices > 15_000, "{n_vendors} {n_devices}");
        assert!(n_classes > 120 && NAMES.lines().count() > 35_000, "{n_classes}");
        assert!(NAMES.contains('®') && !NAMES.contains('\u{fffd}'));
    }
}
