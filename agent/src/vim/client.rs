//! The requests of VIM API v1, each tried until it succeeds, the deadline passes or the agent is to end.

use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::ensure;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;
use tracing::warn;

use super::exchange::{Ask, Body, Reply, refused, taken};
use super::retry::{Backoff, Failed, MAX_RETRY_AFTER, Why};
use super::transport::{self, Timeouts, VimSettings};
use super::url::{Url, Zones};
use crate::api::{Accepted, EventBatch, IGNITION_MEDIA_TYPE, JobResult, is_node_id};
use crate::clock::Clock;
use crate::secret::Secret;
use crate::signals::Stop;
use crate::uuid;

/// The largest instruction, or other answer of the API, in bytes.
pub(super) const MAX_ANSWER_BYTES: u64 = 1024 * 1024;
/// How often a result is posted that the VIM refuses.
const MAX_REFUSED_RESULTS: u32 = 8;
/// The largest Ignition config in bytes.
pub const MAX_IGNITION_BYTES: u64 = 32 * 1024 * 1024;

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
    /// The VIM does not know the node: 404; what it said, and how long it asks to wait.
    NotKnown(Failed),
    /// An answer that cannot be obeyed, e.g. one that is too large.
    Unreadable(String),
}

/// The request could not be brought to success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GaveUp {
    /// The deadline has passed; the last failure.
    Deadline(Failed),
    /// The VIM does not take it, also not when asked again; what it said.
    Refused(Failed),
    /// The agent is to end.
    Stopped,
}

impl std::fmt::Display for GaveUp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Deadline(failed) => write!(f, "{}; the time for it is over", failed.message),
            Self::Refused(failed) => f.write_str(&failed.message),
            Self::Stopped => f.write_str("told to end"),
        }
    }
}

/// Speaks with one VIM.
#[derive(Debug)]
pub struct Client {
    pub(super) base: Url,
    pub(super) zones: Zones,
    pub(super) agent: ureq::Agent,
    pub(super) token: Option<Secret>,
    pub(super) timeouts: Timeouts,
    pub(super) deadline: Option<Duration>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) stop: Stop,
    pub(super) skew: Mutex<Option<String>>,
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

    /// Posts the report, which is JSON, and returns what the VIM says to it.
    ///
    /// # Errors
    /// [`GaveUp`]; the report is not with the VIM.
    pub fn post_report(&self, report: &[u8]) -> Result<Answer, GaveUp> {
        let url = self.base.join("/v1/reports");
        // Packing into memory cannot fail; if it ever does, the report goes out as it is.
        let packed = gzip(report).ok();
        let encoding = packed.is_some().then_some("gzip");
        let bytes = packed.as_deref().unwrap_or(report);
        let key = uuid::random();
        let body = Body { bytes, encoding, key: Some(&key) };
        self.until_success("posting the report", self.deadline, || {
            self.answer(self.send(&url, Ask::Post(&body), MAX_ANSWER_BYTES)?, &url)
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
            let reply = self.send(&url, Ask::Api, MAX_IGNITION_BYTES)?;
            match reply.status {
                404 => Ok(Answer::NotKnown(refused(&reply, &url))),
                _ => self.answer(reply, &url),
            }
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
        let bytes = json(result, "the result").map_err(GaveUp::Refused)?;
        let key = uuid::random();
        let body = Body { bytes: &bytes, encoding: None, key: Some(&key) };
        let mut n_refused = 0;
        self.until_success("posting the result", limit, || {
            let reply = self.send(&url, Ask::Post(&body), MAX_ANSWER_BYTES)?;
            match taken(&reply, &url) {
                Err(failed) if failed.why == Why::Refused => {
                    n_refused += 1;
                    // A server without this path will not get it; anything else may be put right.
                    let has_no_path = matches!(failed.status, Some(404 | 405 | 410 | 501));
                    let most = if has_no_path { 2 } else { MAX_REFUSED_RESULTS };
                    if n_refused >= most { Ok(Err(GaveUp::Refused(failed))) } else { Err(failed) }
                }
                outcome => outcome.map(Ok),
            }
        })?
    }

    /// Posts events, once.
    ///
    /// # Errors
    /// The VIM did not take them.
    pub fn post_events(&self, node_id: &str, events: &EventBatch) -> Result<(), Failed> {
        let url = self.base.join(&format!("/v1/nodes/{node_id}/events"));
        let bytes = json(events, "the events")?;
        let body = Body { bytes: &bytes, encoding: None, key: None };
        taken(&self.send(&url, Ask::Post(&body), MAX_ANSWER_BYTES)?, &url)
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
            warn!(
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
            // 204: taken, and nothing to say yet; the same as 202 without a body.
            202 | 204 => {
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
}

/// `value` as JSON. A value without a JSON form is a failure, never an empty body.
fn json(value: &impl Serialize, what: &str) -> Result<Vec<u8>, Failed> {
    serde_json::to_vec(value).map_err(|error| Failed {
        why: Why::Refused,
        ..Failed::network(format!("writing {what} as JSON: {error}"))
    })
}

fn gzip(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes)?;
    encoder.finish()
}
