//! Network interfaces: `/sys/class/net/<interface>/`, with what netlink and ethtool add.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ethtool::{self, EthtoolPort};
use super::kind::{self, Evidence};
use super::link::{self, Link};
use super::parent::{self, Parent};
use super::sriov::{self, VirtualFunction};
use super::{boot_interface, mac};
use crate::machine::Machine;
use crate::sys::netlink::RouteDump;
use crate::{natural, udev};

/// The class's folder also holds this file of the bonding driver.
const NOT_INTERFACES: [&str; 1] = ["bonding_masters"];

/// One network interface of the running kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Interface {
    /// Kernel name, e.g. `eno1`. It may change across boots, so it is never a key.
    pub name: String,
    /// Further names that the kernel answers to, sorted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub altnames: Vec<String>,
    /// `physical` and `wireless` for ports, else the kernel's word: `bond`, `vlan`, `bridge`, `veth`,
    /// `tun`, `dummy`, `macvlan`, …; `virtual` where only that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// MAC address in use now; a bond rewrites it. 20 bytes on InfiniBand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_mac: Option<String>,
    /// MAC address burnt in, the key of a port. `None` where the kernel does not know it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permanent_mac: Option<String>,
    /// Kernel driver, e.g. `ixgbe`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Version of the driver; that of the kernel for most drivers since Linux 5.7.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver_version: Option<String>,
    /// Version of the firmware, as the driver writes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firmware: Option<String>,
    /// Bus of the device behind it: `pci`, `usb`, `virtio`, `platform`, ….
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bus: Option<String>,
    /// PCI address of the device behind it; `None` on USB, whose controller it would be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pci_address: Option<String>,
    /// PCI or USB vendor id, e.g. `8086`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vendor_id: Option<String>,
    /// PCI or USB device id, e.g. `1572`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_id: Option<String>,
    /// NUMA node of the device behind it; `None` where the firmware does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numa_node: Option<u32>,
    /// Negotiated speed in Mbit/s; `None` while the link is down or the driver is silent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed_mbit_s: Option<u32>,
    /// Speed of the fastest mode that the port supports, in Mbit/s; Linux 5.6.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_speed_mbit_s: Option<u32>,
    /// `full` or `half`; `None` while the link is down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplex: Option<String>,
    /// Whether speed and duplex are negotiated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_autonegotiating: Option<bool>,
    /// Whether somebody brought it up (`IFF_UP`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_up: Option<bool>,
    /// Whether there is a link; `None` while the interface is not up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub has_carrier: Option<bool>,
    /// Why there is no link, e.g. `no cable`; few drivers say, Linux 5.8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_down_reason: Option<String>,
    /// State by RFC 2863: `up`, `down`, `lowerlayerdown`, `dormant`, ….
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operstate: Option<String>,
    /// Largest packet in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// Largest value that the driver takes for `mtu`, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_mtu: Option<u32>,
    /// Which port of the card it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<Port>,
    /// SR-IOV virtual functions that are turned on; `None` where the port can have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n_vfs: Option<u32>,
    /// SR-IOV virtual functions that could be turned on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_vfs: Option<u32>,
    /// The virtual functions that are turned on, by number.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vfs: Vec<VirtualFunction>,
    /// PCI address of the physical function, if this is a virtual one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vf_of: Option<String>,
    /// Whether it only stands for a function of a card in switch mode (`pf0vf1`).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_representor: bool,
    /// Bond, bridge or other interface that this one is a member of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub master: Option<String>,
    /// Interface that this one stands on, as a VLAN on its port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lower: Option<String>,
    /// Number of the VLAN, of a `vlan`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vlan_id: Option<u16>,
    /// Whether the machine was booted through it; `None` where nothing says how it was booted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_boot_interface: Option<bool>,
    /// Whether it is the USB link to the management controller, not a port. Its MAC may be the same on
    /// every machine of the model.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_bmc_usb: bool,
}

/// Which port of a card an interface is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Port {
    /// Number of the port on its device, from 0 (`dev_port`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<u32>,
    /// Name of the port in its switch, e.g. `p0` (`phys_port_name`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Id of the physical port; the same for all functions of one port (`phys_port_id`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Id of the switch that the port belongs to (`phys_switch_id`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub switch_id: Option<String>,
    /// `twisted_pair`, `fibre`, `direct_attach`, `none`, ….
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connector: Option<String>,
}

/// What is known of all interfaces together.
#[derive(Debug, Default)]
struct Overview {
    links: BTreeMap<String, Link>,
    ports: BTreeMap<String, EthtoolPort>,
    /// Members of bonds by what the bonds list.
    bond_members: BTreeMap<String, String>,
}

/// Lists every interface but loopback, by name in natural order.
pub(super) fn interfaces(machine: &Machine) -> Vec<Interface> {
    let answer = machine.ask(&RouteDump::Links).unwrap_or_default();
    let links = link::parse(&answer).into_iter().map(|link| (link.name.clone(), link)).collect();
    let mut overview = Overview { links, ports: ethtool::ports(machine), ..Overview::default() };
    let names = names(machine, &overview);
    overview.bond_members = bond_members(machine, &names);
    let all = names.into_iter().filter(|name| !is_loopback(machine, name, &overview));
    let mut interfaces: Vec<Interface> =
        all.map(|name| interface(machine, name, &overview)).collect();
    sriov::join(&mut interfaces);
    boot_interface::mark(machine, &mut interfaces);
    interfaces
}

/// The names in sysfs and those that netlink lists; `/proc/net/dev` where neither has any.
fn names(machine: &Machine, overview: &Overview) -> Vec<String> {
    const CLASS: &str = "sys/class/net";
    let listed = machine.list(CLASS).into_iter().filter(|name| {
        let path = format!("{CLASS}/{name}");
        !NOT_INTERFACES.contains(&name.as_str())
            && (machine.link(&path).is_some() || machine.is_dir(&path))
    });
    let mut names: BTreeSet<String> = listed.chain(overview.links.keys().cloned()).collect();
    if names.is_empty() {
        let text = machine.text("proc/net/dev").unwrap_or_default();
        let lines = text.lines().filter_map(|line| line.rsplit_once(": "));
        names.extend(
            lines
                .map(|(name, _)| name.trim().to_owned())
                .filter(|name| !name.is_empty() && !name.contains(['|', ' ', '/'])),
        );
    }
    let mut names: Vec<String> = names.into_iter().collect();
    names.sort_by(|a, b| natural::compare(a, b));
    names
}

fn is_loopback(machine: &Machine, name: &str, overview: &Overview) -> bool {
    const ARPHRD_LOOPBACK: i64 = 772;
    let flags = overview.links.get(name).map(|link| link.flags & link::FLAG_LOOPBACK != 0);
    flags.unwrap_or_else(|| {
        let kind = machine.number(&format!("sys/class/net/{name}/type"));
        kind.map_or(name == "lo", |kind: i64| kind == ARPHRD_LOOPBACK)
    })
}

/// Members by bond, from `bonding/slaves`; older kernels and cut trees have no `master` link.
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

fn interface(machine: &Machine, name: String, overview: &Overview) -> Interface {
    let dir = format!("sys/class/net/{name}");
    let path = machine.device_path(&dir);
    let parent = parent::parent(machine, &path);
    let link = overview.links.get(&name);
    let evidence = Evidence { name: &name, path: &path, has_device: parent.is_some(), link };
    let mut interface = Interface {
        kind: kind::kind(machine, &evidence),
        current_mac: machine
            .parse(&format!("{dir}/address"), mac::parse)
            .map_or_else(|| link.and_then(|link| link.mac.clone()), |mac| mac),
        altnames: link.map(|link| link.alternative_names.clone()).unwrap_or_default(),
        mtu: machine.number(&format!("{dir}/mtu")).or(link.and_then(|link| link.mtu)),
        max_mtu: link.and_then(|link| link.max_mtu),
        ..Interface::default()
    };
    interface.name = name;
    fill_state(machine, &dir, overview, &mut interface);
    fill_relations(machine, &dir, overview, &mut interface);
    interface.port = port(machine, &dir, overview, &interface.name);
    interface.is_representor = interface
        .port
        .as_ref()
        .is_some_and(|port| port.name.as_deref().is_some_and(is_representor));
    fill_device(machine, &dir, parent, &mut interface);
    interface.permanent_mac = permanent_mac(machine, &dir, link, &interface);
    interface
}

/// Speed, duplex, carrier and state.
fn fill_state(machine: &Machine, dir: &str, overview: &Overview, interface: &mut Interface) {
    let link = overview.links.get(&interface.name);
    let silent = EthtoolPort::default();
    let port = overview.ports.get(&interface.name).unwrap_or(&silent);
    let flags = machine.parse(&format!("{dir}/flags"), parse_hex).or(link.map(|link| link.flags));
    interface.is_up = flags.map(|flags| flags & link::FLAG_UP != 0);
    interface.has_carrier = machine
        .flag(&format!("{dir}/carrier"))
        .or(link.and_then(|link| link.has_carrier))
        .or(port.has_link)
        .filter(|_| interface.is_up != Some(false));
    interface.operstate = machine
        .text(&format!("{dir}/operstate"))
        .or(link.and_then(|link| link.operstate).map(str::to_owned))
        .filter(|state| state != "unknown");
    interface.max_speed_mbit_s = port.max_speed_mbit_s;
    interface.is_autonegotiating = port.is_autonegotiating;
    if interface.has_carrier == Some(false) {
        interface.link_down_reason = port.link_down_reason.map(str::to_owned);
        return;
    }
    interface.speed_mbit_s =
        machine.parse(&format!("{dir}/speed"), parse_speed).flatten().or(port.speed_mbit_s);
    interface.duplex = machine
        .text(&format!("{dir}/duplex"))
        .filter(|duplex| matches!(duplex.as_str(), "full" | "half"))
        .or(port.duplex.map(str::to_owned));
}

/// The interfaces above and below, and the VLAN.
fn fill_relations(machine: &Machine, dir: &str, overview: &Overview, interface: &mut Interface) {
    let link = overview.links.get(&interface.name);
    let name_of = |index: u32| {
        overview.links.values().find(|link| link.index == index).map(|link| link.name.clone())
    };
    interface.master = machine
        .link_name(&format!("{dir}/master"))
        .or_else(|| link.and_then(|link| link.master_index).and_then(name_of))
        .or_else(|| overview.bond_members.get(&interface.name).cloned());
    interface.lower = link.and_then(|link| link.lower_index).and_then(name_of);
    interface.vlan_id = link.and_then(|link| link.vlan_id);
    if interface.kind.as_deref() == Some("vlan") && interface.vlan_id.is_none() {
        let text = machine.text(&format!("proc/net/vlan/{}", interface.name)).unwrap_or_default();
        let (id, lower) = parse_vlan(&text);
        interface.vlan_id = id;
        interface.lower = interface.lower.take().or(lower);
    }
}

fn port(machine: &Machine, dir: &str, overview: &Overview, name: &str) -> Option<Port> {
    let link = overview.links.get(name);
    let text = |file: &str| machine.text(&format!("{dir}/{file}"));
    let connector = overview.ports.get(name).and_then(|port| port.connector);
    let port = Port {
        number: machine.number(&format!("{dir}/dev_port")),
        name: text("phys_port_name").or(link.and_then(|link| link.phys_port_name.clone())),
        id: text("phys_port_id").or(link.and_then(|link| link.phys_port_id.clone())),
        switch_id: text("phys_switch_id").or(link.and_then(|link| link.phys_switch_id.clone())),
        connector: connector.map(str::to_owned),
    };
    (port != Port::default()).then_some(port)
}

/// Driver, firmware, place and functions of the device behind the interface.
fn fill_device(machine: &Machine, dir: &str, parent: Option<Parent>, interface: &mut Interface) {
    let answer = ethtool::driver(machine, &interface.name);
    let parent = parent.unwrap_or_default();
    interface.is_bmc_usb = parent.is_bmc_usb();
    if let Some(pci_path) = parent.pci_path() {
        interface.vf_of = sriov::physical_function(machine, pci_path);
        interface.vfs = sriov::functions(machine, pci_path);
        interface.max_vfs = machine.number(&format!("{pci_path}/sriov_totalvfs"));
        interface.n_vfs = machine.number(&format!("{pci_path}/sriov_numvfs"));
    }
    let udev = udev_entry(machine, dir);
    let told = |name: &str| udev.as_ref().and_then(|entry| entry.property(name));
    interface.driver =
        parent.driver.or_else(|| told("ID_NET_DRIVER").map(str::to_owned)).or(answer.name);
    let module = interface.driver.as_deref().unwrap_or_default();
    interface.driver_version = answer.version.or_else(|| match module {
        "" => None,
        module => machine.text(&format!("sys/module/{module}/version")),
    });
    interface.firmware = answer.firmware;
    let id = |name: &str| told(name).and_then(|text| parent::parse_id(text).ok());
    interface.vendor_id = parent.vendor_id.or_else(|| id("ID_VENDOR_ID"));
    interface.device_id = parent.device_id.or_else(|| id("ID_MODEL_ID"));
    interface.bus = parent.bus;
    interface.pci_address = parent.pci_address;
    interface.numa_node = parent.numa_node;
}

fn udev_entry(machine: &Machine, dir: &str) -> Option<udev::UdevEntry> {
    let index: u32 = machine.number(&format!("{dir}/ifindex"))?;
    udev::entry(machine, &format!("n{index}"))
}

/// The MAC that is burnt in: as netlink says (Linux 5.6), as a bond kept it, as udev named the port
/// after it, or the current one where that was never changed (`addr_assign_type` 0).
fn permanent_mac(
    machine: &Machine,
    dir: &str,
    link: Option<&Link>,
    interface: &Interface,
) -> Option<String> {
    const NET_ADDR_PERM: u32 = 0;
    let told = link.and_then(|link| link.permanent_mac.clone()).or_else(|| {
        machine.parse(&format!("{dir}/bonding_slave/perm_hwaddr"), mac::parse).flatten()
    });
    let told = told.or_else(|| {
        let bond = interface.master.as_deref()?;
        let text = machine.text(&format!("proc/net/bonding/{bond}"))?;
        parse_bond_member(&text, &interface.name)
    });
    if told.is_some() || !matches!(interface.kind.as_deref(), Some("physical" | "wireless")) {
        return told;
    }
    let udev = udev_entry(machine, dir);
    let named = udev.and_then(|entry| parse_udev_mac(entry.property("ID_NET_NAME_MAC")?));
    named.or_else(|| {
        let kind: u32 = machine.number(&format!("{dir}/addr_assign_type"))?;
        interface.current_mac.clone().filter(|_| kind == NET_ADDR_PERM)
    })
}

/// `enx` and the like before 12 digits: udev names a port so by its permanent MAC only.
fn parse_udev_mac(name: &str) -> Option<String> {
    let digits = name.get(3..).filter(|digits| digits.len() == 12 && digits.is_ascii())?;
    let pairs: Vec<&str> = (0..6).filter_map(|i| digits.get(2 * i..2 * i + 2)).collect();
    mac::parse(&pairs.join(":")).ok().flatten()
}

/// `Permanent HW addr` behind `Slave Interface: <name>` in `/proc/net/bonding/<bond>`.
fn parse_bond_member(text: &str, name: &str) -> Option<String> {
    let pairs = text.lines().filter_map(|line| line.split_once(": "));
    let mut own = pairs
        .skip_while(|(key, value)| *key != "Slave Interface" || value.trim() != name)
        .skip(1)
        .take_while(|(key, _)| *key != "Slave Interface");
    let (_, mac) = own.find(|(key, _)| *key == "Permanent HW addr")?;
    mac::parse(mac).ok().flatten()
}

/// Number and lower interface in `/proc/net/vlan/<name>`: `eth0.5  VID: 5 …`, `Device: eth0`.
fn parse_vlan(text: &str) -> (Option<u16>, Option<String>) {
    let mut words = text.split_whitespace();
    let id = words.by_ref().find(|word| *word == "VID:").and_then(|_| words.next());
    let mut words = text.split_whitespace();
    let lower = words.by_ref().find(|word| *word == "Device:").and_then(|_| words.next());
    (id.and_then(|id| id.parse().ok()), lower.map(str::to_owned))
}

/// The kernel writes -1 for a speed it does not know (`SPEED_UNKNOWN`, `uapi/linux/ethtool.h`).
fn parse_speed(text: &str) -> Result<Option<u32>, &'static str> {
    let speed: i64 = text.parse().map_err(|_| "a whole number of Mbit/s, or -1")?;
    Ok(u32::try_from(speed).ok().filter(|_| ethtool::is_known_speed(speed)))
}

fn parse_hex(text: &str) -> Result<u32, &'static str> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u32::from_str_radix(digits, 16).map_err(|_| "a hexadecimal number of 32 bits")
}

/// `pf0`, `pf0vf3`, `pf0sf1`, `c1pf0vf2`: the function behind a switch port, not the port itself.
fn is_representor(port_name: &str) -> bool {
    let name = port_name
        .strip_prefix('c')
        .map_or(port_name, |rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
    name.strip_prefix("pf").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}
