//! SHA-256 and SHA-512 digests as Ignition and coreos-installer write them: `sha512-` and 128 hexadecimal
//! digits, `sha256-` and 64.

use sha2::{Digest as _, Sha256, Sha512};

use crate::hex::hex;

/// A digest function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Algorithm {
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
}

impl Algorithm {
    /// The function of a digest; `None` if `text` is not `sha256-…` or `sha512-…` with all its digits.
    pub fn of(text: &str) -> Option<Self> {
        let (name, digits) = text.split_once('-')?;
        let (algorithm, n_digits) = match name {
            "sha256" => (Self::Sha256, 64),
            "sha512" => (Self::Sha512, 128),
            _ => return None,
        };
        let is_hex = digits.len() == n_digits && digits.bytes().all(|b| b.is_ascii_hexdigit());
        is_hex.then_some(algorithm)
    }
}

/// A digest that is being computed.
#[derive(Debug, Clone)]
pub enum Hasher {
    /// SHA-256.
    Sha256(Sha256),
    /// SHA-512.
    Sha512(Sha512),
}

impl Hasher {
    /// Starts a digest of the same kind as `expected`; `None` if that is not a digest.
    pub fn for_digest(expected: &str) -> Option<Self> {
        Algorithm::of(expected).map(Self::new)
    }

    /// Starts a digest.
    pub fn new(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::Sha256 => Self::Sha256(Sha256::new()),
            Algorithm::Sha512 => Self::Sha512(Sha512::new()),
        }
    }

    /// Adds more bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(hasher) => hasher.update(bytes),
            Self::Sha512(hasher) => hasher.update(bytes),
        }
    }

    /// The digest, e.g. `sha256-e3b0…`.
    pub fn finish(self) -> String {
        match self {
            Self::Sha256(hasher) => format!("sha256-{}", hex(hasher.finalize().as_slice())),
            Self::Sha512(hasher) => format!("sha512-{}", hex(hasher.finalize().as_slice())),
        }
    }
}

/// The SHA-256 digest of `bytes`.
pub fn sha256(bytes: &[u8]) -> String {
    format!("sha256-{}", hex(Sha256::digest(bytes).as_slice()))
}

/// The SHA-512 digest of `bytes`.
pub fn sha512(bytes: &[u8]) -> String {
    format!("sha512-{}", hex(Sha512::digest(bytes).as_slice()))
}

/// The digest of `bytes` in the kind that `expected` names; `None` if it names none.
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
