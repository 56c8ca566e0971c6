//! SFP, SFP+, SFP28 (SFF-8472): the description is in the lower half, the diagnostics at another address.

use super::fields::{NO_SEPARABLE_CONNECTOR, byte, common, number, reach, temperature};
use super::{HALF_BYTES, Memory, Module, alarms, check};

/// The diagnostics of an SFP have an address of their own.
const ADDRESS_DIAGNOSTICS: u8 = 0x51;
/// Byte 8: the cable is copper, passive or active.
const IS_COPPER_CABLE: u8 = 0x0c;
/// Byte 2: a plug for twisted pairs.
const RJ45: u8 = 0x22;
/// Byte 6: 1000BASE-T.
const IS_1000BASE_T: u8 = 0x08;
/// Byte 36: 10GBASE-T, 10GBASE-T for short reach, 5GBASE-T and 2.5GBASE-T (SFF-8024, table 4-4).
const BASE_T: [u8; 4] = [0x16, 0x1c, 0x1d, 0x1e];

pub(super) fn parse(memory: &dyn Memory, lower: &[u8]) -> Module {
    check(memory, lower.get(..63).unwrap_or_default(), byte(lower, 63));
    // A second checksum covers bytes 64 to 94, which include the serial number and the date.
    check(memory, lower.get(64..95).unwrap_or_default(), byte(lower, 95));
    let is_copper_cable = byte(lower, 8).is_some_and(|codes| codes & IS_COPPER_CABLE != 0);
    let is_base_t = is_base_t(lower);
    // Byte 92: the module has calibrated diagnostics at the second address and needs no address change.
    let is_measured = byte(lower, 92).is_some_and(|kind| kind & 0x64 == 0x60);
    // Thresholds first, values from byte 96.
    let diagnostics =
        is_measured.then(|| memory.read(ADDRESS_DIAGNOSTICS, 0, 0, HALF_BYTES)).flatten();
    // Captures by earlier versions have the temperature alone.
    let alone = || memory.read(ADDRESS_DIAGNOSTICS, 0, 96, 2);
    let is_cable = is_copper_cable || byte(lower, 2) == Some(NO_SEPARABLE_CONNECTOR);
    // Fibre is in units of 10 m, copper and attached cables in units of 1 m.
    let byte_18 = match (is_cable, is_base_t) {
        (true, _) => ("cable", 18, 1),
        (_, true) => ("copper", 18, 1),
        _ => ("om4", 18, 10),
    };
    let has_km = byte(lower, 14).is_some_and(|km| km != 0);
    let smf = if has_km { ("smf", 14, 1000) } else { ("smf", 15, 100) };
    let rows = [smf, ("om2", 16, 10), ("om1", 17, 10), byte_18, ("om3", 19, 10)];
    Module {
        // A copper cable stores there which standard it complies with.
        wavelength_nm: number(lower, 60).filter(|_| !is_copper_cable && !is_base_t),
        temperature_celsius: match &diagnostics {
            Some(diagnostics) => temperature(diagnostics, 96),
            None if is_measured => alone().and_then(|bytes| temperature(&bytes, 0)),
            None => None,
        },
        alarms: diagnostics.map_or_else(Vec::new, |all| alarms::alarms(&alarms::SFP, &all, &all)),
        reach_m: reach(lower, rows),
        ..common(lower, 4, 66)
    }
}

fn is_base_t(lower: &[u8]) -> bool {
    byte(lower, 2) == Some(RJ45)
        || byte(lower, 6).is_some_and(|codes| codes & IS_1000BASE_T != 0)
        || byte(lower, 36).is_some_and(|code| BASE_T.contains(&code))
}
