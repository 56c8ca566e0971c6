//! A client of one server: its address, its token, and how a request is repeated.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::ensure;
use probes::findings::Finding;
use tracing::warn;

use super::expired;
use super::retry::{Backoff, Failed};
use super::token::Token;
use super::transport::{ServerSettings, Transport, certificates, connect};
use super::url::{Url, Zones};
use crate::clock::Clock;
use crate::secret;
use crate::signals::Stop;

/// Largest instruction or other response of the API, in bytes.
pub(crate) const MAX_ANSWER_BYTES: u64 = 1024 * 1024;
/// Largest Ignition config, in bytes; the check of configs accepts no larger one.
pub const MAX_IGNITION_BYTES: u64 = 8 * 1024 * 1024;

/// Why a request was given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GaveUp {
    /// The deadline passed; the last failure.
    Deadline(Failed),
    /// The server refused it repeatedly; the last failure.
    Refused(Failed),
    /// A signal ended the agent.
    Stopped,
}

impl std::fmt::Display for GaveUp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Deadline(failed) => write!(f, "{}; the time limit has passed", failed.message),
            Self::Refused(failed) => f.write_str(&failed.message),
            Self::Stopped => f.write_str("interrupted by a signal"),
        }
    }
}

/// A client of one server, or of none: then it only fetches files.
#[derive(Debug)]
pub struct Client {
    pub(crate) base: Option<Url>,
    pub(super) zones: Zones,
    pub(super) transport: Arc<dyn Transport>,
    pub(super) token: Option<Token>,
    pub(crate) settings: ServerSettings,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) stop: Stop,
    pub(super) skew: Mutex<Option<Finding>>,
    /// True if the last answer was not signed with the key that the settings name.
    pub(super) is_unsigned: AtomicBool,
    /// When the client was made: `deadline` counts from then.
    started: Instant,
}

impl Client {
    /// Makes a client without sending anything.
    ///
    /// # Errors
    /// The address is malformed, plain HTTP is not allowed, or a file cannot be read.
    pub fn new(
        settings: &ServerSettings,
        clock: Arc<dyn Clock>,
        stop: Stop,
    ) -> anyhow::Result<Self> {
        let zones = Zones::default();
        let base = settings.url.as_deref().map(|url| Url::parse(url, &zones)).transpose()?;
        if let Some(base) = &base {
            ensure!(
                base.is_https() || settings.allow_plain_http,
                "the server's address is {}, but plain HTTP is not allowed; use https://, or allow it with \
                 --allow-plain-http",
                base.shown()
            );
        }
        let (transport, token) = connect(settings, &zones)?;
        if let Some(file) = &settings.ca_file
            && let Some(warning) = expired::warning(file, &certificates(file)?, clock.time_of_day())
        {
            warn!("{warning}");
        }
        Ok(Self {
            started: clock.now(),
            base,
            zones,
            transport,
            token,
            settings: settings.clone(),
            clock,
            stop,
            skew: Mutex::new(None),
            is_unsigned: AtomicBool::new(false),
        })
    }

    /// Returns the time left of `--give-up-after`; `None` without a limit. One clock runs over the whole job, so that a
    /// server that answers now and then does not restart it.
    pub fn time_left(&self) -> Option<Duration> {
        let spent = self.clock.now().saturating_duration_since(self.started);
        self.settings.deadline.map(|deadline| deadline.saturating_sub(spent))
    }

    /// The finding of a clock that differs from the server's, by its last response.
    pub fn clock_skew(&self) -> Option<Finding> {
        self.skew.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the time for which an image may send nothing until that is reported.
    pub fn stall_notice(&self) -> Duration {
        self.settings.timeouts.stall_notice
    }

    /// Repeats `attempt` until it succeeds; logs each failure and the wait before the next attempt.
    pub(crate) fn until_success<T>(
        &self,
        what: &str,
        limit: Option<Duration>,
        mut attempt: impl FnMut() -> Result<T, Failed>,
    ) -> Result<T, GaveUp> {
        let started = self.clock.now();
        let mut backoff = Backoff::default();
        loop {
            // After a signal one attempt is still made, so that the server learns how the job ended.
            let failed = match attempt() {
                Ok(value) => return Ok(value),
                Err(failed) => failed,
            };
            if self.stop.is_stopped() {
                return Err(GaveUp::Stopped);
            }
            let wait = backoff.wait(&failed, self.clock.as_ref());
            let spent = self.clock.now().saturating_duration_since(started);
            let left = limit.map(|limit| limit.saturating_sub(spent));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(GaveUp::Deadline(failed));
            }
            // The last attempt is made when the limit passes, however long the server asks to wait.
            let wait = left.map_or(wait, |left| wait.min(left));
            let (n_failed, wait_s) = (backoff.n_failed(), wait.as_secs_f32().ceil());
            warn!("{what}: {}; failed tries: {n_failed}, next try in {wait_s} s", failed.message);
            self.clock.sleep(wait, &self.stop);
            if self.stop.is_stopped() {
                return Err(GaveUp::Stopped);
            }
        }
    }

    pub(super) fn parse_url(&self, text: &str) -> anyhow::Result<Url> {
        secret::conceal_address(text);
        let url = Url::parse(text, &self.zones)?;
        ensure!(
            url.is_https() || self.settings.allow_plain_http,
            "{} is plain HTTP, which is not allowed; use https://, or allow it with --allow-plain-http",
            url.shown()
        );
        Ok(url)
    }
}
