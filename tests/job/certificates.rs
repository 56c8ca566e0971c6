//! Certificates for the TLS tests, made by rcgen: a CA, and leaves with the faults that a test asks for.

use std::fs;
use std::path::PathBuf;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    date_time_ymd,
};
use tempfile::TempDir;

/// A folder with `ca.pem`, and `server` and `client` with certificates that it signed, as `.pem` and `.key`.
pub(crate) struct Certificates(TempDir);

/// What is wrong with the server's certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    Expired,
    NotYetValid,
    ForClients,
    IsCa,
    NoName,
}

impl Certificates {
    pub(crate) fn make(fault: Fault) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path();
        let key = KeyPair::generate().unwrap();
        let ca = ca_params().self_signed(&key).unwrap();
        fs::write(dir.join("ca.pem"), ca.pem()).unwrap();
        let issuer = Issuer::new(ca_params(), key);
        for (name, fault) in [("server", fault), ("client", Fault::ForClients)] {
            let key = KeyPair::generate().unwrap();
            let cert = leaf(fault).signed_by(&key, &issuer).unwrap();
            fs::write(dir.join(name).with_extension("pem"), cert.pem()).unwrap();
            fs::write(dir.join(name).with_extension("key"), key.serialize_pem()).unwrap();
        }
        Self(folder)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

fn ca_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "test CA");
    params
}

fn leaf(fault: Fault) -> CertificateParams {
    let names = ["127.0.0.1".to_owned(), "vim.example".to_owned()];
    let names = if fault == Fault::NoName { &[][..] } else { &names };
    let mut params = CertificateParams::new(names).unwrap();
    params.distinguished_name.push(DnType::CommonName, "leaf");
    params.extended_key_usages = vec![match fault {
        Fault::ForClients => ExtendedKeyUsagePurpose::ClientAuth,
        _ => ExtendedKeyUsagePurpose::ServerAuth,
    }];
    match fault {
        Fault::Expired => {
            params.not_before = date_time_ymd(2001, 1, 1);
            params.not_after = date_time_ymd(2002, 2, 3);
        }
        Fault::NotYetValid => {
            params.not_before = date_time_ymd(2999, 4, 5);
            params.not_after = date_time_ymd(3000, 1, 1);
        }
        Fault::IsCa => params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained),
        Fault::None | Fault::ForClients | Fault::NoName => {}
    }
    params
}
