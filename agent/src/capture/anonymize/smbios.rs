//! The table of SMBIOS (DSP0134 3.7): structures that hold addresses as bytes, and the maker's strings.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::collect::Secrets;
use super::network;
use super::pseudonym::Pseudonyms;

const TABLE: &str = "sys/firmware/dmi/tables/DMI";
const OEM_STRINGS: u8 = 11;
const HOST_INTERFACE: u8 = 42;
/// Redfish over IP (DSP0270 1.3, §6.2): UUID, the host's address, the service's, its name.
const REDFISH: u8 = 4;

/// What is done with a structure: its kind, formatted area and strings.
type Structure<'a> = dyn FnMut(u8, &mut [u8], &mut [u8]) + 'a;

/// Collects what the table at `path` holds, strings apart.
pub(super) fn collect(path: &str, content: &[u8], secrets: &mut Secrets) {
    each_structure(path, &mut content.to_vec(), &mut |kind, formatted, _| {
        if kind != HOST_INTERFACE {
            return;
        }
        let Some(length) = formatted.get(5).map(|length| usize::from(*length)) else { return };
        device(formatted.get(6..6 + length).unwrap_or_default(), secrets);
        each_redfish(formatted, &mut |record| {
            secrets.addresses.extend(addresses(record).iter().map(|(_, address)| *address));
            let uuid = record.first_chunk::<16>().map(guid).unwrap_or_default();
            secrets.named("uuid", &uuid);
            let length = record.get(90).map_or(0, |length| usize::from(*length));
            let name = record.get(91..91 + length).unwrap_or_default();
            secrets.named("hostname", String::from_utf8_lossy(name).trim_end_matches('\0'));
        });
    });
}

/// Replaces addresses of four bytes, which could mean anything elsewhere, and the maker's strings.
pub(super) fn rewrite(path: &str, content: &mut [u8], secrets: &Secrets, names: &mut Pseudonyms) {
    let mut elsewhere = BTreeSet::new();
    each_structure(path, &mut content.to_vec(), &mut |kind, _, strings| {
        if kind != OEM_STRINGS {
            elsewhere.extend(strings.split(|byte| *byte == 0).map(<[u8]>::to_vec));
        }
    });
    each_structure(path, content, &mut |kind, formatted, strings| match kind {
        OEM_STRINGS => {
            for string in strings.split_mut(|byte| *byte == 0) {
                // The name of the model may stand there too, and goes on to be that.
                if !elsewhere.contains(string) {
                    oem_string(string, secrets, names);
                }
            }
        }
        HOST_INTERFACE => each_redfish(formatted, &mut |record| {
            for (at, address) in addresses(record) {
                let put = network::to_bytes(names.address(address));
                if let Some(bytes) = record.get_mut(at..at + put.len()) {
                    bytes.copy_from_slice(&put);
                }
            }
        }),
        _ => {}
    });
}

/// A number of the maker's, or a value that was given to the system (`io.systemd.credential:…=…`).
fn oem_string(string: &mut [u8], secrets: &Secrets, names: &mut Pseudonyms) {
    let holds = string.iter().any(|byte| byte.is_ascii_digit() || *byte == b'=');
    let Some(text) = std::str::from_utf8(string).ok().filter(|_| holds) else { return };
    let plain = text.trim();
    if secrets.is_number(plain) {
        return;
    }
    let start = text.find(plain).unwrap_or_default();
    let put = names.text(plain).into_bytes();
    if let Some(bytes) = string.get_mut(start..start + put.len()) {
        bytes.copy_from_slice(&put);
    }
}

/// Calls `each` with kind, formatted area and strings of every structure.
fn each_structure(path: &str, content: &mut [u8], each: &mut Structure) {
    let mut rest = if path == TABLE { content } else { &mut [] };
    while let [kind, length, ..] = *rest {
        let length = usize::from(length);
        let Some((formatted, behind)) = rest.split_at_mut_checked(length) else { return };
        let end = behind.windows(2).position(|pair| pair == [0, 0]);
        let (Some(end), true) = (end, length >= 4) else { return };
        let (strings, behind) = behind.split_at_mut(end);
        each(kind, formatted, strings);
        rest = behind.get_mut(2..).unwrap_or_default();
    }
}

/// The MAC of the interface to the BMC (DSP0270 1.3, §6.1): of a device on USB or PCI, version 2.
fn device(data: &[u8], secrets: &mut Secrets) {
    let at = match data.first() {
        Some(4) => 7,
        Some(5) => 10,
        _ => return,
    };
    secrets.digits(&crate::digest::hex(data.get(at..at + 6).unwrap_or_default()));
}

/// Calls `each` with every protocol record for Redfish, behind the data of the interface.
fn each_redfish(formatted: &mut [u8], each: &mut dyn FnMut(&mut [u8])) {
    let Some(length) = formatted.get(5).map(|length| usize::from(*length)) else { return };
    let mut rest = formatted.get_mut(7 + length..).unwrap_or_default();
    while let Some([kind, length]) = rest.first_chunk::<2>().copied() {
        let Some((record, behind)) = rest.split_at_mut_checked(2 + usize::from(length)) else {
            return;
        };
        if kind == REDFISH {
            each(&mut record[2..]);
        }
        rest = behind;
    }
}

/// The host's and the service's address, each behind the byte of its format, and where they stand.
fn addresses(record: &[u8]) -> Vec<(usize, IpAddr)> {
    let address = |format: usize, at: usize| {
        let n_bytes = match record.get(format)? {
            1 => 4,
            2 => 16,
            _ => return None,
        };
        Some((at, network::from_bytes(record.get(at..at + n_bytes)?)?))
    };
    [address(17, 18), address(51, 52)].into_iter().flatten().collect()
}

/// A GUID's first three parts have the last byte first.
fn guid(bytes: &[u8; 16]) -> String {
    let order = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    let turned: Vec<u8> = order.iter().filter_map(|at: &usize| bytes.get(*at).copied()).collect();
    crate::digest::hex(&turned)
}
