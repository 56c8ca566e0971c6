//! The agent's HTTP/1.1 server, for Ironic's commands and for the image that coreos-installer fetches: a bounded request in,
//! one response out, then the connection closes (RFC 9112).

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tracing::debug;
use ureq::http::StatusCode;

use crate::clock::Clock;

/// The longest head of a request, in bytes.
const MAX_HEAD_BYTES: usize = 16 * 1024;
/// The most headers of a request.
const MAX_HEADERS: usize = 100;
/// Interval at which a server that waits for a connection checks whether it was closed.
const TICK_MS: u16 = 200;
/// The wait after a connection that could not be accepted: out of descriptors, the next one may find some.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Gives each connection to `serve`, until `is_closed`.
pub(crate) fn accept(
    listener: &TcpListener,
    is_closed: impl Fn() -> bool,
    mut serve: impl FnMut(TcpStream),
) {
    while !is_closed() {
        let mut ready = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
        if !matches!(poll(&mut ready, PollTimeout::from(TICK_MS)), Ok(n) if n > 0) {
            continue;
        }
        match listener.accept() {
            Ok((socket, _)) => serve(socket),
            Err(error) => {
                debug!(%error, "accepting a connection");
                std::thread::sleep(ACCEPT_PAUSE);
            }
        }
    }
}

/// A socket with a time limit for everything that is read and written.
#[derive(Debug)]
pub(crate) struct Timed {
    pub(crate) socket: TcpStream,
    clock: Arc<dyn Clock>,
    until: Instant,
}

impl Timed {
    pub(crate) fn new(socket: TcpStream, clock: Arc<dyn Clock>, limit: Duration) -> Self {
        Self { socket, until: clock.now() + limit, clock }
    }

    /// Sets another limit, which counts from now.
    pub(crate) fn allow(&mut self, limit: Duration) {
        self.until = self.clock.now() + limit;
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.until.checked_duration_since(self.clock.now());
        left.filter(|left| !left.is_zero()).map(Some).ok_or_else(|| io::ErrorKind::TimedOut.into())
    }
}

impl Read for Timed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(self.left()?)?;
        self.socket.read(buffer)
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(self.left()?)?;
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

/// The head of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) method: String,
    /// The path as it was sent, without its query and without slashes at its end.
    pub(crate) path: String,
    /// Names and values of the query, decoded.
    pub(crate) query: Vec<(String, String)>,
    /// True if the client understands chunks: HTTP/1.1, not 1.0.
    pub(crate) is_1_1: bool,
    /// The length of the body; `None` if the request does not say.
    pub(crate) body_bytes: Option<usize>,
    pub(crate) is_chunked: bool,
    pub(crate) expects_continue: bool,
}

impl Head {
    /// The first value of a name in the query.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// The reason why a request is not read further: the status of the answer, and a message.
pub(crate) type Refused = (u16, &'static str);

/// Reads the head of a request, and with it the beginning of its body.
///
/// # Errors
/// The connection breaks, or its time is over.
pub(crate) fn read_head(stream: &mut impl Read) -> io::Result<Result<(Head, Vec<u8>), Refused>> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => bytes.extend_from_slice(&buffer[..n]),
        }
        match parse(&bytes) {
            Ok(Some((head, n_bytes))) => return Ok(Ok((head, bytes.split_off(n_bytes)))),
            Ok(None) if bytes.len() > MAX_HEAD_BYTES => {
                return Ok(Err((431, "the head of the request is too large")));
            }
            Ok(None) => {}
            Err(NotHttp) => return Ok(Err((400, "this is not a request of HTTP/1.1"))),
        }
    }
}

/// Bytes that do not begin a request.
struct NotHttp;

/// Parses a head and returns its length; `None` while its end is missing.
fn parse(bytes: &[u8]) -> Result<Option<(Head, usize)>, NotHttp> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let status = request.parse(bytes).map_err(|_| NotHttp)?;
    let httparse::Status::Complete(n_bytes) = status else { return Ok(None) };
    let target = request.path.filter(|target| target.starts_with('/')).ok_or(NotHttp)?;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut head = Head {
        method: request.method.unwrap_or_default().to_owned(),
        path: path.trim_end_matches('/').to_owned(),
        query: form_urlencoded::parse(query.as_bytes()).into_owned().collect(),
        is_1_1: request.version == Some(1),
        ..Head::default()
    };
    for header in &*request.headers {
        let value = header.value.trim_ascii();
        match header.name.to_ascii_lowercase().as_str() {
            "content-length" if head.body_bytes.is_some() => return Err(NotHttp),
            "content-length" if value.iter().all(u8::is_ascii_digit) => {
                let number = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
                head.body_bytes = Some(number.unwrap_or(usize::MAX));
            }
            "content-length" => return Err(NotHttp),
            "transfer-encoding" => head.is_chunked = true,
            "expect" => head.expects_continue = value.eq_ignore_ascii_case(b"100-continue"),
            _ => {}
        }
    }
    Ok(Some((head, n_bytes)))
}

/// Sends the head of a response. A body without a length is chunked (RFC 9112, §7.1), so that one that breaks off never
/// looks complete.
///
/// # Errors
/// The connection breaks, or its time is over.
pub(crate) fn send_head(
    stream: &mut impl Write,
    status: u16,
    content_type: &str,
    body_bytes: Option<u64>,
) -> io::Result<()> {
    let reason = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
    let reason = reason.unwrap_or("Error");
    let length = match body_bytes {
        Some(n_bytes) => format!("Content-Length: {n_bytes}"),
        None => "Transfer-Encoding: chunked".into(),
    };
    let head = format!(
        "HTTP/1.1 {status} {reason}\r\nContent-Type: {content_type}\r\n{length}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives one byte at a time, as a slow network may send them.
    struct Slow<'a>(&'a [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.read(&mut buffer[..1])
        }
    }

    fn head_of(request: &str) -> Result<Head, Refused> {
        read_head(&mut Slow(request.as_bytes())).unwrap().map(|(head, _)| head)
    }

    #[test]
    fn head_is_read_whole_and_slashes_at_the_end_of_its_path_do_not_matter() {
        let request = "POST /v1/commands/?wait=true&agent_token=go%6fd HTTP/1.1\r\ncontent-length: 4\r\n\
                       Expect: 100-Continue\r\n\r\n";
        let head = head_of(request).unwrap();
        assert_eq!((head.method.as_str(), head.path.as_str()), ("POST", "/v1/commands"));
        assert_eq!((head.value("wait"), head.value("agent_token")), (Some("true"), Some("good")));
        assert_eq!((head.body_bytes, head.is_chunked), (Some(4), false));
        assert!(head.is_1_1 && head.expects_continue);
        assert!(!head_of("GET / HTTP/1.0\r\n\r\n").unwrap().is_1_1);
        assert!(read_head(&mut Slow(b"GET / HTTP/1.1\r\n")).is_err(), "the connection ended");
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let long = format!("GET /{} HTTP/1.1", "a".repeat(20_000));
        for (request, status) in [
            ("hello\r\n\r\n", 400),
            ("GET a HTTP/1.1\r\n\r\n", 400),
            ("GET /a HTTP/2.0\r\n\r\n", 400),
            ("GET  /a HTTP/1.1\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
            (long.as_str(), 431),
        ] {
            assert_eq!(head_of(request).unwrap_err().0, status, "{request:.60}");
        }
    }
}
