//! One request and its response, with limited sizes; failures are described with what to do next.

use std::io::Read as _;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use probes::guard;
use tracing::warn;

use formats::time::parse_http_date;

use super::client::{Client, MAX_ANSWER_BYTES, MAX_IGNITION_BYTES};
use super::clock_skew::clock_skew;
use super::refusal::refusal;
use super::retry::{Failed, RetryAfter};
use super::token::{Token, TokenHeader};
use super::url::Url;
use crate::api::IGNITION_MEDIA_TYPE;

/// How long a request that was sent after a signal may take; the last one of a job gets [`FAREWELL_LIMIT`].
const STOPPED_LIMIT: Duration = Duration::from_secs(1);
/// The same for the result, without which the VIM does not know how the job ended. All requests after a signal and the
/// remaining events fit into the five seconds in which the agent ends.
const FAREWELL_LIMIT: Duration = Duration::from_secs(2);
/// How often a request that is under way is checked for a signal.
const POLL: Duration = Duration::from_millis(50);
/// Stack of the thread of a request; TLS needs some of it.
const STACK_BYTES: usize = 1 << 20;
/// The header with the version of Ironic's API.
const IRONIC_VERSION: &str = "X-OpenStack-Ironic-API-Version";
/// A body is read in pieces of this size.
const PIECE_BYTES: usize = 64 * 1024;

/// A whole response.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) content_type: String,
    pub(crate) location: Option<String>,
    pub(crate) retry_after: Option<RetryAfter>,
    pub(crate) body: Vec<u8>,
    /// Whether the body was longer than the limit.
    pub(crate) is_cut: bool,
    /// Size of the whole file; the body may be a part of it.
    pub(crate) total_bytes: Option<u64>,
    /// The server's time of day.
    pub(crate) date: Option<SystemTime>,
}

/// A request body and its headers.
pub(crate) struct Body<'a> {
    pub(crate) bytes: Arc<Vec<u8>>,
    pub(crate) encoding: Option<&'static str>,
    pub(crate) key: Option<&'a str>,
    /// The version of Ironic's API, if it is a request to Ironic.
    pub(crate) version: Option<&'static str>,
    /// Whether it is the last message of a job, worth a wait after a signal.
    pub(crate) is_farewell: bool,
}

/// The kind of a request.
#[derive(Clone, Copy)]
pub(crate) enum Ask<'a> {
    /// GET of the API. Redirects are not followed, since only the VIM itself is obeyed.
    Api,
    /// GET of Ironic's API in this version. Redirects are not followed.
    Versioned(&'static str),
    /// GET of a file that an instruction names. Redirects are followed, without the token.
    Source,
    /// The same for the first bytes of a file, as in `bytes=0-99`.
    Start(&'a str),
    /// POST of this body. Redirects are not followed.
    Post(&'a Body<'a>),
    /// PUT of this body. Redirects are not followed.
    Put(&'a Body<'a>),
    /// POST of a body of this content type. Redirects are not followed.
    Upload(&'a Body<'a>, &'a str),
}

impl Ask<'_> {
    fn is_source(&self) -> bool {
        matches!(self, Self::Source | Self::Start(_))
    }

    fn body(&self) -> Option<&Body<'_>> {
        match self {
            Self::Api | Self::Versioned(_) | Self::Source | Self::Start(_) => None,
            Self::Post(body) | Self::Put(body) | Self::Upload(body, _) => Some(body),
        }
    }
}

/// A response as it arrived.
struct Raw {
    head: ureq::http::response::Parts,
    body: Vec<u8>,
    is_cut: bool,
}

/// Where a request broke off.
enum Broken {
    NoResponse(ureq::Error),
    InBody(std::io::Error),
}

impl Client {
    /// Sends one request and reads at most `max_bytes` of the response, or as much as a response of that kind may have.
    ///
    /// The request runs on a thread of its own. It is abandoned after a signal, and when its whole time has passed:
    /// a server that sends a byte now and then resets every time limit of a single read.
    pub(crate) fn send(&self, url: &Url, ask: Ask<'_>, max_bytes: u64) -> Result<Reply, Failed> {
        let sent_at = self.clock.time_of_day();
        let work = self.prepare(url, ask, max_bytes);
        let answer = guard::ask("request", STACK_BYTES, work)
            .map_err(|error| Failed::network(format!("could not start a thread: {error}")))?;
        let started = Instant::now();
        let limit = self.timeouts.total(ask.is_source());
        let mut stopped_at = None;
        let is_farewell = ask.body().is_some_and(|body| body.is_farewell);
        let stopped_limit = if is_farewell { FAREWELL_LIMIT } else { STOPPED_LIMIT };
        // The server may have received it by then.
        let lost = |text| Failed { may_have_arrived: true, ..Failed::network(text) };
        let raw = loop {
            match answer.recv_timeout(POLL) {
                Ok(Ok(raw)) => break raw,
                Ok(Err(panic)) => return Err(lost(format!("a bug ended the request: {panic}"))),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(lost("the request ended without a result".into()));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.stop.is_stopped()
                && stopped_at.get_or_insert_with(Instant::now).elapsed() > stopped_limit
            {
                return Err(lost("interrupted by a signal".into()));
            }
            if started.elapsed() > limit {
                let text = "the server sends its response too slowly";
                return Err(lost(format!("reading {}: {text}", url.shown())));
            }
        };
        match raw {
            Ok(raw) => Ok(self.reply(raw, url, sent_at)),
            Err(Broken::NoResponse(error)) => Err(self.no_response(url, &error)),
            Err(Broken::InBody(error)) => Err(self.broken_off(url, &error)),
        }
    }

    /// The request as work for a thread.
    fn prepare(
        &self,
        url: &Url,
        ask: Ask<'_>,
        max_bytes: u64,
    ) -> impl FnOnce() -> Result<Raw, Broken> + Send + 'static {
        let is_source = ask.is_source();
        let range = match ask {
            Ask::Start(range) => Some(range.to_owned()),
            _ => None,
        };
        let accept = match ask {
            Ask::Source | Ask::Start(_) => format!("application/json, {IGNITION_MEDIA_TYPE}, */*"),
            _ => format!("application/json, {IGNITION_MEDIA_TYPE}"),
        };
        let (agent, address) = (self.agent.clone(), url.to_string());
        let token = self.token_for(url).cloned();
        let timeouts = self.timeouts;
        let is_start = range.is_some();
        let version = match ask {
            Ask::Versioned(version) => Some(version),
            _ => None,
        };
        let post = ask.body().map(|body| {
            let content_type = match ask {
                Ask::Upload(_, content_type) => content_type,
                _ => "application/json",
            };
            let headers = [
                ("Content-Type", Some(content_type.to_owned())),
                ("Content-Encoding", body.encoding.map(str::to_owned)),
                ("Idempotency-Key", body.key.map(str::to_owned)),
                (IRONIC_VERSION, body.version.map(str::to_owned)),
            ];
            (matches!(ask, Ask::Put(_)), headers, Arc::clone(&body.bytes))
        });
        move || {
            let response = if let Some((is_put, headers, bytes)) = post {
                let builder = if is_put { agent.put(address) } else { agent.post(address) };
                let mut builder = builder.header("Accept", accept);
                for (name, value) in headers {
                    if let Some(value) = value {
                        builder = builder.header(name, value);
                    }
                }
                let builder = builder.config().timeout_per_read(None).build();
                authorized(builder, token.as_ref()).send(&bytes[..])
            } else {
                let mut builder = agent
                    .get(address)
                    .config()
                    .max_redirects(if is_source { Token::max_redirects(token.as_ref()) } else { 0 })
                    .timeout_recv_body(Some(timeouts.ignition))
                    // A VIM may think for longer than the longest pause in a download.
                    .timeout_per_read(is_source.then_some(timeouts.idle))
                    .build()
                    .header("Accept", accept);
                if let Some(range) = range {
                    builder = builder.header("Range", range);
                }
                if let Some(version) = version {
                    builder = builder.header(IRONIC_VERSION, version);
                }
                authorized(builder, token.as_ref()).call()
            };
            let response = response.map_err(Broken::NoResponse)?;
            if is_start {
                return read_start(response, max_bytes);
            }
            read_all(response, (!is_source).then_some(timeouts.body), max_bytes)
        }
    }

    /// The failure of a download that got another status than 200 or 206.
    pub(super) fn refused(&self, url: &Url, response: ureq::http::Response<ureq::Body>) -> Failed {
        let sent_at = self.clock.time_of_day();
        match read_all(response, Some(self.timeouts.body), 64 * 1024) {
            Ok(raw) => refusal(&self.reply(raw, url, sent_at), url),
            Err(Broken::NoResponse(error)) => self.no_response(url, &error),
            Err(Broken::InBody(error)) => self.broken_off(url, &error),
        }
    }

    /// The token, but only for requests to the VIM itself.
    pub(super) fn token_for(&self, url: &Url) -> Option<&Token> {
        self.token.as_ref().filter(|_| self.is_vim(url))
    }

    fn is_vim(&self, url: &Url) -> bool {
        self.base.as_ref().is_some_and(|base| url.is_same_origin(base))
    }

    fn reply(&self, raw: Raw, url: &Url, sent_at: SystemTime) -> Reply {
        let header = |name: &str| header(&raw.head, name).map(str::to_owned);
        let date = header("date").as_deref().and_then(parse_http_date);
        // A cache may answer for a server of images, with an old date.
        if let Some(date) = date.filter(|_| self.is_vim(url)) {
            self.note_skew(sent_at, date);
        }
        let reference = date.unwrap_or_else(|| self.clock.time_of_day());
        Reply {
            status: raw.head.status.as_u16(),
            content_type: header("content-type").unwrap_or_default().to_ascii_lowercase(),
            location: header("location"),
            total_bytes: total_bytes(raw.head.status.as_u16(), &raw.head.headers),
            retry_after: header("retry-after").and_then(|text| RetryAfter::parse(&text, reference)),
            body: raw.body,
            is_cut: raw.is_cut,
            date,
        }
    }

    /// Records whether the clocks differ, and logs when they begin to.
    fn note_skew(&self, ours: SystemTime, theirs: SystemTime) {
        let found = clock_skew(ours, theirs);
        let mut skew = self.skew.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(finding) = found.as_ref().filter(|_| skew.is_none()) {
            warn!("{}", finding.evidence);
        }
        *skew = found;
    }
}

pub(super) fn authorized<T>(
    request: ureq::RequestBuilder<T>,
    token: Option<&Token>,
) -> ureq::RequestBuilder<T> {
    let Some(Token { header, secret }) = token else { return request };
    match header {
        TokenHeader::Bearer => {
            request.header("Authorization", format!("Bearer {}", secret.expose()))
        }
        TokenHeader::SecretKey => request.header("X-Secret-Key", secret.expose()),
    }
}

fn header<'a>(head: &'a ureq::http::response::Parts, name: &str) -> Option<&'a str> {
    head.headers.get(name).and_then(|value| value.to_str().ok())
}

/// Size of the whole file, whether the response contains all or a part of it; `None` if the server does not say.
pub(crate) fn total_bytes(status: u16, headers: &ureq::http::HeaderMap) -> Option<u64> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    match status {
        206 => header("content-range")?.rsplit_once('/')?.1.trim().parse().ok(),
        _ if header("transfer-encoding").is_some() => None,
        _ => header("content-length")?.trim().parse().ok(),
    }
}

/// Reads the first `max_bytes` of a body and nothing after them: a server may ignore that only these are wanted.
fn read_start(response: ureq::http::Response<ureq::Body>, max_bytes: u64) -> Result<Raw, Broken> {
    let (head, mut response) = response.into_parts();
    let mut body = Vec::new();
    response.as_reader().take(max_bytes).read_to_end(&mut body).map_err(Broken::InBody)?;
    Ok(Raw { head, body, is_cut: false })
}

/// Reads a body of at most `max_bytes`. With `api_limit` it is a response of the API: only a bare Ignition config may be
/// larger than an instruction, and anything else must arrive within that time.
fn read_all(
    response: ureq::http::Response<ureq::Body>,
    api_limit: Option<Duration>,
    max_bytes: u64,
) -> Result<Raw, Broken> {
    let started = Instant::now();
    let (head, mut body) = response.into_parts();
    let is_ignition = header(&head, "content-type").is_some_and(|kind| {
        kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(IGNITION_MEDIA_TYPE)
    });
    let (max_bytes, limit) = match api_limit {
        Some(_) if is_ignition => (MAX_IGNITION_BYTES, None),
        Some(limit) => (max_bytes.min(MAX_ANSWER_BYTES), Some(limit)),
        None => (max_bytes, None),
    };
    let max_bytes = usize::try_from(max_bytes).unwrap_or(usize::MAX);
    let mut reader = body.as_reader();
    let mut bytes = Vec::new();
    let mut piece = vec![0; PIECE_BYTES];
    let is_cut = loop {
        let n = match reader.read(&mut piece) {
            Ok(0) => break false,
            Ok(n) => n,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Broken::InBody(error)),
        };
        if bytes.len() + n > max_bytes {
            break true;
        }
        if limit.is_some_and(|limit| started.elapsed() > limit) {
            return Err(Broken::InBody(std::io::ErrorKind::TimedOut.into()));
        }
        // Growing by half keeps the peak for a body without a length below twice its size.
        if bytes.capacity() < bytes.len() + n {
            bytes.reserve_exact(n.max(bytes.len() / 2));
        }
        bytes.extend_from_slice(&piece[..n]);
    };
    bytes.shrink_to_fit();
    Ok(Raw { head, body: bytes, is_cut })
}
