//! Carries out faults: the broken answer to a request.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Body as _;
use hyper::header::CONTENT_LENGTH;
use hyper::{Response, StatusCode};
use serde_json::{Value, json};

use crate::faults::{Fault, Kind};
use crate::http::{Answer, Refusal, answer, full, retry_after, set_header};
use crate::socket::{Broken, Control};
use crate::stream::{Change, End, changed, zeros};

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
pub(crate) async fn instead(
    fault: &Fault,
    path: &str,
    control: &Control,
) -> Result<Answer, Broken> {
    Ok(match fault.kind {
        Kind::Reset => {
            control.reset();
            return Err(Broken);
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
) -> Result<Answer, Broken> {
    let n_bytes = answer.body().size_hint().exact().unwrap_or(0);
    if n_bytes > 0 {
        set_header(&mut answer, "content-length", &n_bytes.to_string());
    }
    let bytes = fault.bytes;
    let pause = Duration::from_millis(fault.delay_ms.unwrap_or(200));
    let end_at = |bytes, end| Change::EndAt { bytes, end };
    let change = match fault.kind {
        Kind::Delay => {
            tokio::time::sleep(Duration::from_millis(fault.delay_ms.unwrap_or(1000))).await;
            return Ok(answer);
        }
        Kind::WrongHash => return Ok(wrong_hash(answer, "ignition").await),
        Kind::WrongImageHash => return Ok(wrong_hash(answer, "image").await),
        Kind::Drip => {
            let bytes = usize::try_from(bytes.unwrap_or(16)).unwrap_or(usize::MAX);
            Change::Drip { bytes, pause }
        }
        Kind::Truncate => end_at(bytes.unwrap_or(n_bytes / 2), End::Close),
        Kind::Corrupt => Change::Flip { offset: bytes.unwrap_or(n_bytes / 2) },
        Kind::Reset if bytes.is_some() => end_at(bytes.unwrap_or(0), End::Reset),
        Kind::Hang if bytes.is_some() => end_at(bytes.unwrap_or(0), End::Silence),
        _ => return instead(fault, path, &control).await,
    };
    let (parts, body) = answer.into_parts();
    Ok(Response::from_parts(parts, changed(body, change, control)))
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
