//! Fetches the sources of an instruction: the Ignition config, and as much of the image as preflight needs.

use std::sync::Arc;
use std::time::Duration;

use ignition::Pointer;

use super::client::{Client, GaveUp, MAX_IGNITION_BYTES};
use super::refusal::{CHECK_ADDRESS, refusal};
use super::request::{Request, Response};
use super::retry::{Failed, Why};
use super::transport::{ServerSettings, Timeouts};
use super::url::Url;

/// Length of an image's start that is read before the disk is touched, in bytes.
pub const IMAGE_HEAD_BYTES: u64 = 256 * 1024;
/// Time for which to retry a source that fails.
pub(super) const FETCH_LIMIT: Duration = Duration::from_mins(5);
/// Maximum number of tries for a source that the server refuses (404 and the like).
const MAX_REFUSED: u32 = 2;

impl Client {
    /// Fetches an Ignition config of at most spec 3.`minor`, as far as the server has several.
    ///
    /// # Errors
    /// A message if the address is wrong, the server does not respond, or the config is too large.
    pub fn fetch_ignition(&self, address: &str, minor: u64) -> Result<Vec<u8>, String> {
        let (what, request) = ("fetching the Ignition config", Request::ignition(minor));
        let reply = self.fetch(what, address, &request, MAX_IGNITION_BYTES, &[200])?;
        Ok(reply.body)
    }

    /// Fetches the Ignition config that another one names, as Ignition will at the first boot: without a token, a client
    /// certificate or a proxy, also over plain HTTP. It is asked for once.
    ///
    /// # Errors
    /// A message if the address or a CA is malformed, the server does not respond soon, or the config is too large.
    pub(crate) fn fetch_pointer(
        &self,
        pointer: &Pointer<'_>,
        minor: u64,
    ) -> Result<Vec<u8>, String> {
        let short = Duration::from_secs(5);
        let timeouts = Timeouts {
            resolve: short,
            connect: short,
            headers: short * 2,
            idle: short * 2,
            ignition: short * 4,
            ..self.settings.timeouts
        };
        let settings = ServerSettings {
            allow_plain_http: true,
            authorities: pointer.authorities.to_vec(),
            transport: self.settings.transport.clone(),
            timeouts,
            ..ServerSettings::default()
        };
        let text = |error: anyhow::Error| format!("{error:#}");
        let client =
            Self::new(&settings, Arc::clone(&self.clock), self.stop.clone()).map_err(text)?;
        let url = client.parse_url(pointer.url).map_err(text)?;
        let headers = pointer.headers.iter().map(|(name, value)| ((*name).to_owned(), *value));
        let request = headers
            .fold(Request::ignition(minor), |request, (name, value)| request.with(name, value));
        match client.send(&url, &request, MAX_IGNITION_BYTES) {
            Ok(reply) if reply.status == 200 && !reply.is_cut => Ok(reply.body),
            Ok(reply) if reply.status == 200 => Err(too_large(&url, MAX_IGNITION_BYTES)),
            Ok(reply) => Err(refusal(&reply, &url, CHECK_ADDRESS).message),
            Err(failed) => Err(failed.message),
        }
    }

    /// Fetches the start of an image, of at most [`IMAGE_HEAD_BYTES`].
    ///
    /// # Errors
    /// A message if the address is wrong or the server does not respond.
    pub fn fetch_image_head(&self, address: &str) -> Result<Response, String> {
        let (what, request) = ("reading the start of the image", Request::start(IMAGE_HEAD_BYTES));
        self.fetch(what, address, &request, IMAGE_HEAD_BYTES, &[200, 206])
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
        let reply = self.fetch(what, address, &Request::source(), max_bytes, &[200, 404, 410])?;
        Ok((reply.status == 200).then_some(reply.body))
    }

    /// Repeats a request for some minutes until the response has one of these statuses; one that the server refuses is
    /// made only twice.
    fn fetch(
        &self,
        what: &str,
        address: &str,
        request: &Request,
        max_bytes: u64,
        statuses: &[u16],
    ) -> Result<Response, String> {
        let url = self.parse_url(address).map_err(|error| format!("{error:#}"))?;
        let mut n_refused = 0;
        let outcome = self.until_success(what, Some(FETCH_LIMIT), || {
            let failed = match self.send(&url, request, max_bytes) {
                Ok(reply) if statuses.contains(&reply.status) => return Ok(Ok(reply)),
                Ok(reply) => refusal(&reply, &url, CHECK_ADDRESS),
                Err(failed) => failed,
            };
            if failed.why != Why::Refused {
                return Err(failed);
            }
            n_refused += 1;
            if n_refused >= MAX_REFUSED {
                return Ok(Err(failed.message));
            }
            Err(Failed { why: Why::Unavailable, ..failed })
        });
        match outcome {
            Ok(Ok(reply)) if reply.is_cut && reply.status == 200 => Err(too_large(&url, max_bytes)),
            Ok(fetched) => fetched,
            Err(GaveUp::Deadline(failed) | GaveUp::Refused(failed)) => Err(failed.message),
            Err(GaveUp::Stopped) => Err("interrupted by a signal".into()),
        }
    }
}

fn too_large(url: &Url, max_bytes: u64) -> String {
    format!("{} is larger than {max_bytes} bytes", url.shown())
}
