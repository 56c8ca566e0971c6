//! The request log: one line each on stderr, and the last ones for `GET /lab/requests`.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

use formats::hex::hex;
use hyper::header::HeaderMap;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

/// Number of requests to remember.
const LIMIT: usize = 5000;

/// The requests received, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Journal(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    n_seen: u64,
    entries: VecDeque<(u64, Value)>,
}

impl Journal {
    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a request when it begins; `add` completes the entry with the returned number.
    pub(crate) fn begin(&self, entry: Value) -> u64 {
        let mut log = self.lock();
        log.n_seen += 1;
        let n = log.n_seen;
        log.entries.push_back((n, entry));
        if log.entries.len() > LIMIT {
            log.entries.pop_front();
        }
        n
    }

    /// Adds to a request's entry.
    pub(crate) fn add(&self, n: u64, more: Value) {
        let mut log = self.lock();
        let entry = log.entries.iter_mut().rev().find(|(number, _)| *number == n);
        if let (Some((_, Value::Object(entry))), Value::Object(more)) = (entry, more) {
            entry.extend(more);
        }
    }

    /// The remembered requests.
    pub(crate) fn list(&self) -> Value {
        let numbered = |(n, entry): &(u64, Value)| {
            let mut entry = entry.clone();
            entry["n"] = json!(n);
            entry
        };
        self.lock().entries.iter().map(numbered).collect()
    }

    /// Forgets them.
    pub(crate) fn clear(&self) {
        self.lock().entries.clear();
    }
}

/// The headers for the log, without secrets.
pub(crate) fn headers(headers: &HeaderMap) -> Value {
    let mut shown = Map::new();
    for (name, value) in headers {
        let secret = name == "authorization" || name == "cookie";
        let value = String::from_utf8_lossy(value.as_bytes());
        let value = if secret { "<not shown>".into() } else { value };
        shown.insert(name.as_str().to_owned(), json!(value));
    }
    Value::Object(shown)
}

/// Returns a body's size and digest for the log.
pub(crate) fn body(bytes: &[u8]) -> Value {
    json!({"body_bytes": bytes.len(), "body_sha256": hex(&Sha256::digest(bytes))})
}

/// Writes a line to stderr, with hidden characters escaped, and ignores a closed one.
pub(crate) fn line(text: &str) {
    let _ = write!(std::io::stderr(), "{}", compare::line(text));
}
