//! Text of 16 bits a character with the low byte first, as UEFI (UEFI Specification 2.10, §1.8.1),
//! GUID partition tables and IPMI's inventory store it.

use std::ops::Range;

use crate::{Encoding, Field, Kind};

/// The longest line of a menu that is read, in characters.
const MAX_LINE_CHARS: usize = 512;

/// The units of `bytes`; a last byte alone is ignored.
pub fn units(bytes: &[u8]) -> impl Iterator<Item = u16> {
    bytes.chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]]))
}

/// The text in `bytes` with its NULs; `None` if half a unit or half a pair of surrogates is missing.
pub fn decode(bytes: &[u8]) -> Option<String> {
    let units: Vec<u16> = units(bytes).collect();
    String::from_utf16(&units).ok().filter(|_| bytes.len().is_multiple_of(2))
}

/// The text in `bytes` with its NULs; invalid characters become U+FFFD.
pub fn decode_lossy(bytes: &[u8]) -> String {
    characters(units(bytes)).collect()
}

/// The text in `bytes` up to the first NUL; invalid characters become U+FFFD.
pub fn decode_to_nul(bytes: &[u8]) -> String {
    characters(units(bytes).take_while(|unit| *unit != 0)).collect()
}

fn characters(units: impl Iterator<Item = u16>) -> impl Iterator<Item = char> {
    char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER))
}

/// The bytes of `text`, without a NUL at its end.
pub fn encode(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

/// Text with 16 bits a character at `span` without the NULs at its end; `None` if it is not text.
pub(crate) fn field(span: Range<usize>, data: &[u8], kind: Kind) -> Option<Field> {
    let text = decode(data.get(span.clone())?)?;
    let n_units = text.trim_end_matches('\0').encode_utf16().count();
    let span = span.start..span.start + 2 * n_units;
    Some(Field { span, kind, encoding: Encoding::Utf16 })
}

/// `text` with 16 bits a character and a NUL at its end.
pub fn with_nul(text: &str) -> Vec<u8> {
    [encode(text), vec![0, 0]].concat()
}

/// Text up to a NUL, without control characters, cut to the length that fits in a line.
pub fn line(bytes: &[u8]) -> String {
    let text = decode_to_nul(bytes);
    let characters = text.chars().filter(|character| !character.is_control());
    let text: String = characters.take(MAX_LINE_CHARS).collect();
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_the_same_after_it_was_written_and_read() {
        let bytes = encode("aü💾");
        assert_eq!(bytes, [b'a', 0, 0xfc, 0, 0x3d, 0xd8, 0xbe, 0xdc]);
        assert_eq!(decode(&bytes).as_deref(), Some("aü💾"));
        assert_eq!((decode_lossy(&bytes), decode_to_nul(&bytes)), ("aü💾".into(), "aü💾".into()));
        assert_eq!(decode(&[]).as_deref(), Some(""));
    }

    #[test]
    fn text_with_half_a_character_is_decoded_only_where_a_loss_is_allowed() {
        let lone_surrogate = [b'a', 0, 0x3d, 0xd8];
        assert_eq!((decode(&lone_surrogate), decode(b"a\0b")), (None, None));
        assert_eq!(decode_lossy(&lone_surrogate), "a\u{fffd}");
        assert_eq!(decode_lossy(b"a\0b"), "a");
    }

    #[test]
    fn only_text_to_the_first_nul_ends_there() {
        let bytes = b"a\0\0\0b\0";
        assert_eq!(decode_to_nul(bytes), "a");
        assert_eq!((decode(bytes), decode_lossy(bytes)), (Some("a\0b".into()), "a\0b".into()));
    }
}
