//! Network interfaces: `/sys/class/net/<interface>/`, with additions from netlink and ethtool.

use std::collections::{BTreeMap, BTreeSet};

use formats::lldp::neighbour::LldpNeighbour;
use formats::mac;
use formats::module::Module;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::boot_interface;
use super::ethtool::{self, EthtoolPort};
use super::facts;
use super::link::{self, Link};
use super::parent::{self, Parent};
use super::settings::{self, Eee, Fec, Queues, Rings, Rss, WakeOnLan};
use crate::machine::Machine;
use crate::natural;
use crate::sys::netlink::{FEATURE_NAMES, RouteDump};

/// A file of the bonding driver in the class's folder.
const NOT_AN_INTERFACE: &str = "bonding_masters";

/// One network interface of the running kernel.
#[serde_with::skip_serializing_none]
#[serde_with::apply(Vec => #[serde(skip_serializing_if = "Vec::is_empty")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Interface {
    /// Kernel name, e.g. `eno1`. It may change across boots, so it is never a key.
    pub name: String,
    /// Further names that the kernel answers to, sorted.
    pub altnames: Vec<String>,
    /// `physical` or `wireless` for ports, otherwise the kernel's word: `bond`, `vlan`, `bridge`,
    /// `veth`, `tun`, `dummy`, `macvlan`, …; `virtual` if only that is known.
    pub kind: Option<String>,
    /// MAC address in use now; a bond rewrites it. 20 bytes on InfiniBand.
    pub current_mac: Option<String>,
    /// MAC address burnt in, the key of a port. `None` where the kernel does not know it.
    pub permanent_mac: Option<String>,
    /// Kernel driver, e.g. `ixgbe`.
    pub driver: Option<String>,
    /// Version of the driver; most drivers report the kernel's version since Linux 5.7.
    pub driver_version: Option<String>,
    /// Version of the firmware, as the driver writes it.
    pub firmware: Option<String>,
    /// Bus of the underlying device: `pci`, `usb`, `virtio`, `platform`, ….
    pub bus: Option<String>,
    /// PCI address of the underlying device; `None` on USB, as it would be the USB controller's.
    pub pci_address: Option<String>,
    /// PCI or USB vendor id, e.g. `8086`.
    pub vendor_id: Option<String>,
    /// PCI or USB device id, e.g. `1572`.
    pub device_id: Option<String>,
    /// NUMA node of the underlying device; `None` if the firmware does not report it.
    pub numa_node: Option<u32>,
    /// Negotiated speed in Mbit/s; `None` while the link is down or if the driver does not report it.
    pub speed_mbit_s: Option<u32>,
    /// Speed of the fastest mode that the port supports, in Mbit/s; Linux 5.6.
    pub max_speed_mbit_s: Option<u32>,
    /// `full` or `half`; `None` while the link is down.
    pub duplex: Option<String>,
    /// True if speed and duplex are negotiated.
    pub is_autonegotiating: Option<bool>,
    /// True if it is administratively up (`IFF_UP`).
    pub is_up: Option<bool>,
    /// True if there is a link; `None` while the interface is not up.
    pub has_carrier: Option<bool>,
    /// Why there is no link, e.g. `no cable`; few drivers report it, Linux 5.8.
    pub link_down_reason: Option<String>,
    /// State by RFC 2863: `up`, `down`, `lowerlayerdown`, `dormant`, ….
    pub operstate: Option<String>,
    /// Largest packet in bytes.
    pub mtu: Option<u32>,
    /// Largest value that the driver accepts for `mtu`, in bytes.
    pub max_mtu: Option<u32>,
    /// Its port of the card.
    pub port: Option<Port>,
    /// Number of enabled SR-IOV virtual functions; `None` if the port does not support them.
    pub n_vfs: Option<u32>,
    /// Largest number of SR-IOV virtual functions that can be enabled.
    pub max_vfs: Option<u32>,
    /// The enabled virtual functions, by number.
    pub vfs: Vec<VirtualFunction>,
    /// PCI address of the physical function, if this is a virtual one.
    pub vf_of: Option<String>,
    /// True if it only represents a function of a card in switch mode (`pf0vf1`).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_representor: bool,
    /// Bond, bridge or other interface that this one is a member of.
    pub master: Option<String>,
    /// Interface below this one, e.g. the port that carries a VLAN.
    pub lower: Option<String>,
    /// VLAN number of a `vlan`.
    pub vlan_id: Option<u16>,
    /// True if the machine booted from it; `None` if no source names the boot interface or the MAC of
    /// this port is unknown.
    pub is_boot_interface: Option<bool>,
    /// True if it is the USB link to the management controller, not a port. Its MAC may be the same on
    /// every machine of the model.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_bmc_usb: bool,
    /// The bond's choice among its members, in the bonding driver's words, e.g. `802.3ad`.
    pub bond_mode: Option<String>,
    /// Queues of a port (`ETHTOOL_MSG_CHANNELS_GET`, Linux 5.7).
    pub queues: Option<Queues>,
    /// Ring descriptors of a port (`ETHTOOL_MSG_RINGS_GET`, Linux 5.7).
    pub rings: Option<Rings>,
    /// Enabled features of a port, by the kernel's names, e.g. `tx-tcp-segmentation`
    /// (`ETHTOOL_MSG_FEATURES_GET`, Linux 5.7).
    pub offloads: Vec<String>,
    /// The events that wake the machine; `None` where the port cannot wake it (`ETHTOOL_MSG_WOL_GET`, Linux 5.7).
    pub wake_on_lan: Option<WakeOnLan>,
    /// Energy Efficient Ethernet; `None` where the port has none (`ETHTOOL_MSG_EEE_GET`, Linux 5.7).
    pub eee: Option<Eee>,
    /// Forward error correction; `None` if the driver does not report it (`ETHTOOL_MSG_FEC_GET`, Linux 5.13).
    pub fec: Option<Fec>,
    /// Distribution of packets over queues (`ETHTOOL_MSG_RSS_GET`, Linux 6.12;
    /// `ETHTOOL_GRSSH` before).
    pub rss: Option<Rss>,
    /// Number of the port's clock, `/dev/ptpN`; `None` where it has none (`ETHTOOL_MSG_TSINFO_GET`).
    pub ptp_clock_index: Option<u32>,
    /// True if the card's firmware runs its own LLDP agent. It then consumes the switch's frames, so
    /// this machine sees no neighbour (a private flag of i40e and ice, otherwise `DCB_CMD_GDCBX`).
    pub has_firmware_lldp_agent: Option<bool>,
    /// The pluggable module or cable in the port; needs root.
    pub module: Option<Module>,
    /// LLDP neighbours, by chassis and port. Empty if no frame arrived on the port; absent if the
    /// program did not listen on it.
    pub lldp: Option<Vec<LldpNeighbour>>,
}

/// The port of a card that an interface uses.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Port {
    /// Number of the port on its device, from 0 (`dev_port`).
    pub number: Option<u32>,
    /// Name of the port in its switch, e.g. `p0` (`phys_port_name`).
    pub name: Option<String>,
    /// Id of the physical port; the same for all functions of one port (`phys_port_id`).
    pub id: Option<String>,
    /// Id of the switch that the port belongs to (`phys_switch_id`).
    pub switch_id: Option<String>,
    /// `twisted_pair`, `fibre`, `direct_attach`, `none`, ….
    pub connector: Option<String>,
}

/// A virtual function of a physical port.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct VirtualFunction {
    /// Its PCI address.
    pub pci_address: String,
    /// The host's interfaces on it; empty if there are none or a guest uses it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<String>,
}

/// The answers that cover all interfaces.
#[derive(Debug, Default)]
pub(super) struct Overview {
    pub(super) links: BTreeMap<String, Link>,
    pub(super) ports: BTreeMap<String, EthtoolPort>,
    /// Names of features by number; empty if no port has any.
    pub(super) feature_names: BTreeMap<u32, String>,
    /// True if the kernel lists the receive side scaling of every port.
    pub(super) is_rss_listed: bool,
    /// The bond of each member, as the bonds list them.
    pub(super) bond_members: BTreeMap<String, String>,
}

/// The sources of one interface's facts.
#[derive(Debug)]
pub(super) struct Sources<'a> {
    pub(super) machine: &'a Machine,
    pub(super) overview: &'a Overview,
    pub(super) name: &'a str,
    /// Target of its link in `/sys/class/net`.
    pub(super) path: String,
    pub(super) link: Link,
    pub(super) port: EthtoolPort,
    pub(super) parent: Option<Parent>,
}

impl<'a> Sources<'a> {
    fn of(machine: &'a Machine, overview: &'a Overview, name: &'a str) -> Sources<'a> {
        let path = machine.device_path(&format!("sys/class/net/{name}"));
        let link = overview.links.get(name).cloned().unwrap_or_default();
        let port = overview.ports.get(name).cloned().unwrap_or_default();
        let parent = parent::parent(machine, &path);
        Sources { machine, overview, name, path, link, port, parent }
    }

    /// The path of one of its files.
    pub(super) fn at(&self, file: &str) -> String {
        format!("sys/class/net/{}/{file}", self.name)
    }

    /// The text of one of its files.
    pub(super) fn text(&self, file: &str) -> Option<String> {
        self.machine.text(&self.at(file))
    }

    /// The number in one of its files.
    pub(super) fn number(&self, file: &str) -> Option<u32> {
        self.machine.number(&self.at(file))
    }
}

/// Lists every interface except loopback, by name in natural order.
pub(super) fn interfaces(machine: &Machine) -> Vec<Interface> {
    let answer = machine.ask(&RouteDump::Link).unwrap_or_default();
    let links =
        link::parse(&answer).into_iter().map(|link| (link.facts.name.clone(), link)).collect();
    let mut overview = Overview { links, ports: ethtool::ports(machine), ..Overview::default() };
    if overview.ports.values().any(|port| !port.offloads.is_empty()) {
        let answer = machine.ask(&FEATURE_NAMES).unwrap_or_default();
        overview.feature_names = settings::feature_names(&answer);
    }
    overview.is_rss_listed = overview.ports.values().any(|port| port.facts.rss.is_some());
    let names = names(machine, &overview);
    overview.bond_members = bond_members(machine, &names);
    let all = names.iter().filter(|name| !is_loopback(machine, name, &overview));
    let mut interfaces: Vec<Interface> =
        all.map(|name| interface(&Sources::of(machine, &overview, name))).collect();
    join_functions(&mut interfaces);
    boot_interface::mark(machine, &mut interfaces);
    interfaces
}

/// The names in sysfs and netlink; those in `/proc/net/dev` if neither has any.
fn names(machine: &Machine, overview: &Overview) -> Vec<String> {
    const CLASS: &str = "sys/class/net";
    let listed = machine.list(CLASS).into_iter().filter(|name| {
        let path = format!("{CLASS}/{name}");
        name != NOT_AN_INTERFACE && (machine.link(&path).is_some() || machine.is_dir(&path))
    });
    let mut names: BTreeSet<String> = listed.chain(overview.links.keys().cloned()).collect();
    if names.is_empty() {
        let text = machine.text("proc/net/dev").unwrap_or_default();
        let lines = text.lines().filter_map(|line| line.rsplit_once(": "));
        let listed = lines.map(|(name, _)| name.trim().to_owned());
        names.extend(listed.filter(|name| !name.is_empty() && !name.contains(['|', ' ', '/'])));
    }
    let mut names: Vec<String> = names.into_iter().collect();
    names.sort_by(|a, b| natural::compare(a, b));
    names
}

fn is_loopback(machine: &Machine, name: &str, overview: &Overview) -> bool {
    const ARPHRD_LOOPBACK: i64 = 772;
    let by_link = overview.links.get(name).map(|link| link.has(link::FLAG_LOOPBACK));
    by_link.unwrap_or_else(|| {
        let kind = machine.number(&format!("sys/class/net/{name}/type"));
        kind.map_or(name == "lo", |kind: i64| kind == ARPHRD_LOOPBACK)
    })
}

/// The bond of each member, from `bonding/slaves`; older kernels and reduced captures have no
/// `master` link.
fn bond_members(machine: &Machine, names: &[String]) -> BTreeMap<String, String> {
    let mut members = BTreeMap::new();
    for bond in names {
        let slaves = machine.text(&format!("sys/class/net/{bond}/bonding/slaves"));
        for member in slaves.unwrap_or_default().split_whitespace() {
            members.insert(member.to_owned(), bond.clone());
        }
    }
    members
}

/// Adds to each virtual function the names of its interfaces.
fn join_functions(interfaces: &mut [Interface]) {
    let owner = |one: &Interface| Some((one.pci_address.clone()?, one.name.clone()));
    let functions = interfaces.iter().filter(|interface| interface.vf_of.is_some());
    let owners: Vec<(String, String)> = functions.filter_map(owner).collect();
    for function in interfaces.iter_mut().flat_map(|interface| &mut interface.vfs) {
        let names = owners.iter().filter(|(address, _)| *address == function.pci_address);
        function.interfaces = names.map(|(_, name)| name.clone()).collect();
        function.interfaces.sort_by(|a, b| natural::compare(a, b));
    }
}

fn interface(sources: &Sources) -> Interface {
    let link = &sources.link;
    let is_device = sources.parent.is_some();
    let mac = sources.machine.parse(&sources.at("address"), mac::parse);
    let known = if is_device { facts::settings(sources) } else { facts::state(sources) };
    let mut interface = Interface {
        name: sources.name.to_owned(),
        kind: facts::kind(sources),
        current_mac: mac.flatten().or(link.facts.current_mac.clone()),
        altnames: link.facts.altnames.clone(),
        mtu: sources.number("mtu").or(link.facts.mtu),
        max_mtu: link.facts.max_mtu,
        ..known
    };
    facts::fill_state(sources, &mut interface);
    facts::fill_relations(sources, &mut interface);
    if is_device {
        interface.port = facts::port(sources);
        interface.is_representor = facts::is_representor(interface.port.as_ref());
        facts::fill_unlisted(sources, &mut interface);
    }
    facts::fill_device(sources, &mut interface);
    interface.permanent_mac = facts::permanent_mac(sources, &interface);
    interface
}

#[cfg(test)]
mod tests;
