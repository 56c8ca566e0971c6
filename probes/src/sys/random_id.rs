//! A random UUID: `getrandom(2)`.
//!
//! It is a question so that a capture records the answer: a replay then gives the name that the
//! machine had.

use std::fmt::Write as _;
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
        Ok(uuid(bytes).into_bytes())
    }
}

fn uuid(mut bytes: [u8; 16]) -> String {
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut text = String::with_capacity(37);
    for (index, byte) in bytes.iter().enumerate() {
        let dash = if matches!(index, 4 | 6 | 8 | 10) { "-" } else { "" };
        write!(text, "{dash}{byte:02x}").ok();
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_is_a_version_4_uuid_and_differs_each_time() {
        let (one, other) = (RandomId.ask_live().unwrap(), RandomId.ask_live().unwrap());
        assert!(one != other && one.len() == 37);
        assert_eq!(uuid([0xff; 16]), "ffffffff-ffff-4fff-bfff-ffffffffffff\n");
    }
}
