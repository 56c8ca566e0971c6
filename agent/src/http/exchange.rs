//! One request and its response, with limited sizes; failures are described with advice.

use std::io::Read as _;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, SystemTime};

use tracing::warn;
use ureq::http;

use formats::time::parse_http_date;

use super::IGNITION_MEDIA_TYPE;
use super::client::{Client, MAX_ANSWER_BYTES, MAX_IGNITION_BYTES};
use super::clock_skew::clock_skew;
use super::refusal::{CHECK_ADDRESS, refusal};
use super::request::{Request, Response};
use super::retry::{Failed, RetryAfter, Why};
use super::signature::SIGNATURE;
use super::token::{Token, TokenHeader};
use super::transport::{Limits, Received};
use super::url::Url;
use crate::ask::{Unanswered, ask_by};
use crate::clock::Clock;

/// Time limit for a request that was sent after a signal; the last one of a job gets [`FAREWELL_LIMIT`].
const STOPPED_LIMIT: Duration = Duration::from_secs(1);
/// The same for the result, without which the VIM does not know how the job ended. All requests after a signal and the
/// remaining events fit into the five seconds in which the agent ends.
const FAREWELL_LIMIT: Duration = Duration::from_secs(2);
/// A body is read in pieces of this size.
const PIECE_BYTES: usize = 64 * 1024;

/// A response as it arrived.
struct Raw {
    head: http::response::Parts,
    body: Vec<u8>,
    is_cut: bool,
}

/// The point at which a request broke off.
enum Broken {
    NoResponse(ureq::Error),
    InBody(std::io::Error),
}

impl Client {
    /// The address of the server; `None` if there is none.
    pub fn base(&self) -> Option<&Url> {
        self.base.as_ref()
    }

    /// The address of `path` at the server.
    ///
    /// # Errors
    /// There is no server.
    pub(crate) fn url_of(&self, path: &str) -> Result<Url, Failed> {
        self.base.as_ref().map(|base| base.join(path)).ok_or_else(|| Failed {
            why: Why::Refused,
            ..Failed::network("no server is configured".into())
        })
    }

    /// The same as text, for messages and downloads.
    pub fn address_of(&self, path: &str) -> Option<String> {
        self.url_of(path).ok().map(|url| url.to_string())
    }

    /// Sends one request to `path` at the server, without retrying. The response has at most 1 MiB.
    ///
    /// # Errors
    /// There was no response, or it is larger.
    pub fn exchange(&self, path: &str, request: &Request) -> Result<Response, Failed> {
        let url = self.url_of(path)?;
        let response = self.send(&url, request, MAX_ANSWER_BYTES)?;
        if response.is_cut {
            let message = format!(
                "the response of {} is too large, expected at most {MAX_ANSWER_BYTES} bytes",
                url.shown()
            );
            let (status, may_have_arrived) = (Some(response.status), true);
            return Err(Failed { status, may_have_arrived, ..Failed::unavailable(message) });
        }
        Ok(response)
    }

    /// Sends one request and reads at most `max_bytes` of the response, or as much as a response of that kind may have.
    ///
    /// The request runs on a thread of its own. It is abandoned after a signal, and when its whole time has passed:
    /// a server that sends a byte now and then resets every time limit of a single read.
    pub(crate) fn send(
        &self,
        url: &Url,
        request: &Request,
        max_bytes: u64,
    ) -> Result<Response, Failed> {
        let sent_at = self.clock.time_of_day();
        let work = self.prepare(url, request, max_bytes);
        let after_signal = if request.is_farewell { FAREWELL_LIMIT } else { STOPPED_LIMIT };
        let limits = (self.settings.timeouts.total(request.is_source), after_signal);
        let text = match ask_by(self.clock.as_ref(), "request", limits, &self.stop, work) {
            Ok(Ok(raw)) => return Ok(self.reply(raw, url, sent_at)),
            Ok(Err(broken)) => return Err(self.broken(url, &broken)),
            Err(Unanswered::Late(_)) => {
                format!("reading {}: the server sends its response too slowly", url.shown())
            }
            Err(why @ Unanswered::NoThread(_)) => return Err(Failed::network(why.to_string())),
            Err(Unanswered::Stopped) => "interrupted by a signal".to_owned(),
            Err(why) => why.to_string(),
        };
        // The server may have received it by then.
        Err(Failed { may_have_arrived: true, ..Failed::network(text) })
    }

    fn broken(&self, url: &Url, broken: &Broken) -> Failed {
        match broken {
            Broken::NoResponse(error) => self.no_response(url, error),
            Broken::InBody(error) => self.broken_off(url, error),
        }
    }

    /// The request as work for a thread.
    fn prepare(
        &self,
        url: &Url,
        request: &Request,
        max_bytes: u64,
    ) -> impl FnOnce() -> Result<Raw, Broken> + Send + 'static {
        let (timeouts, token) = (self.settings.timeouts, self.token_for(url));
        let (is_source, is_start) = (request.is_source, request.is_start);
        let mut builder =
            http::Request::builder().method(request.method.clone()).uri(url.to_string());
        for (name, value) in &request.headers {
            builder = builder.header(&**name, value);
        }
        let limits = Limits {
            max_redirects: if is_source { Token::max_redirects(token) } else { 0 },
            body: if request.body.is_some() { timeouts.body } else { timeouts.ignition },
            // A VIM may think for longer than the longest pause in a download.
            piece: is_source.then_some(timeouts.idle),
        };
        let request = authorized(builder, token).body(request.body.clone());
        let (transport, clock) = (Arc::clone(&self.transport), Arc::clone(&self.clock));
        move || {
            let send = || transport.send(request?, limits);
            let response = send().map_err(Broken::NoResponse)?;
            if is_start {
                return read_start(response, max_bytes);
            }
            read_all(response, (!is_source).then_some(timeouts.body), max_bytes, clock.as_ref())
        }
    }

    /// The failure of a download that got another status than 200 or 206.
    pub(super) fn refused(&self, url: &Url, response: Received) -> Failed {
        let sent_at = self.clock.time_of_day();
        match read_all(response, Some(self.settings.timeouts.body), 64 * 1024, self.clock.as_ref())
        {
            Ok(raw) => refusal(&self.reply(raw, url, sent_at), url, CHECK_ADDRESS),
            Err(broken) => self.broken(url, &broken),
        }
    }

    /// The token, but only for requests to the server itself.
    pub(super) fn token_for(&self, url: &Url) -> Option<&Token> {
        self.token.as_ref().filter(|_| self.is_own(url))
    }

    fn is_own(&self, url: &Url) -> bool {
        self.base.as_ref().is_some_and(|base| url.is_same_origin(base))
    }

    fn reply(&self, raw: Raw, url: &Url, sent_at: SystemTime) -> Response {
        let header = |name: &str| header(&raw.head.headers, name).map(str::to_owned);
        let date = header("date").as_deref().and_then(parse_http_date);
        // A cache may answer for a server of images, with an old date.
        if let Some(date) = date.filter(|_| self.is_own(url)) {
            self.note_skew(sent_at, date);
        }
        let reference = date.unwrap_or_else(|| self.clock.time_of_day());
        let challenges = raw.head.headers.get_all("www-authenticate").iter();
        let challenges: Vec<&str> = challenges.filter_map(|value| value.to_str().ok()).collect();
        Response {
            challenges: challenges.join(", "),
            status: raw.head.status.as_u16(),
            content_type: header("content-type").unwrap_or_default().to_ascii_lowercase(),
            location: header("location"),
            total_bytes: total_bytes(raw.head.status.as_u16(), &raw.head.headers),
            retry_after: header("retry-after").and_then(|text| RetryAfter::parse(&text, reference)),
            retry_after_text: header("retry-after"),
            signature: header(SIGNATURE),
            body: raw.body,
            is_cut: raw.is_cut,
            date,
        }
    }

    /// Records a difference of the clocks, and logs its beginning.
    fn note_skew(&self, ours: SystemTime, theirs: SystemTime) {
        let found = clock_skew(ours, theirs);
        let mut skew = self.skew.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(finding) = found.as_ref().filter(|_| skew.is_none()) {
            warn!("{}", finding.evidence);
        }
        *skew = found;
    }
}

/// Adds the token.
pub(super) fn authorized(
    request: http::request::Builder,
    token: Option<&Token>,
) -> http::request::Builder {
    match token {
        None => request,
        Some(Token { header: TokenHeader::Bearer, secret }) => {
            request.header("Authorization", format!("Bearer {}", secret.expose()))
        }
        Some(Token { header: TokenHeader::SecretKey, secret }) => {
            request.header("X-Secret-Key", secret.expose())
        }
    }
}

/// The text of a header.
pub(super) fn header<'a>(headers: &'a http::HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Size of the whole file, whether the response contains all or a part of it; `None` if the server does not say.
pub(crate) fn total_bytes(status: u16, headers: &http::HeaderMap) -> Option<u64> {
    let header = |name: &str| header(headers, name);
    match status {
        206 => header("content-range")?.rsplit_once('/')?.1.trim().parse().ok(),
        _ if header("transfer-encoding").is_some() => None,
        _ => header("content-length")?.trim().parse().ok(),
    }
}

/// Reads the first `max_bytes` of a body and nothing after them: a server may ignore that only these are wanted.
fn read_start(response: Received, max_bytes: u64) -> Result<Raw, Broken> {
    let (head, response) = response.into_parts();
    let mut body = Vec::new();
    response.take(max_bytes).read_to_end(&mut body).map_err(Broken::InBody)?;
    Ok(Raw { head, body, is_cut: false })
}

/// Reads a body of at most `max_bytes`. With `api_limit` it is a response of the API: only a bare Ignition config may be
/// larger than an instruction, and anything else must arrive within that time.
fn read_all(
    response: Received,
    api_limit: Option<Duration>,
    max_bytes: u64,
    clock: &dyn Clock,
) -> Result<Raw, Broken> {
    let started = clock.now_outside();
    let (head, mut reader) = response.into_parts();
    let is_ignition = header(&head.headers, "content-type").is_some_and(|kind| {
        kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(IGNITION_MEDIA_TYPE)
    });
    let (max_bytes, limit) = match api_limit {
        Some(_) if is_ignition => (MAX_IGNITION_BYTES, None),
        Some(limit) => (max_bytes.min(MAX_ANSWER_BYTES), Some(limit)),
        None => (max_bytes, None),
    };
    let max_bytes = usize::try_from(max_bytes).unwrap_or(usize::MAX);
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
        if limit.is_some_and(|limit| clock.now_outside().saturating_duration_since(started) > limit)
        {
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
