//! Patterns with `*` for any characters, as people write them for names.

/// Whether `text` fits `pattern`. Every `*` stands for any number of characters; nothing else is special.
#[must_use]
pub fn matches(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(first) else { return false };
    let (middle, last) = rest.rsplit_once('*').map_or(("", rest), |(middle, last)| (middle, last));
    // The leftmost place of each piece leaves the most for the others, so nothing is ever tried twice.
    for piece in middle.split('*') {
        let Some(at) = text.find(piece) else { return false };
        text = text.get(at + piece.len()..).unwrap_or_default();
    }
    text.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn star_stands_for_any_characters_and_nothing_else_is_special() {
        for (pattern, text) in [
            ("a", "a"),
            ("*", ""),
            ("*", "äb"),
            ("a*", "a"),
            ("*a", "ba"),
            ("a*c", "abbc"),
            ("a*b*c", "a-b-b-c"),
            ("**", "x"),
            ("a.b", "a.b"),
            ("a*a", "aa"),
            ("*b*b*", "abcb"),
        ] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [
            ("a", "b"),
            ("", "a"),
            ("a*", "ba"),
            ("*a", "ab"),
            ("a*a", "a"),
            ("a*b*c", "a-c-b"),
            ("a.b", "axb"),
            ("*b*b*", "abc"),
            ("ab*ba", "aba"),
        ] {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_cost_no_more_than_the_length_of_the_text() {
        let pattern = "*a".repeat(1000) + "b";
        assert!(!matches(&pattern, &"a".repeat(100_000)));
    }
}
