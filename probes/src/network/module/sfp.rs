//! SFP, SFP+, SFP28 (SFF-8472): everything stands in the lower half.

use super::memory::{Memory, byte, date, number, oui, text};
use super::{Module, names};

/// Byte 8: the cable is copper without or with electronics in its plugs.
const IS_COPPER_CABLE: u8 = 0x0c;

pub(super) fn parse(memory: &Memory, lower: &[u8]) -> Module {
    memory.check(lower.get(..63).unwrap_or_default(), byte(lower, 63));
    // Serial and date stand at 68 to 91, and are summed up apart.
    memory.check(lower.get(64..95).unwrap_or_default(), byte(lower, 95));
    let is_cable = byte(lower, 8).is_some_and(|codes| codes & IS_COPPER_CABLE != 0);
    let mut module = Module {
        connector: byte(lower, 2).and_then(names::connector),
        vendor: text(lower, 20, 16),
        vendor_oui: oui(lower, 37),
        part_number: text(lower, 40, 16),
        revision: text(lower, 56, 4),
        serial: text(lower, 68, 16),
        date: date(lower, 84),
        nominal_rate_mbd: rate(lower),
        // A copper cable says there which standard it keeps.
        wavelength_nm: number(lower, 60).filter(|_| !is_cable),
        temperature_celsius: has_thermometer(lower).then(|| memory.sfp_temperature()).flatten(),
        ..Module::default()
    };
    reach(lower, is_cable, &mut module);
    module
}

/// In 100 `MBd`; faster ones are told by byte 66, in 250 `MBd`.
fn rate(lower: &[u8]) -> Option<u32> {
    match byte(lower, 12)? {
        0 => None,
        0xff => byte(lower, 66).map(|rate| u32::from(rate) * 250).filter(|rate| *rate > 0),
        rate => Some(u32::from(rate) * 100),
    }
}

fn reach(lower: &[u8], is_cable: bool, module: &mut Module) {
    let length = |at: usize, unit: u32| byte(lower, at).map_or(0, |n| u32::from(n) * unit);
    let smf = Some(length(14, 1000)).filter(|m| *m > 0).unwrap_or_else(|| length(15, 100));
    let cable = if is_cable { ("cable", length(18, 1)) } else { ("om4", length(18, 10)) };
    let all = [
        ("smf", smf),
        ("om2", length(16, 10)),
        ("om1", length(17, 10)),
        cable,
        ("om3", length(19, 10)),
    ];
    module.reach_m =
        all.into_iter().filter(|(_, m)| *m > 0).map(|(k, m)| (k.to_owned(), m)).collect();
}

/// Byte 92: it has diagnostics, in °C, at the second address without a switch-over.
fn has_thermometer(lower: &[u8]) -> bool {
    byte(lower, 92).is_some_and(|kind| kind & 0x64 == 0x60)
}
