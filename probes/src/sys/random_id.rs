//! A random UUID: `getrandom(2)`.
//!
//! It is a question so that a capture records the answer: a replay then gives the name that the
//! machine had.

use std::io;

use rustix::rand::GetRandomFlags;

use super::Question;

/// Asks for a random UUID (version 4, RFC 9562 section 5.4).
#[derive(Debug, Clone, Copy)]
pub struct RandomId;

impl Question for RandomId {
    fn name(&self) -> String {
        "random_id".to_owned()
    }

    fn ask_live(&self) -> io::Result<Vec<u8>> {
        let mut bytes = [0; 16];
        // The kernel never interrupts a request of up to 256 bytes, nor answers with less (getrandom(2)).
        rustix::rand::getrandom(&mut bytes, GetRandomFlags::empty())?;
        Ok((formats::guid::version_4(bytes) + "\n").into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_is_a_version_4_uuid_and_differs_each_time() {
        let (one, other) = (RandomId.ask_live().unwrap(), RandomId.ask_live().unwrap());
        assert_ne!(one, other);
        let text = String::from_utf8(one).unwrap();
        assert!(text.ends_with('\n') && text.get(14..15) == Some("4"), "{text}");
        assert!(formats::guid::parse(text.trim()).is_some(), "{text}");
    }
}
