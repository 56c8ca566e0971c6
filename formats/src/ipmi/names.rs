//! Names of sensor types and states (IPMI 2.0, chapter 42) and entities (chapter 43).

use crate::data;

/// Types and states, in the format that the first lines of the file describe.
const SENSORS: &str = include_str!("../../data/ipmi-sensors.txt");
/// `Sensor-specific`: the states are defined by the sensor's type (table 42-1).
const SENSOR_SPECIFIC: u8 = 0x6f;

/// Quantity that a sensor measures, e.g. `temperature`; `None` for OEM types.
pub(super) fn sensor_kind(kind: u8) -> Option<&'static str> {
    let (name, _) = section(&format!("{kind:02x}"))?;
    Some(name)
}

/// Meaning of a sensor's state, and true if it calls for attention. `event_type` is the sensor's event/reading type.
/// `None` for OEM states.
pub(super) fn state(kind: u8, event_type: u8, offset: u8) -> Option<(&'static str, bool)> {
    let key = match event_type {
        SENSOR_SPECIFIC => format!("{kind:02x}"),
        generic => format!("g{generic:02x}"),
    };
    let (_, mut states) = section(&key)?;
    let name = states.find_map(|(number, name)| (number == offset).then_some(name))?;
    Some(match name.strip_prefix("! ") {
        Some(name) => (name, true),
        None => (name, false),
    })
}

/// The name of the type with the number `key`, and its states.
fn section(key: &str) -> Option<(&'static str, impl Iterator<Item = (u8, &'static str)>)> {
    let mut lines = SENSORS.lines();
    let name = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))?;
    let states = lines.map_while(|line| {
        let (number, name) = line.strip_prefix(' ')?.split_once(' ')?;
        Some((number.parse().ok()?, name))
    });
    Some((name, states))
}

/// The part that a sensor watches, e.g. `processor 1` (table 43-13), if its kind is common.
pub fn entity(code: u8, instance: u8) -> Option<String> {
    data::named("bmc_entity", code).map(|name| format!("{name} {instance}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_a_type_or_a_state_below_one() {
        let lines: Vec<&str> = SENSORS.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(!lines[0].starts_with(' '));
        for line in lines {
            let word = line.trim_start().split(' ').next().unwrap();
            let digits = word.strip_prefix('g').unwrap_or(word);
            let is_type = digits.len() == 2 && u8::from_str_radix(digits, 16).is_ok();
            let is_state = word.parse::<u8>().is_ok_and(|n| n < 15);
            assert!(if line.starts_with(' ') { is_state } else { is_type }, "{line}");
        }
    }

    #[test]
    fn states_are_named_by_the_sensor_or_by_the_event_type() {
        assert_eq!(sensor_kind(0x0c), Some("memory"));
        assert_eq!(sensor_kind(0xc0), None);
        assert_eq!(state(0x0c, SENSOR_SPECIFIC, 1), Some(("uncorrectable error", true)));
        assert_eq!(state(0x1c, SENSOR_SPECIFIC, 0), None, "the next type's states are not its own");
        assert_eq!(state(0x08, 0x0b, 0), Some(("fully redundant", false)));
        // Entered from a worse state, and where a machine with one power supply always is.
        assert_eq!(state(0x09, 0x0b, 4).map(|(_, is_bad)| is_bad), Some(false));
        assert_eq!(state(0x09, 0x0b, 3).map(|(_, is_bad)| is_bad), Some(true));
        assert_eq!(state(0x01, 0x01, 9), Some(("upper critical going high", true)));
        assert_eq!((state(0x01, 0x70, 0), state(0x08, SENSOR_SPECIFIC, 14)), (None, None));
        let unit = |code: u8| data::name("bmc_unit", code);
        assert_eq!((unit(0), unit(1), unit(18), unit(25)), (None, Some("°C"), Some("rpm"), None));
    }
}
