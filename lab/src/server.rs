//! The server: accepts connections, logs requests, applies faults, routes paths.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::HeaderMap;
use hyper::service::service_fn;
use hyper::{Method, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::faults::{Fault, Kind};
use crate::http::{
    Answer, Refusal, Request, header, not_allowed, percent_decoded, read_body, set_header, unserved,
};
use crate::lab::Lab;
use crate::socket::Control;
use crate::store::now;
use crate::{admin, api, broken, contract, journal, netboot, orders, page};

/// A client's connection.
#[derive(Debug, Clone)]
struct Peer {
    remote: SocketAddr,
    local: SocketAddr,
    is_tls: bool,
    has_certificate: bool,
    control: Arc<Control>,
}

/// Accepts connections for ever.
pub(crate) async fn serve(lab: Arc<Lab>, listener: TcpListener, tls: Option<TlsAcceptor>) {
    loop {
        match listener.accept().await {
            Ok((stream, remote)) => {
                let lab = Arc::clone(&lab);
                let tls = tls.clone();
                let local = stream.local_addr().unwrap_or(remote);
                let control = Arc::new(Control::of(&stream));
                let peer =
                    Peer { remote, local, is_tls: tls.is_some(), has_certificate: false, control };
                tokio::spawn(connection(lab, stream, peer, tls));
            }
            Err(error) => {
                // For example, no file descriptors are left; the next one may succeed.
                journal::line(&format!("{} accepting: {error}", now()));
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        }
    }
}

async fn connection(lab: Arc<Lab>, stream: TcpStream, mut peer: Peer, tls: Option<TlsAcceptor>) {
    let Some(tls) = tls else { return talk(lab, stream, peer).await };
    let limit = std::time::Duration::from_secs(15);
    match tokio::time::timeout(limit, tls.accept(stream)).await {
        Ok(Ok(stream)) => {
            peer.has_certificate = stream.get_ref().1.peer_certificates().is_some();
            talk(lab, stream, peer).await;
        }
        Ok(Err(error)) => {
            let remote = peer.remote;
            journal::line(&format!("{} TLS with {remote}: {error}", now()));
        }
        Err(_) => {}
    }
}

async fn talk<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    lab: Arc<Lab>,
    stream: S,
    peer: Peer,
) {
    let service = service_fn(|request| {
        let (lab, peer) = (Arc::clone(&lab), peer.clone());
        async move { handle(&lab, &peer, request).await }
    });
    let http = hyper::server::conn::http1::Builder::new();
    // An error here means that the client went away, or that a fault broke the connection.
    let _ = http.serve_connection(TokioIo::new(stream), service).await;
}

/// One request: log, fault, answer.
async fn handle(
    lab: &Arc<Lab>,
    peer: &Peer,
    incoming: hyper::Request<Incoming>,
) -> io::Result<Answer> {
    let start = Instant::now();
    let (parts, body) = incoming.into_parts();
    let path = parts.uri.path().to_owned();
    let fault = lab.faults.take(&parts.method, &path);
    let n = lab.journal.begin(json!({
        "time": now(), "method": parts.method.as_str(), "path": path,
        "query": parts.uri.query(), "remote": peer.remote.ip().to_canonical(),
        "tls": peer.is_tls, "headers": journal::headers(&parts.headers),
        "fault": fault.as_ref().map(|fault| fault.kind),
    }));
    let (method, remote) = (parts.method.clone(), peer.remote.ip().to_canonical());
    let head = Request {
        base: base(lab, peer, &parts.headers),
        method: parts.method,
        query: parts.uri.query().map(str::to_owned),
        headers: parts.headers,
        body: Bytes::new(),
        is_local: remote.is_loopback(),
        has_client_certificate: peer.has_certificate,
        path,
    };
    let path = head.path.clone();
    let (mut answer, code) = answer(lab, peer, n, head, body, fault.as_ref()).await;
    // A connection that is reset without an answer is in the log like one whose answer was lost.
    let status = answer.as_ref().map_or(StatusCode::OK, hyper::Response::status).as_u16();
    if let Ok(answer) = &mut answer
        && method == Method::HEAD
        && answer.status().is_success()
        && let Some(n_bytes) = hyper::body::Body::size_hint(answer.body()).exact()
    {
        set_header(answer, "content-length", &n_bytes.to_string());
    }
    let ms = start.elapsed().as_millis();
    lab.journal.add(n, json!({"status": status, "duration_ms": ms, "problem": code}));
    let fault = fault.map_or_else(String::new, |fault| format!(" fault={:?}", fault.kind));
    let answered_at = now();
    let problem = code.map_or_else(String::new, |code| format!(" {code}"));
    journal::line(&format!(
        "{answered_at} {remote} {method} {path} {status} {ms} ms{problem}{fault}"
    ));
    answer
}

/// The answer, and the refusal if there was one.
async fn answer(
    lab: &Arc<Lab>,
    peer: &Peer,
    n: u64,
    mut request: Request,
    body: Incoming,
    fault: Option<&Fault>,
) -> (io::Result<Answer>, Option<String>) {
    let instead = fault.filter(|fault| !broken::needs_answer(fault));
    let has_body = !matches!(request.method, Method::GET | Method::HEAD);
    // These two act before the body is read.
    let is_rude = instead.is_some_and(|fault| matches!(fault.kind, Kind::Reset | Kind::Hang));
    if has_body && !is_rude {
        match read_body(body, lab.options.max_body_bytes).await {
            Ok(bytes) => request.body = bytes,
            Err(refusal) => {
                let answer = signed(lab, &request, refusal.answer()).await;
                return (Ok(answer), Some(said(&refusal)));
            }
        }
        lab.journal.add(n, journal::body(&request.body));
    }
    if let Some(fault) = instead {
        return (broken::instead(fault, &request.path, &peer.control).await, None);
    }
    let (answer, said) = match route(lab, &request).await {
        Ok(answer) => (answer, None),
        Err(refusal) => (refusal.answer(), Some(said(&refusal))),
    };
    let answer = signed(lab, &request, answer).await;
    let Some(fault) = fault else { return (Ok(answer), said) };
    let control = Arc::clone(&peer.control);
    (broken::spoil(fault, &request.path, answer, control).await, said)
}

/// The answer with a signature, if the lab signs and the request is of the VIM's API.
async fn signed(lab: &Lab, request: &Request, answer: Answer) -> Answer {
    match &lab.signer {
        Some(signer) if request.path.starts_with("/v1/") => {
            signer.sign(request, lab.options.max_body_bytes, answer).await
        }
        _ => answer,
    }
}

fn said(refusal: &Refusal) -> String {
    format!("{}: {}", refusal.code, refusal.message)
}

/// The path's answer.
async fn route(lab: &Arc<Lab>, request: &Request) -> Result<Answer, Refusal> {
    if request.path == "/v1" || request.path.starts_with("/v1/") {
        return api::answer(lab, request);
    }
    let path = percent_decoded(&request.path).ok_or_else(unserved)?;
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    if let ["lab", rest @ ..] = parts.as_slice() {
        return admin::answer(lab, request, rest).await;
    }
    match request.method {
        Method::GET | Method::HEAD => {}
        Method::POST => return page::submit(lab, request, &parts),
        _ => return Err(not_allowed()),
    }
    let text = |content_type, text: String| crate::http::answer(StatusCode::OK, content_type, text);
    match parts.as_slice() {
        ["files" | "ocp", _, ..] => lab.shelf.serve(&path).await,
        ["boot", _, ..] => netboot::serve(lab, request, &path["/boot/".len()..]).await,
        ["openapi.json"] => Ok(text("application/json", contract::DOCUMENT.to_owned())),
        ["ca.pem"] => {
            let pem = lab.ca_pem.clone().ok_or_else(unserved)?;
            Ok(text("application/x-pem-file", pem))
        }
        ["ignition", name] => {
            let config = orders::ignition(lab, name)?.ok_or_else(unserved)?;
            Ok(text(orders::IGNITION_TYPE, config))
        }
        // A page of many nodes takes time that the other requests must not wait for.
        parts => tokio::task::block_in_place(|| page::answer(lab, request, parts)),
    }
}

/// The address that the client used: the Host header if it is valid, otherwise the socket's address.
fn base(lab: &Lab, peer: &Peer, headers: &HeaderMap) -> String {
    if let Some(url) = &lab.options.public_url {
        return url.trim_end_matches('/').to_owned();
    }
    let is_host = |c: char| c.is_ascii_alphanumeric() || ".:[]-_%".contains(c);
    let host = header(headers, "host").filter(|host| !host.is_empty() && host.chars().all(is_host));
    let host = host.map_or_else(|| peer.local.to_string(), str::to_owned);
    format!("{}://{host}", if peer.is_tls { "https" } else { "http" })
}
