//! QSFP+, QSFP28 (SFF-8636): state in the lower half, description in page 0 of the upper one,
//! alarm thresholds in page 3.

use super::memory::{Memory, byte, date, length, number, oui, temperature, text};
use super::{Module, alarms, names};

/// First transmitter technology, in the upper bits of byte 147, that is copper.
const FIRST_COPPER: u8 = 0x0a;
/// Byte 2, bit 2: the module has no pages beyond 0; bit 0: it has measured nothing yet.
const IS_FLAT_OR_NOT_READY: u8 = 0x05;

pub(super) fn parse(memory: &Memory, lower: &[u8]) -> Module {
    let temperature_celsius = temperature(lower, 22);
    let Some(page) = memory.upper(0) else {
        return Module { temperature_celsius, ..Module::default() };
    };
    // The offsets below are those of the specification minus 128.
    memory.check(page.get(..63).unwrap_or_default(), byte(&page, 63));
    memory.check(page.get(64..95).unwrap_or_default(), byte(&page, 95));
    let is_copper = byte(&page, 19).is_some_and(|technology| technology >> 4 >= FIRST_COPPER);
    let mut module = Module {
        connector: byte(&page, 2).and_then(names::connector),
        vendor: text(&page, 20, 16),
        vendor_oui: oui(&page, 37),
        part_number: text(&page, 40, 16),
        revision: text(&page, 56, 2),
        serial: text(&page, 68, 16),
        date: date(&page, 84),
        nominal_rate_mbd: rate(&page),
        // In 1/20 nm; a copper cable stores its attenuation there.
        wavelength_nm: number(&page, 58).filter(|_| !is_copper).map(|n| (n + 10) / 20),
        temperature_celsius,
        ..Module::default()
    };
    let is_cable = is_copper || byte(&page, 2) == Some(names::NO_SEPARABLE_CONNECTOR);
    reach(&page, is_cable, &mut module);
    let is_measured = byte(lower, 2).is_some_and(|status| status & IS_FLAT_OR_NOT_READY == 0);
    if is_measured && !is_copper {
        // A module that ignores the number of the page shows page 0 again.
        let thresholds = memory.upper(3).filter(|thresholds| *thresholds != page);
        module.alarms = alarms::alarms(&alarms::QSFP, &thresholds.unwrap_or_default(), lower);
    }
    module
}

/// In units of 100 `MBd`; byte 222 holds faster rates in units of 250 `MBd`.
fn rate(page: &[u8]) -> Option<u32> {
    match byte(page, 12)? {
        0 => None,
        0xff => byte(page, 94).map(|rate| u32::from(rate) * 250).filter(|rate| *rate > 0),
        rate => Some(u32::from(rate) * 100),
    }
}

fn reach(page: &[u8], is_cable: bool, module: &mut Module) {
    // The length of a cable, whether copper or active optical, is in units of 1 m.
    let byte_146 =
        if is_cable { ("cable", length(page, 18, 1)) } else { ("om4", length(page, 18, 2)) };
    let all = [
        ("smf", length(page, 14, 1000)),
        ("om3", length(page, 15, 2)),
        ("om2", length(page, 16, 1)),
        ("om1", length(page, 17, 1)),
        byte_146,
    ];
    module.reach_m = all.into_iter().filter_map(|(k, m)| Some((k.to_owned(), m?))).collect();
}
