//! A certificate of the agent's own (RFC 5280): one key of P-256, one address, a month.
//!
//! Ironic uses it as the only certificate that it trusts for this node, so nothing but the address in
//! `subjectAltName` has to be in it.

use std::time::{Duration, SystemTime};

use rcgen::{CertificateParams, DnType, KeyPair};
use serde::{Deserialize, Serialize};

use crate::secret::{Secret, exposed};

/// Time before now from which the certificate is valid: the clocks of conductors differ.
const BACKDATED: Duration = Duration::from_hours(24);
/// Time for which it is valid from now. No boot of a live image lasts longer.
const VALID: Duration = Duration::from_hours(30 * 24);
/// The last moment that the form has (RFC 5280, 4.1.2.5), in seconds since 1970: a server's clock may be wrong by any number
/// of years.
const LAST_S: u64 = 253_402_300_799;

/// A certificate and its private key, both in PEM.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Certificate {
    /// The certificate.
    pub(super) pem: String,
    /// The private key in PKCS #8.
    #[serde(with = "exposed")]
    pub(super) key: Secret,
}

impl Certificate {
    /// Makes a key and a certificate for the host of a callback URL, an address or a name.
    ///
    /// # Errors
    /// A message if the kernel gives no random numbers, or the host cannot be a certificate's name.
    pub(super) fn new(host: &str, now: SystemTime) -> Result<Self, String> {
        let last = SystemTime::UNIX_EPOCH + Duration::from_secs(LAST_S);
        let made = CertificateParams::new([host.to_owned()]).and_then(|mut params| {
            params.distinguished_name.push(DnType::CommonName, "run-coreos-installer");
            let from = now.checked_sub(BACKDATED).unwrap_or(SystemTime::UNIX_EPOCH);
            params.not_before = from.min(last).into();
            params.not_after = now.checked_add(VALID).unwrap_or(last).min(last).into();
            let key = KeyPair::generate()?;
            Ok((params.self_signed(&key)?, key))
        });
        let (certificate, key) =
            made.map_err(|error| format!("making a certificate for {host}: {error}"))?;
        Ok(Self { pem: certificate.pem(), key: Secret::new(key.serialize_pem()) })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::RootCertStore;
    use rustls::client::WebPkiServerVerifier;
    use rustls::client::danger::ServerCertVerifier as _;
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, ServerName, UnixTime};

    use super::*;

    const DAY: Duration = Duration::from_hours(24);

    /// A moment of a year, about.
    fn year(year: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs((year - 1970) * 31_556_952)
    }

    /// True if a client that trusts the certificate accepts it for this server at this time.
    fn is_accepted(certificate: &Certificate, host: &str, at: SystemTime) -> bool {
        let der = CertificateDer::from_pem_slice(certificate.pem.as_bytes()).unwrap();
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
    fn certificate_made_in_the_last_days_of_9999_ends_with_that_year() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(253_402_300_000);
        let certificate = Certificate::new("192.0.2.1", now).unwrap();
        let last = b"99991231235959Z";
        let der = CertificateDer::from_pem_slice(certificate.pem.as_bytes()).unwrap();
        assert!(der.windows(last.len()).any(|bytes| bytes == last));
    }
}
