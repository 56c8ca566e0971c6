//! LLDP: frames like those of real switches, hostile frames, and real ports in a network namespace.

use std::process::Command;
use std::time::{Duration, Instant};

use super::*;
use crate::sys::Question as _;
use crate::sys::lldp;
use crate::testing::bytes::{ethernet, mandatory, switch, tlv};
use crate::testing::{tree, tree_of_bytes};

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
fn number_of_neighbours_is_bounded() {
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
