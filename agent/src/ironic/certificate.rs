//! A certificate of the agent's own, as RFC 5280 writes it in DER: one key of P-256, one address, a month.
//!
//! Ironic uses it as the only certificate that it trusts for this node, so nothing but the address in
//! `subjectAltName` has to be in it. By hand, since a library that makes certificates is larger than all of this module.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use formats::time::rfc3339;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};

/// How long before now the certificate is valid: the clocks of conductors differ.
const BACKDATED: Duration = Duration::from_hours(24);
/// How long it is valid from now. No boot of a live image lasts longer.
const VALID: Duration = Duration::from_hours(30 * 24);

/// Tags of DER.
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const INTEGER: u8 = 2;
const BIT_STRING: u8 = 3;
const OCTET_STRING: u8 = 4;
const UTF8: u8 = 12;
const UTC_TIME: u8 = 23;
const GENERALIZED_TIME: u8 = 24;

/// Object identifiers with tag and length: `ecdsa-with-SHA256`, `id-ecPublicKey`, `prime256v1`, `commonName`,
/// `subjectAltName`.
const ECDSA_SHA256: [u8; 10] = [6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];
const EC_PUBLIC_KEY: [u8; 9] = [6, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];
const PRIME256V1: [u8; 10] = [6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
const COMMON_NAME: [u8; 5] = [6, 3, 0x55, 4, 3];
const SUBJECT_ALT_NAME: [u8; 5] = [6, 3, 0x55, 0x1d, 0x11];

/// A certificate and its private key, both in DER.
#[derive(Clone, PartialEq, Eq)]
pub struct Certificate {
    /// The certificate.
    pub der: Vec<u8>,
    /// The private key in PKCS #8.
    pub key: Vec<u8>,
}

impl std::fmt::Debug for Certificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Certificate(…)")
    }
}

impl Certificate {
    /// Makes a key and a certificate for the host of a callback URL, an address or a name.
    ///
    /// # Errors
    /// In words: the kernel gives no random numbers.
    pub fn new(host: &str, now: SystemTime) -> Result<Self, String> {
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_ASN1_SIGNING;
        let broken = |_| "no random numbers for a key".to_owned();
        let key = EcdsaKeyPair::generate_pkcs8(algorithm, &random).map_err(broken)?;
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, key.as_ref(), &random)
            .map_err(|error| format!("the new key was rejected: {error}"))?;
        let serial: [u8; 15] = ring::rand::generate(&random).map_err(broken)?.expose();
        let content = content(host, now, &serial, pair.public_key().as_ref());
        let signature = pair.sign(&random, &content).map_err(broken)?;
        let algorithm = tagged(SEQUENCE, &[&ECDSA_SHA256]);
        let der = tagged(SEQUENCE, &[&content, &algorithm, &bits(signature.as_ref())]);
        Ok(Self { der, key: key.as_ref().to_vec() })
    }

    /// The certificate in PEM.
    #[must_use]
    pub fn pem(&self) -> String {
        let text = STANDARD.encode(&self.der);
        let lines: Vec<&str> = (0..text.len())
            .step_by(64)
            .filter_map(|start| text.get(start..(start + 64).min(text.len())))
            .collect();
        format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
    }
}

/// `TBSCertificate`, the part that is signed.
fn content(host: &str, now: SystemTime, serial: &[u8], public_key: &[u8]) -> Vec<u8> {
    let version = tagged(0xa0, &[&tagged(INTEGER, &[&[2]])]);
    // A leading 1 keeps the number positive and as short as its bytes.
    let serial = tagged(INTEGER, &[&[1], serial]);
    let algorithm = tagged(SEQUENCE, &[&ECDSA_SHA256]);
    let text = tagged(UTF8, &[b"run-coreos-installer"]);
    let name = tagged(SET, &[&tagged(SEQUENCE, &[&COMMON_NAME, &text])]);
    let name = tagged(SEQUENCE, &[&name]);
    let from = now.checked_sub(BACKDATED).unwrap_or(SystemTime::UNIX_EPOCH);
    // The last moment that the form has: a server's clock may be wrong by any number of years (RFC 5280, 4.1.2.5).
    let last = SystemTime::UNIX_EPOCH + Duration::from_secs(253_402_300_799);
    let until = now.checked_add(VALID).unwrap_or(last).min(last);
    let validity = tagged(SEQUENCE, &[&time(from.min(last)), &time(until)]);
    let curve = tagged(SEQUENCE, &[&EC_PUBLIC_KEY, &PRIME256V1]);
    let public_key = tagged(SEQUENCE, &[&curve, &bits(public_key)]);
    let names = tagged(SEQUENCE, &[&general_name(host)]);
    let extension = tagged(SEQUENCE, &[&SUBJECT_ALT_NAME, &tagged(OCTET_STRING, &[&names])]);
    let extensions = tagged(0xa3, &[&tagged(SEQUENCE, &[&extension])]);
    tagged(
        SEQUENCE,
        &[&version, &serial, &algorithm, &name, &validity, &name, &public_key, &extensions],
    )
}

/// `iPAddress` or `dNSName` of `GeneralName`.
fn general_name(host: &str) -> Vec<u8> {
    match host.parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => tagged(0x87, &[&address.octets()]),
        Ok(IpAddr::V6(address)) => tagged(0x87, &[&address.octets()]),
        Err(_) => tagged(0x82, &[host.as_bytes()]),
    }
}

/// `UTCTime` until 2049, `GeneralizedTime` after it (RFC 5280, 4.1.2.5).
fn time(at: SystemTime) -> Vec<u8> {
    let digits: String = rfc3339(at).chars().filter(char::is_ascii_digit).take(14).collect();
    let year: Option<u32> = digits.get(..4).and_then(|year| year.parse().ok());
    let is_short = year.is_some_and(|year| (1950..2050).contains(&year));
    let (tag, digits) = match digits.get(2..) {
        Some(short) if is_short => (UTC_TIME, short),
        _ => (GENERALIZED_TIME, digits.as_str()),
    };
    tagged(tag, &[digits.as_bytes(), b"Z"])
}

/// A bit string of whole bytes.
fn bits(bytes: &[u8]) -> Vec<u8> {
    tagged(BIT_STRING, &[&[0], bytes])
}

/// A value with its tag and its length in the definite form.
fn tagged(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let n_bytes: usize = parts.iter().map(|part| part.len()).sum();
    let mut out = vec![tag];
    let length = n_bytes.to_be_bytes();
    let short = length.iter().position(|byte| *byte != 0).map_or(&length[7..], |at| &length[at..]);
    match short {
        [byte @ 0..=127] => out.push(*byte),
        bytes => {
            out.push(0x80 | u8::try_from(bytes.len()).unwrap_or(u8::MAX));
            out.extend(bytes);
        }
    }
    out.extend(parts.concat());
    out
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::RootCertStore;
    use rustls::client::WebPkiServerVerifier;
    use rustls::client::danger::ServerCertVerifier as _;
    use rustls::pki_types::{CertificateDer, ServerName, UnixTime};

    use super::*;

    const DAY: Duration = Duration::from_hours(24);

    /// A moment of a year, about.
    fn year(year: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs((year - 1970) * 31_556_952)
    }

    /// Whether a client that trusts the certificate accepts it for this server at this time.
    fn is_accepted(certificate: &Certificate, host: &str, at: SystemTime) -> bool {
        let der = CertificateDer::from(certificate.der.clone());
        let mut roots = RootCertStore::empty();
        roots.add(der.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
        let name = ServerName::try_from(host).unwrap();
        let now = UnixTime::since_unix_epoch(at.duration_since(SystemTime::UNIX_EPOCH).unwrap());
        let verifier = verifier.build().unwrap();
        verifier.verify_server_cert(&der, &[], &name, &[], now).is_ok()
    }

    #[test]
    fn certificate_is_for_its_address_or_name_and_no_other() {
        let hosts = ["192.0.2.1", "2001:db8::1", "node-1.example"];
        for host in hosts {
            let certificate = Certificate::new(host, year(2026)).unwrap();
            for other in hosts.into_iter().chain(["192.0.2.2", "2001:db8::2", "example"]) {
                assert_eq!(is_accepted(&certificate, other, year(2026)), other == host, "{other}");
            }
        }
    }

    #[test]
    fn certificate_is_valid_for_a_month_in_either_form_of_time() {
        for now in [year(2026), year(2050) - 10 * DAY, year(2050) + 2 * DAY, year(2051)] {
            let certificate = Certificate::new("192.0.2.1", now).unwrap();
            for (at, expected) in [
                (now - 2 * DAY, false),
                (now - DAY / 2, true),
                (now + 29 * DAY, true),
                (now + 31 * DAY, false),
            ] {
                assert_eq!(is_accepted(&certificate, "192.0.2.1", at), expected, "{now:?} {at:?}");
            }
        }
    }

    #[test]
    fn times_are_short_until_2049() {
        let last = SystemTime::UNIX_EPOCH + Duration::from_secs(2_524_607_999);
        assert_eq!(time(last), [&[UTC_TIME, 13][..], b"491231235959Z"].concat());
        let next = last + Duration::from_secs(1);
        assert_eq!(time(next), [&[GENERALIZED_TIME, 15][..], b"20500101000000Z"].concat());
    }

    #[test]
    fn certificate_made_in_the_last_days_of_9999_ends_with_that_year() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(253_402_300_000);
        let certificate = Certificate::new("192.0.2.1", now).unwrap();
        let last = b"99991231235959Z";
        assert!(certificate.der.windows(last.len()).any(|bytes| bytes == last));
    }
}
