//! Slots for cards: SMBIOS type 9, System Slots (DSP0134 3.7, section 7.10).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Smbios, Structure, pci_address};

/// A slot of the board or a riser, with a card or without.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Slot {
    /// The label printed next to it, e.g. `PCIe Slot 3` (offset 04h).
    pub designation: Option<String>,
    /// What fits, e.g. `PCI Express 4 x16`, `M.2 Socket 3`, `OCP NIC 3.0` (05h); `None` where the
    /// firmware calls it other or unknown, or gives a number without a name here.
    pub kind: Option<String>,
    /// Number of the type (05h).
    pub kind_code: Option<u8>,
    /// Lanes that are wired (06h); `None` for parallel buses and where it is not known.
    pub n_lanes: Option<u8>,
    /// Lanes for which the connector has room (since SMBIOS 3.4).
    pub n_physical_lanes: Option<u8>,
    /// How long a card may be: `short`, `long`, or the drive bay that the slot is, `2.5-inch drive` or
    /// `3.5-inch drive` (08h).
    pub length: Option<String>,
    /// How high a card may be: `full height` or `low profile` (since SMBIOS 3.5).
    pub height: Option<String>,
    /// Distance to the next slot, in hundredths of a mm (since SMBIOS 3.4).
    pub pitch_mm_x100: Option<u16>,
    /// `available`, `in use` or `unavailable`, e.g. for want of a second processor (07h).
    pub usage: Option<String>,
    /// The maker's number of the slot (09h).
    pub id: Option<u16>,
    /// Whether cards may be changed while the machine runs (0Ch, bit 1).
    pub is_hot_pluggable: Option<bool>,
    /// PCI address that the firmware names for it (0Dh to 10h): of the card's first function with
    /// most makers, of the port above the card with others.
    pub pci_address: Option<String>,
}

/// The slots, in table order.
#[must_use]
pub fn slots(table: &Smbios) -> Vec<Slot> {
    table.of_kind(9).map(slot).collect()
}

fn slot(entry: &Structure) -> Slot {
    let code = entry.byte(0x05);
    // After the peer groups: five bytes each, their number in the byte at 12h.
    let n_peers = entry.byte(0x12).map(usize::from);
    let behind = |offset: usize| n_peers.map(|n| offset + 5 * n);
    let physical = behind(0x14).and_then(|at| entry.byte(at));
    let generation = behind(0x13).and_then(|at| entry.byte(at));
    let pitch = behind(0x15).and_then(|at| entry.word(at));
    Slot {
        designation: entry.string(0x04),
        kind: code.and_then(|code| kind(code, generation)),
        kind_code: code.filter(|code| *code != 0),
        n_lanes: entry.byte(0x06).and_then(n_lanes),
        n_physical_lanes: physical.and_then(n_lanes),
        length: entry.byte(0x08).and_then(length).map(str::to_owned),
        height: behind(0x17).and_then(|at| height(entry.byte(at)?)).map(str::to_owned),
        pitch_mm_x100: pitch.filter(|pitch| !matches!(pitch, 0 | 0xffff)),
        usage: entry.byte(0x07).and_then(usage).map(str::to_owned),
        id: entry.word(0x09),
        is_hot_pluggable: entry.byte(0x0c).map(|flags| flags & 0x02 != 0),
        pci_address: pci_address(entry, 0x0d).filter(|_| code.is_some_and(has_address)),
    }
}

/// Slots of other buses have no PCI address, whatever the table holds there.
fn has_address(code: u8) -> bool {
    matches!(code, 0x06 | 0x0e..=0x30 | 0xa5..=0xc6)
}

fn n_lanes(code: u8) -> Option<u8> {
    match code {
        0x08 => Some(1),
        0x09 => Some(2),
        0x0a => Some(4),
        0x0b => Some(8),
        0x0c => Some(12),
        0x0d => Some(16),
        0x0e => Some(32),
        _ => None,
    }
}

fn usage(code: u8) -> Option<&'static str> {
    match code {
        3 => Some("available"),
        4 => Some("in use"),
        5 => Some("unavailable"),
        _ => None,
    }
}

fn length(code: u8) -> Option<&'static str> {
    match code {
        3 => Some("short"),
        4 => Some("long"),
        5 => Some("2.5-inch drive"),
        6 => Some("3.5-inch drive"),
        _ => None,
    }
}

fn height(code: u8) -> Option<&'static str> {
    match code {
        3 => Some("full height"),
        4 => Some("low profile"),
        _ => None,
    }
}

/// The name of a slot's type (table 7.10.1). From PCI Express 6 on all generations have one number,
/// and the byte of slot information says which it is.
fn kind(code: u8, generation: Option<u8>) -> Option<String> {
    let name = match code {
        0x03 => "ISA",
        0x05 => "EISA",
        0x06 | 0x0e => "PCI",
        0x0f | 0x10 | 0x11 | 0x13 => "AGP",
        0x12 => "PCI-X",
        0x14 => "M.2 Socket 1-DP",
        0x15 => "M.2 Socket 1-SD",
        0x16 => "M.2 Socket 2",
        0x17 => "M.2 Socket 3",
        0x18..=0x1e => "MXM",
        0x1f => "PCI Express 2 U.2",
        0x20 => "PCI Express 3 U.2",
        0x21..=0x23 => "PCI Express Mini",
        0x24 => "PCI Express 4 U.2",
        0x25 => "PCI Express 5 U.2",
        0x26 | 0x27 => "OCP NIC 3.0",
        0x28 => "OCP NIC before 3.0",
        0x30 => "CXL Flexbus 1.0",
        0xc4 => return generation.filter(|n| *n >= 6).map(|n| format!("PCI Express {n}")),
        0xc5 => "EDSFF E1",
        0xc6 => "EDSFF E3",
        _ => return pci_express(code),
    };
    Some(name.to_owned())
}

/// Each generation has six numbers: any width, then x1, x2, x4, x8 and x16.
fn pci_express(code: u8) -> Option<String> {
    let (generation, first) = match code {
        0xa5..=0xaa => (1, 0xa5),
        0xab..=0xb0 => (2, 0xab),
        0xb1..=0xb6 => (3, 0xb1),
        0xb8..=0xbd => (4, 0xb8),
        0xbe..=0xc3 => (5, 0xbe),
        _ => return None,
    };
    let width = match code - first {
        0 => String::new(),
        n => format!(" x{}", 1 << (n - 1)),
    };
    Some(format!("PCI Express {generation}{width}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smbios::tests::{smbios, structure};

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
        assert_eq!(slot.designation.as_deref(), Some("PCIe Slot 3"));
        assert_eq!(slot.kind.as_deref(), Some("PCI Express 4 x16"));
        assert_eq!((slot.n_lanes, slot.n_physical_lanes), (Some(8), Some(16)));
        assert_eq!((slot.usage.as_deref(), slot.id), (Some("in use"), Some(3)));
        assert_eq!(
            (slot.length.as_deref(), slot.height, slot.pitch_mm_x100),
            (Some("long"), None, None)
        );
        let mut newer = fields(0xc4, [0, 0, 0x3b, 0x08]);
        (newer[0x18 - 4], newer[0x1a - 4]) = (6, 0xf4);
        newer.push(4);
        newer[0x1b - 4] = 7;
        let newer = of(&newer);
        assert_eq!(newer.kind.as_deref(), Some("PCI Express 6"));
        assert_eq!(
            (newer.height.as_deref(), newer.pitch_mm_x100),
            (Some("low profile"), Some(0x7f4))
        );
        assert_eq!(slot.is_hot_pluggable, Some(true));
        assert_eq!(slot.pci_address.as_deref(), Some("0000:3b:01.0"));
    }

    #[test]
    fn a_slot_without_a_bus_address_has_none() {
        assert_eq!(of(&fields(0xbd, [0xff; 4])).pci_address, None);
        assert_eq!(of(&fields(0xbd, [0, 0, 0xff, 0xff])).pci_address, None);
        assert_eq!(of(&fields(0x03, [0, 0, 3, 0])).pci_address, None, "ISA has no such address");
        let old = of(&[1, 6, 5, 3, 3, 1, 0]);
        assert_eq!((old.kind.as_deref(), old.usage.as_deref()), (Some("PCI"), Some("available")));
        assert_eq!((old.pci_address, old.is_hot_pluggable, old.n_lanes), (None, None, None));
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
