//! Patterns for text, as people write them for names and values.

use crate::text::is_visible;

/// Length to which [`literal`] cuts a text, below every limit of a pattern.
const LITERAL_BYTES: usize = 1000;

/// True if `text` fits `pattern`. Every `*` stands for any number of characters; nothing else is special.
pub fn matches(pattern: &str, text: &str) -> bool {
    fits(pattern.split('*'), text, |piece, text| text.strip_prefix(piece))
}

/// The same with `?` for any character and `\` before a plain one. ASCII letters match in either case.
pub fn matches_any_case(pattern: &str, text: &str) -> bool {
    let mut is_escaped = false;
    let pieces = pattern.split(move |c| {
        let is_star = c == '*' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        is_star
    });
    fits(pieces, text, after_any_case)
}

/// True if `text` consists of the pieces, with any text between two of them; `after` strips a piece from the start of a
/// text and returns the rest.
fn fits<'a, 'b>(
    mut pieces: impl Iterator<Item = &'a str>,
    text: &'b str,
    after: impl Fn(&str, &'b str) -> Option<&'b str>,
) -> bool {
    let Some(mut text) = pieces.next().and_then(|first| after(first, text)) else { return false };
    let mut pieces = pieces.peekable();
    let has_star = pieces.peek().is_some();
    while let Some(piece) = pieces.next() {
        let is_last = pieces.peek().is_none();
        let is_end = |rest: &&str| !is_last || rest.is_empty();
        let mut places = text.char_indices().map(|(at, _)| at).chain([text.len()]);
        // The leftmost place of each piece leaves the most for the others, so nothing is ever tried twice.
        let rest = places.find_map(|at| after(piece, text.get(at..)?).filter(is_end));
        let Some(rest) = rest else { return false };
        text = rest;
    }
    has_star || text.is_empty()
}

fn after_any_case<'b>(piece: &str, text: &'b str) -> Option<&'b str> {
    let (mut wanted, mut found) = (piece.chars(), text.chars());
    while let Some(c) = wanted.next() {
        let next = found.next()?;
        let plain = if c == '\\' { wanted.next().unwrap_or('\\') } else { c };
        if c != '?' && !plain.eq_ignore_ascii_case(&next) {
            return None;
        }
    }
    Some(found.as_str())
}

/// A pattern for [`matches_any_case`] that `text` fits, and no other text unless `text` has hidden characters or is very
/// long.
pub fn literal(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for character in text.chars() {
        if pattern.len() >= LITERAL_BYTES {
            pattern.push('*');
            break;
        }
        match character {
            _ if !is_visible(character) => pattern.push('?'),
            '*' | '?' | '\\' => pattern.extend(['\\', character]),
            _ => pattern.push(character),
        }
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn star_stands_for_any_characters_and_nothing_else_is_special() {
        for (pattern, text, expected) in [
            ("a", "a", true),
            ("*", "", true),
            ("*", "äb", true),
            ("a*", "a", true),
            ("*a", "ba", true),
            ("a*c", "abbc", true),
            ("a*b*c", "a-b-b-c", true),
            ("**", "x", true),
            ("a.b", "a.b", true),
            ("a*a", "aa", true),
            ("*b*b*", "abcb", true),
            ("*a", "aba", true),
            ("a", "b", false),
            ("", "a", false),
            ("a*", "ba", false),
            ("*a", "ab", false),
            ("a*a", "a", false),
            ("a*b*c", "a-c-b", false),
            ("a.b", "axb", false),
            ("*b*b*", "abc", false),
            ("ab*ba", "aba", false),
            ("A?", "ab", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn text_of_any_case_fits_question_marks_and_escapes() {
        for (pattern, text, expected) in [
            ("SAMSUNG*", "Samsung MZ7", true),
            ("leaf-1? port 12", "leaf-17 port 12", true),
            ("*port*12", "leaf port 1 port 12", true),
            ("2.19", "2.19.1", false),
            ("a*b*c", "aXbXd", false),
            ("", "", true),
            ("*", "", true),
            ("?", "", false),
            (r"a\*", "a*", true),
            (r"a\*", "ab", false),
            (r"a\\*", r"a\b", true),
        ] {
            assert_eq!(matches_any_case(pattern, text), expected, "{pattern} {text}");
        }
        for text in [r"a*b?c\d", "", "a\u{7f}\n"] {
            assert!(matches_any_case(&literal(text), text), "{text}");
        }
    }

    #[test]
    fn many_stars_cost_no_more_than_the_length_of_the_text() {
        let pattern = "*a".repeat(1000) + "b";
        assert!(!matches(&pattern, &"a".repeat(100_000)));
        assert!(!matches_any_case(&"*a".repeat(200), &"b".repeat(5000)));
    }
}
