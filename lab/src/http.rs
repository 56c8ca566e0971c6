//! The lab VIM's requests and answers: their types, the error body `Problem`, bounded reading (RFC 9110).

use std::convert::Infallible;
use std::io;
use std::io::Read;
use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{HeaderMap, HeaderValue};
use hyper::{Method, Response, StatusCode};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde_json::{Value, json};

/// An answer's body: bytes in memory, a file being read, or a stream that breaks on purpose.
pub(crate) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// A request with its body read.
#[derive(Debug, Default)]
pub(crate) struct Request {
    /// GET, POST, …
    pub(crate) method: Method,
    /// The path as received, percent-encoded.
    pub(crate) path: String,
    /// The query as received.
    pub(crate) query: Option<String>,
    /// The headers.
    pub(crate) headers: HeaderMap,
    /// The body as received; empty where none is expected.
    pub(crate) body: Bytes,
    /// Address at which the client reached this VIM, e.g. `http://10.0.2.2:8080`.
    pub(crate) base: String,
    /// True if the client is on this machine.
    pub(crate) is_local: bool,
    /// True if the client presented a certificate from our CA.
    pub(crate) has_client_certificate: bool,
}

/// An answer.
pub(crate) type Answer = Response<Body>;

/// An error answer: status, stable code, message for a person. Its body is the API's `Problem`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// HTTP status.
    pub(crate) status: StatusCode,
    /// Stable code, e.g. `REPORT_INVALID`.
    pub(crate) code: &'static str,
    /// The fault: its place, the found and the expected value.
    pub(crate) message: String,
}

impl Refusal {
    /// A refusal with the status number; an impossible number becomes 500.
    pub(crate) fn new(status: u16, code: &'static str, message: impl Into<String>) -> Self {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self { status, code, message: message.into() }
    }

    /// The answer with this refusal.
    pub(crate) fn answer(&self) -> Answer {
        json_answer(self.status, &json!({"code": self.code, "message": self.message}))
    }
}

/// The refusal of a path that does not exist.
pub(crate) fn unserved() -> Refusal {
    Refusal::new(404, "PATH_UNKNOWN", "this path is not served here")
}

/// The refusal of a method that a path does not have.
pub(crate) fn not_allowed() -> Refusal {
    Refusal::new(405, "METHOD", "this path accepts GET and HEAD")
}

impl From<rusqlite::Error> for Refusal {
    fn from(error: rusqlite::Error) -> Self {
        Self::new(500, "STORE", format!("the lab VIM's database: {error}"))
    }
}

/// A body from bytes in memory.
pub(crate) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never: Infallible| match never {}).boxed_unsync()
}

/// Makes an answer with a body of this type.
pub(crate) fn answer(status: StatusCode, content_type: &str, bytes: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(full(bytes));
    *answer.status_mut() = status;
    set_header(&mut answer, "content-type", content_type);
    answer
}

/// An answer in JSON.
pub(crate) fn json_answer(status: StatusCode, value: &Value) -> Answer {
    answer(status, "application/json", compare::escaped_json(&format!("{value:#}\n")))
}

/// An answer without a body (204).
pub(crate) fn no_content() -> Answer {
    let mut answer = Response::new(full(Bytes::new()));
    *answer.status_mut() = StatusCode::NO_CONTENT;
    answer
}

/// Returns a header's text, if it exists and is text.
pub(crate) fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Reads a request's body, at most `limit` bytes, within a minute.
///
/// # Errors
/// 413 when it is longer, 408 when it comes too slowly, 400 when the connection breaks.
pub(crate) async fn read_body(body: Incoming, limit: usize) -> Result<Bytes, Refusal> {
    match tokio::time::timeout(Duration::from_mins(1), collect(body, limit)).await {
        Ok(read) => read,
        Err(_) => Err(Refusal::new(408, "BODY_SLOW", "the body did not arrive within 60 s")),
    }
}

/// Reads and discards a little more of a body that is too long; otherwise the client would not see the refusal.
async fn collect(mut body: Incoming, limit: usize) -> Result<Bytes, Refusal> {
    let mut read = BytesMut::new();
    let mut n_dropped = 0usize;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            Refusal::new(400, "BODY_BROKEN", format!("reading the body: {error}"))
        })?;
        let Ok(data) = frame.into_data() else { continue };
        if n_dropped > 0 || read.len() + data.len() > limit {
            n_dropped += data.len();
            if n_dropped > limit {
                break;
            }
        } else {
            read.extend_from_slice(&data);
        }
    }
    if n_dropped > 0 { Err(too_large(limit)) } else { Ok(read.freeze()) }
}

/// Decompresses gzip, at most `limit` bytes, which stops a gzip bomb.
///
/// # Errors
/// 413 when the content is longer, 400 when it is not gzip.
pub(crate) fn gunzip(packed: &[u8], limit: usize) -> Result<Bytes, Refusal> {
    let bound = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    let mut content = Vec::new();
    flate2::read::MultiGzDecoder::new(packed).take(bound).read_to_end(&mut content).map_err(
        |error| Refusal::new(400, "BODY_GZIP", format!("the body is not complete gzip: {error}")),
    )?;
    if content.len() > limit { Err(too_large(limit)) } else { Ok(content.into()) }
}

fn too_large(limit: usize) -> Refusal {
    let message = format!("the body exceeds {limit} bytes, the limit of this VIM");
    Refusal::new(413, "BODY_TOO_LARGE", message)
}

/// Decodes percent-encoding; `None` when the result is not UTF-8.
pub(crate) fn percent_decoded(text: &str) -> Option<String> {
    percent_decode_str(text).decode_utf8().ok().map(Into::into)
}

/// Characters that an address part contains unencoded.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Percent-encodes an address part.
pub(crate) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, PLAIN).to_string()
}

/// Returns the decoded value for a name in a query or form.
pub(crate) fn query(query: Option<&str>, name: &str) -> Option<String> {
    let mut pairs = form_urlencoded::parse(query?.as_bytes());
    pairs.find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

/// Returns a Retry-After header: `date:SECONDS` becomes an HTTP date that far from now; other text is unchanged.
pub(crate) fn retry_after(text: &str) -> String {
    match text.strip_prefix("date:").and_then(|seconds| seconds.parse().ok()) {
        Some(seconds) => httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(seconds)),
        None => text.to_owned(),
    }
}

/// Sets a header, unless the value is invalid in a header.
pub(crate) fn set_header(answer: &mut Answer, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        answer.headers_mut().insert(name, value);
    }
}
