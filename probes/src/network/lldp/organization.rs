//! Extensions of LLDP by the groups of IEEE 802.1 and 802.3: IEEE 802.1Q-2022 annex D,
//! IEEE 802.1AX-2020 annex F, IEEE 802.3-2022 clause 79.

use formats::hex::hex;
use formats::text::padded;

use formats::lldp::{IEEE_802_1, IEEE_802_3};

use super::frame::{push, u16_at};
use super::{LldpLinkAggregation, LldpMacPhy, LldpNeighbour, LldpVlan};

/// Valid VLAN numbers; 0 means none, 4095 is reserved.
const VLAN_IDS: std::ops::RangeInclusive<u16> = 1..=4094;

/// Applies the value of a part of type 127. Returns whether it was understood.
pub(super) fn apply(value: &[u8], neighbour: &mut LldpNeighbour) -> bool {
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
