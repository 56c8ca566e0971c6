//! HTTPS with a CA of one's own and with client certificates, made by openssl for the test.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use run_coreos_installer::exit_status::ExitStatus;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

use super::machine::{Machine, tool};

/// A folder with `ca.pem`, and `server` and `client` with certificates signed by it.
struct Certificates(PathBuf);

impl Certificates {
    fn make() -> Option<Self> {
        static N: AtomicU32 = AtomicU32::new(0);
        let openssl = tool("openssl")?;
        let n = N.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("rci-tls-{}-{n}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let run = |args: &str| {
            let status = Command::new(&openssl)
                .args(args.split(' '))
                .current_dir(&dir)
                .stderr(Stdio::null())
                .status()
                .unwrap();
            assert!(status.success(), "openssl {args}");
        };
        let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
        run(&format!("req -x509 {key} -keyout ca.key -out ca.pem -days 30 -subj /CN=ca"));
        fs::write(dir.join("ext"), "subjectAltName=IP:127.0.0.1,DNS:vim.example\n").unwrap();
        for name in ["server", "client"] {
            run(&format!("req {key} -keyout {name}.key -out {name}.csr -subj /CN={name}"));
            run(&format!(
                "x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 30 \
                 -extfile ext -out {name}.pem"
            ));
        }
        Some(Self(dir))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Certificates {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

fn chain(path: &Path) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_reader_iter(File::open(path).unwrap()).map(Result::unwrap).collect()
}

/// A VIM that answers every request with `reboot`; the port on which it listens.
fn vim(certificates: &Certificates, asks_for_client: bool) -> u16 {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
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
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let config = Arc::clone(&config);
            std::thread::spawn(move || answer(stream, config));
        }
    });
    port
}

fn answer(stream: TcpStream, config: Arc<ServerConfig>) -> std::io::Result<()> {
    let connection = ServerConnection::new(config).map_err(std::io::Error::other)?;
    let mut stream = BufReader::new(StreamOwned::new(connection, stream));
    let mut length = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let line = line.trim().to_ascii_lowercase();
        if let Some(text) = line.strip_prefix("content-length:") {
            length = text.trim().parse().unwrap();
        }
        if line.is_empty() {
            break;
        }
    }
    std::io::copy(&mut stream.by_ref().take(length), &mut std::io::sink())?;
    let body = r#"{"api_version":"1","request_id":"r","action":"reboot"}"#;
    let stream = stream.get_mut();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )?;
    stream.flush()?;
    stream.conn.send_close_notify();
    stream.flush()
}

fn machine(url: &str, ca: Option<PathBuf>) -> Machine {
    let mut machine = Machine::new(url);
    machine.settings.vim.allow_plain_http = false;
    machine.settings.vim.ca_file = ca;
    machine.settings.vim.deadline = Some(Duration::from_mins(2));
    machine
}

#[test]
fn a_vim_with_a_ca_of_its_own_is_trusted_only_with_that_ca() {
    let Some(certificates) = Certificates::make() else { return };
    let port = vim(&certificates, false);
    let ca = certificates.path("ca.pem");
    let good = format!("https://127.0.0.1:{port}");
    assert_eq!(machine(&good, Some(ca.clone())).run().exit_status, ExitStatus::Done);
    let mut without = machine(&good, None);
    // A system without any certificate of its own would refuse the configuration.
    without.settings.vim.allow_plain_http = true;
    assert_eq!(without.run().exit_status, ExitStatus::NotReported);
    let other_name = format!("https://localhost:{port}");
    assert_eq!(machine(&other_name, Some(ca)).run().exit_status, ExitStatus::NotReported);
}

#[test]
fn a_client_certificate_is_shown_to_a_vim_that_asks_for_it() {
    let Some(certificates) = Certificates::make() else { return };
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
