//! The HTTPS port's certificates: our own CA, a server certificate, a client certificate.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, SignatureAlgorithm,
};
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

/// Names in every server certificate: this machine, and its address in QEMU's user network.
const NAMES: [&str; 5] = ["localhost", "127.0.0.1", "::1", "10.0.2.2", "fec0::2"];

/// The files and settings for HTTPS.
#[derive(Debug)]
pub(crate) struct Tls {
    /// The server's side of each connection; requests a client certificate but does not require one.
    pub(crate) config: Arc<ServerConfig>,
    /// The CA's certificate, for clients.
    pub(crate) ca_pem: String,
}

/// Makes the certificates, and writes `ca.pem`, `client.pem` and `client-key.pem` to `dir`. The CA's key is
/// kept there, so that clients with an older `ca.pem` also trust the new certificates.
///
/// # Errors
/// When the folder cannot be written, or a name is neither a DNS name nor an address.
pub(crate) fn prepare(dir: &Path, names: &[String]) -> anyhow::Result<Tls> {
    fs::create_dir_all(dir).with_context(|| format!("making {}", dir.display()))?;
    let key = kept_key(&dir.join("ca-key.pem"), &PKCS_ECDSA_P256_SHA256)?;
    let params = ca_params();
    let ca = params.self_signed(&key).context("making the CA's certificate")?;
    let issuer = Issuer::new(ca_params(), key);

    let names = NAMES.iter().map(|name| (*name).to_owned()).chain(names.iter().cloned());
    let server = leaf(&names.collect::<Vec<_>>(), "lab VIM", ExtendedKeyUsagePurpose::ServerAuth)?;
    let server_key = KeyPair::generate().context("making the server's key")?;
    let server = server.signed_by(&server_key, &issuer).context("signing the server")?;
    let client = leaf(&[], "node", ExtendedKeyUsagePurpose::ClientAuth)?;
    let client_key = KeyPair::generate().context("making the client's key")?;
    let client = client.signed_by(&client_key, &issuer).context("signing the client")?;

    write(&dir.join("ca.pem"), &ca.pem(), 0o644)?;
    write(&dir.join("client.pem"), &client.pem(), 0o644)?;
    write(&dir.join("client-key.pem"), &client_key.serialize_pem(), 0o600)?;
    let config = config(ca.der(), server.der().clone(), &server_key)?;
    Ok(Tls { config: Arc::new(config), ca_pem: ca.pem() })
}

fn config(
    ca: &CertificateDer<'static>,
    server: CertificateDer<'static>,
    key: &KeyPair,
) -> anyhow::Result<ServerConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(ca.clone()).context("trusting our own CA")?;
    let provider = Arc::new(default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .allow_unauthenticated()
        .build()
        .context("preparing client certificates")?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .context("choosing TLS versions")?
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![server], key)
        .context("preparing the server's certificate")?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn ca_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = named("lab VIM CA");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn leaf(
    names: &[String],
    common_name: &str,
    purpose: ExtendedKeyUsagePurpose,
) -> anyhow::Result<CertificateParams> {
    let mut params = CertificateParams::new(names)
        .with_context(|| format!("naming the certificate {names:?}"))?;
    params.distinguished_name = named(common_name);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![purpose];
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

fn named(common_name: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    name
}

/// The key in a PEM file; a new one of this kind, which is kept there, if there is no such file.
///
/// # Errors
/// When the file cannot be read or written, or contains no private key.
pub(crate) fn kept_key(path: &Path, kind: &'static SignatureAlgorithm) -> anyhow::Result<KeyPair> {
    if path.exists() {
        let pem = fs::read_to_string(path)
            .with_context(|| format!("reading the key {}", path.display()))?;
        return KeyPair::from_pem(&pem)
            .with_context(|| format!("{} holds no private key in PEM", path.display()));
    }
    let key = KeyPair::generate_for(kind).context("making a key")?;
    write(path, &key.serialize_pem(), 0o600)?;
    Ok(key)
}

fn write(path: &Path, text: &str, mode: u32) -> anyhow::Result<()> {
    let mut options = fs::OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).mode(mode).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("writing {}", path.display()))
}
