//! Signs of a management controller in the SMBIOS table: type 38, IPMI Device Information, and
//! type 42, Management Controller Host Interface (DSP0134 3.7, 7.39 and 7.43; DSP0270 1.3, chapter 8).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Bmc;

/// `Redfish over IP`, a protocol of the host interface.
const REDFISH_OVER_IP: u8 = 4;

/// The controller's Redfish service, which the host reaches over a private link.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Redfish {
    /// Address of the service.
    pub address: Option<String>,
    /// TCP port of the service.
    pub port: Option<u16>,
    /// Host name of the service.
    pub hostname: Option<String>,
    /// Address that the host should use on the link.
    pub host_address: Option<String>,
}

/// Fills in the facts of the table and skips damaged structures.
pub(super) fn fill(table: &[u8], bmc: &mut Bmc) {
    for structure in structures(table) {
        match structure.first() {
            Some(38) => {
                bmc.interface = bmc.interface.take().or_else(|| interface(structure));
                bmc.ipmi_version = bmc.ipmi_version.take().or_else(|| version(structure));
            }
            Some(42) => bmc.redfish = bmc.redfish.take().or_else(|| redfish(structure)),
            _ => {}
        }
    }
}

/// The formatted areas of the structures: each ends with its strings and two zeros.
fn structures(table: &[u8]) -> impl Iterator<Item = &[u8]> {
    const END_OF_TABLE: u8 = 127;
    let mut rest = table;
    std::iter::from_fn(move || {
        let length = usize::from(*rest.get(1)?);
        let formatted = rest.get(..length).filter(|_| length >= 4)?;
        let strings = rest.get(length..)?;
        let end = strings.windows(2).position(|pair| pair == [0, 0])?;
        rest = strings.get(end + 2..)?;
        (formatted[0] != END_OF_TABLE).then_some(formatted)
    })
}

/// Offset 04h: how the host communicates with the controller. `None` if the firmware does not report it.
fn interface(structure: &[u8]) -> Option<String> {
    let name = match structure.get(4)? {
        1 => "kcs",
        2 => "smic",
        3 => "bt",
        4 => "ssif",
        _ => return None,
    };
    Some(name.to_owned())
}

/// Offset 05h: the version of IPMI, a digit in each half.
fn version(structure: &[u8]) -> Option<String> {
    let version = structure.get(5).filter(|version| **version != 0)?;
    Some(format!("{}.{}", version >> 4, version & 0x0f))
}

/// Interface type, length of its data, the data, then protocol records of type, length and data.
fn redfish(structure: &[u8]) -> Option<Redfish> {
    let data_bytes = usize::from(*structure.get(5)?);
    let mut rest = structure.get(6 + data_bytes..)?;
    let (&n_records, records) = rest.split_first()?;
    rest = records;
    for _ in 0..n_records {
        let &[kind, length] = rest.first_chunk::<2>()?;
        let record = rest.get(2..2 + usize::from(length))?;
        if kind == REDFISH_OVER_IP {
            return redfish_record(record);
        }
        rest = rest.get(2 + usize::from(length)..)?;
    }
    None
}

/// DSP0270, table 6: UUID, then address, mask and their kinds for host and service, port, VLAN,
/// host name.
fn redfish_record(record: &[u8]) -> Option<Redfish> {
    let port = record.get(84..)?.first_chunk::<2>().map(|bytes| u16::from_le_bytes(*bytes));
    let name = record.get(90).and_then(|length| record.get(91..91 + usize::from(*length)));
    let redfish = Redfish {
        address: address(record, 51),
        port: port.filter(|port| *port != 0),
        hostname: name.and_then(formats::netlink::text),
        host_address: address(record, 17),
    };
    (redfish != Redfish::default()).then_some(redfish)
}

/// A byte for the kind of address (1 is IPv4, 2 is IPv6), then 16 bytes of address.
fn address(record: &[u8], offset: usize) -> Option<String> {
    let bytes = record.get(offset + 1..)?.first_chunk::<16>()?;
    let address = match record.get(offset)? {
        1 => IpAddr::from(Ipv4Addr::from(*bytes.first_chunk::<4>()?)),
        2 => IpAddr::from(Ipv6Addr::from(*bytes)),
        _ => return None,
    };
    let is_known = !address.is_unspecified() && bytes.iter().any(|byte| *byte != 0xff);
    is_known.then(|| address.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::bytes::survives_any_bytes;

    fn table() -> Vec<u8> {
        let mut record = vec![0; 91];
        (record[16], record[17]) = (1, 1);
        record[18..22].copy_from_slice(&[169, 254, 0, 2]);
        (record[50], record[51]) = (1, 1);
        record[52..56].copy_from_slice(&[169, 254, 0, 1]);
        record[84..86].copy_from_slice(&443_u16.to_le_bytes());
        record[90] = 4;
        record.extend(b"host");
        let mut type_42 = vec![42, 0, 1, 0, 0x40, 1, 2, 1, REDFISH_OVER_IP, 95];
        type_42.extend(record);
        type_42[1] = u8::try_from(type_42.len()).unwrap();
        let type_38 = vec![38, 6, 2, 0, 1, 0x20];
        let end = vec![0, 0];
        [type_42, end.clone(), type_38, b"a string\0\0".to_vec(), vec![127, 4, 3, 0], end].concat()
    }

    #[test]
    fn host_interface_and_redfish_service_are_found() {
        let mut bmc = Bmc::default();
        fill(&table(), &mut bmc);
        assert_eq!(
            (bmc.interface.as_deref(), bmc.ipmi_version.as_deref()),
            (Some("kcs"), Some("2.0"))
        );
        let redfish = bmc.redfish.unwrap();
        assert_eq!(redfish.address.as_deref(), Some("169.254.0.1"));
        assert_eq!(redfish.host_address.as_deref(), Some("169.254.0.2"));
        assert_eq!((redfish.port, redfish.hostname.as_deref()), (Some(443), Some("host")));
    }

    #[test]
    fn no_bytes_make_the_parser_panic() {
        survives_any_bytes(&table(), |bytes| fill(bytes, &mut Bmc::default()));
    }
}
