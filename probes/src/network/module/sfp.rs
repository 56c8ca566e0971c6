//! SFP, SFP+, SFP28 (SFF-8472): the description is in the lower half, the diagnostics at another address.

use super::memory::{Memory, byte, date, length, number, oui, temperature, text};
use super::{Module, alarms, names};

/// Byte 8: the cable is copper, passive or active.
const IS_COPPER_CABLE: u8 = 0x0c;
/// Byte 2: a plug for twisted pairs.
const RJ45: u8 = 0x22;
/// Byte 6: 1000BASE-T.
const IS_1000BASE_T: u8 = 0x08;
/// Byte 36: 10GBASE-T, 10GBASE-T for short reach, 5GBASE-T and 2.5GBASE-T (SFF-8024, table 4-4).
const BASE_T: [u8; 4] = [0x16, 0x1c, 0x1d, 0x1e];

pub(super) fn parse(memory: &Memory, lower: &[u8]) -> Module {
    memory.check(lower.get(..63).unwrap_or_default(), byte(lower, 63));
    // A second checksum covers bytes 64 to 94, which include the serial number and the date.
    memory.check(lower.get(64..95).unwrap_or_default(), byte(lower, 95));
    let is_copper_cable = byte(lower, 8).is_some_and(|codes| codes & IS_COPPER_CABLE != 0);
    let is_base_t = is_base_t(lower);
    let is_measured = has_diagnostics(lower);
    let diagnostics = is_measured.then(|| memory.sfp_diagnostics()).flatten();
    let mut module = Module {
        connector: byte(lower, 2).and_then(names::connector),
        vendor: text(lower, 20, 16),
        vendor_oui: oui(lower, 37),
        part_number: text(lower, 40, 16),
        revision: text(lower, 56, 4),
        serial: text(lower, 68, 16),
        date: date(lower, 84),
        nominal_rate_mbd: rate(lower),
        // A copper cable stores there which standard it complies with.
        wavelength_nm: number(lower, 60).filter(|_| !is_copper_cable && !is_base_t),
        temperature_celsius: match &diagnostics {
            Some(diagnostics) => temperature(diagnostics, 96),
            None => is_measured.then(|| memory.sfp_temperature()).flatten(),
        },
        alarms: match &diagnostics {
            Some(diagnostics) => alarms::alarms(&alarms::SFP, diagnostics, diagnostics),
            None => Vec::new(),
        },
        ..Module::default()
    };
    let is_cable = is_copper_cable || byte(lower, 2) == Some(names::NO_SEPARABLE_CONNECTOR);
    reach(lower, is_cable, is_base_t, &mut module);
    module
}

fn is_base_t(lower: &[u8]) -> bool {
    byte(lower, 2) == Some(RJ45)
        || byte(lower, 6).is_some_and(|codes| codes & IS_1000BASE_T != 0)
        || byte(lower, 36).is_some_and(|code| BASE_T.contains(&code))
}

/// In units of 100 `MBd`; byte 66 holds faster rates in units of 250 `MBd`.
fn rate(lower: &[u8]) -> Option<u32> {
    match byte(lower, 12)? {
        0 => None,
        0xff => byte(lower, 66).map(|rate| u32::from(rate) * 250).filter(|rate| *rate > 0),
        rate => Some(u32::from(rate) * 100),
    }
}

fn reach(lower: &[u8], is_cable: bool, is_base_t: bool, module: &mut Module) {
    let smf = match byte(lower, 14) {
        None | Some(0) => length(lower, 15, 100),
        Some(_) => length(lower, 14, 1000),
    };
    // Fibre is in units of 10 m, copper and attached cables in units of 1 m.
    let byte_18 = match (is_cable, is_base_t) {
        (true, _) => ("cable", length(lower, 18, 1)),
        (_, true) => ("copper", length(lower, 18, 1)),
        _ => ("om4", length(lower, 18, 10)),
    };
    let all = [
        ("smf", smf),
        ("om2", length(lower, 16, 10)),
        ("om1", length(lower, 17, 10)),
        byte_18,
        ("om3", length(lower, 19, 10)),
    ];
    module.reach_m = all.into_iter().filter_map(|(k, m)| Some((k.to_owned(), m?))).collect();
}

/// Byte 92: the module has calibrated diagnostics at the second address and needs no address change.
fn has_diagnostics(lower: &[u8]) -> bool {
    byte(lower, 92).is_some_and(|kind| kind & 0x64 == 0x60)
}
