//! The network ports that a consumer is shown, each with one MAC and its addresses in the order of use.

use formats::hex;
use probes::collect::Inventory;
use probes::network::{Address, Interface, LldpNeighbour};

/// How the client identifier of DHCP over InfiniBand begins on Mellanox adapters; the port's GUID follows
/// (`ironic_python_agent/hardware_managers/mlnx.py`).
const CLIENT_ID_PREFIX: &str = "ff:00:00:00:00:00:02:00:00:02:c9:00:";
const MELLANOX: &str = "15b3";
/// Kinds of interfaces that belong to a device.
const KINDS: [&str; 3] = ["physical", "wireless", "wwan"];

/// A port of the machine.
#[derive(Debug)]
pub(crate) struct Port<'a> {
    /// The facts of the report.
    pub(crate) facts: &'a Interface,
    /// The permanent MAC, else the current one unless a bond has replaced it; lower case. An InfiniBand port of
    /// Mellanox has the MAC that is derived from its GUID.
    pub(crate) mac: Option<String>,
    /// Identifier of an InfiniBand port for DHCP.
    pub(crate) client_id: Option<String>,
    /// Addresses with the length of the prefix, the most useful one first.
    pub(crate) ipv4: Vec<&'a str>,
    /// The same for IPv6.
    pub(crate) ipv6: Vec<&'a str>,
}

/// The ports, in the order of the report. The USB network port of a BMC is left out: it has the same MAC on many
/// machines, by which a consumer would confuse them. Representors are ends of an embedded switch, not ports. A virtual
/// function gets a random MAC at each boot, and its port is listed anyway.
pub(crate) fn ports(inventory: &Inventory) -> Vec<Port<'_>> {
    let all = inventory.network.iter().flat_map(|network| &network.interfaces);
    let is_port = |interface: &&Interface| {
        interface.kind.as_deref().is_some_and(|kind| KINDS.contains(&kind))
            && !interface.is_bmc_usb
            && !interface.is_representor
            && interface.vf_of.is_none()
    };
    all.filter(is_port).map(|interface| port(inventory, interface)).collect()
}

/// Bonds and VLANs, each with its kind.
pub(crate) fn software(inventory: &Inventory) -> Vec<(Port<'_>, &str)> {
    let all = inventory.network.iter().flat_map(|network| &network.interfaces);
    let made = all.filter_map(|interface| {
        let kind = interface.kind.as_deref().filter(|kind| matches!(*kind, "bond" | "vlan"))?;
        Some((port(inventory, interface), kind))
    });
    made.collect()
}

/// The port that the machine was booted from, if exactly one is known.
pub(crate) fn boot_port<'p, 'a>(ports: &'p [Port<'a>]) -> Option<&'p Port<'a>> {
    let mut booted = ports.iter().filter(|port| port.facts.is_boot_interface == Some(true));
    booted.next().filter(|_| booted.next().is_none())
}

/// The switch port at the other end: the only neighbour or, of several, the only one that forwards frames. An adapter
/// with its own LLDP agent is a neighbour too.
pub(crate) fn switch(interface: &Interface) -> Option<&LldpNeighbour> {
    let neighbours = interface.lldp.as_deref().unwrap_or_default();
    if let [only] = neighbours {
        return Some(only);
    }
    let is_switch = |neighbour: &&LldpNeighbour| {
        neighbour.enabled_capabilities.iter().any(|name| name == "bridge" || name == "router")
    };
    let mut switches = neighbours.iter().filter(is_switch);
    switches.next().filter(|_| switches.next().is_none())
}

/// An address without the length of its prefix.
pub(crate) fn without_prefix(address: &str) -> &str {
    address.split_once('/').map_or(address, |(address, _)| address)
}

fn port<'a>(inventory: &'a Inventory, facts: &'a Interface) -> Port<'a> {
    let unless_bonded = || facts.current_mac.as_ref().filter(|_| facts.master.is_none());
    let hardware = facts.permanent_mac.as_ref().or_else(unless_bonded);
    let hardware = hardware.map(|mac| mac.to_ascii_lowercase());
    let (mac, client_id) = match hardware {
        Some(long) if long.len() > "00:00:00:00:00:00".len() => infiniband(facts, &long),
        short => (short, None),
    };
    Port {
        facts,
        mac,
        client_id,
        ipv4: addresses(inventory, facts, "ipv4"),
        ipv6: addresses(inventory, facts, "ipv6"),
    }
}

/// MAC and client identifier of a Mellanox port, from its address of 20 bytes. The GUID in its last 8 bytes is the MAC
/// with `03:00` in the middle; other GUIDs contain no MAC.
fn infiniband(facts: &Interface, address: &str) -> (Option<String>, Option<String>) {
    let guid = address.get(36..59).filter(|_| facts.vendor_id.as_deref() == Some(MELLANOX));
    let mac = guid.and_then(|guid| {
        let (front, back) = (guid.get(..9)?, guid.get(15..)?);
        (guid.get(9..15)? == "03:00:").then(|| format!("{front}{back}"))
    });
    let client_id = guid.map(|guid| format!("{CLIENT_ID_PREFIX}{guid}"));
    (mac, client_id)
}

/// The addresses of an interface: global ones before those of the link, lasting ones before temporary ones. Those that
/// may not be used (yet) are left out.
fn addresses<'a>(inventory: &'a Inventory, interface: &Interface, family: &str) -> Vec<&'a str> {
    let all = inventory.local_addresses.iter().flat_map(|local| &local.addresses);
    let has = |address: &Address, flags: &[&str]| {
        address.flags.iter().any(|flag| flags.contains(&flag.as_str()))
    };
    let mut found: Vec<&Address> = all
        .filter(|address| address.interface == interface.name && address.family == family)
        .filter(|address| !has(address, &["tentative", "dadfailed"]))
        .collect();
    found.sort_by_key(|address| {
        let is_local = address.scope.as_deref() == Some("link");
        (is_local, has(address, &["deprecated"]), has(address, &["temporary", "secondary"]))
    });
    found.into_iter().map(|address| address.address.as_str()).collect()
}

/// The parts of an LLDPDU, each with its type and its content in hexadecimal, without the end mark. A part that is cut
/// off is left out.
pub(crate) fn tlvs(neighbour: &LldpNeighbour) -> Vec<(u8, String)> {
    let bytes: Vec<u8> = hex::bytes_lossy(&neighbour.lldpdu_hex).collect();
    let mut rest = bytes.as_slice();
    let mut found = Vec::new();
    while let [high, low, tail @ ..] = rest {
        let length = usize::from(high & 1) << 8 | usize::from(*low);
        let (kind, Some((content, next))) = (high >> 1, tail.split_at_checked(length)) else {
            break;
        };
        if kind == formats::lldp::END {
            break;
        }
        found.push((kind, hex::hex(content)));
        rest = next;
    }
    found
}
