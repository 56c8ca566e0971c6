//! The guest's serial console: logged with time stamps, and searched with a time limit.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Longer lines are cut, so that a broken guest cannot fill the memory.
const MAX_LINE_BYTES: u64 = 64 * 1024;

/// A line and its time, counted from the guest's start.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    /// Since the guest was started.
    pub(crate) after: Duration,
    /// Without its line end and without terminal escapes.
    pub(crate) text: String,
    /// With the terminal escapes.
    pub(crate) shown: String,
}

/// The lines so far, and whether more can follow.
#[derive(Debug, Default)]
struct Seen {
    lines: Vec<Line>,
    ended: bool,
}

/// The console of one guest.
#[derive(Debug)]
pub(crate) struct Console {
    seen: Arc<(Mutex<Seen>, Condvar)>,
    /// The line at which the last wait ended; the next wait continues after it.
    cursor: usize,
    reader: Option<JoinHandle<()>>,
}

impl Console {
    /// Reads `output` on a thread of its own and keeps a copy in `log`.
    pub(crate) fn start(
        output: impl Read + Send + 'static,
        log: &Path,
        t0: Instant,
    ) -> Result<Self> {
        let mut log = File::create(log).with_context(|| format!("creating {}", log.display()))?;
        let seen = Arc::new((Mutex::new(Seen::default()), Condvar::new()));
        let shared = Arc::clone(&seen);
        let reader = std::thread::spawn(move || {
            let mut output = BufReader::new(output);
            while let Some(shown) = next_line(&mut output) {
                let line = Line { after: t0.elapsed(), text: plain(&shown), shown };
                writeln!(log, "{:8.2} {}", line.after.as_secs_f64(), line.text).ok();
                let (lock, changed) = &*shared;
                lock.lock().unwrap_or_else(PoisonError::into_inner).lines.push(line);
                changed.notify_all();
            }
            let (lock, changed) = &*shared;
            lock.lock().unwrap_or_else(PoisonError::into_inner).ended = true;
            changed.notify_all();
        });
        Ok(Self { seen, cursor: 0, reader: Some(reader) })
    }

    /// Waits for a line that contains `marker`, after the line of the last wait.
    ///
    /// # Errors
    ///
    /// When the console ends or the time is up first; the message has the last lines.
    pub(crate) fn wait_for(&mut self, marker: &str, within: Duration) -> Result<Line> {
        let until = Instant::now() + within;
        let (lock, changed) = &*self.seen;
        let mut seen = lock.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(at) =
                seen.lines[self.cursor..].iter().position(|line| line.text.contains(marker))
            {
                self.cursor += at + 1;
                return Ok(seen.lines[self.cursor - 1].clone());
            }
            let left = until.saturating_duration_since(Instant::now());
            if seen.ended || left.is_zero() {
                let how = if seen.ended { "the console ended" } else { "the time was up" };
                bail!(
                    "waiting for \"{marker}\" on the console: {how}; its last lines:\n{}",
                    tail(&seen.lines)
                );
            }
            seen = changed.wait_timeout(seen, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// All lines so far.
    pub(crate) fn lines(&self) -> Vec<Line> {
        self.seen.0.lock().unwrap_or_else(PoisonError::into_inner).lines.clone()
    }

    /// Whether there is a line with this text.
    pub(crate) fn has(&self, text: &str) -> bool {
        self.lines().iter().any(|line| line.text.contains(text))
    }

    /// Whether it ended before its first line.
    pub(crate) fn ended_in_silence(&self) -> bool {
        let seen = self.seen.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.ended && seen.lines.is_empty()
    }

    /// Waits until the reader has read the last byte; to be called after the guest's end.
    pub(crate) fn finish(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.join().ok();
        }
    }
}

/// The last lines of a console, for a message.
pub(crate) fn tail(lines: &[Line]) -> String {
    let from = lines.len().saturating_sub(25);
    let shown: Vec<_> = lines[from..]
        .iter()
        .map(|line| format!("  {:8.2} {}", line.after.as_secs_f64(), line.text))
        .collect();
    shown.join("\n")
}

/// The next line, or `None` at the end.
fn next_line(output: &mut impl BufRead) -> Option<String> {
    let mut bytes = Vec::new();
    match output.take(MAX_LINE_BYTES).read_until(b'\n', &mut bytes) {
        Ok(n) if n > 0 => Some(String::from_utf8_lossy(&bytes).into_owned()),
        _ => None,
    }
}

/// Removes terminal escapes (`ESC [ … letter`) and other control characters.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c == '\x1b' {
            if chars.next() == Some('[') {
                chars.by_ref().find(char::is_ascii_alphabetic);
            }
        } else if !c.is_control() || c == '\t' {
            out.push(c);
        }
    }
    out
}
