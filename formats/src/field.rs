//! A value's place in its source, how it is written there, and what it reveals.

use std::ops::Range;

/// What a value reveals, which decides how an anonymised capture replaces it.
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
    /// Reveals nothing: a model, version, size or flag.
    Plain,
}

/// How a value is written in its source.
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

/// One value of a parsed format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Where the value lies in the bytes that were parsed.
    pub span: Range<usize>,
    /// What it reveals.
    pub kind: Kind,
    /// How it is written there.
    pub encoding: Encoding,
}

impl Field {
    /// A value that is written as text.
    #[must_use]
    pub fn text(span: Range<usize>, kind: Kind) -> Field {
        Field { span, kind, encoding: Encoding::Text }
    }

    /// A value that is written as bytes, the most significant first.
    #[must_use]
    pub fn bytes_of(span: Range<usize>, kind: Kind) -> Field {
        Field { span, kind, encoding: Encoding::Bytes }
    }

    /// The same field `offset` bytes further on: of a part that is parsed on its own.
    #[must_use]
    pub fn moved(self, offset: usize) -> Field {
        let span = self.span.start.saturating_add(offset)..self.span.end.saturating_add(offset);
        Field { span, ..self }
    }

    /// The field's bytes within `source`; empty if the span lies outside it.
    #[must_use]
    pub fn bytes<'a>(&self, source: &'a [u8]) -> &'a [u8] {
        source.get(self.span.clone()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_outside_the_source_has_no_bytes() {
        let field = Field::text(2..9, Kind::Plain);
        assert_eq!(field.bytes(b"abcd"), b"");
        let field = Field::bytes_of(0..2, Kind::Serial).moved(1);
        assert_eq!((field.bytes(b"abcd"), field.encoding), (&b"bc"[..], Encoding::Bytes));
        assert_eq!(Field::text(0..2, Kind::Plain).moved(usize::MAX).bytes(b"abcd"), b"");
    }
}
