//! The files whose format is parsed by the crate `formats`: which format each has, and what becomes of
//! its fields. What is secret in a format is declared beside its parser there.

use std::net::{IpAddr, Ipv4Addr};

use formats::{Encoding, Field, Kind, netlink, smbios};

use super::collect::Secrets;
use super::pseudonym::Pseudonyms;

/// The fields of the file at `path` that reveal something; none if its format is not known here.
pub(super) fn fields(path: &str, content: &[u8]) -> Vec<Field> {
    match path {
        "sys/firmware/dmi/tables/DMI" => smbios::fields(content),
        _ => list(path).map(|list| netlink::fields(list, content)).unwrap_or_default(),
    }
}

/// The list that the kernel's answer at `path` is.
fn list(path: &str) -> Option<netlink::List> {
    match path {
        "kernel/rtnetlink/address" => Some(netlink::List::Addresses),
        "kernel/rtnetlink/route" => Some(netlink::List::Routes),
        _ => None,
    }
}

/// Collects what must be replaced wherever it occurs.
pub(super) fn collect(path: &str, content: &[u8], secrets: &mut Secrets) {
    for field in fields(path, content) {
        collect_field(&field, field.bytes(content), secrets);
    }
    let networks = list(path).map(|list| netlink::networks(list, content)).unwrap_or_default();
    secrets.networks.extend(networks.into_iter().map(|(ip, n_bits)| (Ipv4Addr::from(ip), n_bits)));
}

fn collect_field(field: &Field, bytes: &[u8], secrets: &mut Secrets) {
    match (field.kind, field.encoding) {
        (Kind::Serial, Encoding::Text) => secrets.text(&latin(bytes)),
        (Kind::Serial, Encoding::Guid) => secrets.named("uuid", &guid(bytes)),
        (Kind::Serial | Kind::Mac, Encoding::Bytes) => secrets.digits(&crate::digest::hex(bytes)),
        (Kind::Address, Encoding::Bytes) => secrets.addresses.extend(ip(bytes)),
        (Kind::HostName, Encoding::Text) => secrets.named("hostname", &latin(bytes)),
        _ => {}
    }
}

/// Replaces in place what could be anything elsewhere: addresses as bytes, and free text.
pub(super) fn rewrite(path: &str, content: &mut [u8], secrets: &Secrets, names: &mut Pseudonyms) {
    for field in fields(path, content) {
        let Some(bytes) = content.get_mut(field.span.clone()) else { continue };
        if let Some(put) = replacement(&field, bytes, secrets, names)
            && put.len() == bytes.len()
        {
            bytes.copy_from_slice(&put);
        }
    }
}

fn replacement(
    field: &Field,
    bytes: &[u8],
    secrets: &Secrets,
    names: &mut Pseudonyms,
) -> Option<Vec<u8>> {
    match (field.kind, field.encoding) {
        (Kind::Address, Encoding::Bytes) => Some(to_bytes(names.address(ip(bytes)?))),
        (Kind::FreeText, Encoding::Text) => Some(text(bytes, secrets, names)),
        _ => None,
    }
}

/// Text with a replacement for what is between its blanks. A MAC or UUID is replaced as one, wherever
/// it occurs.
fn text(bytes: &[u8], secrets: &Secrets, names: &mut Pseudonyms) -> Vec<u8> {
    let Ok(text) = std::str::from_utf8(bytes) else { return names.bytes(bytes) };
    let plain = text.trim();
    match text.split_once(plain) {
        Some((before, after)) if !secrets.is_number(plain) => {
            [before, &names.text(plain), after].concat().into_bytes()
        }
        _ => bytes.to_vec(),
    }
}

/// Four or sixteen bytes as an address.
pub(super) fn ip(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = || <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from);
    v4().or_else(|| <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from))
}

/// An address as it goes over the wire.
pub(super) fn to_bytes(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// The digits of a GUID, whose first three parts have the last byte first.
fn guid(bytes: &[u8]) -> String {
    let order = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    let turned: Vec<u8> = order.iter().filter_map(|at: &usize| bytes.get(*at).copied()).collect();
    crate::digest::hex(&turned)
}

/// Bytes as characters of Latin-1, without what fills a field.
pub(super) fn latin(bytes: &[u8]) -> String {
    let text: String = bytes.iter().map(|byte| char::from(*byte)).collect();
    text.trim_matches(['\0', ' ']).to_owned()
}
