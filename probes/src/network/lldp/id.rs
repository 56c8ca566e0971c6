//! Ids of chassis and ports, and addresses: a kind followed by bytes (IEEE 802.1AB-2016, 8.5.2 and 8.5.3).

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::machine::escape_non_utf8;
use crate::network::mac;
use formats::hex::hex;

/// Kinds of chassis ids by number (table 8-2).
pub(super) const CHASSIS_KINDS: [&str; 7] = [
    "chassis_component",
    "interface_alias",
    "port_component",
    "mac",
    "network_address",
    "interface_name",
    "local",
];

/// Kinds of port ids by number (table 8-3).
pub(super) const PORT_KINDS: [&str; 7] = [
    "interface_alias",
    "port_component",
    "mac",
    "network_address",
    "interface_name",
    "agent_circuit_id",
    "local",
];

/// The id and its kind; `None` if there is no id.
pub(super) fn parse(value: &[u8], kinds: &[&str; 7]) -> Option<(String, String)> {
    let (kind, id) = value.split_first()?;
    if id.is_empty() {
        return None;
    }
    let name = usize::from(*kind).checked_sub(1).and_then(|kind| kinds.get(kind)).copied();
    let text = match name {
        Some("mac") => mac::of_bytes(id).unwrap_or_else(|| hex(id)),
        Some("network_address") => address(id)?.1,
        Some(_) => text(id)?,
        None => hex(id),
    };
    Some((text, name.map_or_else(|| kind.to_string(), str::to_owned)))
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

/// Text without the surrounding blanks and NULs that some switches send; `None` if nothing is left.
pub(super) fn text(bytes: &[u8]) -> Option<String> {
    let text = escape_non_utf8(bytes);
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    (!text.is_empty()).then(|| text.to_owned())
}
