//! Serial numbers, world-wide names and other identifiers, as text.

/// Only the letters and digits, in lower case: two spellings of one name compare as equal.
pub(super) fn squash(text: &str) -> String {
    text.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}
