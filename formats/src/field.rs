//! A value's place in its source, its encoding there, and the kind of information that it reveals.

use std::ops::Range;

use crate::fru::text::{digits, pack_digits, pack_six_bits, six_bits};
use crate::text::span_in;
use crate::utf16;

/// Kind of information that a value reveals, which decides how an anonymised capture replaces it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Names one part: a serial number, UUID, WWN or asset tag.
    Serial,
    /// A worldwide identifier with a prefix that says its form, e.g. `naa.5000…` or `iqn.2001-04.…`.
    Identifier,
    /// A hardware address of a network port.
    Mac,
    /// An IP address.
    Address,
    /// A host or domain name.
    HostName,
    /// Text that a person wrote and that may name anything.
    FreeText,
    /// A password, token or key.
    Secret,
    /// Words of a program, among which there may be identifiers: the description of a boot entry.
    Description,
    /// Arguments of a kernel, or a URL: [`crate::command_line`].
    Arguments,
}

/// Encoding of a value in its source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// Text with one byte a character, or UTF-8.
    #[default]
    Text,
    /// Text with 16 bits a character, the low byte first.
    Utf16,
    /// Hexadecimal digits as text, with or without separators.
    Hex,
    /// The bytes of an address or number, the most significant first.
    Bytes,
    /// The bytes of a number, the least significant first.
    LittleEndian,
    /// The 16 bytes of a GUID: its first three parts have the least significant byte first.
    Guid,
    /// Two decimal digits or signs a byte (FRU Information Storage Definition, chapter 13).
    BcdPlus,
    /// Four characters in three bytes (FRU Information Storage Definition, chapter 13).
    SixBit,
}

impl Encoding {
    /// The text that `bytes` spell; `None` for numbers and for bytes that are not text.
    pub fn decode(self, bytes: &[u8]) -> Option<String> {
        match self {
            Encoding::Text => std::str::from_utf8(bytes).ok().map(str::to_owned),
            Encoding::Utf16 => utf16::decode(bytes),
            Encoding::BcdPlus => Some(digits(bytes)),
            Encoding::SixBit => Some(six_bits(bytes)),
            _ => None,
        }
    }

    /// The bytes that spell `text`, which [`Encoding::decode`] gave or could give.
    pub fn encode(self, text: &str) -> Vec<u8> {
        match self {
            Encoding::Utf16 => utf16::encode(text),
            Encoding::BcdPlus => pack_digits(text),
            Encoding::SixBit => pack_six_bits(text),
            _ => text.as_bytes().to_vec(),
        }
    }
}

/// One value of a parsed format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Place of the value in the bytes that were parsed.
    pub span: Range<usize>,
    /// Kind of information that it reveals.
    pub kind: Kind,
    /// Its encoding there.
    pub encoding: Encoding,
}

impl Field {
    /// A value that is written as text.
    pub fn text(span: Range<usize>, kind: Kind) -> Field {
        Field { span, kind, encoding: Encoding::Text }
    }

    /// The text `part`, which was cut from `whole`.
    pub fn in_text(whole: &str, part: &str, kind: Kind) -> Field {
        Field::within(whole.as_bytes(), part.as_bytes(), kind, Encoding::Text)
    }

    /// The value `part`, which was cut from `whole`.
    pub fn within(whole: &[u8], part: &[u8], kind: Kind, encoding: Encoding) -> Field {
        Field { span: span_in(whole, part), kind, encoding }
    }

    /// A value that is written as bytes, the most significant first.
    pub fn bytes_of(span: Range<usize>, kind: Kind) -> Field {
        Field { span, kind, encoding: Encoding::Bytes }
    }

    /// The same field `offset` bytes further on: of a part that is parsed on its own.
    pub fn moved(self, offset: usize) -> Field {
        let span = self.span.start.saturating_add(offset)..self.span.end.saturating_add(offset);
        Field { span, ..self }
    }

    /// The field's bytes within `source`; empty if the span lies outside it.
    pub fn bytes<'a>(&self, source: &'a [u8]) -> &'a [u8] {
        source.get(self.span.clone()).unwrap_or_default()
    }
}

/// A span and its replacement.
pub type Edit = (Range<usize>, Vec<u8>);

/// `bytes` with those edits that lie in them. `bytes` begin at `offset` in the bytes that the edits' spans refer to.
/// The edits are in order; one that overlaps the one before is left out.
pub fn splice(bytes: &[u8], offset: usize, edits: &[Edit]) -> Vec<u8> {
    let (mut out, mut end) = (Vec::with_capacity(bytes.len()), 0);
    for (span, put) in edits {
        let start = span.start.checked_sub(offset);
        let span = start.zip(span.end.checked_sub(offset)).map(|(start, stop)| start..stop);
        let Some(span) = span.filter(|span| span.end <= bytes.len()) else { continue };
        let Some(before) = bytes.get(end..span.start) else { continue };
        out.extend_from_slice(before);
        out.extend_from_slice(put);
        end = span.end;
    }
    out.extend_from_slice(bytes.get(end..).unwrap_or_default());
    out
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Asserts that the fields of a source have these kinds and values.
    #[track_caller]
    pub(crate) fn assert_fields<V: AsRef<[u8]>>(
        fields: &[Field],
        source: impl AsRef<[u8]>,
        expected: &[(Kind, V)],
    ) {
        let found =
            fields.iter().map(|field| (field.kind, field.bytes(source.as_ref()).escape_ascii()));
        let found: Vec<String> = found.map(|(kind, value)| format!("{kind:?} {value}")).collect();
        let expected = expected.iter().map(|(kind, value)| (kind, value.as_ref().escape_ascii()));
        let expected = expected.map(|(kind, value)| format!("{kind:?} {value}"));
        assert_eq!(found, expected.collect::<Vec<String>>());
    }

    #[test]
    fn a_span_outside_the_source_has_no_bytes() {
        let field = Field::text(2..9, Kind::Mac);
        assert_eq!(field.bytes(b"abcd"), b"");
        let field = Field::bytes_of(0..2, Kind::Serial).moved(1);
        assert_eq!((field.bytes(b"abcd"), field.encoding), (&b"bc"[..], Encoding::Bytes));
        assert_eq!(Field::text(0..2, Kind::Mac).moved(usize::MAX).bytes(b"abcd"), b"");
    }

    #[test]
    fn text_is_the_same_after_it_was_decoded_and_encoded() {
        for (encoding, bytes, text) in [
            (Encoding::Text, &b"caf\xc3\xa9"[..], "café"),
            (Encoding::Utf16, b"a\0\xfc\0", "aü"),
            (Encoding::BcdPlus, &[0x12, 0xb3], "12;3"),
            (Encoding::SixBit, &[0x29, 0xdc, 0xa6], "IPMI"),
            (Encoding::SixBit, &[0x29, 0xdc, 0xa6, 0x29], "IPMII"),
            (Encoding::SixBit, &[0x29, 0x0c], "IP"),
        ] {
            assert_eq!(encoding.decode(bytes).as_deref(), Some(text));
            assert_eq!(encoding.encode(text), bytes, "{text}");
        }
        assert_eq!((Encoding::Text.decode(b"\xff"), Encoding::Guid.decode(&[0; 16])), (None, None));
    }

    #[test]
    fn edits_outside_the_bytes_and_those_that_overlap_are_left_out() {
        let edits =
            [(3..5, b"X".to_vec()), (4..6, vec![]), (7..8, b"YZ".to_vec()), (8..20, vec![])];
        assert_eq!(splice(b"abcdefgh", 1, &edits), b"abXefYZh");
    }
}
