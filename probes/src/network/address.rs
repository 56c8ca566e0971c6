//! Addresses of interfaces: `RTM_NEWADDR` (`rtnetlink(7)`, `uapi/linux/if_addr.h`), or
//! `/proc/net/if_inet6` and `/proc/net/fib_trie`.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Names;
use super::route::Route;
use crate::machine::Machine;
use formats::data;
use formats::netlink as wire;

const RTM_NEWADDR: u16 = 20;
/// Length of `struct ifaddrmsg`.
const HEADER_BYTES: usize = 8;
const SCOPE_HOST: u8 = 254;
/// `IFA_PROTO`: the creator of the address; absent if the creator did not set it.
const PROTOCOL: u16 = 11;

/// An address of an interface.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Address {
    /// Name of the interface.
    pub interface: String,
    /// The address with the length of its prefix, e.g. `fd02::2/64`.
    pub address: String,
    /// `ipv4` or `ipv6`.
    pub family: String,
    /// `global`, `site` or `link`.
    pub scope: Option<String>,
    /// Further properties: `dynamic` (with a lifetime, as from DHCP), `temporary`, `secondary`,
    /// `deprecated`, `tentative`, `dadfailed`, …, in this order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,
}

impl Address {
    /// The order of two addresses: by family, then by value of the address.
    pub(super) fn compare(&self, other: &Address) -> Ordering {
        let key = |a: &Address| {
            let rest = (a.address.clone(), a.interface.clone(), a.scope.clone(), a.flags.clone());
            (prefix_key(&a.address), rest)
        };
        key(self).cmp(&key(other))
    }
}

/// The value of `address/length`, for sorting; invalid text sorts first.
pub(super) fn prefix_key(text: &str) -> Option<(IpAddr, u8)> {
    let (address, length) = text.split_once('/')?;
    let (address, length) = (address.parse().ok()?, length.parse().ok()?);
    is_prefix(address, length).then_some((address, length))
}

/// True if an address of this family can have a prefix of `length` bits.
pub(super) fn is_prefix(address: IpAddr, length: u8) -> bool {
    length <= if address.is_ipv4() { 32 } else { 128 }
}

/// The name of the interface with the number `index`. If its name is unknown, it is called `if7` as
/// in the kernel's own messages. No interface has the number 0.
pub(super) fn interface_name(index: u32, names: &Names) -> Option<String> {
    let name = names.get(&index).cloned();
    name.or_else(|| (index != 0).then(|| format!("if{index}")))
}

/// Converts 4 or 16 bytes to an address.
pub(super) fn ip(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from);
    v4.or_else(|| <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from))
}

/// `ipv4` or `ipv6`.
pub(super) fn family(address: IpAddr) -> String {
    if address.is_ipv4() { "ipv4" } else { "ipv6" }.to_owned()
}

/// Reads the addresses of a dump, except those that only the machine itself can reach.
pub(super) fn parse(dump: &[u8], names: &Names) -> Vec<Address> {
    with_origin(dump, names).map(|(address, _)| address).collect()
}

/// Like [`parse`], and says for each address whether the kernel derived it from a router's prefix.
pub(super) fn with_origin(dump: &[u8], names: &Names) -> impl Iterator<Item = (Address, bool)> {
    let messages = || wire::messages(dump).filter(|message| message.kind == RTM_NEWADDR);
    let has_origin =
        |message: wire::Message| wire::find(message.body(HEADER_BYTES), PROTOCOL).is_some();
    // A kernel that supports IFA_PROTO sets it at least on the loopback address.
    let reports_origin = messages().any(has_origin);
    messages().filter_map(move |message| parse_address(message.payload, names, reports_origin))
}

fn parse_address(payload: &[u8], names: &Names, reports_origin: bool) -> Option<(Address, bool)> {
    let &[_, length, flags, scope] = payload.first_chunk::<4>()?;
    let index = wire::u32_at(payload, 4)?;
    let body = payload.get(HEADER_BYTES..)?;
    let find = |kind| wire::find(body, kind);
    let all_flags = find(8).map_or(Some(u32::from(flags)), |flags| flags.u32())?;
    let protocol = find(PROTOCOL).and_then(|protocol| protocol.u8());
    // The local address, or that of a peer, which is the same on a broadcast link.
    let address = |kind| find(kind).and_then(|address| ip(address.value));
    let address = address(2).or_else(|| address(1))?;
    let interface = interface_name(index, names)?;
    let is_of_router = address.is_ipv6() && is_of_router(all_flags, protocol, reports_origin);
    let seen = || Address {
        interface,
        address: format!("{address}/{length}"),
        family: family(address),
        scope: data::named("address_scope", scope),
        flags: flag_names(all_flags, address.is_ipv6()),
    };
    (scope != SCOPE_HOST && is_prefix(address, length)).then(|| (seen(), is_of_router))
}

/// True if the kernel derived an IPv6 address from a router's advertisement. Linux 5.18 and later mark such addresses
/// (`IFAPROT_KERNEL_RA`), so an unmarked one was set by a program. On older kernels they are recognised by a limited
/// lifetime and by the route to their prefix, which the kernel adds; few programs let it.
fn is_of_router(flags: u32, protocol: Option<u8>, reports_origin: bool) -> bool {
    const KERNEL_RA: u8 = 2;
    const TEMPORARY: u32 = 0x01;
    const PERMANENT: u32 = 0x80;
    const NO_PREFIX_ROUTE: u32 = 0x200;
    match protocol {
        Some(protocol) if protocol != 0 => protocol == KERNEL_RA,
        _ => {
            let seems_so = flags & (PERMANENT | NO_PREFIX_ROUTE) == 0;
            flags & TEMPORARY != 0 || (seems_so && !reports_origin)
        }
    }
}

fn flag_names(flags: u32, is_ipv6: bool) -> Vec<String> {
    const SECONDARY: u32 = 0x01;
    const PERMANENT: u32 = 0x80;
    let secondary = if is_ipv6 { "temporary" } else { "secondary" };
    let first = [
        (flags & PERMANENT == 0).then(|| "dynamic".to_owned()),
        (flags & SECONDARY != 0).then(|| secondary.to_owned()),
    ];
    let others = data::names("address_flag", |bit| flags & bit != 0);
    first.into_iter().flatten().chain(others).collect()
}

/// Reads the addresses from `/proc/net`. It does not list IPv4 prefix lengths; they come from the
/// routes to the attached networks.
pub(super) fn from_proc(machine: &Machine, routes: &[Route]) -> Vec<Address> {
    let text = machine.text("proc/net/if_inet6").unwrap_or_default();
    let ipv6 = text.lines().filter_map(parse_if_inet6);
    let text = machine.text("proc/net/fib_trie").unwrap_or_default();
    let local = parse_fib_trie(&text);
    ipv6.chain(local.into_iter().filter_map(|address| ipv4(address, routes))).collect()
}

/// `fe80…0001 02 40 20 80 eth0`: address, then index, length, scope and flags in hexadecimal.
fn parse_if_inet6(line: &str) -> Option<Address> {
    const LOOPBACK: u8 = 0x10;
    let words: Vec<&str> = line.split_whitespace().collect();
    let &[address, _, length, scope, flags, name] = words.as_slice() else { return None };
    let address = Ipv6Addr::from(u128::from_str_radix(address, 16).ok()?);
    let length = u8::from_str_radix(length, 16).ok()?;
    let scope = u8::from_str_radix(scope, 16).ok()?;
    let scope_name = match scope & 0xf0 {
        0 => Some("global"),
        0x20 => Some("link"),
        0x40 => Some("site"),
        _ => None,
    };
    (scope & LOOPBACK == 0 && is_prefix(address.into(), length)).then_some(Address {
        interface: name.to_owned(),
        address: format!("{address}/{length}"),
        family: "ipv6".to_owned(),
        scope: scope_name.map(str::to_owned),
        flags: flag_names(u32::from_str_radix(flags, 16).ok()?, true),
    })
}

/// The machine's own IPv4 addresses: `|-- 192.0.2.1` followed by `/32 host LOCAL`.
fn parse_fib_trie(text: &str) -> BTreeSet<Ipv4Addr> {
    let mut found = BTreeSet::new();
    let mut last = None;
    for line in text.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ") {
            last = address.parse::<Ipv4Addr>().ok();
        } else if line == "/32 host LOCAL" {
            found.extend(last.filter(|address| !address.is_loopback()));
        }
    }
    found
}

fn ipv4(address: Ipv4Addr, routes: &[Route]) -> Option<Address> {
    let networks = routes.iter().filter(|route| route.gateway.is_none()).filter_map(|route| {
        let (network, length) = prefix_key(&route.destination)?;
        let IpAddr::V4(network) = network else { return None };
        let mask = u32::MAX.checked_shl(32_u32.checked_sub(u32::from(length))?).unwrap_or(0);
        let is_in = u32::from(network) & mask == u32::from(address) & mask;
        (is_in && length > 0).then_some((length, route))
    });
    let networks: Vec<(u8, &Route)> = networks.collect();
    let &(length, route) = networks.iter().max_by_key(|(length, _)| *length)?;
    // With two ports in one network it is unknown which of them has the address.
    let mut nearest = networks.iter().filter(|(other, _)| *other == length);
    if nearest.any(|(_, other)| other.interface != route.interface) {
        return None;
    }
    Some(Address {
        interface: route.interface.clone(),
        address: format!("{address}/{length}"),
        family: "ipv4".to_owned(),
        ..Address::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::bytes::{attribute, message, survives_any_bytes};
    use crate::testing::has;
    use serde_json::json;

    fn dump() -> Vec<u8> {
        let v4 = [
            vec![2, 24, 0, 0, 2, 0, 0, 0],
            attribute(1, &[192, 0, 2, 1]),
            attribute(2, &[192, 0, 2, 10]),
        ];
        let mut link_local = [0_u8; 16];
        (link_local[0], link_local[1], link_local[15]) = (0xfe, 0x80, 1);
        let v6 = [
            vec![10, 64, 0x80, 253, 2, 0, 0, 0],
            attribute(1, &link_local),
            attribute(8, &0xc0_u32.to_ne_bytes()),
        ];
        let own = [vec![2, 8, 0x80, 254, 1, 0, 0, 0], attribute(2, &[127, 0, 0, 1])];
        [v4.concat(), v6.concat(), own.concat()]
            .iter()
            .flat_map(|payload| message(RTM_NEWADDR, payload))
            .collect()
    }

    #[test]
    fn loopback_addresses_are_skipped() {
        let names = Names::from([(2, "eno1".to_owned())]);
        let all = parse(&dump(), &names);
        assert_eq!(all.len(), 2);
        survives_any_bytes(&dump(), |bytes| drop(parse(bytes, &names)));
        let address =
            json!({"address": "192.0.2.10/24", "interface": "eno1", "flags": ["dynamic"]});
        has(&all[0], &address);
        has(&all[1], &json!({"address": "fe80::1/64", "scope": "link", "flags": ["tentative"]}));
    }

    #[test]
    fn damaged_lines_of_if_inet6_are_skipped() {
        let line = "fe80000000000000005054fffe000001 02 40 20 80    eth0";
        let address = parse_if_inet6(line).unwrap();
        assert_eq!(address.address, "fe80::50:54ff:fe00:1/64");
        assert_eq!(address.interface, "eth0");
        let own = "00000000000000000000000000000001 01 80 10 80       lo";
        assert_eq!(parse_if_inet6(own), None);
        for bad in ["", "x", "fe80 02 40 20", "zz 02 40 20 80 eth0", "fe 02 400 20 80 eth0"] {
            assert_eq!(parse_if_inet6(bad), None, "{bad}");
        }
    }

    #[test]
    fn ipv4_prefix_length_comes_from_the_route() {
        let text =
            "Local:\n  |-- 192.0.2.10\n     /32 host LOCAL\n  |-- 127.0.0.1\n     /32 host LOCAL";
        let local = parse_fib_trie(text);
        assert_eq!(local.len(), 1);
        let route = |destination: &str| Route {
            destination: destination.to_owned(),
            interface: "eth0".to_owned(),
            ..Route::default()
        };
        let routes = [route("0.0.0.0/0"), route("192.0.0.0/16"), route("192.0.2.0/24")];
        let address = ipv4(*local.first().unwrap(), &routes).unwrap();
        assert_eq!(address.address, "192.0.2.10/24");
        assert_eq!(ipv4(Ipv4Addr::new(198, 51, 100, 1), &routes), None);
        let other = Route { interface: "eth1".to_owned(), ..route("192.0.2.0/24") };
        let shared = [route("192.0.2.0/24"), other];
        assert_eq!(ipv4(*local.first().unwrap(), &shared), None, "two ports in one network");
    }

    #[test]
    fn prefix_longer_than_its_address_is_rejected() {
        assert_eq!(prefix_key("192.0.2.0/33"), None);
        assert_eq!(prefix_key("fd00::/129"), None);
        assert!(prefix_key("192.0.2.1/32").is_some() && prefix_key("fd00::1/128").is_some());
        let route = Route {
            destination: "192.0.2.0/40".to_owned(),
            interface: "eth0".to_owned(),
            ..Route::default()
        };
        assert_eq!(ipv4(Ipv4Addr::new(192, 0, 2, 10), &[route]), None);
        assert_eq!(parse_if_inet6("fe80000000000000005054fffe000001 02 81 20 80 eth0"), None);
        let names = Names::from([(2, "eno1".to_owned())]);
        let v4 = [vec![2, 33, 0, 0, 2, 0, 0, 0], attribute(2, &[192, 0, 2, 10])].concat();
        assert!(parse(&message(RTM_NEWADDR, &v4), &names).is_empty());
    }

    #[test]
    fn interface_number_0_names_no_interface() {
        let v4 = [vec![2, 24, 0, 0, 0, 0, 0, 0], attribute(2, &[192, 0, 2, 10])].concat();
        assert!(parse(&message(RTM_NEWADDR, &v4), &Names::new()).is_empty());
        assert_eq!(interface_name(7, &Names::new()).as_deref(), Some("if7"));
    }
}
