//! Starts the lab VIM, talks to it, ends it.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

/// A running lab VIM and a folder of its own; both end with it.
pub(crate) struct Vim {
    pub(crate) child: Child,
    pub(crate) http: SocketAddr,
    pub(crate) https: Option<SocketAddr>,
    pub(crate) dir: PathBuf,
}

/// An answer with its body read.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Got {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Panics unless the text contains each of these parts.
    #[track_caller]
    pub(crate) fn assert_has(&self, parts: &[&str]) {
        let text = self.text();
        for part in parts {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    /// The Problem's code, if it is one.
    pub(crate) fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }
}

/// A new folder.
pub(crate) fn folder() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    let dir = std::env::temp_dir().join(format!("lab-vim-test-{}-{n}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    dir
}

impl Vim {
    /// A lab VIM on a free port of 127.0.0.1.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::start_in(&folder(), arguments)
    }

    /// A lab VIM that installs a small Ignition config.
    pub(crate) fn installing(arguments: &[&str]) -> Self {
        let dir = folder();
        fs::write(dir.join("c.ign"), IGNITION).unwrap();
        Self::start_in(&dir, &[&["--ignition", "c.ign"], arguments].concat())
    }

    /// A lab VIM in a folder; on a free port of 127.0.0.1 unless the arguments say where.
    pub(crate) fn start_in(dir: &Path, arguments: &[&str]) -> Self {
        let listen = ["--listen", "127.0.0.1:0"];
        let listen = if arguments.contains(&listen[0]) { &[][..] } else { &listen };
        let mut child = Command::new(env!("CARGO_BIN_EXE_lab-vim"))
            .args(listen)
            .args(arguments)
            .current_dir(dir)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = |key: &str| {
            let word = line.split_whitespace().find_map(|word| word.strip_prefix(key));
            word.map(|word| word.parse().unwrap())
        };
        let http = address("http=").unwrap_or_else(|| panic!("first line {line:?}"));
        Self { child, http, https: address("https="), dir: dir.to_owned() }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.http)
    }

    pub(crate) fn get(&self, path: &str) -> Got {
        self.try_get(path).unwrap()
    }

    pub(crate) fn put(&self, path: &str, body: &Value) -> Got {
        self.put_with(path, &[("content-type", "application/json")], body)
    }

    pub(crate) fn put_with(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> Got {
        let mut request = client().put(self.url(path));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        read(request.send(body.to_string())).unwrap()
    }

    pub(crate) fn delete(&self, path: &str) -> Got {
        read(client().delete(self.url(path)).call()).unwrap()
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Got {
        self.post_with(path, &[("content-type", "application/json")], body.to_string().as_bytes())
    }

    pub(crate) fn post_keyed(&self, path: &str, key: &str, body: &Value) -> Got {
        let headers = [("content-type", "application/json"), ("idempotency-key", key)];
        self.post_with(path, &headers, body.to_string().as_bytes())
    }

    pub(crate) fn post_with(&self, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Got {
        self.try_post(path, headers, body).unwrap()
    }

    pub(crate) fn try_post(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Got, ureq::Error> {
        let mut request = client().post(self.url(path));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        read(request.send(body))
    }

    pub(crate) fn try_get(&self, path: &str) -> Result<Got, ureq::Error> {
        read(client().get(self.url(path)).call())
    }

    /// The CPU time that the program has used, in ticks of the kernel (`proc_pid_stat(5)`).
    pub(crate) fn cpu_ticks(&self) -> u64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    }

    /// Sends a GET and returns the connection, which waits at most this long for each part of the answer.
    pub(crate) fn open(&self, path: &str, wait: Duration) -> TcpStream {
        self.send(&format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n"), wait)
    }

    fn send(&self, request: &str, wait: Duration) -> TcpStream {
        let mut stream = TcpStream::connect(self.http).unwrap();
        stream.set_read_timeout(Some(wait)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    /// Sends text as it is and returns all that comes until the end or an error.
    pub(crate) fn raw(&self, request: &str) -> String {
        let mut answer = Vec::new();
        let _ = self.send(request, Duration::from_secs(10)).read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }
}

impl Drop for Vim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// A client that takes error answers as answers and follows no redirect.
pub(crate) fn client() -> ureq::Agent {
    ureq::Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .timeout_global(Some(Duration::from_secs(20)))
        .build()
        .into()
}

pub(crate) fn read(
    answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
) -> Result<Got, ureq::Error> {
    let mut answer = answer?;
    let headers = answer.headers().iter();
    let headers = headers.map(|(k, v)| (k.to_string(), v.to_str().unwrap_or("").to_owned()));
    Ok(Got {
        status: answer.status().as_u16(),
        headers: headers.collect(),
        body: answer.body_mut().with_config().limit(400_000_000).read_to_vec()?,
    })
}

pub(crate) const IGNITION: &str = r#"{"ignition":{"version":"3.4.0"}}"#;
pub(crate) const KEY: &str = "6b1c2a1e-0000-4000-8000-000000000001";

/// The smallest report.
pub(crate) fn report(node: &str) -> Value {
    json!({
        "schema_version": "1.0", "node_id": node,
        "agent": {"name": "run-coreos-installer", "version": "0.1.0", "capabilities": []},
        "collected_at": "2026-11-20T10:00:00Z", "duration_ms": 1, "identity": [], "findings": [],
        "problems": [], "timings": {"collectors_ms": {}},
    })
}

/// An event.
pub(crate) fn event(sequence: u64, stage: &str, moment: &str) -> Value {
    json!({"sequence": sequence, "time": "2026-11-20T10:00:00Z", "stage": stage, "state": moment})
}

/// A result.
pub(crate) fn result(node: &str, outcome: &str) -> Value {
    json!({
        "api_version": "1", "request_id": "lab-1", "node_id": node, "outcome": outcome,
        "stage": "result", "message": "as asked for", "disk_state": "installed", "attempts": 1,
        "started_at": "2026-11-20T10:00:00Z", "finished_at": "2026-11-20T10:01:00Z",
    })
}

/// A finding.
pub(crate) fn finding(code: &str, severity: &str, part: (&str, &str), evidence: &str) -> Value {
    json!({
        "code": code, "severity": severity, "component": part.0, "locator": part.1,
        "evidence": evidence, "advice": "replace it",
    })
}
