//! Carries out faults: the broken answer to a request.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Body as _;
use hyper::header::CONTENT_LENGTH;
use hyper::{Response, StatusCode};
use serde_json::{Value, json};

use crate::faults::{Fault, Kind};
use crate::http::{Answer, Body, Refusal, answer, full, retry_after, set_header};
use crate::socket::Control;
use crate::stream::{Pen, written};

/// Returns true if the fault changes the real answer, so that the request must be carried out.
pub(crate) fn needs_answer(fault: &Fault) -> bool {
    match fault.kind {
        Kind::Delay
        | Kind::Drip
        | Kind::Truncate
        | Kind::Corrupt
        | Kind::WrongHash
        | Kind::WrongImageHash => true,
        Kind::Reset | Kind::Hang if fault.bytes.is_some_and(|bytes| bytes > 0) => true,
        _ => fault.processed,
    }
}

/// The fault's answer to a request that is not carried out or whose answer is discarded.
///
/// # Errors
/// The connection ends without an answer.
pub(crate) async fn instead(fault: &Fault, path: &str, control: &Control) -> io::Result<Answer> {
    Ok(match fault.kind {
        Kind::Reset => {
            control.reset();
            return Err(on_purpose());
        }
        Kind::Hang => std::future::pending().await,
        Kind::Huge => {
            let mut huge = Response::new(zeros(fault.bytes.unwrap_or(1 << 30)));
            set_header(&mut huge, "content-type", "application/json");
            huge
        }
        Kind::RedirectLoop => redirect(path),
        Kind::InvalidJson => {
            answer(StatusCode::OK, "application/json", "{\"api_version\": \"1\", \"action\": inst")
        }
        Kind::Answer => {
            let status = fault.status.and_then(|status| StatusCode::from_u16(status).ok());
            let content_type = fault.content_type.as_deref().unwrap_or("application/json");
            let body = fault.body.clone().unwrap_or_default();
            answer(status.unwrap_or(StatusCode::OK), content_type, body)
        }
        _ => error_status(fault),
    })
}

fn error_status(fault: &Fault) -> Answer {
    let status = fault.status.unwrap_or(500);
    let refusal =
        Refusal::new(status, "FAULT", format!("a fault of the lab VIM asked for status {status}"));
    let mut answer = refusal.answer();
    if let Some(text) = &fault.retry_after {
        set_header(&mut answer, "retry-after", &retry_after(text));
    }
    answer
}

fn redirect(path: &str) -> Answer {
    let mut redirect = answer(StatusCode::FOUND, "text/plain", "again\n");
    set_header(&mut redirect, "location", path);
    redirect
}

/// The real answer, changed by the fault.
///
/// # Errors
/// The connection ends without an answer.
pub(crate) async fn spoil(
    fault: &Fault,
    path: &str,
    mut answer: Answer,
    control: Arc<Control>,
) -> io::Result<Answer> {
    let n_bytes = answer.body().size_hint().exact().unwrap_or(0);
    if n_bytes > 0 {
        set_header(&mut answer, "content-length", &n_bytes.to_string());
    }
    let bytes = match fault.kind {
        Kind::Delay => {
            tokio::time::sleep(Duration::from_millis(fault.delay_ms.unwrap_or(1000))).await;
            return Ok(answer);
        }
        Kind::WrongHash => return Ok(wrong_hash(answer, "ignition").await),
        Kind::WrongImageHash => return Ok(wrong_hash(answer, "image").await),
        Kind::Drip => fault.bytes.unwrap_or(16),
        Kind::Truncate | Kind::Corrupt => fault.bytes.unwrap_or(n_bytes / 2),
        Kind::Reset | Kind::Hang if fault.bytes.is_some() => fault.bytes.unwrap_or(0),
        _ => return instead(fault, path, &control).await,
    };
    let pause = Duration::from_millis(fault.delay_ms.unwrap_or(200));
    let (parts, body) = answer.into_parts();
    let (pen, changed) = written(body.size_hint().exact());
    tokio::spawn(pass_on(body, fault.kind, bytes, pause, control, pen));
    Ok(Response::from_parts(parts, changed))
}

/// Forwards a body with the change of a fault: slowly, with a wrong bit at an offset, or with an end after some bytes.
async fn pass_on(
    mut body: Body,
    kind: Kind,
    bytes: u64,
    pause: Duration,
    control: Arc<Control>,
    pen: Pen,
) {
    let mut offset = 0u64;
    while let Some(Ok(frame)) = body.frame().await {
        let Ok(data) = frame.into_data() else { continue };
        let n_bytes = data.len() as u64;
        let is_alive = match kind {
            Kind::Drip => drip(&pen, data, bytes, pause).await,
            Kind::Corrupt => {
                let mut data = BytesMut::from(&data[..]);
                let at = bytes.checked_sub(offset).and_then(|at| usize::try_from(at).ok());
                if let Some(byte) = at.and_then(|at| data.get_mut(at)) {
                    *byte ^= 1;
                }
                pen.send(Ok(data.freeze())).await.is_ok()
            }
            _ if offset + n_bytes >= bytes => {
                let head = usize::try_from(bytes - offset).unwrap_or(usize::MAX);
                // Not awaited: the end must come even if nobody reads.
                let _ = pen.send(Ok(data.slice(..head.min(data.len())))).await;
                return end(&pen, kind, &control).await;
            }
            _ => pen.send(Ok(data)).await.is_ok(),
        };
        if !is_alive {
            return;
        }
        offset += n_bytes;
    }
    if !matches!(kind, Kind::Drip | Kind::Corrupt) {
        end(&pen, kind, &control).await;
    }
}

async fn drip(pen: &Pen, mut data: Bytes, bytes: u64, pause: Duration) -> bool {
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    while !data.is_empty() {
        let drop = data.split_to(bytes.clamp(1, data.len()));
        if pen.send(Ok(drop)).await.is_err() {
            return false;
        }
        tokio::time::sleep(pause).await;
    }
    true
}

async fn end(pen: &Pen, kind: Kind, control: &Control) {
    // Lets the bytes already written leave the machine first.
    tokio::time::sleep(Duration::from_millis(50)).await;
    if kind == Kind::Hang {
        return pen.closed().await;
    }
    if kind == Kind::Reset {
        control.reset();
    }
    let _ = pen.send(Err(on_purpose())).await;
}

fn on_purpose() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "broken on purpose")
}

/// Makes a body with zeros.
fn zeros(n_bytes: u64) -> Body {
    let (pen, body) = written(Some(n_bytes));
    tokio::spawn(async move {
        let block = Bytes::from(vec![b'0'; 64 * 1024]);
        let mut left = n_bytes;
        while left > 0 {
            let n_now = usize::try_from(left).unwrap_or(usize::MAX).min(block.len());
            if pen.send(Ok(block.slice(..n_now))).await.is_err() {
                return;
            }
            left -= n_now as u64;
        }
    });
    body
}

/// Changes the hash's last digit; adds a wrong hash where there was none.
async fn wrong_hash(answer: Answer, of: &str) -> Answer {
    let (mut parts, body) = answer.into_parts();
    let bytes = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let Ok(mut instruction) = serde_json::from_slice::<Value>(&bytes) else {
        return Response::from_parts(parts, full(bytes));
    };
    if let Some(source) = instruction["install"][of].as_object_mut() {
        let hash = source.get("hash").and_then(Value::as_str);
        source.insert("hash".to_owned(), json!(other_hash(hash)));
    }
    parts.headers.remove(CONTENT_LENGTH);
    Response::from_parts(parts, full(format!("{instruction:#}\n")))
}

fn other_hash(hash: Option<&str>) -> String {
    let mut hash = hash.map_or_else(|| format!("sha256-{}", "0".repeat(64)), str::to_owned);
    let last = hash.pop();
    hash.push(if last == Some('0') { '1' } else { '0' });
    hash
}
