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

    /// Runs a command of the monitor for people, and returns what it printed.
    pub(crate) fn monitor(&mut self, command: &str) -> Result<String> {
        let said = self.execute("human-monitor-command", &json!({"command-line": command}))?;
        Ok(said.as_str().unwrap_or_default().trim().to_owned())
    }

    /// Plugs in or unplugs the cable of a port.
    pub(crate) fn set_link(&mut self, port: &str, is_up: bool) -> Result<()> {
        self.execute("set_link", &json!({"name": port, "up": is_up})).map(drop)
    }

    /// Limits the bytes that a drive reads and writes in a second; 0 is no limit.
    pub(crate) fn throttle(&mut self, drive: &str, bytes_a_second: u64) -> Result<()> {
        let limits = json!({
            "device": drive, "bps": bytes_a_second, "bps_rd": 0, "bps_wr": 0, "iops": 0, "iops_rd": 0, "iops_wr": 0,
        });
        self.execute("block_set_io_throttle", &limits).map(drop)
    }

    /// The next object, an answer or an event.
    fn read(&mut self) -> Result<Value> {
        let mut line = String::new();
        self.replies.read_line(&mut line).context("reading from QMP")?;
        serde_json::from_str(&line).with_context(|| format!("QMP said {line:?}"))
    }
}
