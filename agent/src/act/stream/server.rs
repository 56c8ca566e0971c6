//! Answers coreos-installer, which asks for the signature and then for the image.

use std::io::{self, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use tracing::debug;

use super::Shared;
use super::pass::{Pass, Whole};
use super::source::{Fault, Reader};
use super::tee::Tee;
use crate::act::{Code, Verify};
use crate::http::server::{Timed, read_head, send_head};

/// Time limit for a client to send its request.
const REQUEST_LIMIT: Duration = Duration::from_secs(5);
/// Interval at which a write that waits for coreos-installer checks for the end of the run.
const WRITE_TICK: Duration = Duration::from_secs(1);

/// Type of the image and its signature.
const BINARY: &str = "application/octet-stream";

/// Answers one request and closes the connection.
pub(super) fn answer(socket: TcpStream, shared: &Shared) -> io::Result<()> {
    socket.set_nonblocking(false)?;
    socket.set_nodelay(true)?;
    let clock = Arc::clone(&shared.client.clock);
    let mut timed = Timed::new(socket, REQUEST_LIMIT, clock);
    let head = read_head(&mut timed)?.map(|(head, _)| head);
    let mut socket = timed.socket;
    socket.set_write_timeout(Some(WRITE_TICK))?;
    let mut refuse = |status| send_head(&mut socket, status, "text/plain", Some(0));
    let (head, is_head) = match head {
        // A client of HTTP/1.0 could not receive chunks.
        Ok(head) if head.is_1_1 && head.method == "GET" => (head, false),
        Ok(head) if head.is_1_1 && head.method == "HEAD" => (head, true),
        _ => return refuse(400),
    };
    match (head.path.strip_prefix(shared.path.as_str()), &shared.image.signature) {
        (Some(""), _) if is_head => {
            send_head(&mut socket, 200, BINARY, shared.image.head.total_bytes)
        }
        (Some(""), _) => {
            pass_on(socket, shared);
            Ok(())
        }
        (Some(".sig"), Some(signature)) => {
            send_head(&mut socket, 200, BINARY, Some(signature.len() as u64))?;
            socket.write_all(if is_head { &[] } else { signature })
        }
        _ => refuse(404),
    }
}

/// Streams the image. What goes wrong is recorded before the connection breaks, so that it is known when
/// coreos-installer ends.
fn pass_on(socket: TcpStream, shared: &Shared) {
    let generation = shared.begin_pass(&socket);
    let is_cancelled = || shared.is_over(generation);
    shared.meter.start();
    let mut body = Body { socket, is_chunked: false, is_cancelled: &is_cancelled };
    let passed = pass(&mut body, shared);
    shared.meter.stop();
    match passed {
        Ok(Some(whole)) => {
            shared.end_pass(generation, Ok(whole));
            // Without the last chunk coreos-installer would take the image for truncated.
            body.finish().unwrap_or_else(|_| debug!("the writer did not read the end"));
        }
        Ok(None) => debug!("the writer closed the connection before the end of the image"),
        Err(fault) => {
            shared.end_pass(generation, Err(fault));
            body.socket.shutdown(Shutdown::Both).ok();
        }
    }
}

/// Passes the image on; `None` if the writer did not wait for its end.
fn pass(body: &mut Body<'_>, shared: &Shared) -> Result<Option<(Whole, Option<Tee>)>, Fault> {
    let (image, is_cancelled) = (&shared.image, body.is_cancelled);
    let is_verified = image.is_verified();
    let mut reader = Reader::open(&image.source, &shared.client, is_verified, is_cancelled)?;
    let total_bytes = reader.total_bytes();
    if let (Some(seen), Some(found)) = (image.head.total_bytes, total_bytes)
        && seen != found
    {
        let shown = image.source.shown();
        let message = format!("{shown} has {found} bytes, but {seen} when it was checked");
        return Err(Fault::new(Code::ImageChanged, message));
    }
    shared.meter.set_total(total_bytes);
    let tee = Tee::start(shared.verify, &image.head);
    if tee.is_none() && shared.verify == Verify::Full {
        let message = "the kernel gives no thread to take digests of the image";
        return Err(Fault::new(Code::ImageFetch, message));
    }
    let mut pass = Pass::new(image, &shared.meter, tee);
    if body.start(total_bytes).is_err() {
        return Ok(None);
    }
    let whole = pass.run(&mut reader, body)?;
    Ok(whole.map(|whole| (whole, pass.tee)))
}

/// The body of the response with the image.
pub(super) struct Body<'a> {
    socket: TcpStream,
    is_chunked: bool,
    is_cancelled: &'a dyn Fn() -> bool,
}

impl Body<'_> {
    fn start(&mut self, total_bytes: Option<u64>) -> io::Result<()> {
        self.is_chunked = total_bytes.is_none();
        let mut head = Vec::new();
        send_head(&mut head, 200, BINARY, total_bytes)?;
        self.send(&head)
    }

    fn finish(&mut self) -> io::Result<()> {
        if self.is_chunked {
            self.send(b"0\r\n\r\n")?;
        }
        self.socket.shutdown(Shutdown::Write)
    }

    /// Sends everything, however slow coreos-installer is, until the run ends.
    fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        use io::ErrorKind as K;
        while !bytes.is_empty() {
            match self.socket.write(bytes) {
                Ok(0) => return Err(K::WriteZero.into()),
                Ok(n) => bytes = &bytes[n..],
                Err(error)
                    if matches!(error.kind(), K::WouldBlock | K::TimedOut | K::Interrupted)
                        && !(self.is_cancelled)() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Passes on more bytes of the image.
    ///
    /// # Errors
    /// The receiver has closed the connection: coreos-installer ended.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() || !self.is_chunked {
            return self.send(bytes);
        }
        self.send(format!("{:x}\r\n", bytes.len()).as_bytes())?;
        self.send(bytes)?;
        self.send(b"\r\n")
    }
}
