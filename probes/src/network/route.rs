//! Routes: `RTM_NEWROUTE` of the main table (`rtnetlink(7)`), or `/proc/net/route` and
//! `/proc/net/ipv6_route`.

use std::cmp::Ordering;
use std::net::{IpAddr, Ipv6Addr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Names;
use super::address::{family, interface_name, ip, is_prefix, prefix_key};
use crate::machine::Machine;
use formats::data;
use formats::netlink as wire;
use formats::route_table::{self, RouteEntry};

const RTM_NEWROUTE: u16 = 24;
/// Length of `struct rtmsg`, and of `struct rtnexthop`.
const HEADER_BYTES: usize = 12;
const MAIN_TABLE: u32 = 254;
const UNICAST: u8 = 1;
/// `RTM_F_CLONED`: an entry of the cache.
const CLONED: u32 = 0x200;

/// A route of the main table.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Route {
    /// Destination network, e.g. `192.0.2.0/24`; `0.0.0.0/0` or `::/0` for the default route.
    pub destination: String,
    /// Next router; `None` if the network is directly attached.
    pub gateway: Option<String>,
    /// Name of the interface.
    pub interface: String,
    /// Priority; the route with the lowest metric is used.
    pub metric: u32,
    /// `ipv4` or `ipv6`.
    pub family: String,
    /// Preferred source address, if the route names one.
    pub source: Option<String>,
    /// Its creator: `kernel`, `boot`, `static`, `ra`, `dhcp`, or the number.
    pub protocol: Option<String>,
}

impl Route {
    /// The order of two routes: by family and destination, then by metric.
    pub(super) fn compare(&self, other: &Route) -> Ordering {
        let key = |route: &Route| {
            let Route { destination, gateway, interface, metric, source, protocol, .. } =
                route.clone();
            (prefix_key(&destination), metric, gateway, destination, interface, source, protocol)
        };
        key(self).cmp(&key(other))
    }
}

/// Reads the unicast routes of the main table. A route with several next hops becomes several routes.
pub(super) fn parse(dump: &[u8], names: &Names) -> Vec<Route> {
    let routes = wire::messages(dump).filter(|message| message.kind == RTM_NEWROUTE);
    routes.filter_map(|message| parse_route(message.payload, names)).flatten().collect()
}

fn parse_route(payload: &[u8], names: &Names) -> Option<Vec<Route>> {
    let &[family_code, length, _, _, table, protocol, _, kind] = payload.first_chunk::<8>()?;
    let flags = wire::u32_at(payload, 8)?;
    let zero = if family_code == 2 { ip(&[0; 4]) } else { ip(&[0; 16]) };
    let body = payload.get(HEADER_BYTES..)?;
    let find = |kind| wire::find(body, kind);
    let destination = find(1).map_or(zero, |address| ip(address.value))?;
    let metric = find(6).map_or(Some(0), |metric| metric.u32())?;
    let source = find(7).and_then(|address| ip(address.value));
    let table = find(15).map_or(Some(u32::from(table)), |table| table.u32())?;
    let mut hops = find(wire::RTA_MULTIPATH).map(|hops| parse_hops(hops.value)).unwrap_or_default();
    let is_multicast = destination.is_multicast();
    let is_wanted = matches!(family_code, 2 | 10) && kind == UNICAST && table == MAIN_TABLE;
    if !is_wanted || is_multicast || flags & CLONED != 0 || !is_prefix(destination, length) {
        return None;
    }
    if hops.is_empty() {
        hops.push(hop(0, body));
    }
    let route = |(index, gateway): Hop| {
        Some(Route {
            destination: format!("{destination}/{length}"),
            gateway: gateway.map(|gateway| gateway.to_string()),
            interface: interface_name(index, names)?,
            metric,
            family: family(destination),
            source: source.map(|source| source.to_string()),
            protocol: data::named("route_protocol", protocol).or(Some(protocol.to_string())),
        })
    };
    Some(hops.into_iter().filter_map(route).collect())
}

/// A next hop: the number of the interface, and the router.
type Hop = (u32, Option<IpAddr>);

/// The next hop in these attributes; `index` is its interface if they have none.
fn hop(index: u32, attributes: &[u8]) -> Hop {
    let gateway = wire::find(attributes, 5).and_then(|address| ip(address.value));
    // The number of the other address family, then the router's address.
    let via = || wire::find(attributes, wire::RTA_VIA).and_then(|via| ip(via.value.get(2..)?));
    let own_index = wire::find(attributes, 4).and_then(|index| index.u32());
    (own_index.unwrap_or(index), gateway.or_else(via))
}

fn parse_hops(bytes: &[u8]) -> Vec<Hop> {
    let index = |header: &[u8]| header.last_chunk().map_or(0, |index| u32::from_ne_bytes(*index));
    wire::next_hops(bytes).map(|found| hop(index(found.header), found.attributes)).collect()
}

/// Reads the routes from `/proc/net`.
pub(super) fn from_proc(machine: &Machine) -> Vec<Route> {
    let ipv4 = machine.text("proc/net/route").unwrap_or_default();
    let ipv6 = machine.text("proc/net/ipv6_route").unwrap_or_default();
    ipv4.lines().filter_map(parse_ipv4).chain(ipv6.lines().filter_map(parse_ipv6)).collect()
}

/// A line of `/proc/net/route`.
fn parse_ipv4(line: &str) -> Option<Route> {
    const UP: u16 = 1;
    const REJECT: u16 = 0x200;
    let RouteEntry { iface, destination, gateway, flags, metrics, mask, .. } =
        route_table::parse_line(line)?;
    (flags & (UP | REJECT) == UP).then_some(Route {
        destination: format!("{destination}/{}", u32::from(mask).leading_ones()),
        gateway: (!gateway.is_unspecified()).then(|| gateway.to_string()),
        interface: iface,
        metric: metrics,
        family: "ipv4".to_owned(),
        ..Route::default()
    })
}

/// Destination, length, source, length, gateway, metric, two counters, flags, interface; all but
/// the last in hexadecimal.
fn parse_ipv6(line: &str) -> Option<Route> {
    const UP: u32 = 1;
    /// `RTF_REJECT`, `RTF_ANYCAST`, `RTF_CACHE` and `RTF_LOCAL`.
    const UNWANTED: u32 = 0x200 | 0x10_0000 | 0x100_0000 | 0x8000_0000;
    let words: Vec<&str> = line.split_whitespace().collect();
    let &[destination, length, _, _, gateway, metric, _, _, flags, name] = words.as_slice() else {
        return None;
    };
    let address = |text| Some(Ipv6Addr::from(u128::from_str_radix(text, 16).ok()?));
    let (destination, gateway) = (address(destination)?, address(gateway)?);
    let flags = u32::from_str_radix(flags, 16).ok()?;
    let length = u8::from_str_radix(length, 16).ok()?;
    let is_wanted = flags & (UP | UNWANTED) == UP && !destination.is_multicast() && name != "lo";
    (is_wanted && is_prefix(destination.into(), length)).then_some(Route {
        destination: format!("{destination}/{length}"),
        gateway: (!gateway.is_unspecified()).then(|| gateway.to_string()),
        interface: name.to_owned(),
        metric: u32::from_str_radix(metric, 16).ok()?,
        family: "ipv6".to_owned(),
        ..Route::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::bytes::{attribute, message, survives_any_bytes};
    use crate::testing::has;
    use serde_json::json;

    fn route(length: u8, table: u8, attributes: &[Vec<u8>]) -> Vec<u8> {
        let header = [2, length, 0, 0, table, 16, 0, UNICAST, 0, 0, 0, 0];
        message(RTM_NEWROUTE, &[header.to_vec(), attributes.concat()].concat())
    }

    fn default_route() -> Vec<u8> {
        let oif = attribute(4, &2_u32.to_ne_bytes());
        let metric = attribute(6, &100_u32.to_ne_bytes());
        route(0, 254, &[oif, metric, attribute(5, &[192, 0, 2, 1])])
    }

    #[test]
    fn route_with_invalid_prefix_or_without_interface_is_skipped() {
        let names = Names::from([(2, "eno1".to_owned())]);
        let oif = attribute(4, &2_u32.to_ne_bytes());
        let to = attribute(1, &[192, 0, 2, 0]);
        assert_eq!(parse(&route(32, 254, &[oif.clone(), to.clone()]), &names).len(), 1);
        assert!(parse(&route(33, 254, &[oif, to.clone()]), &names).is_empty());
        assert!(parse(&route(24, 254, &[to]), &names).is_empty());
    }

    #[test]
    fn routes_of_other_tables_are_skipped() {
        let names = Names::from([(2, "eno1".to_owned())]);
        let dump = [default_route(), route(32, 255, &[attribute(1, &[192, 0, 2, 9])])].concat();
        let routes = parse(&dump, &names);
        assert_eq!(routes.len(), 1);
        has(&routes[0], &json!({"destination": "0.0.0.0/0", "gateway": "192.0.2.1"}));
        has(&routes[0], &json!({"metric": 100, "protocol": "dhcp"}));
        survives_any_bytes(&dump, |bytes| drop(parse(bytes, &names)));
    }

    #[test]
    fn route_with_two_next_hops_becomes_two_routes() {
        let hop = |index: u8, last: u8| {
            let gateway = attribute(5, &[192, 0, 2, last]);
            [vec![16, 0, 0, 0, index, 0, 0, 0], gateway].concat()
        };
        let hops = [hop(2, 1), hop(3, 2)].concat();
        survives_any_bytes(&hops, |bytes| drop(parse_hops(bytes)));
        let hops = attribute(9, &hops);
        let routes = parse(&route(0, 254, &[hops]), &Names::new());
        let found: Vec<&str> = routes.iter().map(|route| route.interface.as_str()).collect();
        assert_eq!(found, ["if2", "if3"]);
        assert_eq!(routes[1].gateway.as_deref(), Some("192.0.2.2"));
    }

    #[test]
    fn header_and_damaged_lines_of_proc_are_skipped() {
        let line = "eth0\t0002000C\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0";
        assert_eq!(parse_ipv4(line).unwrap().destination, "12.0.2.0/24");
        let head =
            "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT";
        assert_eq!(parse_ipv4(head), None);
        let zero = "0".repeat(32);
        let line =
            format!("{zero} 00 {zero} 00 fe80{}1 00000400 0 0 00000003 eth0", "0".repeat(27));
        let route = parse_ipv6(&line).unwrap();
        assert_eq!((route.destination.as_str(), route.metric), ("::/0", 1024));
        assert_eq!(route.gateway.as_deref(), Some("fe80::1"));
        assert_eq!(parse_ipv6("x y z"), None);
    }
}
