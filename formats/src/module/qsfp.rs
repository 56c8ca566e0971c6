//! QSFP+, QSFP28 (SFF-8636): state in the lower half, description in page 0 of the upper one,
//! alarm thresholds in page 3.

use super::fields::{NO_SEPARABLE_CONNECTOR, byte, common, number, reach, temperature};
use super::{Memory, Module, alarms, check, upper};

/// First transmitter technology, in the upper bits of byte 147, that is copper.
const FIRST_COPPER: u8 = 0x0a;
/// Byte 2, bit 2: the module has no pages beyond 0; bit 0: it has measured nothing yet.
const IS_FLAT_OR_NOT_READY: u8 = 0x05;

pub(super) fn parse(memory: &dyn Memory, lower: &[u8]) -> Module {
    let temperature_celsius = temperature(lower, 22);
    let Some(page) = upper(memory, 0) else {
        return Module { temperature_celsius, ..Module::default() };
    };
    // The offsets below are those of the specification minus 128.
    check(memory, page.get(..63).unwrap_or_default(), byte(&page, 63));
    check(memory, page.get(64..95).unwrap_or_default(), byte(&page, 95));
    let is_copper = byte(&page, 19).is_some_and(|technology| technology >> 4 >= FIRST_COPPER);
    let is_cable = is_copper || byte(&page, 2) == Some(NO_SEPARABLE_CONNECTOR);
    // The length of a cable, whether copper or active optical, is in units of 1 m.
    let byte_18 = if is_cable { ("cable", 18, 1) } else { ("om4", 18, 2) };
    let rows = [("smf", 14, 1000), ("om3", 15, 2), ("om2", 16, 1), ("om1", 17, 1), byte_18];
    let mut module = Module {
        // In 1/20 nm; a copper cable stores its attenuation there.
        wavelength_nm: number(&page, 58).filter(|_| !is_copper).map(|n| (n + 10) / 20),
        reach_m: reach(&page, rows),
        temperature_celsius,
        ..common(&page, 2, 94)
    };
    let is_measured = byte(lower, 2).is_some_and(|status| status & IS_FLAT_OR_NOT_READY == 0);
    if is_measured && !is_copper {
        // A module that ignores the number of the page shows page 0 again.
        let thresholds = upper(memory, 3).filter(|thresholds| *thresholds != page);
        module.alarms = alarms::alarms(&alarms::QSFP, &thresholds.unwrap_or_default(), lower);
    }
    module
}
