//! The facts of one interface: state, relations, port, device and permanent MAC.

use super::ethtool::{self, EthtoolPort};
use super::interface::{Interface, Overview, Port};
use super::link::{self, Link};
use super::parent::{self, Parent};
use super::settings::{self, Fec, Queues, Rings};
use super::{mac, sriov};
use crate::machine::Machine;
use crate::sys::ethtool::RssHead;
use crate::udev;

/// Speed, duplex, carrier and state.
pub(super) fn fill_state(
    machine: &Machine,
    dir: &str,
    overview: &Overview,
    interface: &mut Interface,
) {
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
    if interface.has_carrier == Some(false) || interface.is_up == Some(false) {
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

/// The settings of a port.
pub(super) fn fill_settings(machine: &Machine, overview: &Overview, interface: &mut Interface) {
    let Some(port) = overview.ports.get(&interface.name).cloned() else { return };
    interface.queues = port.queues.filter(|queues| *queues != Queues::default());
    interface.rings = port.rings.filter(|rings| *rings != Rings::default());
    interface.fec = port.fec.filter(|fec| *fec != Fec::default());
    // A driver without an indirection table distributes nothing, even if it reports a hash.
    interface.rss = port.rss.filter(|rss| rss.n_table_entries.is_some());
    if !overview.is_rss_listed {
        let head = machine.ask(&RssHead { interface: interface.name.clone() });
        interface.rss = head.and_then(|head| settings::rss_of_head(&head));
    }
    interface.wake_on_lan = port.wake_on_lan;
    interface.eee = port.eee;
    interface.ptp_clock_index = port.ptp_clock_index;
    let name_of = |bit: &usize| overview.feature_names.get(*bit).cloned().flatten();
    interface.offloads = port.offloads.iter().filter_map(name_of).collect();
    interface.offloads.sort();
    interface.has_firmware_lldp_agent = port
        .has_firmware_lldp_agent
        .or_else(|| ethtool::is_dcbx_in_firmware(machine, &interface.name));
}

/// The interfaces above and below, and the VLAN.
pub(super) fn fill_relations(
    machine: &Machine,
    dir: &str,
    overview: &Overview,
    interface: &mut Interface,
) {
    let link = overview.links.get(&interface.name);
    let name_of = |index: u32| {
        overview.links.values().find(|link| link.index == index).map(|link| link.name.clone())
    };
    interface.master = machine
        .link_name(&format!("{dir}/master"))
        .or_else(|| link.and_then(|link| link.master_index).and_then(name_of))
        .or_else(|| overview.bond_members.get(&interface.name).cloned());
    // The lower link of a veth is its other end.
    let lower = link.filter(|link| link.kind.as_deref() != Some("veth"));
    interface.lower = lower.and_then(|link| link.lower_index).and_then(name_of);
    interface.vlan_id = link.and_then(|link| link.vlan_id);
    if interface.kind.as_deref() == Some("bond") {
        interface.bond_mode =
            link.and_then(|link| link.bond_mode).and_then(bond_mode).or_else(|| {
                let text = machine.text(&format!("{dir}/bonding/mode"))?;
                text.split_whitespace().next().map(str::to_owned)
            });
    }
    if interface.kind.as_deref() == Some("vlan") && interface.vlan_id.is_none() {
        let text = machine.text(&format!("proc/net/vlan/{}", interface.name)).unwrap_or_default();
        let (id, lower) = parse_vlan(&text);
        interface.vlan_id = id;
        interface.lower = interface.lower.take().or(lower);
    }
}

/// `BOND_MODE_…` as the bonding driver spells it (`Documentation/networking/bonding.rst`).
fn bond_mode(number: u8) -> Option<String> {
    const MODES: [&str; 7] = [
        "balance-rr",
        "active-backup",
        "balance-xor",
        "broadcast",
        "802.3ad",
        "balance-tlb",
        "balance-alb",
    ];
    MODES.get(usize::from(number)).map(|mode| (*mode).to_owned())
}

/// Identity of the card's port that the interface uses; software links have none.
pub(super) fn port(machine: &Machine, dir: &str, overview: &Overview, name: &str) -> Option<Port> {
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

/// Driver, firmware, location and functions of the interface's device.
pub(super) fn fill_device(
    machine: &Machine,
    dir: &str,
    parent: Option<Parent>,
    interface: &mut Interface,
) {
    let answer = ethtool::driver(machine, &interface.name);
    let parent = parent.unwrap_or_default();
    let is_device = parent != Parent::default();
    interface.is_bmc_usb = parent.is_bmc_usb();
    if let Some(pci_path) = parent.pci_path() {
        interface.vf_of = sriov::physical_function(machine, pci_path);
        interface.vfs = sriov::functions(machine, pci_path);
        interface.max_vfs = machine.number(&format!("{pci_path}/sriov_totalvfs"));
        interface.n_vfs = machine.number(&format!("{pci_path}/sriov_numvfs"));
    }
    let udev = udev_entry(machine, dir);
    let property = |name: &str| udev.as_ref().and_then(|entry| entry.property(name));
    interface.driver =
        parent.driver.or_else(|| property("ID_NET_DRIVER").map(str::to_owned)).or(answer.name);
    let module = interface.driver.as_deref().unwrap_or_default();
    interface.driver_version = answer.version.or_else(|| match module {
        "" => None,
        module => machine.text(&format!("sys/module/{module}/version")),
    });
    interface.firmware = answer.firmware.filter(|text| match parent.bus.as_deref() {
        // usbnet puts the description of its driver where others put the version.
        Some("usb") => !["Ethernet", "Device", "USB", "Network"].iter().any(|w| text.contains(w)),
        _ => is_device,
    });
    let id = |name: &str| property(name).and_then(|text| parent::parse_id(text).ok());
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

/// The burnt-in MAC, from the first source that has it: netlink (Linux 5.6), the bond that the port
/// is a member of, the name that udev derives from it, or the current MAC if it was never changed
/// (`addr_assign_type` 0).
pub(super) fn permanent_mac(
    machine: &Machine,
    dir: &str,
    link: Option<&Link>,
    interface: &Interface,
) -> Option<String> {
    const NET_ADDR_PERM: u32 = 0;
    let reported = link.and_then(|link| link.permanent_mac.clone()).or_else(|| {
        machine.parse(&format!("{dir}/bonding_slave/perm_hwaddr"), mac::parse).flatten()
    });
    let reported = reported.or_else(|| {
        let bond = interface.master.as_deref()?;
        let text = machine.text(&format!("proc/net/bonding/{bond}"))?;
        parse_bond_member(&text, &interface.name)
    });
    if reported.is_some() || !matches!(interface.kind.as_deref(), Some("physical" | "wireless")) {
        return reported;
    }
    let udev = udev_entry(machine, dir);
    let named = udev.and_then(|entry| parse_udev_mac(entry.property("ID_NET_NAME_MAC")?));
    named.or_else(|| {
        let kind: u32 = machine.number(&format!("{dir}/addr_assign_type"))?;
        interface.current_mac.clone().filter(|_| kind == NET_ADDR_PERM)
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
    let Some(name) = port.and_then(|port| port.name.as_deref()) else { return false };
    let name = name
        .strip_prefix('c')
        .map_or(name, |rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
    name.strip_prefix("pf").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
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
        let named = |name: &str| Port { name: Some(name.to_owned()), ..Port::default() };
        for function in ["pf0", "pf0vf3", "c1pf0sf2"] {
            assert!(is_representor(Some(&named(function))), "{function}");
        }
        for port in ["p0", "1", "cp", "pfx", ""] {
            assert!(!is_representor(Some(&named(port))), "{port}");
        }
    }

    #[test]
    fn speeds_are_numbers_or_absent() {
        assert_eq!(parse_speed("25000"), Ok(Some(25_000)));
        assert_eq!((parse_speed("-1"), parse_speed("65535")), (Ok(None), Ok(None)));
        assert!(parse_speed("25G").is_err() && parse_hex("0x1_0").is_err());
    }
}
