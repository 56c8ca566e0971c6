//! The loopback server: HTTP/1.1 for one client, coreos-installer, which asks for the signature and then for the image.
//!
//! A response ends with its connection. The image has `Content-Length` if its source reports a size, and is chunked if
//! not (RFC 9112, §7.1), so that a stream that breaks off never looks complete.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use tracing::debug;

use super::Shared;
use super::pass::{Ended, Gone, Pass, Sink};
use super::source::{Fault, Reader};
use super::tee::Tee;
use crate::install::Code;

/// The largest request, in bytes.
const MAX_REQUEST_BYTES: usize = 8 * 1024;
/// How long a client may take to send its request.
const REQUEST_LIMIT: Duration = Duration::from_secs(5);
/// How often a write that waits for coreos-installer checks whether the run has ended.
const WRITE_TICK: Duration = Duration::from_secs(1);

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Request<'a> {
    is_head: bool,
    path: &'a str,
}

/// Answers one request and closes the connection.
pub(super) fn answer(mut socket: TcpStream, shared: &Shared) -> io::Result<()> {
    socket.set_nonblocking(false)?;
    socket.set_nodelay(true)?;
    socket.set_write_timeout(Some(WRITE_TICK))?;
    let head = read_head(&mut socket)?;
    let Some(request) = parse(&head) else {
        return respond(&mut socket, "400 Bad Request", &[], false);
    };
    let Some(name) = request.path.strip_prefix(shared.path.as_str()) else {
        return respond(&mut socket, "404 Not Found", &[], request.is_head);
    };
    match (name, &shared.image.signature) {
        ("", _) if request.is_head => {
            let length = length_header(shared.image.head.total_bytes);
            write!(socket, "HTTP/1.1 200 OK\r\n{length}Connection: close\r\n\r\n")
        }
        ("", _) => {
            pass_on(socket, shared);
            Ok(())
        }
        (".sig", Some(signature)) => respond(&mut socket, "200 OK", signature, request.is_head),
        _ => respond(&mut socket, "404 Not Found", &[], request.is_head),
    }
}

/// Reads a request up to its empty line.
fn read_head(socket: &mut TcpStream) -> io::Result<Vec<u8>> {
    let started = Instant::now();
    let mut head = Vec::new();
    let mut buffer = [0; 1024];
    while !head.ends_with(b"\r\n\r\n") {
        let left = REQUEST_LIMIT.checked_sub(started.elapsed()).filter(|left| !left.is_zero());
        let left = left.ok_or(io::ErrorKind::TimedOut)?;
        socket.set_read_timeout(Some(left))?;
        let n = socket.read(&mut buffer)?;
        if n == 0 || head.len() + n > MAX_REQUEST_BYTES {
            return Err(io::ErrorKind::InvalidData.into());
        }
        head.extend_from_slice(&buffer[..n]);
    }
    Ok(head)
}

/// Parses `GET /path HTTP/1.1`; `None` for anything that is not GET or HEAD of HTTP/1.1.
fn parse(head: &[u8]) -> Option<Request<'_>> {
    let text = std::str::from_utf8(head).ok()?;
    let mut words = text.lines().next()?.split(' ');
    let is_head = match words.next()? {
        "GET" => false,
        "HEAD" => true,
        _ => return None,
    };
    let path = words.next()?;
    // An older client could not receive chunks.
    (words.next() == Some("HTTP/1.1") && words.next().is_none())
        .then_some(Request { is_head, path })
}

fn respond(socket: &mut TcpStream, status: &str, body: &[u8], is_head: bool) -> io::Result<()> {
    let n_bytes = body.len();
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Length: {n_bytes}\r\nConnection: close\r\n\r\n");
    socket.write_all(head.as_bytes())?;
    socket.write_all(if is_head { &[] } else { body })?;
    socket.shutdown(Shutdown::Write)
}

fn length_header(total_bytes: Option<u64>) -> String {
    match total_bytes {
        Some(n_bytes) => format!("Content-Length: {n_bytes}\r\n"),
        None => "Transfer-Encoding: chunked\r\n".into(),
    }
}

/// Streams the image. What goes wrong is recorded before the connection breaks, so that it is known when
/// coreos-installer ends.
fn pass_on(socket: TcpStream, shared: &Shared) {
    let generation = shared.begin_pass(&socket);
    let is_cancelled = || shared.is_over(generation);
    shared.meter.start();
    let image = &shared.image;
    let opened = Reader::open(&image.source, &shared.client, image.is_verified(), &is_cancelled);
    let mut reader = match opened {
        Ok(reader) => reader,
        Err(fault) => return shared.end_pass(generation, Err(fault), None),
    };
    let total_bytes = reader.total_bytes();
    if let (Some(seen), Some(found)) = (image.head.total_bytes, total_bytes)
        && seen != found
    {
        let message =
            format!("{} has {found} bytes, but {seen} when it was checked", image.source.shown());
        return shared.end_pass(generation, Err(Fault::new(Code::ImageChanged, message)), None);
    }
    shared.meter.set_total(total_bytes);
    let tee = Tee::start(shared.verify, &image.head);
    let mut pass = Pass::new(image, &shared.meter, tee);
    let mut body = Body { socket, is_chunked: total_bytes.is_none(), is_cancelled: &is_cancelled };
    let ended = match body.start(total_bytes) {
        Ok(()) => pass.run(&mut reader, &mut body),
        Err(Gone) => Ended::Gone,
    };
    shared.meter.stop();
    match ended {
        Ended::Whole { digest, n_bytes } => {
            shared.end_pass(generation, Ok((digest, n_bytes)), pass.tee.take());
            // Without the last chunk coreos-installer would take the image for truncated.
            body.finish().unwrap_or_else(|Gone| debug!("the writer did not read the end"));
        }
        Ended::Broken(fault) => {
            shared.end_pass(generation, Err(fault), None);
            body.socket.shutdown(Shutdown::Both).ok();
        }
        Ended::Gone => debug!("the writer closed the connection before the end of the image"),
    }
}

/// The body of the response with the image.
struct Body<'a> {
    socket: TcpStream,
    is_chunked: bool,
    is_cancelled: &'a dyn Fn() -> bool,
}

impl Body<'_> {
    fn start(&mut self, total_bytes: Option<u64>) -> Result<(), Gone> {
        let length = length_header(total_bytes);
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n{length}Connection: close\r\n\r\n"
        );
        self.send(head.as_bytes())
    }

    fn finish(&mut self) -> Result<(), Gone> {
        if self.is_chunked {
            self.send(b"0\r\n\r\n")?;
        }
        self.socket.shutdown(Shutdown::Write).map_err(|_| Gone)
    }

    /// Sends everything, however slow coreos-installer is, until the run ends.
    fn send(&mut self, mut bytes: &[u8]) -> Result<(), Gone> {
        use io::ErrorKind as K;
        while !bytes.is_empty() {
            match self.socket.write(bytes) {
                Ok(0) => return Err(Gone),
                Ok(n) => bytes = &bytes[n..],
                Err(error)
                    if matches!(error.kind(), K::WouldBlock | K::TimedOut | K::Interrupted) =>
                {
                    if (self.is_cancelled)() {
                        return Err(Gone);
                    }
                }
                Err(_) => return Err(Gone),
            }
        }
        Ok(())
    }
}

impl Sink for Body<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<(), Gone> {
        if bytes.is_empty() {
            return Ok(());
        }
        if !self.is_chunked {
            return self.send(bytes);
        }
        self.send(format!("{:x}\r\n", bytes.len()).as_bytes())?;
        self.send(bytes)?;
        self.send(b"\r\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_get_and_head_of_http_1_1_are_requests() {
        let request = |text: &'static str| parse(text.as_bytes());
        assert_eq!(
            request("GET /a HTTP/1.1\r\nHost: x\r\n\r\n"),
            Some(Request { is_head: false, path: "/a" })
        );
        assert_eq!(request("HEAD / HTTP/1.1\r\n\r\n"), Some(Request { is_head: true, path: "/" }));
        for text in
            ["", "GET", "GET /a", "GET /a HTTP/1.0\r\n", "POST /a HTTP/1.1\r\n", "GET  /a HTTP/1.1"]
        {
            assert_eq!(request(text), None, "{text}");
        }
        assert_eq!(parse(b"GET /\xff HTTP/1.1\r\n\r\n"), None);
    }
}
