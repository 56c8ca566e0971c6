//! Fetches what an instruction points at: the Ignition config, and as much of the image as preflight needs.

use std::io::Read as _;
use std::time::{Duration, Instant};

use tracing::info;

use super::client::{Client, GaveUp, MAX_IGNITION_BYTES};
use super::exchange::{Ask, refused};
use super::retry::{Failed, Why};
use super::unreachable;
use super::url::Url;
use crate::digest::Hasher;

/// How much of an image is looked at before the disk is touched, in bytes.
pub const IMAGE_HEAD_BYTES: u64 = 256 * 1024;
/// How long a source that fails is tried again.
const FETCH_LIMIT: Duration = Duration::from_mins(5);
/// How often a source that is refused (404 and the like) is tried.
const MAX_REFUSED: u32 = 2;
/// How often the console hears how far the reading of an image has come.
const TOLD_EVERY: Duration = Duration::from_secs(30);
/// So many bytes must come within each time of [`Timeouts::stall`](super::transport::Timeouts::stall): a server
/// that lets a byte through now and then has stalled too.
const LEAST_BYTES: u64 = 64 * 1024;

/// The beginning of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageHead {
    /// At most [`IMAGE_HEAD_BYTES`].
    pub bytes: Vec<u8>,
    /// Size of the whole download in bytes, if the server says so.
    pub total_bytes: Option<u64>,
}

impl Client {
    /// Fetches an Ignition config.
    ///
    /// # Errors
    /// In words: the address does not do, the server does not answer, or the config is too large.
    pub fn fetch_ignition(&self, address: &str) -> Result<Vec<u8>, String> {
        let url = self.parse_url(address).map_err(|error| format!("{error:#}"))?;
        let reply = self.patiently("fetching the Ignition config", || {
            let reply = self.send(&url, Ask::Source, MAX_IGNITION_BYTES)?;
            if reply.status == 200 { Ok(reply) } else { Err(refused(&reply, &url)) }
        })?;
        if reply.is_cut {
            return Err(format!("{} is larger than {MAX_IGNITION_BYTES} bytes", url.shown()));
        }
        Ok(reply.body)
    }

    /// Fetches the beginning of an image.
    ///
    /// # Errors
    /// In words: the address does not do or the server does not answer.
    pub fn fetch_image_head(&self, address: &str) -> Result<ImageHead, String> {
        let url = self.parse_url(address).map_err(|error| format!("{error:#}"))?;
        self.patiently("looking at the image", || self.image_head(&url))
    }

    /// Whether there is something at `address`.
    ///
    /// # Errors
    /// In words: the address does not do or the server does not answer.
    pub fn exists(&self, address: &str) -> Result<bool, String> {
        let url = self.parse_url(address).map_err(|error| format!("{error:#}"))?;
        self.patiently("looking for the signature", || {
            let reply = self.send(&url, Ask::Source, 64 * 1024)?;
            match reply.status {
                200 => Ok(!reply.body.is_empty()),
                404 | 410 => Ok(false),
                _ => Err(refused(&reply, &url)),
            }
        })
    }

    /// Reads a whole image and returns its digest in the kind that `expected` names.
    ///
    /// # Errors
    /// In words.
    pub fn digest_of(&self, address: &str, expected: &str) -> Result<String, String> {
        let url = self.parse_url(address).map_err(|error| format!("{error:#}"))?;
        let hasher = Hasher::for_digest(expected)
            .ok_or_else(|| format!("{expected:?} is no digest, expected sha256-… or sha512-…"))?;
        self.patiently("reading the image for its digest", || self.digest(&url, hasher.clone()))
    }

    /// Tries for some minutes; what the server refuses is tried only twice.
    fn patiently<T>(
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
            Err(GaveUp::Stopped) => Err("told to end".into()),
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

    /// In words why the bytes of an image have ended.
    fn stalled_or(&self, url: &Url, error: &std::io::Error) -> String {
        if !is_timeout(error) {
            return unreachable::explain_read(error, self.request(url)).1;
        }
        let idle_s = self.timeouts.idle.as_secs_f32();
        format!("the server has stalled: nothing for {idle_s} s")
    }

    fn digest(&self, url: &Url, mut hasher: Hasher) -> Result<String, Failed> {
        let (_, total_bytes, mut reader) = self.open_stream(url, None, Duration::from_hours(4))?;
        let mut buffer = vec![0; 128 * 1024];
        let mut pace = Pace::new(self.timeouts.stall);
        loop {
            if self.stop.is_stopped() {
                return Err(Failed::network("told to end".into()));
            }
            let read = reader.read(&mut buffer).map_err(|error| self.stalled_or(url, &error));
            let n = match read.and_then(|n| pace.has_come(n).map(|()| n)) {
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
            if pace.is_to_be_told() {
                info!(bytes = pace.n_bytes, of = total_bytes, "reading the image for its digest");
            }
        }
    }
}

/// Whether it is the client's own time limit that has passed.
fn is_timeout(error: &std::io::Error) -> bool {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<ureq::Error>());
    matches!(cause, Some(ureq::Error::Timeout(_))) || error.kind() == std::io::ErrorKind::TimedOut
}

/// How fast a download comes.
struct Pace {
    n_bytes: u64,
    stall: Duration,
    /// Since when so many bytes are counted for the next look.
    since: (Instant, u64),
    told: Instant,
}

impl Pace {
    fn new(stall: Duration) -> Self {
        let now = Instant::now();
        Self { n_bytes: 0, stall, since: (now, 0), told: now }
    }

    /// Counts `n` more bytes.
    ///
    /// # Errors
    /// In words, if too few have come.
    fn has_come(&mut self, n: usize) -> Result<(), String> {
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

    fn is_to_be_told(&mut self) -> bool {
        let is_time = self.told.elapsed() >= TOLD_EVERY;
        if is_time {
            self.told = Instant::now();
        }
        is_time
    }
}
