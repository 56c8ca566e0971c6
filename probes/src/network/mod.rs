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
pub(crate) mod mac;
mod module;
mod parent;
mod ports;
mod settings;
mod sriov;

mod address;
mod dhcp;
mod dns;
mod local;
mod route;

pub use address::Address;
pub use dhcp::{Dhcp6Client, DhcpLease};
pub use dns::NameServer;
pub use infiniband::{InfinibandDevice, InfinibandPort};
pub use interface::{Interface, Port};
pub use lldp::{
    LldpLinkAggregation, LldpMacPhy, LldpManagementAddress, LldpNeighbour, LldpTlv, LldpVlan,
    Neighbours, neighbours,
};
pub use local::{LocalAddresses, local_addresses};
pub use module::{Module, Modules, modules};
pub use ports::{PhysicalPort, is_in_use, physical_ports};
pub use route::Route;
pub use settings::{Eee, Fec, Queues, Rings, Rss, WakeOnLan};
pub use sriov::VirtualFunction;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;

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
        let by_name = |interface: &Interface| crate::natural::compare(&interface.name, name);
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
