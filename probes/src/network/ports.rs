//! The physical ports that a cable goes into, by one list of links: no VLANs, no bonds, no virtual
//! functions, no representors.

use std::collections::BTreeMap;

use super::address;
use super::facts;
use super::interface::Port;
use super::link::{self, Link};
use crate::machine::Machine;
use crate::sys::netlink::RouteDump;

/// A physical Ethernet port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhysicalPort {
    /// Kernel name, e.g. `eno1`.
    pub name: String,
    /// The kernel's number of the interface.
    pub index: u32,
    /// Whether somebody brought it up.
    pub is_up: bool,
    /// Whether there is a link; `None` where the kernel does not say.
    pub has_carrier: Option<bool>,
    /// Whether it hangs on USB, as the link to a management controller does.
    pub is_usb: bool,
}

/// Lists the physical Ethernet ports, in the kernel's order.
#[must_use]
pub fn physical_ports(machine: &Machine) -> Vec<PhysicalPort> {
    let answer = machine.ask(&RouteDump::Links).unwrap_or_default();
    let ports = link::parse(&answer).into_iter().filter(|link| is_port(machine, link));
    ports
        .map(|link| PhysicalPort {
            index: link.index,
            is_up: link.flags & link::FLAG_UP != 0,
            has_carrier: link.has_carrier,
            is_usb: link.parent_bus.as_deref() == Some("usb"),
            name: link.name,
        })
        .collect()
}

fn is_port(machine: &Machine, link: &Link) -> bool {
    const ARPHRD_ETHER: u16 = 1;
    let dir = format!("sys/class/net/{}", link.name);
    let port = Port { name: link.phys_port_name.clone(), ..Port::default() };
    link.kind.is_none()
        && link.device_type == ARPHRD_ETHER
        && link.flags & link::FLAG_LOOPBACK == 0
        && !facts::is_representor(Some(&port))
        // The parent is named since Linux 5.14.
        && (link.parent_bus.is_some() || machine.link(&format!("{dir}/device")).is_some())
        && machine.link(&format!("{dir}/device/physfn")).is_none()
        && machine.link(&format!("{dir}/phy80211")).is_none()
}

/// Whether somebody uses the interface called `name`: it is a member of a bond or bridge, or has an
/// address other than the link-local one that every port gives itself.
#[must_use]
pub fn is_in_use(machine: &Machine, name: &str) -> bool {
    let links = link::parse(&machine.ask(&RouteDump::Links).unwrap_or_default());
    let names: BTreeMap<u32, String> =
        links.iter().map(|link| (link.index, link.name.clone())).collect();
    let answer = machine.ask(&RouteDump::Addresses).unwrap_or_default();
    let has_address = address::parse(&answer, &names).iter().any(|address| {
        address.interface == name
            && (address.family == "ipv4" || address.scope.as_deref() != Some("link"))
    });
    // The link below a veth is only its other end.
    let is_above = |link: &Link| {
        let lower = link.lower_index.and_then(|index| names.get(&index));
        link.kind.as_deref() != Some("veth") && lower.is_some_and(|lower| lower == name)
    };
    let is_member = |link: &Link| link.name == name && link.master_index.is_some();
    has_address || links.iter().any(|link| is_member(link) || is_above(link))
}
