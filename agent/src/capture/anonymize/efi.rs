//! EFI variables (UEFI 2.10 §3.1.3, §10.3): boot entries hold descriptions with 16 bits a character
//! and device paths, in which addresses are bytes that elsewhere could mean anything.

use std::ops::Range;

use super::collect::Secrets;
use super::{command_line, fields};

const VARIABLES: &str = "sys/firmware/efi/efivars/";
/// Variables that are load options, each with four digits behind.
const LOAD_OPTIONS: [&str; 4] = ["Boot", "Driver", "SysPrep", "PlatformRecovery"];
/// The attributes that efivarfs puts in front of the value.
const ATTRIBUTES_BYTES: usize = 4;
/// Attributes of the variable and of the load option, and the length of its device path.
const HEADER_BYTES: usize = ATTRIBUTES_BYTES + 6;

/// A part of a variable that may hold a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    /// A description or the name of a file.
    Text(String),
    /// A URL, or arguments of a kernel.
    Line(String),
    /// A name of a target (`iqn.…`).
    Target(String),
    /// The name of a wireless network.
    Network(String),
    /// The bytes of an address.
    Address(Vec<u8>),
    /// The bytes of a MAC, WWN or EUI-64, the maker's first.
    Digits(Vec<u8>),
    /// The number in a disk's master boot record, the lowest byte first.
    DiskNumber(Vec<u8>),
}

/// The variable at `path` with what `each` makes of its parts; `None` for anything else.
pub(super) fn rewrite(
    path: &str,
    content: &[u8],
    each: &mut dyn FnMut(&Part) -> Option<Part>,
) -> Option<Vec<u8>> {
    let name = path.strip_prefix(VARIABLES)?;
    let is_option = LOAD_OPTIONS.iter().any(|kind| {
        let number = name.strip_prefix(kind).and_then(|rest| rest.split('-').next());
        number.is_some_and(|n| n.len() == 4 && n.bytes().all(|byte| byte.is_ascii_hexdigit()))
    });
    if is_option {
        return load_option(content, each);
    }
    let (attributes, value) = content.split_at_checked(ATTRIBUTES_BYTES)?;
    let text = utf16(value).filter(|text| is_printable(text))?;
    Some([attributes, &put_utf16(&text, each, Part::Text)].concat())
}

/// Collects what the variable at `path` holds.
pub(super) fn collect(path: &str, content: &[u8], secrets: &mut Secrets) {
    rewrite(path, content, &mut |part| {
        collect_part(part, secrets);
        None
    });
}

fn collect_part(part: &Part, secrets: &mut Secrets) {
    match part {
        Part::Text(text) => {
            secrets.in_text(text);
            secrets.in_addresses(text);
            in_description(text, secrets);
        }
        Part::Line(line) => {
            secrets.in_text(line);
            secrets.in_addresses(line);
            command_line::collect(line, secrets);
        }
        Part::Target(name) => secrets.named("target", name),
        Part::Network(name) => secrets.text(name),
        Part::Address(bytes) => secrets.addresses.extend(fields::ip(bytes)),
        Part::DiskNumber(bytes) => secrets.digits(&turned(bytes)),
        Part::Digits(bytes) => {
            // Drivers differ in the order; the number is one.
            if !secrets.digits.contains(&turned(bytes)) {
                secrets.digits(&crate::digest::hex(bytes));
            }
        }
    }
}

/// `UEFI PXEv4 (MAC:0C42A1DEADBE)`, as firmware names a boot entry.
fn in_description(text: &str, secrets: &mut Secrets) {
    for (at, word) in text.match_indices("MAC") {
        let rest = text.get(at + word.len()..).unwrap_or_default();
        let rest = rest.trim_start_matches([':', '(', ' ', '=']);
        let is_part = |c: &char| c.is_ascii_hexdigit() || ":-".contains(*c);
        let digits: String =
            rest.chars().take_while(is_part).filter(char::is_ascii_hexdigit).collect();
        if digits.len() == 12 {
            secrets.digits(&digits);
        }
    }
}

fn load_option(content: &[u8], each: &mut dyn FnMut(&Part) -> Option<Part>) -> Option<Vec<u8>> {
    let (header, rest) = content.split_at_checked(HEADER_BYTES)?;
    let n_units = rest.chunks_exact(2).position(|unit| unit == [0, 0])?;
    let (description, rest) = rest.split_at_checked(2 * n_units)?;
    let length = usize::from(u16::from_le_bytes(*header.last_chunk()?));
    let (path, optional) = rest.get(2..)?.split_at_checked(length)?;
    let description = match utf16(description) {
        Some(text) => put_utf16(&text, each, Part::Text),
        None => description.to_vec(),
    };
    let path = device_path(path, each);
    let optional = match utf16(optional).filter(|text| is_printable(text)) {
        Some(text) => put_utf16(&text, each, Part::Line),
        None => optional.to_vec(),
    };
    let length = u16::try_from(path.len()).ok()?.to_le_bytes();
    let header = &header[..HEADER_BYTES - 2];
    Some([header, &length, &description, &[0, 0], &path, &optional].concat())
}

/// Nodes, each of a kind, a kind within that, a length in two bytes, and data.
fn device_path(path: &[u8], each: &mut dyn FnMut(&Part) -> Option<Part>) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::with_capacity(path.len()), path);
    while let Some([kind, subkind, low, high]) = rest.first_chunk::<4>().copied() {
        let length = usize::from(u16::from_le_bytes([low, high]));
        let Some(data) = rest.get(4..length) else { break };
        let changed = node(kind, subkind, data, each);
        match u16::try_from(4 + changed.len()) {
            Ok(length) => {
                out.extend([kind, subkind]);
                out.extend(length.to_le_bytes());
                out.extend(changed);
            }
            Err(_) => out.extend_from_slice(&rest[..length]),
        }
        rest = &rest[length..];
    }
    out.extend_from_slice(rest);
    out
}

fn node(
    kind: u8,
    subkind: u8,
    data: &[u8],
    each: &mut dyn FnMut(&Part) -> Option<Part>,
) -> Vec<u8> {
    let mut data = data.to_vec();
    match (kind, subkind) {
        // IPv4 and IPv6: own address, server's, and the gateway's behind ports and flags.
        (3, 12) => put_addresses(&mut data, [0..4, 4..8, 15..19], each),
        (3, 13) => put_addresses(&mut data, [0..16, 16..32, 40..56], each),
        // Servers of names: a flag for IPv6, and 16 bytes for each.
        (3, 31) => {
            let n_bytes = if data.first() == Some(&1) { 16 } else { 4 };
            for at in (1..data.len()).step_by(16) {
                put(&mut data, at..at + n_bytes, each, address);
            }
        }
        // MAC and Bluetooth; Fibre Channel in its old and its new form; SAS.
        (3, 11 | 27) => put(&mut data, 0..6, each, digits),
        (3, 3 | 21) => put(&mut data, 4..12, each, digits),
        (3, 22) => put(&mut data, 0..8, each, digits),
        // The namespace's EUI-64, the last byte first.
        (3, 23) => put(&mut data, 4..12, each, turned_digits),
        (3, 19) => put_text(&mut data, 14, each, Part::Target),
        (3, 24) => put_text(&mut data, 0, each, Part::Line),
        (3, 28) => put_text(&mut data, 0, each, Part::Network),
        // A partition of a disk with a master boot record: the record's number, and that it is one (§10.3.5.1).
        (4, 1) if data.get(37) == Some(&1) => put(&mut data, 20..24, each, disk_number),
        (4, 4) => {
            if let Some(text) = utf16(&data) {
                return put_utf16(&text, each, Part::Text);
            }
        }
        _ => {}
    }
    data
}

fn put_addresses(
    data: &mut [u8],
    places: [Range<usize>; 3],
    each: &mut dyn FnMut(&Part) -> Option<Part>,
) {
    for at in places {
        put(data, at, each, address);
    }
}

fn address(bytes: &[u8]) -> Part {
    Part::Address(bytes.to_vec())
}

fn digits(bytes: &[u8]) -> Part {
    Part::Digits(bytes.to_vec())
}

fn disk_number(bytes: &[u8]) -> Part {
    Part::DiskNumber(bytes.to_vec())
}

/// The digits of a number whose lowest byte comes first.
pub(super) fn turned(bytes: &[u8]) -> String {
    let turned: Vec<u8> = bytes.iter().rev().copied().collect();
    crate::digest::hex(&turned)
}

fn turned_digits(bytes: &[u8]) -> Part {
    Part::Digits(bytes.iter().rev().copied().collect())
}

/// Replaces bytes by as many others. Digits stay here: they are replaced in all their forms later.
fn put(
    data: &mut [u8],
    at: Range<usize>,
    each: &mut dyn FnMut(&Part) -> Option<Part>,
    part: fn(&[u8]) -> Part,
) {
    let Some(bytes) = data.get_mut(at) else { return };
    if let Some(Part::Address(put) | Part::DiskNumber(put)) = each(&part(bytes))
        && put.len() == bytes.len()
    {
        bytes.copy_from_slice(&put);
    }
}

/// Replaces the text from `at` up to the zeros at its end.
fn put_text(
    data: &mut Vec<u8>,
    at: usize,
    each: &mut dyn FnMut(&Part) -> Option<Part>,
    part: fn(String) -> Part,
) {
    let Some(bytes) = data.get(at..) else { return };
    let n_bytes = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let Ok(text) = std::str::from_utf8(&bytes[..n_bytes]) else { return };
    if let Some(put) = each(&part(text.to_owned())).and_then(Part::into_text) {
        data.splice(at..at + n_bytes, put.into_bytes());
    }
}

fn put_utf16(
    text: &str,
    each: &mut dyn FnMut(&Part) -> Option<Part>,
    part: fn(String) -> Part,
) -> Vec<u8> {
    let plain = text.trim_end_matches('\0');
    let zeros = &text[plain.len()..];
    let put = each(&part(plain.to_owned())).and_then(Part::into_text);
    let put = put.unwrap_or_else(|| plain.to_owned()) + zeros;
    put.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

impl Part {
    fn into_text(self) -> Option<String> {
        match self {
            Part::Text(text) | Part::Line(text) | Part::Target(text) | Part::Network(text) => {
                Some(text)
            }
            Part::Address(_) | Part::Digits(_) | Part::DiskNumber(_) => None,
        }
    }
}

fn utf16(bytes: &[u8]) -> Option<String> {
    let units: Vec<u16> =
        bytes.chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]])).collect();
    String::from_utf16(&units).ok().filter(|_| bytes.len().is_multiple_of(2))
}

/// Whether it is text, not other data that can be read as such.
fn is_printable(text: &str) -> bool {
    let plain = text.trim_end_matches('\0');
    plain.len() >= 4 && plain.chars().all(|c| c.is_ascii_graphic() || c.is_ascii_whitespace())
}
