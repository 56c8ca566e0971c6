//! The memories of parts that a BMC reads (FRU Information Storage Definition 1.0): serial numbers, asset
//! tags and the maker's own fields in each of their encodings, and the checksums over them.

use probes::dmi::is_placeholder;

use super::collect::Secrets;
use super::pseudonym::Pseudonyms;

const PARTS: &str = "kernel/ipmi/fru/";
/// Behind the completion code.
const START: usize = 1;
const END_OF_FIELDS: u8 = 0xc1;
/// The record of a power supply, which holds no number of its own.
const POWER_SUPPLY: u8 = 0x00;

/// An area: where its fields begin, and which of them are names of the model and stay.
struct Layout {
    first: usize,
    stays: &'static [usize],
}

fn layout(path: &str) -> Option<Layout> {
    match path.strip_prefix(PARTS)?.split_once('/')?.1 {
        "chassis" => Some(Layout { first: 3, stays: &[0] }),
        "board" => Some(Layout { first: 6, stays: &[0, 1, 3, 4] }),
        "product" => Some(Layout { first: 3, stays: &[0, 1, 2, 3, 6] }),
        _ => None,
    }
}

/// Replaces what tells one part from another of its model.
pub(super) fn rewrite(path: &str, content: &mut [u8], secrets: &Secrets, names: &mut Pseudonyms) {
    let Some(part) = content.get_mut(START..) else { return };
    if path.starts_with(PARTS) && path.ends_with("/records") {
        return records(part, names);
    }
    let Some(layout) = layout(path) else { return };
    let mut rest = part.get_mut(layout.first..).unwrap_or_default();
    for number in 0.. {
        let Some((&mut kind, behind)) = rest.split_first_mut() else { return };
        let length = usize::from(kind & 0x3f).min(behind.len());
        if kind == END_OF_FIELDS {
            return;
        }
        let (field, behind) = behind.split_at_mut(length);
        if !layout.stays.contains(&number) {
            put(kind, field, secrets, names);
        }
        rest = behind;
    }
}

fn put(kind: u8, field: &mut [u8], secrets: &Secrets, names: &mut Pseudonyms) {
    let new = match kind >> 6 {
        0 => names.bytes(field),
        1 => pack_digits(&replaced(&digits(field), secrets, names)),
        2 => pack_six_bits(&replaced(&six_bits(field), secrets, names), field.len()),
        _ => match std::str::from_utf8(field) {
            Ok(text) => replaced(text, secrets, names).into_bytes(),
            Err(_) => names.bytes(field),
        },
    };
    let is_blank = field.iter().all(|byte| matches!(byte, 0 | 0xff));
    if new.len() == field.len() && !is_blank {
        field.copy_from_slice(&new);
    }
}

/// The text with a replacement for what stands between blanks. A MAC or UUID is replaced as one,
/// wherever it stands.
fn replaced(text: &str, secrets: &Secrets, names: &mut Pseudonyms) -> String {
    let plain = text.trim_matches([' ', '\0']);
    if is_placeholder(plain) || secrets.is_number(plain) {
        return text.to_owned();
    }
    let (before, after) = text.split_once(plain).unwrap_or_default();
    [before, &names.text(plain), after].concat()
}

/// Two digits in a byte; what is no digit is a sign that stays.
fn digits(field: &[u8]) -> String {
    let nibbles = field.iter().flat_map(|byte| [byte >> 4, byte & 0x0f]);
    nibbles
        .map(|nibble| if nibble < 10 { char::from(b'0' + nibble) } else { sign(nibble) })
        .collect()
}

fn sign(nibble: u8) -> char {
    char::from(b":;<=>?"[usize::from(nibble - 10).min(5)])
}

fn pack_digits(text: &str) -> Vec<u8> {
    text.as_bytes()
        .chunks(2)
        .map(|pair| pair.iter().fold(0, |byte, c| byte << 4 | (c & 0x0f)))
        .collect()
}

/// Four characters in three bytes, the first in the lowest bits.
fn six_bits(field: &[u8]) -> String {
    let bit = |at: usize| field.get(at / 8).is_some_and(|byte| byte >> (at % 8) & 1 == 1);
    let character = |start: usize| (0..6).map(|n| u8::from(bit(start + n)) << n).sum::<u8>() + 0x20;
    (0..field.len() * 8 / 6).map(|n| char::from(character(6 * n))).collect()
}

fn pack_six_bits(text: &str, n_bytes: usize) -> Vec<u8> {
    let mut packed = vec![0; n_bytes];
    for (number, character) in text.bytes().enumerate() {
        for n in (0..6).filter(|n| character.wrapping_sub(0x20) >> n & 1 == 1) {
            let at = 6 * number + n;
            packed.get_mut(at / 8).into_iter().for_each(|byte| *byte |= 1 << (at % 8));
        }
    }
    packed
}

/// Records of other kinds hold what the maker likes.
fn records(part: &mut [u8], names: &mut Pseudonyms) {
    let mut rest = part;
    while let Some(&[kind, _, length, ..]) = rest.first_chunk::<5>() {
        let Some((record, behind)) = rest.split_at_mut_checked(5 + usize::from(length)) else {
            return;
        };
        if kind != POWER_SUPPLY {
            let (header, body) = record.split_at_mut(5);
            let new = names.bytes(body);
            body.copy_from_slice(&new);
            header[3] = complement(body);
            header[4] = complement(&header[..4]);
        }
        rest = behind;
    }
}

/// Gives an area that had the right checksum the right one again, whatever was replaced in it.
pub(super) fn reseal(path: &str, original: &[u8], content: &mut [u8]) {
    let is_good = |bytes: &[u8]| bytes.get(START..).is_some_and(|part| complement(part) == 0);
    if layout(path).is_none() || !is_good(original) || content.len() != original.len() {
        return;
    }
    let Some((last, rest)) = content.get_mut(START..).and_then(|part| part.split_last_mut()) else {
        return;
    };
    *last = complement(rest);
}

/// What makes the sum of the bytes 0.
fn complement(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |sum, byte| sum.wrapping_sub(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_texts_are_unpacked_and_packed_again() {
        let packed = [0x29, 0xdc, 0xa6];
        assert_eq!(six_bits(&packed), "IPMI");
        assert_eq!(pack_six_bits("IPMI", 3), packed);
        assert_eq!(digits(&[0x12, 0xb3]), "12;3");
        assert_eq!(pack_digits("12;3"), [0x12, 0xb3]);
    }
}
