//! Single requests to a server with another API than the VIM's: Ironic and assisted-service. The response is returned as
//! it is.

use std::sync::Arc;
use std::time::SystemTime;

use super::client::{Client, MAX_ANSWER_BYTES};
use super::exchange::{Ask, Body};
use super::retry::{Failed, RetryAfter, Why};
use super::url::Url;

/// What a server responded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Response {
    /// The HTTP status.
    pub status: u16,
    /// The body; at most 1 MiB.
    pub body: Vec<u8>,
    /// The server's time of day.
    pub date: Option<SystemTime>,
    /// How long the server asks to wait.
    pub retry_after: Option<RetryAfter>,
}

/// The method of a request, with its body.
#[derive(Debug, Clone)]
pub enum Method<'a> {
    /// GET.
    Get,
    /// POST of JSON.
    Post(Vec<u8>),
    /// PUT of JSON.
    Put(Vec<u8>),
    /// POST of a body of this content type.
    Upload(&'a str, Vec<u8>),
}

impl Client {
    /// The address of the server; `None` if there is none.
    #[must_use]
    pub fn base(&self) -> Option<&Url> {
        self.base.as_ref()
    }

    /// The address of `path` at the server, for messages and downloads.
    #[must_use]
    pub fn address_of(&self, path: &str) -> Option<String> {
        self.base.as_ref().map(|base| base.join(path).to_string())
    }

    /// Sends one request, without retrying: a POST if there is a body, otherwise a GET. `version` is that of Ironic's
    /// API. The body is never compressed, because Ironic does not decompress it.
    ///
    /// # Errors
    /// There was no response.
    pub fn call(
        &self,
        path: &str,
        version: Option<&'static str>,
        body: Option<&Arc<Vec<u8>>>,
    ) -> Result<Response, Failed> {
        let post =
            body.map(|bytes| Body { version, is_farewell: false, ..plain(Arc::clone(bytes)) });
        let ask = match (&post, version) {
            (Some(body), _) => Ask::Post(body),
            (None, Some(version)) => Ask::Versioned(version),
            (None, None) => Ask::Api,
        };
        self.send_to(path, ask)
    }

    /// Sends one request to `path` at the server, without retrying. After a signal the response to a POST or PUT is
    /// waited for a little longer.
    ///
    /// # Errors
    /// There was no response.
    pub fn exchange(&self, path: &str, method: Method<'_>) -> Result<Response, Failed> {
        let body = |bytes| plain(Arc::new(bytes));
        match method {
            Method::Get => self.send_to(path, Ask::Api),
            Method::Post(bytes) => self.send_to(path, Ask::Post(&body(bytes))),
            Method::Put(bytes) => self.send_to(path, Ask::Put(&body(bytes))),
            Method::Upload(content_type, bytes) => {
                self.send_to(path, Ask::Upload(&body(bytes), content_type))
            }
        }
    }

    fn send_to(&self, path: &str, ask: Ask<'_>) -> Result<Response, Failed> {
        let url = self.base.as_ref().map(|base| base.join(path)).ok_or_else(|| Failed {
            why: Why::Refused,
            ..Failed::network("no server is configured".into())
        })?;
        let reply = self.send(&url, ask, MAX_ANSWER_BYTES)?;
        let (status, retry_after) = (reply.status, reply.retry_after);
        if reply.is_cut {
            let message = format!(
                "the response of {} is too large, expected at most {MAX_ANSWER_BYTES} bytes",
                url.shown()
            );
            let (status, may_have_arrived) = (Some(status), true);
            return Err(Failed { status, may_have_arrived, ..Failed::unavailable(message) });
        }
        Ok(Response { status, body: reply.body, date: reply.date, retry_after })
    }
}

/// A body that is neither compressed nor repeated.
fn plain(bytes: Arc<Vec<u8>>) -> Body<'static> {
    Body { bytes, encoding: None, key: None, version: None, is_farewell: true }
}
