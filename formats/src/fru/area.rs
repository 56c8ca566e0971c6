//! Values of the areas of an FRU device's memory (FRU Information Storage Definition 1.0, chapters 8 to
//! 16).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::text as field;
use super::{Area, Entry, FORMAT, POWER_SUPPLY};
use crate::bytes::array;
use crate::data;
use crate::text::quote;
use crate::time::date_time;

/// 1996-01-01, from which the minutes of a board's date count.
const EPOCH_S: u32 = 820_454_400;
/// An area in another language has texts in other characters; 0 is English too.
const ENGLISH: [u8; 2] = [0, 25];
/// A fault in an area. It does not discard the area's readable fields.
pub type Fault = (String, &'static str);

/// The chassis as its FRU device names it.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FruChassis {
    /// Its kind, in the words of SMBIOS, e.g. `Rack Mount Chassis`.
    pub kind: Option<String>,
    /// Part number.
    pub part_number: Option<String>,
    /// Serial number.
    pub serial: Option<String>,
}

/// A board as its FRU device names it.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FruBoard {
    /// Manufacturer.
    pub manufacturer: Option<String>,
    /// Name of the board.
    pub product: Option<String>,
    /// Serial number.
    pub serial: Option<String>,
    /// Part number.
    pub part_number: Option<String>,
    /// Date of manufacture, `YYYY-MM-DD`.
    pub mfg_date: Option<String>,
}

/// A product as its FRU device names it.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FruProduct {
    /// Manufacturer.
    pub manufacturer: Option<String>,
    /// Name of the product.
    pub name: Option<String>,
    /// Part or model number.
    pub part_number: Option<String>,
    /// Version.
    pub version: Option<String>,
    /// Serial number.
    pub serial: Option<String>,
    /// Asset tag.
    pub asset_tag: Option<String>,
}

/// Ratings of a power supply.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FruPowerSupply {
    /// Largest continuous output power, in W.
    pub capacity_watts: Option<u16>,
    /// Largest momentary input power, in VA.
    pub peak_va: Option<u16>,
    /// Lowest input voltage, in mV.
    pub min_input_millivolts: Option<u32>,
    /// Highest input voltage, of the second range if it has two, in mV.
    pub max_input_millivolts: Option<u32>,
}

/// Offsets of chassis, board, product and records in the common header, in units of 8 bytes; 0 where there is none.
/// `None` for an unprogrammed memory and for bytes that are not a header.
pub fn header(bytes: &[u8], faults: &mut Vec<Fault>) -> Option<[u8; 4]> {
    let bytes = bytes.first_chunk::<8>()?;
    if bytes.iter().all(|byte| *byte == 0) || bytes.iter().all(|byte| *byte == 0xff) {
        return None;
    }
    let &[format, _, chassis, board, product, records, ..] = bytes;
    if !is_format(format, faults) {
        return None;
    }
    check_sum(bytes, faults);
    Some([chassis, board, product, records])
}

fn is_format(format: u8, faults: &mut Vec<Fault>) -> bool {
    let is_known = format & 0x0f == FORMAT;
    if !is_known {
        faults.push((format!("format {}", format & 0x0f), "format 1"));
    }
    is_known
}

/// All bytes together are 0 in eight bits.
fn check_sum(bytes: &[u8], faults: &mut Vec<Fault>) {
    let sum = super::complement(bytes).wrapping_neg();
    if sum != 0 {
        faults.push((format!("a sum of {sum:#04x}"), "bytes with a sum of 0"));
    }
}

/// Texts are in the area's language; numbers of the part and the like are English in any area.
const TEXT: bool = false;
const NUMBER: bool = true;

/// The fields of an area of the known format, one after the other: the next one, as a [`TEXT`] or a [`NUMBER`].
fn fields<'a>(
    kind: Area,
    area: &'a [u8],
    language: u8,
    faults: &'a mut Vec<Fault>,
) -> Option<impl FnMut(bool) -> Option<String> + 'a> {
    let length = 8 * usize::from(*area.get(1)?);
    if !is_format(*area.first()?, faults) {
        return None;
    }
    if length == 0 {
        faults.push(("a length of 0".to_owned(), "a whole area"));
        return None;
    }
    if area.len() < length {
        faults.push((format!("{} of {length} bytes", area.len()), "a whole area"));
    } else {
        check_sum(area, faults);
    }
    let is_english = ENGLISH.contains(&language);
    let mut entries = super::entries(area, kind.first());
    Some(move |is_number: bool| {
        let Entry { code, bytes, is_cut, .. } = entries.next()?;
        if is_cut {
            faults.push(("a field beyond the end".to_owned(), "fields within the area"));
            return None;
        }
        let text = field::text(code, bytes, is_number || is_english);
        if code >> 6 == 3 && text.is_some() && !field::is_text(bytes) {
            let found = quote(text.as_deref().unwrap_or_default());
            faults.push((found, "text in Latin-1 or UTF-8"));
        }
        text
    })
}

/// The chassis (chapter 10): kind, part number, serial number.
pub fn chassis(area: &[u8], faults: &mut Vec<Fault>) -> Option<FruChassis> {
    let mut next = fields(Area::Chassis, area, 0, faults)?;
    let kind = area.get(2).and_then(|code| data::named("chassis", *code));
    let chassis = FruChassis { kind, part_number: next(NUMBER), serial: next(NUMBER) };
    (chassis != FruChassis::default()).then_some(chassis)
}

/// The board (chapter 11): date, maker, product, serial number, part number.
pub fn board(area: &[u8], faults: &mut Vec<Fault>) -> Option<FruBoard> {
    let mut next = fields(Area::Board, area, *area.get(2)?, faults)?;
    let board = FruBoard {
        mfg_date: array(area, 3).and_then(mfg_date),
        manufacturer: next(TEXT),
        product: next(TEXT),
        serial: next(NUMBER),
        part_number: next(NUMBER),
    };
    (board != FruBoard::default()).then_some(board)
}

/// Minutes since 1996; 0 means unknown, all ones unprogrammed.
fn mfg_date([a, b, c]: [u8; 3]) -> Option<String> {
    let minutes = u32::from_le_bytes([a, b, c, 0]);
    let is_known = !matches!(minutes, 0 | 0xff_ffff);
    let time = is_known.then(|| date_time(u64::from(EPOCH_S + 60 * minutes)))?;
    time.split('T').next().map(str::to_owned)
}

/// The product (chapter 12): maker, name, part number, version, serial number, asset tag.
pub fn product(area: &[u8], faults: &mut Vec<Fault>) -> Option<FruProduct> {
    let mut next = fields(Area::Product, area, *area.get(2)?, faults)?;
    let product = FruProduct {
        manufacturer: next(TEXT),
        name: next(TEXT),
        part_number: next(NUMBER),
        version: next(TEXT),
        serial: next(NUMBER),
        asset_tag: next(TEXT),
    };
    (product != FruProduct::default()).then_some(product)
}

/// The record of the power supply (18.1) among the records of further kinds.
pub fn power_supply(list: &[u8], faults: &mut Vec<Fault>) -> Option<FruPowerSupply> {
    for record in super::records(list) {
        let [kind, format, _, sum, _] = record.header;
        let mut bad = Vec::new();
        check_sum(&record.header, &mut bad);
        if !bad.is_empty() {
            faults.append(&mut bad);
            return None;
        }
        let Some(body) = record.body else {
            faults.push(("a record beyond the end".to_owned(), "records within the memory"));
            return None;
        };
        if kind == POWER_SUPPLY {
            check_sum(&[body, &[sum]].concat(), faults);
            return of_record(body);
        }
        if format & 0x80 != 0 {
            return None;
        }
    }
    None
}

fn of_record(body: &[u8]) -> Option<FruPowerSupply> {
    let word = |at: usize| {
        array(body, at).map(u16::from_le_bytes).filter(|word| !matches!(word, 0 | 0xffff))
    };
    // The capacity has 12 bits; voltages are in units of 10 mV.
    let watts = word(0).map(|word| word & 0x0fff).filter(|watts| !matches!(watts, 0 | 0x0fff));
    let millivolts = |at: usize| word(at).map(|word| 10 * u32::from(word));
    let supply = FruPowerSupply {
        capacity_watts: watts,
        peak_va: word(2),
        min_input_millivolts: millivolts(6),
        max_input_millivolts: millivolts(12).or_else(|| millivolts(8)),
    };
    (supply != FruPowerSupply::default()).then_some(supply)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{area, has, seal, supply_record, survives_any_bytes};
    use serde_json::json;

    const SUPPLY: [u8; 24] = [
        0xee, 2, 0xff, 0xff, 0, 0, 0x28, 0x23, 0xc0, 0x5d, 0x50, 0x46, 0x80, 0x67, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0,
    ];

    /// The result of `parse`, and the faults that it finds.
    fn read<T>(
        parse: impl Fn(&[u8], &mut Vec<Fault>) -> Option<T>,
        bytes: &[u8],
    ) -> (Option<T>, Vec<String>) {
        let mut faults = Vec::new();
        let found = parse(bytes, &mut faults);
        (found, faults.into_iter().map(|(found, _)| found).collect())
    }

    const NONE: [&str; 0] = [];

    #[test]
    fn a_board_has_its_maker_its_numbers_and_the_day_it_was_made() {
        // 2023-05-04T10:30 is 27.3 years of minutes.
        let minutes = ((1_683_196_200 - EPOCH_S) / 60).to_le_bytes();
        let fields: [&[u8]; 4] = [b"Dell", b"PWR SPLY", b"CN123", b"0PJMDN"];
        let (found, faults) =
            read(board, &area(&[1, 0, 0, minutes[0], minutes[1], minutes[2]], &fields));
        has(&found, &json!({"mfg_date": "2023-05-04", "manufacturer": "Dell"}));
        has(&found, &json!({"product": "PWR SPLY", "serial": "CN123", "part_number": "0PJMDN"}));
        assert_eq!(faults, NONE);
        assert_eq!((mfg_date([0; 3]), mfg_date([0xff; 3])), (None, None));
        assert_eq!(mfg_date([1, 0, 0]).as_deref(), Some("1996-01-01"));
    }

    #[test]
    fn wrong_checksum_is_a_fault_and_loses_no_field() {
        let mut bytes = area(&[1, 0, 25], &[b"Acme", b"X1", b"P1", b"", b"S1", b"  "]);
        bytes[4] = b'a';
        let (found, faults) = read(product, &bytes);
        has(&found, &json!({"manufacturer": "acme", "serial": "S1"}));
        has(&found, &json!({"version": null, "asset_tag": null}));
        assert_eq!(faults, ["a sum of 0x20"]);
    }

    #[test]
    fn truncated_area_or_record_is_a_fault() {
        let bytes = area(&[1, 0, 17], &[b"PN-1", b"SER-1"]);
        let (found, faults) = read(chassis, &bytes);
        has(&found, &json!({"kind": "Main Server Chassis", "serial": "SER-1"}));
        assert_eq!(faults, NONE);
        let (cut, faults) = read(chassis, &bytes[..8]);
        has(&cut, &json!({"part_number": "PN-1", "serial": null}));
        assert_eq!(faults[0], "8 of 16 bytes");
        let other_format = read(chassis, &[2, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(other_format, (None, vec!["format 2".to_owned()]));
        let no_length = read(product, &[1, 0, 25, 0xc1, 0, 0, 0, 0]);
        assert_eq!(no_length, (None, vec!["a length of 0".to_owned()]));
        let record = supply_record(&SUPPLY, 0x82);
        let cut = read(power_supply, &record[..record.len() - 1]);
        assert_eq!(cut, (None, vec!["a record beyond the end".to_owned()]));
    }

    #[test]
    fn invalid_text_is_escaped_and_a_fault_but_latin_1_is_text() {
        let (found, faults) = read(chassis, &area(&[1, 0, 17], &[b"P\xae\xff", b"S\xae"]));
        has(&found, &json!({"part_number": "P\\xae\\xff", "serial": "S®"}));
        assert_eq!(faults, [r#""P\\xae\\xff""#]);
    }

    #[test]
    fn unprogrammed_memory_has_no_header_and_no_fault() {
        assert_eq!(read(header, &[0xff; 8]), (None, Vec::new()));
        assert_eq!(read(header, &[0; 8]), (None, Vec::new()));
        let mut bytes = [1, 0, 1, 4, 9, 20, 0, 0];
        seal(&mut bytes);
        assert_eq!(read(header, &bytes), (Some([1, 4, 9, 20]), Vec::new()));
        bytes[0] = 3;
        assert_eq!(read(header, &bytes), (None, vec!["format 3".to_owned()]));
    }

    #[test]
    fn power_supply_has_its_capacity_and_input_range() {
        let record = supply_record(&SUPPLY, 0x82);
        let (found, faults) = read(power_supply, &record);
        has(&found, &json!({"capacity_watts": 750, "peak_va": null}));
        has(&found, &json!({"min_input_millivolts": 90_000, "max_input_millivolts": 264_960}));
        assert_eq!(faults, NONE);
        let after_another_kind = [&[1, 2, 1, 0, 0xfc][..], &[9], &record].concat();
        assert_eq!(read(power_supply, &after_another_kind), (found, Vec::new()));
        assert_eq!(read(power_supply, &[1, 0x82, 0, 0, 0x7d]), (None, Vec::new()));
        assert_eq!(read(power_supply, &supply_record(&[0xff; 24], 2)).0, None);
    }

    #[test]
    fn no_bytes_make_the_parsers_panic() {
        let bytes = area(&[1, 0, 0, 1, 2, 3], &[b"Dell", b"X", b"S", b"P"]);
        survives_any_bytes(&bytes, |bytes| {
            let _ = (read(board, bytes), read(product, bytes), read(chassis, bytes));
            let _ = (read(header, bytes), read(power_supply, bytes));
        });
        survives_any_bytes(&supply_record(&SUPPLY, 2), |bytes| drop(read(power_supply, bytes)));
    }
}
