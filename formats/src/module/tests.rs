//! Module memories as the specifications define them.

use std::cell::Cell;

use serde_json::json;

use super::*;
use crate::testing::{has, survives_any_bytes};

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

/// Pieces of a memory by address, page, offset and length, and how often a problem was found.
#[derive(Debug)]
struct Pieces<'a>(&'a [(&'a str, &'a [u8])], Cell<usize>);

impl Memory for Pieces<'_> {
    fn read(&self, address: u8, page: u8, offset: u8, length: u8) -> Option<Vec<u8>> {
        let name = format!("{address:02x}-{page:02x}-{offset:02x}-{length:02x}");
        let (_, piece) = self.0.iter().find(|(piece, _)| *piece == name)?;
        (piece.len() >= usize::from(length)).then(|| piece.to_vec())
    }

    fn problem(&self, _: String, _: String) {
        self.1.update(|n| n + 1);
    }
}

/// The module with these pieces of memory, and the number of problems.
fn found(pieces: &[(&str, &[u8])]) -> (Option<Module>, usize) {
    let memory = Pieces(pieces, Cell::default());
    (super::read(&memory), memory.1.get())
}

/// The module with these pieces of memory, which raise no problem.
fn read(pieces: &[(&str, &[u8])]) -> Module {
    let (module, n_problems) = found(pieces);
    assert_eq!(n_problems, 0);
    module.unwrap()
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

/// The alarms of a QSFP28 and of a QSFP-DD in operation whose second lane receives `light` of at least 40 µW, with its thresholds.
fn lanes(light: u16, status: [u8; 2]) -> [Vec<String>; 2] {
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
    let qsfp = [("50-00-00-80", &lower[..]), ("50-00-80-80", &page), ("50-03-80-80", &third)];
    let cmis = [
        ("50-00-00-80", &state[..]),
        ("50-00-80-80", &description),
        ("50-01-80-80", &first),
        ("50-02-80-80", &second),
        ("50-11-9a-30", &values),
    ];
    [read(&qsfp).alarms, read(&cmis).alarms]
}

#[test]
fn lane_that_receives_too_little_is_an_alarm_unless_the_module_sleeps() {
    assert_eq!(lanes(399, [0, 6]), [["receive power of lane 2 too low"]; 2]);
    let none = |alarms: [Vec<String>; 2]| alarms.iter().all(Vec::is_empty);
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
fn wrong_checksum_is_a_problem_and_loses_no_facts() {
    let mut sfp = sfp();
    sfp[63] ^= 1;
    let (module, n_problems) = found(&[("50-00-00-80", &sfp)]);
    assert_eq!((module.unwrap().serial.as_deref(), n_problems), (Some("SERIAL-01"), 1));
}

#[test]
fn empty_cage_has_no_module() {
    for lower in [&[0; 128][..], &[0xff; 128], &[3]] {
        assert_eq!(found(&[("50-00-00-80", lower)]), (None, 0));
    }
    assert_eq!(found(&[]), (None, 0));
}

#[test]
fn no_bytes_make_the_parsers_panic() {
    survives_any_bytes(&sfp(), |bytes| drop(sfp::parse(&Pieces(&[], Cell::default()), bytes)));
    let (_, page, _) = optics();
    survives_any_bytes(&page, |bytes| {
        drop((fields::text(bytes, 20, 16), fields::date(bytes, 84), fields::oui(bytes, 37)));
    });
}
