//! The physical ports that accept a cable, from one `RTM_GETLINK` dump: no VLANs, no bonds, no
//! virtual functions, no representors.

use super::address;
use super::facts;
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
    /// True if it is administratively up.
    pub is_up: bool,
    /// True if it is attached by USB, as the link to a management controller is.
    pub is_usb: bool,
}

/// Lists the physical Ethernet ports, in the kernel's order.
pub fn physical_ports(machine: &Machine) -> Vec<PhysicalPort> {
    let answer = machine.ask(&RouteDump::Link).unwrap_or_default();
    let ports = link::parse(&answer).into_iter().filter(|link| is_port(machine, link));
    ports
        .map(|link| PhysicalPort {
            index: link.index,
            is_up: link.has(link::FLAG_UP),
            is_usb: is_usb(machine, &link),
            name: link.facts.name,
        })
        .collect()
}

fn is_port(machine: &Machine, link: &Link) -> bool {
    const ARPHRD_ETHER: u16 = 1;
    let dir = format!("sys/class/net/{}", link.facts.name);
    link.facts.kind.is_none()
        && link.device_type == ARPHRD_ETHER
        && !link.has(link::FLAG_LOOPBACK)
        && !facts::is_representor(link.facts.port.as_ref())
        // Linux 5.14 and later name the parent's bus.
        && (link.parent_bus.is_some() || machine.link(&format!("{dir}/device")).is_some())
        && machine.link(&format!("{dir}/device/physfn")).is_none()
        && machine.link(&format!("{dir}/phy80211")).is_none()
}

/// Linux 5.14 and later name the parent's bus; before that, sysfs does.
fn is_usb(machine: &Machine, link: &Link) -> bool {
    let by_device =
        || machine.link_name(&format!("sys/class/net/{}/device/subsystem", link.facts.name));
    link.parent_bus.clone().or_else(by_device).as_deref() == Some("usb")
}

/// True if the interface called `name` is in use: it is a member of a bond or bridge, or has an address other than
/// those that the kernel assigns to every port that is up (the link-local one and those from a router's prefix). If the
/// kernel does not answer, the port counts as in use, so that the caller does not shut it down.
pub fn is_in_use(machine: &Machine, name: &str) -> bool {
    let (Some(links), Some(answer)) =
        (machine.ask(&RouteDump::Link), machine.ask(&RouteDump::Address))
    else {
        return true;
    };
    let links = link::parse(&links);
    let names: super::Names =
        links.iter().map(|link| (link.index, link.facts.name.clone())).collect();
    let has_address = address::with_origin(&answer, &names).any(|(address, is_of_router)| {
        address.interface == name
            && (address.family == "ipv4" || address.scope.as_deref() != Some("link"))
            && !is_of_router
    });
    // The lower link of a veth is only its other end.
    let is_above = |link: &Link| {
        let lower = link.lower_index.and_then(|index| names.get(&index));
        link.facts.kind.as_deref() != Some("veth") && lower.is_some_and(|lower| lower == name)
    };
    let is_member = |link: &Link| link.facts.name == name && link.master_index.is_some();
    has_address || links.iter().any(|link| is_member(link) || is_above(link))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::link::tests::link_message;
    use crate::testing::bytes::{attribute, message};
    use crate::testing::tree_of_bytes;

    const LINKS: &str = "kernel/rtnetlink/link";
    const ADDRESSES: &str = "kernel/rtnetlink/address";

    #[test]
    fn port_counts_as_in_use_without_a_list_of_links_and_addresses() {
        let links = link_message(2, 1, &[attribute(3, b"eno1\0")]);
        assert!(is_in_use(&tree_of_bytes(&[]), "eno1"));
        assert!(is_in_use(&tree_of_bytes(&[(LINKS, &links)]), "eno1"));
        assert!(is_in_use(&tree_of_bytes(&[(ADDRESSES, &[])]), "eno1"));
        assert!(!is_in_use(&tree_of_bytes(&[(LINKS, &links), (ADDRESSES, &[])]), "eno1"));
    }

    /// `RTM_NEWADDR` of a global IPv6 address of interface 2.
    fn ipv6(flags: u32, protocol: Option<u8>) -> Vec<u8> {
        let address = std::net::Ipv6Addr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 7]).octets();
        let mut payload = vec![10, 64, 0, 0, 2, 0, 0, 0];
        payload.extend(attribute(1, &address));
        payload.extend(attribute(8, &flags.to_ne_bytes()));
        payload.extend(protocol.map(|p| attribute(11, &[p])).unwrap_or_default());
        message(20, &payload)
    }

    #[test]
    fn address_from_a_router_does_not_make_the_port_in_use() {
        let links = link_message(2, 1, &[attribute(3, b"eno1\0")]);
        let in_use = |address: Vec<u8>| {
            is_in_use(&tree_of_bytes(&[(LINKS, &links), (ADDRESSES, &address)]), "eno1")
        };
        let (managed, temporary) = (0x100, 0x01);
        assert!(!in_use(ipv6(managed, Some(2))), "marked as from a router, Linux 5.18");
        assert!(!in_use(ipv6(managed, None)) && !in_use(ipv6(temporary, None)));
        let (permanent, no_prefix_route) = (0x80, 0x200);
        assert!(in_use(ipv6(permanent, None)), "set by hand");
        assert!(in_use(ipv6(no_prefix_route, None)), "set by NetworkManager");
        assert!(in_use(ipv6(0, Some(77))), "set by a program that names itself");
        let of_router = ipv6(managed, Some(2));
        assert!(!in_use([of_router.clone(), ipv6(temporary, None)].concat()));
        assert!(in_use([of_router, ipv6(0, None)].concat()), "set by dhclient on Linux 5.18");
    }

    #[test]
    fn usb_is_detected_by_sysfs_before_linux_5_14() {
        let is_usb = |name: &[u8], bus: &[u8], files: &[(&str, &[u8])]| {
            let attributes = [attribute(3, name), bus.to_vec()];
            let link = link::parse(&link_message(2, 1, &attributes)).remove(0);
            is_usb(&tree_of_bytes(files), &link)
        };
        let files: [(&str, &[u8]); 2] = [
            ("sys/class/net/usb0/device/subsystem", b"-> ../../../bus/usb"),
            ("sys/class/net/eno1/device/subsystem", b"-> ../../../bus/pci"),
        ];
        assert!(is_usb(b"usb0\0", &[], &files));
        assert!(!is_usb(b"eno1\0", &[], &files));
        assert!(!is_usb(b"eno2\0", &[], &files));
        assert!(is_usb(b"eno1\0", &attribute(57, b"usb\0"), &files));
    }
}
