//! A value's place in its source and what it says about the machine's owner.

use std::ops::Range;

/// What a value reveals, which decides how an anonymised capture replaces it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Names one part: a serial number, UUID, WWN or asset tag.
    Serial,
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

/// One value of a parsed format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Where the value lies in the bytes that were parsed.
    pub span: Range<usize>,
    /// What it reveals.
    pub kind: Kind,
}

impl Field {
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
        let field = Field { span: 2..9, kind: Kind::Plain };
        assert_eq!(field.bytes(b"abcd"), b"");
        assert_eq!(Field { span: 1..3, kind: Kind::Serial }.bytes(b"abcd"), b"bc");
    }
}
