//! The memory of a replaceable part (FRU Information Storage Definition 1.0, revision 1.3): its areas,
//! their fields, records and checksums, and which fields name the part.

pub mod area;
pub mod text;

use crate::{Encoding, Field, Kind};

/// The format of all areas.
pub const FORMAT: u8 = 1;
/// A byte of type and length that ends the fields.
pub const END_OF_FIELDS: u8 = 0xc1;
/// The record of a power supply.
pub const POWER_SUPPLY: u8 = 0x00;
/// A record's header: kind, format and end of list, length, checksum of the body, its own checksum.
pub const RECORD_HEADER_BYTES: usize = 5;

/// An area with fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Area {
    /// Chapter 10: kind, part number, serial number.
    Chassis,
    /// Chapter 11: date, maker, product, serial number, part number, file.
    Board,
    /// Chapter 12: maker, name, part number, version, serial number, asset tag, file.
    Product,
}

impl Area {
    /// Offset of its first field.
    pub fn first(self) -> usize {
        match self {
            Area::Board => 6,
            Area::Chassis | Area::Product => 3,
        }
    }

    /// The fields, by number, that every part of the model has alike.
    fn plain(self) -> &'static [usize] {
        match self {
            Area::Chassis => &[0],
            Area::Board => &[0, 1, 3, 4],
            Area::Product => &[0, 1, 2, 3, 6],
        }
    }
}

/// One field of an area.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Its byte of type and length.
    pub code: u8,
    /// Its bytes, as far as the area goes.
    pub bytes: &'a [u8],
    /// True if it is longer than the area.
    pub is_cut: bool,
}

/// Walks the fields of an area up to their end, or to one that is longer than the area.
pub fn entries(area: &[u8], first: usize) -> impl Iterator<Item = Entry<'_>> {
    let mut at = first;
    std::iter::from_fn(move || {
        let &code = area.get(at).filter(|code| **code != END_OF_FIELDS)?;
        let rest = area.get(at + 1..)?;
        let length = usize::from(code & 0x3f);
        at += 1 + length;
        let bytes = &rest[..length.min(rest.len())];
        Some(Entry { code, bytes, is_cut: length > rest.len() })
    })
}

/// One record of the list of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Kind, format, length and two checksums.
    pub header: [u8; RECORD_HEADER_BYTES],
    /// The bytes after the header; `None` if the list ends within it.
    pub body: Option<&'a [u8]>,
    /// Offset of `header` in the list.
    pub at: usize,
}

/// Walks the records, whether or not one says that it is the last.
pub fn records(list: &[u8]) -> impl Iterator<Item = Record<'_>> {
    let mut rest = Some(list);
    std::iter::from_fn(move || {
        let (header, behind) = rest.take()?.split_first_chunk::<RECORD_HEADER_BYTES>()?;
        let at = list.len() - behind.len() - RECORD_HEADER_BYTES;
        let body = behind.get(..usize::from(header[2]));
        rest = body.and_then(|body| behind.get(body.len()..));
        Some(Record { header: *header, body, at })
    })
}

/// The fields of an area that distinguish one part from another of its model.
pub fn fields(area: Area, bytes: &[u8]) -> Vec<Field> {
    let revealing = entries(bytes, area.first()).enumerate().filter(|(number, entry)| {
        let is_blank = entry.bytes.iter().all(|byte| matches!(byte, 0 | 0xff));
        !area.plain().contains(number) && !is_blank
    });
    let field = |(_, entry): (usize, Entry)| {
        let encoding = match entry.code >> 6 {
            0 => Encoding::Bytes,
            1 => Encoding::BcdPlus,
            2 => Encoding::SixBit,
            _ => Encoding::Text,
        };
        // Vendor-defined fields follow the standard ones.
        Field::within(bytes, entry.bytes, Kind::FreeText, encoding)
    };
    revealing.map(field).collect()
}

/// The bodies of the records with vendor-defined content: all but a power supply's.
pub fn record_fields(list: &[u8]) -> Vec<Field> {
    let of_maker = records(list).filter(|record| record.header[0] != POWER_SUPPLY);
    let field = |body| Field::within(list, body, Kind::FreeText, Encoding::Bytes);
    of_maker.filter_map(|record| record.body.map(field)).collect()
}

/// Gives an area whose fields were replaced its checksum again; a wrong one stays wrong.
pub fn reseal(original: &[u8], area: &mut [u8]) {
    if complement(original) == 0
        && original.len() == area.len()
        && let Some((last, rest)) = area.split_last_mut()
    {
        *last = complement(rest);
    }
}

/// Gives the records whose bodies were replaced their checksums again; wrong ones stay wrong.
pub fn reseal_records(original: &[u8], list: &mut [u8]) {
    if original.len() != list.len() {
        return;
    }
    for record in records(original).filter(|record| record.header[0] != POWER_SUPPLY) {
        let (is_header_right, start) =
            (complement(&record.header) == 0, record.at + RECORD_HEADER_BYTES);
        let Some(old) = record.body else { continue };
        let Some(new) = list.get(start..start + old.len()).map(complement) else { continue };
        let Some(header) = list.get_mut(record.at..start) else { continue };
        if record.header[3] == complement(old) {
            header[3] = new;
        }
        if is_header_right {
            header[4] = complement(&header[..4]);
        }
    }
}

/// Byte that makes the sum of the bytes 0.
pub fn complement(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |sum, byte| sum.wrapping_sub(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::survives_any_bytes;

    #[test]
    fn maker_and_model_stay_and_serial_and_custom_fields_are_secret() {
        let mut area = vec![1, 0, 0, 0, 0, 0];
        for field in
            [&b"\xc4DELL"[..], b"\xc4PSU1", b"\x83\x29\xdc\xa6", b"\xc2PN", b"\xc0", b"\xc5MAC:7"]
        {
            area.extend(field);
        }
        area.extend([END_OF_FIELDS, 0, 0]);
        area.push(complement(&area));
        let found = fields(Area::Board, &area);
        let bytes: Vec<&[u8]> = found.iter().map(|field| field.bytes(&area)).collect();
        assert_eq!(bytes, [&[0x29, 0xdc, 0xa6][..], b"MAC:7"]);
        assert_eq!(found[0].encoding, Encoding::SixBit);
        let mut changed = area.clone();
        changed[17..20].fill(1);
        reseal(&area, &mut changed);
        assert_eq!(complement(&changed), 0);
        let before = changed.clone();
        reseal(&[1], &mut changed);
        assert_eq!(changed, before, "a wrong sum stays wrong");
        survives_any_bytes(&area, |bytes| drop(fields(Area::Product, bytes)));
    }

    #[test]
    fn records_of_the_maker_are_sealed_again_and_wrong_sums_stay_wrong() {
        let mut list = vec![0xc0, 2, 3, 0, 0, 1, 2, 3, 0x00, 0x82, 1, 9, 9, 7, 0xc1, 2, 9, 0, 0];
        assert_eq!(record_fields(&list).len(), 1, "the last is cut");
        let wrong = list.clone();
        list[5..8].fill(7);
        reseal_records(&wrong, &mut list);
        assert_eq!(list[..5], wrong[..5], "both sums were wrong");
        let mut right = wrong;
        right[3] = complement(&right[5..8]);
        right[4] = complement(&right[..4]);
        let mut changed = right.clone();
        changed[5..8].fill(7);
        reseal_records(&right, &mut changed);
        let found: Vec<Record> = records(&changed).collect();
        assert_eq!((found[0].body, found[2].body), (Some(&[7, 7, 7][..]), None));
        assert_eq!(complement(&found[0].header), 0);
        assert_eq!(found[0].header[3], complement(&[7, 7, 7]));
        assert_eq!(found[1].header[3..], [9, 9]);
        survives_any_bytes(&right, |bytes| reseal_records(&right, &mut bytes.to_vec()));
        survives_any_bytes(&right, |bytes| reseal_records(bytes, &mut bytes.to_vec()));
    }
}
