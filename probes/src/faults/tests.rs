//! Tests of the joining of findings into faults.

use serde_json::{Value, json};

use super::*;
use crate::findings::{findings, row};

fn inventory(facts: Value) -> Inventory {
    serde_json::from_value(facts).unwrap()
}

fn found(facts: Value) -> Vec<Fault> {
    let inventory = inventory(facts);
    faults(&inventory, &findings(&inventory))
}

fn parts(fault: &Fault) -> Vec<&str> {
    fault.suspects.iter().map(|suspect| suspect.part.as_str()).collect()
}

fn dimm(locator: &str) -> Value {
    json!({
        "locator": locator, "is_populated": true, "size_bytes": 16_u64 << 30,
        "part_number": "M393A2K40CB2-CTD", "serial": format!("SERIAL-{locator}"),
    })
}

/// A machine with four DIMMs, these counts of errors, and an event of this sensor of the BMC.
fn memory(ecc: &[Value], sensor: Option<&str>) -> Value {
    let event = |sensor: &str| {
        json!({"sensor": sensor, "kind": "memory", "event": "uncorrectable error", "is_asserted": true,
               "calls_for_attention": true})
    };
    let events: Vec<Value> = sensor.map(event).into_iter().collect();
    let dimms = ["A1", "A2", "B1", "B2"].map(dimm);
    json!({
        "memory": {"dimms": dimms, "ecc": ecc},
        "bmc": {"firmware": "1", "event_log": events},
    })
}

fn counted(label: &str, n: u64) -> Value {
    json!({"name": "mc0/dimm0", "label": label, "correctable": n})
}

#[test]
fn label_of_the_driver_suspects_the_dimm_of_its_bank_or_those_of_its_socket() {
    let names = |banks: [&str; 4]| {
        let mut row = counted("CPU_SrcID#1_MC#0_Chan#1_DIMM#0", 9);
        row["size_bytes"] = json!(16_u64 << 30);
        let mut facts = memory(&[row], None);
        for (at, bank) in banks.into_iter().enumerate() {
            facts["memory"]["dimms"][at]["bank_locator"] = json!(bank);
        }
        let faults = found(facts);
        assert_eq!(faults.len(), 1, "{faults:?}");
        let labels = faults[0].suspects.iter().filter_map(|suspect| suspect.label.clone());
        labels.collect::<Vec<_>>()
    };
    let bank = |socket, channel| format!("P{socket}_Node{socket}_Channel{channel}_Dimm0");
    let [a, b, c, d] = [bank(0, 0), bank(0, 1), bank(1, 0), bank(1, 1)];
    assert_eq!(names([&a, &b, &c, &d]), ["B2"]);
    assert_eq!(names([&a, &b, &c, &bank(1, 2)]), ["B1", "B2"], "no such channel");
    assert_eq!(names([&a, &b, &c, "BANK 3"]), ["A1", "A2", "B1", "B2"]);
}

#[test]
fn dimm_named_by_two_sources_is_one_fault_with_more_certainty() {
    let one = found(memory(&[counted("A2", 9)], None));
    let both = found(memory(&[counted("A2", 9)], Some("DIMM A2")));
    assert_eq!((one.len(), both.len()), (1, 1), "{both:?}");
    let sources: Vec<&str> = both[0].evidence.iter().map(|e| e.source.as_str()).collect();
    assert_eq!(sources, ["system event log", "EDAC"]);
    assert_eq!(parts(&both[0]), ["DIMM A2"]);
    let (alone, suspect) = (one[0].suspects[0].certainty_percent, &both[0].suspects[0]);
    assert!(suspect.certainty_percent > alone, "{} {alone}", suspect.certainty_percent);
    let fru = json!({"part_number": "M393A2K40CB2-CTD", "serial": "SERIAL-A2"});
    crate::testing::has(suspect, &json!({"label": "A2", "fru": fru}));
    assert_eq!(both[0].class, "memory.dimm.correctable");
}

#[test]
fn errors_at_an_unknown_dimm_make_every_dimm_a_suspect() {
    let fault = &found(memory(&[json!({"name": "mc0", "uncorrectable": 1})], None))[0];
    assert_eq!(parts(fault), ["DIMM A1", "DIMM A2", "DIMM B1", "DIMM B2"]);
    assert!(fault.suspects.iter().all(|s| s.certainty_percent == 22), "{fault:?}");
    assert_eq!(fault.severity, Severity::Critical);
}

#[test]
fn vague_sign_supports_the_one_fault_that_it_fits_and_adds_no_suspect() {
    let faults = found(memory(&[counted("B1", 9)], Some("Mem ECC")));
    assert_eq!((faults.len(), faults[0].suspects.len(), faults[0].evidence.len()), (1, 1, 2));
    let other = json!({"name": "mc0/dimm1", "label": "A1", "correctable": 2});
    let faults = found(memory(&[counted("B1", 9), other], Some("Mem ECC")));
    assert_eq!(faults.len(), 3, "nothing says which of the two it means");
}

/// Part, label and certainty.
type Suspected<'a> = (&'a str, Option<&'a str>, u8);

#[test]
fn fault_of_a_link_or_a_drive_suspects_the_parts_at_its_ends() {
    let address = "0000:3b:00.0";
    let drive = json!({
        "name": "nvme0n1", "transport": "nvme", "pci_address": address, "bay": {"label": "Slot 03"},
        "health": {"is_passed": false},
    });
    let card = json!({
        "address": address, "slot": "4", "device_name": "GH100",
        "link": {"current_width": 4, "possible_width": 16},
    });
    let port = json!({
        "name": "eno1", "kind": "physical", "speed_mbit_s": 100, "duplex": "half", "has_carrier": true,
        "module": {"part_number": "SFP-10G-SR"},
    });
    let cases: [(Value, &str, &[Suspected]); 3] = [
        // The errors of its link and its own health are one fault.
        (
            json!({
                "block": {"disks": [drive]},
                "pci": {"devices": [{"address": address, "aer": {"n_fatal": 2}}]},
            }),
            "disk.failing",
            &[("disk nvme0n1", Some("bay Slot 03"), 99)],
        ),
        (
            json!({"pci": {"devices": [card]}}),
            "pci.link.width",
            &[
                ("PCI device 0000:3b:00.0", Some("slot 4"), 54),
                ("slot 4 or its riser", Some("slot 4"), 26),
            ],
        ),
        // The module is likelier than the port.
        (
            json!({"network": {"interfaces": [port]}}),
            "nic.link.half_duplex",
            &[("module or cable of eno1", None, 40), ("nic eno1", None, 20)],
        ),
    ];
    for (facts, class, expected) in cases {
        let faults = found(facts);
        assert_eq!((faults.len(), faults[0].class.as_str()), (1, class), "{faults:?}");
        let suspects = faults[0].suspects.iter();
        let suspects: Vec<Suspected> =
            suspects.map(|s| (s.part.as_str(), s.label.as_deref(), s.certainty_percent)).collect();
        assert_eq!(suspects, expected);
    }
}

#[test]
fn machine_without_findings_and_identifiers_that_were_never_set_are_no_fault() {
    assert!(found(json!({})).is_empty());
    let unset = json!({"product": {"name": "To Be Filled By O.E.M."}});
    assert!(!findings(&inventory(unset.clone())).is_empty() && found(unset).is_empty());
}

#[test]
fn certainties_of_a_fault_never_exceed_100_percent() {
    assert_eq!((combine(90, 60), combine(99, 99), combine(0, 30)), (96, 99, 30));
    let ecc = |at| json!({"name": "mc0", "controller": at, "uncorrectable": 1});
    let faults = found(memory(&["a", "b", "c", "d", "e"].map(ecc), Some("Mem ECC")));
    assert_eq!(faults.len(), 1);
    let sum: u32 = faults[0].suspects.iter().map(|s| u32::from(s.certainty_percent)).sum();
    assert!((90..=100).contains(&sum), "{sum}");
}

#[test]
fn suspect_of_a_wrong_result_is_the_processor_with_that_cpu_and_never_a_socket_of_that_number() {
    let package =
        |id: u32, cpus: &str| json!({"id": id, "cores": [{"id": 4, "logical_cpus": cpus}]});
    let two = json!([package(0, "0-1"), package(1, "2-3")]);
    let socket = |name: &str| json!({"locator": name});
    for (packages, sockets, cpu, expected) in [
        (
            &two,
            json!([socket("CPU 1"), socket("CPU 2")]),
            "2",
            "core 4 of package 1 (logical CPU 2)",
        ),
        (&two, json!([socket("CPU 9")]), "1", "processor CPU 9"),
        (&json!([]), json!([]), "1", "cpu logical CPU 1"),
    ] {
        let inventory = inventory(json!({"cpu": {"packages": packages, "sockets": sockets}}));
        let row = row("cpu.wrong_result").unwrap();
        let wrong = vec![row.finding(Some(crate::parts::logical_cpu(cpu)), "0x1 instead of 0x2")];
        assert_eq!(parts(&faults(&inventory, &wrong)[0]), [expected]);
    }
}

#[test]
fn rounding_up_and_many_suspects_keep_the_sum_within_100_percent() {
    let sum = |all: &[u8]| all.iter().map(|one| u32::from(*one)).sum::<u32>();
    for certainties in [vec![1; 200], vec![90; 300], [vec![99; 3], vec![1; 120]].concat()] {
        let all = limited(&certainties);
        assert!(sum(&all) <= 100 && all.len() <= 100, "{all:?}");
        assert!(all.is_sorted_by(|a, b| a >= b) && all.iter().all(|one| *one > 0), "{all:?}");
    }
    assert_eq!(limited(&[60, 30]), [60, 30]);
    assert_eq!(limited(&[90, 90]), [50, 50]);
    assert!(limited(&[]).is_empty());
}

#[test]
fn thousands_of_dimms_with_errors_are_joined_in_time() {
    let names: Vec<String> = (0..2000).map(|number| format!("DIMM {number}")).collect();
    let count =
        |name: &String| json!({"name": format!("mc0/{name}"), "label": name, "correctable": 9});
    let counts: Vec<Value> = names.iter().map(count).collect();
    let dimms: Vec<Value> = names.iter().map(|name| dimm(name)).collect();
    let inventory = inventory(json!({"memory": {"dimms": dimms, "ecc": counts}}));
    let row = row("memory.firmware_error").unwrap();
    let slot = |name| Some(PartId::called(crate::parts::PartKind::Dimm, name));
    let findings: Vec<Finding> = names.iter().map(|name| row.finding(slot(name), "x")).collect();
    let started = std::time::Instant::now();
    let faults = faults(&inventory, &findings);
    assert_eq!(faults.len(), 2000);
    assert_eq!(faults[0].suspects.len(), 1);
    assert!(started.elapsed() < std::time::Duration::from_mins(1), "{:?}", started.elapsed());
}
