//! Explains in one sentence why a server could not be reached, with advice.
//!
//! ureq returns a failed TLS handshake as `Error::Io` around an `io::Error` around a `rustls::Error`, and an error of
//! its own that passed through `Read` as `io::Error` around `ureq::Error`. [`explain`] looks through all of these. No
//! text of either library reaches the message; `--log-level debug` shows it.

use std::io;
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError};
use tracing::debug;
use ureq::http::Uri;

use formats::time::rfc3339;

use super::client::Client;
use super::retry::{Failed, Why};
use super::url::Url;

/// Facts of the request for the explanation.
#[derive(Debug, Clone, Copy)]
struct Request<'a> {
    /// Host of the address, without brackets and port.
    host: &'a str,
    is_https: bool,
    /// True if a client certificate is configured.
    has_client_cert: bool,
}

/// A failure's kind, which decides whether trying again soon can help, and its description with advice.
type Explanation = (Why, String);

impl Client {
    /// The failure of a request that got no response.
    pub(super) fn no_response(&self, url: &Url, error: &ureq::Error) -> Failed {
        let mut request = self.request(url);
        let proxy = self.proxy_for(url);
        let through = proxy.map(|proxy| {
            if matches!(error, ureq::Error::HostNotFound) {
                request.host = proxy.host();
            }
            format!(" through the proxy {}:{}", proxy.host(), proxy.port())
        });
        let (why, text) = explain(error, request);
        let through = through.unwrap_or_default();
        Failed {
            why,
            may_have_arrived: may_have_arrived(error),
            ..Failed::network(format!("cannot reach {}{through}: {text}", url.shown()))
        }
    }

    /// The proxy for requests to this address.
    fn proxy_for(&self, url: &Url) -> Option<&ureq::Proxy> {
        let address = Uri::try_from(url.to_string()).ok()?;
        self.agent.config().proxy().filter(|proxy| !proxy.is_no_proxy(&address))
    }

    /// The failure of a response that ended while it was read.
    pub(super) fn broken_off(&self, url: &Url, error: &std::io::Error) -> Failed {
        let (why, text) = explain_read(error, self.request(url));
        Failed {
            why,
            may_have_arrived: true,
            ..Failed::network(format!("reading {}: {text}", url.shown()))
        }
    }

    fn request<'a>(&self, url: &'a Url) -> Request<'a> {
        Request {
            host: url.host(),
            is_https: url.is_https(),
            has_client_cert: self.agent.config().tls_config().client_cert().is_some(),
        }
    }
}

/// Explains a request that got no response.
fn explain(error: &ureq::Error, request: Request<'_>) -> Explanation {
    debug!(%error, host = request.host, "the request failed");
    if let Some(error) = tls_error(error) {
        return tls(error, request);
    }
    let text = match error {
        ureq::Error::Io(error) => return io_error(error, request),
        ureq::Error::Timeout(timeout) => timed_out(*timeout).to_owned(),
        ureq::Error::HostNotFound => name_not_found(request.host),
        ureq::Error::ConnectProxyFailed(_) => {
            "the proxy does not connect to the server; check its rules, or list the host in no_proxy"
                .to_owned()
        }
        ureq::Error::TooManyRedirects | ureq::Error::RedirectFailed => {
            "the server redirects too often; give the final address".to_owned()
        }
        ureq::Error::Protocol(_) | ureq::Error::Http(_) if request.is_https => {
            "the server's response is not valid HTTP; check the address and the port".to_owned()
        }
        ureq::Error::Protocol(_) | ureq::Error::Http(_) => {
            "the server's response is not valid HTTP; if this port speaks TLS, use https://".to_owned()
        }
        ureq::Error::LargeResponseHeader(..) => {
            "the header of the server's response is too large; check that this is the address of a VIM".to_owned()
        }
        ureq::Error::Tls(_) => {
            format!("\"{}\" is not a host name that a certificate can name", request.host)
        }
        ureq::Error::BodyStalled => "the server stopped sending".to_owned(),
        _ => "the request failed; --log-level debug shows the details".to_owned(),
    };
    (Why::Network, text)
}

/// True if a request that got no response may have arrived: not if there never was a connection.
fn may_have_arrived(error: &ureq::Error) -> bool {
    use std::io::ErrorKind as Kind;
    use ureq::Timeout as T;
    if tls_error(error).is_some() {
        return false;
    }
    match error {
        ureq::Error::Io(error) => !matches!(
            error.kind(),
            Kind::ConnectionRefused
                | Kind::NetworkUnreachable
                | Kind::HostUnreachable
                | Kind::NetworkDown
                | Kind::AddrNotAvailable
        ),
        ureq::Error::Timeout(timeout) => !matches!(timeout, T::Resolve | T::Connect),
        ureq::Error::HostNotFound
        | ureq::Error::ConnectionFailed
        | ureq::Error::ConnectProxyFailed(_)
        | ureq::Error::Tls(_) => false,
        _ => true,
    }
}

/// Explains a response that ended while it was read.
fn explain_read(error: &io::Error, request: Request<'_>) -> Explanation {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<ureq::Error>()) {
        Some(error) => explain(error, request),
        None => explain_io(error, request),
    }
}

fn explain_io(error: &io::Error, request: Request<'_>) -> Explanation {
    debug!(%error, host = request.host, "the response ended early");
    match tls_in_io(error) {
        Some(error) => tls(error, request),
        None => io_error(error, request),
    }
}

/// The TLS error inside an error of ureq, however often it is wrapped.
fn tls_error(error: &ureq::Error) -> Option<&rustls::Error> {
    match error {
        ureq::Error::Rustls(error) => Some(error),
        ureq::Error::Io(error) => tls_in_io(error),
        _ => None,
    }
}

fn tls_in_io(error: &io::Error) -> Option<&rustls::Error> {
    let inner = error.get_ref()?;
    if let Some(error) = inner.downcast_ref::<rustls::Error>() {
        return Some(error);
    }
    match inner.downcast_ref::<io::Error>() {
        Some(error) => tls_in_io(error),
        None => inner.downcast_ref::<ureq::Error>().and_then(tls_error),
    }
}

fn name_not_found(host: &str) -> String {
    format!(
        "no address is known for the name {host}; check the name and this machine's DNS, or use an \
         IP address"
    )
}

fn timed_out(timeout: ureq::Timeout) -> &'static str {
    use ureq::Timeout as T;
    match timeout {
        T::Resolve => "looking up the name took too long; check this machine's DNS",
        T::Connect => "no connection in time; check the address, the port and firewalls on the way",
        T::SendRequest | T::SendBody | T::PerWrite => "the server accepts the request too slowly",
        T::RecvBody | T::PerRead => "the server sends its response too slowly",
        _ => "the server did not respond in time",
    }
}

fn io_error(error: &io::Error, request: Request<'_>) -> Explanation {
    use io::ErrorKind as K;
    let text = match error.kind() {
        K::ConnectionRefused => {
            "connection refused; check that the server runs and that the port is right".to_owned()
        }
        K::NetworkUnreachable | K::HostUnreachable | K::NetworkDown => {
            "no route to the server; check this machine's network".to_owned()
        }
        K::TimedOut | K::WouldBlock => "the server did not respond in time".to_owned(),
        K::AddrNotAvailable => match error.get_ref() {
            // Our own resolver: the zone of an IPv6 address names no interface.
            Some(ours) => ours.to_string(),
            None => "this machine has no address of that kind (IPv4 or IPv6)".to_owned(),
        },
        // A server that wants a client certificate may drop the connection after the handshake, and with TLS 1.3 the
        // reset then overtakes the alert that says so.
        K::ConnectionReset | K::ConnectionAborted | K::BrokenPipe | K::UnexpectedEof => {
            let hint = match (request.is_https, request.has_client_cert) {
                (false, _) => "",
                (true, true) => "; it may not accept this machine's client certificate",
                (true, false) => {
                    "; check that the port speaks TLS, and whether the server requires a client \
                     certificate (--client-cert-file)"
                }
            };
            format!("the server closed the connection before it responded{hint}")
        }
        _ => match error.raw_os_error() {
            Some(code) => nix::errno::Errno::from_raw(code).desc().to_lowercase(),
            None if is_lookup_failure(error) => name_not_found(request.host),
            None => "the connection failed; --log-level debug shows the details".to_owned(),
        },
    };
    (Why::Network, text)
}

/// The standard library gives a failed `getaddrinfo` no kind of its own.
fn is_lookup_failure(error: &io::Error) -> bool {
    error.to_string().starts_with("failed to lookup address information")
}

fn tls(error: &rustls::Error, request: Request<'_>) -> Explanation {
    use rustls::Error as E;
    let text = match error {
        E::InvalidCertificate(cause) => return (Why::Refused, certificate(cause, request.host)),
        E::AlertReceived(alert) => return (Why::Refused, alert_received(*alert, request)),
        E::InvalidMessage(_) => {
            "the server does not speak TLS on this port; use the port of its HTTPS, or http:// with \
             --allow-plain-http on a closed network"
        }
        E::PeerIncompatible(_) => {
            "the server and this program share no TLS version or cipher; enable TLS 1.2 or 1.3 on \
             the server"
        }
        E::NoCertificatesPresented => {
            "the server presents no certificate; give the server a certificate and its key"
        }
        E::FailedToGetCurrentTime => {
            "certificates cannot be checked because this machine's clock shows a date before 1970; \
             set the clock"
        }
        _ => "the TLS handshake failed; check the server's log (--log-level debug shows details)",
    };
    (Why::Refused, text.to_owned())
}

/// A certificate of the server that cannot be trusted.
fn certificate(cause: &CertificateError, host: &str) -> String {
    use CertificateError as E;
    match cause {
        E::UnknownIssuer => {
            "the server's certificate is signed by a CA that this machine does not trust; give that \
             CA's certificate with --ca-file"
                .to_owned()
        }
        E::ExpiredContext { time, not_after } => format!(
            "the server's certificate expired at {}, and this machine's clock shows {}; if the clock \
             is right, renew the certificate, otherwise set the clock",
            date(*not_after),
            date(*time)
        ),
        E::NotValidYetContext { time, not_before } => format!(
            "the server's certificate is valid from {}, but this machine's clock shows {}, so the \
             clock is probably wrong; set it (NTP, or the firmware's setup)",
            date(*not_before),
            date(*time)
        ),
        E::Expired => "the server's certificate has expired; renew it".to_owned(),
        E::NotValidYet => {
            "the server's certificate is not valid yet; set this machine's clock".to_owned()
        }
        E::NotValidForNameContext { presented, .. } => wrong_name(presented, host),
        E::NotValidForName => wrong_name(&[], host),
        E::InvalidPurpose | E::InvalidPurposeContext { .. } => {
            "the server's certificate is not meant for servers; it needs the extended key usage \
             serverAuth"
                .to_owned()
        }
        E::Revoked => "the server's certificate is revoked; replace it".to_owned(),
        E::BadSignature => {
            "the server's certificate carries a wrong signature; another CA of the same name may \
             have signed it: compare --ca-file with the server's CA"
                .to_owned()
        }
        E::BadEncoding => "the server's certificate is malformed; replace it".to_owned(),
        E::Other(other) if other.to_string() == "CaUsedAsEndEntity" => {
            "the server presents the certificate of a CA as its own; sign a server certificate with \
             that CA"
                .to_owned()
        }
        _ => "the server's certificate cannot be verified; check it with openssl verify".to_owned(),
    }
}

/// `presented` are names as rustls spells them: `DnsName("vim.example")`, `IpAddress(192.0.2.1)`.
fn wrong_name(presented: &[String], host: &str) -> String {
    let names: Vec<String> = presented
        .iter()
        .filter_map(|name| name.split_once('(')?.1.strip_suffix(')'))
        .map(|name| name.trim_matches('"'))
        // rustls writes `0::1` for `::1`.
        .map(|name| name.parse().map_or(name.to_owned(), |ip: IpAddr| ip.to_string()))
        .collect();
    if names.is_empty() {
        return format!(
            "the server's certificate names no host (it has no subjectAltName); issue one for {host}"
        );
    }
    format!(
        "the server's certificate is for {}, not for {host}; use one of those names in the address, \
         or issue a certificate for {host}",
        names.join(", ")
    )
}

/// The server ended the handshake and said why.
fn alert_received(alert: AlertDescription, request: Request<'_>) -> String {
    use AlertDescription as A;
    let rejected = |because: &str| {
        format!(
            "the server rejected this machine's client certificate{because}; use one that its CA \
             signed (--client-cert-file, --client-key-file)"
        )
    };
    match alert {
        A::CertificateExpired if request.has_client_cert => rejected(" as expired"),
        A::CertificateRevoked if request.has_client_cert => rejected(" as revoked"),
        A::UnknownCA if request.has_client_cert => rejected(", whose CA it does not trust"),
        A::BadCertificate
        | A::UnsupportedCertificate
        | A::CertificateUnknown
        | A::DecryptError
        | A::AccessDenied
            if request.has_client_cert =>
        {
            rejected("")
        }
        // TLS 1.2 has no alert of its own for a missing client certificate.
        A::CertificateRequired
        | A::NoCertificate
        | A::BadCertificate
        | A::CertificateUnknown
        | A::AccessDenied => WANTS_CLIENT_CERT.to_owned(),
        A::HandshakeFailure | A::InsufficientSecurity if !request.has_client_cert => {
            "the server ended the TLS handshake: it shares no cipher with this program, or it requires \
             a client certificate (--client-cert-file)"
                .to_owned()
        }
        A::ProtocolVersion | A::HandshakeFailure | A::InsufficientSecurity => {
            "the server and this program share no TLS version or cipher; enable TLS 1.2 or 1.3 on the \
             server"
                .to_owned()
        }
        A::UnrecognisedName => format!(
            "the server serves no host called {}; use the name that its certificate carries",
            request.host
        ),
        _ => "the server ended the TLS handshake; its log says why".to_owned(),
    }
}

const WANTS_CLIENT_CERT: &str = "the server requires a client certificate; give one that its CA signed with \
                                 --client-cert-file and --client-key-file";

fn date(time: UnixTime) -> String {
    rfc3339(SystemTime::UNIX_EPOCH + Duration::from_secs(time.as_secs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: Request<'_> =
        Request { host: "vim.example", is_https: true, has_client_cert: false };

    fn wrapped(error: rustls::Error) -> ureq::Error {
        ureq::Error::Io(io::Error::new(io::ErrorKind::InvalidData, error))
    }

    #[test]
    fn request_has_arrived_nowhere_unless_there_was_a_connection() {
        let io = |kind: io::ErrorKind| ureq::Error::Io(kind.into());
        for error in [
            ureq::Error::HostNotFound,
            ureq::Error::Timeout(ureq::Timeout::Connect),
            io(io::ErrorKind::ConnectionRefused),
            io(io::ErrorKind::HostUnreachable),
            wrapped(rustls::Error::HandshakeNotComplete),
        ] {
            assert!(!may_have_arrived(&error), "{error}");
        }
        for error in [
            ureq::Error::Timeout(ureq::Timeout::RecvResponse),
            io(io::ErrorKind::ConnectionReset),
            io(io::ErrorKind::UnexpectedEof),
        ] {
            assert!(may_have_arrived(&error), "{error}");
        }
    }

    #[test]
    fn a_tls_error_is_found_through_every_wrapping() {
        let error = || rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let twice = io::Error::other(io::Error::other(error()));
        let in_ureq = io::Error::other(wrapped(error()));
        for error in [
            wrapped(error()),
            ureq::Error::Rustls(error()),
            ureq::Error::Io(twice),
            ureq::Error::Io(in_ureq),
        ] {
            let (why, text) = explain(&error, REQUEST);
            assert!(why == Why::Refused && text.contains("--ca-file"), "{error}: {text}");
        }
    }

    #[test]
    fn a_wrong_clock_is_named_with_both_times() {
        let at = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let cause =
            CertificateError::NotValidYetContext { time: at(0), not_before: at(1_795_168_800) };
        let text = certificate(&cause, "vim.example");
        assert!(text.contains("valid from 2026-11-20T10:00:00Z"), "{text}");
        assert!(text.contains("clock shows 1970-01-01T00:00:00Z"), "{text}");
    }

    #[test]
    fn the_names_in_a_certificate_are_listed() {
        let presented = ["DnsName(\"a.example\")".to_owned(), "IpAddress(192.0.2.1)".to_owned()];
        let text = wrong_name(&presented, "b.example");
        assert!(text.contains("is for a.example, 192.0.2.1, not for b.example"), "{text}");
        assert!(wrong_name(&[], "b.example").contains("no subjectAltName"));
        let text = wrong_name(&["IpAddress(0::1)".to_owned()], "b.example");
        assert!(text.contains("is for ::1, not for"), "{text}");
    }

    #[test]
    fn an_alert_about_certificates_depends_on_whether_one_was_sent() {
        let with = Request { has_client_cert: true, ..REQUEST };
        for alert in [AlertDescription::BadCertificate, AlertDescription::CertificateUnknown] {
            assert_eq!(alert_received(alert, REQUEST), WANTS_CLIENT_CERT);
            assert!(alert_received(alert, with).contains("rejected this machine's client cert"));
        }
    }

    #[test]
    fn no_text_of_a_library_reaches_the_message() {
        for error in [
            wrapped(rustls::Error::General("unexpected internal".into())),
            wrapped(rustls::Error::DecryptError),
            ureq::Error::Io(io::Error::other("unexpected internal")),
            ureq::Error::ConnectionFailed,
            ureq::Error::Tls("unexpected internal"),
            ureq::Error::Io(io::Error::from_raw_os_error(nix::libc::ENOBUFS)),
        ] {
            let (_, text) = explain(&error, REQUEST);
            for word in ["unexpected internal", "os error", "rustls", "io:", "cannot decrypt"] {
                assert!(!text.contains(word), "{error}: {text}");
            }
        }
    }
}
