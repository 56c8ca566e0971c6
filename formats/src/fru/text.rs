//! Texts after a byte of type and length, as in FRU areas (FRU Information Storage Definition 1.0,
//! chapter 13) and in the names of sensor records (IPMI 2.0, 43.15).

use crate::hex::hex;

use crate::text::escape_non_utf8;
use crate::utf16;

/// The text of the type in the two highest bits of `kind`. `None` where it is empty or blank.
pub fn text(kind: u8, bytes: &[u8], is_english: bool) -> Option<String> {
    // A memory that nobody wrote to.
    if bytes.iter().all(|byte| *byte == 0xff) || bytes.iter().all(|byte| *byte == 0) {
        return None;
    }
    // Areas in other languages than English have characters of 16 bits; many makers name another language and write
    // ASCII all the same.
    let has_zero_high = || bytes.iter().skip(1).step_by(2).any(|high| *high == 0);
    let is_utf_16 = || bytes.len().is_multiple_of(2) && has_zero_high();
    let text = match kind >> 6 {
        0 => hex(bytes),
        1 => nibbles(bytes).filter_map(|n| BCD_PLUS.get(n)).map(|c| char::from(*c)).collect(),
        2 => six_bits(bytes),
        _ if !is_english && is_utf_16() => utf16::decode_lossy(bytes),
        _ if is_latin_1(bytes) => bytes.iter().map(|byte| char::from(*byte)).collect(),
        _ => escape_non_utf8(bytes),
    };
    let text = text.split('\0').next().unwrap_or_default().trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// True if bytes of type 3 are text: many makers write UTF-8, the specifications have Latin-1.
pub fn is_text(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok() || is_latin_1(bytes)
}

/// True if these are characters of Latin-1 and not UTF-8. A byte of all ones is not a character: unwritten memory is
/// full of them.
fn is_latin_1(bytes: &[u8]) -> bool {
    let is_character = |byte: &u8| matches!(byte, 0 | 0x20..=0x7e | 0xa0..=0xfe);
    bytes.iter().all(is_character) && std::str::from_utf8(bytes).is_err()
}

/// The characters of [`six_bits`] packed again.
pub fn pack_six_bits(text: &str) -> Vec<u8> {
    let mut packed = vec![0; (text.len() * 6).div_ceil(8)];
    for (number, character) in text.bytes().enumerate() {
        for n in (0..6).filter(|n| character.wrapping_sub(0x20) >> n & 1 == 1) {
            let at = 6 * number + n;
            packed.get_mut(at / 8).into_iter().for_each(|byte| *byte |= 1 << (at % 8));
        }
    }
    packed
}

/// The characters of BCD plus; other values mean nothing.
const BCD_PLUS: &[u8] = b"0123456789 -.";

/// Two digits a byte; each value that is not a digit gets a distinct sign.
pub fn digits(bytes: &[u8]) -> String {
    nibbles(bytes).map(|nibble| char::from(b"0123456789:;<=>?"[nibble])).collect()
}

fn nibbles(bytes: &[u8]) -> impl Iterator<Item = usize> {
    bytes.iter().flat_map(|byte| [byte >> 4, byte & 0x0f]).map(usize::from)
}

/// The digits and signs of [`digits`] packed again.
pub fn pack_digits(text: &str) -> Vec<u8> {
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| pair.iter().fold(0, |byte, c| byte << 4 | (c & 0x0f))).collect()
}

/// Four characters in three bytes, the first in the lowest bits, each 20h less than in ASCII.
pub fn six_bits(bytes: &[u8]) -> String {
    let of_chunk = |chunk: &[u8]| {
        let at = |index: usize| u32::from(chunk.get(index).copied().unwrap_or_default());
        let bits = at(0) | at(1) << 8 | at(2) << 16;
        let n_characters = chunk.len() * 8 / 6;
        (0..n_characters).filter_map(move |n| char::from_u32((bits >> (6 * n) & 0x3f) + 0x20))
    };
    bytes.chunks(3).flat_map(of_chunk).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_encoding_of_a_field_is_unpacked() {
        assert_eq!(text(0x03, &[0x12, 0xab, 0], true).as_deref(), Some("12ab00"));
        assert_eq!(text(0x43, &[0x12, 0xb3, 0xc4], true).as_deref(), Some("12-3.4"));
        assert_eq!(text(0x83, &[0x29, 0xdc, 0xa6], true).as_deref(), Some("IPMI"));
        assert_eq!(text(0xc5, b" AC1 ", true).as_deref(), Some("AC1"));
        assert_eq!(text(0xc2, b"\xfcb", true).as_deref(), Some("üb"));
        assert_eq!(text(0xc3, "üb".as_bytes(), true).as_deref(), Some("üb"));
        assert_eq!(text(0xc3, b"ab\xff", true).as_deref(), Some("ab\\xff"));
        let wide = [0x41, 0, 0x42, 0];
        assert_eq!(text(0xc4, &wide, false).as_deref(), Some("AB"));
        assert_eq!(text(0xc4, b"ABCD", false).as_deref(), Some("ABCD"));
    }

    #[test]
    fn a_field_that_nobody_filled_in_is_absent() {
        for bytes in [b"".as_slice(), b"    ", b"\0\0\0", &[0xff; 12]] {
            assert_eq!(text(0xc0, bytes, true), None, "{bytes:?}");
            assert_eq!(text(0x00, bytes, true).filter(|_| bytes != b"    "), None, "{bytes:?}");
        }
    }
}
