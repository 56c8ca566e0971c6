//! HTTP/1.1 as far as Ironic's requests need it: a bounded request in, one JSON response out, then the connection closes
//! (RFC 9112).

use std::io::{self, Read, Write};
use std::sync::MutexGuard;

use serde_json::{Value, json};

use crate::clean;

/// The longest head of a request, in bytes.
const MAX_HEAD_BYTES: usize = 16 * 1024;
/// The longest body: a node with an Ignition config of the greatest size, in JSON inside of JSON.
const MAX_BODY_BYTES: usize = 24 * 1024 * 1024;
/// The longest text of a fault, in characters.
const MAX_FAULT_CHARS: usize = 1000;
/// How much of a body that nobody wants is read, so that the response is not lost when the connection closes.
const MAX_SKIPPED_BYTES: u64 = 64 * 1024;

/// The head of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) method: String,
    /// The path without its query and without slashes at its end.
    pub(super) path: String,
    /// Names and values of the query, decoded.
    pub(super) query: Vec<(String, String)>,
    /// The length of the body; `None` if the request does not say.
    pub(super) body_bytes: Option<usize>,
    is_chunked: bool,
    expects_continue: bool,
}

impl Head {
    /// The first value of a name in the query.
    pub(super) fn value(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// A response.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Value,
}

impl Answer {
    pub(super) fn ok(body: Value) -> Self {
        Self { status: 200, body }
    }

    /// An error as ironic-python-agent gives it. Ironic reads `faultstring` of every error without checking.
    pub(super) fn fault(status: u16, text: impl Into<String>) -> Self {
        let code = if status >= 500 { "Server" } else { "Client" };
        let text = clean::text(&text.into(), MAX_FAULT_CHARS);
        Self { status, body: json!({"faultcode": code, "faultstring": text}) }
    }
}

/// The permission to send a large body, which only one request has at a time.
pub(super) type Permit<'a> = Option<MutexGuard<'a, ()>>;

/// Head, body and permit of a request.
type Request<'a> = (Head, Vec<u8>, Permit<'a>);

/// What answers requests.
pub(super) trait Handler: Send + Sync {
    /// Decides by its head whether a request is read further.
    ///
    /// # Errors
    /// The answer to a request that is not.
    fn admit(&self, head: &Head) -> Result<Permit<'_>, Answer>;

    /// Answers a request.
    fn answer(&self, head: &Head, body: Vec<u8>, permit: Permit<'_>) -> Answer;

    /// Whether no further connection is accepted.
    fn is_closed(&self) -> bool;
}

/// Reads a request and has it answered. `arrived` is called between the two.
pub(super) fn receive(
    stream: &mut (impl Read + Write),
    handler: &dyn Handler,
    arrived: impl FnOnce(),
) -> io::Result<Answer> {
    let mut unread_bytes = 0;
    let request = read(stream, handler, &mut unread_bytes)?;
    if request.is_err() {
        let unread = unread_bytes.min(MAX_SKIPPED_BYTES);
        io::copy(&mut Read::by_ref(stream).take(unread), &mut io::sink()).ok();
    }
    arrived();
    Ok(match request {
        Ok((head, body, permit)) => handler.answer(&head, body, permit),
        Err(answer) => answer,
    })
}

fn read<'h>(
    stream: &mut (impl Read + Write),
    handler: &'h dyn Handler,
    unread_bytes: &mut u64,
) -> io::Result<Result<Request<'h>, Answer>> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if bytes.len() > MAX_HEAD_BYTES {
            return Ok(Err(Answer::fault(431, "the head of the request is too large")));
        }
        match stream.read(&mut buffer)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => bytes.extend_from_slice(&buffer[..n]),
        }
    };
    let mut body = bytes.split_off(end);
    let Some(head) = parse(&bytes) else {
        return Ok(Err(Answer::fault(400, "this is not a request of HTTP/1.1")));
    };
    let n_bytes = head.body_bytes.unwrap_or_default();
    *unread_bytes = n_bytes.saturating_sub(body.len()) as u64;
    let permit = match handler.admit(&head) {
        Ok(permit) => permit,
        Err(answer) => return Ok(Err(answer)),
    };
    if head.is_chunked {
        return Ok(Err(Answer::fault(411, "the request needs Content-Length")));
    }
    if n_bytes > MAX_BODY_BYTES {
        let most = format!("the body has {n_bytes} bytes, expected at most {MAX_BODY_BYTES}");
        return Ok(Err(Answer::fault(413, most)));
    }
    if head.expects_continue && n_bytes > 0 {
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        stream.flush()?;
    }
    body.truncate(n_bytes);
    let missing = n_bytes - body.len();
    let n_read = Read::by_ref(stream).take(missing as u64).read_to_end(&mut body)?;
    if n_read < missing {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Ok((head, body, permit)))
}

/// Parses a head that ends with its empty line.
fn parse(bytes: &[u8]) -> Option<Head> {
    let text = std::str::from_utf8(bytes).ok()?;
    let mut lines = text.split("\r\n");
    let mut words = lines.next()?.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    if !version.starts_with("HTTP/1.") || words.next().is_some() || !target.starts_with('/') {
        return None;
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let mut head = Head {
        method: method.to_owned(),
        path: decoded(path)?.trim_end_matches('/').to_owned(),
        query: pairs
            .map(|(name, value)| Some((decoded(name)?, decoded(value)?)))
            .collect::<Option<_>>()?,
        ..Head::default()
    };
    for line in lines.filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':')?;
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "content-length" if head.body_bytes.is_some() => return None,
            "content-length" if value.bytes().all(|byte| byte.is_ascii_digit()) => {
                head.body_bytes = Some(value.parse().unwrap_or(usize::MAX));
            }
            "content-length" => return None,
            "transfer-encoding" => head.is_chunked = true,
            "expect" => head.expects_continue = value.eq_ignore_ascii_case("100-continue"),
            _ => {}
        }
    }
    Some(head)
}

/// A part of a path or query without percent-encoding; `None` if that is malformed.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut out = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'%' => {
                let digits = [bytes.next()?, bytes.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            b'+' => b' ',
            byte => byte,
        });
    }
    String::from_utf8(out).ok()
}

/// Sends an answer.
pub(super) fn send(stream: &mut impl Write, answer: &Answer) -> io::Result<()> {
    let body = answer.body.to_string();
    let reason = if answer.status < 400 { "OK" } else { "Error" };
    let (status, n_bytes) = (answer.status, body.len());
    write!(
        stream,
        "HTTP/1.1 {status} {reason}\r\nContent-Type: application/json\r\nContent-Length: {n_bytes}\r\n\
         Connection: close\r\n\r\n{body}"
    )?;
    stream.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes to read, and what was written.
    struct Pipe {
        input: io::Cursor<Vec<u8>>,
        output: Vec<u8>,
    }

    impl Read for Pipe {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            // One byte at a time, as a slow network may send them.
            self.input.read(&mut buffer[..1])
        }
    }

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.output.write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct Echo;

    impl Handler for Echo {
        fn admit(&self, head: &Head) -> Result<Permit<'_>, Answer> {
            match head.value("agent_token") {
                Some("good") => Ok(None),
                _ => Err(Answer::fault(401, "no")),
            }
        }
        fn answer(&self, head: &Head, body: Vec<u8>, _: Permit<'_>) -> Answer {
            Answer::ok(json!([head.method, head.path, String::from_utf8_lossy(&body)]))
        }
        fn is_closed(&self) -> bool {
            false
        }
    }

    fn answer_to(request: &str) -> String {
        let input = io::Cursor::new(request.as_bytes().to_vec());
        let mut pipe = Pipe { input, output: Vec::new() };
        let answer = receive(&mut pipe, &Echo, || {}).unwrap();
        send(&mut pipe, &answer).unwrap();
        String::from_utf8(pipe.output).unwrap()
    }

    #[test]
    fn request_is_read_whole_and_its_slashes_do_not_matter() {
        let answer = answer_to(
            "POST /v1/commands/?wait=true&agent_token=go%6fd HTTP/1.1\r\ncontent-length: 4\r\n\r\nbodyX",
        );
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.ends_with(r#"["POST","/v1/commands","body"]"#), "{answer}");
        assert!(answer.contains("Connection: close"));
    }

    #[test]
    fn body_of_a_request_without_the_token_is_not_kept() {
        let answer = answer_to("POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\nxxx");
        assert!(answer.starts_with("HTTP/1.1 401 ") && answer.contains("faultstring"), "{answer}");
    }

    #[test]
    fn what_is_no_request_gets_a_fault_in_json() {
        let long = format!("GET /{} HTTP/1.1", "a".repeat(20_000));
        for (request, status) in [
            ("hello\r\n\r\n", 400),
            ("GET /?a=%zz HTTP/1.1\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
            ("POST /?agent_token=good HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 411),
            ("POST /?agent_token=good HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", 413),
            (long.as_str(), 431),
        ] {
            let answer = answer_to(request);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request:.60}: {answer}");
            assert!(answer.contains(r#""faultstring":"#), "{answer}");
        }
    }
}
