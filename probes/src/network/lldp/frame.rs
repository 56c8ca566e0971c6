//! Parses an LLDP frame (IEEE 802.1AB-2016, clause 8).

use formats::bytes::array;
use formats::lldp::{self, tlvs};

use formats::hex::hex;
use formats::text::padded;

use super::{LldpManagementAddress, LldpNeighbour, LldpTlv, id, organization};
use crate::data;
use crate::network::mac;

/// The largest number of entries kept in each list of a neighbour.
pub(super) const LIMIT_ENTRIES: usize = 128;

/// The neighbour that a frame describes, and the fault in the frame.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Parsed {
    /// `None` if the frame does not identify its sender.
    pub(super) neighbour: Option<LldpNeighbour>,
    pub(super) complaint: Option<&'static str>,
}

/// Reads a frame. The parts before a damaged one are kept, those after it are lost.
pub(super) fn parse(frame: &[u8]) -> Parsed {
    let Some(lldp::Frame { source, lldpdu, .. }) = lldp::frame(frame) else {
        return Parsed { neighbour: None, complaint: Some("an Ethernet frame of another type") };
    };
    let mut neighbour = LldpNeighbour {
        source_mac: mac::of_bytes(source),
        lldpdu_hex: hex(lldpdu),
        ..LldpNeighbour::default()
    };
    let mut parts = tlvs(lldpdu);
    parts.by_ref().for_each(|part| apply(part.kind, part.value, &mut neighbour));
    let complaint = parts.complaint;
    if neighbour.chassis_id_kind.is_empty() || neighbour.port_id_kind.is_empty() {
        let complaint = complaint.unwrap_or("a frame that does not name chassis and port");
        return Parsed { neighbour: None, complaint: Some(complaint) };
    }
    neighbour.vlans.sort();
    neighbour.vlans.dedup();
    Parsed { neighbour: Some(neighbour), complaint }
}

fn apply(kind: u8, value: &[u8], neighbour: &mut LldpNeighbour) {
    match kind {
        // If a frame has several, the first one counts (9.2.7.7.1 would drop the whole frame).
        lldp::CHASSIS_ID if neighbour.chassis_id_kind.is_empty() => {
            if let Some((id, kind)) = id::parse(value, "lldp_chassis_id") {
                (neighbour.chassis_id, neighbour.chassis_id_kind) = (id, kind);
            }
        }
        lldp::PORT_ID if neighbour.port_id_kind.is_empty() => {
            if let Some((id, kind)) = id::parse(value, "lldp_port_id") {
                (neighbour.port_id, neighbour.port_id_kind) = (id, kind);
            }
        }
        lldp::TTL if neighbour.ttl_s.is_none() => neighbour.ttl_s = u16_at(value, 0),
        lldp::PORT_DESCRIPTION => neighbour.port_description = padded(value),
        lldp::SYSTEM_NAME => neighbour.system_name = padded(value),
        lldp::SYSTEM_DESCRIPTION => neighbour.system_description = padded(value),
        lldp::CAPABILITIES => {
            neighbour.capabilities = u16_at(value, 0).map(capabilities).unwrap_or_default();
            neighbour.enabled_capabilities = u16_at(value, 2).map(capabilities).unwrap_or_default();
        }
        lldp::MANAGEMENT_ADDRESS => {
            push(&mut neighbour.management_addresses, management_address(value));
        }
        lldp::CHASSIS_ID..=lldp::TTL => {}
        lldp::ORGANIZATION if organization::apply(value, neighbour) => {}
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
    data::names("lldp_capability", |bit| bits >> bit & 1 == 1)
}

/// Length, family and address, then the interface numbering scheme and the number (8.5.9).
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
    let (oui, subtype, rest) = match value.split_first_chunk::<4>() {
        Some(([oui @ .., subtype], rest)) if kind == lldp::ORGANIZATION => {
            (Some(hex(oui)), Some(*subtype), rest)
        }
        _ => (None, None, value),
    };
    LldpTlv { kind, oui, subtype, hex: hex(rest) }
}

/// The big-endian `u16` at `offset`.
pub(super) fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    array(bytes, offset).map(u16::from_be_bytes)
}
