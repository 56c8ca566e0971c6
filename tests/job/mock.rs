//! A small HTTP server with the answers that a test defines.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A request as received.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        let bytes = if self.header("content-encoding") == Some("gzip") {
            let mut bytes = Vec::new();
            flate2::read::GzDecoder::new(&self.body[..]).read_to_end(&mut bytes).unwrap();
            bytes
        } else {
            self.body.clone()
        };
        serde_json::from_slice(&bytes).unwrap()
    }
}

/// An answer.
pub(crate) enum Reply {
    /// Status, headers, body.
    With(u16, Vec<(String, String)>, Vec<u8>),
    /// This status and JSON after a pause.
    Late(Duration, u16, serde_json::Value),
    /// The headers, then one byte at a time with a pause, for ever.
    Drip(Duration),
    /// Half a body, then the connection is closed.
    Half,
    /// The connection is closed without an answer.
    Close,
    /// A body that never ends.
    Flood,
    /// These bytes, then the second ones again and again with a pause.
    Raw(Vec<u8>, Vec<u8>, Duration),
}

impl Reply {
    pub(crate) fn json(status: u16, value: &serde_json::Value) -> Self {
        Self::With(
            status,
            vec![("Content-Type".into(), "application/json".into())],
            value.to_string().into_bytes(),
        )
    }

    pub(crate) fn status(status: u16) -> Self {
        Self::With(status, vec![], vec![])
    }

    pub(crate) fn bytes(bytes: &[u8]) -> Self {
        Self::With(200, vec![], bytes.to_vec())
    }

    pub(crate) fn and(mut self, name: &str, value: &str) -> Self {
        if let Self::With(_, headers, _) = &mut self {
            headers.push((name.into(), value.into()));
        }
        self
    }
}

/// The server.
pub(crate) struct Mock {
    pub(crate) url: String,
    seen: Arc<Mutex<Vec<Request>>>,
}

impl Mock {
    /// Answers with `answer`, which gets the request and the number of earlier requests to the same path.
    pub(crate) fn start(answer: impl Fn(&Request, usize) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_at("127.0.0.1:0", answer).unwrap()
    }

    pub(crate) fn start_at(
        address: &str,
        answer: impl Fn(&Request, usize) -> Reply + Send + Sync + 'static,
    ) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let url = format!("http://{}", listener.local_addr()?);
        let seen: Arc<Mutex<Vec<Request>>> = Arc::default();
        let (for_thread, answer) = (Arc::clone(&seen), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (seen, answer) = (Arc::clone(&for_thread), Arc::clone(&answer));
                std::thread::spawn(move || {
                    let _ = serve(stream, &seen, answer.as_ref());
                });
            }
        });
        Ok(Self { url, seen })
    }

    /// The requests to paths that end in `end`.
    pub(crate) fn requests(&self, end: &str) -> Vec<Request> {
        let seen = self.seen.lock().unwrap();
        seen.iter().filter(|request| request.path.ends_with(end)).cloned().collect()
    }
}

fn serve(
    stream: TcpStream,
    seen: &Mutex<Vec<Request>>,
    answer: &(impl Fn(&Request, usize) -> Reply + ?Sized),
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut stream = stream;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let mut words = line.split_whitespace();
        let path = words.nth(1).unwrap_or_default();
        let mut request = Request { path: path.into(), headers: vec![], body: vec![] };
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            request.headers.push((name.to_ascii_lowercase(), value.trim().into()));
        }
        let length =
            request.header("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
        request.body = vec![0; length];
        reader.read_exact(&mut request.body)?;
        let before = {
            let mut seen = seen.lock().unwrap();
            let before = seen.iter().filter(|other| other.path == request.path).count();
            seen.push(request.clone());
            before
        };
        if !send(&mut stream, answer(&request, before))? {
            return Ok(());
        }
    }
}

/// Sends an answer; returns whether the connection stays open.
fn send(stream: &mut TcpStream, reply: Reply) -> std::io::Result<bool> {
    match reply {
        Reply::With(status, headers, body) => {
            write!(stream, "HTTP/1.1 {status} X\r\n")?;
            for (name, value) in headers {
                write!(stream, "{name}: {value}\r\n")?;
            }
            write!(stream, "Content-Length: {}\r\n\r\n", body.len())?;
            stream.write_all(&body)?;
        }
        Reply::Late(pause, status, value) => {
            std::thread::sleep(pause);
            let body = value.to_string();
            write!(stream, "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n")?;
            write!(stream, "Content-Length: {}\r\n\r\n{body}", body.len())?;
        }
        Reply::Drip(pause) => {
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")?;
            loop {
                stream.write_all(b" ")?;
                std::thread::sleep(pause);
            }
        }
        Reply::Half => {
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{{\"half")?;
            return Ok(false);
        }
        Reply::Close => return Ok(false),
        Reply::Raw(start, again, pause) => {
            stream.write_all(&start)?;
            loop {
                stream.write_all(&again)?;
                std::thread::sleep(pause);
            }
        }
        Reply::Flood => {
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 100000000000\r\n\r\n")?;
            loop {
                stream.write_all(&vec![b' '; 65536])?;
            }
        }
    }
    Ok(true)
}
