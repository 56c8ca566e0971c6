//! A neighbour as an LLDP frame describes it (IEEE 802.1AB-2016, clause 8) with its extensions: IEEE 802.1Q-2022 annex D,
//! IEEE 802.1AX-2020 annex F, IEEE 802.3-2022 clause 79.

use std::net::{Ipv4Addr, Ipv6Addr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bytes::array;
use crate::hex::hex;
use crate::lldp::{self, IEEE_802_1, IEEE_802_3, tlvs};
use crate::text::padded;
use crate::{data, mac};

/// The largest number of entries kept in each list of a neighbour.
const LIMIT_ENTRIES: usize = 128;

/// Valid VLAN numbers; 0 means none, 4095 is reserved.
const VLAN_IDS: std::ops::RangeInclusive<u16> = 1..=4094;

/// A neighbour of a port, as it describes itself. What it does not send is absent.
#[serde_with::skip_serializing_none]
#[serde_with::apply(Vec => #[serde(skip_serializing_if = "Vec::is_empty")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LldpNeighbour {
    /// Identifies the device, in the form that `chassis_id_kind` names: a MAC or address as text, other
    /// kinds as the neighbour sends them (TLV 1, 8.5.2).
    pub chassis_id: String,
    /// `mac`, `network_address`, `interface_name`, `interface_alias`, `chassis_component`,
    /// `port_component` or `local`; the number of a kind that the standard reserves.
    pub chassis_id_kind: String,
    /// The port of the device into which this machine is plugged (TLV 2, 8.5.3).
    pub port_id: String,
    /// Like `chassis_id_kind`; also `agent_circuit_id`.
    pub port_id_kind: String,
    /// Time for which the information is valid, in s (TLV 3, 8.5.4).
    pub ttl_s: Option<u16>,
    /// The switch's description of the port, often set by an operator (TLV 4).
    pub port_description: Option<String>,
    /// Host name of the switch (TLV 5). It is not unique.
    pub system_name: Option<String>,
    /// Manufacturer, model and software version of the switch as free text (TLV 6).
    pub system_description: Option<String>,
    /// Functions that the device supports: `bridge`, `router`, `station_only`, … (TLV 7, table 8-4).
    pub capabilities: Vec<String>,
    /// The enabled ones of these.
    pub enabled_capabilities: Vec<String>,
    /// Management addresses of the switch (TLV 8, 8.5.9).
    pub management_addresses: Vec<LldpManagementAddress>,
    /// The VLAN of untagged frames; `None` if the switch sends 0, which means none or unknown
    /// (IEEE 802.1Q-2022, D.2.1).
    pub port_vlan_id: Option<u16>,
    /// VLANs by protocol (D.2.2).
    pub protocol_vlan_ids: Vec<u16>,
    /// The VLANs that the switch names, by number (D.2.3).
    pub vlans: Vec<LldpVlan>,
    /// The VLAN in which the switch is managed (D.2.6).
    pub management_vlan_id: Option<u16>,
    /// The switch's bundle for the port (IEEE 802.1AX-2020, F.1; on older switches
    /// IEEE 802.3-2012, 79.3.3).
    pub link_aggregation: Option<LldpLinkAggregation>,
    /// Largest frame that the switch accepts, in bytes, including header and checksum (IEEE 802.3-2022,
    /// 79.3.4). A switch with MTU 9000 reports 9018 or more.
    pub max_frame_bytes: Option<u16>,
    /// Autonegotiation of the switch's port (IEEE 802.3-2022, 79.3.1).
    pub mac_phy: Option<LldpMacPhy>,
    /// All other parts, in the order of the frame.
    pub other_tlvs: Vec<LldpTlv>,
    /// Source MAC of the frame, which is that of the switch's port.
    pub source_mac: Option<String>,
    /// The whole frame after the Ethernet header, in hexadecimal.
    pub lldpdu_hex: String,
}

/// An address under which a neighbour is managed.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LldpManagementAddress {
    /// The address as text; in hexadecimal if its family is neither IP nor MAC.
    pub address: String,
    /// `ipv4`, `ipv6`, `mac`, or the number that IANA gave the family.
    pub family: String,
    /// Number of the interface that has it; `None` if the neighbour sends none.
    pub interface_number: Option<u32>,
}

/// A VLAN that a neighbour names.
#[serde_with::skip_serializing_none]
#[derive(
    Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(default)]
pub struct LldpVlan {
    /// Its number.
    pub id: u16,
    /// Its name.
    pub name: Option<String>,
}

/// Link aggregation of a neighbour's port.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LldpLinkAggregation {
    /// True if the port can be part of a bundle.
    pub is_capable: bool,
    /// True if it is part of one now.
    pub is_enabled: bool,
    /// Number of the bundle; `None` if the port is in none.
    pub port_number: Option<u32>,
}

/// Autonegotiation of a neighbour's port.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LldpMacPhy {
    /// True if it can negotiate.
    pub is_autonegotiation_supported: bool,
    /// True if it does.
    pub is_autonegotiation_enabled: bool,
    /// Advertised modes: bits of `ifMauAutoNegCapAdvertisedBits` (RFC 4836), in hexadecimal.
    pub advertised_hex: String,
    /// Operating mode: number of `dot3MauType` (RFC 4836), e.g. 30 for 1000BASE-T full duplex.
    pub mau_type: Option<u16>,
}

/// A part of an LLDP frame that has no key of its own here.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LldpTlv {
    /// Type, 9 to 127.
    pub kind: u8,
    /// Owner of the extension (type 127), e.g. `0012bb` for LLDP-MED.
    pub oui: Option<String>,
    /// Number of the extension within its owner.
    pub subtype: Option<u8>,
    /// The rest of the value, in hexadecimal.
    pub hex: String,
}

/// The neighbour that a frame describes, if the frame identifies its sender, and the fault in the frame. The parts before
/// a damaged one are kept, those after it are lost.
pub fn parse(frame: &[u8]) -> (Option<LldpNeighbour>, Option<&'static str>) {
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
fn id(value: &[u8], kinds: &'static str) -> Option<(String, String)> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ethernet, has, mandatory, organization, survives_any_bytes, switch, tlv};
    use serde_json::json;

    fn parsed(frame: &[u8]) -> LldpNeighbour {
        super::parse(frame).0.unwrap()
    }

    /// The neighbour with these parts after the mandatory ones.
    fn with(parts: &[Vec<u8>]) -> LldpNeighbour {
        parsed(&ethernet(&[mandatory("1"), parts.to_vec()].concat()))
    }

    #[test]
    fn switch_port_and_vlan_are_read() {
        let found = parsed(&switch());
        has(&found, &json!({"chassis_id": "02:00:00:00:00:10", "chassis_id_kind": "mac"}));
        has(&found, &json!({"port_id": "Ethernet1/7", "port_id_kind": "interface_name"}));
        has(
            &found,
            &json!({"port_description": "rack 12 node 7", "system_name": "leaf-12.example"}),
        );
        has(&found, &json!({"system_description": "Switch OS 4.2\r\nmodel X", "ttl_s": 120}));
        has(
            &found,
            &json!({"capabilities": ["bridge", "router"], "enabled_capabilities": ["bridge"]}),
        );
        let [ipv4, ipv6] = found.management_addresses.as_slice() else { panic!("{found:?}") };
        has(ipv4, &json!({"family": "ipv4", "address": "192.0.2.1", "interface_number": 9}));
        has(ipv6, &json!({"family": "ipv6", "address": "fd02::1", "interface_number": null}));
        has(&found, &json!({"port_vlan_id": 100, "protocol_vlan_ids": [101]}));
        has(&found, &json!({"vlans": [{"id": 100, "name": "mgmt"}, {"id": 200, "name": "prod"}]}));
        has(&found, &json!({"max_frame_bytes": 9216, "source_mac": "02:00:00:00:00:11"}));
        has(&found, &json!({"management_vlan_id": 300}));
        let phy = found.mac_phy;
        has(
            &phy,
            &json!({"is_autonegotiation_supported": true, "is_autonegotiation_enabled": true}),
        );
        has(&phy, &json!({"advertised_hex": "6c01", "mau_type": 30}));
    }

    #[test]
    fn link_aggregation_of_802_1_takes_precedence_over_802_3() {
        let new = organization(IEEE_802_1, 7, &[3, 0, 0, 0, 5]);
        let old = organization(IEEE_802_3, 3, &[1, 0, 0, 0, 0]);
        for order in [[new.clone(), old.clone()], [old.clone(), new]] {
            has(&with(&order).link_aggregation, &json!({"is_enabled": true, "port_number": 5}));
        }
        let aggregation = with(&[old]).link_aggregation;
        has(&aggregation, &json!({"is_capable": true, "is_enabled": false, "port_number": null}));
    }

    #[test]
    fn unknown_parts_are_kept_in_hexadecimal() {
        let other = parsed(&switch()).other_tlvs;
        assert_eq!(other.len(), 2);
        has(&other[0], &json!({"oui": "0012bb", "subtype": 1, "hex": "000102"}));
        has(&other[1], &json!({"kind": 100, "hex": "ab"}));
    }

    #[test]
    fn interface_number_of_zero_and_invalid_untagged_vlan_are_absent() {
        let address = |number: u8| tlv(8, &[5, 1, 192, 0, 2, 1, 2, 0, 0, 0, number, 0]);
        for (number, expected) in [(0, None), (9, Some(9))] {
            let found = with(&[address(number)]);
            assert_eq!(found.management_addresses[0].interface_number, expected);
        }
        for id in [0_u16, 4095] {
            assert_eq!(with(&[organization(IEEE_802_1, 1, &id.to_be_bytes())]).port_vlan_id, None);
        }
    }

    #[test]
    fn ids_are_formatted_by_their_kind() {
        let id = |value: &[u8]| super::id(value, "lldp_port_id");
        let known = |text: &str, kind: &str| Some((text.to_owned(), kind.to_owned()));
        assert_eq!(id(&[3, 2, 0, 0, 0, 0, 1]), known("02:00:00:00:00:01", "mac"));
        assert_eq!(id(&[3, 2, 0, 0]), known("020000", "mac"));
        assert_eq!(id(&[4, 1, 192, 0, 2, 9]), known("192.0.2.9", "network_address"));
        assert_eq!(id(b"\x07 swp1 "), known("swp1", "local"));
        assert_eq!(id(&[7, 0xff, b'a']), known("\\xffa", "local"));
        assert_eq!(id(&[9, 1, 2]), known("0102", "9"));
        for none in [&[][..], &[5], &[4], &[4, 1], b"\x05 \0"] {
            assert_eq!(id(none), None, "{none:?}");
        }
    }

    #[test]
    fn damaged_frame_keeps_the_parts_before_the_damage() {
        let whole = ethernet(&mandatory("1"));
        let mut cut = [&mandatory("1").concat()[..], &[10 << 1 | 1, 0xff, b'x']].concat();
        cut.splice(..0, whole[..14].to_vec());
        let found = super::parse(&cut);
        assert_eq!(found.0.unwrap().port_id, "1");
        assert!(found.1.unwrap().contains("longer than the frame"));
        for bad in [&whole[..16], &[0; 60][..], &[]] {
            let found = super::parse(bad);
            assert!(found.0.is_none() && found.1.is_some());
        }
    }

    #[test]
    fn hostile_frames_are_bounded_and_never_panic() {
        survives_any_bytes(&switch(), |bytes| drop(super::parse(bytes)));
        let many = vec![organization([1, 2, 3], 4, &[]); 300];
        assert_eq!(with(&many).other_tlvs.len(), LIMIT_ENTRIES);
    }
}
