//! A small HTTP server with the answers that a test defines.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};

use super::until::until;

/// A request as received.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
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
    Late(Duration, u16, Value),
    /// The headers, then one byte at a time with a pause, for ever.
    Drip(Duration),
    /// These bytes, a pause, the other bytes, then the connection is closed.
    Broken(Vec<u8>, Duration, Vec<u8>),
    /// The connection is closed without an answer.
    Close,
    /// A body that never ends.
    Flood,
    /// These bytes, then the second ones again and again with a pause.
    Raw(Vec<u8>, Vec<u8>, Duration),
}

impl Reply {
    pub(crate) fn json(status: u16, value: &Value) -> Self {
        let reply = Self::With(status, vec![], value.to_string().into_bytes());
        reply.and("Content-Type", "application/json")
    }

    /// An instruction that has no more than this action.
    pub(crate) fn action(action: &str) -> Self {
        Self::json(200, &instruction(action))
    }

    /// An instruction to install this.
    pub(crate) fn install(install: &Value) -> Self {
        Self::json(200, &instruction_to_install(install))
    }

    /// The acceptance of a report: the instruction is to be asked for a second later.
    pub(crate) fn accepted(node_id: &str) -> Self {
        Self::json(202, &json!({"node_id": node_id, "retry_after_s": 1}))
    }

    /// An Ignition config in place of an instruction.
    pub(crate) fn ignition(config: &str) -> Self {
        Self::bytes(config.as_bytes()).and("Content-Type", "application/vnd.coreos.ignition+json")
    }

    pub(crate) fn status(status: u16) -> Self {
        Self::With(status, vec![], vec![])
    }

    pub(crate) fn bytes(bytes: &[u8]) -> Self {
        Self::With(200, vec![], bytes.to_vec())
    }

    /// Half a body, then the connection is closed.
    pub(crate) fn half() -> Self {
        let start = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"half".to_vec();
        Self::Broken(start, Duration::ZERO, Vec::new())
    }

    pub(crate) fn and(mut self, name: &str, value: &str) -> Self {
        if let Self::With(_, headers, _) = &mut self {
            headers.push((name.into(), value.into()));
        }
        self
    }
}

/// An instruction that has no more than this action.
pub(crate) fn instruction(action: &str) -> Value {
    json!({"api_version": "1", "request_id": "r1", "action": action})
}

/// An instruction to install this.
pub(crate) fn instruction_to_install(install: &Value) -> Value {
    let mut instruction = instruction("install");
    instruction["install"] = install.clone();
    instruction
}

/// The server.
#[derive(Clone)]
pub(crate) struct Mock {
    pub(crate) url: String,
    seen: Arc<Mutex<Vec<Request>>>,
}

impl Mock {
    /// Answers with `answer`, which gets the request and the number of earlier requests to the same path.
    pub(crate) fn start(answer: impl Fn(&Request, usize) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_at("127.0.0.1:0", None, answer).unwrap()
    }

    /// The same at this address, and with TLS if there are settings for that.
    pub(crate) fn start_at(
        address: &str,
        tls: Option<Arc<ServerConfig>>,
        answer: impl Fn(&Request, usize) -> Reply + Send + Sync + 'static,
    ) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{}", listener.local_addr()?);
        let seen: Arc<Mutex<Vec<Request>>> = Arc::default();
        let (for_thread, answer) = (Arc::clone(&seen), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (seen, answer, tls) =
                    (Arc::clone(&for_thread), Arc::clone(&answer), tls.clone());
                std::thread::spawn(move || match tls {
                    None => serve(stream, &seen, answer.as_ref()),
                    Some(tls) => {
                        let connection = ServerConnection::new(tls).unwrap();
                        serve(StreamOwned::new(connection, stream), &seen, answer.as_ref())
                    }
                });
            }
        });
        Ok(Self { url, seen })
    }

    /// A VIM, which accepts events and results; `answer` has the responses to all other requests.
    pub(crate) fn vim(answer: impl Fn(&Request, usize) -> Reply + Send + Sync + 'static) -> Self {
        Self::start(move |request, n| match request.path.as_str() {
            path if path.ends_with("/events") || path.ends_with("/result") => Reply::status(204),
            _ => answer(request, n),
        })
    }

    /// A VIM with these responses to the reports, to the requests for an instruction and to the results, by their number.
    pub(crate) fn of(
        report: impl Fn(usize) -> Reply + Send + Sync + 'static,
        poll: impl Fn(usize) -> Reply + Send + Sync + 'static,
        result: impl Fn(usize) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::start(move |request, n| match request.path.as_str() {
            "/v1/reports" => report(n),
            path if path.ends_with("/instruction") => poll(n),
            path if path.ends_with("/result") => result(n),
            _ => Reply::status(204),
        })
    }

    /// The requests to paths that end in `end`.
    pub(crate) fn requests(&self, end: &str) -> Vec<Request> {
        let seen = self.seen.lock().unwrap();
        seen.iter().filter(|request| request.path.ends_with(end)).cloned().collect()
    }

    /// Waits for a request to a path that ends in `end`.
    pub(crate) fn wait_for(&self, end: &str) {
        until(end, || self.requests(end).pop());
    }

    /// The paths of all requests but those with events.
    pub(crate) fn paths(&self) -> Vec<String> {
        let paths = self.requests("").into_iter().map(|request| request.path);
        paths.filter(|path| !path.ends_with("/events")).collect()
    }

    /// The bodies of the requests to paths that end in `end`.
    pub(crate) fn bodies(&self, end: &str) -> Vec<Value> {
        self.requests(end).iter().map(Request::json).collect()
    }

    /// The only result.
    pub(crate) fn result(&self) -> Value {
        let results = self.requests("/result");
        assert_eq!(results.len(), 1);
        assert!(results[0].header("idempotency-key").is_some());
        results[0].json()
    }

    /// The codes of all results, in order.
    pub(crate) fn codes(&self) -> Vec<Value> {
        self.bodies("/result").iter().map(|result| result["code"].clone()).collect()
    }

    pub(crate) fn events(&self) -> Vec<Value> {
        let batches = self.bodies("/events").into_iter();
        batches.flat_map(|batch| batch["events"].as_array().unwrap().clone()).collect()
    }

    /// The messages of all events.
    pub(crate) fn messages(&self) -> Vec<String> {
        let events = self.events().into_iter();
        events.filter_map(|event| event["message"].as_str().map(str::to_owned)).collect()
    }
}

fn serve(
    stream: impl Read + Write,
    seen: &Mutex<Vec<Request>>,
    answer: &impl Fn(&Request, usize) -> Reply,
) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let mut words = line.split_whitespace();
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let (method, path) = (method.into(), path.into());
        let mut request = Request { method, path, headers: vec![], body: vec![] };
        loop {
            let mut line = String::new();
            stream.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            request.headers.push((name.to_ascii_lowercase(), value.trim().into()));
        }
        let length =
            request.header("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
        request.body = vec![0; length];
        stream.read_exact(&mut request.body)?;
        let before = {
            let mut seen = seen.lock().unwrap();
            let before = seen.iter().filter(|other| other.path == request.path).count();
            seen.push(request.clone());
            before
        };
        if !send(stream.get_mut(), answer(&request, before))? {
            return Ok(());
        }
    }
}

/// Sends an answer; returns whether the connection stays open.
fn send(stream: &mut impl Write, reply: Reply) -> std::io::Result<bool> {
    let keeps_open = matches!(reply, Reply::With(..));
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
            return send(stream, Reply::json(status, &value));
        }
        Reply::Drip(pause) => {
            let start = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n".to_vec();
            return send(stream, Reply::Raw(start, b" ".to_vec(), pause));
        }
        Reply::Broken(start, pause, rest) => {
            stream.write_all(&start)?;
            stream.flush()?;
            std::thread::sleep(pause);
            stream.write_all(&rest)?;
        }
        Reply::Close => {}
        Reply::Raw(start, again, pause) => {
            stream.write_all(&start)?;
            loop {
                stream.write_all(&again)?;
                std::thread::sleep(pause);
            }
        }
        Reply::Flood => {
            let start = b"HTTP/1.1 200 OK\r\nContent-Length: 100000000000\r\n\r\n".to_vec();
            return send(stream, Reply::Raw(start, vec![b' '; 65536], Duration::ZERO));
        }
    }
    stream.flush()?;
    Ok(keeps_open)
}

/// Checks that a document has these values; null is for a key that it lacks.
#[track_caller]
pub(crate) fn assert_has(document: &Value, expected: &Value) {
    for (key, value) in expected.as_object().unwrap() {
        match value {
            Value::Object(_) => assert_has(&document[key], value),
            _ => assert_eq!(&document[key], value, "{key} of {document:#}"),
        }
    }
}

/// Checks that a text has all of these parts.
#[track_caller]
pub(crate) fn assert_says(text: &Value, parts: &[&str]) {
    let text = text.as_str().unwrap_or_else(|| panic!("{text} is no text"));
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
}
