//! Single requests to a server with another API than the VIM's. The response is returned as it is.

use std::sync::Arc;

use super::call::Response;
use super::client::{Client, MAX_ANSWER_BYTES};
use super::exchange::{Ask, Body};
use super::retry::{Failed, Why};

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
    /// Sends one request to `path` at the server, without retrying. After a signal the response to a POST or PUT is
    /// waited for a little longer.
    ///
    /// # Errors
    /// There was no response.
    pub fn exchange(&self, path: &str, method: Method<'_>) -> Result<Response, Failed> {
        let url = self.base.as_ref().map(|base| base.join(path)).ok_or_else(|| Failed {
            why: Why::Refused,
            ..Failed::network("no server is configured".into())
        })?;
        let body = |bytes| Body {
            bytes: Arc::new(bytes),
            encoding: None,
            key: None,
            version: None,
            is_farewell: true,
        };
        let reply = match method {
            Method::Get => self.send(&url, Ask::Api, MAX_ANSWER_BYTES),
            Method::Post(bytes) => self.send(&url, Ask::Post(&body(bytes)), MAX_ANSWER_BYTES),
            Method::Put(bytes) => self.send(&url, Ask::Put(&body(bytes)), MAX_ANSWER_BYTES),
            Method::Upload(content_type, bytes) => {
                self.send(&url, Ask::Upload(&body(bytes), content_type), MAX_ANSWER_BYTES)
            }
        }?;
        Ok(Response { status: reply.status, body: reply.body, date: reply.date })
    }

    /// The address of `path` at the server, for messages and downloads.
    #[must_use]
    pub fn address_of(&self, path: &str) -> Option<String> {
        self.base.as_ref().map(|base| base.join(path).to_string())
    }
}
