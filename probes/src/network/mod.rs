//! Network interfaces, InfiniBand devices, and the machine's addresses, routes and name servers.
//!
//! From `/sys/class/net` and `/sys/class/infiniband` (`Documentation/ABI/testing/sysfs-class-net`),
//! completed by the kernel's netlink and ethtool answers. A captured tree without these answers
//! gives the same report with fewer facts. Only the boot interface of UEFI machines needs root;
//! firmware versions do not.

mod boot_interface;
mod ethtool;
mod facts;
mod infiniband;
mod interface;
mod link;
mod lldp;
mod module;
mod parent;
mod ports;
mod settings;

mod address;
mod dhcp;
mod dns;
mod route;

pub use address::Address;
pub use dhcp::{Dhcp6Client, DhcpLease};
pub use dns::NameServer;
pub use formats::lldp::neighbour::LldpNeighbour;
pub use infiniband::{InfinibandDevice, InfinibandPort};
pub use interface::{Interface, Port, VirtualFunction};
pub use lldp::{Neighbours, neighbours};
pub use module::{Modules, modules};
pub use ports::{PhysicalPort, is_in_use, physical_ports};
pub use route::Route;
pub use settings::{Eee, Fec, Queues, Rings, Rss, WakeOnLan};

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::natural;
use crate::sys::netlink::RouteDump;

/// The ports and virtual links of the machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Network {
    /// Every interface except loopback, by name in natural order.
    pub interfaces: Vec<Interface>,
    /// Every RDMA device, InfiniBand or not, by name in natural order.
    pub infiniband: Vec<InfinibandDevice>,
}

impl Network {
    /// The interface called `name`; it is created if its own collector timed out and did not list it.
    pub(crate) fn interface_mut(&mut self, name: &str) -> &mut Interface {
        let by_name = |interface: &Interface| natural::compare(&interface.name, name);
        let at = self.interfaces.binary_search_by(by_name).unwrap_or_else(|at| {
            self.interfaces.insert(at, Interface { name: name.to_owned(), ..Interface::default() });
            at
        });
        &mut self.interfaces[at]
    }
}

/// Reads all interfaces and RDMA devices.
pub fn network(machine: &Machine) -> Network {
    Network { interfaces: interface::interfaces(machine), infiniband: infiniband::devices(machine) }
}

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
    /// The identities of this machine at `DHCPv6` servers, by interface.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dhcp6_clients: Vec<Dhcp6Client>,
    /// Domains that the resolver appends to a name without dots.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub search_domains: Vec<String>,
}

/// Names of the interfaces, by index.
type Names = BTreeMap<u32, String>;

/// Reads addresses and routes over netlink, or from `/proc/net` if netlink gives no answer, and the
/// name servers from the resolver's files.
pub fn local_addresses(machine: &Machine) -> LocalAddresses {
    let answer = machine.ask(&RouteDump::Link).unwrap_or_default();
    let names: Names =
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
