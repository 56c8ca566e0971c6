//! The transport of requests: TLS, certificates, name resolution, time limits.
//!
//! The CAs of the live system's bundle and of the configured file are trusted. Plain HTTP is refused unless the
//! configuration allows it explicitly.

use std::fmt;
use std::io::Read;
use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow, ensure};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tracing::warn;
use ureq::AsSendBody as _;
use ureq::config::Config;
use ureq::http::{self, Uri};
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};

use super::proxy::ProxySettings;
use super::signature::VimKey;
use super::token::{Token, TokenHeader};
use super::url::Zones;
use crate::bounded;
use crate::secret::Secret;

/// Files in which distributions keep the CAs that they trust; the first one that exists is read.
const SYSTEM_BUNDLES: [&str; 4] = [
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/ssl/cert.pem",
];
/// Largest PEM file, in bytes.
const MAX_PEM_BYTES: u64 = 8 * 1024 * 1024;

/// Connection settings of a server.
#[derive(Debug, Clone, Default)]
pub struct ServerSettings {
    /// Address of the server, e.g. `https://vim.example` or `http://[fd02::1%eth0]:8080`; `None` to fetch files only.
    pub url: Option<String>,
    /// True if `http` addresses are allowed.
    pub allow_plain_http: bool,
    /// File with the token.
    pub token_file: Option<PathBuf>,
    /// The header that carries the token.
    pub token_header: TokenHeader,
    /// PEM file with CA certificates that are trusted in addition to the system's.
    pub ca_file: Option<PathBuf>,
    /// PEM text with further ones.
    pub authorities: Vec<u8>,
    /// True if any certificate of the server is accepted.
    pub is_unverified: bool,
    /// PEM file with the client certificate and its chain.
    pub client_cert_file: Option<PathBuf>,
    /// PEM file with the client certificate's private key; absent if the certificate file contains it.
    pub client_key_file: Option<PathBuf>,
    /// The key that must have signed what a VIM answers.
    pub vim_key: Option<VimKey>,
    /// Address of the proxy, and the hosts that are reached without it.
    pub proxy: Option<ProxySettings>,
    /// Time for which to retry while the server does not respond; `None` for no limit.
    pub deadline: Option<Duration>,
    /// Time limits of one request.
    pub timeouts: Timeouts,
    /// Sends the requests; `None` for sockets.
    pub transport: Option<Arc<dyn Transport>>,
}

impl ServerSettings {
    /// Settings with only an address.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: Some(url.into()), ..Self::default() }
    }
}

/// Time limits of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// To look up a name.
    pub resolve: Duration,
    /// To connect, TLS included.
    pub connect: Duration,
    /// To send the request.
    pub send: Duration,
    /// From the request to the end of the response's headers.
    pub headers: Duration,
    /// Between two pieces of a file that an instruction names.
    pub idle: Duration,
    /// For the next 64 KiB of an image.
    pub stall: Duration,
    /// Without a byte of the image, until that is reported.
    pub stall_notice: Duration,
    /// For the whole body of an API response.
    pub body: Duration,
    /// For the whole body of an Ignition config.
    pub ignition: Duration,
    /// For the whole body of an image.
    pub image: Duration,
}

impl Timeouts {
    /// For a whole request of the API, or of a file that an instruction names.
    pub(super) fn total(&self, is_source: bool) -> Duration {
        let body = if is_source { self.ignition } else { self.body.max(self.ignition) };
        self.resolve + self.connect + self.send + self.headers + body
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            resolve: Duration::from_secs(15),
            connect: Duration::from_secs(15),
            send: Duration::from_mins(1),
            headers: Duration::from_mins(1),
            idle: Duration::from_secs(30),
            stall: Duration::from_mins(1),
            stall_notice: Duration::from_secs(15),
            body: Duration::from_mins(1),
            ignition: Duration::from_mins(5),
            // As long as coreos-installer may take.
            image: Duration::from_mins(255),
        }
    }
}

/// The body of a request.
pub type Body = Option<Arc<Vec<u8>>>;

/// The headers of a response, and its body, which is still to be read.
pub type Received = http::Response<Box<dyn Read>>;

/// Limits of one request that depend on its purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most redirects that are followed.
    pub max_redirects: u32,
    /// For the whole body of the response.
    pub body: Duration,
    /// Between two pieces of it.
    pub piece: Option<Duration>,
}

/// Sends requests. Tests put a script in its place.
pub trait Transport: fmt::Debug + Send + Sync {
    /// Sends a request once.
    ///
    /// # Errors
    /// There was no response.
    fn send(&self, request: http::Request<Body>, limits: Limits) -> Result<Received, ureq::Error>;
}

/// The library's client, and the proxy that it uses.
#[derive(Debug)]
struct Sockets {
    agent: ureq::Agent,
    proxy: Option<ProxySettings>,
}

impl Transport for Sockets {
    fn send(&self, request: http::Request<Body>, limits: Limits) -> Result<Received, ureq::Error> {
        let (head, body) = request.into_parts();
        let (mut bytes, mut none) = (body.as_ref().map(|bytes| &bytes[..]), ());
        let body = match &mut bytes {
            Some(bytes) => bytes.as_body(),
            None => none.as_body(),
        };
        let host = head.uri.host().unwrap_or_default().to_owned();
        let mut request = self
            .agent
            .configure_request(http::Request::from_parts(head, body))
            .max_redirects(limits.max_redirects)
            .timeout_recv_body(Some(limits.body))
            .timeout_per_read(limits.piece);
        if let Some(proxy) =
            self.proxy.as_ref().filter(|proxy| proxy.networks().contain_host(&host))
        {
            // Not without a proxy: a redirect may lead to a host that only the proxy reaches.
            request = request.proxy(proxy.also_without(host).proxy().ok());
        }
        let response = self.agent.run(request.build())?;
        Ok(response.map(|body| Box::new(body.into_reader()) as Box<dyn Read>))
    }
}

/// Returns what sends every request, and reads the token.
///
/// # Errors
/// A file of the settings cannot be read or has unexpected content.
pub(super) fn connect(
    settings: &ServerSettings,
    zones: &Zones,
) -> anyhow::Result<(Arc<dyn Transport>, Option<Token>)> {
    let token = settings.token_file.as_deref().map(Secret::from_file).transpose();
    let token = token.context("reading --token-file")?;
    let token = token.map(|secret| Token { header: settings.token_header, secret });
    if let Some(given) = &settings.transport {
        return Ok((Arc::clone(given), token));
    }
    for entry in settings.proxy.iter().flat_map(ProxySettings::useless) {
        warn!(
            entry,
            "no host can match an entry of no_proxy, expected names, addresses and networks"
        );
    }
    let mut roots = roots(settings.ca_file.as_deref()).context("reading --ca-file")?;
    for certificate in CertificateDer::pem_slice_iter(&settings.authorities) {
        let certificate = certificate.map_err(|_| anyhow!("a CA certificate is not valid PEM"))?;
        roots.push(Certificate::from_der(&certificate).to_owned());
    }
    ensure!(
        !roots.is_empty() || settings.allow_plain_http,
        "no CA is trusted: none of {} exists, and no --ca-file is configured",
        SYSTEM_BUNDLES.join(", ")
    );
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let client_cert = match &settings.client_cert_file {
        Some(cert) => {
            let key = settings.client_key_file.as_deref().unwrap_or(cert);
            Some(client_cert(cert, key, &provider)?)
        }
        None => None,
    };
    let tls = TlsConfig::builder()
        .root_certs(RootCerts::Specific(Arc::new(roots)))
        .client_cert(client_cert)
        .disable_verification(settings.is_unverified)
        .unversioned_rustls_crypto_provider(provider)
        .build();
    let times = settings.timeouts;
    let config = Config::builder()
        .http_status_as_error(false)
        .https_only(!settings.allow_plain_http)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .user_agent(concat!("run-coreos-installer/", env!("CARGO_PKG_VERSION")))
        .accept_encoding("identity")
        .max_response_header_size(64 * 1024)
        .proxy(settings.proxy.as_ref().map(ProxySettings::proxy).transpose()?)
        .timeout_resolve(Some(times.resolve))
        .timeout_connect(Some(times.connect))
        .timeout_send_request(Some(times.send))
        .timeout_send_body(Some(times.send))
        .timeout_recv_response(Some(times.headers))
        .timeout_recv_body(Some(times.body))
        .timeout_per_read(Some(times.idle))
        .tls_config(tls)
        .build();
    let resolver = ZoneResolver { zones: zones.clone(), names: DefaultResolver::default() };
    let agent = ureq::Agent::with_parts(config, DefaultConnector::default(), resolver);
    Ok((Arc::new(Sockets { agent, proxy: settings.proxy.clone() }), token))
}

/// The trusted CAs: the system's and those of the configured file.
fn roots(ca_file: Option<&Path>) -> anyhow::Result<Vec<Certificate<'static>>> {
    // A malformed system bundle costs only the system's CAs.
    let bundle = SYSTEM_BUNDLES.iter().map(Path::new).find(|path| path.exists());
    let system = bundle.and_then(|path| certificates(path).ok());
    let configured = ca_file.map(certificates).transpose()?;
    let all = [system, configured].into_iter().flatten().flatten();
    Ok(all.map(|der| Certificate::from_der(&der).to_owned()).collect())
}

/// The PEM certificates of a file, one at least.
pub(super) fn certificates(path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let bytes = bounded::read_file(path, MAX_PEM_BYTES)?;
    let found: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&bytes)
        .collect::<Result<_, _>>()
        .map_err(|_| damaged_pem(path, "a certificate"))?;
    ensure!(!found.is_empty(), "{} contains no PEM certificate", path.display());
    Ok(found)
}

fn damaged_pem(path: &Path, expected: &str) -> anyhow::Error {
    anyhow!("{} is not valid PEM, expected {expected} between BEGIN and END lines", path.display())
}

/// The private key in a file, as PEM and decoded.
fn private_key(path: &Path) -> anyhow::Result<(Vec<u8>, PrivateKeyDer<'static>)> {
    let bytes = bounded::read_file(path, MAX_PEM_BYTES)?;
    let expected = "a private key that is not encrypted";
    let decoded = PrivateKeyDer::from_pem_slice(&bytes).map_err(|_| {
        let has_certificate = CertificateDer::pem_slice_iter(&bytes).any(|found| found.is_ok());
        if has_certificate {
            anyhow!("{} contains only a certificate, expected {expected}", path.display())
        } else {
            damaged_pem(path, expected)
        }
    })?;
    Ok((bytes, decoded))
}

/// Reads the client certificate. It is tried out here, because ureq panics later if certificate and key do not match.
fn client_cert(
    cert: &Path,
    key: &Path,
    provider: &Arc<rustls::crypto::CryptoProvider>,
) -> anyhow::Result<ClientCert> {
    let chain = certificates(cert).context("reading --client-cert-file")?;
    let (key_bytes, key_der) = private_key(key).context("reading --client-key-file")?;
    let (cert_file, key_file) = (cert.display(), key.display());
    rustls::ClientConfig::builder_with_provider(Arc::clone(provider))
        .with_safe_default_protocol_versions()
        .map_err(|_| anyhow!("this build supports neither TLS 1.2 nor 1.3"))?
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_client_auth_cert(chain.clone(), key_der)
        .map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => {
                anyhow!("the key in {key_file} does not belong to the certificate in {cert_file}")
            }
            _ => anyhow!(
                "the client certificate in {cert_file} or its key in {key_file} is malformed or of an unsupported \
                 kind, expected ECDSA, Ed25519 or RSA"
            ),
        })?;
    let chain: Vec<Certificate<'static>> =
        chain.iter().map(|cert| Certificate::from_der(cert.as_ref()).to_owned()).collect();
    let key = PrivateKey::from_pem(&key_bytes)
        .map_err(|_| damaged_pem(key, "a private key that is not encrypted"))?;
    Ok(ClientCert::new_with_certs(&chain, key))
}

/// Resolves names as usual, and gives IPv6 literals the zone that their address named.
#[derive(Debug)]
struct ZoneResolver {
    zones: Zones,
    names: DefaultResolver,
}

impl Resolver for ZoneResolver {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let host = uri.host().and_then(|host| host.strip_prefix('[')?.strip_suffix(']'));
        let literal = host.and_then(|host| host.parse::<Ipv6Addr>().ok());
        if let Some(address) = literal
            && let Some(zone) = self.zones.zone_of(&address)
        {
            let default_port = if uri.scheme_str() == Some("https") { 443 } else { 80 };
            let port = uri.port_u16().unwrap_or(default_port);
            let scope_id = scope_id(&zone).ok_or_else(|| {
                ureq::Error::Io(std::io::Error::new(
                    std::io::ErrorKind::AddrNotAvailable,
                    format!("this machine has no network interface {zone:?}"),
                ))
            })?;
            let mut found = self.empty();
            found.push(SocketAddr::V6(SocketAddrV6::new(address, port, 0, scope_id)));
            return Ok(found);
        }
        self.names.resolve(uri, config, timeout)
    }
}

/// The kernel's index of an interface given by name or index.
fn scope_id(zone: &str) -> Option<u32> {
    zone.parse().ok().or_else(|| nix::net::if_::if_nametoindex(zone).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zone_is_an_interface_name_or_index() {
        assert_eq!(scope_id("7"), Some(7));
        assert_eq!(scope_id("no-such-interface"), None);
        assert_eq!(scope_id("lo"), nix::net::if_::if_nametoindex("lo").ok());
    }

    #[test]
    fn error_of_a_file_names_the_option_that_names_the_file() {
        let certificate = rcgen::generate_simple_self_signed(["vim.example".to_owned()]).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, certificate.cert.pem()).unwrap();
        let absent = Some(PathBuf::from("/nonexistent/x"));
        let there = Some(file.path().to_owned());
        let error = |change: &dyn Fn(&mut ServerSettings)| {
            let mut settings = ServerSettings::new("https://vim.example");
            settings.allow_plain_http = true;
            change(&mut settings);
            format!("{:#}", connect(&settings, &Zones::default()).unwrap_err())
        };
        let token = error(&|settings| settings.token_file.clone_from(&absent));
        let ca = error(&|settings| settings.ca_file.clone_from(&absent));
        let cert = error(&|settings| settings.client_cert_file.clone_from(&absent));
        let key = error(&|settings| {
            settings.client_cert_file.clone_from(&there);
            settings.client_key_file.clone_from(&there);
        });
        std::fs::write(&file, "nothing\n").unwrap();
        let empty = error(&|settings| settings.ca_file.clone_from(&there));
        assert!(empty.contains("contains no PEM certificate"), "{empty}");
        for (option, error) in [("token", token), ("ca", ca), ("client-cert", cert)] {
            let expected = format!("reading --{option}-file: opening /nonexistent/x: ");
            assert!(error.starts_with(&expected), "{error}");
        }
        let expected = format!(
            "reading --client-key-file: {} contains only a certificate, expected a private key that \
             is not encrypted",
            file.path().display()
        );
        assert_eq!(key, expected);
    }
}
