//! Explains in one sentence why a server could not be reached, with advice.
//!
//! ureq returns a failed TLS handshake as `Error::Io` around an `io::Error` around a `rustls::Error`, and an error of
//! its own that passed through `Read` as `io::Error` around `ureq::Error`. [`explain`] looks through all of these. No
//! text of either library reaches the message; `--log-level debug` shows it. Sentences that need no more than the name
//! of the error are in `unreachable.tsv`.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError};
use tracing::debug;
use ureq::http::Uri;

use formats::time::rfc3339;

use super::client::Client;
use super::refusal::PROXY_ASKS;
use super::retry::{Failed, Why};
use super::url::Url;

/// Sentences by the library's own name of an error.
const EXPLANATIONS: &str = include_str!("unreachable.tsv");

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
        let proxy = self.proxy_for(url);
        let mut request = self.request(url);
        let through = proxy.as_ref().map(|proxy| {
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
    fn proxy_for(&self, url: &Url) -> Option<ureq::Proxy> {
        let address = Uri::try_from(url.to_string()).ok()?;
        let proxy = self.settings.proxy.as_ref()?;
        let is_direct = proxy.networks().contain_host(url.host());
        let proxy = proxy.proxy().ok()?;
        (!is_direct && !proxy.is_no_proxy(&address)).then_some(proxy)
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
            has_client_cert: self.settings.client_cert_file.is_some(),
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
        ureq::Error::HostNotFound => name_not_found(request.host),
        ureq::Error::Timeout(limit) => {
            request.explained("timeout", limit, "the server did not respond in time")
        }
        // The library gives the status of a proxy as text.
        ureq::Error::ConnectProxyFailed(found) if found.ends_with(" 407/407") => {
            return (Why::Refused, PROXY_ASKS.to_owned());
        }
        ureq::Error::Protocol(cause) if explanation("protocol", cause).is_some() => {
            request.explained("protocol", cause, "")
        }
        ureq::Error::Protocol(_) | ureq::Error::Http(_) => {
            let tls = "if this port speaks TLS, use https://";
            let advice = if request.is_https { "check the address and the port" } else { tls };
            format!("the server's response is not valid HTTP; {advice}")
        }
        other => {
            let unknown = "the request failed; --log-level debug shows the details";
            request.explained("request", other, unknown)
        }
    };
    (Why::Network, text)
}

impl Request<'_> {
    /// The sentence for an error of this kind; `otherwise` if the table has none.
    fn explained(self, kind: &str, error: &impl fmt::Debug, otherwise: &str) -> String {
        let text = explanation(kind, error).unwrap_or(otherwise);
        text.replace("{host}", self.host)
    }
}

fn explanation(kind: &str, error: &impl fmt::Debug) -> Option<&'static str> {
    let error = format!("{error:?}");
    let name = error.split(|c: char| !c.is_ascii_alphanumeric()).next();
    rows().find_map(|(of, names, text)| {
        (of == kind && names.split(' ').any(|known| Some(known) == name)).then_some(text)
    })
}

/// The rows of the table: kind, names, sentence.
fn rows() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    EXPLANATIONS.lines().filter_map(|row| {
        let (kind, rest) = row.split_once('\t')?;
        rest.split_once('\t').map(|(names, text)| (kind, names, text))
    })
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
    if let Some(error) = error.get_ref().and_then(|inner| inner.downcast_ref::<ureq::Error>()) {
        return explain(error, request);
    }
    debug!(%error, host = request.host, "the response ended early");
    if error.kind() == io::ErrorKind::UnexpectedEof && tls_in_io(error).is_none() {
        let text = "the server closed the connection before the end of its response";
        return (Why::Network, text.to_owned());
    }
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

fn io_error(error: &io::Error, request: Request<'_>) -> Explanation {
    use io::ErrorKind as K;
    let text = match (error.kind(), error.get_ref()) {
        // Our own resolver: the zone of an IPv6 address names no interface.
        (K::AddrNotAvailable, Some(ours)) => ours.to_string(),
        // A server that wants a client certificate may drop the connection after the handshake, and with TLS 1.3 the
        // reset then overtakes the alert that says so.
        (K::ConnectionReset | K::ConnectionAborted | K::BrokenPipe | K::UnexpectedEof, _) => {
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
        (kind, _) => match (explanation("io", &kind), error.raw_os_error()) {
            (Some(text), _) => text.to_owned(),
            (None, Some(code)) => nix::errno::Errno::from_raw(code).desc().to_lowercase(),
            // The standard library gives a failed `getaddrinfo` no kind of its own.
            (None, None)
                if error.to_string().starts_with("failed to lookup address information") =>
            {
                name_not_found(request.host)
            }
            (None, None) => "the connection failed; --log-level debug shows the details".to_owned(),
        },
    };
    (Why::Network, text)
}

fn tls(error: &rustls::Error, request: Request<'_>) -> Explanation {
    use rustls::Error as E;
    let text = match error {
        E::InvalidCertificate(cause) => certificate(cause, request),
        E::AlertReceived(alert) => alert_received(*alert, request),
        other => {
            let unknown = "the TLS handshake failed; check the server's log (--log-level debug shows details)";
            request.explained("tls", other, unknown)
        }
    };
    (Why::Refused, text)
}

/// A certificate of the server that cannot be trusted.
fn certificate(cause: &CertificateError, request: Request<'_>) -> String {
    use CertificateError as E;
    match cause {
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
        E::NotValidForNameContext { presented, .. } => wrong_name(presented, request.host),
        E::NotValidForName => wrong_name(&[], request.host),
        E::Other(other) if other.to_string() == "CaUsedAsEndEntity" => {
            "the server presents the certificate of a CA as its own; sign a server certificate with \
             that CA"
                .to_owned()
        }
        other => {
            let unknown =
                "the server's certificate cannot be verified; check it with openssl verify";
            request.explained("certificate", other, unknown)
        }
    }
}

/// `presented` are names as rustls spells them: `DnsName("vim.example")`, `IpAddress(192.0.2.1)`.
fn wrong_name(presented: &[String], host: &str) -> String {
    let names = presented.iter().filter_map(|name| name.split_once('(')?.1.strip_suffix(')'));
    let names = names.map(|name| name.trim_matches('"'));
    // rustls writes `0::1` for `::1`.
    let names = names.map(|name| name.parse().map_or(name.to_owned(), |ip: IpAddr| ip.to_string()));
    let names: Vec<String> = names.collect();
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
    let unknown = "the server ended the TLS handshake; its log says why";
    let of_certificate = explanation("alert-with-certificate", &alert);
    match of_certificate.filter(|_| request.has_client_cert) {
        Some(text) => text.to_owned(),
        None => request.explained("alert", &alert, unknown),
    }
}

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
        let text = certificate(&cause, REQUEST);
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
            assert!(alert_received(alert, REQUEST).contains("requires a client certificate"));
            assert!(alert_received(alert, with).contains("rejected this machine's client cert"));
        }
    }

    #[test]
    fn every_row_is_for_an_error_that_the_libraries_have() {
        use CertificateError as C;
        use rustls::{Error as E, InvalidMessage, PeerIncompatible};
        use ureq::{Error as U, Timeout as T};
        // No crate of ours depends on the one with these; tests/job/wire.rs provokes them.
        const PROTOCOL: [&str; 3] =
            ["NoLocationHeader", "BadLocationHeader", "HttpParseTooManyHeaders"];
        let name = |kind: &str, error: &dyn fmt::Debug| format!("{kind} {error:?}");
        let ios = (1..134).map(|n| name("io", &io::Error::from_raw_os_error(n).kind()));
        let alerts = (0..=255_u8).map(AlertDescription::from);
        let alerts = alerts
            .flat_map(|alert| ["alert", "alert-with-certificate"].map(|kind| name(kind, &alert)));
        let times = [
            T::Resolve,
            T::Connect,
            T::SendRequest,
            T::SendBody,
            T::RecvBody,
            T::PerRead,
            T::PerWrite,
        ];
        let proxy = U::ConnectProxyFailed(String::new());
        let header = U::LargeResponseHeader(0, 0);
        let addresses = [U::BadUri(String::new()), U::RequireHttpsOnly(String::new())];
        let requests =
            [proxy, header, U::TooManyRedirects, U::RedirectFailed, U::Tls(""), U::BodyStalled];
        let message = E::InvalidMessage(InvalidMessage::HandshakePayloadTooLarge);
        let peer = E::PeerIncompatible(PeerIncompatible::NoCipherSuitesInCommon);
        let tls = [message, peer, E::NoCertificatesPresented, E::FailedToGetCurrentTime];
        let required = rustls::ExtendedKeyPurpose::ServerAuth;
        let purpose = C::InvalidPurposeContext { required, presented: vec![] };
        let certificates = [
            purpose,
            C::UnknownIssuer,
            C::Expired,
            C::NotValidYet,
            C::InvalidPurpose,
            C::Revoked,
            C::BadSignature,
            C::BadEncoding,
        ];
        let known: Vec<String> = ios
            .chain(alerts)
            .chain(times.iter().map(|error| name("timeout", error)))
            .chain(requests.iter().chain(&addresses).map(|error| name("request", error)))
            .chain(PROTOCOL.map(|error| format!("protocol {error}")))
            .chain(tls.iter().map(|error| name("tls", error)))
            .chain(certificates.iter().map(|error| name("certificate", error)))
            .collect();
        assert!(rows().count() > 30);
        for (kind, names, _) in rows() {
            for row in names.split(' ').map(|name| format!("{kind} {name}")) {
                let is_it =
                    |known: &String| known.split(['(', '{', ' ']).take(2).eq(row.split(' '));
                assert!(known.iter().any(is_it), "{row}");
            }
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
