//! The requests of VIM API v1, each tried until it succeeds, the deadline passes or the agent is to end.

use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;
use tracing::{info, warn};

use super::clock::{Clock, Stop};
use super::retry::{Backoff, Failed, MAX_RETRY_AFTER, Why, parse_retry_after};
use super::transport::{self, Timeouts, VimSettings};
use super::url::{Url, Zones};
use crate::api::time::{parse_http_date, rfc3339};
use crate::api::{Accepted, EventBatch, IGNITION_MEDIA_TYPE, JobResult, Problem, is_node_id};
use crate::secret::Secret;

/// The largest instruction, or other answer of the API, in bytes.
const MAX_ANSWER_BYTES: u64 = 1024 * 1024;
/// The largest Ignition config in bytes.
pub const MAX_IGNITION_BYTES: u64 = 32 * 1024 * 1024;
/// From which difference on the clocks are said to differ.
const NOTABLE_SKEW: Duration = Duration::from_secs(60);

/// What the VIM answered to a report or when asked for an instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// An instruction, not yet read.
    Instruction(Vec<u8>),
    /// A bare Ignition config: install it on the only eligible disk.
    Ignition(Vec<u8>),
    /// Nothing yet.
    NotYet {
        /// The name under which the VIM knows the node, if it gave one.
        node_id: Option<String>,
        /// How long to wait.
        wait: Duration,
        /// Where to ask, if it said so.
        location: Option<Url>,
    },
    /// The VIM does not know the node: 404.
    NotKnown,
    /// An answer that cannot be obeyed, e.g. one that is too large.
    Unreadable(String),
}

/// The request could not be brought to success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GaveUp {
    /// The deadline has passed; the last failure.
    Deadline(Failed),
    /// The agent is to end.
    Stopped,
}

impl std::fmt::Display for GaveUp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Deadline(failed) => write!(f, "{}; the time for it is over", failed.message),
            Self::Stopped => f.write_str("told to end"),
        }
    }
}

/// Speaks with one VIM.
#[derive(Debug)]
pub struct Client {
    base: Url,
    zones: Zones,
    agent: ureq::Agent,
    token: Option<Secret>,
    timeouts: Timeouts,
    deadline: Option<Duration>,
    clock: Arc<dyn Clock>,
    stop: Stop,
    skew: Mutex<Option<String>>,
}

/// A whole answer.
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) content_type: String,
    pub(super) location: Option<String>,
    pub(super) retry_after: Option<Duration>,
    pub(super) body: Vec<u8>,
    pub(super) is_cut: bool,
}

/// A request body and its headers.
pub(super) struct Body<'a> {
    bytes: &'a [u8],
    encoding: Option<&'static str>,
    key: Option<&'a str>,
}

impl Client {
    /// Makes a client; nothing is sent yet.
    ///
    /// # Errors
    /// The address is none, plain HTTP is not allowed, or a file cannot be read.
    pub fn new(settings: &VimSettings, clock: Arc<dyn Clock>, stop: Stop) -> anyhow::Result<Self> {
        let zones = Zones::default();
        let base = Url::parse(&settings.url, &zones)?;
        ensure!(
            base.is_https() || settings.allow_plain_http,
            "the VIM's address is {}, but plain HTTP is not allowed; use https, or allow it by \
             name with allow_plain_http",
            base.shown()
        );
        let (agent, token) = transport::agent(settings, &zones)?;
        Ok(Self {
            base,
            zones,
            agent,
            token,
            timeouts: settings.timeouts,
            deadline: settings.deadline,
            clock,
            stop,
            skew: Mutex::new(None),
        })
    }

    /// Posts the report and returns what the VIM says to it.
    ///
    /// # Errors
    /// [`GaveUp`]; the report is not with the VIM.
    pub fn post_report(&self, report: &impl Serialize) -> Result<Answer, GaveUp> {
        let url = self.base.join("/v1/reports");
        let (bytes, encoding) = match gzip_json(report) {
            Ok(bytes) => (bytes, Some("gzip")),
            // Cannot happen with a serde_json value; an empty report still makes the node heard.
            Err(error) => {
                warn!(%error, "writing the report as JSON");
                (b"{}".to_vec(), None)
            }
        };
        let key = uuid();
        let body = Body { bytes: &bytes, encoding, key: Some(&key) };
        self.until_success("posting the report", self.deadline, || {
            self.answer(self.send(&url, Some(&body), MAX_ANSWER_BYTES)?, &url)
        })
    }

    /// Asks for the instruction at `location`, or where the API says.
    ///
    /// # Errors
    /// [`GaveUp`].
    pub fn instruction(&self, node_id: &str, location: Option<&Url>) -> Result<Answer, GaveUp> {
        let url = location
            .cloned()
            .unwrap_or_else(|| self.base.join(&format!("/v1/nodes/{node_id}/instruction")));
        self.until_success("asking for the instruction", self.deadline, || {
            let reply = self.send(&url, None, MAX_IGNITION_BYTES)?;
            if reply.status == 404 { Ok(Answer::NotKnown) } else { self.answer(reply, &url) }
        })
    }

    /// Posts the result, trying for `limit` at most.
    ///
    /// # Errors
    /// [`GaveUp`]; the VIM does not know how the job ended.
    pub fn post_result(
        &self,
        node_id: &str,
        result: &JobResult,
        limit: Option<Duration>,
    ) -> Result<(), GaveUp> {
        let url = self.base.join(&format!("/v1/nodes/{node_id}/result"));
        let bytes = serde_json::to_vec(result).unwrap_or_default();
        let key = uuid();
        let body = Body { bytes: &bytes, encoding: None, key: Some(&key) };
        self.until_success("posting the result", limit, || {
            self.taken(&self.send(&url, Some(&body), MAX_ANSWER_BYTES)?, &url)
        })
    }

    /// Posts events, once.
    ///
    /// # Errors
    /// The VIM did not take them.
    pub fn post_events(&self, node_id: &str, events: &EventBatch) -> Result<(), Failed> {
        let url = self.base.join(&format!("/v1/nodes/{node_id}/events"));
        let bytes = serde_json::to_vec(events).unwrap_or_default();
        let body = Body { bytes: &bytes, encoding: None, key: None };
        self.taken(&self.send(&url, Some(&body), MAX_ANSWER_BYTES)?, &url)
    }

    /// How far this machine's clock is from the VIM's, in words; `None`: not notably.
    #[must_use]
    pub fn clock_skew(&self) -> Option<String> {
        self.skew.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Tries until it succeeds; says on the console what failed and when the next try is.
    pub(super) fn until_success<T>(
        &self,
        what: &str,
        limit: Option<Duration>,
        mut attempt: impl FnMut() -> Result<T, Failed>,
    ) -> Result<T, GaveUp> {
        let started = self.clock.now();
        let mut backoff = Backoff::default();
        loop {
            // A last try is made even if the agent is to end: the VIM shall hear of it.
            let failed = match attempt() {
                Ok(value) => return Ok(value),
                Err(failed) => failed,
            };
            if self.stop.is_stopped() {
                return Err(GaveUp::Stopped);
            }
            let wait = backoff.wait(&failed, self.clock.as_ref());
            let spent = self.clock.now().saturating_duration_since(started);
            if limit.is_some_and(|limit| spent + wait > limit) {
                return Err(GaveUp::Deadline(failed));
            }
            info!(
                n_tries = backoff.n_failed(),
                next_try_s = wait.as_secs_f32().ceil(),
                "{what}: {}",
                failed.message
            );
            self.clock.sleep(wait, &self.stop);
            if self.stop.is_stopped() {
                return Err(GaveUp::Stopped);
            }
        }
    }

    pub(super) fn parse_url(&self, text: &str) -> anyhow::Result<Url> {
        let url = Url::parse(text, &self.zones)?;
        ensure!(
            url.is_https() || !self.agent.config().https_only(),
            "{} is plain HTTP, which the configuration does not allow",
            url.shown()
        );
        Ok(url)
    }

    /// Sends one request and reads at most `max_bytes` of the answer.
    pub(super) fn send(
        &self,
        url: &Url,
        body: Option<&Body<'_>>,
        max_bytes: u64,
    ) -> Result<Reply, Failed> {
        let sent_at = self.clock.time_of_day();
        let answer = match body {
            None => {
                let limit = if max_bytes > MAX_ANSWER_BYTES {
                    self.timeouts.ignition
                } else {
                    self.timeouts.body
                };
                let request = self
                    .agent
                    .get(url.to_string())
                    .config()
                    .max_redirects(transport::MAX_REDIRECTS)
                    .timeout_recv_body(Some(limit))
                    .build()
                    .header("Accept", format!("application/json, {IGNITION_MEDIA_TYPE}, */*"));
                self.authorized(request, url).call()
            }
            Some(body) => {
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
        let response = answer.map_err(|error| self.broken(url, &error))?;
        self.read(url, response, max_bytes, sent_at)
    }

    /// Begins a download: status, size of the whole, and the body to read from.
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
            self.authorized(request, url).call().map_err(|error| self.broken(url, &error))?;
        let status = response.status().as_u16();
        if status != 200 && status != 206 {
            let reply = self.read(url, response, 64 * 1024, self.clock.time_of_day())?;
            return Err(refused(&reply, url));
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

    /// Adds the token, but only for the VIM itself.
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
        std::io::Read::read_to_end(&mut reader, &mut bytes).map_err(|error| {
            Failed::network(format!("reading the answer of {}: {error}", url.shown()))
        })?;
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

    /// Remembers, and says once, that the clocks differ.
    fn note_skew(&self, theirs: SystemTime, ours: SystemTime) {
        let difference = theirs.duration_since(ours).unwrap_or_else(|error| error.duration());
        if difference < NOTABLE_SKEW {
            return;
        }
        let mut skew = self.skew.lock().unwrap_or_else(PoisonError::into_inner);
        if skew.is_none() {
            let text = format!(
                "this machine's clock says {}, the VIM's {}: {} s apart",
                rfc3339(ours),
                rfc3339(theirs),
                difference.as_secs()
            );
            warn!("{text}");
            *skew = Some(text);
        }
    }

    /// A failure below HTTP, in words that help.
    fn broken(&self, url: &Url, error: &ureq::Error) -> Failed {
        let mut message = format!("reaching {}: {error}", url.shown());
        if let ureq::Error::Rustls(rustls::Error::InvalidCertificate(cause)) = error {
            use rustls::CertificateError as E;
            let hint = match cause {
                E::Expired
                | E::ExpiredContext { .. }
                | E::NotValidYet
                | E::NotValidYetContext { .. } => format!(
                    "; this machine's clock says {}, set it right or renew the certificate",
                    rfc3339(self.clock.time_of_day())
                ),
                E::UnknownIssuer => {
                    "; give the agent the CA that signed the VIM's certificate".to_owned()
                }
                _ => "; the certificate is not for this address".to_owned(),
            };
            message.push_str(&hint);
            return Failed { why: Why::Refused, message, retry_after: None, status: None };
        }
        Failed::network(message)
    }

    /// Reads the answer to a report or to the question for an instruction.
    fn answer(&self, reply: Reply, url: &Url) -> Result<Answer, Failed> {
        let media_type = reply.content_type.split(';').next().unwrap_or_default().trim();
        match reply.status {
            200 | 201 if reply.is_cut => {
                Ok(Answer::Unreadable(format!("the answer of {} is too large", url.shown())))
            }
            200 | 201 if media_type == IGNITION_MEDIA_TYPE => Ok(Answer::Ignition(reply.body)),
            200 | 201 if reply.body.len() as u64 > MAX_ANSWER_BYTES => Ok(Answer::Unreadable(
                format!("the instruction is larger than {MAX_ANSWER_BYTES} bytes"),
            )),
            200 | 201 => Ok(Answer::Instruction(reply.body)),
            202 => {
                let accepted: Option<Accepted> = serde_json::from_slice(&reply.body).ok();
                let asked = accepted
                    .as_ref()
                    .and_then(|accepted| accepted.retry_after_s)
                    .map(Duration::from_secs);
                Ok(Answer::NotYet {
                    node_id: accepted.map(|accepted| accepted.node_id).filter(|id| is_node_id(id)),
                    wait: reply
                        .retry_after
                        .or(asked)
                        .unwrap_or(Duration::from_secs(10))
                        .clamp(Duration::from_secs(1), MAX_RETRY_AFTER),
                    location: reply
                        .location
                        .and_then(|location| self.base.at_location(&location, &self.zones)),
                })
            }
            _ => Err(refused(&reply, url)),
        }
    }

    /// Whether a body was taken.
    fn taken(&self, reply: &Reply, url: &Url) -> Result<(), Failed> {
        match reply.status {
            200..=299 => Ok(()),
            _ => Err(refused(reply, url)),
        }
    }
}

/// An answer that is not a success, in words that help.
pub(super) fn refused(reply: &Reply, url: &Url) -> Failed {
    let status = reply.status;
    let why = match status {
        408 | 425 | 429 | 500..=599 => Why::Unavailable,
        _ => Why::Refused,
    };
    let mut message = format!("{} answered {status}", url.shown());
    if let Ok(problem) = serde_json::from_slice::<Problem>(&reply.body) {
        let text: String = problem.message.chars().filter(|c| !c.is_control()).take(200).collect();
        let code: String = problem.code.chars().filter(|c| !c.is_control()).take(64).collect();
        message.push_str(&format!(" {code}: {text}"));
    }
    let advice = match status {
        300..=399 => "; configure the address that it redirects to",
        401 | 403 => "; give the agent a token or client certificate that the VIM takes",
        404 | 405 => "; is this the address of a VIM that speaks API v1?",
        400..=499 if why == Why::Refused => "; the VIM or the agent has to be put right",
        _ => "",
    };
    message.push_str(advice);
    Failed { why, message, retry_after: reply.retry_after, status: Some(status) }
}

/// JSON, packed.
fn gzip_json(value: &impl Serialize) -> anyhow::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    serde_json::to_writer(&mut encoder, value).context("writing JSON")?;
    encoder.flush().context("packing")?;
    encoder.finish().context("packing")
}

/// A random UUID (RFC 9562, version 4).
pub(crate) fn uuid() -> String {
    let mut bytes = crate::bounded::random::<16>().unwrap_or_else(|| {
        SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or([0; 16], |since| since.as_nanos().to_le_bytes())
    });
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = crate::digest::hex(&bytes);
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_a_version_4_uuid_and_never_the_same() {
        let (one, two) = (uuid(), uuid());
        assert_ne!(one, two);
        assert_eq!(one.len(), 36);
        assert_eq!(one.as_bytes()[14], b'4');
        assert!(b"89ab".contains(&one.as_bytes()[19]));
    }
}
