//! The lab VIM as the guests' server: started on free ports, queried through its admin API, ended on drop.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::agent::built;
use crate::artifacts::repository;

/// A lab VIM on IPv4 and IPv6.
#[derive(Debug)]
pub(crate) struct Lab {
    child: Child,
    ipv4: SocketAddr,
    ipv6: SocketAddr,
    https: Option<SocketAddr>,
}

impl Lab {
    /// Starts it with these arguments; its request log is `folder/lab-vim.log`.
    pub(crate) fn start(folder: &Path, arguments: &[String]) -> Result<Self> {
        let program = program()?;
        let mut child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL"])
            .arg(&program)
            .args(["--listen", "127.0.0.1:0", "--listen", "[::1]:0"])
            .args(arguments)
            .current_dir(folder)
            .stdout(Stdio::piped())
            .stderr(File::create(folder.join("lab-vim.log"))?)
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        let output = child.stdout.take().context("the lab VIM has no standard output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let mut addresses =
            line.split_whitespace().filter_map(|word| word.strip_prefix("http=")?.parse().ok());
        let (Some(ipv4), Some(ipv6)) = (addresses.next(), addresses.next()) else {
            child.kill().ok();
            child.wait().ok();
            let log = std::fs::read_to_string(folder.join("lab-vim.log")).unwrap_or_default();
            bail!("the lab VIM printed {line:?}, expected its addresses:\n{log}");
        };
        let https =
            line.split_whitespace().find_map(|word| word.strip_prefix("https=")?.parse().ok());
        Ok(Self { child, ipv4, ipv6, https })
    }

    /// Its address as a guest sees it: QEMU's user network has the host at 10.0.2.2.
    pub(crate) fn url_ipv4(&self) -> String {
        format!("http://10.0.2.2:{}", self.ipv4.port())
    }

    /// The same over IPv6, where the host is `fec0::2`.
    pub(crate) fn url_ipv6(&self) -> String {
        format!("http://[fec0::2]:{}", self.ipv6.port())
    }

    /// The port over IPv6, for other forms of the address.
    pub(crate) fn port_ipv6(&self) -> u16 {
        self.ipv6.port()
    }

    /// Its HTTPS address as a guest sees it, if the arguments gave it one.
    pub(crate) fn url_https(&self) -> Result<String> {
        let https = self.https.context("the lab VIM has no HTTPS port")?;
        Ok(format!("https://10.0.2.2:{}", https.port()))
    }

    /// PUTs a setting through the admin API.
    pub(crate) fn put(&self, path: &str, body: &Value) -> Result<()> {
        let mut stream = TcpStream::connect(self.ipv4)?;
        let body = body.to_string();
        write!(
            stream,
            "PUT {path} HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        if !answer.starts_with("HTTP/1.0 20") && !answer.starts_with("HTTP/1.1 20") {
            bail!("PUT {path}: {answer}");
        }
        Ok(())
    }

    /// Its address on this machine.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.ipv4)
    }

    /// A client for another thread.
    pub(crate) fn asker(&self) -> Asker {
        Asker { address: self.ipv4 }
    }

    /// GETs a document of the admin API, as `/lab/nodes`; `None` if it does not exist (404).
    pub(crate) fn get(&self, path: &str) -> Result<Option<Value>> {
        self.asker().get(path)
    }

    /// GETs a page.
    pub(crate) fn text(&self, path: &str) -> Result<String> {
        Ok(self.asker().answer(path)?.1)
    }

    /// Waits for the one node to report.
    pub(crate) fn node_id(&self, within: Duration) -> Result<String> {
        let until = Instant::now() + within;
        loop {
            let nodes = self.get("/lab/nodes")?.unwrap_or_default();
            if let Some(id) = nodes["nodes"][0]["node_id"].as_str() {
                return Ok(id.to_owned());
            }
            if Instant::now() > until {
                bail!("no node has reported within {} s", within.as_secs());
            }
            std::thread::sleep(Duration::from_secs(2));
        }
    }

    /// Waits for what the one node sends: `report`, `events` or `result`.
    pub(crate) fn sent(&self, what: &str, within: Duration) -> Result<Value> {
        let until = Instant::now() + within;
        let node = self.node_id(within)?;
        loop {
            if let Some(document) = self.get(&format!("/lab/nodes/{node}/{what}"))? {
                return Ok(document);
            }
            if Instant::now() > until {
                bail!("node {node} has sent no {what} within {} s", within.as_secs());
            }
            std::thread::sleep(Duration::from_secs(2));
        }
    }

    /// Saves what the node sent and the request log in the test's folder.
    pub(crate) fn keep(&self, folder: &Path) -> Result<()> {
        let node = self.node_id(Duration::ZERO)?;
        for what in ["report", "events", "result"] {
            if let Some(document) = self.get(&format!("/lab/nodes/{node}/{what}"))? {
                std::fs::write(folder.join(format!("{what}.json")), format!("{document:#}\n"))?;
            }
        }
        let requests = self.requests()?;
        Ok(std::fs::write(folder.join("requests.json"), format!("{requests:#}\n"))?)
    }

    /// The requests received, oldest first.
    pub(crate) fn requests(&self) -> Result<Value> {
        Ok(self.get("/lab/requests")?.unwrap_or_default())
    }
}

/// A client of a lab VIM.
#[derive(Debug)]
pub(crate) struct Asker {
    address: SocketAddr,
}

impl Asker {
    /// GETs a document; `None` if it does not exist (404).
    pub(crate) fn get(&self, path: &str) -> Result<Option<Value>> {
        let (head, body) = self.answer(path)?;
        match head.split_whitespace().nth(1) {
            Some("200") => Ok(Some(serde_json::from_str(&body)?)),
            Some("404") => Ok(None),
            _ => bail!("GET {path}: {head}\n{body}"),
        }
    }

    /// The events of the one node; null before it has reported.
    pub(crate) fn events(&self) -> Result<Value> {
        let nodes = self.get("/lab/nodes")?.unwrap_or_default();
        match nodes["nodes"][0]["node_id"].as_str() {
            Some(id) => Ok(self.get(&format!("/lab/nodes/{id}/events"))?.unwrap_or_default()),
            None => Ok(Value::Null),
        }
    }

    /// Headers and body of the answer to a GET.
    fn answer(&self, path: &str) -> Result<(String, String)> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        // HTTP/1.0: the answer ends with the connection and is not chunked.
        write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) =
            answer.split_once("\r\n\r\n").with_context(|| format!("GET {path}: {answer:?}"))?;
        Ok((head.to_owned(), body.to_owned()))
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// The lab VIM's program: `RCI_LAB_VIM`, or one built now.
pub(crate) fn program() -> Result<PathBuf> {
    static BUILT: OnceLock<bool> = OnceLock::new();
    if let Some(path) = std::env::var_os("RCI_LAB_VIM") {
        return Ok(PathBuf::from(path));
    }
    let mut build = Command::new(env!("CARGO"));
    // With all features of the workspace, as the tests are: nothing is compiled that is not new.
    build.args(["build", "-q", "--workspace", "--bin", "lab-vim"]).current_dir(repository());
    if !BUILT.get_or_init(|| build.status().is_ok_and(|status| status.success())) {
        bail!("cargo build --workspace --bin lab-vim has failed");
    }
    built("lab-vim")
}
