//! Placeholders that firmware leaves where a value was not filled in, and values that it writes into many machines.

use formats::data;
use formats::pattern::matches;

const PLACEHOLDERS: &str = include_str!("../../data/placeholders.txt");
const DUPLICATES: &str = include_str!("../../data/known-duplicates.txt");

/// True if `text` is a placeholder that firmware leaves where a value was not filled in, e.g. `To Be Filled By O.E.M.`.
pub fn is_placeholder(text: &str) -> bool {
    let text = text.trim().to_lowercase();
    let mut letters = text.bytes().filter(|byte| !b" .-_:/".contains(byte));
    // A single character again and again: 0000000, XXXXXXX, ......
    let is_repeated = match letters.next() {
        None => true,
        Some(first) => text.len() > 1 && b"0xf*?".contains(&first) && letters.all(|b| b == first),
    };
    is_repeated || data::rows(PLACEHOLDERS).any(|row| matches(row, &text))
}

/// True if `text` is a UUID or serial number that many machines are known to share.
pub fn is_known_duplicate(text: &str) -> bool {
    data::rows(DUPLICATES).any(|line| line.eq_ignore_ascii_case(text.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_known_and_real_values_are_not_placeholders() {
        for text in [
            "To be filled by O.E.M.",
            "Default string",
            " None ",
            "Not Specified",
            "0123456789",
            "0000000000",
            "00:00:00:00",
            "........",
            "XXXXXXXX",
            "",
            "SKU=NotProvided;ModelName=",
            "S/N",
            "Unavailable",
            "0x00000000",
        ] {
            assert!(is_placeholder(text), "{text}");
        }
        for text in ["7XJ4KZ3", "0PYXKY", "1.0", "A00", "F", "Dell Inc.", "00000001", "FOX123"] {
            assert!(!is_placeholder(text), "{text}");
        }
        assert!(is_known_duplicate("03000200-0400-0500-0006-000700080009"));
        assert!(is_known_duplicate("DEADBEEF-dead-beef-dead-beefdeadbeef"));
        assert!(!is_known_duplicate("4c4c4544-0058-4a10-8034-b7c04f4b5a33"));
    }
}
