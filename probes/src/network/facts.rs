//! The facts of one interface: kind, state, relations, port, device, virtual functions and permanent MAC.

use formats::{data, mac};

use super::ethtool;
use super::interface::{Interface, Port, Sources, VirtualFunction};
use super::settings::{self, Fec, Queues, Rings};
use super::{link, parent};
use crate::machine::Machine;
use crate::pci_address::is_pci_address;
use crate::sys::port::{PortFact, PortQuestion};
use crate::udev::{self, UdevEntry};

/// The kind: `physical` or `wireless` for ports, otherwise the kernel's word (`bond`, `vlan`,
/// `bridge`, `veth`, `tun`, `dummy`, …), or `virtual` if only that is known. `None` if it is unknown.
pub(super) fn kind(sources: &Sources) -> Option<String> {
    let Sources { machine, link, .. } = sources;
    let uevent = sources.text("uevent").unwrap_or_default();
    let device_type = parent::value(&uevent, "DEVTYPE");
    let reported = link.facts.kind.as_deref();
    if sources.parent.is_some() {
        let kind = match (device_type, reported) {
            (Some("wlan"), _) => "wireless",
            (Some("wwan"), _) => "wwan",
            // A partition of an InfiniBand port (P_Key) is a link on a link of the same device.
            (_, Some("ipoib")) if link.lower_index.is_some() => "ipoib",
            _ if machine.link(&sources.at("phy80211")).is_some() => "wireless",
            _ => "physical",
        };
        return Some(kind.to_owned());
    }
    let by_type = device_type.map(|kind| if kind == "wlan" { "wireless" } else { kind });
    let is_virtual = sources.path.starts_with("sys/devices/virtual/");
    let known = reported.or(by_type).or_else(|| from_files(sources));
    known.or(is_virtual.then_some("virtual")).map(str::to_owned)
}

/// The files that drivers of software links add.
fn from_files(sources: &Sources) -> Option<&'static str> {
    let Sources { machine, name, .. } = sources;
    if machine.is_dir(&sources.at("bonding")) {
        Some("bond")
    } else if machine.is_dir(&sources.at("bridge")) {
        Some("bridge")
    } else if sources.text("tun_flags").is_some() {
        Some("tun")
    } else {
        machine.text(&format!("proc/net/vlan/{name}")).map(|_| "vlan")
    }
}

/// State as ethtool reports it, without settings.
pub(super) fn state(sources: &Sources) -> Interface {
    let facts = sources.port.facts.clone();
    Interface {
        has_carrier: facts.has_carrier,
        link_down_reason: facts.link_down_reason,
        max_speed_mbit_s: facts.max_speed_mbit_s,
        speed_mbit_s: facts.speed_mbit_s,
        duplex: facts.duplex,
        is_autonegotiating: facts.is_autonegotiating,
        ..Interface::default()
    }
}

/// State and settings of a port as ethtool reports them.
pub(super) fn settings(sources: &Sources) -> Interface {
    let facts = sources.port.facts.clone();
    let name_of = |bit: &u32| sources.overview.feature_names.get(bit).cloned();
    let mut offloads: Vec<String> = sources.port.offloads.iter().filter_map(name_of).collect();
    offloads.sort();
    Interface {
        queues: facts.queues.filter(|queues| *queues != Queues::default()),
        rings: facts.rings.filter(|rings| *rings != Rings::default()),
        fec: facts.fec.filter(|fec| *fec != Fec::default()),
        // A driver without an indirection table distributes nothing, even if it reports a hash.
        rss: facts.rss.filter(|rss| rss.n_table_entries.is_some()),
        offloads,
        ..facts
    }
}

/// Settings of a port that the kernel may have in no list.
pub(super) fn fill_unlisted(sources: &Sources, interface: &mut Interface) {
    let Sources { machine, overview, name, .. } = *sources;
    if !overview.ports.contains_key(name) {
        return;
    }
    if !overview.is_rss_listed {
        let head = machine.ask(&PortQuestion { interface: name, fact: PortFact::RssHead });
        interface.rss = head.and_then(|head| settings::rss_of_head(&head));
    }
    if interface.has_firmware_lldp_agent.is_none() {
        interface.has_firmware_lldp_agent = ethtool::is_dcbx_in_firmware(machine, name);
    }
}

/// Speed, duplex, carrier and state; `interface` has those of ethtool.
pub(super) fn fill_state(sources: &Sources, interface: &mut Interface) {
    let Sources { machine, link, .. } = sources;
    let flags = machine.parse(&sources.at("flags"), parse_hex).or(link.flags);
    interface.is_up = flags.map(|flags| flags & link::FLAG_UP != 0);
    let carrier = machine.flag(&sources.at("carrier")).or(link.facts.has_carrier);
    let carrier = carrier.or(interface.has_carrier);
    interface.has_carrier = carrier.filter(|_| interface.is_up != Some(false));
    let operstate = sources.text("operstate").or(link.facts.operstate.clone());
    interface.operstate = operstate.filter(|state| state != "unknown");
    if interface.has_carrier == Some(false) || interface.is_up == Some(false) {
        (interface.speed_mbit_s, interface.duplex) = (None, None);
        return;
    }
    interface.link_down_reason = None;
    let speed = machine.parse(&sources.at("speed"), parse_speed).flatten();
    interface.speed_mbit_s = speed.or(interface.speed_mbit_s);
    let duplex = sources.text("duplex").filter(|text| matches!(text.as_str(), "full" | "half"));
    interface.duplex = duplex.or(interface.duplex.take());
}

/// The interfaces above and below, and the VLAN.
pub(super) fn fill_relations(sources: &Sources, interface: &mut Interface) {
    let Sources { machine, overview, name, link, .. } = sources;
    let name_of = |index: u32| {
        overview.links.values().find(|link| link.index == index).map(|link| link.facts.name.clone())
    };
    interface.master = machine
        .link_name(&sources.at("master"))
        .or_else(|| link.master_index.and_then(name_of))
        .or_else(|| overview.bond_members.get(*name).cloned());
    // The lower link of a veth is its other end.
    let lower = link.lower_index.filter(|_| link.facts.kind.as_deref() != Some("veth"));
    interface.lower = lower.and_then(name_of);
    interface.vlan_id = link.facts.vlan_id;
    if interface.kind.as_deref() == Some("bond") {
        let by_link = link.bond_mode.and_then(|mode| data::named("bond_mode", mode));
        interface.bond_mode = by_link.or_else(|| {
            let text = sources.text("bonding/mode")?;
            text.split_whitespace().next().map(str::to_owned)
        });
    }
    if interface.kind.as_deref() == Some("vlan") && interface.vlan_id.is_none() {
        let text = machine.text(&format!("proc/net/vlan/{name}")).unwrap_or_default();
        let (id, lower) = parse_vlan(&text);
        interface.vlan_id = id;
        interface.lower = interface.lower.take().or(lower);
    }
}

/// Identity of the card's port that the interface uses; software links have none.
pub(super) fn port(sources: &Sources) -> Option<Port> {
    let known = sources.link.facts.port.clone().unwrap_or_default();
    let port = Port {
        number: sources.number("dev_port"),
        name: sources.text("phys_port_name").or(known.name),
        id: sources.text("phys_port_id").or(known.id),
        switch_id: sources.text("phys_switch_id").or(known.switch_id),
        connector: sources.port.connector.clone(),
    };
    (port != Port::default()).then_some(port)
}

/// Driver, firmware, location and functions of the interface's device.
pub(super) fn fill_device(sources: &Sources, interface: &mut Interface) {
    let machine = sources.machine;
    let [driver, version, firmware] = ethtool::driver(machine, sources.name);
    let parent = sources.parent.clone().unwrap_or_default();
    interface.is_bmc_usb = parent.is_bmc_usb();
    if let Some(pci_path) = parent.pci_path() {
        let function = machine.link_name(&format!("{pci_path}/physfn"));
        interface.vf_of = function.filter(|name| is_pci_address(name));
        interface.vfs = virtual_functions(machine, pci_path);
        interface.max_vfs = machine.number(&format!("{pci_path}/sriov_totalvfs"));
        interface.n_vfs = machine.number(&format!("{pci_path}/sriov_numvfs"));
    }
    let udev = udev_entry(sources);
    let property = |name: &str| udev.as_ref().and_then(|entry| entry.property(name));
    interface.driver =
        parent.driver.or_else(|| property("ID_NET_DRIVER").map(str::to_owned)).or(driver);
    interface.driver_version = version.or_else(|| {
        let module = interface.driver.as_deref().filter(|module| !module.is_empty())?;
        machine.text(&format!("sys/module/{module}/version"))
    });
    interface.firmware = firmware.filter(|text| match parent.bus.as_deref() {
        // usbnet puts the description of its driver where others put the version.
        Some("usb") => !["Ethernet", "Device", "USB", "Network"].iter().any(|w| text.contains(w)),
        _ => sources.parent.is_some(),
    });
    let id = |name: &str| property(name).and_then(|text| parent::parse_id(text).ok());
    interface.vendor_id = parent.vendor_id.or_else(|| id("ID_VENDOR_ID"));
    interface.device_id = parent.device_id.or_else(|| id("ID_MODEL_ID"));
    interface.bus = parent.bus;
    interface.pci_address = parent.pci_address;
    interface.numa_node = parent.numa_node;
}

/// Lists the virtual functions of the PCI device at `pci_path`, by their number.
fn virtual_functions(machine: &Machine, pci_path: &str) -> Vec<VirtualFunction> {
    let names = machine.list(pci_path);
    let links = names.iter().filter(|name| name.starts_with("virtfn"));
    let targets = links.filter_map(|name| machine.link_name(&format!("{pci_path}/{name}")));
    let function = |pci_address| VirtualFunction { pci_address, interfaces: Vec::new() };
    targets.filter(|name| is_pci_address(name)).map(function).collect()
}

fn udev_entry(sources: &Sources) -> Option<UdevEntry> {
    udev::entry(sources.machine, &format!("n{}", sources.number("ifindex")?))
}

/// The burnt-in MAC, from the first source that has it: netlink (Linux 5.6), the bond that the port
/// is a member of, the name that udev derives from it, or the current MAC if it was never changed
/// (`addr_assign_type` 0).
pub(super) fn permanent_mac(sources: &Sources, interface: &Interface) -> Option<String> {
    const NET_ADDR_PERM: u32 = 0;
    let machine = sources.machine;
    let by_bond_file = || {
        let text = machine.text(&format!("proc/net/bonding/{}", interface.master.as_deref()?))?;
        parse_bond_member(&text, sources.name)
    };
    let by_member =
        || machine.parse(&sources.at("bonding_slave/perm_hwaddr"), mac::parse).flatten();
    let reported =
        sources.link.facts.permanent_mac.clone().or_else(by_member).or_else(by_bond_file);
    if reported.is_some() || !matches!(interface.kind.as_deref(), Some("physical" | "wireless")) {
        return reported;
    }
    let named = udev_entry(sources);
    let named = named.and_then(|entry| parse_udev_mac(entry.property("ID_NET_NAME_MAC")?));
    named.or_else(|| {
        let is_own = sources.number("addr_assign_type") == Some(NET_ADDR_PERM);
        interface.current_mac.clone().filter(|_| is_own)
    })
}

/// `enx` or a similar prefix and 12 digits: udev uses such a name only for the permanent MAC.
fn parse_udev_mac(name: &str) -> Option<String> {
    let digits = name.get(3..).filter(|digits| digits.len() == 12 && digits.is_ascii())?;
    let pairs: Vec<&str> = (0..6).filter_map(|i| digits.get(2 * i..2 * i + 2)).collect();
    mac::parse(&pairs.join(":")).ok().flatten()
}

/// `Permanent HW addr` after `Slave Interface: <name>` in `/proc/net/bonding/<bond>`.
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

/// True if a port's name denotes the function it represents, not a physical port: `pf0`, `pf0vf3`, `pf0sf1`, `c1pf0vf2`
/// (`devlink_port_attrs`, `net/devlink/port.c`).
pub(super) fn is_representor(port: Option<&Port>) -> bool {
    let name = port.and_then(|port| port.name.as_deref()).unwrap_or_default();
    let is_digit = |c: char| c.is_ascii_digit();
    let name = name.strip_prefix('c').map_or(name, |rest| rest.trim_start_matches(is_digit));
    name.strip_prefix("pf").is_some_and(|rest| rest.starts_with(is_digit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bond_file_contains_each_members_permanent_mac() {
        let text = "Bonding Mode: 802.3ad\n\nSlave Interface: eno1\nMII Status: up\n\
                    Permanent HW addr: 02:00:00:00:00:01\n\nSlave Interface: eno2\n\
                    Permanent HW addr: 02:00:00:00:00:02\n";
        assert_eq!(parse_bond_member(text, "eno2").as_deref(), Some("02:00:00:00:00:02"));
        assert_eq!(parse_bond_member(text, "eno3"), None);
        assert_eq!(parse_bond_member("Slave Interface: eno1\n", "eno1"), None);
    }

    #[test]
    fn damaged_udev_names_and_vlan_files_are_skipped() {
        assert_eq!(parse_udev_mac("enx02000000000a").as_deref(), Some("02:00:00:00:00:0a"));
        for bad in ["", "enx", "enxéé0000000000", "enx02000000000g", "enx020000000001aa"] {
            assert_eq!(parse_udev_mac(bad), None, "{bad}");
        }
        let text = "eth0.5  VID: 5\t REORDER_HDR: 1\nDevice: eth0\n";
        assert_eq!(parse_vlan(text), (Some(5), Some("eth0".to_owned())));
        assert_eq!(parse_vlan("VID: x"), (None, None));
    }

    #[test]
    fn representors_differ_from_switch_ports_by_name() {
        let is_representor = |name: &str| {
            is_representor(Some(&Port { name: Some(name.to_owned()), ..Port::default() }))
        };
        assert!(["pf0", "pf0vf3", "c1pf0sf2"].into_iter().all(is_representor));
        assert!(!["p0", "1", "cp", "pfx", ""].into_iter().any(is_representor));
    }

    #[test]
    fn speeds_are_numbers_or_absent() {
        assert_eq!(parse_speed("25000"), Ok(Some(25_000)));
        assert_eq!((parse_speed("-1"), parse_speed("65535")), (Ok(None), Ok(None)));
        assert!(parse_speed("25G").is_err() && parse_hex("0x1_0").is_err());
    }
}
