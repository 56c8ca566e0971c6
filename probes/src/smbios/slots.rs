//! Slots for cards: SMBIOS type 9, System Slots (DSP0134 3.7, section 7.10).

use formats::data;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::types::SMBiosSystemSlot;
use super::{Smbios, named, pci_address, text};

/// A slot of the board or a riser, with a card or without.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Slot {
    /// The label printed next to it, e.g. `PCIe Slot 3` (offset 04h).
    pub designation: Option<String>,
    /// The cards that fit, e.g. `PCI Express 4 x16`, `M.2 Socket 3`, `OCP NIC 3.0` (05h); `None` where the
    /// firmware calls it other or unknown, or gives a number without a name here.
    pub kind: Option<String>,
    /// Number of the type (05h).
    pub kind_code: Option<u8>,
    /// Lanes that are wired (06h); `None` for parallel buses and where it is not known.
    pub n_lanes: Option<u8>,
    /// Lanes for which the connector has room (since SMBIOS 3.4).
    pub n_physical_lanes: Option<u8>,
    /// Largest length of a card: `short`, `long`, or the drive bay that the slot is, `2.5-inch drive` or
    /// `3.5-inch drive` (08h).
    pub length: Option<String>,
    /// Largest height of a card: `full height` or `low profile` (since SMBIOS 3.5).
    pub height: Option<String>,
    /// Distance to the next slot, in hundredths of a mm (since SMBIOS 3.4).
    pub pitch_mm_x100: Option<u16>,
    /// `available`, `in use` or `unavailable`, e.g. for want of a second processor (07h).
    pub usage: Option<String>,
    /// The maker's number of the slot (09h).
    pub id: Option<u16>,
    /// True if cards may be changed while the machine runs (0Ch, bit 1).
    pub is_hot_pluggable: Option<bool>,
    /// PCI address that the firmware names for it (0Dh to 10h): of the card's first function with
    /// most makers, of the port above the card with others.
    pub pci_address: Option<String>,
}

/// The slots, in table order.
pub fn slots(table: &Smbios) -> Vec<Slot> {
    table.all().map(|entry| slot(&entry)).collect()
}

fn slot(entry: &SMBiosSystemSlot) -> Slot {
    let code = entry.system_slot_type().map(|code| code.raw);
    // Slots of other buses have no PCI address, whatever the table holds there.
    let has_address = code.is_some_and(|code| matches!(code, 0x06 | 0x0e..=0x30 | 0xa5..=0xc6));
    let flags = entry.slot_characteristics_2();
    Slot {
        designation: text(&entry.slot_designation()),
        kind: code.and_then(|code| kind(code, entry.slot_information())),
        kind_code: code.filter(|code| *code != 0),
        n_lanes: entry.slot_data_bus_width().and_then(|width| n_lanes(width.raw)),
        n_physical_lanes: entry.slot_physical_width().and_then(|width| n_lanes(width.raw)),
        length: named(entry, 0x08, "slot.length"),
        height: entry.slot_height().and_then(|code| data::named("slot.height", code.raw)),
        pitch_mm_x100: entry.slot_pitch().filter(|pitch| !matches!(pitch, 0 | 0xffff)),
        usage: named(entry, 0x07, "slot.usage"),
        id: entry.slot_id().map(|id| u16::from_le_bytes(*id)),
        is_hot_pluggable: flags.map(|flags| flags.supports_hot_plug_devices()),
        pci_address: pci_address(entry, 0x0d).filter(|_| has_address),
    }
}

fn n_lanes(width: u8) -> Option<u8> {
    data::name("slot.lanes", width)?.parse().ok()
}

/// The name of a slot's type (table 7.10.1). From PCI Express 6 on all generations have one number, and the byte of slot
/// information says which it is.
fn kind(code: u8, information: Option<u8>) -> Option<String> {
    match code {
        0xc4 => information.filter(|n| *n >= 6).map(|n| format!("PCI Express {n}")),
        _ => data::named("slot", code),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smbios::tests::{smbios, structure};
    use crate::testing::has;
    use serde_json::json;

    /// A slot of SMBIOS 3.4 with one peer group.
    fn fields(kind: u8, address: [u8; 4]) -> Vec<u8> {
        let mut fields = vec![1, kind, 0x0b, 4, 4, 3, 0, 4, 2];
        fields.extend(address);
        fields.extend([0x0b, 1, 0, 0, 0x3b, 1, 0x0b, 0, 0x0d, 0, 0]);
        fields
    }

    fn of(fields: &[u8]) -> Slot {
        slots(&smbios(&[structure(9, fields, &[b"PCIe Slot 3"])])).remove(0)
    }

    #[test]
    fn slot_has_its_printed_label_and_the_address_of_its_card() {
        let slot = of(&fields(0xbd, [0, 0, 0x3b, 0x08]));
        has(&slot, &json!({"designation": "PCIe Slot 3", "kind": "PCI Express 4 x16", "id": 3}));
        has(&slot, &json!({"n_lanes": 8, "n_physical_lanes": 16, "usage": "in use"}));
        has(&slot, &json!({"length": "long", "height": null, "pitch_mm_x100": null}));
        has(&slot, &json!({"is_hot_pluggable": true, "pci_address": "0000:3b:01.0"}));
        let mut newer = fields(0xc4, [0, 0, 0x3b, 0x08]);
        (newer[0x18 - 4], newer[0x1a - 4]) = (6, 0xf4);
        newer.push(4);
        newer[0x1b - 4] = 7;
        let newer = of(&newer);
        let expected =
            json!({"kind": "PCI Express 6", "height": "low profile", "pitch_mm_x100": 0x7f4});
        has(&newer, &expected);
    }

    #[test]
    fn a_slot_without_a_bus_address_has_none() {
        assert_eq!(of(&fields(0xbd, [0xff; 4])).pci_address, None);
        assert_eq!(of(&fields(0xbd, [0, 0, 0xff, 0xff])).pci_address, None);
        assert_eq!(of(&fields(0x03, [0, 0, 3, 0])).pci_address, None, "ISA has no such address");
        let old = of(&[1, 6, 5, 3, 3, 1, 0]);
        has(&old, &json!({"kind": "PCI", "usage": "available", "pci_address": null}));
        has(&old, &json!({"is_hot_pluggable": null, "n_lanes": null}));
    }

    #[test]
    fn every_length_of_the_structure_is_read_without_a_panic() {
        let whole = fields(0xc3, [0, 0, 1, 0]);
        for length in 0..whole.len() {
            assert_eq!(slots(&smbios(&[structure(9, &whole[..length], &[])])).len(), 1);
        }
        let kind_of = |code| kind(code, Some(7));
        assert_eq!(kind_of(0xa5).as_deref(), Some("PCI Express 1"));
        assert_eq!(kind_of(0xc3).as_deref(), Some("PCI Express 5 x16"));
        assert_eq!((kind_of(0xb7), kind_of(1), kind_of(2)), (None, None, None));
        assert_eq!((kind_of(0xc4).as_deref(), kind(0xc4, None)), (Some("PCI Express 7"), None));
    }
}
