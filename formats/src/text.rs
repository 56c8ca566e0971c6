//! Text made of what a machine holds: bytes that are not UTF-8 (RFC 3629), and quotations for messages.

use std::ops::Range;

/// Quotes what was found in a file, cut to a length that a console line can hold.
#[must_use]
pub fn quote(text: &str) -> String {
    let cut: String = text.chars().take(80).collect();
    let dots = if cut.len() < text.len() { "…" } else { "" };
    format!("\"{}{dots}\"", cut.escape_debug())
}

/// Makes text of bytes: what is not UTF-8 becomes `\xNN`.
#[must_use]
pub fn escape_non_utf8(bytes: &[u8]) -> String {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return text.to_owned();
    }
    // Four characters for a byte: room at once, for the text of a damaged file can be large.
    let n_invalid: usize = bytes.utf8_chunks().map(|chunk| chunk.invalid().len()).sum();
    let mut text = String::with_capacity(bytes.len() + 3 * n_invalid);
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            use std::fmt::Write as _;
            write!(text, "\\x{byte:02x}").ok();
        }
    }
    text
}

/// Where `part`, which was cut out of `whole`, lies in it; an empty range if it was not.
#[must_use]
pub fn span_in(whole: &str, part: &str) -> Range<usize> {
    let start = (part.as_ptr() as usize).wrapping_sub(whole.as_ptr() as usize);
    let is_within = start.checked_add(part.len()).is_some_and(|end| end <= whole.len());
    if is_within { start..start + part.len() } else { 0..0 }
}

/// How deep the brackets and braces of JSON or YAML are nested at most; those within texts count too.
///
/// libyaml needs time in the square of the depth, before any limit of its caller applies.
#[must_use]
pub fn nesting(text: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    for byte in text.bytes() {
        match byte {
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

/// The deepest nesting that YAML from a user may have.
pub const MAX_NESTING: usize = 500;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_not_utf_8_are_escaped_and_the_rest_stays() {
        assert_eq!(escape_non_utf8("Müller".as_bytes()), "Müller");
        assert_eq!(escape_non_utf8(b"M\xfcller\xff"), "M\\xfcller\\xff");
    }

    #[test]
    fn a_quoted_finding_has_no_control_characters_and_a_bounded_length() {
        assert_eq!(quote("a\x1b[31m"), "\"a\\u{1b}[31m\"");
        assert!(quote(&"x".repeat(1000)).len() < 100);
    }

    #[test]
    fn nesting_is_that_of_the_deepest_bracket() {
        assert_eq!(nesting("a: [{b: []}]\nc: ]]] []"), 3);
        assert_eq!(nesting("a"), 0);
    }

    #[test]
    fn a_part_is_found_where_it_was_cut_out() {
        let whole = "a=b, a=c";
        let part = whole.rsplit(' ').next().unwrap();
        assert_eq!(span_in(whole, part), 5..8);
        assert_eq!(span_in(whole, "elsewhere"), 0..0);
    }
}
