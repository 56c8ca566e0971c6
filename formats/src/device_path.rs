//! EFI device paths (UEFI Specification 2.10, §10.3): their nodes, the values in them that reveal something, and their
//! text form (§10.6).

use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use crate::bytes::array;
use crate::guid::Guid;
use crate::hex::{grouped, hex};
use crate::{Edit, Encoding, Field, Kind, utf16};

/// A path has about ten nodes; the text of a damaged one must not fill the report.
const MAX_TEXT_NODES: usize = 64;
/// Nodes of no known kind are written as hexadecimal digits up to this length.
const MAX_HEX_BYTES: usize = 64;
/// The most characters of a URL or name in the text form.
const MAX_NAME_BYTES: usize = 2048;
/// Kind, kind within that, and length in two bytes.
const HEADER_BYTES: usize = 4;

/// Offset and length of a number in a node's data.
type Place = (usize, usize);
/// Nodes that are written as a name and numbers.
const WITH_NUMBERS: [((u8, u8), &str, &[Place]); 12] = [
    ((1, 1), "Pci", &[(1, 1), (0, 1)]),
    ((1, 3), "MemoryMapped", &[(0, 4), (4, 8), (12, 8)]),
    ((1, 5), "Ctrl", &[(0, 4)]),
    ((3, 2), "Scsi", &[(0, 2), (2, 2)]),
    ((3, 3), "Fibre", &[(4, 8), (12, 8)]),
    ((3, 5), "USB", &[(0, 1), (1, 1)]),
    ((3, 17), "Unit", &[(0, 1)]),
    ((3, 18), "Sata", &[(0, 2), (2, 2), (4, 2)]),
    ((3, 26), "SD", &[(0, 1)]),
    ((3, 29), "eMMC", &[(0, 1)]),
    ((4, 2), "CDROM", &[(0, 4), (4, 8), (12, 8)]),
    ((4, 8), "Offset", &[(4, 8), (12, 8)]),
];
/// Nodes that are written as a name and a GUID.
const WITH_GUID: [((u8, u8), &str); 5] = [
    ((1, 4), "VenHw"),
    ((3, 10), "VenMsg"),
    ((4, 3), "VenMedia"),
    ((4, 6), "FvFile"),
    ((4, 7), "Fv"),
];

/// Kind of the node of a network port.
pub const MAC: (u8, u8) = (3, 11);
/// Kinds of nodes whose program comes from the network: MAC, IPv4, IPv6, URI, InfiniBand.
pub const NETWORK: [(u8, u8); 5] = [MAC, (3, 12), (3, 13), (3, 24), (3, 9)];
/// Kind of the node of a partition.
pub const PARTITION: (u8, u8) = (4, 1);
/// Kind of the node of a file.
pub const FILE: (u8, u8) = (4, 4);
/// The node that ends a whole path.
pub const END: [u8; HEADER_BYTES] = [0x7f, 0xff, 4, 0];

/// One node of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node<'a> {
    /// The whole node, with its header.
    pub bytes: &'a [u8],
    /// Its offset in the path.
    pub offset: usize,
}

impl<'a> Node<'a> {
    /// Its kind and its kind within that; 0x7f is an end.
    pub fn kind(&self) -> (u8, u8) {
        array(self.bytes, 0).map_or((0, 0), |[kind, subkind]| (kind, subkind))
    }

    /// True if it ends the path, or one of several.
    pub fn is_end(&self) -> bool {
        self.kind().0 == 0x7f
    }

    /// The bytes after the header.
    pub fn data(&self) -> &'a [u8] {
        self.bytes.get(HEADER_BYTES..).unwrap_or_default()
    }

    /// The MAC of an Ethernet port, if the node is one.
    pub fn ethernet_mac(&self) -> Option<[u8; 6]> {
        let is_ethernet = self.data().get(32).is_none_or(|kind| *kind <= 1);
        array(self.data(), 0).filter(|_| self.kind() == MAC && is_ethernet)
    }
}

/// The nodes up to the path's end or the first damaged one. An end node does not stop it: a variable
/// may hold several paths.
pub fn nodes(path: &[u8]) -> impl Iterator<Item = Node<'_>> {
    let mut offset = 0;
    std::iter::from_fn(move || {
        let rest = path.get(offset..)?;
        let length = usize::from(array(rest, 2).map(u16::from_le_bytes)?);
        let bytes = rest.get(..length).filter(|node| node.len() >= HEADER_BYTES)?;
        let node = Node { bytes, offset };
        offset += length;
        Some(node)
    })
}

/// A node of this kind; `None` if `data` is too long.
pub fn node(kind: (u8, u8), data: &[u8]) -> Option<Vec<u8>> {
    let length = u16::try_from(HEADER_BYTES + data.len()).ok()?.to_le_bytes();
    Some([&[kind.0, kind.1], &length[..], data].concat())
}

/// The node of a partition in a GUID partition table (§10.3.5.1).
pub fn partition_node(partition: &crate::gpt::Partition) -> Vec<u8> {
    let number = partition.number.to_le_bytes();
    let place = [partition.first_block, partition.n_blocks].map(u64::to_le_bytes).concat();
    // The table is a GPT, and the signature a GUID.
    [&[4, 1, 42, 0], &number[..], &place, &partition.guid.0, &[2, 2]].concat()
}

/// The GUID of the partition, if the node is that of a partition in a GUID partition table.
pub fn partition_guid(node: &Node<'_>) -> Option<Guid> {
    let guid = array(node.data(), 20).map(Guid)?;
    (node.kind() == PARTITION && node.data().get(36..) == Some(&[2, 2])).then_some(guid)
}

/// The node of a file (§10.3.5.4), whose path has `\\` or `/` between its parts; `None` if it is too long.
pub fn file_node(path: &str) -> Option<Vec<u8>> {
    node(FILE, &utf16::with_nul(&path.replace('/', "\\")))
}

/// Lists the places in a path that reveal something.
pub fn fields(path: &[u8]) -> Vec<Field> {
    let of_node = |node: Node<'_>| {
        let at = node.offset + HEADER_BYTES;
        let fields = node_fields(node.kind(), node.data());
        fields.into_iter().map(move |field| field.moved(at))
    };
    nodes(path).flat_map(of_node).collect()
}

/// Lists the places in a node's data that reveal something.
fn node_fields((kind, subkind): (u8, u8), data: &[u8]) -> Vec<Field> {
    let bytes = |kind, span: Range<usize>, encoding| {
        data.get(span.clone()).map(|_| Field { span, kind, encoding })
    };
    let address = |span| bytes(Kind::Address, span, Encoding::Bytes);
    let mac = |span| bytes(Kind::Mac, span, Encoding::Bytes);
    let number = |span, encoding| bytes(Kind::Serial, span, encoding);
    let fields = match (kind, subkind) {
        // IPv4 and IPv6: local address, server's, and the gateway's after ports and flags.
        (3, 12) => [0..4, 4..8, 15..19].map(address).to_vec(),
        (3, 13) => [0..16, 16..32, 40..56].map(address).to_vec(),
        // Name servers: a flag for IPv6, and 16 bytes for each.
        (3, 31) => {
            let n_bytes = if data.first() == Some(&1) { 16 } else { 4 };
            (1..data.len()).step_by(16).map(|at| address(at..at + n_bytes)).collect()
        }
        // MAC and Bluetooth.
        (3, 11 | 27) => vec![mac(0..6)],
        // Fibre Channel in its old and its new form; SAS.
        (3, 3 | 21) => vec![number(4..12, Encoding::Bytes)],
        (3, 22) => vec![number(0..8, Encoding::Bytes)],
        // The namespace's EUI-64, the last byte first.
        (3, 23) => vec![number(4..12, Encoding::LittleEndian)],
        // The name of an iSCSI target, a URL, the name of a wireless network.
        (3, 19) => vec![text_field(data, 14, Kind::Identifier)],
        (3, 24) => vec![text_field(data, 0, Kind::Arguments)],
        (3, 28) => vec![text_field(data, 0, Kind::Secret)],
        (4, 1) => match data.get(37) {
            // The number of a disk with a DOS table. Its four bytes may mean anything elsewhere.
            Some(1) => vec![number(20..24, Encoding::LittleEndian)],
            Some(2) => vec![number(20..36, Encoding::Guid)],
            _ => Vec::new(),
        },
        (4, 4) => vec![utf16::field(0..data.len(), data, Kind::Description)],
        _ => Vec::new(),
    };
    fields.into_iter().flatten().collect()
}

/// Text of one byte a character from `at` up to the NULs at the end of `data`.
fn text_field(data: &[u8], at: usize, kind: Kind) -> Option<Field> {
    let bytes = data.get(at..)?;
    let n_bytes = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    std::str::from_utf8(&bytes[..n_bytes]).ok()?;
    Some(Field::text(at..at + n_bytes, kind))
}

/// The path with these edits, each node's length adjusted. The path begins at `offset` in the bytes that the edits'
/// spans refer to. A node that would become too long stays as it is.
pub fn splice(path: &[u8], offset: usize, edits: &[Edit]) -> Vec<u8> {
    let (mut out, mut end) = (Vec::with_capacity(path.len()), 0);
    for old in nodes(path) {
        end = old.offset + old.bytes.len();
        let changed = crate::splice(old.data(), offset + old.offset + HEADER_BYTES, edits);
        out.extend(node(old.kind(), &changed).unwrap_or_else(|| old.bytes.to_vec()));
    }
    out.extend_from_slice(path.get(end..).unwrap_or_default());
    out
}

/// The path as text; `None` if it has no nodes. Nodes after a damaged one are left out.
pub fn text(path: &[u8]) -> Option<String> {
    let mut text = String::new();
    for node in nodes(path).take(MAX_TEXT_NODES) {
        match node.kind() {
            (0x7f, 0x01) => text.push(','),
            (0x7f, _) => break,
            kind => {
                if !text.is_empty() && !text.ends_with(',') {
                    text.push('/');
                }
                text.push_str(&node_text(kind, node.data()));
            }
        }
    }
    (!text.is_empty()).then_some(text)
}

/// One node; one whose length does not fit its kind is written as bytes.
fn node_text(kind: (u8, u8), data: &[u8]) -> String {
    known(kind, data).unwrap_or_else(|| {
        let digits = hex(data.iter().take(MAX_HEX_BYTES)).to_ascii_uppercase();
        format!("Path({},{},{digits})", kind.0, kind.1)
    })
}

fn known(kind: (u8, u8), data: &[u8]) -> Option<String> {
    if let Some((_, name, places)) = WITH_NUMBERS.iter().find(|(known, ..)| *known == kind) {
        let numbers = places.iter().map(|(at, n)| Some(format!("0x{:X}", number(data, *at, *n)?)));
        return Some(format!("{name}({})", numbers.collect::<Option<Vec<String>>>()?.join(",")));
    }
    if let Some((_, name)) = WITH_GUID.iter().find(|(known, _)| *known == kind) {
        return Some(format!("{name}({})", guid(data)?));
    }
    match kind {
        (2, 1) => acpi(data),
        (3, 11) => mac(data),
        (3, 12) => Some(format!("IPv4({})", Ipv4Addr::from(array::<4>(data, 4)?))),
        (3, 13) => Some(format!("IPv6({})", Ipv6Addr::from(array::<16>(data, 16)?))),
        (3, 20) => Some(format!("Vlan({})", number(data, 0, 2)?)),
        (3, 23) => {
            let eui = hex(data.get(4..12)?.iter().rev()).to_ascii_uppercase();
            Some(format!("NVMe(0x{:X},{})", number(data, 0, 4)?, grouped(&eui, 2, "-")))
        }
        (3, 24) => Some(format!("Uri({})", printable(data))),
        (3, 31) => Some("Dns()".to_owned()),
        (4, 1) => hard_drive(data),
        (4, 4) => Some(utf16::line(data)),
        (5, _) => Some(format!("BBS({})", bbs(data))),
        _ => None,
    }
}

fn acpi(data: &[u8]) -> Option<String> {
    let (hid, uid) = (number(data, 0, 4)?, number(data, 4, 4)?);
    // The low half is `PNP` in compressed letters, the high half the product's number.
    Some(match (hid & 0xffff, hid >> 16) {
        (0x41d0, 0x0a03) => format!("PciRoot(0x{uid:X})"),
        (0x41d0, 0x0a08) => format!("PcieRoot(0x{uid:X})"),
        (0x41d0, 0x0604) => format!("Floppy(0x{uid:X})"),
        (0x41d0, 0x0501) => format!("Serial(0x{uid:X})"),
        (0x41d0, product) => format!("Acpi(PNP{product:04X},0x{uid:X})"),
        _ => format!("Acpi(0x{hid:08X},0x{uid:X})"),
    })
}

/// Six bytes for Ethernet (types 0 and 1), else all 32.
fn mac(data: &[u8]) -> Option<String> {
    let kind = *data.get(32)?;
    let length = if kind <= 1 { 6 } else { 32 };
    Some(format!("MAC({},0x{kind:X})", hex(data.get(..length)?)))
}

fn hard_drive(data: &[u8]) -> Option<String> {
    let (entry, start, size) = (number(data, 0, 4)?, number(data, 4, 8)?, number(data, 12, 8)?);
    let (table, signature) = match *data.get(37)? {
        1 => ("MBR", format!("0x{:08X}", number(data, 20, 4)?)),
        2 => ("GPT", guid(&data[20..])?.to_string()),
        _ => ("0", "0".to_owned()),
    };
    Some(format!("HD({entry},{table},{signature},0x{start:X},0x{size:X})"))
}

/// Kind of device and its name, which is plain text here.
fn bbs(data: &[u8]) -> String {
    const KINDS: [&str; 6] = ["Floppy", "HD", "CDROM", "PCMCIA", "USB", "Network"];
    let name = |kind: u16| match KINDS.get(usize::from(kind).wrapping_sub(1)) {
        Some(name) => (*name).to_owned(),
        None => format!("0x{kind:X}"),
    };
    let kind = array(data, 0).map(u16::from_le_bytes).map(name).unwrap_or_default();
    format!("{kind},{}", printable(data.get(4..).unwrap_or_default()))
}

fn guid(data: &[u8]) -> Option<Guid> {
    array(data, 0).map(Guid)
}

/// Text up to a NUL; bytes that are not printable ASCII become `\xNN`.
fn printable(data: &[u8]) -> String {
    let mut text = String::new();
    for byte in data.iter().take_while(|byte| **byte != 0).take(MAX_NAME_BYTES) {
        match byte {
            0x20..=0x7e => text.push(char::from(*byte)),
            _ => drop(write!(text, "\\x{byte:02x}")),
        }
    }
    text
}

/// The little-endian number of `n_bytes` at `at`.
fn number(data: &[u8], at: usize, n_bytes: usize) -> Option<u64> {
    let bytes = data.get(at..at + n_bytes)?.iter().rev();
    Some(bytes.fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests;
