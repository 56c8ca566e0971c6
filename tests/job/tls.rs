//! HTTPS: a private CA, client certificates, and what the agent says when a handshake fails.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use run_coreos_installer::exit_status::ExitStatus;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};

use super::certificates::{Certificates, Fault};
use super::machine::Machine;
use super::mock::{Mock, Reply};
use super::secrets::logged;

fn chain(path: &Path) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_reader_iter(File::open(path).unwrap()).map(Result::unwrap).collect()
}

/// A VIM that answers every request with `reboot`; the port on which it listens.
fn vim(certificates: &Certificates, asks_for_client: bool) -> u16 {
    vim_with(certificates, asks_for_client, rustls::ALL_VERSIONS)
}

fn vim_with(
    certificates: &Certificates,
    asks_for_client: bool,
    versions: &[&'static SupportedProtocolVersion],
) -> u16 {
    let config = server_config(certificates, asks_for_client, versions);
    let mock = Mock::start_at("127.0.0.1:0", Some(config), |_, _| Reply::action("reboot")).unwrap();
    mock.url.rsplit_once(':').unwrap().1.parse().unwrap()
}

/// The TLS settings of a server with the certificate of `certificates`.
pub(crate) fn server_config(
    certificates: &Certificates,
    asks_for_client: bool,
    versions: &[&'static SupportedProtocolVersion],
) -> Arc<ServerConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(versions)
        .unwrap();
    let builder = if asks_for_client {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(chain(&certificates.path("ca.pem")));
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
        builder.with_client_cert_verifier(verifier)
    } else {
        builder.with_no_client_auth()
    };
    let key = PrivateKeyDer::from_pem_file(certificates.path("server.key")).unwrap();
    let config = builder.with_single_cert(chain(&certificates.path("server.pem")), key).unwrap();
    Arc::new(config)
}

fn machine(url: &str, ca: Option<PathBuf>) -> Machine {
    let mut machine = Machine::new(url);
    machine.settings.vim.allow_plain_http = false;
    machine.settings.vim.ca_file = ca;
    machine.settings.vim.deadline = Some(Duration::from_mins(2));
    machine
}

#[test]
fn a_client_certificate_is_presented_on_request() {
    let certificates = Certificates::make(Fault::None);
    let url = format!("https://127.0.0.1:{}", vim(&certificates, true));
    let ca = Some(certificates.path("ca.pem"));
    assert_eq!(machine(&url, ca.clone()).run().exit_status, ExitStatus::NotReported);
    let with = |key: &str| {
        let mut machine = machine(&url, ca.clone());
        machine.settings.vim.client_cert_file = Some(certificates.path("client.pem"));
        machine.settings.vim.client_key_file = Some(certificates.path(key));
        machine.run().exit_status
    };
    assert_eq!(with("client.key"), ExitStatus::Done);
    assert_eq!(with("server.key"), ExitStatus::Usage, "a key that is not the certificate's");
    assert_eq!(with("client.pem"), ExitStatus::Usage, "a file without a key");
}

/// Runs the program against `url` with `words` and returns what it says; it must end with status 3.
fn said(url: &str, words: &[&str], command: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_run-coreos-installer"))
        .args(command)
        .args(["--vim", url, "--give-up-after", "0", "--lldp-wait", "0"])
        .args(words)
        .env_clear()
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{text}");
    for raw in ["rustls", "io:", "invalid peer certificate", "os error", "UnknownIssuer"] {
        assert!(!text.contains(raw), "{raw} in: {text}");
    }
    text
}

const REPORT: [&str; 3] = ["report", "--only", "os"];
const INSTALL: [&str; 4] = ["install", "--dry-run", "--wait-for-disk", "0"];

fn ca_of(certificates: &Certificates) -> String {
    certificates.path("ca.pem").to_str().unwrap().to_owned()
}

#[test]
fn every_fault_of_a_server_certificate_has_its_own_sentence() {
    for (fault, sentences) in [
        (Fault::Expired, ["expired at 2002-02-03T00:00:00Z", "renew the certificate"]),
        (Fault::NotYetValid, ["valid from 2999-04-05T00:00:00Z", "clock is probably wrong"]),
        (Fault::ForClients, ["not meant for servers", "serverAuth"]),
        (Fault::IsCa, ["certificate of a CA as its own", "sign a server certificate"]),
        (Fault::NoName, ["no subjectAltName", "issue one for 127.0.0.1"]),
    ] {
        let certificates = Certificates::make(fault);
        let url = format!("https://127.0.0.1:{}", vim(&certificates, false));
        let text = said(&url, &["--ca-file", &ca_of(&certificates)], &REPORT);
        for sentence in sentences {
            assert!(text.contains(sentence), "{fault:?}: {text}");
        }
    }
}

#[test]
fn an_unknown_ca_and_a_wrong_name_have_their_own_sentences_in_report_and_install() {
    let certificates = Certificates::make(Fault::None);
    let port = vim(&certificates, false);
    let stranger = Certificates::make(Fault::None);
    for command in [&REPORT[..], &INSTALL] {
        let url = format!("https://127.0.0.1:{port}");
        // A CA of the same name with another key.
        let text = said(&url, &["--ca-file", &ca_of(&stranger)], command);
        assert!(text.contains("CA") && text.contains("--ca-file"), "{text}");
        let url = format!("https://localhost:{port}");
        let text = said(&url, &["--ca-file", &ca_of(&certificates)], command);
        assert!(text.contains("is for 127.0.0.1, vim.example, not for localhost"), "{text}");
    }
    let text = said(&format!("https://127.0.0.1:{port}"), &["--allow-plain-http"], &REPORT);
    assert!(text.contains("signed by a CA that this machine does not trust"), "{text}");
}

#[test]
fn a_missing_and_a_rejected_client_certificate_have_their_own_sentences() {
    let certificates = Certificates::make(Fault::None);
    let stranger = Certificates::make(Fault::None);
    let ca = ca_of(&certificates);
    for versions in [&[&rustls::version::TLS12][..], &[&rustls::version::TLS13]] {
        let url = format!("https://127.0.0.1:{}", vim_with(&certificates, true, versions));
        for command in [&REPORT[..], &INSTALL] {
            let text = said(&url, &["--ca-file", &ca], command);
            assert!(text.contains("client certificate"), "{text}");
            assert!(text.contains("--client-cert-file"), "{text}");
        }
        let path = |name| stranger.path(name).to_str().unwrap().to_owned();
        let (cert, key) = (path("client.pem"), path("client.key"));
        let words = ["--ca-file", &ca, "--client-cert-file", &cert, "--client-key-file", &key];
        let text = said(&url, &words, &REPORT);
        assert!(text.contains("this machine's client certificate"), "{text}");
    }
}

#[test]
fn a_server_without_tls_and_one_without_http_are_distinguished() {
    let certificates = Certificates::make(Fault::None);
    let ca = ca_of(&certificates);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let plain = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let n_read = stream.read(&mut [0; 1024]);
            assert!(n_read.is_ok(), "the client sends a handshake before it reads: {n_read:?}");
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").ok();
        }
    });
    for command in [&REPORT[..], &INSTALL] {
        let text = said(&format!("https://127.0.0.1:{plain}"), &["--ca-file", &ca], command);
        assert!(text.contains("does not speak TLS on this port"), "{text}");
    }
    let port = vim(&certificates, false);
    let text = said(&format!("http://127.0.0.1:{port}"), &["--allow-plain-http"], &REPORT);
    assert!(text.contains("if this port speaks TLS, use https://"), "{text}");
}

#[test]
fn what_keeps_a_connection_from_being_made_is_said_in_words() {
    let text = said("http://127.0.0.1:1", &["--allow-plain-http"], &REPORT);
    assert!(text.contains("connection refused; check that the server runs"), "{text}");
    let text = said("http://vim.invalid", &["--allow-plain-http"], &REPORT);
    assert!(text.contains("no address is known for the name vim.invalid"), "{text}");
}

#[test]
fn expired_ca_is_a_warning() {
    let certificates = Certificates::make(Fault::Expired);
    let mock = Mock::vim(|_, _| Reply::action("reboot"));
    let mut machine = machine(&mock.url, Some(certificates.path("server.pem")));
    machine.settings.vim.allow_plain_http = true;
    let (ended, log) = logged(|| machine.run());
    assert_eq!(ended.exit_status, ExitStatus::Done);
    assert!(log.contains("1 of 1 certificates in ") && log.contains("2002-02-03"), "{log}");
}
