//! Downloads a large file once, and resumes where a connection broke.
//!
//! A resumed request asks for the rest with `Range` and `If-Range` (RFC 9110, §13.1.5 and §14): the server sends the
//! rest only if the file is still the same. Without that certainty the download ends, and the caller starts again.

use std::io::Read;
use std::time::{Duration, Instant};

use tracing::warn;
use ureq::http;

use super::client::Client;
use super::exchange::{authorized, header, total_bytes};
use super::fetch::FETCH_LIMIT;
use super::retry::{Backoff, Failed, Why};
use super::token::Token;
use super::url::Url;

/// The least that must arrive within each [`Timeouts::stall`](super::transport::Timeouts::stall): a server that sends
/// a byte now and then has stalled too.
const LEAST_BYTES: u64 = 64 * 1024;
/// Number of times that a server may end the file early at the same byte before that counts as its end.
const MAX_EARLY_ENDS: u32 = 3;
/// Number of times that a server may refuse to continue (404 and the like).
const MAX_REFUSED: u32 = 2;

/// Why a download ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The server cannot be reached, or the connection breaks.
    Unreachable,
    /// The server responds with this status.
    Status(u16),
    /// The server sends nothing, or too little.
    Stalled,
    /// The server ends the file before the length that it announced.
    Truncated,
    /// The file on the server is no longer the same.
    Changed,
    /// A signal ended the agent.
    Stopped,
}

/// A download that ended early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Why.
    pub cause: Cause,
    /// A one-line description of the failure.
    pub message: String,
    /// True if a new download from the first byte may succeed.
    pub is_transient: bool,
}

/// The headers of a download and its body, which is still to be read.
pub(super) struct Started {
    pub(super) status: u16,
    /// Position of the body in the file, if the server sends only a part.
    pub(super) first_byte: Option<u64>,
    pub(super) total_bytes: Option<u64>,
    /// The entity tag, or the time of the last change.
    pub(super) validator: Option<String>,
    pub(super) body: Box<dyn std::io::Read>,
}

/// A file that is being downloaded.
pub(crate) struct Download<'a> {
    client: &'a Client,
    url: Url,
    /// True if the whole file is verified at its end, so that it may be resumed without `If-Range`.
    is_verified: bool,
    /// True if the file is no longer needed.
    is_cancelled: &'a dyn Fn() -> bool,
    body: Option<Box<dyn Read>>,
    n_bytes: u64,
    total_bytes: Option<u64>,
    validator: Option<String>,
    pace: Pace,
    /// Position of the last broken connection, how often in a row it broke there, and since when.
    broke: Breaks,
}

#[derive(Debug, Default)]
struct Breaks {
    at: u64,
    n_early_ends: u32,
    cause: Option<Cause>,
    since: Option<Instant>,
    backoff: Backoff,
}

impl Client {
    /// Starts to download the file at `address`; waits for a server that does not respond.
    ///
    /// # Errors
    /// The address is wrong, or the server does not respond for some minutes.
    pub(crate) fn download<'a>(
        &'a self,
        address: &str,
        is_verified: bool,
        is_cancelled: &'a dyn Fn() -> bool,
    ) -> Result<Download<'a>, Broken> {
        let wrong = |error: anyhow::Error| Broken {
            cause: Cause::Unreachable,
            message: format!("{error:#}"),
            is_transient: false,
        };
        let url = self.parse_url(address).map_err(wrong)?;
        let mut download = Download {
            client: self,
            url,
            is_verified,
            is_cancelled,
            body: None,
            n_bytes: 0,
            total_bytes: None,
            validator: None,
            pace: Pace::new(self.timeouts.stall),
            broke: Breaks::default(),
        };
        download.connect()?;
        Ok(download)
    }

    /// Starts a download, of a part of the file if `range` is given, with the validator for `If-Range`.
    pub(super) fn start_download(
        &self,
        url: &Url,
        range: Option<(&str, Option<&str>)>,
        limit: Duration,
    ) -> Result<Started, Failed> {
        let token = self.token_for(url);
        let mut request = authorized(http::Request::get(url.to_string()), token);
        if let Some((range, validator)) = range {
            request = request.header("Range", range);
            if let Some(validator) = validator {
                request = request.header("If-Range", validator);
            }
        }
        let get = || {
            let agent = self.agent_for(url);
            let request = agent.configure_request(request.body(())?);
            let request = request.max_redirects(Token::max_redirects(token));
            agent.run(request.timeout_recv_body(Some(limit)).build())
        };
        let response = get().map_err(|error| self.no_response(url, &error))?;
        let status = response.status().as_u16();
        if status != 200 && status != 206 {
            return Err(self.refused(url, response));
        }
        let header = |name: &str| header(response.headers(), name);
        let content_range = header("content-range").filter(|_| status == 206);
        Ok(Started {
            status,
            first_byte: content_range.and_then(first_byte),
            total_bytes: total_bytes(status, response.headers()),
            // Only a strong validator says that the bytes are the same (RFC 9110, §13.1.5).
            validator: header("etag")
                .filter(|tag| tag.starts_with('"'))
                .or_else(|| header("last-modified"))
                .map(str::to_owned),
            body: Box::new(response.into_body().into_reader()),
        })
    }
}

impl Download<'_> {
    /// Size of the whole file in bytes, if the server announced it.
    pub(crate) fn total_bytes(&self) -> Option<u64> {
        self.total_bytes
    }

    /// Reads more; 0 bytes at the end of the file. A connection that breaks is resumed.
    ///
    /// # Errors
    /// [`Broken`]: it could not be resumed.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Broken> {
        loop {
            self.check_not_stopped()?;
            let Some(body) = &mut self.body else {
                self.connect()?;
                continue;
            };
            let asked = self.client.clock.now_outside();
            let read = body.read(buffer);
            self.pace.spent += self.client.clock.now_outside().saturating_duration_since(asked);
            match read {
                Ok(0) if self.total_bytes.is_some_and(|total| self.n_bytes < total) => {
                    self.break_off(Cause::Truncated, "the server ended it early")?;
                }
                Ok(0) => return Ok(0),
                Ok(n) => {
                    self.n_bytes += n as u64;
                    if self.total_bytes.is_some_and(|total| self.n_bytes > total) {
                        return Err(self.broken(Cause::Changed, "it is longer than announced"));
                    }
                    if let Err(message) = self.pace.count(n) {
                        self.break_off(Cause::Stalled, &message)?;
                    }
                    return Ok(n);
                }
                Err(error) if is_timeout(&error) => {
                    let idle_s = self.client.timeouts.idle.as_secs_f32();
                    let message =
                        format!("the server has stalled: nothing received for {idle_s} s");
                    self.break_off(Cause::Stalled, &message)?;
                }
                Err(error) => {
                    let is_early = error.kind() == std::io::ErrorKind::UnexpectedEof;
                    let cause = if is_early { Cause::Truncated } else { Cause::Unreachable };
                    let failed = self.client.broken_off(&self.url, &error);
                    self.break_off(cause, &failed.message)?;
                }
            }
        }
    }

    /// Records that the connection broke, and waits before the next one.
    fn break_off(&mut self, cause: Cause, message: &str) -> Result<(), Broken> {
        self.body = None;
        let now = self.client.clock.now();
        // A few bytes more are no progress: a server that drips would otherwise be waited for without end.
        if self.broke.since.is_none() || self.n_bytes - self.broke.at >= LEAST_BYTES {
            self.broke = Breaks { at: self.n_bytes, since: Some(now), ..Breaks::default() };
        }
        self.broke.cause = Some(cause);
        if cause == Cause::Truncated {
            self.broke.n_early_ends += 1;
            if self.broke.n_early_ends >= MAX_EARLY_ENDS {
                return Err(self.broken(cause, message));
            }
        }
        self.wait(&Failed::network(message.to_owned()), cause)
    }

    /// Waits before the next attempt, unless the time limit has passed.
    fn wait(&mut self, failed: &Failed, cause: Cause) -> Result<(), Broken> {
        let client = self.client;
        let now = client.clock.now();
        let since = *self.broke.since.get_or_insert(now);
        let wait = self.broke.backoff.wait(failed, client.clock.as_ref());
        if now.saturating_duration_since(since) + wait > FETCH_LIMIT {
            return Err(self.broken(cause, &failed.message));
        }
        warn!(
            at_byte = self.n_bytes,
            next_try_s = wait.as_secs_f32().ceil(),
            "reading the image: {}",
            failed.message
        );
        client.clock.sleep(wait, &client.stop);
        self.check_not_stopped()
    }

    fn check_not_stopped(&self) -> Result<(), Broken> {
        if !self.client.stop.is_stopped() && !(self.is_cancelled)() {
            return Ok(());
        }
        let message = "interrupted by a signal".to_owned();
        Err(Broken { cause: Cause::Stopped, message, is_transient: false })
    }

    /// Connects, for the rest of the file if some of it has been read.
    fn connect(&mut self) -> Result<(), Broken> {
        let mut n_refused = 0;
        loop {
            self.check_not_stopped()?;
            let range = (self.n_bytes > 0).then(|| format!("bytes={}-", self.n_bytes));
            let range = range.as_deref().map(|range| (range, self.validator.as_deref()));
            let failed =
                match self.client.start_download(&self.url, range, self.client.timeouts.image) {
                    Ok(started) => return self.accept(started),
                    Err(failed) => failed,
                };
            let cause = failed.status.map_or(Cause::Unreachable, Cause::Status);
            if failed.status == Some(416) {
                return Err(self.broken(Cause::Truncated, "the server has no more of it"));
            }
            if failed.why == Why::Refused {
                n_refused += 1;
                if n_refused >= MAX_REFUSED {
                    return Err(Broken { cause, message: failed.message, is_transient: false });
                }
            }
            // A file that is being replaced is absent for a moment, so a refusal is repeated, but soon.
            self.wait(&Failed { why: Why::Unavailable, ..failed }, cause)?;
        }
    }

    /// Takes the body of a response, if it continues the same file.
    fn accept(&mut self, started: Started) -> Result<(), Broken> {
        let is_first = self.n_bytes == 0;
        if !is_first {
            if started.status != 206 {
                let message = "the connection broke, and the server does not resume downloads or has another file";
                return Err(self.broken(self.broke.cause.unwrap_or(Cause::Unreachable), message));
            }
            let is_other = started.validator.is_some() && started.validator != self.validator;
            let is_same_length = started.total_bytes == self.total_bytes;
            if started.first_byte != Some(self.n_bytes) || is_other || !is_same_length {
                return Err(self.broken(Cause::Changed, "the file on the server was changed"));
            }
            if self.validator.is_none() && !self.is_verified {
                let message = "the connection broke, and the server does not say whether it still has the same file";
                return Err(self.broken(Cause::Unreachable, message));
            }
        }
        self.total_bytes = started.total_bytes;
        self.validator = started.validator;
        self.body = Some(started.body);
        self.pace = Pace::new(self.client.timeouts.stall);
        Ok(())
    }

    fn broken(&self, cause: Cause, message: &str) -> Broken {
        let of = self.total_bytes.map(|total| format!(" of {total}")).unwrap_or_default();
        let message =
            format!("reading {}: {message}, after {}{of} bytes", self.url.shown(), self.n_bytes);
        Broken { cause, message, is_transient: true }
    }
}

/// The first byte in `bytes 100-199/200`.
fn first_byte(content_range: &str) -> Option<u64> {
    content_range.trim().strip_prefix("bytes ")?.split_once('-')?.0.trim().parse().ok()
}

/// True if a time limit of the client has passed.
fn is_timeout(error: &std::io::Error) -> bool {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<ureq::Error>());
    matches!(cause, Some(ureq::Error::Timeout(_))) || error.kind() == std::io::ErrorKind::TimedOut
}

/// The pace of the current connection.
#[derive(Debug)]
struct Pace {
    n_bytes: u64,
    stall: Duration,
    /// Time spent waiting for the server: coreos-installer may be slow meanwhile, which is not the server's fault.
    spent: Duration,
}

impl Pace {
    fn new(stall: Duration) -> Self {
        Self { n_bytes: 0, stall, spent: Duration::ZERO }
    }

    /// Counts `n` more bytes.
    ///
    /// # Errors
    /// A message if too few arrived in the current interval.
    fn count(&mut self, n: usize) -> Result<(), String> {
        self.n_bytes += n as u64;
        if self.spent < self.stall {
            return Ok(());
        }
        let n_new = self.n_bytes;
        *self = Self::new(self.stall);
        if n_new < LEAST_BYTES {
            let stall_s = self.stall.as_secs_f32();
            return Err(format!("the server has stalled: {n_new} bytes in {stall_s} s"));
        }
        Ok(())
    }
}
