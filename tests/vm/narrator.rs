//! Prints on the terminal how the whole job proceeds, from the events that arrive at the lab VIM.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::Value;

use crate::artifacts::repository;
use crate::lab::{self, Lab};

/// Time between two requests to the lab VIM.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Prints a line per stage in the demo, and nothing in tests.
#[derive(Debug)]
pub(crate) struct Narrator {
    is_silent: bool,
    t0: Instant,
    has_ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Narrator {
    /// Prints nothing; for tests.
    pub(crate) fn silent() -> Self {
        Self { is_silent: true, ..Self::verbose() }
    }

    /// Prints each stage; for the demo.
    pub(crate) fn verbose() -> Self {
        Self { is_silent: false, t0: Instant::now(), has_ended: Arc::default(), thread: None }
    }

    /// Starts to print the events that arrive at `lab`.
    pub(crate) fn follow(&mut self, lab: &Lab) {
        self.say(&format!("the lab VIM's page: http://{}/", lab.ipv4));
        if !self.is_silent {
            let (lab, has_ended, t0) = (lab.ipv4, Arc::clone(&self.has_ended), self.t0);
            self.thread = Some(std::thread::spawn(move || follow(lab, &has_ended, t0)));
        }
    }

    /// Prints one line with the seconds since the start.
    pub(crate) fn say(&self, text: &str) {
        if !self.is_silent {
            say(self.t0, text);
        }
    }

    /// Stops following the events, saves the node's page, and prints where the files are.
    pub(crate) fn finish(&mut self, lab: &Lab) -> Result<()> {
        self.has_ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
        if self.is_silent {
            return Ok(());
        }
        std::fs::write(lab.folder.join("page.html"), lab.page()?)?;
        let relative =
            |path: &Path| path.strip_prefix(repository()).unwrap_or(path).display().to_string();
        let path = |name: &str| relative(&lab.folder.join(name));
        self.say("done: the machine is installed. What you can look at now:");
        for (what, name) in [
            ("report", "report.json"),
            ("events and result", "events.json, result.json in the same folder"),
            ("console of the live system", "live.console"),
            ("console of the installed system", "first.console"),
            ("the VIM's page of the node", "page.html"),
        ] {
            self.say(&format!("  {what}: {}", path(name)));
        }
        let (program, database) = (relative(&lab::program()?), path("vim.sqlite"));
        self.say(&format!("  the page, live: {program} --db {database}"));
        Ok(())
    }
}

#[expect(clippy::print_stderr, reason = "the demo shows a person what happens")]
fn say(t0: Instant, text: &str) {
    eprintln!("[{:4} s] {text}", t0.elapsed().as_secs());
}

/// Prints each new event until the job has ended.
fn follow(lab: SocketAddr, has_ended: &AtomicBool, t0: Instant) {
    let mut n_printed = 0;
    while !has_ended.load(Ordering::Relaxed) {
        std::thread::sleep(POLL_INTERVAL);
        let events = lab::last(lab, "events").unwrap_or_default();
        let events = events["events"].as_array().cloned().unwrap_or_default();
        for event in events.iter().skip(n_printed) {
            say(t0, &line(event));
        }
        n_printed = n_printed.max(events.len());
    }
}

/// `agent: write progress 40 % message`.
fn line(event: &Value) -> String {
    let text = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
    let percent = event["percent"].as_u64().map(|percent| format!(" {percent} %"));
    let message = Some(text("message")).filter(|message| !message.is_empty());
    let message = message.map(|message| format!(": {message}")).unwrap_or_default();
    format!("agent: {} {}{}{message}", text("stage"), text("state"), percent.unwrap_or_default())
}
