//! `make demo`: tells on the terminal how the whole job goes, from the events that arrive at the lab VIM.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::Value;

use crate::lab::Lab;

/// Between two looks at the lab VIM.
const LOOK: Duration = Duration::from_secs(1);

/// Prints a line per stage while it lives; prints nothing unless `make demo` runs.
#[derive(Debug)]
pub(crate) struct Narrator {
    is_on: bool,
    t0: Instant,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Narrator {
    pub(crate) fn start(lab: &Lab) -> Narrator {
        let is_on = std::env::var_os("RCI_DEMO").is_some();
        let ended = Arc::new(AtomicBool::new(false));
        let mut narrator = Narrator { is_on, t0: Instant::now(), ended, thread: None };
        narrator.say(&format!("the lab VIM's page: {}/", lab.url()));
        if is_on {
            let (url, ended, t0) = (lab.asker(), Arc::clone(&narrator.ended), narrator.t0);
            narrator.thread = Some(std::thread::spawn(move || follow(&url, &ended, t0)));
        }
        narrator
    }

    /// One line, with the seconds since the start.
    pub(crate) fn say(&self, text: &str) {
        if self.is_on {
            say(self.t0, text);
        }
    }

    /// Stops following; keeps the pages and tells where everything is.
    pub(crate) fn finish(mut self, lab: &Lab, folder: &Path) -> Result<()> {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
        if !self.is_on {
            return Ok(());
        }
        let node = lab.node_id(Duration::ZERO)?;
        std::fs::write(folder.join("page.html"), lab.text(&format!("/nodes/{node}"))?)?;
        let at = |name: &str| folder.join(name).display().to_string();
        say(self.t0, "done. What is left to look at:");
        for (what, name) in [
            ("the report", "report.json"),
            ("the events and the result", "events.json and result.json beside it"),
            ("the console of the live system", "live.console"),
            ("the console of the installed system", "first.console"),
            ("the VIM's page of the node, as it stood at the end", "page.html"),
        ] {
            say(self.t0, &format!("  {what}: {}", at(name)));
        }
        let db = at("vim.sqlite");
        say(self.t0, &format!("  the same, live: target/release/lab-vim --db {db}"));
        Ok(())
    }
}

#[expect(clippy::print_stderr, reason = "the demo tells a person what happens")]
fn say(t0: Instant, text: &str) {
    eprintln!("[{:4} s] {text}", t0.elapsed().as_secs());
}

/// Tells each new event until the job has ended.
fn follow(lab: &crate::lab::Asker, ended: &AtomicBool, t0: Instant) {
    let mut n_told = 0;
    while !ended.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK);
        let events = lab.events().unwrap_or_default();
        let events = events["events"].as_array().cloned().unwrap_or_default();
        for event in events.iter().skip(n_told) {
            say(t0, &line(event));
        }
        n_told = n_told.max(events.len());
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
