//! LLDP: frames like those of real switches, hostile frames, and real ports in a network namespace.

use std::process::Command;
use std::time::{Duration, Instant};

use super::*;
use crate::sys::Question as _;
use crate::sys::lldp;
use crate::testing::bytes::survives_any_bytes;
use crate::testing::has;
use crate::testing::{tree, tree_of_bytes};
use serde_json::json;

/// A part: 7 bits of type, 9 of length, the value.
fn tlv(kind: u8, value: &[u8]) -> Vec<u8> {
    let head = u16::from(kind) << 9 | u16::try_from(value.len()).unwrap();
    [&head.to_be_bytes(), value].concat()
}

fn organization(oui: [u8; 3], subtype: u8, content: &[u8]) -> Vec<u8> {
    tlv(127, &[&oui[..], &[subtype], content].concat())
}

fn ethernet(parts: &[Vec<u8>]) -> Vec<u8> {
    let header = [1, 0x80, 0xc2, 0, 0, 0x0e, 2, 0, 0, 0, 0, 0x11, 0x88, 0xcc];
    let mut frame = [&header[..], &parts.concat(), &[0, 0]].concat();
    frame.resize(frame.len().max(60), 0);
    frame
}

fn mandatory(port: &str) -> Vec<Vec<u8>> {
    vec![
        tlv(1, &[4, 2, 0, 0, 0, 0, 0x10]),
        tlv(2, &[&[5], port.as_bytes()].concat()),
        tlv(3, &120_u16.to_be_bytes()),
    ]
}

const DOT1: [u8; 3] = [0, 0x80, 0xc2];
const DOT3: [u8; 3] = [0, 0x12, 0x0f];

/// Frame of a switch in a rack.
fn switch() -> Vec<u8> {
    let ipv6 = [0xfd, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    let mut parts = mandatory("Ethernet1/7");
    parts.extend([
        tlv(4, b"rack 12 node 7\0"),
        tlv(5, b"leaf-12.example"),
        tlv(6, b"Switch OS 4.2\r\nmodel X"),
        tlv(7, &[0, 0x14, 0, 0x04]),
        tlv(8, &[5, 1, 192, 0, 2, 1, 2, 0, 0, 0, 9, 0]),
        tlv(8, &[&[17, 2][..], &ipv6, &[1, 0, 0, 0, 0, 0]].concat()),
        organization(DOT1, 1, &100_u16.to_be_bytes()),
        organization(DOT1, 2, &[6, 0, 101]),
        organization(DOT1, 3, &[0, 200, 4, b'p', b'r', b'o', b'd']),
        organization(DOT1, 3, &[0, 100, 4, b'm', b'g', b'm', b't']),
        organization(DOT1, 6, &300_u16.to_be_bytes()),
        organization(DOT3, 3, &[1, 0, 0, 0, 0]),
        organization(DOT1, 7, &[3, 0, 0, 0, 5]),
        organization(DOT3, 1, &[3, 0x6c, 1, 0, 30]),
        organization(DOT3, 4, &9216_u16.to_be_bytes()),
        organization([0, 0x12, 0xbb], 1, &[0, 1, 2]),
        tlv(100, &[0xab]),
    ]);
    ethernet(&parts)
}

fn parsed(frame: &[u8]) -> LldpNeighbour {
    frame::parse(frame).0.unwrap()
}

/// The neighbour with these parts after the mandatory ones.
fn with(parts: &[Vec<u8>]) -> LldpNeighbour {
    parsed(&ethernet(&[mandatory("1"), parts.to_vec()].concat()))
}

#[test]
fn switch_port_and_vlan_are_read() {
    let found = parsed(&switch());
    has(&found, &json!({"chassis_id": "02:00:00:00:00:10", "chassis_id_kind": "mac"}));
    has(&found, &json!({"port_id": "Ethernet1/7", "port_id_kind": "interface_name"}));
    has(&found, &json!({"port_description": "rack 12 node 7", "system_name": "leaf-12.example"}));
    has(&found, &json!({"system_description": "Switch OS 4.2\r\nmodel X", "ttl_s": 120}));
    has(&found, &json!({"capabilities": ["bridge", "router"], "enabled_capabilities": ["bridge"]}));
    let [ipv4, ipv6] = found.management_addresses.as_slice() else { panic!("{found:?}") };
    has(ipv4, &json!({"family": "ipv4", "address": "192.0.2.1", "interface_number": 9}));
    has(ipv6, &json!({"family": "ipv6", "address": "fd02::1", "interface_number": null}));
    has(&found, &json!({"port_vlan_id": 100, "protocol_vlan_ids": [101]}));
    has(&found, &json!({"vlans": [{"id": 100, "name": "mgmt"}, {"id": 200, "name": "prod"}]}));
    has(&found, &json!({"max_frame_bytes": 9216, "source_mac": "02:00:00:00:00:11"}));
    has(&found, &json!({"management_vlan_id": 300}));
    let phy = found.mac_phy;
    has(&phy, &json!({"is_autonegotiation_supported": true, "is_autonegotiation_enabled": true}));
    has(&phy, &json!({"advertised_hex": "6c01", "mau_type": 30}));
}

#[test]
fn link_aggregation_of_802_1_takes_precedence_over_802_3() {
    let new = organization(DOT1, 7, &[3, 0, 0, 0, 5]);
    let old = organization(DOT3, 3, &[1, 0, 0, 0, 0]);
    for order in [[new.clone(), old.clone()], [old.clone(), new]] {
        has(&with(&order).link_aggregation, &json!({"is_enabled": true, "port_number": 5}));
    }
    let aggregation = with(&[old]).link_aggregation;
    has(&aggregation, &json!({"is_capable": true, "is_enabled": false, "port_number": null}));
}

#[test]
fn unknown_parts_are_kept_in_hexadecimal() {
    let other = parsed(&switch()).other_tlvs;
    assert_eq!(other.len(), 2);
    has(&other[0], &json!({"oui": "0012bb", "subtype": 1, "hex": "000102"}));
    has(&other[1], &json!({"kind": 100, "hex": "ab"}));
}

#[test]
fn answer_with_too_many_ports_is_truncated_and_a_problem() {
    let names: Vec<String> = (0..10_000).map(|n| format!("eno{n}")).collect();
    let records: Vec<Record> = names.iter().map(|name| Record::Listened(name)).collect();
    let machine = tree(&[]);
    let again = lldp::testing::answer(&[Record::Frame("eno0", &switch())]);
    let all = from_answer(&machine, &[lldp::testing::answer(&records), again].concat());
    assert_eq!(all.len(), LIMIT_PORTS);
    assert_eq!(all["eno0"].len(), 1, "a port that is listed still gets its frames");
    assert_eq!(machine.problems().len(), 1);
}

#[test]
fn interface_number_of_zero_and_invalid_untagged_vlan_are_absent() {
    let address = |number: u8| tlv(8, &[5, 1, 192, 0, 2, 1, 2, 0, 0, 0, number, 0]);
    for (number, expected) in [(0, None), (9, Some(9))] {
        let found = with(&[address(number)]);
        assert_eq!(found.management_addresses[0].interface_number, expected);
    }
    for id in [0_u16, 4095] {
        assert_eq!(with(&[organization(DOT1, 1, &id.to_be_bytes())]).port_vlan_id, None);
    }
}

#[test]
fn ids_are_formatted_by_their_kind() {
    let id = |value: &[u8]| frame::id(value, "lldp_port_id");
    let known = |text: &str, kind: &str| Some((text.to_owned(), kind.to_owned()));
    assert_eq!(id(&[3, 2, 0, 0, 0, 0, 1]), known("02:00:00:00:00:01", "mac"));
    assert_eq!(id(&[3, 2, 0, 0]), known("020000", "mac"));
    assert_eq!(id(&[4, 1, 192, 0, 2, 9]), known("192.0.2.9", "network_address"));
    assert_eq!(id(b"\x07 swp1 "), known("swp1", "local"));
    assert_eq!(id(&[7, 0xff, b'a']), known("\\xffa", "local"));
    assert_eq!(id(&[9, 1, 2]), known("0102", "9"));
    for none in [&[][..], &[5], &[4], &[4, 1], b"\x05 \0"] {
        assert_eq!(id(none), None, "{none:?}");
    }
}

#[test]
fn damaged_frame_keeps_the_parts_before_the_damage() {
    let whole = ethernet(&mandatory("1"));
    let mut cut = [&mandatory("1").concat()[..], &[10 << 1 | 1, 0xff, b'x']].concat();
    cut.splice(..0, whole[..14].to_vec());
    let found = frame::parse(&cut);
    assert_eq!(found.0.unwrap().port_id, "1");
    assert!(found.1.unwrap().contains("longer than the frame"));
    for bad in [&whole[..16], &[0; 60][..], &[]] {
        let found = frame::parse(bad);
        assert!(found.0.is_none() && found.1.is_some());
    }
}

#[test]
fn hostile_frames_are_bounded_and_never_panic() {
    survives_any_bytes(&switch(), |bytes| drop(frame::parse(bytes)));
    let many = vec![organization([1, 2, 3], 4, &[]); 300];
    assert_eq!(with(&many).other_tlvs.len(), frame::LIMIT_ENTRIES);
    let machine = tree(&[]);
    let mut received = Vec::new();
    for n in 0..100 {
        add(&machine, "lldp/eno1", &mut received, &ethernet(&mandatory(&n.to_string())));
    }
    assert_eq!(received.len(), LIMIT_NEIGHBOURS);
    assert_eq!(machine.problems().len(), 1);
}

#[test]
fn neighbour_is_listed_once_and_removed_when_it_shuts_down() {
    let machine = tree(&[]);
    let mut received = Vec::new();
    let named = |name: &str| ethernet(&[mandatory("1"), vec![tlv(5, name.as_bytes())]].concat());
    add(&machine, "lldp/eno1", &mut received, &named("old"));
    add(&machine, "lldp/eno1", &mut received, &named("new"));
    assert_eq!(received.len(), 1);
    assert_eq!(received[0].system_name.as_deref(), Some("new"));
    let mut bye = mandatory("1");
    bye[2] = tlv(3, &[0, 0]);
    add(&machine, "lldp/eno1", &mut received, &ethernet(&bye));
    assert!(received.is_empty() && machine.problems().is_empty());
}

#[test]
fn replay_distinguishes_silence_from_not_listened() {
    let frame = switch();
    let answer = lldp::testing::answer(&[
        Record::Failed("eno9", 1),
        Record::Listened("eno1"),
        Record::Frame("eno1", &frame),
        Record::Listened("eno2"),
    ]);
    let machine = tree_of_bytes(&[("kernel/lldp/frames", &answer)]);
    let mut inventory = crate::collect::Inventory::default();
    inventory.network.get_or_insert_default().interface_mut("eno3");
    let mut all = crate::collect::COLLECTORS.iter();
    (all.find(|collector| collector.name == "lldp").unwrap().run)(&machine)(&mut inventory);
    let interfaces = inventory.network.unwrap().interfaces;
    let received: Vec<(&str, Option<usize>)> =
        interfaces.iter().map(|i| (i.name.as_str(), i.lldp.as_ref().map(Vec::len))).collect();
    assert_eq!(received, [("eno1", Some(1)), ("eno2", Some(0)), ("eno3", None)]);
    assert_eq!(machine.problems()[0].path, "/lldp/eno9");
}

/// Runs the test called `name` again in a separate network namespace, after `script`. Returns `false` if that is not
/// permitted.
fn in_namespace(name: &str, script: &str) -> bool {
    let may = Command::new("unshare").args(["-n", "true"]).status();
    if !may.is_ok_and(|status| status.success()) {
        crate::skipped::skipped("no network namespace is permitted here");
        return false;
    }
    let test = std::env::current_exe().unwrap();
    let script = format!("{script} && exec {} --exact {name} --nocapture", test.display());
    let status = Command::new("unshare")
        .args(["-n", "sh", "-e", "-c", &script])
        .env("RCI_IN_NAMESPACE", "1")
        .status();
    assert!(status.unwrap().success());
    true
}

#[test]
fn wait_on_real_ports_ends_when_every_port_with_a_link_received_a_frame() {
    const NAME: &str = "network::lldp::tests::wait_on_real_ports_ends_when_every_port_with_a_link_received_a_frame";
    if std::env::var_os("RCI_IN_NAMESPACE").is_none() {
        in_namespace(
            NAME,
            "ip link add rci0 type veth peer name sw0; ip link add rci1 type veth peer name sw1; \
             ip link add rci2 type veth peer name sw2; \
             for i in rci0 sw0 rci1 sw1 rci2; do ip link set $i up; done; true",
        );
        return;
    }
    let index = |name: &str| nix::net::if_::if_nametoindex(name).unwrap();
    let port =
        |name: &str| ListenPort { name: name.to_owned(), index: index(name), is_awaited: true };
    // The third port has no link, so the wait for it lasts only as long as one needs to come up.
    let ports = vec![port("rci0"), port("rci1"), port("rci2")];
    let question = LldpFrames { ports, wait: Duration::from_mins(1) };
    let [first, second] = ["sw0", "sw1"].map(|name| lldp::testing::speaker(index(name)));
    let start = Instant::now();
    let sending = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        lldp::testing::speak(&first, &switch());
        lldp::testing::speak(&first, &switch());
        lldp::testing::speak(&first, &ethernet(&mandatory("second switch on the same wire")));
        std::thread::sleep(Duration::from_millis(700));
        lldp::testing::speak(&second, &ethernet(&mandatory("swp7")));
    });
    let answer = question.ask_live().unwrap();
    sending.join().unwrap();
    let took = start.elapsed();
    assert!(took > Duration::from_millis(900) && took < Duration::from_secs(20), "{took:?}");
    let machine = tree(&[]);
    let received = from_answer(&machine, &answer);
    let ports: Vec<&str> = received["rci0"].iter().map(|n| n.port_id.as_str()).collect();
    assert_eq!(ports, ["Ethernet1/7", "second switch on the same wire"]);
    assert_eq!(received["rci1"][0].port_id, "swp7");
    assert!(received["rci2"].is_empty() && machine.problems().is_empty());
    let quiet = LldpFrames { wait: Duration::from_millis(600), ..question };
    let start = Instant::now();
    let received = from_answer(&machine, &quiet.ask_live().unwrap());
    assert!(received.values().all(Vec::is_empty) && start.elapsed() < Duration::from_secs(5));
}
