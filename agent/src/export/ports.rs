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
    formats::lldp::tlvs(&bytes).map(|tlv| (tlv.kind, hex::hex(tlv.value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn inventory(interfaces: &[Value]) -> Inventory {
        serde_json::from_value(json!({"network": {"interfaces": interfaces}})).unwrap()
    }

    /// A physical port with these facts in addition.
    fn physical(name: &str, facts: Value) -> Value {
        let mut port =
            json!({"name": name, "kind": "physical", "current_mac": "02:00:00:00:00:0A"});
        let Value::Object(facts) = facts else { panic!("{facts}") };
        port.as_object_mut().unwrap().extend(facts);
        port
    }

    #[test]
    fn mac_of_a_bonded_port_is_only_the_permanent_one() {
        let all = inventory(&[
            physical("eth1", json!({})),
            physical("eth0", json!({"master": "bond0"})),
            physical("eth0", json!({"master": "bond0", "permanent_mac": "02:00:00:00:00:0b"})),
        ]);
        let macs: Vec<Option<String>> = ports(&all).into_iter().map(|port| port.mac).collect();
        let text = |mac: &str| Some(mac.to_owned());
        assert_eq!(macs, [text("02:00:00:00:00:0a"), None, text("02:00:00:00:00:0b")]);
    }

    #[test]
    fn ports_that_would_confuse_a_consumer_are_left_out() {
        let all = inventory(&[
            physical("usb0", json!({"is_bmc_usb": true})),
            physical("eth0v1", json!({"vf_of": "0000:3b:00.0"})),
            physical("eth0_0", json!({"is_representor": true})),
            physical("bond0", json!({"kind": "bond"})),
            physical("eth0", json!({})),
        ]);
        let names: Vec<&str> = ports(&all).iter().map(|port| port.facts.name.as_str()).collect();
        assert_eq!(names, ["eth0"]);
        let bonds = software(&all);
        assert_eq!((bonds.len(), bonds[0].0.facts.name.as_str()), (1, "bond0"));
    }

    #[test]
    fn infiniband_port_of_mellanox_has_the_mac_in_its_guid() {
        let address = "a0:00:00:27:fe:80:00:00:00:00:00:00:7c:fe:90:03:00:29:26:52";
        let port = |vendor: &str, address: &str| {
            let facts = json!({"permanent_mac": address, "vendor_id": vendor});
            let all = inventory(&[physical("ib0", facts)]);
            let port = ports(&all).remove(0);
            (port.mac, port.client_id)
        };
        let client_id = "ff:00:00:00:00:00:02:00:00:02:c9:00:7c:fe:90:03:00:29:26:52".to_owned();
        assert_eq!(port("15b3", address), (Some("7c:fe:90:29:26:52".to_owned()), Some(client_id)));
        let other = address.replace(":03:00:", ":ff:fe:");
        assert_eq!(port("15b3", &other).0, None);
        assert_eq!(port("1077", address), (None, None));
    }

    #[test]
    fn switch_is_the_only_neighbour_that_forwards_frames() {
        let card = json!({"system_name": "card", "enabled_capabilities": ["station_only"]});
        let leaf = json!({"system_name": "leaf", "enabled_capabilities": ["bridge"]});
        for (neighbours, expected) in [
            (vec![&card], Some("card")),
            (vec![&card, &leaf], Some("leaf")),
            (vec![&leaf, &leaf], None),
            (vec![&card, &card], None),
        ] {
            let port = physical("eth0", json!({"lldp": neighbours}));
            let port: Interface = serde_json::from_value(port).unwrap();
            let found = switch(&port).and_then(|found| found.system_name.as_deref());
            assert_eq!(found, expected, "{neighbours:?}");
        }
    }

    #[test]
    fn lasting_global_addresses_come_first_and_unusable_ones_are_left_out() {
        let address = |text: &str, scope: &str, flags: &[&str]| json!({"interface": "eth0", "address": text, "family": "ipv6", "scope": scope, "flags": flags});
        let addresses = [
            address("fe80::1/64", "link", &[]),
            address("fd00::1/64", "global", &["tentative"]),
            address("fd00::2/64", "global", &["temporary"]),
            address("fd00::3/64", "global", &["deprecated"]),
            address("fd00::4/64", "global", &[]),
        ];
        let local = serde_json::from_value(json!({"addresses": addresses})).unwrap();
        let all = Inventory { local_addresses: local, ..inventory(&[physical("eth0", json!({}))]) };
        let port = ports(&all).remove(0);
        assert_eq!(port.ipv6, ["fd00::4/64", "fd00::2/64", "fd00::3/64", "fe80::1/64"]);
        assert!(port.ipv4.is_empty());
    }

    #[test]
    fn parts_of_a_frame_end_at_its_end_mark_or_where_it_is_cut() {
        let of = |hex: &str| {
            let lldpdu_hex = hex.to_owned();
            tlvs(&LldpNeighbour { lldpdu_hex, ..LldpNeighbour::default() })
        };
        let ttl = (3, "0078".to_owned());
        assert_eq!(of("0602007800000a0161"), vec![ttl.clone()]);
        assert_eq!(of("060200780a0461"), [ttl]);
        assert_eq!(of(""), []);
    }
}
