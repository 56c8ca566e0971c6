//! Expectations compared with machines that have them, and against machines with one fault.

use super::*;
use serde_json::json;

const GIB: u64 = 1 << 30;

/// Returns a machine that meets all of [`expected`].
fn machine() -> Value {
    let dimm = |n: u64| {
        json!({"locator": format!("A{n}"), "is_populated": true, "size_bytes": 32 * GIB,
               "kind": "DDR4", "configured_speed_mt_s": 3200})
    };
    let gpu = |n: u64| json!({"address": format!("0000:{n}1:00.0"), "kind": "gpu", "vendor_id": "10de", "device_id": "2330"});
    let pci = |n: u64| json!({"address": format!("0000:{n}1:00.0"), "link": {"current_width": 16, "max_width": 16}});
    json!({
        "product": {"vendor": "Dell Inc.", "name": "PowerEdge R760xa"},
        "bios": {"version": "2.19.1"},
        "memory": {"n_slots": 32, "dimms": (1..=16).map(dimm).collect::<Vec<_>>()},
        "block": {"n_disks": 3, "disks": [
            {"name": "sda", "transport": "sata", "size_bytes": 480_103_981_056_u64},
            {"name": "nvme0n1", "transport": "nvme", "size_bytes": 3_840_755_982_336_u64},
            {"name": "nvme1n1", "transport": "nvme", "size_bytes": 7_681_501_126_656_u64},
        ]},
        "network": {"interfaces": [
            {"name": "eno1", "kind": "physical", "speed_mbit_s": 25000,
             "lldp": [{"system_name": "leaf-17", "port_id": "12"}]},
            {"name": "eno2", "kind": "physical", "speed_mbit_s": 25000},
        ]},
        "gpu": {"cards": (1..=4).map(gpu).collect::<Vec<_>>()},
        "pci": {"n_devices": 4, "devices": (1..=4).map(pci).collect::<Vec<_>>()},
    })
}

/// 16 DIMMs of 32 GiB at 3200 MT/s, 2 NVMe of at least 3.5 TB, eno1 at 25 Gbit/s wired to leaf-17 port 12, BIOS 2.19.1,
/// 4 GPUs 10de:2330 on x16.
fn expected() -> Value {
    json!({
        "dimm": {"count": 16, "size": "32 GiB", "configured_speed": "3200 MT/s"},
        "disk": [{"count": 2, "transport": "nvme", "size": ">= 3.5 TB"}],
        "interface": {"name": "eno1", "speed": "25 Gbit/s", "wired_to": "leaf-17 port 12"},
        "bios": {"version": "2.19.1"},
        "gpu": {"count": 4, "id": "10de:2330", "link_width": "x16"},
    })
}

fn deviations(expected: &Value, machine: &Value) -> Vec<Deviating> {
    Expectations::parse(expected).unwrap().deviations(&Machine::of(machine))
}

/// The only deviation, as `code part: evidence`.
fn only(expected: &Value, machine: &Value) -> String {
    let found = deviations(expected, machine);
    let [one] = found.as_slice() else { panic!("{found:#?}") };
    format!("{} {}: {}", one.deviation.code(), one.part, one.evidence)
}

#[test]
fn machine_that_has_everything_does_not_deviate() {
    assert_eq!(deviations(&expected(), &machine()), []);
}

/// Checks that the machine with each value at its place has this deviation and no other.
fn check<const N: usize>(cases: [(&str, Value, &str); N]) {
    for (pointer, value, deviation) in cases {
        let mut machine = machine();
        *machine.pointer_mut(pointer).unwrap() = value;
        assert_eq!(only(&expected(), &machine), deviation);
    }
}

#[test]
fn each_phrase_is_found_if_the_machine_deviates_from_it() {
    check([
        (
            "/memory/dimms/2/size_bytes",
            json!(16 * GIB),
            "expectation.mismatch DIMM A3: size is 16 GiB, expected 32 GiB",
        ),
        (
            "/memory/dimms/2/configured_speed_mt_s",
            json!(2933),
            "expectation.mismatch DIMM A3: configured speed is 2933 MT/s, expected 3200 MT/s",
        ),
        (
            "/memory/dimms/2/is_populated",
            json!(false),
            "expectation.missing DIMM: found 15, expected 16 with size 32 GiB, configured speed 3200 MT/s",
        ),
        (
            "/block/disks/1/size_bytes",
            json!(1_920_383_410_176_u64),
            "expectation.mismatch disk nvme0n1: size is 1.92 TB, expected >= 3.5 TB",
        ),
        // A disk that is nothing like the expected one leaves it missing.
        (
            "/block/disks/2",
            json!(null),
            "expectation.missing disk: found 1, expected 2 with transport nvme, size >= 3.5 TB",
        ),
        (
            "/network/interfaces/0/lldp/0/port_id",
            json!("13"),
            "expectation.mismatch port eno1: wired to is leaf-17 port 13, expected leaf-17 port 12",
        ),
        (
            "/network/interfaces/0/speed_mbit_s",
            json!(10000),
            "expectation.mismatch port eno1: speed is 10 Gbit/s, expected 25 Gbit/s",
        ),
        (
            "/bios/version",
            json!("2.18.0"),
            "expectation.mismatch BIOS: version is 2.18.0, expected 2.19.1",
        ),
        (
            "/pci/devices/3/link/current_width",
            json!(8),
            "expectation.mismatch GPU 0000:41:00.0: link width is 8, expected x16",
        ),
    ]);
}

#[test]
fn value_that_the_report_lacks_is_a_deviation_of_its_own_kind() {
    check([
        (
            "/network/interfaces/0/lldp",
            json!([]),
            "expectation.unknown port eno1: wired to is not known, expected leaf-17 port 12",
        ),
        (
            "/bios",
            json!(null),
            "expectation.unknown BIOS: the report has no data of it, expected 1 with version 2.19.1",
        ),
        // A port that is expected by name is never looked for in another port.
        (
            "/network/interfaces/0/name",
            json!("eno9"),
            "expectation.missing port eno1: found 0, expected 1 with name eno1, speed 25 Gbit/s, wired to \
             leaf-17 port 12",
        ),
    ]);
}

#[test]
fn one_part_more_than_expected_is_a_surplus_unless_a_minimum_is_expected() {
    let expected = |count: Value| json!({"disk": {"count": count, "transport": "nvme"}});
    assert_eq!(
        only(&expected(json!(1)), &machine()),
        "expectation.surplus disk nvme1n1: nvme, 7.68 TB; expected 1 with transport nvme, and this one is more"
    );
    assert_eq!(deviations(&expected(json!(0)), &machine()).len(), 2);
    for count in [json!(">= 1"), json!("1..2"), json!(2)] {
        assert_eq!(deviations(&expected(count), &machine()), []);
    }
}

#[test]
fn part_that_no_expectation_fits_is_reported_only_if_asked_for() {
    let mut expected = expected();
    expected["others"] = json!("report");
    let found = deviations(&expected, &machine());
    let parts: Vec<String> = found.iter().map(|one| one.part.to_string()).collect();
    assert_eq!(parts, ["disk sda", "port eno2"]);
    assert!(found.iter().all(|one| one.deviation == Deviation::Surplus));
}

#[test]
fn patterns_that_can_all_be_fulfilled_are_and_impossible_ones_are_not() {
    // Each of the large disks fits both, but only together do they fulfil them.
    let both = json!({"disk": [{"size": ">= 3.5 TB"}, {"size": ">= 7 TB"}]});
    assert_eq!(deviations(&both, &machine()), []);
    let reversed = json!({"disk": [{"size": ">= 7 TB"}, {"size": ">= 3.5 TB"}]});
    assert_eq!(deviations(&reversed, &machine()), []);
    // Two expectations cannot share the one disk of more than 7 TB.
    let impossible = json!({"disk": [{"size": ">= 7 TB", "transport": "nvme"}, {"size": ">= 6 TB", "transport": "nvme"}]});
    let found = only(&impossible, &machine());
    assert!(found.starts_with("expectation.mismatch disk nvme0n1: size is 3.84 TB"), "{found}");
}

#[test]
fn unknown_keys_are_refused_with_the_nearest_known_one() {
    for (expected, complaint) in [
        (json!({"dimms": {}}), "\"dimms\" is not a known key, did you mean \"dimm\"?"),
        (
            json!({"dimm": {"sise": "1 GiB"}}),
            "dimm: \"sise\" is not a known key, did you mean \"size\"?",
        ),
        (
            json!({"disk": [{}, {"Transport": "x"}]}),
            "disk number 2: \"Transport\" is not a known key, did you mean \"transport\"?",
        ),
        (json!({"qqqq": 1}), "\"qqqq\" is not a known key, expected one of product,"),
        (json!({"dimm": 3}), "dimm is a single value, expected keys with values"),
        (json!({"dimm": [3]}), "dimm number 1 is a single value, expected keys"),
        (
            json!({"dimm": {"count": "4..2"}}),
            "dimm: count is \"4..2\", a range that nothing can match",
        ),
        (json!({"dimm": {"count": 5000}}), "dimm: count is 5000, expected 4096 at most"),
        (json!({"bios": {"count": 2}}), "bios: count is given, but a machine has only one"),
        (json!({"dimm": {"size": "32 GiBi"}}), "dimm: size is \"32 GiBi\", expected a size"),
        (json!({"severity": "info"}), "severity is \"info\", expected warning or critical"),
        (json!({"others": true}), "others is true, expected report or ignore"),
        (json!([]), "it is a list, expected a key for each kind"),
        (json!({}), "it expects no part of the machine"),
        (json!({"severity": "critical", "others": "report"}), "it expects no part"),
        (json!({"disk": []}), "disk is an empty list"),
        (json!({"bios": [{}, {}]}), "bios is a list of 2, but a machine has only one"),
    ] {
        let found = Expectations::parse(&expected).unwrap_err();
        assert!(found.contains(complaint), "{found}");
    }
}

#[test]
fn part_that_may_be_a_forbidden_one_is_reported() {
    let disk = json!({"name": "vda", "size_bytes": 1});
    let machine = json!({"block": {"n_disks": 1, "disks": [disk]}});
    let forbidden = json!({"disk": {"count": 0, "firmware": "BAD*"}});
    let found = deviations(&forbidden, &machine);
    assert_eq!(found.len(), 1, "{found:?}");
    // What is known speaks against it.
    let other = json!({"disk": {"count": 0, "firmware": "BAD*", "name": "sd*"}});
    assert_eq!(deviations(&other, &machine), []);
    // None was read.
    assert_eq!(deviations(&json!({"disk": {"count": 0}}), &json!({})).len(), 1);
}

#[test]
fn crowd_of_parts_and_expectations_is_matched_in_time() {
    let disk = |n: u32| json!({"name": format!("sd{n}"), "transport": "sas", "size_bytes": 1});
    let disks: Vec<Value> = (0..4096).map(disk).collect();
    let one = json!({"count": 64, "transport": "sas"});
    let expected = json!({"disk": vec![one; 64]});
    let machine = json!({"block": {"n_disks": 4096, "disks": disks}});
    let start = std::time::Instant::now();
    assert_eq!(deviations(&expected, &machine), []);
    // None of the disks is one of these.
    let one = json!({"count": 64, "transport": "nvme", "name": "sd*"});
    let expected = json!({"disk": vec![one; 64]});
    assert_eq!(deviations(&expected, &machine).len(), 4096);
    assert!(start.elapsed() < std::time::Duration::from_mins(1), "{:?}", start.elapsed());
}
