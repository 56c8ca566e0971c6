//! QSFP-DD, OSFP and others with CMIS 5.2: state in the lower half, description in page 0 of the upper
//! one, reach and wavelength of optical modules in page 1, their alarm thresholds in page 2, their lanes in page 11h.

use super::alarms::{self, CMIS_LANES_AT, CMIS_LANES_BYTES};
use super::fields::{byte, date, number, oui, temperature, text};
use super::{ADDRESS, Memory, Module, check, upper};
use crate::data;

/// Byte 2, bit 7: the module has no pages beyond 0, like copper cables.
const IS_FLAT: u8 = 0x80;
/// Byte 3, bits 1 to 3: the module is in full operation and not asleep.
const STATE: u8 = 0x0e;
const IS_READY: u8 = 3 << 1;

pub(super) fn parse(memory: &dyn Memory, lower: &[u8]) -> Module {
    let temperature_celsius = temperature(lower, 14);
    let Some(page) = upper(memory, 0) else {
        return Module { temperature_celsius, ..Module::default() };
    };
    // The offsets below are those of the specification minus 128.
    check(memory, page.get(..94).unwrap_or_default(), byte(&page, 94));
    let mut module = Module {
        connector: byte(&page, 75).and_then(|code| data::named("module_connector", code)),
        vendor: text(&page, 1, 16),
        vendor_oui: oui(&page, 17),
        part_number: text(&page, 20, 16),
        revision: text(&page, 36, 2),
        serial: text(&page, 38, 16),
        date: date(&page, 54),
        temperature_celsius,
        ..Module::default()
    };
    if let Some(length) = byte(&page, 74).and_then(cable_m) {
        module.reach_m.insert("cable".to_owned(), length);
    }
    let has_optics = byte(&page, 84).is_some_and(is_optical);
    let is_flat = byte(lower, 2).is_none_or(|model| model & IS_FLAT != 0);
    if has_optics && !is_flat {
        optics(memory, &mut module);
        if byte(lower, 3).is_some_and(|state| state & STATE == IS_READY) {
            module.alarms = alarmed(memory, &page, lower);
        }
    }
    module
}

/// Values beyond their alarm thresholds: first the module's, then its lanes'.
fn alarmed(memory: &dyn Memory, page: &[u8], lower: &[u8]) -> Vec<String> {
    // A module that ignores the number of the page shows page 0 again.
    let Some(thresholds) = upper(memory, 2).filter(|thresholds| *thresholds != page) else {
        return Vec::new();
    };
    let lanes = memory.read(ADDRESS, 0x11, CMIS_LANES_AT, CMIS_LANES_BYTES).unwrap_or_default();
    let mut found = alarms::alarms(&alarms::CMIS, &thresholds, lower);
    found.extend(alarms::alarms(&alarms::CMIS_LANES, &thresholds, &lanes));
    found
}

/// True if a media interface technology (byte 212) is a laser; the values in between are copper.
fn is_optical(technology: u8) -> bool {
    const TUNABLE_LASERS: [u8; 2] = [0x10, 0x11];
    technology <= 0x09 || TUNABLE_LASERS.contains(&technology)
}

fn optics(memory: &dyn Memory, module: &mut Module) {
    let Some(page) = upper(memory, 1) else { return };
    // In 1/20 nm.
    module.wavelength_nm = number(&page, 10).filter(|n| *n != 0xffff).map(|n| (n + 10) / 20);
    // Unlike in SFF-8636, 255 is a valid length here, 510 m. If all lengths are 255, the memory is empty.
    if page.get(4..9).is_none_or(|lengths| lengths.iter().all(|length| *length == 0xff)) {
        return;
    }
    let length = |at: usize, unit: u32| byte(&page, at).map_or(0, |n| u32::from(n) * unit);
    // In 0.1, 1 or 10 km; the fourth factor is reserved.
    let smf = byte(&page, 4)
        .map_or(0, |n| u32::from(n & 0x3f) * [100, 1000, 10_000, 0][usize::from(n >> 6)]);
    let fibres = [("om5", 5, 2), ("om4", 6, 2), ("om3", 7, 2), ("om2", 8, 1)];
    let all =
        fibres.map(|(fibre, at, unit)| (fibre, length(at, unit))).into_iter().chain([("smf", smf)]);
    module.reach_m.extend(all.filter(|(_, m)| *m > 0).map(|(fibre, m)| (fibre.to_owned(), m)));
}

/// A value of 6 bits and its factor: 0.1, 1, 10 or 100 m, rounded up to whole metres. All ones mean
/// that the cable is longer than the field can express, 0 that there is none.
fn cable_m(byte: u8) -> Option<u32> {
    if byte == 0xff {
        return None;
    }
    let value = u32::from(byte & 0x3f);
    let metres = [value.div_ceil(10), value, value * 10, value * 100][usize::from(byte >> 6)];
    Some(metres).filter(|metres| *metres > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cable_length_uses_its_factor_and_0xff_is_absent() {
        assert_eq!((cable_m(0xff), cable_m(0)), (None, None));
        let lengths = [0x0f, 0x43, 0x82, 0xfe].map(cable_m);
        assert_eq!(lengths, [Some(2), Some(3), Some(20), Some(6200)]);
    }
}
