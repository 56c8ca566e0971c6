//! Ids of chassis and ports, and addresses: a kind followed by bytes (IEEE 802.1AB-2016, 8.5.2 and 8.5.3).

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::data;
use crate::network::mac;
use formats::hex::hex;
use formats::text::padded;

/// The id and its kind, by the number of the kind in the table `kinds`; `None` if there is no id.
pub(super) fn parse(value: &[u8], kinds: &'static str) -> Option<(String, String)> {
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
pub(super) fn address(value: &[u8]) -> Option<(String, String)> {
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
