//! The management controller's own data: device id, GUIDs and LAN channels (IPMI 2.0, 20.1, 22.24 and
//! 23.2).

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use formats::bytes::array;
use formats::guid::Guid;
use formats::hex::hex;
use formats::{data, mac};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Bmc;
use super::ask::{Controller, incomplete};
use crate::machine::Machine;
use crate::sys::ipmi::IpmiCommand;

/// Channels that can be a LAN; 0 is the bus between controllers, and those above 11 have no medium.
const CHANNELS: std::ops::RangeInclusive<u8> = 1..=11;
/// After this time no further channel is queried. A controller that hangs also has a deadline for each
/// command.
const BUDGET: Duration = Duration::from_secs(10);
/// The largest number of addresses of one kind that are queried.
const LIMIT_ADDRESSES: u8 = 8;
/// `802.3 LAN` of table 6-3.
const MEDIUM_LAN: u8 = 4;

/// A LAN channel of the management controller.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LanChannel {
    /// Its number, from 1.
    pub number: u8,
    /// IPv4 address; `None` for `0.0.0.0`, which a channel without a cable has.
    pub ipv4: Option<String>,
    /// Length of the IPv4 prefix.
    pub ipv4_prefix_length: Option<u32>,
    /// Source of the IPv4 address: `static`, `dhcp`, `firmware` or `other`.
    pub ipv4_source: Option<String>,
    /// IPv4 router.
    pub ipv4_gateway: Option<String>,
    /// IPv6 addresses, static ones first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ipv6: Vec<String>,
    /// MAC address.
    pub mac: Option<String>,
    /// VLAN of the channel; `None` if it has none.
    pub vlan_id: Option<u16>,
}

/// Queries the controller, if the host can reach it.
pub(super) fn fill(machine: &Machine, bmc: &mut Bmc) {
    let controller = Controller::new(machine, BUDGET);
    let Some(answer) = controller.data(IpmiCommand::DeviceId) else { return };
    apply_device_id(&answer, bmc);
    guids(&controller, bmc);
    let mut n_answered = 0;
    for number in CHANNELS {
        // The controller refuses a channel that does not exist, which is an answer too.
        let command = IpmiCommand::ChannelInfo { channel: number };
        let Some(info) = controller.ask(&command) else { continue };
        n_answered += 1;
        let medium = info.data.get(1).map(|medium| medium & 0x7f);
        if info.code == 0 && medium == Some(MEDIUM_LAN) {
            bmc.lan_channels.push(channel(&controller, number));
        }
    }
    if n_answered < CHANNELS.count() {
        incomplete(machine, "ipmi/channel", "", n_answered, CHANNELS.count());
    }
}

/// The controller's own GUID, unless the kernel reported it, and the machine's.
fn guids(controller: &Controller, bmc: &mut Bmc) {
    let ask = |command: IpmiCommand| {
        let data = controller.data(command)?;
        let bytes = *data.first_chunk::<16>()?;
        bytes.iter().any(|byte| *byte != 0 && *byte != 0xff).then_some(bytes)
    };
    if bmc.guid.is_none() {
        // As the kernel writes it (`%pUl` in `drivers/char/ipmi/ipmi_msghandler.c`).
        let guid = ask(IpmiCommand::DeviceGuid);
        bmc.guid = guid.map(|bytes| Guid(bytes).to_string());
    }
    bmc.system_guid_raw_hex = ask(IpmiCommand::SystemGuid).map(|bytes| hex(&bytes));
}

fn apply_device_id(data: &[u8], bmc: &mut Bmc) {
    let Some(&[device, _, major, minor, version]) = data.first_chunk::<5>() else { return };
    bmc.device_id = Some(u32::from(device));
    bmc.firmware = Some(format!("{}.{minor:02x}", major & 0x7f));
    bmc.ipmi_version = Some(format!("{}.{}", version & 0x0f, version >> 4));
    if let Some([a, b, c, low, high]) = array(data, 6) {
        let known = |bytes| Some(u32::from_le_bytes(bytes)).filter(|number| *number != 0);
        bmc.manufacturer_id = known([a, b, c & 0x0f, 0]);
        bmc.product_id = known([low, high, 0, 0]);
    }
    if let Some(auxiliary) = data.get(11..15).filter(|bytes| bytes.iter().any(|byte| *byte != 0)) {
        bmc.auxiliary_firmware = Some(hex(auxiliary));
    }
}

fn channel(controller: &Controller, number: u8) -> LanChannel {
    let parameter = |parameter: u8, set: u8| {
        let question = IpmiCommand::LanParameter { channel: number, parameter, set };
        // The parameter's revision follows the completion code.
        controller.data(question).and_then(|data| data.get(1..).map(<[u8]>::to_vec))
    };
    let address = |number: u8| parameter(number, 0).and_then(|data| parse_ipv4(&data));
    let ipv4 = address(3);
    LanChannel {
        number,
        ipv4_source: parameter(4, 0).filter(|_| ipv4.is_some()).and_then(|d| source(&d)),
        ipv4_prefix_length: parameter(6, 0).filter(|_| ipv4.is_some()).and_then(|d| prefix(&d)),
        ipv4_gateway: address(12),
        ipv4,
        ipv6: ipv6(&parameter),
        mac: parameter(5, 0).and_then(|data| mac::of_bytes(data.get(..6)?)),
        vlan_id: parameter(20, 0).and_then(|data| parse_vlan(&data)),
    }
}

/// Static addresses (parameter 56) and dynamic ones (59), as many as parameter 55 says there are.
fn ipv6(parameter: &dyn Fn(u8, u8) -> Option<Vec<u8>>) -> Vec<String> {
    let Some(status) = parameter(55, 0) else { return Vec::new() };
    let mut addresses = Vec::new();
    for (index, number) in [(0, 56), (1, 59)] {
        let n_addresses = status.get(index).copied().unwrap_or(0).min(LIMIT_ADDRESSES);
        for set in 0..n_addresses {
            let address = parameter(number, set).and_then(|data| parse_ipv6(&data));
            addresses.extend(address.filter(|address| !addresses.contains(address)));
        }
    }
    addresses
}

fn parse_ipv4(data: &[u8]) -> Option<String> {
    let address = Ipv4Addr::from(*data.first_chunk::<4>()?);
    (!address.is_unspecified() && !address.is_broadcast()).then(|| address.to_string())
}

/// The prefix length of a netmask; `None` if it is all zeros or not contiguous.
fn prefix(data: &[u8]) -> Option<u32> {
    let mask = u32::from_be_bytes(*data.first_chunk::<4>()?);
    Some(mask.leading_ones()).filter(|n| *n > 0 && *n == mask.count_ones())
}

/// Set selector, source, address, length of the prefix, status (0 is active).
fn parse_ipv6(data: &[u8]) -> Option<String> {
    let address = Ipv6Addr::from(*data.get(2..)?.first_chunk::<16>()?);
    let is_active = data.get(19).is_none_or(|status| *status == 0);
    (is_active && !address.is_unspecified()).then(|| address.to_string())
}

fn source(data: &[u8]) -> Option<String> {
    data::named("bmc_address_source", data.first()? & 0x0f)
}

/// The number has 12 bits; the highest bit says whether it is in use.
fn parse_vlan(data: &[u8]) -> Option<u16> {
    let value = u16::from_le_bytes(*data.first_chunk::<2>()?);
    (value & 0x8000 != 0).then_some(value & 0x0fff)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::bytes::survives_any_bytes;
    use crate::testing::has;
    use crate::testing::tree_of_bytes;
    use serde_json::json;

    const DEVICE_ID: [u8; 16] = [0, 0x20, 1, 2, 0x88, 2, 0xdf, 0xa2, 2, 0, 0, 1, 0, 0x17, 0, 0];

    #[test]
    fn only_lan_channels_are_reported_without_their_sentinels() {
        let mut address = vec![0, 0x11, 0, 0x80];
        address.extend("fd02::9".parse::<Ipv6Addr>().unwrap().octets());
        address.extend([64, 0]);
        let machine = tree_of_bytes(&[
            ("kernel/ipmi/device_id", &DEVICE_ID),
            ("kernel/ipmi/channel/1/info", &[0, 1, 4, 1]),
            ("kernel/ipmi/channel/1/lan/3.0", &[0, 0x11, 192, 0, 2, 9]),
            ("kernel/ipmi/channel/1/lan/4.0", &[0, 0x11, 2]),
            ("kernel/ipmi/channel/1/lan/5.0", &[0, 0x11, 2, 0, 0, 0, 0, 9]),
            ("kernel/ipmi/channel/1/lan/6.0", &[0, 0x11, 255, 255, 255, 0]),
            ("kernel/ipmi/channel/1/lan/12.0", &[0, 0x11, 0, 0, 0, 0]),
            ("kernel/ipmi/channel/1/lan/20.0", &[0, 0x11, 5, 0x80]),
            ("kernel/ipmi/channel/1/lan/55.0", &[0, 0x11, 1, 200, 0]),
            ("kernel/ipmi/channel/1/lan/56.0", &address),
            ("kernel/ipmi/channel/2/info", &[0, 2, 5, 1]),
            ("kernel/ipmi/channel/3/info", &[0xcc]),
            ("kernel/ipmi/channel/8/info", &[0, 8, 4, 1]),
            ("kernel/ipmi/channel/8/lan/3.0", &[0, 0x11, 0, 0, 0, 0]),
            ("kernel/ipmi/channel/8/lan/5.0", &[0, 0x11, 255, 255, 255, 255, 255, 255]),
        ]);
        let bmc = crate::bmc::bmc(&machine).unwrap();
        has(&bmc, &json!({"firmware": "2.88", "manufacturer_id": 674, "ipmi_version": "2.0"}));
        has(&bmc, &json!({"ipv4": "192.0.2.9", "ipv6": "fd02::9", "mac": "02:00:00:00:00:09"}));
        let first = &bmc.lan_channels[0];
        has(first, &json!({"ipv4_prefix_length": 24, "vlan_id": 5, "ipv4_source": "dhcp"}));
        has(first, &json!({"ipv4_gateway": null}));
        assert_eq!(bmc.lan_channels[1], LanChannel { number: 8, ..LanChannel::default() });
    }

    #[test]
    fn unset_or_non_contiguous_netmask_has_no_prefix_length() {
        assert_eq!(prefix(&[0; 4]), None);
        assert_eq!(prefix(&[255, 0, 255, 0]), None);
        assert_eq!(prefix(&[255, 255, 254]), None);
        assert_eq!(prefix(&[255, 255, 254, 0]), Some(23));
        assert_eq!(prefix(&[255; 4]), Some(32));
    }

    #[test]
    fn no_bytes_make_the_parsers_panic() {
        survives_any_bytes(&DEVICE_ID, |bytes| {
            apply_device_id(bytes, &mut Bmc::default());
            drop((parse_ipv4(bytes), parse_ipv6(bytes), parse_vlan(bytes)));
            let _ = prefix(bytes);
        });
    }
}
