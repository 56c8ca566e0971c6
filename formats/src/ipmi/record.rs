//! Parses a record of the sensor repository (IPMI 2.0, 43.1 to 43.3).

use crate::data;
use crate::fru::text as field;

/// Address of the BMC itself.
pub const BMC: u8 = 0x20;
/// Full, compact and event-only records.
const FULL: u8 = 0x01;
const COMPACT: u8 = 0x02;
const EVENT_ONLY: u8 = 0x03;
/// FRU device locator.
const FRU_LOCATOR: u8 = 0x11;
/// The event/reading type of a sensor with thresholds.
pub(super) const THRESHOLD: u8 = 0x01;
/// Scales a term with a negative exponent to a whole number.
const SHIFT: i32 = 13;

/// A record's description of one sensor.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    /// Address of the controller that has the sensor; [`BMC`] for its own.
    pub owner: u8,
    /// The bus on which that controller is; 0 for the BMC itself.
    pub channel: u8,
    /// The controller's logical unit.
    pub lun: u8,
    /// Its number, unique within the logical unit.
    pub number: u8,
    /// The kind of part that it is at (table 43-13).
    pub entity: u8,
    /// The number of that part.
    pub entity_instance: u8,
    /// The quantity or part that it watches (table 42-3).
    pub kind: u8,
    /// The kind of states that it has (table 42-1); 1 if it has thresholds.
    pub event_type: u8,
    /// Its name; `None` if the record has none.
    pub name: Option<String>,
    /// True if the sensor can be read; event-only records do not have a reading.
    pub is_readable: bool,
    /// Conversion of raw readings to numbers; `None` if they are not numbers.
    pub scale: Option<Scale>,
    /// Thresholds as raw readings, in the order of the bits of a reading's state (table 35-15):
    /// lower non-critical, critical, non-recoverable, then upper likewise.
    pub thresholds: [Option<u8>; 6],
}

/// The line from raw readings to numbers: `(m·x + b·10^b_exponent)·10^exponent` of `unit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scale {
    /// Unit of the numbers, e.g. `°C`.
    pub unit: &'static str,
    /// Form of negative readings: 1 is one's complement, 2 is two's.
    complement: u8,
    m: i16,
    b: i16,
    exponent: i8,
    b_exponent: i8,
}

impl Scale {
    /// A raw reading in thousandths of the unit, rounded.
    pub fn thousandths(self, raw: u8) -> Option<i64> {
        let x = match self.complement {
            2 => i128::from(raw.cast_signed()),
            1 if raw & 0x80 != 0 => -i128::from(!raw),
            _ => i128::from(raw),
        };
        // Both exponents are -8 to 7, so 10^13 and 128 bits are enough.
        let exponent = i32::from(self.exponent) + 3 + SHIFT;
        let power = |exponent: i32| Some(10_i128.pow(u32::try_from(exponent).ok()?));
        let slope = i128::from(self.m) * x * power(exponent)?;
        let offset = i128::from(self.b) * power(exponent + i32::from(self.b_exponent))?;
        let (sum, unit) = (slope + offset, power(SHIFT)?);
        let half = if sum < 0 { -unit / 2 } else { unit / 2 };
        i64::try_from((sum + half) / unit).ok()
    }
}

/// Parses a record, which several sensors may share. Empty for other kinds of records and for one that
/// is too short.
pub fn parse(bytes: &[u8]) -> Vec<Record> {
    let whole = bytes.get(4).and_then(|length| bytes.get(..5 + usize::from(*length)));
    let Some(bytes) = whole else { return Vec::new() };
    // The offsets of the sensor's type, of its name, and of the number of sensors.
    let (type_at, name_at, sharing_at) = match bytes.get(3) {
        Some(&FULL) => (12, 47, None),
        Some(&COMPACT) => (12, 31, Some(23)),
        Some(&EVENT_ONLY) => (10, 16, Some(12)),
        _ => return Vec::new(),
    };
    match (record(bytes, type_at, name_at), sharing_at) {
        (Some(record), Some(sharing_at)) => shared(bytes, record, sharing_at),
        (record, _) => record.into_iter().collect(),
    }
}

fn record(bytes: &[u8], type_at: usize, name_at: usize) -> Option<Record> {
    let &[owner, lun, number, entity, entity_instance] = bytes.get(5..)?.first_chunk::<5>()?;
    let format = *bytes.get(3)?;
    let mut record = Record {
        owner,
        channel: lun >> 4,
        lun: lun & 0x03,
        number,
        entity,
        entity_instance: instance(entity_instance),
        kind: *bytes.get(type_at)?,
        event_type: *bytes.get(type_at + 1)?,
        name: name(bytes, name_at),
        is_readable: format != EVENT_ONLY,
        ..Record::default()
    };
    if format == FULL {
        record.scale = scale(bytes);
        // Capability 0 is a sensor without thresholds. Even if they cannot be read from the sensor (3), the
        // record contains their values; the mask says which ones exist.
        let has_thresholds = record.event_type == THRESHOLD && bytes.get(11)? >> 2 & 0x03 != 0;
        let mask = if has_thresholds { *bytes.get(18)? } else { 0 };
        // The record has them in the reverse order of the mask's bits.
        for (bit, threshold) in record.thresholds.iter_mut().enumerate() {
            *threshold = bytes.get(41 - bit).copied().filter(|_| mask & (1 << bit) != 0);
        }
    }
    Some(record)
}

/// Bit 7 distinguishes physical from logical; numbers from 60h on are relative to the controller.
fn instance(byte: u8) -> u8 {
    let instance = byte & 0x7f;
    instance.checked_sub(0x60).unwrap_or(instance)
}

/// The sensors that share a record: numbers follow each other, and so do the ends of their names
/// (`Fan1`, `Fan2`, or `FanA`, `FanB`).
fn shared(bytes: &[u8], record: Record, sharing_at: usize) -> Vec<Record> {
    let at = |offset: usize| bytes.get(offset).copied().unwrap_or_default();
    let (how, instances) = (at(sharing_at), at(sharing_at + 1));
    let n_sensors = how & 0x0f;
    if n_sensors < 2 {
        return vec![record];
    }
    let (first, is_numeric) = (instances & 0x7f, how & 0x30 == 0);
    let one = |index: u8| {
        let place = first.saturating_add(index);
        let end = if is_numeric { place.to_string() } else { letters(place) };
        let entity_step = if instances & 0x80 == 0 { 0 } else { index };
        Some(Record {
            number: record.number.checked_add(index)?,
            entity_instance: record.entity_instance.saturating_add(entity_step),
            name: record.name.as_ref().map(|name| format!("{name}{end}")),
            ..record.clone()
        })
    };
    (0..n_sensors).map_while(one).collect()
}

/// 0 is `A`, 25 is `Z`, 26 is `AA` (table 43-2).
fn letters(place: u8) -> String {
    let letter = |n: u8| char::from(b'A' + n % 26);
    let first = (place / 26).checked_sub(1).map(letter);
    first.into_iter().chain([letter(place)]).collect()
}

/// The conversion of a full record; `None` if the reading is not a number, if the conversion is not linear, or if the
/// unit is compound or not used in servers.
fn scale(bytes: &[u8]) -> Option<Scale> {
    let &[units, base, _, linearization] = bytes.get(20..)?.first_chunk::<4>()?;
    let &[m, m_high, b, b_high, _, exponents] = bytes.get(24..)?.first_chunk::<6>()?;
    let complement = units >> 6;
    // No number (3 in bits 7:6), a rate (bits 5:3), a second unit (2:1).
    if complement == 3 || linearization & 0x7f != 0 || units & 0x3e != 0 {
        return None;
    }
    let unit = if units & 0x01 == 0 { data::name("bmc_unit", base)? } else { "%" };
    Some(Scale {
        unit,
        complement,
        m: signed_10(m, m_high),
        b: signed_10(b, b_high),
        exponent: signed_4(exponents >> 4),
        b_exponent: signed_4(exponents & 0x0f),
    })
}

/// Two's complement of 10 bits; the top of `high` contains the two highest.
fn signed_10(low: u8, high: u8) -> i16 {
    let value = i16::from(high >> 6) << 8 | i16::from(low);
    if value & 0x200 == 0 { value } else { value - 0x400 }
}

/// Two's complement of 4 bits.
fn signed_4(nibble: u8) -> i8 {
    (nibble << 4).cast_signed() >> 4
}

/// The name, which follows its type and length (43.15): 8-bit characters, or 6-bit ones packed.
fn name(bytes: &[u8], offset: usize) -> Option<String> {
    let kind = *bytes.get(offset)?;
    let rest = bytes.get(offset + 1..)?;
    let text = rest.get(..usize::from(kind & 0x1f)).unwrap_or(rest);
    // Type 0 is text in an unspecified encoding.
    if kind >> 6 == 0 { None } else { field::text(kind, text, true) }
}

/// A record's description of a device that stores data about a part.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Locator {
    /// The device's number at the BMC.
    pub device: u8,
    /// The kind of the part (table 43-13).
    pub entity: u8,
    /// The number of the part.
    pub entity_instance: u8,
    /// Its name; `None` if the record has none.
    pub name: Option<String>,
}

/// The FRU device of a locator record (43.8). `None` for other records, for devices of other
/// controllers and logical units, and for bare memories on a bus.
pub fn locator(bytes: &[u8]) -> Option<Locator> {
    const LOGICAL: u8 = 0x80;
    let &[owner, device, access] = bytes.get(5..)?.first_chunk::<3>()?;
    // The logical unit is in bits 4:3.
    let is_own = owner & 0xfe == BMC && access & LOGICAL != 0 && access & 0x18 == 0;
    let is_locator = bytes.get(3) == Some(&FRU_LOCATOR);
    (is_locator && is_own && device != 0xff).then_some(())?;
    Some(Locator {
        device,
        entity: *bytes.get(12)?,
        entity_instance: instance(*bytes.get(13)?),
        name: name(bytes, 15),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{compact_record, full_record, named, survives_any_bytes};

    #[test]
    fn reading_is_converted_by_the_record() {
        let of = |line| parse(&full_record(1, 1, 1, line, b"CPU1 Temp")).remove(0);
        let plain = of([1, 0, 0, 0, 0, 0]);
        assert_eq!(plain.name.as_deref(), Some("CPU1 Temp"));
        assert_eq!(plain.scale.unwrap().thousandths(23), Some(23_000));
        assert_eq!(plain.scale.unwrap().unit, "°C");
        assert_eq!(plain.thresholds, [None, Some(5), None, None, Some(95), None]);
        // 0.012 V a step and an offset of -0.5 V, as -500·10^0 in steps of 10^-3.
        let volts = of([12, 0, 0x0c, 0x80, 0, 0xd0]).scale.unwrap();
        assert_eq!(volts.thousandths(100), Some(700));
        // 2.5 is rounded away from nought, to thousandths: 25·10^-4.
        assert_eq!(of([25, 0, 0, 0, 0, 0xc0]).scale.unwrap().thousandths(1), Some(3));
        // The largest numbers that a record can contain exceed the range of thousandths.
        let largest = of([0xff, 0x40, 0xff, 0x40, 0, 0x77]).scale.unwrap();
        assert_eq!(largest.thousandths(255), None);
    }

    #[test]
    fn signed_readings_keep_their_sign() {
        let reading = |units: u8, linearization: u8, raw: u8| {
            let mut bytes = full_record(1, 1, 1, [1, 0, 0, 0, 0, 0], b"T");
            (bytes[20], bytes[23]) = (units, linearization);
            parse(&bytes)[0].scale?.thousandths(raw)
        };
        assert_eq!(
            (reading(0x80, 0, 0xf6), reading(0x40, 0, 0xf5)),
            (Some(-10_000), Some(-10_000))
        );
        assert_eq!(reading(0xc0, 0, 1), None, "a discrete reading is no number");
        assert_eq!(reading(0, 8, 1), None, "a curve is no line");
    }

    #[test]
    fn sensors_sharing_a_record_have_their_own_numbers_and_names() {
        let records = parse(&compact_record(0x60, 8, 2, b"PS"));
        let found: Vec<_> = records.iter().map(|r| (r.number, r.name.as_deref())).collect();
        assert_eq!(found, [(0x60, Some("PS1")), (0x61, Some("PS2"))]);
        assert_eq!((records[0].entity_instance, records[1].entity_instance), (1, 2));
    }

    #[test]
    fn letter_suffixes_continue_with_two_letters_after_z() {
        let names = |first: u8| {
            let mut bytes = compact_record(1, 8, 2 | 0x10, b"Fan");
            bytes[24] = first;
            parse(&bytes).into_iter().filter_map(|record| record.name).collect::<Vec<_>>()
        };
        assert_eq!(names(0), ["FanA", "FanB"]);
        assert_eq!(names(25), ["FanZ", "FanAA"]);
        assert_eq!(names(0x7f), ["FanDX", "FanDY"]);
    }

    #[test]
    fn names_are_unpacked_and_invalid_utf_8_is_escaped() {
        let record = |kind: u8, text: &[u8]| {
            let bytes = [&[kind], text].concat();
            name(&bytes, 0)
        };
        assert_eq!(record(0xc4, b"Fa\xffn").as_deref(), Some("Fa\\xffn"));
        assert_eq!(record(0xdf, b"cut ").as_deref(), Some("cut"));
        assert_eq!(record(0x83, &[0x29, 0xdc, 0xa6]).as_deref(), Some("IPMI"));
        assert_eq!((record(0xc0, b""), record(0x02, b"12")), (None, None));
        assert_eq!(record(0x42, &[0x12, 0xb3]).as_deref(), Some("12-3"));
    }

    /// A locator of the FRU device `device` at the controller `owner`, which is `entity`.
    fn locator_record(owner: u8, device: u8, access: u8, entity: u8) -> Vec<u8> {
        let mut bytes = vec![9, 0, 0x51, FRU_LOCATOR, 0, owner, device, access, 0, 0];
        bytes.extend([0x10, 0, entity, 1, 0]);
        named(bytes, b"PSU1")
    }

    #[test]
    fn only_the_controllers_own_parts_are_located() {
        let found = locator(&locator_record(0x20, 3, 0x80, 0x0a)).unwrap();
        assert_eq!((found.device, found.entity, found.entity_instance), (3, 0x0a, 1));
        assert_eq!(found.name.as_deref(), Some("PSU1"));
        for (owner, access) in [(0x2c, 0x80), (0x20, 0x00), (0x20, 0x88)] {
            assert_eq!(locator(&locator_record(owner, 3, access, 0x0a)), None);
        }
        assert_eq!(locator(&full_record(1, 1, 1, [1, 0, 0, 0, 0, 0], b"T")), None);
    }

    #[test]
    fn fixed_thresholds_come_from_the_record() {
        let mut bytes = full_record(1, 1, 1, [1, 0, 0, 0, 0, 0], b"T");
        for (access, expected) in [(0x0c, Some(95)), (0x00, None)] {
            bytes[11] = access;
            assert_eq!(parse(&bytes)[0].thresholds[4], expected);
        }
    }

    #[test]
    fn no_bytes_make_the_parser_panic() {
        survives_any_bytes(&locator_record(0x20, 3, 0x80, 10), |bytes| drop(locator(bytes)));
        survives_any_bytes(&full_record(1, 1, 1, [1, 0, 0, 0, 0, 0], b"CPU1"), |bytes| {
            for record in parse(bytes) {
                let _ = record.scale.and_then(|scale| scale.thousandths(255));
            }
        });
        survives_any_bytes(&compact_record(0xff, 8, 15, b"PS"), |bytes| drop(parse(bytes)));
    }
}
