//! Fetches what an instruction refers to: the Ignition config, and as much of the image as preflight needs.

use std::io::Read as _;
use std::time::{Duration, Instant};

use tracing::info;

use super::client::{Client, GaveUp, MAX_IGNITION_BYTES};
use super::exchange::{Ask, refusal};
use super::retry::{Failed, Why};
use super::unreachable;
use super::url::Url;
use formats::digest::Hasher;

/// How much of an image is read before the disk is touched, in bytes.
pub const IMAGE_HEAD_BYTES: u64 = 256 * 1024;
/// How long to retry a source that fails.
const FETCH_LIMIT: Duration = Duration::from_mins(5);
/// How often to try a source that the server refuses (404 and the like).
const MAX_REFUSED: u32 = 2;
/// How often the progress of reading an image is logged.
const LOG_INTERVAL: Duration = Duration::from_secs(30);
/// The least that must arrive within each [`Timeouts::stall`](super::transport::Timeouts::stall): a server that sends
/// a byte now and then has stalled too.
const LEAST_BYTES: u64 = 64 * 1024;

/// The start of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageHead {
    /// At most [`IMAGE_HEAD_BYTES`].
    pub bytes: Vec<u8>,
    /// Size of the whole download in bytes, if the server sends it.
    pub total_bytes: Option<u64>,
}

impl Client {
    /// Fetches an Ignition config.
    ///
    /// # Errors
    /// In words: the address is wrong, the server does not respond, or the config is too large.
    pub fn fetch_ignition(&self, address: &str) -> Result<Vec<u8>, String> {
        let url = self.parse_url(address).map_err(|error| format!("{error:#}"))?;
        let reply = self.with_retries("fetching the Ignition config", || {
            let reply = self.send(&url, Ask::Source, MAX_IGNITION_BYTES)?;
            if reply.status == 200 { Ok(reply) } else { Err(refusal(&reply, &url)) }
        })?;
        if reply.is_cut {
            return Err(format!("{} is larger than {MAX_IGNITION_BYTES} bytes", url.shown()));
        }
        Ok(reply.body)
    }

    /// Fetches the start of an image.
    ///
    /// # Errors
    /// In words: the address is wrong or the server does not respond.
    pub fn fetch_image_head(&self, address: &str) -> Result<ImageHead, String> {
        let url = self.parse_url(address).map_err(|error| format!("{error:#}"))?;
        self.with_retries("reading the start of the image", || self.image_head(&url))
    }

    /// Whether a file exists at `address`.
    ///
    /// # Errors
    /// In words: the address is wrong or the server does not respond.
    pub fn exists(&self, address: &str) -> Result<bool, String> {
        let url = self.parse_url(address).map_err(|error| format!("{error:#}"))?;
        self.with_retries("looking for the signature", || {
            let reply = self.send(&url, Ask::Source, 64 * 1024)?;
            match reply.status {
                200 => Ok(!reply.body.is_empty()),
                404 | 410 => Ok(false),
                _ => Err(refusal(&reply, &url)),
            }
        })
    }

    /// Reads a whole image and returns its digest, of the same kind as `expected`.
    ///
    /// # Errors
    /// In words, as [`Client::fetch_image_head`].
    pub fn digest_of(&self, address: &str, expected: &str) -> Result<String, String> {
        let url = self.parse_url(address).map_err(|error| format!("{error:#}"))?;
        let hasher = Hasher::for_digest(expected)
            .ok_or_else(|| format!("the digest is {expected:?}, expected sha256-… or sha512-…"))?;
        self.with_retries("reading the image for its digest", || self.digest(&url, hasher.clone()))
    }

    /// Retries for some minutes; what the server refuses is tried only twice.
    fn with_retries<T>(
        &self,
        what: &str,
        mut attempt: impl FnMut() -> Result<T, Failed>,
    ) -> Result<T, String> {
        let mut n_refused = 0;
        let outcome = self.until_success(what, Some(FETCH_LIMIT), || match attempt() {
            Ok(value) => Ok(Ok(value)),
            Err(failed) if failed.why == Why::Refused => {
                n_refused += 1;
                if n_refused >= MAX_REFUSED {
                    return Ok(Err(failed.message));
                }
                Err(Failed { why: Why::Unavailable, ..failed })
            }
            Err(failed) => Err(failed),
        });
        match outcome {
            Ok(inner) => inner,
            Err(GaveUp::Deadline(failed) | GaveUp::Refused(failed)) => Err(failed.message),
            Err(GaveUp::Stopped) => Err("interrupted by a signal".into()),
        }
    }

    fn image_head(&self, url: &Url) -> Result<ImageHead, Failed> {
        let last = IMAGE_HEAD_BYTES - 1;
        let (_, total_bytes, reader) =
            self.open_stream(url, Some(&format!("bytes=0-{last}")), Duration::from_mins(1))?;
        let mut bytes = Vec::new();
        reader
            .take(IMAGE_HEAD_BYTES)
            .read_to_end(&mut bytes)
            .map_err(|error| self.broken_off(url, &error))?;
        Ok(ImageHead { bytes, total_bytes })
    }

    /// Why the body of an image ended early.
    fn stalled_or(&self, url: &Url, error: &std::io::Error) -> String {
        if !is_timeout(error) {
            return unreachable::explain_read(error, self.request(url)).1;
        }
        let idle_s = self.timeouts.idle.as_secs_f32();
        format!("the server has stalled: nothing received for {idle_s} s")
    }

    fn digest(&self, url: &Url, mut hasher: Hasher) -> Result<String, Failed> {
        let (_, total_bytes, mut reader) = self.open_stream(url, None, Duration::from_hours(4))?;
        let mut buffer = vec![0; 128 * 1024];
        let mut pace = Pace::new(self.timeouts.stall);
        loop {
            if self.stop.is_stopped() {
                return Err(Failed::network("interrupted by a signal".into()));
            }
            let read = reader.read(&mut buffer).map_err(|error| self.stalled_or(url, &error));
            let n = match read.and_then(|n| pace.count(n).map(|()| n)) {
                Ok(0) => return Ok(hasher.finish()),
                Ok(n) => n,
                Err(error) => {
                    let n_bytes = pace.n_bytes;
                    let of = total_bytes.map(|total| format!(" of {total}")).unwrap_or_default();
                    return Err(Failed::network(format!(
                        "reading {}: {error}, after {n_bytes}{of} bytes",
                        url.shown()
                    )));
                }
            };
            hasher.update(&buffer[..n]);
            if pace.is_log_due() {
                info!(bytes = pace.n_bytes, of = total_bytes, "reading the image for its digest");
            }
        }
    }
}

/// Whether a time limit of the client has passed.
fn is_timeout(error: &std::io::Error) -> bool {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<ureq::Error>());
    matches!(cause, Some(ureq::Error::Timeout(_))) || error.kind() == std::io::ErrorKind::TimedOut
}

/// The pace of a download.
struct Pace {
    n_bytes: u64,
    stall: Duration,
    /// Start of the current interval, and the bytes received before it.
    since: (Instant, u64),
    logged: Instant,
}

impl Pace {
    fn new(stall: Duration) -> Self {
        let now = Instant::now();
        Self { n_bytes: 0, stall, since: (now, 0), logged: now }
    }

    /// Counts `n` more bytes.
    ///
    /// # Errors
    /// In words, if too few arrived in the current interval.
    fn count(&mut self, n: usize) -> Result<(), String> {
        self.n_bytes += n as u64;
        let (since, before) = self.since;
        if n == 0 || since.elapsed() < self.stall {
            return Ok(());
        }
        let n_new = self.n_bytes - before;
        if n_new < LEAST_BYTES {
            let stall_s = self.stall.as_secs_f32();
            return Err(format!("the server has stalled: {n_new} bytes in {stall_s} s"));
        }
        self.since = (Instant::now(), self.n_bytes);
        Ok(())
    }

    fn is_log_due(&mut self) -> bool {
        let is_time = self.logged.elapsed() >= LOG_INTERVAL;
        if is_time {
            self.logged = Instant::now();
        }
        is_time
    }
}
