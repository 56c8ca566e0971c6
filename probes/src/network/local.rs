//! The machine's addresses, routes and name servers (`rtnetlink(7)`, `/proc/net`, `resolv.conf(5)`).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::address::{self, Address};
use super::dhcp::{self, Dhcp6Client, DhcpLease};
use super::dns::{self, NameServer};
use super::link;
use super::route::{self, Route};
use crate::machine::Machine;
use crate::natural;
use crate::sys::netlink::RouteDump;

/// The machine's addresses, routes and name servers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LocalAddresses {
    /// Every address except those that only the machine itself can reach, by interface in natural
    /// order, then IPv4 before IPv6, then by value.
    pub addresses: Vec<Address>,
    /// The unicast routes of the main table, by interface in natural order, then by destination.
    pub routes: Vec<Route>,
    /// Name servers in query order.
    pub dns: Vec<NameServer>,
    /// Addresses that a DHCP server leased, by interface in natural order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dhcp_leases: Vec<DhcpLease>,
    /// How `DHCPv6` servers know this machine, by interface.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dhcp6_clients: Vec<Dhcp6Client>,
    /// Domains that the resolver appends to a name without dots.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub search_domains: Vec<String>,
}

/// Reads addresses and routes over netlink, or from `/proc/net` if netlink gives no answer, and the
/// name servers from the resolver's files.
pub fn local_addresses(machine: &Machine) -> LocalAddresses {
    let answer = machine.ask(&RouteDump::Link).unwrap_or_default();
    let names: BTreeMap<u32, String> =
        link::parse(&answer).into_iter().map(|link| (link.index, link.facts.name)).collect();
    let mut routes = match machine.ask(&RouteDump::Route) {
        Some(answer) => route::parse(&answer, &names),
        None => route::from_proc(machine),
    };
    let mut addresses = match machine.ask(&RouteDump::Address) {
        Some(answer) => address::parse(&answer, &names),
        None => address::from_proc(machine, &routes),
    };
    routes.sort_by(|a, b| natural::compare(&a.interface, &b.interface).then_with(|| a.compare(b)));
    routes.dedup();
    addresses
        .sort_by(|a, b| natural::compare(&a.interface, &b.interface).then_with(|| a.compare(b)));
    addresses.dedup();
    let (dns, search_domains) = dns::resolver(machine);
    let dhcp_leases = dhcp::leases(machine, &names, &addresses);
    let dhcp6_clients = dhcp::clients(machine, &names);
    LocalAddresses { addresses, routes, dns, dhcp_leases, dhcp6_clients, search_domains }
}
