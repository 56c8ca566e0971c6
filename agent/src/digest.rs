//! SHA-256 and SHA-512 digests in the spelling of Ignition: `sha512-` and hexadecimal digits.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256, Sha512};

/// Bytes as lower-case hexadecimal digits.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        write!(text, "{byte:02x}").ok();
    }
    text
}

/// A digest that is being taken.
#[derive(Debug, Clone)]
pub enum Hasher {
    /// SHA-256.
    Sha256(Sha256),
    /// SHA-512.
    Sha512(Sha512),
}

impl Hasher {
    /// A digest of the kind that `expected` names; `None` if it is not `sha256-…` or `sha512-…`.
    #[must_use]
    pub fn for_digest(expected: &str) -> Option<Self> {
        let (kind, digits) = expected.split_once('-')?;
        let (hasher, n_digits) = match kind {
            "sha256" => (Self::Sha256(Sha256::new()), 64),
            "sha512" => (Self::Sha512(Sha512::new()), 128),
            _ => return None,
        };
        let is_hex = digits.len() == n_digits && digits.bytes().all(|b| b.is_ascii_hexdigit());
        is_hex.then_some(hasher)
    }

    /// Takes more bytes in.
    pub fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(hasher) => hasher.update(bytes),
            Self::Sha512(hasher) => hasher.update(bytes),
        }
    }

    /// The digest, e.g. `sha256-e3b0…`.
    #[must_use]
    pub fn finish(self) -> String {
        match self {
            Self::Sha256(hasher) => format!("sha256-{}", hex(&hasher.finalize())),
            Self::Sha512(hasher) => format!("sha512-{}", hex(&hasher.finalize())),
        }
    }
}

/// The SHA-512 digest of `bytes`.
#[must_use]
pub fn sha512(bytes: &[u8]) -> String {
    format!("sha512-{}", hex(&Sha512::digest(bytes)))
}

/// The digest of `bytes` in the kind that `expected` names; `None` if it names none.
#[must_use]
pub fn like(expected: &str, bytes: &[u8]) -> Option<String> {
    let mut hasher = Hasher::for_digest(expected)?;
    hasher.update(bytes);
    Some(hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_of_the_kind_that_was_asked_for() {
        let expected = "sha256-e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(like(expected, b"").as_deref(), Some(expected));
        assert_ne!(like(expected, b"x").as_deref(), Some(expected));
        assert!(like(&format!("sha512-{}", "0".repeat(128)), b"").is_some());
    }

    #[test]
    fn what_is_no_digest_has_no_kind() {
        for text in ["", "sha256-", "sha256-zz", "md5-00", &format!("sha512-{}", "0".repeat(64))] {
            assert!(like(text, b"").is_none(), "{text}");
        }
    }
}
