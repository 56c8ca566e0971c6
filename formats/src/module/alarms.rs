//! Measurements of a module beyond its own alarm thresholds: SFP (SFF-8472, tables 9-5 and 9-11), QSFP (SFF-8636,
//! tables 6-7, 6-8 and 6-29), and modules with CMIS (CMIS 5.2, page 02h and tables of page 11h).
//!
//! Values are compared instead of the flags that modules also have. Flags are latched until they are read, so the first
//! reading after a start shows the darkness before the link came up, and reading them takes them from the driver.

use crate::bytes::array;

/// A value that a module measures, in each of its lanes if it has several: its name; the offset of its thresholds, which
/// are high and low alarm, then high and low warning; the offset of its values; the number of lanes; and the value below
/// which a lane is dark, so that no port that has a link uses it, as on one of several ports of a module.
type Monitor = (&'static str, usize, usize, usize, u16);

const TEMPERATURE: &str = "temperature";
const VOLTAGE: &str = "supply voltage";
const CURRENT: &str = "laser current";
const SENT: &str = "transmit power";
const RECEIVED: &str = "receive power";

// Power is in 0.1 µW. No receiver works at 1 µW (-30 dBm), and no laser that is on sends less than 10 µW. The current of a
// laser that is off is low as well, so a low one alone says nothing about a lane.
const DARK_RECEIVER: u16 = 10;
const DARK_LASER: u16 = 100;
const NEVER: u16 = u16::MAX;

/// Thresholds and values are in the diagnostics.
pub(super) static SFP: [Monitor; 5] = [
    (TEMPERATURE, 0, 96, 1, 0),
    (VOLTAGE, 8, 98, 1, 0),
    (CURRENT, 16, 100, 1, 0),
    (SENT, 24, 102, 1, 0),
    (RECEIVED, 32, 104, 1, 0),
];

/// Thresholds are in page 03h, values in the lower half.
pub(super) static QSFP: [Monitor; 5] = [
    (TEMPERATURE, 0, 22, 1, 0),
    (VOLTAGE, 16, 26, 1, 0),
    (CURRENT, 56, 42, 4, NEVER),
    (SENT, 64, 50, 4, DARK_LASER),
    (RECEIVED, 48, 34, 4, DARK_RECEIVER),
];

/// Thresholds are in page 02h, values in the lower half.
pub(super) static CMIS: [Monitor; 2] = [(TEMPERATURE, 0, 14, 1, 0), (VOLTAGE, 8, 16, 1, 0)];

/// Thresholds are in page 02h, values in page 11h, from [`CMIS_LANES_AT`] on.
pub(super) static CMIS_LANES: [Monitor; 3] = [
    (CURRENT, 56, 16, 8, NEVER),
    (SENT, 48, 0, 8, DARK_LASER),
    (RECEIVED, 64, 32, 8, DARK_RECEIVER),
];

/// The first byte of the values in page 11h, and their length: three values of eight lanes. The flags before them, which
/// a reading would clear, are left out.
pub(super) const CMIS_LANES_AT: u8 = 154;
pub(super) const CMIS_LANES_BYTES: u8 = 48;

/// The values beyond the alarm thresholds, e.g. `receive power of lane 2 too low`.
pub(super) fn alarms(monitors: &[Monitor], thresholds: &[u8], values: &[u8]) -> Vec<String> {
    monitors.iter().flat_map(|monitor| monitored(monitor, thresholds, values)).collect()
}

fn monitored(monitor: &Monitor, thresholds: &[u8], values: &[u8]) -> Vec<String> {
    let &(name, threshold_at, value_at, n_lanes, used_from) = monitor;
    let number = |bytes: &[u8], at: usize| array(bytes, at).map(u16::from_be_bytes);
    // Only the temperature is signed. Inverting the sign orders it like the others.
    let sign = if name == TEMPERATURE { 0x8000 } else { 0 };
    // Modules without thresholds store 0, or equal or reversed ones.
    let high = number(thresholds, threshold_at).filter(|high| *high != 0);
    let low = number(thresholds, threshold_at + 2);
    let Some((high, low)) = high.zip(low).map(|(high, low)| (high ^ sign, low ^ sign)) else {
        return Vec::new();
    };
    let alarm = |lane: usize| {
        // They store 0 for what they do not measure.
        let raw = number(values, value_at + 2 * lane).filter(|raw| *raw != 0)?;
        let place = if n_lanes > 1 { format!(" of lane {}", lane + 1) } else { String::new() };
        match raw ^ sign {
            _ if high <= low => None,
            value if value > high => Some(format!("{name}{place} too high")),
            value if value < low && raw >= used_from => Some(format!("{name}{place} too low")),
            _ => None,
        }
    };
    (0..n_lanes).filter_map(alarm).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::survives_any_bytes;

    fn at(length: usize, numbers: &[(usize, u16)]) -> Vec<u8> {
        let mut bytes = vec![0; length];
        for (at, number) in numbers {
            bytes[*at..*at + 2].copy_from_slice(&number.to_be_bytes());
        }
        bytes
    }

    #[test]
    fn lane_beyond_a_threshold_is_named_and_a_dark_one_is_not() {
        let thresholds = at(128, &[(48, 20_000), (50, 400), (56, 6_000), (58, 1_000)]);
        let values = [(34, 5_000), (36, 399), (38, 9), (40, 0), (42, 6_001), (44, 999)];
        let found = alarms(&QSFP, &thresholds, &at(128, &values));
        assert_eq!(found, ["laser current of lane 1 too high", "receive power of lane 2 too low"]);
    }

    #[test]
    fn laser_that_is_on_but_weak_is_found_and_one_that_is_off_is_not() {
        let thresholds = at(128, &[(48, 30_000), (50, 2_000)]);
        let found = |power: u16| alarms(&CMIS_LANES, &thresholds, &at(48, &[(14, power)]));
        assert_eq!(found(1_999), ["transmit power of lane 8 too low"]);
        assert_eq!(found(100).len(), 1);
        assert!(found(99).is_empty() && found(2_000).is_empty());
    }

    #[test]
    fn missing_or_reversed_thresholds_raise_nothing() {
        let values = at(128, &[(22, 0x6000), (26, 60_000), (34, 60_000)]);
        assert!(alarms(&QSFP, &[], &values).is_empty());
        assert!(alarms(&QSFP, &at(128, &[]), &values).is_empty());
        let reversed = at(128, &[(0, 0xfb00), (2, 0x4b00), (16, 100), (18, 100)]);
        assert!(alarms(&QSFP, &reversed, &values).is_empty());
        let zero_degrees = at(128, &[(0, 0x4b00)]);
        assert_eq!(alarms(&QSFP, &zero_degrees, &values), ["temperature too high"]);
        survives_any_bytes(&values, |bytes| drop(alarms(&QSFP, bytes, bytes)));
    }
}
