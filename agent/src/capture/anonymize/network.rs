//! Addresses in the kernel's lists of addresses and routes (`uapi/linux/if_addr.h`,
//! `uapi/linux/rtnetlink.h`). A few bytes that happen to be an address stand everywhere in binary
//! data, so here alone they are found by the structure.

use std::net::{IpAddr, Ipv4Addr};

const ADDRESSES: &str = "kernel/rtnetlink/address";
const ROUTES: &str = "kernel/rtnetlink/route";

const AF_INET: u8 = 2;

/// `IFA_ADDRESS`, `IFA_LOCAL`, `IFA_BROADCAST`, `IFA_ANYCAST`.
const OF_ADDRESS: [u16; 4] = [1, 2, 4, 5];
/// `RTA_DST`, `RTA_SRC`, `RTA_GATEWAY`, `RTA_PREFSRC`, `RTA_NEWDST`.
const OF_ROUTE: [u16; 5] = [1, 2, 5, 7, 19];
/// `RTA_MULTIPATH`: next hops, each a header of 8 bytes and attributes as of a route.
const NEXT_HOPS: u16 = 9;
/// `RTA_VIA`: a family in two bytes and an address.
const VIA: u16 = 18;

/// Calls `each` with every address in a list of addresses or routes; other files have none.
pub(super) fn each_address(path: &str, content: &mut [u8], each: &mut dyn FnMut(&mut [u8])) {
    each_message(path, content, &mut |kinds, _, attributes| {
        each_attribute(attributes, kinds, each);
    });
}

/// The networks of IPv4 in a list of addresses or routes: an address in each, and how many bits it has.
pub(super) fn networks(path: &str, content: &[u8]) -> Vec<(Ipv4Addr, u8)> {
    let mut found = Vec::new();
    each_message(path, &mut content.to_vec(), &mut |kinds, header, attributes| {
        let [family, n_bits, ..] = *header else { return };
        // `IFA_ADDRESS` and `RTA_DST` alone are in the network of the header's size.
        let kinds = kinds.get(..1).filter(|_| family == AF_INET).unwrap_or_default();
        each_attribute(attributes, kinds, &mut |address| {
            if let Some(IpAddr::V4(address)) = from_bytes(address) {
                found.push((address, n_bits));
            }
        });
    });
    found
}

/// What is done with a message: the kinds of its attributes that are addresses, its header behind netlink's,
/// and its attributes.
type Message<'a> = dyn FnMut(&[u16], &[u8], &mut [u8]) + 'a;

fn each_message(path: &str, content: &mut [u8], each: &mut Message) {
    let (header_bytes, kinds): (usize, &[u16]) = match path {
        ADDRESSES => (16 + 8, &OF_ADDRESS),
        ROUTES => (16 + 12, &OF_ROUTE),
        _ => return,
    };
    let mut rest = content;
    while let Some(length) = rest.first_chunk::<4>().map(|bytes| u32::from_ne_bytes(*bytes)) {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let Some((message, behind)) = split(rest, length) else { return };
        if let Some((header, attributes)) = message.split_at_mut_checked(header_bytes) {
            each(kinds, &header[16..], attributes);
        }
        rest = behind;
    }
}

fn each_attribute(attributes: &mut [u8], kinds: &[u16], each: &mut dyn FnMut(&mut [u8])) {
    let mut rest = attributes;
    while let Some([a, b, c, d]) = rest.first_chunk::<4>().copied() {
        let (length, kind) = (u16::from_ne_bytes([a, b]), u16::from_ne_bytes([c, d]) & 0x3fff);
        let Some((attribute, behind)) = split(rest, usize::from(length)) else { return };
        match kind {
            NEXT_HOPS if kinds == OF_ROUTE => each_next_hop(&mut attribute[4..], each),
            VIA if kinds == OF_ROUTE => each(attribute.get_mut(6..).unwrap_or_default()),
            _ if kinds.contains(&kind) => each(&mut attribute[4..]),
            _ => {}
        }
        rest = behind;
    }
}

fn each_next_hop(hops: &mut [u8], each: &mut dyn FnMut(&mut [u8])) {
    let mut rest = hops;
    while let Some([a, b]) = rest.first_chunk::<2>().copied() {
        let length = usize::from(u16::from_ne_bytes([a, b]));
        let Some((hop, behind)) = split(rest, length) else { return };
        each_attribute(hop.get_mut(8..).unwrap_or_default(), &OF_ROUTE, each);
        rest = behind;
    }
}

/// The first `length` bytes, which are at least a header, and what follows their padding.
fn split(bytes: &mut [u8], length: usize) -> Option<(&mut [u8], &mut [u8])> {
    if length < 4 || length > bytes.len() {
        return None;
    }
    let padded = length.next_multiple_of(4).min(bytes.len());
    let (first, behind) = bytes.split_at_mut(padded);
    Some((&mut first[..length], behind))
}

/// Four or sixteen bytes as an address.
pub(super) fn from_bytes(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = || <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from);
    v4().or_else(|| <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from))
}

/// An address as it stands on the wire.
pub(super) fn to_bytes(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}
