//! Requests and answers of the lab VIM: the body types, the error body `Problem`, bounded reading (RFC 9110).

use std::convert::Infallible;
use std::io;
use std::io::Read;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Response, StatusCode};
use serde_json::{Value, json};

/// The body of an answer: bytes in memory, a file being read, or a stream that breaks on purpose.
pub(crate) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// An answer.
pub(crate) type Answer = Response<Body>;

/// An error answer: status, stable code, message for a person. Its body is the API's `Problem`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// HTTP status.
    pub(crate) status: StatusCode,
    /// Stable code, e.g. `REPORT_INVALID`.
    pub(crate) code: &'static str,
    /// What is wrong: where, what was found, what was expected.
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

impl From<rusqlite::Error> for Refusal {
    fn from(error: rusqlite::Error) -> Self {
        Self::new(500, "STORE", format!("the lab VIM's database: {error}"))
    }
}

/// A body from bytes in memory.
pub(crate) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never: Infallible| match never {}).boxed_unsync()
}

/// An answer with a body of the type named.
pub(crate) fn answer(status: StatusCode, content_type: &str, bytes: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(full(bytes));
    *answer.status_mut() = status;
    if let Ok(value) = HeaderValue::from_str(content_type) {
        answer.headers_mut().insert(CONTENT_TYPE, value);
    }
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

/// The text of a header, if it exists and is text.
pub(crate) fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Reads a request's body, at most `limit` bytes of it, within a minute.
///
/// # Errors
/// 413 when it is longer, 408 when it comes too slowly, 400 when the connection breaks.
pub(crate) async fn read_body(body: Incoming, limit: usize) -> Result<Bytes, Refusal> {
    match tokio::time::timeout(Duration::from_mins(1), collect(body, limit)).await {
        Ok(read) => read,
        Err(_) => Err(Refusal::new(408, "BODY_SLOW", "the body did not arrive within 60 s")),
    }
}

/// Reads a little more of a body that is too long and discards it; otherwise the client would not see the refusal.
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

/// Decompresses gzip, at most `limit` bytes of content, which stops a gzip bomb.
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

/// Decodes percent-encoding; `None` when it is malformed or not UTF-8.
pub(crate) fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if byte == b'%' {
            let (digits, tail) = tail.split_at_checked(2)?;
            let digits = std::str::from_utf8(digits).ok()?;
            if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return None;
            }
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = tail;
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

/// The value of a query parameter, decoded.
pub(crate) fn query(query: Option<&str>, name: &str) -> Option<String> {
    let pairs = query?.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.filter(|(key, _)| *key == name).find_map(|(_, value)| percent_decoded(value))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_gzip_bomb_ends_at_the_limit_with_413() {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        packer.write_all(&vec![b'0'; 1 << 20]).unwrap();
        let bomb = packer.finish().unwrap();
        assert!(bomb.len() < 2000);
        assert_eq!(gunzip(&bomb, 1000).unwrap_err().status, 413);
        assert_eq!(gunzip(&bomb, 1 << 20).unwrap().len(), 1 << 20);
    }

    #[test]
    fn a_body_that_is_not_gzip_is_refused() {
        assert_eq!(gunzip(b"{}", 1000).unwrap_err().code, "BODY_GZIP");
    }

    #[test]
    fn percent_encoding_is_decoded_and_malformed_text_is_none() {
        assert_eq!(percent_decoded("a%3Ab%2fc").as_deref(), Some("a:b/c"));
        for bad in ["%", "%4", "%zz", "%ff", "%+1"] {
            assert_eq!(percent_decoded(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_query_parameter_is_found_by_name() {
        assert_eq!(query(Some("a=1&wait_s=30"), "wait_s").as_deref(), Some("30"));
        assert_eq!(query(Some("wait=30"), "wait_s"), None);
    }
}
