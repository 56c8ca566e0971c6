//! Patterns for text: `*` is any text, `?` any character, `\` makes the next character a plain one. ASCII letters have no
//! case.

/// Whether the whole `text` fits `pattern`.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let tokens = tokens(pattern);
    let text: Vec<char> = text.chars().collect();
    // Where to go on after a mismatch: after the last `*`, with one more character for it. Earlier ones need no retry.
    let (mut at, mut from, mut retry) = (0, 0, None);
    while from < text.len() {
        match tokens.get(at) {
            Some(Token::Any) => {
                at += 1;
                retry = Some((at, from));
            }
            Some(token) if text.get(from).is_some_and(|c| token.fits(*c)) => {
                at += 1;
                from += 1;
            }
            _ => {
                let Some((after, next)) = retry else { return false };
                retry = Some((after, next + 1));
                (at, from) = (after, next + 1);
            }
        }
    }
    tokens.iter().skip(at).all(|token| matches!(token, Token::Any))
}

/// A pattern that `text` fits, and no other text unless `text` has characters that a file cannot have. A
/// long text is cut: a pattern has a limit.
pub(crate) fn literal(text: &str) -> String {
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

/// Where a literal is cut, below the limit of an expectation.
const LITERAL_BYTES: usize = 1000;

/// Whether a file of YAML can have the character as it is, and a reader sees it.
#[must_use]
pub fn is_visible(character: char) -> bool {
    // Marks that turn the direction of text, or have no width; line ends; what no file of YAML may contain.
    let is_hidden = matches!(
        character,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}'
            | '\u{e0000}'..='\u{e007f}'
    );
    !character.is_control() && !is_hidden
}

enum Token {
    Any,
    One,
    Plain(char),
}

impl Token {
    fn fits(&self, found: char) -> bool {
        match self {
            Token::Any => false,
            Token::One => true,
            Token::Plain(plain) => plain.eq_ignore_ascii_case(&found),
        }
    }
}

fn tokens(pattern: &str) -> Vec<Token> {
    let mut characters = pattern.chars();
    let mut tokens = Vec::new();
    while let Some(character) = characters.next() {
        tokens.push(match character {
            '*' => Token::Any,
            '?' => Token::One,
            '\\' => Token::Plain(characters.next().unwrap_or('\\')),
            plain => Token::Plain(plain),
        });
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pattern_fits_whole_texts_without_case() {
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
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
        assert!(!matches(&"*a".repeat(200), &"a".repeat(5000).replace('a', "b")));
        for text in [r"a*b?c\d", "", "a\u{7f}\n"] {
            assert!(matches(&literal(text), text), "{text}");
        }
    }
}
