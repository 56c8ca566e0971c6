//! The fields of a module's memory (SFF-8472, SFF-8636, CMIS 5.2).

use std::collections::BTreeMap;

use super::Module;
use crate::bytes::array;
use crate::data;
use crate::hex::hex;
use crate::text::escape_non_utf8;

/// The cable is permanently attached to its plug (SFF-8024, table 4-3).
pub(super) const NO_SEPARABLE_CONNECTOR: u8 = 0x23;

/// A byte, by its number.
pub(super) fn byte(bytes: &[u8], at: usize) -> Option<u8> {
    bytes.get(at).copied()
}

/// A length in units of `unit_m` metres; `None` for 0, and for 255, which means more than 254 units.
fn length(bytes: &[u8], at: usize, unit_m: u32) -> Option<u32> {
    byte(bytes, at).filter(|n| !matches!(n, 0 | 0xff)).map(|n| u32::from(n) * unit_m)
}

/// The nominal rate of an SFP or QSFP in units of 100 `MBd`; the byte `fast_at` holds faster rates in units of 250 `MBd`.
fn rate(bytes: &[u8], fast_at: usize) -> Option<u32> {
    match byte(bytes, 12)? {
        0 => None,
        0xff => byte(bytes, fast_at).map(|rate| u32::from(rate) * 250).filter(|rate| *rate > 0),
        rate => Some(u32::from(rate) * 100),
    }
}

/// The fields that an SFP and page 0 of a QSFP have at the same place.
pub(super) fn common(bytes: &[u8], revision_bytes: usize, fast_rate_at: usize) -> Module {
    Module {
        connector: byte(bytes, 2).and_then(|code| data::named("module_connector", code)),
        vendor: text(bytes, 20, 16),
        vendor_oui: oui(bytes, 37),
        part_number: text(bytes, 40, 16),
        revision: text(bytes, 56, revision_bytes),
        serial: text(bytes, 68, 16),
        date: date(bytes, 84),
        nominal_rate_mbd: rate(bytes, fast_rate_at),
        ..Module::default()
    }
}

/// The lengths that are known, by type of cable; a row has the byte of a length and its unit in metres.
pub(super) fn reach<const N: usize>(
    bytes: &[u8],
    rows: [(&str, usize, u32); N],
) -> BTreeMap<String, u32> {
    let known = |(cable, at, unit_m): (&str, usize, u32)| {
        Some((cable.to_owned(), length(bytes, at, unit_m)?))
    };
    rows.into_iter().filter_map(known).collect()
}

/// Text in a field padded with blanks; `None` if the field is empty.
pub(super) fn text(bytes: &[u8], at: usize, length: usize) -> Option<String> {
    let field = bytes.get(at..)?.get(..length)?;
    if field.iter().all(|byte| *byte == 0xff) {
        return None;
    }
    let text = escape_non_utf8(field);
    let text = text.trim_matches(|c: char| c == ' ' || c == '\0');
    (!text.is_empty()).then(|| text.to_owned())
}

/// The manufacturer's IEEE number.
pub(super) fn oui(bytes: &[u8], at: usize) -> Option<String> {
    let field: [u8; 3] = array(bytes, at)?;
    let is_known = field != [0; 3] && field != [0xff; 3];
    is_known.then(|| field.map(|byte| hex(&[byte])).join(":"))
}

/// Year of this century, month and day, two digits each.
pub(super) fn date(bytes: &[u8], at: usize) -> Option<String> {
    let field: [u8; 6] = array(bytes, at)?;
    let text =
        std::str::from_utf8(&field).ok().filter(|t| t.bytes().all(|b| b.is_ascii_digit()))?;
    let (year, rest) = text.split_at(2);
    let (month, day) = rest.split_at(2);
    let is_date = (1..=12).contains(&month.parse::<u8>().ok()?)
        && (1..=31).contains(&day.parse::<u8>().ok()?);
    is_date.then(|| format!("20{year}-{month}-{day}"))
}

/// A big-endian 16-bit number; `None` if it is 0.
pub(super) fn number(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(|field| u32::from(u16::from_be_bytes(field))).filter(|n| *n != 0)
}

/// A temperature in 1/256 °C, rounded; `None` for 0 and implausible values, which modules without a
/// sensor report.
pub(super) fn temperature(bytes: &[u8], at: usize) -> Option<i16> {
    let field = i16::from_be_bytes(array(bytes, at)?);
    let celsius = (i32::from(field) + 128).div_euclid(256);
    let is_sane = field != 0 && (-60..=125).contains(&celsius);
    i16::try_from(celsius).ok().filter(|_| is_sane)
}
