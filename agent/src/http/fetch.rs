//! Fetches the sources of an instruction: the Ignition config, and as much of the image as preflight needs.

use std::time::Duration;

use super::client::{Client, GaveUp, MAX_IGNITION_BYTES};
use super::refusal::refusal;
use super::request::Request;
use super::retry::{Failed, Why};
use super::url::Url;

/// Length of an image's start that is read before the disk is touched, in bytes.
pub const IMAGE_HEAD_BYTES: u64 = 256 * 1024;
/// Time for which to retry a source that fails.
pub(super) const FETCH_LIMIT: Duration = Duration::from_mins(5);
/// Maximum number of tries for a source that the server refuses (404 and the like).
const MAX_REFUSED: u32 = 2;

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
    /// A message if the address is wrong, the server does not respond, or the config is too large.
    pub fn fetch_ignition(&self, address: &str) -> Result<Vec<u8>, String> {
        let url = self.parse_url(address).map_err(|error| format!("{error:#}"))?;
        let reply = self.with_retries("fetching the Ignition config", || {
            let reply = self.send(&url, &Request::source(), MAX_IGNITION_BYTES)?;
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
    /// A message if the address is wrong or the server does not respond.
    pub fn fetch_image_head(&self, address: &str) -> Result<ImageHead, String> {
        let url = self.parse_url(address).map_err(|error| format!("{error:#}"))?;
        self.with_retries("reading the start of the image", || self.image_head(&url))
    }

    /// Fetches a small file; `None` if the server has none at `address`.
    ///
    /// # Errors
    /// A message if the address is wrong, the server does not respond, or the file is larger than `max_bytes`.
    pub fn fetch_if_present(
        &self,
        what: &str,
        address: &str,
        max_bytes: u64,
    ) -> Result<Option<Vec<u8>>, String> {
        let url = self.parse_url(address).map_err(|error| format!("{error:#}"))?;
        let reply = self.with_retries(what, || {
            let reply = self.send(&url, &Request::source(), max_bytes)?;
            match reply.status {
                200 => Ok(Some(reply)),
                404 | 410 => Ok(None),
                _ => Err(refusal(&reply, &url)),
            }
        })?;
        match reply {
            Some(reply) if reply.is_cut => {
                Err(format!("{} is larger than {max_bytes} bytes", url.shown()))
            }
            reply => Ok(reply.map(|reply| reply.body)),
        }
    }

    /// Retries for some minutes; a source that the server refuses is tried only twice.
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
        let reply = self.send(url, &Request::start(IMAGE_HEAD_BYTES), IMAGE_HEAD_BYTES)?;
        match reply.status {
            200 | 206 => Ok(ImageHead { bytes: reply.body, total_bytes: reply.total_bytes }),
            _ => Err(refusal(&reply, url)),
        }
    }
}
