//! One request to a server with another API than the VIM's, here Ironic; the response is returned as it is.

use std::sync::Arc;
use std::time::SystemTime;

use super::client::{Client, MAX_ANSWER_BYTES};
use super::exchange::{Ask, Body};
use super::retry::{Failed, Why};
use super::url::Url;

/// What a server responded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Response {
    /// The HTTP status.
    pub status: u16,
    /// The body; at most 1 MiB of it.
    pub body: Vec<u8>,
    /// The server's time of day.
    pub date: Option<SystemTime>,
}

impl Client {
    /// The address of the server; `None` if there is none.
    #[must_use]
    pub fn base(&self) -> Option<&Url> {
        self.base.as_ref()
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
        let url = self.base.as_ref().map(|base| base.join(path)).ok_or_else(|| Failed {
            why: Why::Refused,
            ..Failed::network("no server is configured".into())
        })?;
        let post = body.map(|bytes| Body {
            bytes: Arc::clone(bytes),
            encoding: None,
            key: None,
            version,
            is_farewell: false,
        });
        let ask = match (&post, version) {
            (Some(body), _) => Ask::Post(body),
            (None, Some(version)) => Ask::Versioned(version),
            (None, None) => Ask::Api,
        };
        let reply = self.send(&url, ask, MAX_ANSWER_BYTES)?;
        Ok(Response { status: reply.status, body: reply.body, date: reply.date })
    }
}
