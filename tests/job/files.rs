//! A server of images with the faults that a test asks for, over HTTP or HTTPS.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// A request for a file.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) path: String,
    /// First byte that is asked for, if only a part is.
    pub(crate) first: Option<usize>,
    /// Last byte of that part.
    pub(crate) last: Option<usize>,
    pub(crate) if_range: Option<String>,
    pub(crate) token: Option<String>,
    pub(crate) host: Option<String>,
    /// The number of earlier requests for the path that asked for all of it, or for its rest.
    pub(crate) n_before: usize,
}

impl Asked {
    /// Whether it is preflight's, for the beginning.
    pub(crate) fn is_head(&self) -> bool {
        self.last.is_some()
    }
}

/// How a file is sent.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sent {
    pub(crate) bytes: Vec<u8>,
    /// Entity tag.
    pub(crate) etag: Option<&'static str>,
    /// Whether parts can be asked for.
    pub(crate) has_ranges: bool,
    /// Whether the length is not announced: the body is chunked.
    pub(crate) is_chunked: bool,
    /// The connection breaks after this many bytes of this response.
    pub(crate) breaks_after: Option<usize>,
    /// Nothing is sent for this long after this many bytes of this response.
    pub(crate) stalls: Option<(usize, Duration)>,
    /// Another address, instead of the file.
    pub(crate) redirect: Option<String>,
    /// A status that refuses the request.
    pub(crate) status: Option<u16>,
}

impl Sent {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        Self { bytes: bytes.to_vec(), has_ranges: true, etag: Some("\"1\""), ..Self::default() }
    }

    pub(crate) fn status(status: u16) -> Self {
        Self { status: Some(status), ..Self::default() }
    }
}

/// The server.
pub(crate) struct Files {
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

type Answer = dyn Fn(&Asked) -> Sent + Send + Sync;

impl Files {
    pub(crate) fn start(answer: impl Fn(&Asked) -> Sent + Send + Sync + 'static) -> Self {
        Self::serve("http", None, Arc::new(answer))
    }

    /// A server with TLS.
    pub(crate) fn with_tls(
        config: Arc<ServerConfig>,
        answer: impl Fn(&Asked) -> Sent + Send + Sync + 'static,
    ) -> Self {
        Self::serve("https", Some(config), Arc::new(answer))
    }

    fn serve(scheme: &str, tls: Option<Arc<ServerConfig>>, answer: Arc<Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("{scheme}://{}", listener.local_addr().unwrap());
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let for_thread = Arc::clone(&asked);
        std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let (asked, answer, tls) =
                    (Arc::clone(&for_thread), Arc::clone(&answer), tls.clone());
                std::thread::spawn(move || match tls {
                    None => respond(socket, &asked, answer.as_ref()),
                    Some(config) => {
                        let connection = ServerConnection::new(config).unwrap();
                        respond(StreamOwned::new(connection, socket), &asked, answer.as_ref())
                    }
                });
            }
        });
        Self { url, asked }
    }

    /// The requests for `path`.
    pub(crate) fn asked(&self, path: &str) -> Vec<Asked> {
        self.asked.lock().unwrap().iter().filter(|asked| asked.path == path).cloned().collect()
    }

    /// The requests for all of a file, or for its rest.
    pub(crate) fn downloads(&self, path: &str) -> Vec<Asked> {
        self.asked(path).into_iter().filter(|asked| !asked.is_head()).collect()
    }
}

/// Answers one request and closes the connection.
fn respond(
    stream: impl Read + Write,
    all: &Mutex<Vec<Asked>>,
    answer: &Answer,
) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let asked = read_request(&mut stream, all)?;
    let sent = answer(&asked);
    let stream = stream.get_mut();
    let (first, is_part) = match asked.first {
        Some(first) if sent.has_ranges => {
            let is_same = asked.if_range.is_none() || asked.if_range.as_deref() == sent.etag;
            if is_same { (first, true) } else { (0, false) }
        }
        _ => (0, false),
    };
    let total = sent.bytes.len();
    let end = asked.last.filter(|_| is_part).map_or(total, |last| total.min(last + 1));
    let mut head = match (sent.status, &sent.redirect) {
        (Some(status), _) => format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n"),
        (_, Some(to)) => format!("HTTP/1.1 302 X\r\nLocation: {to}\r\nContent-Length: 0\r\n"),
        _ if first > end => "HTTP/1.1 416 X\r\nContent-Length: 0\r\n".to_owned(),
        _ if is_part => {
            format!("HTTP/1.1 206 X\r\nContent-Range: bytes {first}-{}/{total}\r\n", end - 1)
        }
        _ => "HTTP/1.1 200 X\r\n".to_owned(),
    };
    if let Some(etag) = sent.etag {
        head = format!("{head}ETag: {etag}\r\n");
    }
    let has_body = !head.contains("Content-Length");
    let body = if has_body { &sent.bytes[first..end] } else { &[] };
    if has_body && sent.is_chunked {
        head.push_str("Transfer-Encoding: chunked\r\n");
    } else if has_body {
        head = format!("{head}Content-Length: {}\r\n", body.len());
    }
    stream.write_all(format!("{head}Connection: close\r\n\r\n").as_bytes())?;
    send(stream, body, &sent)?;
    stream.flush()
}

fn send(stream: &mut (impl Read + Write), body: &[u8], sent: &Sent) -> std::io::Result<()> {
    let mut n_sent = 0;
    for piece in body.chunks(10_000) {
        let piece = match sent.breaks_after {
            Some(after) if n_sent + piece.len() > after => &piece[..after - n_sent],
            _ => piece,
        };
        if let Some((after, pause)) = sent.stalls
            && (n_sent..n_sent + 10_000).contains(&after)
        {
            stream.flush()?;
            std::thread::sleep(pause);
        }
        if sent.is_chunked {
            write!(stream, "{:x}\r\n", piece.len())?;
        }
        stream.write_all(piece)?;
        if sent.is_chunked {
            stream.write_all(b"\r\n")?;
        }
        n_sent += piece.len();
        if sent.breaks_after == Some(n_sent) {
            return Ok(());
        }
    }
    if sent.is_chunked { stream.write_all(b"0\r\n\r\n") } else { Ok(()) }
}

fn read_request(stream: &mut impl BufRead, all: &Mutex<Vec<Asked>>) -> std::io::Result<Asked> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut asked = Asked {
        path,
        first: None,
        last: None,
        if_range: None,
        token: None,
        host: None,
        n_before: 0,
    };
    loop {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "range" => {
                let (first, last) = value.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
                (asked.first, asked.last) = (first.parse().ok(), last.parse().ok());
            }
            "if-range" => asked.if_range = Some(value.to_owned()),
            "host" => asked.host = Some(value.to_owned()),
            "authorization" => asked.token = Some(value.to_owned()),
            _ => {}
        }
    }
    let mut all = all.lock().unwrap();
    let is_before = |other: &&Asked| other.path == asked.path && !other.is_head();
    asked.n_before = all.iter().filter(is_before).count();
    all.push(asked.clone());
    Ok(asked)
}
