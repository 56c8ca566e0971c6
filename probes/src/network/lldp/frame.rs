//! An LLDP frame: an Ethernet header, then parts of type, length and value (IEEE 802.1AB-2016,
//! clause 8). Anyone on the wire can send one, so nothing in it is believed.

use formats::hex::hex;

use super::{LldpManagementAddress, LldpNeighbour, LldpTlv, id, organization};
use crate::network::mac;

const ETHERTYPE_LLDP: u16 = 0x88cc;
/// IEEE 802.1Q tags in front of the type.
const ETHERTYPE_TAGS: [u16; 2] = [0x8100, 0x88a8];
/// At most so many entries are kept of each list of a neighbour.
pub(super) const LIMIT_ENTRIES: usize = 128;

/// Capabilities by bit (table 8-4).
const CAPABILITIES: [&str; 11] = [
    "other",
    "repeater",
    "bridge",
    "wlan_access_point",
    "router",
    "telephone",
    "docsis_cable_device",
    "station_only",
    "c_vlan_component",
    "s_vlan_component",
    "two_port_mac_relay",
];

/// What a frame says, and what is wrong with it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Parsed {
    /// `None` where the frame does not name its sender.
    pub(super) neighbour: Option<LldpNeighbour>,
    pub(super) complaint: Option<&'static str>,
}

/// Reads a frame. What follows a damaged part is lost; what came before it is kept.
pub(super) fn parse(frame: &[u8]) -> Parsed {
    let Some((source, lldpdu)) = split_header(frame) else {
        return Parsed { neighbour: None, complaint: Some("an Ethernet frame of another type") };
    };
    let mut neighbour = LldpNeighbour {
        source_mac: mac::of_bytes(source),
        lldpdu_hex: hex(lldpdu),
        ..LldpNeighbour::default()
    };
    let complaint = fill(lldpdu, &mut neighbour);
    if neighbour.chassis_id_kind.is_empty() || neighbour.port_id_kind.is_empty() {
        let complaint = complaint.unwrap_or("a frame that does not name chassis and port");
        return Parsed { neighbour: None, complaint: Some(complaint) };
    }
    neighbour.vlans.sort();
    neighbour.vlans.dedup();
    Parsed { neighbour: Some(neighbour), complaint }
}

/// The source address, and what is behind the header.
fn split_header(frame: &[u8]) -> Option<(&[u8], &[u8])> {
    let source = frame.get(6..12)?;
    let mut rest = frame.get(12..)?;
    loop {
        let (ethertype, behind) = rest.split_first_chunk::<2>()?;
        match u16::from_be_bytes(*ethertype) {
            ETHERTYPE_LLDP => return Some((source, behind)),
            tag if ETHERTYPE_TAGS.contains(&tag) => rest = behind.get(2..)?,
            _ => return None,
        }
    }
}

/// Walks the parts up to the end; says what is wrong with them.
fn fill(lldpdu: &[u8], neighbour: &mut LldpNeighbour) -> Option<&'static str> {
    const END: u8 = 0;
    let mut rest = lldpdu;
    while let Some((head, behind)) = rest.split_first_chunk::<2>() {
        let head = u16::from_be_bytes(*head);
        let kind = head.to_be_bytes()[0] >> 1;
        let length = usize::from(head & 0x1ff);
        if kind == END {
            // Bytes behind it only fill the frame up to Ethernet's 60.
            return None;
        }
        let Some((value, behind)) = behind.split_at_checked(length) else {
            return Some("a part that is longer than the frame");
        };
        take(kind, value, neighbour);
        rest = behind;
    }
    // The end part may be left out where the frame is full (8.5.1).
    (!rest.is_empty()).then_some("a byte behind the last part")
}

fn take(kind: u8, value: &[u8], neighbour: &mut LldpNeighbour) {
    match kind {
        // The first counts where a frame has several (9.2.7.7.1 would drop the whole frame).
        1 if neighbour.chassis_id_kind.is_empty() => {
            if let Some((id, kind)) = id::parse(value, &id::CHASSIS_KINDS) {
                (neighbour.chassis_id, neighbour.chassis_id_kind) = (id, kind);
            }
        }
        2 if neighbour.port_id_kind.is_empty() => {
            if let Some((id, kind)) = id::parse(value, &id::PORT_KINDS) {
                (neighbour.port_id, neighbour.port_id_kind) = (id, kind);
            }
        }
        3 if neighbour.ttl_s.is_none() => neighbour.ttl_s = u16_at(value, 0),
        4 => neighbour.port_description = id::text(value),
        5 => neighbour.system_name = id::text(value),
        6 => neighbour.system_description = id::text(value),
        7 => {
            neighbour.capabilities = u16_at(value, 0).map(capabilities).unwrap_or_default();
            neighbour.enabled_capabilities = u16_at(value, 2).map(capabilities).unwrap_or_default();
        }
        8 => push(&mut neighbour.management_addresses, management_address(value)),
        1..=3 => {}
        127 if organization::take(value, neighbour) => {}
        kind => push(&mut neighbour.other_tlvs, Some(other(kind, value))),
    }
}

/// Adds an entry, unless the list is full.
pub(super) fn push<T>(list: &mut Vec<T>, entry: Option<T>) {
    if list.len() < LIMIT_ENTRIES {
        list.extend(entry);
    }
}

fn capabilities(bits: u16) -> Vec<String> {
    let names = CAPABILITIES.iter().enumerate().filter(|(bit, _)| bits >> bit & 1 == 1);
    names.map(|(_, name)| (*name).to_owned()).collect()
}

/// Length, family and address, then how interfaces are numbered, and the number (8.5.9).
fn management_address(value: &[u8]) -> Option<LldpManagementAddress> {
    const NUMBERING_UNKNOWN: u8 = 1;
    let (length, behind) = value.split_first()?;
    let (bytes, behind) = behind.split_at_checked(usize::from(*length))?;
    let (family, address) = id::address(bytes)?;
    let number = behind.split_first().and_then(|(numbering, behind)| {
        let number = u32::from_be_bytes(*behind.first_chunk::<4>()?);
        // No interface has the number 0 (RFC 2863, InterfaceIndex).
        (*numbering != NUMBERING_UNKNOWN && number != 0).then_some(number)
    });
    Some(LldpManagementAddress { address, family, interface_number: number })
}

fn other(kind: u8, value: &[u8]) -> LldpTlv {
    const ORGANIZATION: u8 = 127;
    match value.split_first_chunk::<4>() {
        Some(([a, b, c, subtype], behind)) if kind == ORGANIZATION => LldpTlv {
            kind,
            oui: Some(hex(&[*a, *b, *c])),
            subtype: Some(*subtype),
            hex: hex(behind),
        },
        _ => LldpTlv { kind, oui: None, subtype: None, hex: hex(value) },
    }
}

/// The `u16` at `offset`, as it goes over the wire.
pub(super) fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    bytes.get(offset..)?.first_chunk::<2>().map(|bytes| u16::from_be_bytes(*bytes))
}
