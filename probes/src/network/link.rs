//! Links as rtnetlink lists them: `RTM_NEWLINK` (`rtnetlink(7)`, `uapi/linux/if_link.h`).

use super::interface::Interface;
use formats::netlink as wire;
use formats::{data, mac};

const RTM_NEWLINK: u16 = 16;
/// Length of `struct ifinfomsg`.
const HEADER_BYTES: usize = 16;
/// `IFF_UP` and `IFF_LOOPBACK`.
pub(super) const FLAG_UP: u32 = 1;
pub(super) const FLAG_LOOPBACK: u32 = 8;

/// One link. A field is absent if the message does not contain it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) index: u32,
    /// `ARPHRD_…`: 1 for Ethernet.
    pub(super) device_type: u16,
    pub(super) flags: Option<u32>,
    /// Name, kind, addresses and state. The permanent MAC is the device's own or the one that a bond remembers for its
    /// member; the kind is `IFLA_INFO_KIND`, which a physical port does not have.
    pub(super) facts: Interface,
    pub(super) master_index: Option<u32>,
    /// The link below it, if that is in the same network namespace.
    pub(super) lower_index: Option<u32>,
    /// Bus of the underlying device, Linux 5.14.
    pub(super) parent_bus: Option<String>,
    /// Mode of a bond, by number.
    pub(super) bond_mode: Option<u8>,
}

impl Link {
    /// True if this flag is set.
    pub(super) fn has(&self, flag: u32) -> bool {
        self.flags.is_some_and(|flags| flags & flag != 0)
    }
}

/// Reads the links of a dump and skips damaged messages.
pub(super) fn parse(dump: &[u8]) -> Vec<Link> {
    let links = wire::messages(dump).filter(|message| message.kind == RTM_NEWLINK);
    links.filter_map(|message| parse_link(message.payload)).collect()
}

fn parse_link(payload: &[u8]) -> Option<Link> {
    let (index, flags) = (wire::u32_at(payload, 4)?, wire::u32_at(payload, 8)?);
    let device_type = wire::u16_at(payload, 2)?;
    let mut link = Link { index, flags: Some(flags), device_type, ..Link::default() };
    let (mut lower, mut is_foreign) = (None, false);
    for attribute in wire::attributes(payload.get(HEADER_BYTES..)?) {
        match attribute.kind {
            1 => link.facts.current_mac = mac::of_bytes(attribute.value),
            3 => link.facts.name = attribute.text()?,
            4 => link.facts.mtu = attribute.u32(),
            5 => lower = attribute.u32(),
            10 => link.master_index = attribute.u32(),
            16 => {
                link.facts.operstate =
                    attribute.u8().and_then(|code| data::named("operstate", code));
            }
            18 => parse_info(attribute.value, &mut link),
            33 => link.facts.has_carrier = attribute.u8().map(|carrier| carrier != 0),
            34 => link.facts.port.get_or_insert_default().id = hex(attribute.value),
            36 => link.facts.port.get_or_insert_default().switch_id = hex(attribute.value),
            37 => is_foreign = true,
            38 => link.facts.port.get_or_insert_default().name = attribute.text(),
            51 => link.facts.max_mtu = attribute.u32().filter(|mtu| *mtu != 0),
            52 => link.facts.altnames = alternative_names(attribute.value),
            54 => {
                let burnt_in = mac::of_bytes(attribute.value);
                link.facts.permanent_mac = burnt_in.or(link.facts.permanent_mac.take());
            }
            57 => link.parent_bus = attribute.text(),
            _ => {}
        }
    }
    link.lower_index = lower.filter(|index| !is_foreign && *index != link.index && *index != 0);
    (!link.facts.name.is_empty()).then_some(link)
}

/// `IFLA_LINKINFO`: the kind, a VLAN's number, and the MAC that a bond remembers for a member.
fn parse_info(info: &[u8], link: &mut Link) {
    let find = |kind| wire::find(info, kind);
    let nested = |kind, inner| wire::find(find(kind)?.value, inner);
    link.facts.kind = find(1).and_then(|kind| kind.text());
    // IFLA_VLAN_ID and IFLA_BOND_MODE have the same number.
    let first = nested(2, 1);
    match link.facts.kind.as_deref() {
        Some("vlan") => link.facts.vlan_id = first.and_then(|id| id.u16()),
        Some("bond") => link.bond_mode = first.and_then(|mode| mode.u8()),
        _ => {}
    }
    if find(4).and_then(|kind| kind.text()).as_deref() == Some("bond") {
        let kept = nested(5, 4).and_then(|kept| mac::of_bytes(kept.value));
        link.facts.permanent_mac = link.facts.permanent_mac.take().or(kept);
    }
}

/// `IFLA_PROP_LIST` with `IFLA_ALT_IFNAME`, Linux 5.5.
fn alternative_names(properties: &[u8]) -> Vec<String> {
    let mut names: Vec<String> =
        wire::attributes(properties).filter(|a| a.kind == 53).filter_map(|a| a.text()).collect();
    names.sort();
    names
}

fn hex(bytes: &[u8]) -> Option<String> {
    let text = formats::hex::hex(bytes);
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::testing::bytes::{attribute, message, survives_any_bytes};

    /// A message about an Ethernet link with index, flags and attributes.
    pub(in crate::network) fn link_message(
        index: u32,
        flags: u32,
        attributes: &[Vec<u8>],
    ) -> Vec<u8> {
        // `ARPHRD_ETHER` in the upper half of the first word.
        let words = [1 << 16, index, flags, 0].map(u32::to_ne_bytes);
        message(RTM_NEWLINK, &[words.concat(), attributes.concat()].concat())
    }

    #[test]
    fn bond_member_has_its_permanent_mac() {
        let kept = attribute(4, &[2, 0, 0, 0, 0, 1]);
        let info = [attribute(4, b"bond\0"), attribute(5, &kept)].concat();
        let attributes = [
            attribute(3, b"eno1\0"),
            attribute(1, &[2, 0, 0, 0, 0, 9]),
            attribute(4, &9000_u32.to_ne_bytes()),
            attribute(10, &7_u32.to_ne_bytes()),
            attribute(16, &[6]),
            attribute(33, &[1]),
            attribute(52, &attribute(53, b"enp1s0\0")),
            attribute(18, &info),
        ];
        let message = link_message(2, FLAG_UP, &attributes);
        survives_any_bytes(&message, |bytes| drop(parse(bytes)));
        let links = parse(&message);
        assert_eq!(links[0].facts.current_mac.as_deref(), Some("02:00:00:00:00:09"));
        assert_eq!(links[0].facts.permanent_mac.as_deref(), Some("02:00:00:00:00:01"));
        assert_eq!((links[0].master_index, links[0].facts.mtu), (Some(7), Some(9000)));
        assert_eq!(
            (links[0].facts.operstate.as_deref(), links[0].facts.has_carrier),
            (Some("up"), Some(true))
        );
        assert_eq!(links[0].facts.altnames, ["enp1s0"]);
    }

    #[test]
    fn vlan_omits_a_lower_link_in_another_namespace() {
        let info = [attribute(1, b"vlan\0"), attribute(2, &attribute(1, &100_u16.to_ne_bytes()))];
        let own = [attribute(3, b"v100\0"), attribute(5, &2_u32.to_ne_bytes())];
        let mut all = [own.to_vec(), vec![attribute(18, &info.concat())]].concat();
        let link = &parse(&link_message(5, 0, &all))[0];
        assert_eq!((link.facts.vlan_id, link.lower_index), (Some(100), Some(2)));
        assert_eq!(link.facts.kind.as_deref(), Some("vlan"));
        all.push(attribute(37, &0_u32.to_ne_bytes()));
        assert_eq!(parse(&link_message(5, 0, &all))[0].lower_index, None);
    }

    #[test]
    fn zero_mac_is_absent_and_unnamed_link_is_skipped() {
        let bytes = link_message(1, 0, &[attribute(3, b"x\0"), attribute(54, &[0; 6])]);
        assert_eq!(parse(&bytes)[0].facts.permanent_mac, None);
        assert!(parse(&link_message(1, 0, &[])).is_empty());
    }
}
