//! Parses an LLDP frame (IEEE 802.1AB-2016, clause 8) with its extensions: IEEE 802.1Q-2022 annex D,
//! IEEE 802.1AX-2020 annex F, IEEE 802.3-2022 clause 79.

use std::net::{Ipv4Addr, Ipv6Addr};

use formats::bytes::array;
use formats::data;
use formats::hex::hex;
use formats::lldp::{self, IEEE_802_1, IEEE_802_3, tlvs};
use formats::text::padded;

use super::{
    LldpLinkAggregation, LldpMacPhy, LldpManagementAddress, LldpNeighbour, LldpTlv, LldpVlan,
};
use crate::network::mac;

/// The largest number of entries kept in each list of a neighbour.
pub(super) const LIMIT_ENTRIES: usize = 128;

/// Valid VLAN numbers; 0 means none, 4095 is reserved.
const VLAN_IDS: std::ops::RangeInclusive<u16> = 1..=4094;

/// The neighbour that a frame describes, if the frame identifies its sender, and the fault in the frame. The parts before
/// a damaged one are kept, those after it are lost.
pub(super) fn parse(frame: &[u8]) -> (Option<LldpNeighbour>, Option<&'static str>) {
    let Some(lldp::Frame { source, lldpdu, .. }) = lldp::frame(frame) else {
        return (None, Some("an Ethernet frame of another type"));
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
        return (None, complaint.or(Some("a frame that does not name chassis and port")));
    }
    neighbour.vlans.sort();
    neighbour.vlans.dedup();
    (Some(neighbour), complaint)
}

fn apply(kind: u8, value: &[u8], neighbour: &mut LldpNeighbour) {
    match kind {
        // If a frame has several, the first one counts (9.2.7.7.1 would drop the whole frame).
        lldp::CHASSIS_ID if neighbour.chassis_id_kind.is_empty() => {
            (neighbour.chassis_id, neighbour.chassis_id_kind) =
                id(value, "lldp_chassis_id").unwrap_or_default();
        }
        lldp::PORT_ID if neighbour.port_id_kind.is_empty() => {
            (neighbour.port_id, neighbour.port_id_kind) =
                id(value, "lldp_port_id").unwrap_or_default();
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
        lldp::ORGANIZATION if organization(value, neighbour) => {}
        kind => push(&mut neighbour.other_tlvs, Some(other(kind, value))),
    }
}

/// Adds an entry, unless the list is full.
fn push<T>(list: &mut Vec<T>, entry: Option<T>) {
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
    let (family, address) = address(bytes)?;
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
fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    array(bytes, offset).map(u16::from_be_bytes)
}

/// The id and its kind, by the number of the kind in the table `kinds`; `None` if there is no id.
pub(super) fn id(value: &[u8], kinds: &'static str) -> Option<(String, String)> {
    let (kind, id) = value.split_first()?;
    if id.is_empty() {
        return None;
    }
    let name = data::named(kinds, *kind);
    let text = match name.as_deref() {
        Some("mac") => mac::of_bytes(id).unwrap_or_else(|| hex(id)),
        Some("network_address") => address(id)?.1,
        Some(_) => padded(id)?,
        None => hex(id),
    };
    Some((text, name.unwrap_or_else(|| kind.to_string())))
}

/// The family and text of an address, which follows its IANA address family number.
fn address(value: &[u8]) -> Option<(String, String)> {
    const IPV4: u8 = 1;
    const IPV6: u8 = 2;
    const MAC: u8 = 6;
    let (family, bytes) = value.split_first()?;
    if bytes.is_empty() {
        return None;
    }
    let known = match *family {
        IPV4 => <[u8; 4]>::try_from(bytes).ok().map(|b| ("ipv4", Ipv4Addr::from(b).to_string())),
        IPV6 => <[u8; 16]>::try_from(bytes).ok().map(|b| ("ipv6", Ipv6Addr::from(b).to_string())),
        MAC => mac::of_bytes(bytes).map(|text| ("mac", text)),
        _ => None,
    };
    let (family, text) = match known {
        Some((family, text)) => (family.to_owned(), text),
        None => (family.to_string(), hex(bytes)),
    };
    Some((family, text))
}

/// Applies the value of a part of type 127 of the groups of IEEE 802.1 and 802.3. Returns whether it was understood.
fn organization(value: &[u8], neighbour: &mut LldpNeighbour) -> bool {
    let Some(([a, b, c, subtype], content)) = value.split_first_chunk::<4>() else { return false };
    let applied = match [*a, *b, *c] {
        IEEE_802_1 => ieee_802_1(*subtype, content, neighbour),
        IEEE_802_3 => ieee_802_3(*subtype, content, neighbour),
        _ => None,
    };
    applied.is_some()
}

fn ieee_802_1(subtype: u8, content: &[u8], neighbour: &mut LldpNeighbour) -> Option<()> {
    let vlan_id = |id: u16| Some(id).filter(|id| VLAN_IDS.contains(id));
    match subtype {
        1 => neighbour.port_vlan_id = vlan_id(u16_at(content, 0)?),
        2 => push(&mut neighbour.protocol_vlan_ids, vlan_id(u16_at(content, 1)?)),
        3 => {
            let id = u16_at(content, 0)?;
            let length = usize::from(*content.get(2)?);
            let name = padded(content.get(3..)?.get(..length)?);
            push(&mut neighbour.vlans, vlan_id(id).map(|id| LldpVlan { id, name }));
        }
        6 => neighbour.management_vlan_id = vlan_id(u16_at(content, 0)?),
        7 => neighbour.link_aggregation = Some(link_aggregation(content)?),
        _ => return None,
    }
    Some(())
}

fn ieee_802_3(subtype: u8, content: &[u8], neighbour: &mut LldpNeighbour) -> Option<()> {
    match subtype {
        1 => neighbour.mac_phy = Some(mac_phy(content)?),
        // Replaced by the TLV of 802.1AX, which takes precedence if a frame has both.
        3 => {
            let old = link_aggregation(content)?;
            neighbour.link_aggregation.get_or_insert(old);
        }
        4 => neighbour.max_frame_bytes = Some(u16_at(content, 0)?).filter(|bytes| *bytes != 0),
        _ => return None,
    }
    Some(())
}

fn link_aggregation(content: &[u8]) -> Option<LldpLinkAggregation> {
    let (status, rest) = content.split_first()?;
    let number = u32::from_be_bytes(*rest.first_chunk::<4>()?);
    Some(LldpLinkAggregation {
        is_capable: status & 1 != 0,
        is_enabled: status & 2 != 0,
        port_number: Some(number).filter(|number| *number != 0),
    })
}

fn mac_phy(content: &[u8]) -> Option<LldpMacPhy> {
    let [status, high, low, mau_high, mau_low] = *content.first_chunk::<5>()?;
    Some(LldpMacPhy {
        is_autonegotiation_supported: status & 1 != 0,
        is_autonegotiation_enabled: status & 2 != 0,
        advertised_hex: hex(&[high, low]),
        mau_type: Some(u16::from_be_bytes([mau_high, mau_low])).filter(|kind| *kind != 0),
    })
}
