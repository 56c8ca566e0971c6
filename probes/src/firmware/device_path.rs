//! EFI device paths as text (UEFI Specification 2.10, 10.3 and 10.6).

use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::load_option::ucs2;

/// A path has some ten nodes; a damaged one shall not fill the report.
const LIMIT_NODES: usize = 64;
/// Nodes of no known kind are written as hexadecimal digits up to this length.
const LIMIT_HEX_BYTES: usize = 64;

/// The path as text; `None` if it has no node. What comes after a damaged node is left out.
pub(super) fn text(mut bytes: &[u8]) -> Option<String> {
    let mut text = String::new();
    for _ in 0..LIMIT_NODES {
        let Some(&[kind, subkind, low, high]) = bytes.first_chunk::<4>() else { break };
        let length = usize::from(u16::from_le_bytes([low, high]));
        let Some(data) = bytes.get(4..length) else { break };
        bytes = &bytes[length..];
        match (kind, subkind) {
            (0x7f, 0x01) => text.push(','),
            (0x7f, _) => break,
            _ => {
                if !text.is_empty() && !text.ends_with(',') {
                    text.push('/');
                }
                text.push_str(&node(kind, subkind, data));
            }
        }
    }
    (!text.is_empty()).then_some(text)
}

/// One node; one whose length does not fit its kind is written as bytes.
fn node(kind: u8, subkind: u8, data: &[u8]) -> String {
    let known = match kind {
        1 => hardware(subkind, data),
        2 => acpi(subkind, data),
        3 => messaging(subkind, data),
        4 => media(subkind, data),
        5 => Some(format!("BBS({})", bbs(data))),
        _ => None,
    };
    known.unwrap_or_else(|| format!("Path({kind},{subkind},{})", hex(data)))
}

fn hardware(subkind: u8, data: &[u8]) -> Option<String> {
    match subkind {
        1 => Some(format!("Pci(0x{:X},0x{:X})", byte(data, 1)?, byte(data, 0)?)),
        3 => Some(format!(
            "MemoryMapped(0x{:X},0x{:X},0x{:X})",
            u32_at(data, 0)?,
            u64_at(data, 4)?,
            u64_at(data, 12)?
        )),
        4 => Some(format!("VenHw({})", guid(data)?)),
        5 => Some(format!("Ctrl(0x{:X})", u32_at(data, 0)?)),
        _ => None,
    }
}

fn acpi(subkind: u8, data: &[u8]) -> Option<String> {
    if subkind != 1 {
        return None;
    }
    let (hid, uid) = (u32_at(data, 0)?, u32_at(data, 4)?);
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

fn messaging(subkind: u8, data: &[u8]) -> Option<String> {
    match subkind {
        2 => Some(format!("Scsi(0x{:X},0x{:X})", u16_at(data, 0)?, u16_at(data, 2)?)),
        3 => Some(format!("Fibre(0x{:X},0x{:X})", u64_at(data, 4)?, u64_at(data, 12)?)),
        5 => Some(format!("USB(0x{:X},0x{:X})", byte(data, 0)?, byte(data, 1)?)),
        10 => Some(format!("VenMsg({})", guid(data)?)),
        11 => mac(data),
        12 => Some(format!("IPv4({})", Ipv4Addr::from(*data.get(4..8)?.first_chunk::<4>()?))),
        13 => Some(format!("IPv6({})", Ipv6Addr::from(*data.get(16..32)?.first_chunk::<16>()?))),
        17 => Some(format!("Unit(0x{:X})", byte(data, 0)?)),
        18 => {
            let (port, multiplier, lun) = (u16_at(data, 0)?, u16_at(data, 2)?, u16_at(data, 4)?);
            Some(format!("Sata(0x{port:X},0x{multiplier:X},0x{lun:X})"))
        }
        20 => Some(format!("Vlan({})", u16_at(data, 0)?)),
        23 => {
            let eui = data.get(4..12)?.iter().rev().map(|byte| format!("{byte:02X}"));
            Some(format!("NVMe(0x{:X},{})", u32_at(data, 0)?, eui.collect::<Vec<_>>().join("-")))
        }
        24 => Some(format!("Uri({})", printable(data))),
        26 => Some(format!("SD(0x{:X})", byte(data, 0)?)),
        29 => Some(format!("eMMC(0x{:X})", byte(data, 0)?)),
        31 => Some("Dns()".to_owned()),
        _ => None,
    }
}

/// Six bytes for Ethernet (types 0 and 1), else all 32.
fn mac(data: &[u8]) -> Option<String> {
    let kind = byte(data, 32)?;
    let length = if kind <= 1 { 6 } else { 32 };
    Some(format!("MAC({},0x{kind:X})", hex(data.get(..length)?).to_ascii_lowercase()))
}

fn media(subkind: u8, data: &[u8]) -> Option<String> {
    match subkind {
        1 => hard_drive(data),
        2 => {
            let (entry, start, size) = (u32_at(data, 0)?, u64_at(data, 4)?, u64_at(data, 12)?);
            Some(format!("CDROM(0x{entry:X},0x{start:X},0x{size:X})"))
        }
        3 => Some(format!("VenMedia({})", guid(data)?)),
        4 => Some(ucs2(data)),
        6 => Some(format!("FvFile({})", guid(data)?)),
        7 => Some(format!("Fv({})", guid(data)?)),
        8 => Some(format!("Offset(0x{:X},0x{:X})", u64_at(data, 4)?, u64_at(data, 12)?)),
        _ => None,
    }
}

fn hard_drive(data: &[u8]) -> Option<String> {
    let (number, start, size) = (u32_at(data, 0)?, u64_at(data, 4)?, u64_at(data, 12)?);
    let signature = data.get(20..36)?;
    let (table, signature) = match byte(data, 37)? {
        1 => ("MBR", format!("0x{:08X}", u32_at(signature, 0)?)),
        2 => ("GPT", guid(signature)?),
        _ => ("0", "0".to_owned()),
    };
    Some(format!("HD({number},{table},{signature},0x{start:X},0x{size:X})"))
}

/// Kind of device and its name, which is plain text here.
fn bbs(data: &[u8]) -> String {
    let kind = match u16_at(data, 0) {
        Some(1) => "Floppy".to_owned(),
        Some(2) => "HD".to_owned(),
        Some(3) => "CDROM".to_owned(),
        Some(4) => "PCMCIA".to_owned(),
        Some(5) => "USB".to_owned(),
        Some(6) => "Network".to_owned(),
        Some(kind) => format!("0x{kind:X}"),
        None => String::new(),
    };
    format!("{kind},{}", printable(data.get(4..).unwrap_or_default()))
}

/// A GUID in its text form, in lower case: the first three parts are little-endian.
fn guid(data: &[u8]) -> Option<String> {
    let (first, second, third) = (u32_at(data, 0)?, u16_at(data, 4)?, u16_at(data, 6)?);
    let rest = hex(data.get(8..16)?).to_ascii_lowercase();
    let (fourth, fifth) = rest.split_at_checked(4)?;
    Some(format!("{first:08x}-{second:04x}-{third:04x}-{fourth}-{fifth}"))
}

/// Text up to a NUL; bytes that are no printable ASCII become `\xNN`.
fn printable(data: &[u8]) -> String {
    let mut text = String::new();
    for byte in data.iter().take_while(|byte| **byte != 0).take(2048) {
        match byte {
            0x20..=0x7e => text.push(char::from(*byte)),
            _ => drop(write!(text, "\\x{byte:02x}")),
        }
    }
    text
}

fn hex(data: &[u8]) -> String {
    data.iter().take(LIMIT_HEX_BYTES).fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02X}").ok();
        text
    })
}

fn byte(data: &[u8], at: usize) -> Option<u8> {
    data.get(at).copied()
}

fn u16_at(data: &[u8], at: usize) -> Option<u16> {
    data.get(at..)?.first_chunk().map(|bytes| u16::from_le_bytes(*bytes))
}

fn u32_at(data: &[u8], at: usize) -> Option<u32> {
    data.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

fn u64_at(data: &[u8], at: usize) -> Option<u64> {
    data.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(kind: u8, subkind: u8, data: &[u8]) -> Vec<u8> {
        let length = u16::try_from(data.len() + 4).unwrap().to_le_bytes();
        [&[kind, subkind, length[0], length[1]], data].concat()
    }

    #[test]
    fn a_disk_and_a_network_path_read_as_the_specification_writes_them() {
        let mut disk = vec![1, 0, 0, 0];
        disk.extend(0x800_u64.to_le_bytes());
        disk.extend(0x32000_u64.to_le_bytes());
        disk.extend([0x78, 0x56, 0x34, 0x12, 0xbc, 0x9a, 0xf0, 0xde, 1, 2, 3, 4, 5, 6, 7, 8]);
        disk.extend([2, 2]);
        let bytes = [node(4, 1, &disk), node(0x7f, 0xff, &[])].concat();
        assert_eq!(
            text(&bytes).as_deref(),
            Some("HD(1,GPT,12345678-9abc-def0-0102-030405060708,0x800,0x32000)")
        );
        let mut mac = vec![2, 0, 0, 0, 0, 1];
        mac.resize(32, 0);
        mac.push(1);
        let mut ipv4 = vec![0; 23];
        ipv4[4..8].copy_from_slice(&[192, 0, 2, 7]);
        let bytes = [
            node(2, 1, &[0xd0, 0x41, 0x03, 0x0a, 0, 0, 0, 0]),
            node(1, 1, &[0, 3]),
            node(3, 11, &mac),
            node(3, 12, &ipv4),
            node(3, 24, b"http://192.0.2.1/boot.efi"),
        ]
        .concat();
        assert_eq!(
            text(&bytes).as_deref(),
            Some(
                "PciRoot(0x0)/Pci(0x3,0x0)/MAC(020000000001,0x1)/IPv4(192.0.2.7)\
                 /Uri(http://192.0.2.1/boot.efi)"
            )
        );
    }

    #[test]
    fn nodes_that_are_unknown_or_too_short_are_written_as_bytes() {
        assert_eq!(text(&node(9, 9, &[0xab])).as_deref(), Some("Path(9,9,AB)"));
        assert_eq!(text(&node(4, 1, &[1, 2])).as_deref(), Some("Path(4,1,0102)"));
    }

    #[test]
    fn hostile_paths_end() {
        assert_eq!(text(&[]), None);
        assert_eq!(text(&[4, 4, 0, 0]), None);
        assert_eq!(text(&[4, 4, 3, 0, 1]), None);
        assert_eq!(text(&[4, 4, 0xff, 0xff, 1]), None);
        for kind in [0, 1, 2, 3, 4, 5, 6, 0x7e] {
            for subkind in [0, 1, 2, 3, 4, 8, 11, 13, 17, 23, 24, 31] {
                for length in [0, 1, 7, 24, 40] {
                    let bytes = node(kind, subkind, &vec![0xff; length]).repeat(100);
                    assert!(text(&bytes).is_none_or(|text| text.len() < 20_000));
                }
            }
        }
    }
}
