//! Signs of a management controller in the SMBIOS table: type 38, IPMI Device Information, and
//! type 42, Management Controller Host Interface (DSP0134 3.7, 7.39 and 7.43; DSP0270 1.3, chapter 8).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Bmc;
use crate::smbios::Smbios;
use crate::smbios::types::{
    HostProtocolType, IpmiInterfaceType, ProtocolRecord, SMBiosIpmiDeviceInformation,
    SMBiosManagementControllerHostInterface,
};

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

/// Fills in the facts of the table.
pub(super) fn fill(table: &Smbios, bmc: &mut Bmc) {
    for device in table.all::<SMBiosIpmiDeviceInformation>() {
        let interface = device.interface_type().and_then(|kind| interface(&kind));
        bmc.interface = bmc.interface.take().or(interface.map(str::to_owned));
        // A digit in each half.
        let version = device.ipmi_specification_revision().filter(|version| *version != 0);
        let version = version.map(|version| format!("{}.{}", version >> 4, version & 0x0f));
        bmc.ipmi_version = bmc.ipmi_version.take().or(version);
    }
    let mut interfaces = table.all::<SMBiosManagementControllerHostInterface>();
    bmc.redfish = interfaces.find_map(|interface| redfish(&interface));
}

/// Interface between the host and the controller. `None` if the firmware does not report it.
fn interface(kind: &IpmiInterfaceType) -> Option<&'static str> {
    match kind {
        IpmiInterfaceType::KeyboardControllerStyle => Some("kcs"),
        IpmiInterfaceType::ServerManagementInterfaceChip => Some("smic"),
        IpmiInterfaceType::BlockTransfer => Some("bt"),
        IpmiInterfaceType::SMBusSystemInterface => Some("ssif"),
        IpmiInterfaceType::Unknown | IpmiInterfaceType::None => None,
    }
}

fn redfish(interface: &SMBiosManagementControllerHostInterface) -> Option<Redfish> {
    let is_redfish = |record: &ProtocolRecord| {
        record.protocol_type().is_some_and(|kind| *kind == HostProtocolType::RedfishOverIP)
    };
    let record = interface.protocol_record_iterator().find(is_redfish)?;
    redfish_record(record.protocol_type_specific_data()?)
}

/// DSP0270, table 6: UUID, then address, mask and their kinds for host and service, port, VLAN,
/// host name.
fn redfish_record(record: &[u8]) -> Option<Redfish> {
    let port = record.get(84..)?.first_chunk::<2>().map(|bytes| u16::from_le_bytes(*bytes));
    let name = record.get(90).and_then(|length| record.get(91..91 + usize::from(*length)));
    let redfish = Redfish {
        address: address(record, 51),
        port: port.filter(|port| *port != 0),
        hostname: name.and_then(formats::text::to_nul),
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
    use crate::testing::has;
    use serde_json::json;

    fn table() -> Vec<u8> {
        let mut record = vec![0; 91];
        (record[16], record[17]) = (1, 1);
        record[18..22].copy_from_slice(&[169, 254, 0, 2]);
        (record[50], record[51]) = (1, 1);
        record[52..56].copy_from_slice(&[169, 254, 0, 1]);
        record[84..86].copy_from_slice(&443_u16.to_le_bytes());
        record[90] = 4;
        record.extend(b"host");
        let mut type_42 = vec![42, 0, 1, 0, 0x40, 1, 2, 1, 4, 95];
        type_42.extend(record);
        type_42[1] = u8::try_from(type_42.len()).unwrap();
        let type_38 = vec![38, 6, 2, 0, 1, 0x20];
        let end = vec![0, 0];
        [type_42, end.clone(), type_38, b"a string\0\0".to_vec(), vec![127, 4, 3, 0], end].concat()
    }

    #[test]
    fn host_interface_and_redfish_service_are_found() {
        let mut bmc = Bmc::default();
        fill(&formats::smbios::parse(None, &table()), &mut bmc);
        has(&bmc, &json!({"interface": "kcs", "ipmi_version": "2.0"}));
        has(&bmc.redfish, &json!({"address": "169.254.0.1", "host_address": "169.254.0.2"}));
        has(&bmc.redfish, &json!({"port": 443, "hostname": "host"}));
    }

    #[test]
    fn no_bytes_make_the_parser_panic() {
        survives_any_bytes(&table(), |bytes| {
            fill(&formats::smbios::parse(None, bytes), &mut Bmc::default());
        });
    }
}
