//! The wire format of netlink: messages and attributes, walked without trust in any length
//! (`uapi/linux/netlink.h`, `Documentation/userspace-api/netlink/intro.rst`), and the addresses in
//! lists of addresses and routes (`uapi/linux/if_addr.h`, `uapi/linux/rtnetlink.h`).

use std::ops::Range;

use crate::bytes::array;
use crate::text::span_in;
use crate::{Encoding, Field, Kind};

/// Length of `struct nlmsghdr`.
const HEADER_BYTES: usize = 16;
/// Length of `struct nlattr`.
const ATTRIBUTE_HEADER_BYTES: usize = 4;
/// `NLA_TYPE_MASK`: the type of an attribute without its flags.
const TYPE_MASK: u16 = 0x3fff;

/// The kernel's `NLMSG_ERROR`.
pub const ERROR: u16 = 2;
/// The kernel's `NLMSG_DONE`, the end of a dump.
pub const DONE: u16 = 3;
/// `NLM_F_DUMP_INTR`: the list changed while it was dumped.
pub const DUMP_INTERRUPTED: u16 = 0x10;

/// One message: its type, its flags and the bytes after the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    /// `nlmsg_type`.
    pub kind: u16,
    /// `nlmsg_flags`.
    pub flags: u16,
    /// Everything after the header.
    pub payload: &'a [u8],
}

impl<'a> Message<'a> {
    /// The bytes after a further header of `header_bytes`, which are attributes; empty if there are none.
    pub fn body(&self, header_bytes: usize) -> &'a [u8] {
        self.payload.get(header_bytes..).unwrap_or_default()
    }

    /// The `errno` in an error or in the end of a dump; 0 is success.
    pub fn errno(&self) -> i32 {
        array(self.payload, 0).map_or(0, i32::from_ne_bytes).saturating_neg()
    }
}

/// Walks the parts of `bytes`, whose `length` is in each and which are padded to 4 bytes. Ends at the first one that does
/// not fit.
fn walk(bytes: &[u8], length: impl Fn(&[u8]) -> Option<usize>) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let part = rest.get(..length(rest)?)?;
        rest = rest.get(part.len().next_multiple_of(4)..).unwrap_or_default();
        Some(part)
    })
}

/// Walks the messages in `bytes`; ends at the first one that does not fit.
pub fn messages(bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    let whole = walk(bytes, |rest| usize::try_from(u32_at(rest, 0)?).ok());
    whole.map_while(|whole| {
        let (kind, flags) = (u16_at(whole, 4)?, u16_at(whole, 6)?);
        Some(Message { kind, flags, payload: whole.get(HEADER_BYTES..)? })
    })
}

/// One attribute: its type without flags, and its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attribute<'a> {
    /// `nla_type` without `NLA_F_NESTED` and `NLA_F_NET_BYTEORDER`.
    pub kind: u16,
    /// The value; nested attributes are walked with [`attributes`] again.
    pub value: &'a [u8],
}

impl Attribute<'_> {
    /// The value as `u8`.
    pub fn u8(&self) -> Option<u8> {
        self.value.first().copied()
    }

    /// The value as `u16` in the machine's byte order.
    pub fn u16(&self) -> Option<u16> {
        u16_at(self.value, 0)
    }

    /// The value as `u32` in the machine's byte order.
    pub fn u32(&self) -> Option<u32> {
        u32_at(self.value, 0)
    }

    /// The value as text up to its first NUL; bytes that are not UTF-8 are escaped. `None` if empty.
    pub fn text(&self) -> Option<String> {
        crate::text::to_nul(self.value)
    }
}

/// Walks the attributes in `bytes`; ends at the first one that does not fit.
pub fn attributes(bytes: &[u8]) -> impl Iterator<Item = Attribute<'_>> {
    walk(bytes, |rest| u16_at(rest, 0).map(usize::from)).map_while(|whole| {
        let value = whole.get(ATTRIBUTE_HEADER_BYTES..)?;
        Some(Attribute { kind: u16_at(whole, 2)? & TYPE_MASK, value })
    })
}

/// The first attribute `kind` in `bytes`.
pub fn find(bytes: &[u8], kind: u16) -> Option<Attribute<'_>> {
    attributes(bytes).find(|attribute| attribute.kind == kind)
}

/// Places of the values that attributes `kind` have in the messages of `bytes`, after a header of `header_bytes`.
pub fn spans(bytes: &[u8], header_bytes: usize, kind: u16) -> Vec<Range<usize>> {
    let all = messages(bytes).flat_map(|message| attributes(message.body(header_bytes)));
    all.filter(|one| one.kind == kind).map(|one| span_in(bytes, one.value)).collect()
}

/// A list that the kernel dumps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum List {
    /// `RTM_NEWADDR`: addresses of interfaces.
    Addresses,
    /// `RTM_NEWROUTE`: routes.
    Routes,
}

impl List {
    /// Length of `struct ifaddrmsg` or `struct rtmsg`.
    pub fn header_bytes(self) -> usize {
        match self {
            List::Addresses => 8,
            List::Routes => 12,
        }
    }

    /// Attributes whose values are addresses: `IFA_ADDRESS`, `IFA_LOCAL`, `IFA_BROADCAST` and
    /// `IFA_ANYCAST`, or `RTA_DST`, `RTA_SRC`, `RTA_GATEWAY`, `RTA_PREFSRC` and `RTA_NEWDST`.
    fn addresses(self) -> &'static [u16] {
        match self {
            List::Addresses => &[1, 2, 4, 5],
            List::Routes => &[1, 2, 5, 7, 19],
        }
    }
}

/// `RTA_MULTIPATH`: next hops, each a header and attributes as of a route.
pub const RTA_MULTIPATH: u16 = 9;
/// `RTA_VIA`: a family in two bytes and an address.
pub const RTA_VIA: u16 = 18;
/// Length of `struct rtnexthop`.
pub const NEXT_HOP_BYTES: usize = 8;
/// `AF_INET`.
const AF_INET: u8 = 2;

/// One next hop of `RTA_MULTIPATH`: `struct rtnexthop` and its attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextHop<'a> {
    /// `rtnh_flags`, `rtnh_hops` and `rtnh_ifindex` after the length.
    pub header: &'a [u8],
    /// The attributes, walked with [`attributes`].
    pub attributes: &'a [u8],
}

/// Walks the next hops in the value of `RTA_MULTIPATH`; ends at the first one that does not fit.
pub fn next_hops(bytes: &[u8]) -> impl Iterator<Item = NextHop<'_>> {
    walk(bytes, |rest| u16_at(rest, 0).map(usize::from)).map_while(|hop| {
        let (header, attributes) = hop.split_at_checked(NEXT_HOP_BYTES)?;
        Some(NextHop { header, attributes })
    })
}

/// The addresses in a list.
pub fn fields(list: List, bytes: &[u8]) -> Vec<Field> {
    let bodies = messages(bytes).map(|message| message.body(list.header_bytes()));
    let found = bodies.flat_map(|body| addresses(list, body));
    found.map(|one| Field::within(bytes, one, Kind::Address, Encoding::Bytes)).collect()
}

fn addresses(list: List, bytes: &[u8]) -> Vec<&[u8]> {
    let is_route = list == List::Routes;
    let in_attribute = |Attribute { kind, value }| match kind {
        RTA_MULTIPATH if is_route => {
            next_hops(value).flat_map(|hop| addresses(list, hop.attributes)).collect()
        }
        RTA_VIA if is_route => value.get(2..).filter(|one| !one.is_empty()).into_iter().collect(),
        kind if list.addresses().contains(&kind) => vec![value],
        _ => Vec::new(),
    };
    attributes(bytes).flat_map(in_attribute).collect()
}

/// The IPv4 networks in a list: an address in each, and the length of its prefix in bits.
pub fn networks(list: List, bytes: &[u8]) -> Vec<([u8; 4], u8)> {
    let mut found = Vec::new();
    for message in messages(bytes) {
        let Some((header, body)) = message.payload.split_at_checked(list.header_bytes()) else {
            continue;
        };
        let &[AF_INET, n_bits, ..] = header else { continue };
        // `IFA_ADDRESS` and `RTA_DST` alone are in the network of the header's size.
        let own = attributes(body).filter(|attribute| attribute.kind == 1);
        found.extend(own.filter_map(|a| Some((<[u8; 4]>::try_from(a.value).ok()?, n_bits))));
    }
    found
}

/// The `u16` at `offset` in the machine's byte order.
pub fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    array(bytes, offset).map(u16::from_ne_bytes)
}

/// The `u32` at `offset` in the machine's byte order.
pub fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    array(bytes, offset).map(u32::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::tests::assert_fields;
    use crate::testing::{attribute, message, survives_any_bytes};

    #[test]
    fn messages_and_attributes_are_walked_with_their_padding() {
        let mut payload = attribute(1, b"eth0\0");
        payload.extend(attribute(0x8000 | 4, &1500_u32.to_ne_bytes()));
        let mut bytes = message(16, &payload);
        bytes.extend(message(DONE, &(-22_i32).to_ne_bytes()));
        let all: Vec<Message> = messages(&bytes).collect();
        assert_eq!(all.len(), 2);
        let found: Vec<Attribute> = attributes(all[0].payload).collect();
        assert_eq!(found[0].text().as_deref(), Some("eth0"));
        assert_eq!((found[1].kind, found[1].u32()), (4, Some(1500)));
        assert_eq!((all[1].kind, all[1].errno()), (DONE, 22));
    }

    #[test]
    fn lengths_that_lie_end_the_walk() {
        assert_eq!(messages(&[0; 64]).count(), 0);
        assert_eq!(messages(&[0xff; 64]).count(), 0);
        assert_eq!(attributes(&[0; 64]).count(), 0);
        assert_eq!(attributes(&[3, 0, 1, 0]).count(), 0);
        let short = message(16, b"abcd");
        assert_eq!(messages(&short[..short.len() - 1]).count(), 0);
        assert_eq!(attributes(&[0xff, 0xff, 1, 0, 0, 0]).count(), 0);
    }

    #[test]
    fn the_addresses_of_routes_are_found_in_next_hops_and_behind_a_family_too() {
        let hop = |attributes: &[u8]| {
            let length = u16::try_from(NEXT_HOP_BYTES + attributes.len()).unwrap();
            [&length.to_ne_bytes()[..], &[0; 6], attributes].concat()
        };
        let hops = [hop(&attribute(5, &[10, 0, 0, 1])), hop(&attribute(5, &[10, 0, 0, 2]))];
        let attributes = [
            attribute(1, &[10, 9, 0, 0]),
            attribute(RTA_VIA, &[10, 0, 1, 2, 3, 4]),
            attribute(RTA_MULTIPATH, &hops.concat()),
            attribute(3, &[9, 9, 9, 9]),
        ];
        let header = [AF_INET, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let bytes = message(24, &[&header[..], &attributes.concat()].concat());
        let expected = [[10, 9, 0, 0], [1, 2, 3, 4], [10, 0, 0, 1], [10, 0, 0, 2]];
        let expected = expected.map(|address| (Kind::Address, address));
        assert_fields(&fields(List::Routes, &bytes), &bytes, &expected);
        assert_eq!(networks(List::Routes, &bytes), [([10, 9, 0, 0], 16)]);
        assert_eq!(spans(&bytes, 12, 3).len(), 1);
        survives_any_bytes(&bytes, |bytes| {
            let _ = (fields(List::Routes, bytes), networks(List::Addresses, bytes));
            let _ = spans(bytes, 4, 3);
        });
    }
}
