//! A random UUID: `getrandom(2)`.
//!
//! It is a question so that a capture records the answer: a replay then gives the name that the
//! machine had.

use uuid::Uuid;

use super::Fixed;

/// Asks for a random UUID (version 4, RFC 9562 section 5.4).
pub const RANDOM_ID: Fixed =
    Fixed { name: "random_id", ask: || Ok(format!("{}\n", Uuid::new_v4()).into_bytes()) };

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::Question as _;

    #[test]
    fn answer_is_a_version_4_uuid_and_differs_each_time() {
        let (one, other) = (RANDOM_ID.ask_live().unwrap(), RANDOM_ID.ask_live().unwrap());
        assert_ne!(one, other);
        let text = String::from_utf8(one).unwrap();
        assert!(text.ends_with('\n') && text.get(14..15) == Some("4"), "{text}");
        assert!(formats::guid::parse(text.trim()).is_some(), "{text}");
    }
}
