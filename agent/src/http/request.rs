//! A request before it has an address, and the whole response to it.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::SystemTime;

use ureq::http::Method;

use super::retry::RetryAfter;
use super::{IGNITION_MEDIA_TYPE, JSON_MEDIA_TYPE};

/// A request.
#[derive(Debug, Clone)]
pub struct Request {
    pub(super) method: Method,
    pub(super) headers: Vec<(Cow<'static, str>, String)>,
    pub(super) body: Option<Arc<Vec<u8>>>,
    pub(super) is_source: bool,
    pub(super) is_start: bool,
    pub(super) is_farewell: bool,
}

impl Request {
    fn new(method: Method, body: Option<Arc<Vec<u8>>>) -> Self {
        let json = body.as_ref().map(|_| ("Content-Type".into(), JSON_MEDIA_TYPE.to_owned()));
        let accept = format!("{JSON_MEDIA_TYPE}, {}", ignition_type(ignition::check::MAX_MINOR));
        let headers = json.into_iter().chain([("Accept".into(), accept)]).collect();
        Self { method, headers, body, is_source: false, is_start: false, is_farewell: false }
    }

    /// GET of an API. Redirects are not followed, since only the server itself is obeyed.
    pub fn get() -> Self {
        Self::new(Method::GET, None)
    }

    /// POST of JSON. Redirects are not followed.
    pub fn post(body: impl Into<Arc<Vec<u8>>>) -> Self {
        Self::new(Method::POST, Some(body.into()))
    }

    /// PUT of JSON. Redirects are not followed.
    pub fn put(body: impl Into<Arc<Vec<u8>>>) -> Self {
        Self::new(Method::PUT, Some(body.into()))
    }

    /// GET of a file that an instruction names. Redirects are followed, without the token.
    pub(crate) fn source() -> Self {
        Self { is_source: true, ..Self::get() }.with("Accept", "*/*")
    }

    /// The same for an Ignition config of at most spec 3.`minor`, with the header that Ignition sends
    /// (`internal/resource/url.go`): a machine-config server converts its config to the version that it names, and to spec 2.2
    /// without one.
    pub(super) fn ignition(minor: u64) -> Self {
        Self::source().with("Accept", format!("{}, */*;q=0.1", ignition_type(minor)))
    }

    /// HEAD of such a file: whether it is there, and its size.
    pub(crate) fn head() -> Self {
        Self { method: Method::HEAD, ..Self::source() }
    }

    /// The same as [`Request::source`] for the first bytes of a file.
    pub(crate) fn start(n_bytes: u64) -> Self {
        let request = Self { is_start: true, ..Self::source() };
        request.with("Range", format!("bytes=0-{}", n_bytes - 1))
    }

    /// The same with a header, which replaces another of this name.
    pub fn with(mut self, name: impl Into<Cow<'static, str>>, value: impl Into<String>) -> Self {
        let name = name.into();
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(&name));
        self.headers.push((name, value.into()));
        self
    }

    /// The same as the last message of a job: after a signal its response is waited for a little longer, if it has a body.
    pub fn farewell(self) -> Self {
        Self { is_farewell: self.body.is_some(), ..self }
    }
}

/// The media type of an Ignition config, with a version for a server that has several.
fn ignition_type(minor: u64) -> String {
    format!("{IGNITION_MEDIA_TYPE};version=3.{minor}.0")
}

/// A whole response.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Response {
    /// The HTTP status.
    pub status: u16,
    /// The header `Content-Type`, in lower case.
    pub content_type: String,
    /// The header `Location`.
    pub location: Option<String>,
    /// The body, or its beginning.
    pub body: Vec<u8>,
    /// True if the body was longer than the limit.
    pub is_cut: bool,
    /// Size of the whole file; the body may be a part of it.
    pub total_bytes: Option<u64>,
    /// The server's time of day.
    pub date: Option<SystemTime>,
    /// The wait that the server asks for.
    pub retry_after: Option<RetryAfter>,
    /// The header `Retry-After` as it was sent.
    pub retry_after_text: Option<String>,
    /// The headers `WWW-Authenticate`.
    pub challenges: String,
    /// The VIM's signature, in base64.
    pub signature: Option<String>,
}
