//! The wire format of netlink: messages and attributes, walked without trust in any length
//! (`uapi/linux/netlink.h`, `Documentation/userspace-api/netlink/intro.rst`), and the addresses in
//! lists of addresses and routes (`uapi/linux/if_addr.h`, `uapi/linux/rtnetlink.h`).

use std::ops::Range;

use crate::{Field, Kind};

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
    /// Offset of `payload` in the bytes that were walked.
    pub at: usize,
}

impl Message<'_> {
    /// The `errno` in an error or in the end of a dump; 0 is success.
    #[must_use]
    pub fn errno(&self) -> i32 {
        let code = self.payload.first_chunk::<4>().map_or(0, |bytes| i32::from_ne_bytes(*bytes));
        code.saturating_neg()
    }
}

/// Walks the messages in `bytes`; ends at the first one that does not fit.
pub fn messages(bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let length = usize::try_from(u32::from_ne_bytes(*rest.first_chunk::<4>()?)).ok()?;
        let whole = rest.get(..length)?;
        let message = Message {
            kind: u16_at(whole, 4)?,
            flags: u16_at(whole, 6)?,
            payload: whole.get(HEADER_BYTES..)?,
            at: bytes.len() - rest.len() + HEADER_BYTES,
        };
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(message)
    })
}

/// One attribute: its type without flags, and its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attribute<'a> {
    /// `nla_type` without `NLA_F_NESTED` and `NLA_F_NET_BYTEORDER`.
    pub kind: u16,
    /// The value; nested attributes are walked with [`attributes`] again.
    pub value: &'a [u8],
    /// Offset of `value` in the bytes that were walked.
    pub at: usize,
}

impl Attribute<'_> {
    /// The value as `u8`.
    #[must_use]
    pub fn u8(&self) -> Option<u8> {
        self.value.first().copied()
    }

    /// The value as `u16` in the machine's byte order.
    #[must_use]
    pub fn u16(&self) -> Option<u16> {
        u16_at(self.value, 0)
    }

    /// The value as `u32` in the machine's byte order.
    #[must_use]
    pub fn u32(&self) -> Option<u32> {
        self.value.first_chunk::<4>().map(|bytes| u32::from_ne_bytes(*bytes))
    }

    /// The value as text up to its first NUL; bytes that are not UTF-8 are escaped. `None` if empty.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        text(self.value)
    }
}

/// Walks the attributes in `bytes`; ends at the first one that does not fit.
pub fn attributes(bytes: &[u8]) -> impl Iterator<Item = Attribute<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(rest, 0)?);
        let kind = u16_at(rest, 2)? & TYPE_MASK;
        let value = rest.get(ATTRIBUTE_HEADER_BYTES..length)?;
        let at = bytes.len() - rest.len() + ATTRIBUTE_HEADER_BYTES;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(Attribute { kind, value, at })
    })
}

/// Places of the values that attributes `kind` have in the messages of `bytes`, after a header of `header_bytes`.
#[must_use]
pub fn spans(bytes: &[u8], header_bytes: usize, kind: u16) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for message in messages(bytes) {
        let body = message.payload.get(header_bytes..).unwrap_or_default();
        let of_kind = attributes(body).filter(|attribute| attribute.kind == kind);
        found.extend(of_kind.map(|attribute| {
            let start = message.at + header_bytes + attribute.at;
            start..start + attribute.value.len()
        }));
    }
    found
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
    #[must_use]
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
    /// Offset of `attributes` in the bytes that were walked.
    pub at: usize,
}

/// Walks the next hops in the value of `RTA_MULTIPATH`; ends at the first one that does not fit.
pub fn next_hops(bytes: &[u8]) -> impl Iterator<Item = NextHop<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let hop = rest.get(..usize::from(u16_at(rest, 0)?))?;
        let (header, attributes) = hop.split_at_checked(NEXT_HOP_BYTES)?;
        let at = bytes.len() - rest.len() + NEXT_HOP_BYTES;
        rest = rest.get(hop.len().next_multiple_of(4)..).unwrap_or_default();
        Some(NextHop { header, attributes, at })
    })
}

/// The addresses in a list.
#[must_use]
pub fn fields(list: List, bytes: &[u8]) -> Vec<Field> {
    let mut fields = Vec::new();
    for message in messages(bytes) {
        let Some(body) = message.payload.get(list.header_bytes()..) else { continue };
        in_attributes(list, body, message.at + list.header_bytes(), &mut fields);
    }
    fields
}

fn in_attributes(list: List, bytes: &[u8], at: usize, fields: &mut Vec<Field>) {
    for attribute in attributes(bytes) {
        let (at, length) = (at + attribute.at, attribute.value.len());
        match attribute.kind {
            RTA_MULTIPATH if list == List::Routes => {
                for hop in next_hops(attribute.value) {
                    in_attributes(list, hop.attributes, at + hop.at, fields);
                }
            }
            RTA_VIA if list == List::Routes && length > 2 => {
                fields.push(Field::bytes_of(at + 2..at + length, Kind::Address));
            }
            kind if list.addresses().contains(&kind) => {
                fields.push(Field::bytes_of(at..at + length, Kind::Address));
            }
            _ => {}
        }
    }
}

/// The IPv4 networks in a list: an address in each, and the length of its prefix in bits.
#[must_use]
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

/// Text up to the first NUL, as C strings in fixed fields are; `None` if empty.
#[must_use]
pub fn text(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let text = crate::text::escape_non_utf8(&bytes[..end]);
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// The `u16` at `offset` in the machine's byte order.
fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    bytes.get(offset..)?.first_chunk::<2>().map(|bytes| u16::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let fields = fields(List::Routes, &bytes);
        let found: Vec<&[u8]> = fields.iter().map(|field| field.bytes(&bytes)).collect();
        assert_eq!(found, [[10, 9, 0, 0], [1, 2, 3, 4], [10, 0, 0, 1], [10, 0, 0, 2]]);
        assert_eq!(networks(List::Routes, &bytes), [([10, 9, 0, 0], 16)]);
        assert_eq!(spans(&bytes, 12, 3).len(), 1);
        survives_any_bytes(&bytes, |bytes| {
            let _ = (super::fields(List::Routes, bytes), networks(List::Addresses, bytes));
            let _ = spans(bytes, 4, 3);
        });
    }
}
