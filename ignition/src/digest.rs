//! Digests in the form Ignition and coreos-installer write them: `sha512-<128 hex>`, `sha256-<64 hex>`.
//!
//! Such a string has two meanings that must not be confused. `coreos-installer install --ignition-hash` and the VIM's
//! instruction mean the bytes of the config **as given**. Ignition's own `verification.hash` means the content
//! **after** decompression (Ignition `docs/configuration-v3_3.md`).

use formats::digest::{Algorithm, like};

use crate::refusal::{Code, Refusal};

const ANY_FORM: &str = "sha512- and 128 hex digits, or sha256- and 64 hex digits";

/// Compares the digest of `bytes`, exactly as given, with `expected`.
///
/// # Errors
/// A [`Refusal`] with [`Code::Hash`] if `expected` is not a hash, or if the digest differs; the latter contains both
/// digests and the number of bytes.
pub fn verify_hash(bytes: &[u8], expected: &str) -> Result<(), Refusal> {
    let refuse = |found: String, wanted: String| Err(Refusal::new(Code::Hash, "", found, wanted));
    match like(expected, bytes) {
        // It may be a secret in the wrong place.
        None => refuse("malformed".to_owned(), ANY_FORM.to_owned()),
        Some(found) if found.eq_ignore_ascii_case(expected) => Ok(()),
        Some(found) => {
            refuse(format!("{found} over {} bytes", bytes.len()), expected.to_ascii_lowercase())
        }
    }
}

/// Checks that `text` has the form of a hash; the error describes the expected form.
pub(crate) fn check_form(text: &str, sha256_allowed: bool) -> Result<(), &'static str> {
    match Algorithm::of(text) {
        Some(Algorithm::Sha512) => Ok(()),
        Some(Algorithm::Sha256) if sha256_allowed => Ok(()),
        _ if sha256_allowed => Err(ANY_FORM),
        _ => Err("sha512- and 128 hex digits (sha256 needs spec 3.1.0)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // FIPS 180-4 examples, message "abc".
    const ABC_256: &str = "sha256-ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    const ABC_512: &str = "sha512-ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a\
                           2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f";

    #[test]
    fn digest_is_accepted_in_upper_and_lower_case() {
        assert_eq!(verify_hash(b"abc", ABC_256), Ok(()));
        assert_eq!(verify_hash(b"abc", ABC_512), Ok(()));
        let upper = format!("sha256-{}", ABC_256[7..].to_uppercase());
        assert_eq!(verify_hash(b"abc", &upper), Ok(()));
    }

    #[test]
    fn wrong_digest_is_refused_with_both_digests() {
        let refusal = verify_hash(b"abd", ABC_256).unwrap_err();
        assert_eq!(refusal.code, Code::Hash);
        assert!(refusal.to_string().contains("over 3 bytes"), "{refusal}");
        assert!(refusal.to_string().contains(&ABC_256[7..]), "{refusal}");
    }

    #[test]
    fn malformed_hash_is_refused_with_the_expected_form() {
        for text in ["", "sha512-", "sha256-zz", "md5-00", "sha512", &ABC_512[..100], &ABC_512[7..]]
        {
            let refusal = verify_hash(b"abc", text).unwrap_err();
            assert!(refusal.to_string().contains("128 hex digits"), "{text}: {refusal}");
        }
    }
}
