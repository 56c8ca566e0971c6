//! One request and its response, with limited sizes; failures are described with what to do next.

use std::sync::PoisonError;
use std::time::{Duration, SystemTime};

use tracing::warn;

use formats::time::{parse_http_date, rfc3339};

use super::client::{Client, MAX_ANSWER_BYTES};
use super::retry::{Failed, Why, parse_retry_after};
use super::url::Url;
use super::{transport, unreachable};
use crate::api::{IGNITION_MEDIA_TYPE, Problem};

/// The smallest difference between the clocks that is worth a warning.
const NOTABLE_SKEW: Duration = Duration::from_mins(1);

/// A whole response.
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) content_type: String,
    pub(super) location: Option<String>,
    pub(super) retry_after: Option<Duration>,
    pub(super) body: Vec<u8>,
    /// Whether the body was longer than the limit.
    pub(super) is_cut: bool,
}

/// A request body and its headers.
pub(super) struct Body<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) encoding: Option<&'static str>,
    pub(super) key: Option<&'a str>,
}
/// The kind of a request.
#[derive(Clone, Copy)]
pub(super) enum Ask<'a> {
    /// GET of the API. Redirects are not followed, since only the VIM itself is obeyed.
    Api,
    /// GET of a file that an instruction names. Redirects are followed, without the token.
    Source,
    /// POST of this body. Redirects are not followed.
    Post(&'a Body<'a>),
}

impl Client {
    /// Sends one request and reads at most `max_bytes` of the response.
    pub(super) fn send(&self, url: &Url, ask: Ask<'_>, max_bytes: u64) -> Result<Reply, Failed> {
        let sent_at = self.clock.time_of_day();
        let answer = match ask {
            Ask::Api | Ask::Source => {
                let is_source = matches!(ask, Ask::Source);
                let limit = if max_bytes > MAX_ANSWER_BYTES {
                    self.timeouts.ignition
                } else {
                    self.timeouts.body
                };
                let request = self
                    .agent
                    .get(url.to_string())
                    .config()
                    .max_redirects(if is_source { transport::MAX_REDIRECTS } else { 0 })
                    .timeout_recv_body(Some(limit))
                    .build()
                    .header("Accept", format!("application/json, {IGNITION_MEDIA_TYPE}, */*"));
                self.authorized(request, url).call()
            }
            Ask::Post(body) => {
                let mut request = self
                    .agent
                    .post(url.to_string())
                    .header("Accept", format!("application/json, {IGNITION_MEDIA_TYPE}"))
                    .header("Content-Type", "application/json");
                if let Some(encoding) = body.encoding {
                    request = request.header("Content-Encoding", encoding);
                }
                if let Some(key) = body.key {
                    request = request.header("Idempotency-Key", key);
                }
                self.authorized(request, url).send(body.bytes)
            }
        };
        let response = answer.map_err(|error| self.no_response(url, &error))?;
        self.read(url, response, max_bytes, sent_at)
    }

    /// Starts a download; returns the status, the total size and the body.
    pub(super) fn open_stream(
        &self,
        url: &Url,
        range: Option<&str>,
        limit: Duration,
    ) -> Result<(u16, Option<u64>, impl std::io::Read + use<>), Failed> {
        let mut request = self
            .agent
            .get(url.to_string())
            .config()
            .max_redirects(transport::MAX_REDIRECTS)
            .timeout_recv_body(Some(limit))
            .build();
        if let Some(range) = range {
            request = request.header("Range", range);
        }
        let response =
            self.authorized(request, url).call().map_err(|error| self.no_response(url, &error))?;
        let status = response.status().as_u16();
        if status != 200 && status != 206 {
            let reply = self.read(url, response, 64 * 1024, self.clock.time_of_day())?;
            return Err(refusal(&reply, url));
        }
        let header =
            |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
        let total_bytes = match status {
            206 => header("content-range")
                .and_then(|text| text.rsplit_once('/'))
                .and_then(|(_, total)| total.trim().parse().ok()),
            _ => header("content-length").and_then(|text| text.trim().parse().ok()),
        };
        Ok((status, total_bytes, response.into_body().into_reader()))
    }

    /// Adds the token, but only to requests to the VIM itself.
    fn authorized<T>(
        &self,
        request: ureq::RequestBuilder<T>,
        url: &Url,
    ) -> ureq::RequestBuilder<T> {
        match &self.token {
            Some(token) if url.is_same_origin(&self.base) => {
                request.header("Authorization", format!("Bearer {}", token.expose()))
            }
            _ => request,
        }
    }

    fn read(
        &self,
        url: &Url,
        response: ureq::http::Response<ureq::Body>,
        max_bytes: u64,
        sent_at: SystemTime,
    ) -> Result<Reply, Failed> {
        let (parts, mut body) = response.into_parts();
        let header = |name: &str| {
            parts.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
        };
        let date = header("date").as_deref().and_then(parse_http_date);
        if let Some(date) = date {
            self.note_skew(date, sent_at);
        }
        let reference = date.unwrap_or_else(|| self.clock.time_of_day());
        let mut bytes = Vec::new();
        let mut reader = std::io::Read::take(body.as_reader(), max_bytes + 1);
        std::io::Read::read_to_end(&mut reader, &mut bytes)
            .map_err(|error| self.broken_off(url, &error))?;
        let is_cut = bytes.len() as u64 > max_bytes;
        Ok(Reply {
            status: parts.status.as_u16(),
            content_type: header("content-type").unwrap_or_default().to_ascii_lowercase(),
            location: header("location"),
            retry_after: header("retry-after").and_then(|text| parse_retry_after(&text, reference)),
            body: bytes,
            is_cut,
        })
    }

    /// Records, and logs once, that the clocks differ.
    fn note_skew(&self, theirs: SystemTime, ours: SystemTime) {
        let difference = theirs.duration_since(ours).unwrap_or_else(|error| error.duration());
        if difference < NOTABLE_SKEW {
            return;
        }
        let mut skew = self.skew.lock().unwrap_or_else(PoisonError::into_inner);
        if skew.is_none() {
            let text = format!(
                "this machine's clock shows {}, the VIM's {}: they differ by {} s",
                rfc3339(ours),
                rfc3339(theirs),
                difference.as_secs()
            );
            warn!("{text}");
            *skew = Some(text);
        }
    }

    /// The failure of a request that got no response.
    fn no_response(&self, url: &Url, error: &ureq::Error) -> Failed {
        let (why, text) = unreachable::explain(error, self.request(url));
        Failed { why, ..Failed::network(format!("cannot reach {}: {text}", url.shown())) }
    }

    /// The failure of a response that ended while it was read.
    pub(super) fn broken_off(&self, url: &Url, error: &std::io::Error) -> Failed {
        let (why, text) = unreachable::explain_read(error, self.request(url));
        Failed { why, ..Failed::network(format!("reading {}: {text}", url.shown())) }
    }

    pub(super) fn request<'a>(&self, url: &'a Url) -> unreachable::Request<'a> {
        unreachable::Request {
            host: url.host(),
            is_https: url.is_https(),
            has_client_cert: self.agent.config().tls_config().client_cert().is_some(),
        }
    }
}

/// Checks that the server accepted a body.
pub(super) fn check_accepted(reply: &Reply, url: &Url) -> Result<(), Failed> {
    match reply.status {
        200..=299 => Ok(()),
        _ => Err(refusal(reply, url)),
    }
}

/// The failure of a request with an error status, and what to do about it.
pub(super) fn refusal(reply: &Reply, url: &Url) -> Failed {
    let status = reply.status;
    let why = match status {
        501 | 505 => Why::Refused,
        408 | 425 | 429 | 500..=599 => Why::Unavailable,
        _ => Why::Refused,
    };
    let mut message = format!("{} responded {status}", url.shown());
    if let Ok(problem) = serde_json::from_slice::<Problem>(&reply.body) {
        let text: String = problem.message.chars().filter(|c| !c.is_control()).take(200).collect();
        let code: String = problem.code.chars().filter(|c| !c.is_control()).take(64).collect();
        message.extend([" ", &code, ": ", &text]);
    }
    let advice = match status {
        300..=399 => "; configure the address that it redirects to",
        401 | 403 => {
            "; give the agent a token (--token-file) or client certificate that the VIM accepts"
        }
        404 | 405 | 501 => "; check that this is the address of a VIM with API v1",
        400..=499 if why == Why::Refused => "; the VIM or the agent needs to be corrected",
        _ => "",
    };
    message.push_str(advice);
    Failed { why, message, retry_after: reply.retry_after, status: Some(status) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vim::url::Zones;

    #[test]
    fn server_without_the_method_gets_the_advice_to_check_the_address() {
        let url = Url::parse("http://vim.example/v1/reports", &Zones::default()).unwrap();
        for status in [404, 405, 501] {
            let reply = Reply {
                status,
                content_type: String::new(),
                location: None,
                retry_after: None,
                body: Vec::new(),
                is_cut: false,
            };
            let message = refusal(&reply, &url).message;
            assert!(message.contains("check that this is the address of a VIM"), "{message}");
        }
    }
}
