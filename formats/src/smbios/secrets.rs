//! Values in an SMBIOS table that name one machine or its owner: serial numbers and asset tags, the way to the
//! management controller, and vendor-defined strings.

use std::collections::BTreeSet;
use std::ops::Range;

use super::{Structure, structures};
use crate::{Encoding, Field, Kind};

/// Offsets of a structure's string numbers for serial number and asset tag (DSP0134 3.7, §7.2 to §7.5, §7.18, §7.23,
/// §7.40).
const SERIALS: [(u8, &[usize]); 7] = [
    (1, &[0x07]),
    (2, &[0x07, 0x08]),
    (3, &[0x07, 0x08]),
    (4, &[0x20, 0x21]),
    (17, &[0x18, 0x19]),
    (22, &[0x07]),
    (39, &[0x08, 0x09]),
];
const OEM_STRINGS: u8 = 11;
const HOST_INTERFACE: u8 = 42;
/// Types from here on belong to the makers of systems (DSP0134 3.7, §6.1.2).
const FIRST_VENDOR_TYPE: u8 = 128;
/// Redfish over IP (DSP0270 1.3, §6.2): UUID, the host's address, the service's, its name.
const REDFISH: u8 = 4;

/// Everything in `table` that names the machine, its network or its owner.
pub fn fields(table: &[u8]) -> Vec<Field> {
    let structures = structures(table);
    let oem = |structure: &&Structure| structure.kind() == OEM_STRINGS;
    let elsewhere: BTreeSet<&[u8]> = structures
        .iter()
        .filter(|structure| !oem(structure))
        .flat_map(|structure| structure.string_spans().map(|(_, string)| string))
        .collect();
    let mut fields = Vec::new();
    for structure in &structures {
        in_strings(structure, &mut fields);
        if structure.kind() == OEM_STRINGS || structure.kind() >= FIRST_VENDOR_TYPE {
            let labelled = structure.string_spans().filter_map(|(span, text)| labelled(span, text));
            fields.extend(labelled);
        }
        match structure.kind() {
            OEM_STRINGS => {
                // The name of the model may be repeated there, and stays what it is elsewhere.
                let own = structure
                    .string_spans()
                    .filter(|(_, string)| !elsewhere.contains(string) && is_revealing(string));
                fields.extend(own.map(|(span, _)| Field::text(span, Kind::FreeText)));
            }
            HOST_INTERFACE => {
                for (value, kind, encoding) in host_interface(structure.data(table)) {
                    fields.push(Field::within(table, value, kind, encoding));
                }
            }
            _ => {}
        }
    }
    fields
}

fn in_strings(structure: &Structure, fields: &mut Vec<Field>) {
    let offsets = SERIALS.iter().find(|(kind, _)| *kind == structure.kind());
    for offset in offsets.iter().flat_map(|(_, offsets)| *offsets) {
        let number = structure.inner.get_field_byte(*offset);
        let number = number.and_then(|number| usize::from(number).checked_sub(1));
        let string = number.and_then(|number| structure.string_spans().nth(number));
        fields.extend(string.map(|(span, _)| Field::text(span, Kind::Serial)));
    }
}

/// The serial number in a vendor's string, known by the label before it: `DSN:`, `SN:`, `S/N`.
fn labelled(span: Range<usize>, string: &[u8]) -> Option<Field> {
    let find = |label: &[u8]| {
        let at = string.windows(label.len()).position(|part| part.eq_ignore_ascii_case(label))?;
        let before = at.checked_sub(1).and_then(|at| string.get(at));
        let is_word = before.is_none_or(|byte| !byte.is_ascii_alphanumeric());
        is_word.then_some(at + label.len())
    };
    let start = [&b"DSN:"[..], b"SN:", b"S/N"].into_iter().find_map(find)?;
    let is_between = |byte: &u8| b" :=#".contains(byte);
    let start = start + string.get(start..)?.iter().take_while(|byte| is_between(byte)).count();
    let is_number = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
    let length = string.get(start..)?.iter().take_while(|byte| is_number(byte)).count();
    let span = span.start + start..span.start + start + length;
    (length > 0).then(|| Field::text(span, Kind::Serial))
}

/// A string with a number, or with a value that was given to the system
/// (`io.systemd.credential:…=…`). Others are words that every machine of the model has.
fn is_revealing(string: &[u8]) -> bool {
    string.iter().any(|byte| byte.is_ascii_digit() || *byte == b'=')
}

/// A value that names the machine.
type Found<'t> = (&'t [u8], Kind, Encoding);

/// The interface to the management controller (§7.43; DSP0270 1.3, §6): the MAC of a device on USB or
/// PCI, version 2, then protocol records.
fn host_interface(data: &[u8]) -> Vec<Found<'_>> {
    let Some(length) = data.get(5).map(|length| usize::from(*length)) else { return Vec::new() };
    let device = data.get(6..).unwrap_or_default();
    let device = &device[..length.min(device.len())];
    let mac = match device.first() {
        Some(4) => device.get(7..13),
        Some(5) => device.get(10..16),
        _ => None,
    };
    let mut found: Vec<Found> =
        mac.map(|mac| (mac, Kind::Mac, Encoding::Bytes)).into_iter().collect();
    let mut rest = data.get(7 + length..).unwrap_or_default();
    while let Some((&[kind, length], after)) = rest.split_first_chunk() {
        let Some((record, next)) = after.split_at_checked(usize::from(length)) else { break };
        if kind == REDFISH {
            redfish(record, &mut found);
        }
        rest = next;
    }
    found
}

/// The host's and the service's address, each after the byte of its format; the service's name.
fn redfish<'t>(record: &'t [u8], found: &mut Vec<Found<'t>>) {
    found.extend(record.get(..16).map(|uuid| (uuid, Kind::Serial, Encoding::Guid)));
    for (format, at) in [(17, 18), (51, 52)] {
        let length = match record.get(format) {
            Some(1) => 4,
            Some(2) => 16,
            _ => continue,
        };
        let address = record.get(at..at + length);
        found.extend(address.map(|address| (address, Kind::Address, Encoding::Bytes)));
    }
    let name = record.get(90).and_then(|length| record.get(91..91 + usize::from(*length)));
    found.extend(name.map(|name| (name, Kind::HostName, Encoding::Text)));
}
