//! A random UUID: `getrandom(2)`.
//!
//! It is a question so that a capture records the answer: a replay then gives the name that the
//! machine had.

use std::io;

use nix::libc;

use super::Question;

/// Asks for a random UUID (version 4, RFC 9562 section 5.4).
#[derive(Debug, Clone, Copy)]
pub struct RandomId;

impl Question for RandomId {
    fn name(&self) -> String {
        "random_id".to_owned()
    }

    #[expect(unsafe_code, reason = "getrandom has no safe wrapper in nix without its feature")]
    fn ask_live(&self) -> io::Result<Vec<u8>> {
        let mut bytes = [0_u8; 16];
        // SAFETY: `bytes` is alive and writable for its whole length during the call, the kernel
        // writes at most that many bytes and keeps no pointer.
        let n = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
        // The kernel never interrupts a request of up to 256 bytes (getrandom(2)).
        if usize::try_from(n) != Ok(bytes.len()) {
            return Err(io::Error::last_os_error());
        }
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
