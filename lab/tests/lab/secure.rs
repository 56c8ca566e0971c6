//! HTTPS, client certificates, tokens, IPv6.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::SigningKey as _;
use tokio_rustls::rustls::crypto::ring::default_provider;
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig, TlsProvider};

use crate::util::{Got, Vim, folder, read, report};

const HTTPS: [&str; 4] = ["--listen-https", "127.0.0.1:0", "--tls-dir", "tls"];

fn certificate(path: &Path) -> Certificate<'static> {
    Certificate::from_pem(&fs::read(path).unwrap()).unwrap()
}

/// A client that trusts the CA in `dir`, and has its client certificate on request.
fn client(dir: &Path, with_certificate: bool) -> ureq::Agent {
    let roots = RootCerts::Specific(Arc::new(vec![certificate(&dir.join("tls/ca.pem"))]));
    let own = with_certificate.then(|| {
        let key = fs::read(dir.join("tls/client-key.pem")).unwrap();
        let chain = [certificate(&dir.join("tls/client.pem"))];
        ClientCert::new_with_certs(&chain, PrivateKey::from_pem(&key).unwrap())
    });
    let tls = TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .unversioned_rustls_crypto_provider(Arc::new(default_provider()))
        .root_certs(roots)
        .client_cert(own)
        .build();
    ureq::Agent::config_builder().http_status_as_error(false).tls_config(tls).build().into()
}

fn post(agent: &ureq::Agent, host: &str, port: u16) -> Result<Got, ureq::Error> {
    let request = agent.post(format!("https://{host}:{port}/v1/reports"));
    read(request.header("content-type", "application/json").send(report("n").to_string()))
}

#[test]
fn https_is_trusted_under_each_name_with_this_ca_alone_whose_keys_are_private() {
    let vim = Vim::installing(&HTTPS);
    let port = vim.https.unwrap().port();
    let agent = client(&vim.dir, false);
    for host in ["localhost", "127.0.0.1"] {
        let answer = post(&agent, host, port).unwrap().json();
        assert_eq!(answer["action"], "install");
    }
    assert_eq!(vim.get("/ca.pem").text(), fs::read_to_string(vim.dir.join("tls/ca.pem")).unwrap());
    for name in ["ca-key.pem", "client-key.pem"] {
        let mode = fs::metadata(vim.dir.join("tls").join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name} is for its owner only");
    }
    let other = Vim::installing(&HTTPS);
    assert!(post(&client(&other.dir, false), "localhost", port).is_err());
}

#[test]
fn an_old_ca_file_works_with_a_restarted_server() {
    let dir = folder();
    let mut first = Vim::start_in(&dir, &HTTPS);
    let agent = client(&dir, false);
    let _ = first.child.kill();
    let second = Vim::start_in(&dir, &HTTPS);
    assert_eq!(post(&agent, "localhost", second.https.unwrap().port()).unwrap().status, 202);
}

#[test]
fn a_required_client_certificate_keeps_other_clients_out() {
    let vim = Vim::installing(&[&HTTPS[..], &["--require-client-certificate"]].concat());
    let port = vim.https.unwrap().port();
    assert_eq!(post(&client(&vim.dir, true), "localhost", port).unwrap().status, 200);
    let refused = post(&client(&vim.dir, false), "localhost", port).unwrap();
    assert_eq!((refused.status, refused.code().as_str()), (403, "CLIENT_CERTIFICATE"));
    assert_eq!(vim.post("/v1/reports", &report("n")).status, 403);
    assert_eq!(vim.get("/").status, 200);
}

#[test]
fn a_required_token_keeps_other_tokens_out() {
    let dir = folder();
    fs::write(dir.join("token"), "s3cret\n").unwrap();
    let vim = Vim::start_in(&dir, &["--token", "token"]);
    let body = report("n").to_string();
    let status = |authorization: &str| {
        let headers = [("content-type", "application/json"), ("authorization", authorization)];
        vim.post_with("/v1/reports", &headers, body.as_bytes()).status
    };
    assert_eq!(status("Bearer s3cret"), 202);
    assert_eq!((status("Bearer other"), status("Basic s3cret"), status("Bearer")), (401, 401, 401));
    assert_eq!(vim.post("/v1/reports", &report("n")).code(), "TOKEN");
}

#[test]
fn one_socket_accepts_ipv6_and_ipv4() {
    let vim = Vim::start_in(&folder(), &["--listen", "[::]:0"]);
    for host in ["[::1]", "127.0.0.1"] {
        let address: SocketAddr = format!("{host}:{}", vim.http.port()).parse().unwrap();
        let got = read(crate::util::client().get(format!("http://{address}/lab/nodes")).call());
        assert_eq!(got.unwrap().status, 200, "{host}");
    }
    let page = read(crate::util::client().get(format!("http://[::1]:{}/", vim.http.port())).call());
    assert!(page.unwrap().text().contains(&format!("http://[::1]:{}", vim.http.port())));
}

#[test]
fn answers_are_signed_for_the_request_with_the_key_that_is_kept() {
    let vim = Vim::installing(&["--sign-key", "vim-key.pem"]);
    let key = rcgen::KeyPair::from_pem(&fs::read_to_string(vim.dir.join("vim-key.pem")).unwrap())
        .unwrap();
    let nonce = "000102030405060708090a0b0c0d0e0f";
    let body = report("node-1").to_string();
    let post = ureq::post(vim.url("/v1/reports")).header("content-type", "application/json");
    let get = |path: &str| {
        let agent: ureq::Agent =
            ureq::Agent::config_builder().http_status_as_error(false).build().into();
        read(agent.get(vim.url(path)).header("rci-nonce", nonce).call()).unwrap()
    };
    let unknown = "/v1/nodes/node-9/instruction";
    for (start, got) in [
        ("POST\n/v1/reports\nnode-1\n", read(post.header("rci-nonce", nonce).send(&body)).unwrap()),
        ("GET\n/v1/nodes/node-1/instruction\nnode-1\n", get("/v1/nodes/node-1/instruction")),
        ("GET\n/v1/nodes/node-9/instruction\nnode-9\n", get(unknown)),
    ] {
        let lines = format!("RCI-ANSWER-1\n{start}{nonce}\n{}\napplication/json\n\n\n", got.status);
        let signature = STANDARD.decode(got.header("rci-signature").unwrap()).unwrap();
        // The same bytes have only one signature by this algorithm.
        let expected = key.sign(&[lines.as_bytes(), &got.body].concat()).unwrap();
        assert_eq!(signature, expected, "{start}");
    }
    assert_eq!(vim.get(unknown).header("rci-signature"), None);
}
