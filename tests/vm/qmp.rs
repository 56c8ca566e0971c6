//! QEMU's machine protocol (QEMU: `docs/interop/qmp-spec.rst`): one JSON object a line over a Unix socket.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

/// Time limit of an answer.
const ANSWER: Duration = Duration::from_secs(20);

/// A connection in command mode.
#[derive(Debug)]
pub(crate) struct Qmp {
    stream: UnixStream,
    replies: BufReader<UnixStream>,
}

impl Qmp {
    /// Connects and completes the negotiation.
    pub(crate) fn connect(socket: &Path) -> Result<Self> {
        let until = Instant::now() + ANSWER;
        // QEMU creates the socket shortly after its start.
        let stream = loop {
            match UnixStream::connect(socket) {
                Err(_) if Instant::now() < until => std::thread::sleep(Duration::from_millis(50)),
                answer => {
                    break answer.with_context(|| format!("connecting to {}", socket.display()))?;
                }
            }
        };
        stream.set_read_timeout(Some(ANSWER))?;
        let replies = BufReader::new(stream.try_clone()?);
        let mut qmp = Self { stream, replies };
        qmp.read()?;
        qmp.execute("qmp_capabilities", &json!({}))?;
        Ok(qmp)
    }

    /// Runs a command, as `set_link` with `{"name": "n0", "up": false}`, and returns what it returned.
    pub(crate) fn execute(&mut self, command: &str, arguments: &Value) -> Result<Value> {
        let line = json!({"execute": command, "arguments": arguments}).to_string() + "\n";
        self.stream.write_all(line.as_bytes())?;
        loop {
            let mut reply = self.read()?;
            if let Some(error) = reply.get("error") {
                bail!("QMP {command}: {error}");
            }
            if let Some(value) = reply.get_mut("return") {
                return Ok(value.take());
            }
        }
    }

    /// The next object, an answer or an event.
    fn read(&mut self) -> Result<Value> {
        let mut line = String::new();
        self.replies.read_line(&mut line).context("reading from QMP")?;
        serde_json::from_str(&line).with_context(|| format!("QMP said {line:?}"))
    }
}
