//! Interfaces: the traps of network discovery, each with the smallest tree that shows it.

use super::*;
use crate::network::link::tests::link_message;
use crate::testing::bytes::{attribute, message};
use crate::testing::{has, tree_from_bytes};
use serde_json::json;

const PF: &str = "sys/devices/pci0000:00/0000:3b:00.0";

type File = (String, Vec<u8>);

fn file(path: &str, content: impl Into<Vec<u8>>) -> File {
    (path.to_owned(), content.into())
}

/// The files of an interface on a PCI device, plus `extra` in the interface's own folder.
fn pci_port(name: &str, device: &str, extra: &[(&str, &str)]) -> Vec<File> {
    let up = "../".repeat(device.matches('/').count() - 1);
    let own = format!("{device}/net/{name}");
    let mut files = vec![
        file(&format!("sys/class/net/{name}"), format!("-> ../../../{own}")),
        file(&format!("{own}/device"), "-> ../.."),
        file(&format!("{device}/subsystem"), format!("-> {up}bus/pci")),
        file(&format!("{device}/driver"), "-> ../../../bus/pci/drivers/ixgbe"),
        file(&format!("{device}/vendor"), "0x8086\n"),
        file(&format!("{device}/device"), "0x10FB\n"),
    ];
    files.extend(extra.iter().map(|(name, content)| file(&format!("{own}/{name}"), *content)));
    files
}

fn read(files: &[File]) -> (Vec<Interface>, Machine) {
    let machine = tree_from_bytes(files);
    (interfaces(&machine), machine)
}

#[test]
fn port_without_carrier_has_no_speed_and_no_problem() {
    let mac = ("address", "02:00:00:00:00:01\n");
    let up = [mac, ("speed", "10000\n"), ("carrier", "1\n"), ("duplex", "full\n")];
    let down = [mac, ("speed", "-1\n"), ("carrier", "0\n"), ("duplex", "unknown\n")];
    let mut files = pci_port("eno1", "sys/devices/pci0000:00/0000:3b:00.0", &up);
    files.extend(pci_port("eno2", "sys/devices/pci0000:00/0000:3b:00.1", &down));
    let (ports, machine) = read(&files);
    assert_eq!((ports[0].speed_mbit_s, ports[1].speed_mbit_s), (Some(10_000), None));
    assert_eq!((ports[0].duplex.as_deref(), ports[1].duplex.as_deref()), (Some("full"), None));
    assert_eq!(ports[1].has_carrier, Some(false));
    has(&ports[0], &json!({"pci_address": "0000:3b:00.0", "device_id": "10fb"}));
    has(&ports[0], &json!({"kind": "physical", "driver": "ixgbe"}));
    assert!(machine.problems().is_empty(), "{:?}", machine.problems());
}

#[test]
fn loopback_and_bonding_masters_are_not_listed() {
    let (ports, _) = read(&[
        file("sys/class/net/bonding_masters", "bond0\n"),
        file("sys/class/net/lo/type", "772\n"),
        file("sys/class/net/loop-like/type", "1\n"),
    ]);
    let names: Vec<&str> = ports.iter().map(|port| port.name.as_str()).collect();
    assert_eq!(names, ["loop-like"]);
}

#[test]
fn bond_member_keeps_its_permanent_mac_and_names_its_bond() {
    let own = [
        ("address", "02:00:00:00:00:99\n"),
        ("addr_assign_type", "3\n"),
        ("bonding_slave/perm_hwaddr", "02:00:00:00:00:01\n"),
    ];
    let mut files = pci_port("eno1", PF, &own);
    files.push(file("sys/class/net/bond0/bonding/slaves", "eno1 eno2\n"));
    let (ports, _) = read(&files);
    assert_eq!(ports[0].kind.as_deref(), Some("bond"));
    assert_eq!(ports[1].permanent_mac.as_deref(), Some("02:00:00:00:00:01"));
    assert_eq!(ports[1].current_mac.as_deref(), Some("02:00:00:00:00:99"));
    assert_eq!(ports[1].master.as_deref(), Some("bond0"));
}

#[test]
fn usb_link_to_a_bmc_is_marked_and_has_no_pci_address() {
    let usb = "sys/devices/pci0000:00/0000:00:14.0/usb1/1-1";
    let dir = format!("{usb}/1-1:1.0");
    let (ports, _) = read(&[
        file("sys/class/net/usb0", format!("-> ../../../{dir}/net/usb0")),
        file(&format!("{dir}/net/usb0/device"), "-> ../.."),
        file(&format!("{dir}/subsystem"), "-> ../../../../../../../bus/usb"),
        file(&format!("{dir}/uevent"), "DRIVER=cdc_ether\n"),
        file(&format!("{usb}/idVendor"), "046b\n"),
        file(&format!("{usb}/idProduct"), "ffb0\n"),
    ]);
    assert!(ports[0].is_bmc_usb);
    assert_eq!((ports[0].bus.as_deref(), &ports[0].pci_address), (Some("usb"), &None));
    assert_eq!(ports[0].device_id.as_deref(), Some("ffb0"));
}

#[test]
fn netlink_adds_missing_facts_and_links() {
    let dump = [
        link_message(2, 1, &[attribute(3, b"eno1\0"), attribute(54, &[2, 0, 0, 0, 0, 1])]),
        link_message(3, 0, &[attribute(3, b"veth1\0"), attribute(18, &attribute(1, b"veth\0"))]),
        link_message(1, 8, &[attribute(3, b"lo\0")]),
    ];
    let mut files = pci_port("eno1", PF, &[("address", "02:00:00:00:00:99\n")]);
    files.push(file("kernel/rtnetlink/link", dump.concat()));
    let (ports, _) = read(&files);
    let kinds: Vec<Option<&str>> = ports.iter().map(|port| port.kind.as_deref()).collect();
    assert_eq!(kinds, [Some("physical"), Some("veth")]);
    assert_eq!(ports[0].permanent_mac.as_deref(), Some("02:00:00:00:00:01"));
}

#[test]
fn damaged_files_are_problems_and_lose_only_their_own_facts() {
    let bad = [("speed", "25G\n"), ("mtu", "\u{0}"), ("address", "nonsense\n"), ("carrier", "x")];
    let (ports, machine) = read(&pci_port("eno1", PF, &bad));
    assert_eq!((ports[0].speed_mbit_s, ports[0].mtu, &ports[0].current_mac), (None, None, &None));
    assert_eq!(ports[0].driver.as_deref(), Some("ixgbe"));
    let problems = machine.problems();
    assert_eq!(problems.len(), 3, "{problems:?}");
    assert!(problems.iter().any(|problem| problem.found == "\"25G\""));
}

/// A dump of one answer in ethtool's format: a header with the port's name, then `body`.
fn ethtool_message(name: &str, body: &[Vec<u8>]) -> Vec<u8> {
    let header = attribute(0x8001, &attribute(2, &[name.as_bytes(), &[0]].concat()));
    message(20, &[vec![4, 1, 0, 0], header, body.concat()].concat())
}

#[test]
fn interfaces_on_one_pci_function_keep_their_own_facts() {
    let first =
        [("dev_port", "0\n"), ("address", "02:00:00:00:00:01\n"), ("addr_assign_type", "0\n")];
    let second =
        [("dev_port", "1\n"), ("address", "02:00:00:00:00:02\n"), ("addr_assign_type", "0\n")];
    for order in [["enp59s0", "enp59s0d1"], ["enp59s0d1", "enp59s0"]] {
        let mut files = Vec::new();
        for name in order {
            files.extend(pci_port(name, PF, if name == "enp59s0" { &first } else { &second }));
        }
        files.sort();
        files.dedup();
        let (ports, _) = read(&files);
        assert_eq!((ports[0].name.as_str(), ports[1].name.as_str()), ("enp59s0", "enp59s0d1"));
        let number = |port: &Interface| port.port.as_ref().and_then(|port| port.number);
        assert_eq!((number(&ports[0]), number(&ports[1])), (Some(0), Some(1)));
        let macs = ports.iter().map(|port| port.permanent_mac.clone().unwrap());
        assert_eq!(macs.collect::<Vec<_>>(), ["02:00:00:00:00:01", "02:00:00:00:00:02"]);
        assert_eq!(ports[0].pci_address, ports[1].pci_address);
    }
}

#[test]
fn failing_ethtool_and_unreadable_device_id_lose_only_their_own_facts() {
    let mut files = pci_port("wwan0", PF, &[("mtu", "1500\n")]);
    files.retain(|(path, _)| path != &format!("{PF}/device"));
    files.push(file(&format!("{PF}/device/inner"), "x"));
    let errors = ["linkinfo", "linkmodes", "linkstate", "rings", "channels", "features", "fec"]
        .map(|dump| format!("22 kernel/genetlink/ethtool/{dump}\n"));
    files.push(file("kernel/errors", errors.concat()));
    let (ports, machine) = read(&files);
    assert_eq!((ports[0].mtu, ports[0].driver.as_deref()), (Some(1500), Some("ixgbe")));
    assert_eq!((ports[0].vendor_id.as_deref(), &ports[0].device_id), (Some("8086"), &None));
    let problems = machine.problems();
    assert!(problems.iter().all(|problem| problem.path.ends_with("/device")), "{problems:?}");
}

#[test]
fn port_that_is_down_keeps_its_max_speed() {
    // 100000baseSR4/Full is bit 37, which the 32 bits of the old ioctl do not have.
    let supported = attribute(0x8003, &attribute(5, &[0, 0, 0, 0, 1 << 5, 0, 0, 0]));
    let unknown = attribute(5, &u32::MAX.to_ne_bytes());
    let modes = ethtool_message("eno1", &[supported, unknown]);
    let down = [("flags", "0x1002\n"), ("speed", "-1\n"), ("operstate", "down\n")];
    let mut files = pci_port("eno1", PF, &down);
    files.push(file("kernel/genetlink/ethtool/linkmodes", modes));
    let (ports, machine) = read(&files);
    assert_eq!((ports[0].speed_mbit_s, ports[0].max_speed_mbit_s), (None, Some(100_000)));
    assert_eq!((ports[0].is_up, ports[0].has_carrier), (Some(false), None));
    assert!(machine.problems().is_empty(), "{:?}", machine.problems());
}

#[test]
fn infiniband_mac_keeps_all_20_bytes() {
    const MAC: &str = "80:00:02:08:fe:80:00:00:00:00:00:00:00:02:c9:03:00:a1:b2:c3";
    let bytes: Vec<u8> = MAC.split(':').map(|b| u8::from_str_radix(b, 16).unwrap()).collect();
    let dump =
        link_message(2, 1, &[attribute(3, b"ib0\0"), attribute(1, &bytes), attribute(54, &bytes)]);
    let text = format!("{MAC}\n");
    let mut files = pci_port("ib0", PF, &[("address", &text)]);
    files.push(file("kernel/rtnetlink/link", dump));
    let (ports, machine) = read(&files);
    assert_eq!(ports[0].current_mac.as_deref(), Some(MAC));
    assert_eq!(ports[0].permanent_mac.as_deref(), Some(MAC));
    assert!(machine.problems().is_empty());
}

#[test]
fn representors_and_virtual_functions_are_marked() {
    let vf = "sys/devices/pci0000:00/0000:3b:10.0";
    let named = [("phys_port_name", "p0\n"), ("phys_switch_id", "0a0b\n")];
    let mut files = pci_port("enp59s0np0", PF, &named);
    let named = [("phys_port_name", "pf0vf0\n"), ("phys_switch_id", "0a0b\n")];
    let own = pci_port("enp59s0npf0vf0", PF, &named);
    files.extend(own.into_iter().filter(|(path, _)| path.contains("npf0vf0")));
    files.extend(pci_port("enp59s0v0", vf, &[]));
    files.push(file(&format!("{vf}/physfn"), "-> ../0000:3b:00.0"));
    let (ports, _) = read(&files);
    let marks: Vec<_> = ports.iter().map(|p| (p.is_representor, p.vf_of.is_some())).collect();
    assert_eq!(marks, [(false, false), (true, false), (false, true)]);
    let switch = ports[0].port.as_ref().and_then(|port| port.switch_id.as_deref());
    assert_eq!(switch, Some("0a0b"));
}

#[test]
fn pci_domain_of_32_bits_is_kept_and_numa_node_of_minus_one_is_absent() {
    let device = "sys/devices/pci10000:00/10000:01:00.0";
    let mut files = pci_port("eno1", device, &[]);
    files.push(file(&format!("{device}/numa_node"), "-1\n"));
    let (ports, machine) = read(&files);
    has(&ports[0], &json!({"pci_address": "10000:01:00.0", "vendor_id": "8086"}));
    assert_eq!(ports[0].numa_node, None);
    assert!(machine.problems().is_empty());
}

#[test]
fn bond_mode_comes_from_netlink_or_sysfs() {
    let info = [attribute(1, b"bond\0"), attribute(2, &attribute(1, &[4]))].concat();
    let dump = link_message(7, 1, &[attribute(3, b"bond0\0"), attribute(18, &info)]);
    let mode = |source: File| read(&[source]).0[0].bond_mode.clone().unwrap();
    assert_eq!(mode(file("kernel/rtnetlink/link", dump)), "802.3ad");
    let folder = "sys/class/net/bond0/bonding";
    assert_eq!(mode(file(&format!("{folder}/mode"), "active-backup 1\n")), "active-backup");
}

#[test]
fn software_links_have_no_port_settings() {
    let rings = |name: &str| ethtool_message(name, &[attribute(6, &512_u32.to_ne_bytes())]);
    let dump = [rings("eno1"), rings("br0")].concat();
    let mut files = pci_port("eno1", PF, &[]);
    files.push(file("sys/class/net/br0/bridge/x", "1\n"));
    files.push(file("kernel/genetlink/ethtool/rings", dump));
    let (links, _) = read(&files);
    assert_eq!(links[0].rings, None);
    assert_eq!(links[1].rings.as_ref().and_then(|rings| rings.n_rx_descriptors), Some(512));
}
