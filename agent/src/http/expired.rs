//! Certificates of CAs that have expired, in the file that `--ca-file` names.
//!
//! The TLS library does not check the validity of a CA that it trusts, so such a file works until another program
//! or the next version does.

use std::path::Path;
use std::time::{Duration, SystemTime};

use formats::time::rfc3339;
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, Error, RootCertStore};

/// A warning that names the expired ones among the certificates of `file`; `None` if there are none.
pub(super) fn warning(
    file: &Path,
    certificates: &[CertificateDer<'_>],
    now: SystemTime,
) -> Option<String> {
    let ended: Vec<SystemTime> =
        certificates.iter().filter_map(|certificate| end(certificate, now)).collect();
    let last = rfc3339(*ended.iter().max()?);
    let (n_ended, n, file, now) = (ended.len(), certificates.len(), file.display(), rfc3339(now));
    Some(format!(
        "{n_ended} of {n} certificates in {file} (--ca-file) have expired, the last at {last}, and this machine's \
         clock shows {now}; if the clock is right, replace them, otherwise set the clock"
    ))
}

/// The end of a certificate's validity, if that is over. The library checks it before it looks for an issuer.
fn end(certificate: &CertificateDer<'_>, now: SystemTime) -> Option<SystemTime> {
    let algorithms = rustls::crypto::ring::default_provider().signature_verification_algorithms.all;
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let (now, roots) = (UnixTime::since_unix_epoch(since), RootCertStore::empty());
    let parsed = ParsedCertificate::try_from(certificate).ok()?;
    match verify_server_cert_signed_by_trust_anchor(&parsed, &roots, &[], now, algorithms) {
        Err(Error::InvalidCertificate(CertificateError::ExpiredContext { not_after, .. })) => {
            Some(SystemTime::UNIX_EPOCH + Duration::from_secs(not_after.as_secs()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, date_time_ymd};

    use super::*;

    fn ca(last_year: i32) -> CertificateDer<'static> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.not_before = date_time_ymd(2001, 1, 1);
        params.not_after = date_time_ymd(last_year, 2, 3);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    #[test]
    fn expired_ca_is_named_with_its_date_and_a_valid_one_is_not() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_168_801);
        let of = |all: &[CertificateDer<'_>]| warning(Path::new("/ca.pem"), all, now);
        assert_eq!(of(&[ca(2999)]), None);
        let text = of(&[ca(2002), ca(2999), ca(2010)]).unwrap();
        assert!(text.starts_with("2 of 3 certificates in /ca.pem"), "{text}");
        assert!(text.contains("the last at 2010-02-03T00:00:00Z"), "{text}");
        assert!(text.contains("clock shows 2026-11-20T10:00:01Z"), "{text}");
    }
}
