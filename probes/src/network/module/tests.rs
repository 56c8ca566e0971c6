//! Module memories as the specifications define them, and ports that hang.

use super::*;
use crate::network::link::tests::link_message;
use crate::testing::bytes::{attribute, survives_any_bytes};
use crate::testing::has;
use crate::testing::tree_from_bytes;
use serde_json::json;

fn put(memory: &mut [u8], at: usize, bytes: &[u8]) {
    memory[at..at + bytes.len()].copy_from_slice(bytes);
}

fn seal(memory: &mut [u8], from: usize, to: usize) {
    memory[to] = memory[from..to].iter().fold(0, |sum, byte| sum.wrapping_add(*byte));
}

/// A 25 Gbit/s SFP28 for multimode fibre.
fn sfp() -> Vec<u8> {
    let mut memory = vec![0; 128];
    put(&mut memory, 0, &[3, 4, 7]);
    memory[12] = 0xff;
    put(&mut memory, 18, &[10, 7]);
    put(&mut memory, 20, b"Example Optics  ");
    put(&mut memory, 37, &[0, 0x1b, 0x21]);
    put(&mut memory, 40, b"SFP28-SR        A   ");
    put(&mut memory, 60, &850_u16.to_be_bytes());
    memory[66] = 103;
    put(&mut memory, 68, b"SERIAL-01       210507  ");
    memory[92] = 0x68;
    seal(&mut memory, 0, 63);
    seal(&mut memory, 64, 95);
    memory
}

/// A copper cable of 3 m with QSFP28 plugs; the lower half and page 0.
fn copper() -> (Vec<u8>, Vec<u8>) {
    let mut lower = vec![0; 128];
    put(&mut lower, 0, &[0x11, 8]);
    let mut page = vec![0; 128];
    put(&mut page, 0, &[0x11, 0, 0x23]);
    page[12] = 0xff;
    put(&mut page, 18, &[3, 0xa0]);
    put(&mut page, 20, b"Example Cables  ");
    put(&mut page, 40, b"QSFP28-CU3M     B1");
    put(&mut page, 58, &[4, 6]);
    put(&mut page, 68, b"SERIAL-02       ");
    page[94] = 103;
    seal(&mut page, 0, 63);
    seal(&mut page, 64, 95);
    (lower, page)
}

/// A 400 Gbit/s QSFP-DD for single mode fibre; the lower half, page 0 and page 1.
fn optics() -> (Vec<u8>, Vec<u8>, Vec<u8>) {
    let mut lower = vec![0; 128];
    put(&mut lower, 0, &[0x18, 0x50, 0]);
    put(&mut lower, 14, &[45, 0x80]);
    let mut page = vec![0; 128];
    page[0] = 0x18;
    put(&mut page, 1, b"Example Optics  \0\x1b\x21");
    put(&mut page, 20, b"QDD-400G-DR4    01SERIAL-03       230131  ");
    page[75] = 0x0c;
    page[84] = 6;
    seal(&mut page, 0, 94);
    let mut first = vec![0; 128];
    first[4] = 5;
    put(&mut first, 10, &26_220_u16.to_be_bytes());
    (lower, page, first)
}

/// A machine whose ports have these pieces of memory, by the names of port and piece.
fn machine(pieces: &[(&str, &str, &[u8])]) -> Machine {
    let mut names: Vec<&str> = pieces.iter().map(|piece| piece.0).collect();
    names.dedup();
    let link = |(index, name): (u32, &&str)| {
        let name = [name.as_bytes(), &[0]].concat();
        link_message(index, 1, &[attribute(3, &name), attribute(57, b"pci\0")])
    };
    let links = ("kernel/rtnetlink/link".to_owned(), (2..).zip(&names).flat_map(link).collect());
    let piece = |(port, piece, bytes): &(&str, &str, &[u8])| {
        (format!("kernel/ethtool/{port}/module/{piece}"), bytes.to_vec())
    };
    tree_from_bytes(&pieces.iter().map(piece).chain([links]).collect::<Vec<(String, Vec<u8>)>>())
}

/// The module with these pieces of memory, which raise no problem.
fn read(pieces: &[(&str, &[u8])]) -> Module {
    let pieces: Vec<_> = pieces.iter().map(|(piece, bytes)| ("eno1", *piece, *bytes)).collect();
    let machine = machine(&pieces);
    let module = modules(&machine).remove("eno1").unwrap();
    assert!(machine.problems().is_empty(), "{:?}", machine.problems());
    module
}

fn reach(lengths: &[(&str, u32)]) -> BTreeMap<String, u32> {
    lengths.iter().map(|(cable, m)| ((*cable).to_owned(), *m)).collect()
}

#[test]
fn sfp_reports_part_serial_reach_and_temperature() {
    let module = read(&[("50-00-00-80", &sfp()), ("51-00-60-02", &[0x1f, 0x90])]);
    has(&module, &json!({"kind": "sfp", "connector": "lc", "vendor": "Example Optics"}));
    has(&module, &json!({"vendor_oui": "00:1b:21", "part_number": "SFP28-SR", "revision": "A"}));
    has(&module, &json!({"serial": "SERIAL-01", "date": "2021-05-07", "temperature_celsius": 32}));
    has(&module, &json!({"nominal_rate_mbd": 25_750, "wavelength_nm": 850}));
    has(&module, &json!({"reach_m": {"om3": 70, "om4": 100}}));
}

/// An SFP with these diagnostics: numbers by their byte.
fn measured(numbers: &[(usize, u16)]) -> Module {
    let mut diagnostics = vec![0; 128];
    for (at, number) in numbers {
        put(&mut diagnostics, *at, &number.to_be_bytes());
    }
    read(&[("50-00-00-80", &sfp()), ("51-00-00-80", &diagnostics)])
}

#[test]
fn sfp_beyond_its_own_thresholds_has_alarms() {
    let heat = [(0, 0x4b00), (2, 0xfb00)];
    let light = [(24, 10_000), (26, 1_000), (32, 10_000), (34, 100)];
    let with = |values: &[(usize, u16)]| measured(&[&heat[..], &light, values].concat());
    let good = with(&[(96, 0x1f90), (102, 5_000), (104, 5_000)]);
    assert_eq!((good.temperature_celsius, good.alarms.len()), (Some(32), 0));
    let bad = with(&[(96, 0x5000), (102, 20_000), (104, 50)]);
    let alarms = ["temperature too high", "transmit power too high", "receive power too low"];
    assert_eq!((bad.temperature_celsius, bad.alarms), (Some(80), alarms.map(str::to_owned).into()));
    let frost = with(&[(96, 0xf600)]);
    assert_eq!(frost.alarms, ["temperature too low"], "-10 degrees, at least -5");
    assert!(with(&[(96, 0xfc00)]).alarms.is_empty(), "-4 degrees");
    assert!(with(&[]).alarms.is_empty(), "nothing is measured");
    assert!(measured(&[(96, 0x5000), (104, 50)]).alarms.is_empty(), "no thresholds");
}

/// A QSFP28 or a QSFP-DD in operation whose second lane receives `light` of at least 40 µW, with its thresholds.
fn lanes(light: u16, status: [u8; 2]) -> Modules {
    let (mut lower, mut page) = copper();
    lower[2] = status[0];
    page[19] = 0;
    seal(&mut page, 0, 63);
    put(&mut lower, 36, &light.to_be_bytes());
    let mut third = vec![0; 128];
    put(&mut third, 48, &[0x4e, 0x20, 1, 0x90]);
    let (mut state, description, first) = optics();
    state[3] = status[1];
    let mut second = vec![0; 128];
    put(&mut second, 64, &[0x4e, 0x20, 1, 0x90]);
    let mut values = vec![0; 48];
    put(&mut values, 34, &light.to_be_bytes());
    let machine = machine(&[
        ("eno1", "50-00-00-80", &lower),
        ("eno1", "50-00-80-80", &page),
        ("eno1", "50-03-80-80", &third),
        ("eno2", "50-00-00-80", &state),
        ("eno2", "50-00-80-80", &description),
        ("eno2", "50-01-80-80", &first),
        ("eno2", "50-02-80-80", &second),
        ("eno2", "50-11-9a-30", &values),
    ]);
    modules(&machine)
}

#[test]
fn lane_that_receives_too_little_is_an_alarm_unless_the_module_sleeps() {
    let weak = lanes(399, [0, 6]);
    assert_eq!(weak["eno1"].alarms, ["receive power of lane 2 too low"]);
    assert_eq!(weak["eno2"].alarms, weak["eno1"].alarms);
    let none = |modules: Modules| modules.values().all(|module| module.alarms.is_empty());
    assert!(none(lanes(400, [0, 6])), "enough light");
    assert!(none(lanes(9, [0, 6])), "dark lanes");
    assert!(none(lanes(399, [1, 2])), "not ready, low power");
    assert!(none(lanes(399, [4, 8])), "no pages, powering down");
}

#[test]
fn copper_cable_has_a_length_and_no_wavelength() {
    let (lower, page) = copper();
    let module = read(&[("50-00-00-80", &lower), ("50-00-80-80", &page)]);
    has(&module, &json!({"kind": "qsfp28", "connector": "no_separable_connector"}));
    has(&module, &json!({"wavelength_nm": null, "temperature_celsius": null}));
    has(&module, &json!({"reach_m": {"cable": 3}, "nominal_rate_mbd": 25_750}));
    assert_eq!(module.serial.as_deref(), Some("SERIAL-02"));
}

#[test]
fn cmis_module_has_its_reach_in_page_1() {
    let (lower, page, first) = optics();
    let module = read(&[("50-00-00-80", &lower), ("50-00-80-80", &page), ("50-01-80-80", &first)]);
    has(&module, &json!({"kind": "qsfp-dd", "identifier": 0x18, "part_number": "QDD-400G-DR4"}));
    has(&module, &json!({"revision": "01", "serial": "SERIAL-03", "date": "2023-01-31"}));
    has(&module, &json!({"wavelength_nm": 1311, "reach_m": {"smf": 500}}));
    assert_eq!(module.temperature_celsius, Some(46));
}

#[test]
fn twisted_pair_module_has_a_copper_reach_and_no_wavelength() {
    for (at, value) in [(2, 0x22), (6, 0x08), (36, 0x1c)] {
        let mut sfp = sfp();
        put(&mut sfp, 18, &[100, 0]);
        sfp[at] = value;
        seal(&mut sfp, 0, 63);
        let module = read(&[("50-00-00-80", &sfp)]);
        assert_eq!(module.reach_m, reach(&[("copper", 100)]), "byte {at}");
        assert_eq!(module.wavelength_nm, None, "byte {at}");
    }
}

#[test]
fn active_optical_cable_has_a_length_and_a_wavelength() {
    let mut sfp = sfp();
    sfp[2] = 0x23;
    put(&mut sfp, 18, &[15, 0]);
    seal(&mut sfp, 0, 63);
    let (lower, mut page) = copper();
    put(&mut page, 18, &[30, 0x00]);
    put(&mut page, 58, &17_000_u16.to_be_bytes());
    seal(&mut page, 0, 63);
    let sfp = read(&[("50-00-00-80", &sfp)]);
    let qsfp = read(&[("50-00-00-80", &lower), ("50-00-80-80", &page)]);
    for (module, length) in [(sfp, 15), (qsfp, 30)] {
        assert_eq!(module.reach_m, reach(&[("cable", length)]));
        assert_eq!(module.wavelength_nm, Some(850));
    }
}

#[test]
fn length_of_255_is_absent() {
    let mut sfp = sfp();
    put(&mut sfp, 14, &[255, 255, 255, 254, 255, 7]);
    seal(&mut sfp, 0, 63);
    let module = read(&[("50-00-00-80", &sfp)]);
    assert_eq!(module.reach_m, reach(&[("om1", 2540), ("om3", 70)]));
}

#[test]
fn tunable_laser_is_optical_and_reserved_factor_gives_no_reach() {
    let reach = |technology: u8, smf: u8| {
        let (lower, mut page, mut first) = optics();
        page[84] = technology;
        seal(&mut page, 0, 94);
        first[4] = smf;
        let pieces = [("50-00-00-80", &lower[..]), ("50-00-80-80", &page), ("50-01-80-80", &first)];
        read(&pieces).reach_m.get("smf").copied()
    };
    assert_eq!((reach(0x10, 0x45), reach(0x11, 0x45)), (Some(5000), Some(5000)));
    assert_eq!(reach(0x09, 5), Some(500));
    for technology in [0x0a, 0x0f, 0x12] {
        assert_eq!(reach(technology, 5), None, "{technology:#x}");
    }
    assert_eq!((reach(6, 0x85), reach(6, 0xc5)), (Some(50_000), None), "10 km since CMIS 5.2");
    assert_eq!(reach(6, 0xff), None);
}

#[test]
fn hanging_ports_keep_earlier_modules_and_name_the_unread_ports() {
    let machine = machine(&[("eno1", "50-00-00-80", &[])]);
    let read = |_: &Machine, port: &str| {
        if port != "eno1" {
            std::thread::sleep(Duration::from_mins(10));
        }
        Some(Module::default())
    };
    let names = ["eno1", "eno2", "eno3", "eno4"].map(str::to_owned).into_iter();
    let start = Instant::now();
    let found = read_all(&machine, names, read, start + Duration::from_millis(500));
    assert!(start.elapsed() < PORT_LIMIT);
    assert_eq!(found.keys().collect::<Vec<_>>(), ["eno1"]);
    let problems = machine.problems();
    let paths: Vec<&str> = problems.iter().map(|problem| problem.path.as_str()).collect();
    assert_eq!(paths, ["/ethtool/eno2/module", "/ethtool/eno3/module"]);
    assert!(problems[1].found.ends_with("the first of 2"), "{}", problems[1].found);
}

#[test]
fn too_many_ports_are_a_problem() {
    let n_problems = |n_ports: usize| {
        let names: Vec<String> = (0..n_ports).map(|n| format!("eno{n}")).collect();
        let pieces: Vec<(&str, &str, &[u8])> =
            names.iter().map(|name| (name.as_str(), "none", &[][..])).collect();
        let machine = machine(&pieces);
        assert!(modules(&machine).is_empty());
        machine.problems().len()
    };
    assert_eq!((n_problems(LIMIT_PORTS), n_problems(LIMIT_PORTS + 1)), (0, 1));
}

#[test]
fn wrong_checksum_is_a_problem_and_loses_no_facts() {
    let mut sfp = sfp();
    sfp[63] ^= 1;
    let machine = machine(&[("eno1", "50-00-00-80", &sfp)]);
    assert_eq!(modules(&machine)["eno1"].serial.as_deref(), Some("SERIAL-01"));
    assert_eq!(machine.problems()[0].path, "/ethtool/eno1/module");
}

#[test]
fn empty_cage_has_no_module() {
    let (zeros, ones) = ([0; 128], [0xff; 128]);
    let machine = machine(&[
        ("eno1", "50-00-00-80", &zeros),
        ("eno2", "50-00-00-80", &ones),
        ("eno3", "50-00-00-80", &[3]),
        ("eno4", "other", &[]),
    ]);
    assert!(modules(&machine).is_empty() && machine.problems().is_empty());
}

#[test]
fn panicking_or_hanging_port_loses_only_its_own_module() {
    let machine = machine(&[("eno1", "50-00-00-80", &[])]);
    let limit = Duration::from_secs(1);
    let quick = |_: &Machine, _: &str| Some(Module::default());
    assert!(within_limit(&machine, "eno1", limit, quick).is_some());
    assert!(within_limit(&machine, "eno2", limit, |_, _| panic!("out of cheese")).is_none());
    let hang = |_: &Machine, _: &str| {
        std::thread::sleep(Duration::from_mins(10));
        None
    };
    assert!(within_limit(&machine, "eno3", limit, hang).is_none());
    let paths: Vec<String> = machine.problems().into_iter().map(|p| p.path).collect();
    assert_eq!(paths, ["/ethtool/eno2/module", "/ethtool/eno3/module"]);
}

#[test]
fn no_bytes_make_the_parsers_panic() {
    let machine = machine(&[("eno1", "50-00-00-80", &[])]);
    let memory = Memory { machine: &machine, port: "eno1" };
    survives_any_bytes(&sfp(), |bytes| drop(sfp::parse(&memory, bytes)));
    let (_, page, _) = optics();
    survives_any_bytes(&page, |bytes| {
        drop((memory::text(bytes, 20, 16), memory::date(bytes, 84), memory::oui(bytes, 37)));
    });
}
