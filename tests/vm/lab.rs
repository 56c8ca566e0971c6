//! The lab VIM as the guests' server: started on free ports, queried through its admin API, ended on drop.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::agent::built;
use crate::artifacts::repository;

/// A lab VIM on IPv4 and IPv6. When it is dropped, its folder gets what the node sent.
#[derive(Debug)]
pub(crate) struct Lab {
    child: Child,
    /// The folder of the test, in which it runs.
    pub(crate) folder: PathBuf,
    /// Its address on this machine.
    pub(crate) ipv4: SocketAddr,
    ipv6: SocketAddr,
    https: Option<SocketAddr>,
}

impl Lab {
    /// Starts it with these arguments, which contain no blanks; its log is `folder/lab-vim.log`.
    pub(crate) fn start(folder: PathBuf, arguments: &str) -> Result<Self> {
        let program = program()?;
        let mut child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL"])
            .arg(&program)
            .args(["--listen", "127.0.0.1:0", "--listen", "[::1]:0"])
            .args(arguments.split_whitespace())
            .current_dir(&folder)
            .stdout(Stdio::piped())
            .stderr(File::create(folder.join("lab-vim.log"))?)
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        let output = child.stdout.take().context("the lab VIM has no standard output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let words = || line.split_whitespace();
        let mut addresses = words().filter_map(|word| word.strip_prefix("http=")?.parse().ok());
        let (Some(ipv4), Some(ipv6)) = (addresses.next(), addresses.next()) else {
            child.kill().ok();
            child.wait().ok();
            let log = std::fs::read_to_string(folder.join("lab-vim.log")).unwrap_or_default();
            bail!("the lab VIM printed {line:?}, expected its addresses:\n{log}");
        };
        let https = words().find_map(|word| word.strip_prefix("https=")?.parse().ok());
        Ok(Self { child, folder, ipv4, ipv6, https })
    }

    /// Its address as a guest sees it: QEMU's user network has the host at 10.0.2.2.
    pub(crate) fn url_ipv4(&self) -> String {
        format!("http://10.0.2.2:{}", self.ipv4.port())
    }

    /// The same over IPv6, where the host is `fec0::2`, also with a zone.
    pub(crate) fn url_ipv6(&self, host: &str) -> String {
        format!("http://[{host}]:{}", self.ipv6.port())
    }

    /// Its HTTPS port, if the arguments gave it one.
    pub(crate) fn https_port(&self) -> Result<u16> {
        Ok(self.https.context("the lab VIM has no HTTPS port")?.port())
    }

    /// PUTs a setting through the admin API.
    pub(crate) fn put(&self, path: &str, body: &Value) -> Result<()> {
        let (status, answer) = ask(self.ipv4, "PUT", path, &body.to_string())?;
        ensure!(status.starts_with("20"), "PUT {path}: {status}\n{answer}");
        Ok(())
    }

    /// GETs a document of the admin API, as `/lab/nodes`; null if it does not exist.
    pub(crate) fn get(&self, path: &str) -> Result<Value> {
        get(self.ipv4, path)
    }

    /// GETs the page of the one node.
    pub(crate) fn page(&self) -> Result<String> {
        Ok(ask(self.ipv4, "GET", &format!("/nodes/{}", self.node_id()?), "")?.1)
    }

    /// The one node, which has reported.
    pub(crate) fn node_id(&self) -> Result<String> {
        node_id(self.ipv4)?.context("no node has reported")
    }

    /// What the one node has sent last: `report`, `events` or `result`.
    pub(crate) fn sent(&self, what: &str) -> Result<Value> {
        self.wait_for(what, Duration::ZERO, |_| true)
    }

    /// Waits until what the one node has sent last is as `is_wanted` says.
    pub(crate) fn wait_for(
        &self,
        what: &str,
        within: Duration,
        is_wanted: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let until = Instant::now() + within;
        loop {
            let last = last(self.ipv4, what)?;
            if !last.is_null() && is_wanted(&last) {
                return Ok(last);
            }
            let seconds = within.as_secs();
            ensure!(
                Instant::now() < until,
                "the node has sent no such {what} within {seconds} s, the last one is {last:#}"
            );
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    /// The requests received, oldest first, that are as `is_wanted` says.
    pub(crate) fn requests(&self, is_wanted: impl Fn(&Value) -> bool) -> Result<Vec<Value>> {
        let mut requests = self.get("/lab/requests")?;
        let requests = requests.as_array_mut().context("no list of requests")?;
        requests.retain(|request| is_wanted(request));
        Ok(std::mem::take(requests))
    }

    /// Saves what the node sent and the requests in the test's folder.
    fn keep(&self) -> Result<()> {
        let save = |name: &str, document: &Value| {
            std::fs::write(self.folder.join(name), format!("{document:#}\n"))
        };
        save("requests.json", &self.get("/lab/requests")?)?;
        for what in ["report", "events", "result"] {
            let document = last(self.ipv4, what)?;
            if !document.is_null() {
                save(&format!("{what}.json"), &document)?;
            }
        }
        Ok(())
    }
}

/// What the one node of the lab VIM at this address has sent last; null before it has.
pub(crate) fn last(lab: SocketAddr, what: &str) -> Result<Value> {
    match node_id(lab)? {
        Some(id) => get(lab, &format!("/lab/nodes/{id}/{what}")),
        None => Ok(Value::Null),
    }
}

fn node_id(lab: SocketAddr) -> Result<Option<String>> {
    Ok(get(lab, "/lab/nodes")?["nodes"][0]["node_id"].as_str().map(str::to_owned))
}

fn get(lab: SocketAddr, path: &str) -> Result<Value> {
    let (status, body) = ask(lab, "GET", path, "")?;
    match &*status {
        "200" => Ok(serde_json::from_str(&body)?),
        "404" => Ok(Value::Null),
        _ => bail!("GET {path}: {status}\n{body}"),
    }
}

/// Status and body of the answer to a request.
fn ask(lab: SocketAddr, method: &str, path: &str, body: &str) -> Result<(String, String)> {
    let mut stream = TcpStream::connect(lab)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    // HTTP/1.0: the answer ends with the connection and is not chunked.
    let head =
        format!("{method} {path} HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json");
    write!(stream, "{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let parts = answer
        .split_once("\r\n\r\n")
        .and_then(|(head, body)| Some((head.split(' ').nth(1)?, body)));
    let (status, body) = parts.with_context(|| format!("{method} {path}: {answer:?}"))?;
    Ok((status.to_owned(), body.to_owned()))
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.keep().ok();
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
