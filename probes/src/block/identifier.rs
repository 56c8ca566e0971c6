//! Serial numbers, world-wide names and other identifiers, as text.

/// Whether an identifier consists of only zeros or only `f` after its prefix.
pub(super) fn is_blank(id: &str) -> bool {
    let prefixes = ["naa.", "eui.", "uuid.", "0x"];
    let digits = prefixes.iter().find_map(|prefix| id.strip_prefix(prefix)).unwrap_or(id);
    let only = |c: char| digits.chars().all(|d| d.eq_ignore_ascii_case(&c) || "- :".contains(d));
    only('0') || (digits.len() >= 8 && only('f'))
}

/// Only the letters and digits, in lower case: two spellings of one name compare as equal.
pub(super) fn squash(text: &str) -> String {
    text.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}
