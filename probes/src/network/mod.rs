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
mod kind;
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
mod dhcp6;
mod dns;
mod local;
mod route;

pub use address::Address;
pub use dhcp::DhcpLease;
pub use dhcp6::Dhcp6Client;
pub use dns::NameServer;
pub use infiniband::{InfinibandDevice, InfinibandPort};
pub use interface::{Interface, Port};
pub(crate) use lldp::attach as attach_neighbours;
pub use lldp::{
    LldpLinkAggregation, LldpMacPhy, LldpManagementAddress, LldpNeighbour, LldpTlv, LldpVlan,
    Neighbours, neighbours,
};
pub use local::{LocalAddresses, local_addresses};
pub(crate) use module::attach as attach_modules;
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

/// Reads all interfaces and RDMA devices.
pub fn network(machine: &Machine) -> Network {
    Network { interfaces: interface::interfaces(machine), infiniband: infiniband::devices(machine) }
}
