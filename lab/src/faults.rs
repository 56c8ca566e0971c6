//! The plan of faults: which answers fail, how, and how often. `--fault` and `PUT /lab/faults` fill it.

use std::str::FromStr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hyper::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use serde_with::skip_serializing_none;

/// The effect of a fault on an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// An error answer: `status` (500), `retry_after`.
    Status,
    /// The true answer after `delay_ms` (1000).
    Delay,
    /// The true answer, `bytes` (16) every `delay_ms` (200).
    Drip,
    /// The connection is reset, after `bytes` (0) of the answer's body; 0: before any answer.
    Reset,
    /// The connection ends in good order after `bytes` (half) of the answer's body.
    Truncate,
    /// The connection stays open and silent, after `bytes` (0) of the answer's body.
    Hang,
    /// A body of `bytes` (1 GiB) zeros.
    Huge,
    /// One bit of the answer's body is wrong, at offset `bytes` (the middle).
    Corrupt,
    /// The instruction's Ignition hash is wrong.
    WrongHash,
    /// The instruction's image hash is wrong.
    WrongImageHash,
    /// 302 to the same address.
    RedirectLoop,
    /// 200 with JSON that breaks off.
    InvalidJson,
    /// `status` (200) with `body` and `content_type`, as given.
    Answer,
}

/// The number of times a fault applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Times {
    /// This number of times, then never again.
    Count(u32),
    /// Always: the word `forever`.
    Forever(Forever),
}

/// The word `forever`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Forever {
    /// Without end.
    Forever,
}

/// One line in the plan.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fault {
    /// `reports`, `instruction`, `events`, `result`, `files`, `agent`, `any`, or a path where a part may be `*`.
    pub(crate) route: String,
    /// Only requests with this method; absent: with any.
    pub(crate) method: Option<String>,
    /// The effect on the answer.
    pub(crate) kind: Kind,
    /// Remaining number of times: 1 when absent.
    #[serde(default = "once")]
    pub(crate) times: Times,
    /// Number of requests that succeed first.
    #[serde(default)]
    pub(crate) skip: u32,
    /// `status`, `answer`: the HTTP status.
    pub(crate) status: Option<u16>,
    /// `status`: seconds for a Retry-After header, or `date:SECONDS` for its date form.
    pub(crate) retry_after: Option<String>,
    /// `delay`, `drip`: milliseconds.
    pub(crate) delay_ms: Option<u64>,
    /// Number of bytes or an offset, depending on the kind.
    pub(crate) bytes: Option<u64>,
    /// The request is carried out first, then its answer is lost: for `status`, `reset`, `hang`.
    #[serde(default)]
    pub(crate) processed: bool,
    /// `answer`: the body.
    pub(crate) body: Option<String>,
    /// `answer`: its type; `application/json` when absent.
    pub(crate) content_type: Option<String>,
}

fn once() -> Times {
    Times::Count(1)
}

impl Fault {
    /// Returns true if the fault applies to this request.
    fn matches(&self, method: &Method, path: &str) -> bool {
        let wanted = self.method.as_deref();
        let method_fits = wanted.is_none_or(|wanted| method.as_str().eq_ignore_ascii_case(wanted));
        let pattern = match self.route.as_str() {
            "any" => return method_fits && !path.starts_with("/lab"),
            "reports" => "/v1/reports",
            "instruction" => "/v1/nodes/*/instruction",
            "events" => "/v1/nodes/*/events",
            "result" => "/v1/nodes/*/result",
            "files" => "/files/**",
            "agent" => "/ocp/**",
            pattern => pattern,
        };
        method_fits && path_matches(pattern, path)
    }
}

/// `*` stands for one part of the path, a last `**` for all that follow.
fn path_matches(pattern: &str, path: &str) -> bool {
    let mut parts = path.split('/');
    for wanted in pattern.split('/') {
        let part = parts.next();
        match (wanted, part) {
            ("**", Some(_)) => return true,
            ("*", Some(_)) => {}
            (wanted, Some(part)) if wanted == part => {}
            _ => return false,
        }
    }
    parts.next().is_none()
}

/// `ROUTE=KIND[,KEY=VALUE]…`, e.g. `reports=status,status=503,retry_after=2,times=3`.
impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = "expected ROUTE=KIND[,KEY=VALUE]…";
        let (route, rest) = text.split_once('=').ok_or_else(|| format!("{text:?}: {form}"))?;
        let mut parts = rest.split(',');
        let mut fault = Map::new();
        fault.insert("route".to_owned(), json!(route));
        fault.insert("kind".to_owned(), json!(parts.next().unwrap_or_default()));
        for part in parts {
            let (key, value) =
                part.split_once('=').ok_or_else(|| format!("{part:?} in {text:?}: {form}"))?;
            let is_text = matches!(key, "retry_after" | "body" | "content_type" | "method");
            let parsed = if is_text { None } else { serde_json::from_str(value).ok() };
            fault.insert(key.to_owned(), parsed.unwrap_or_else(|| json!(value)));
        }
        serde_json::from_value(Value::Object(fault)).map_err(|error| format!("{text:?}: {error}"))
    }
}

/// The plan, carried out in order.
#[derive(Debug, Default)]
pub(crate) struct Faults(Mutex<Vec<Fault>>);

impl Faults {
    /// A plan.
    pub(crate) fn new(faults: Vec<Fault>) -> Self {
        Self(Mutex::new(faults))
    }

    /// Locks the remaining plan; every request waits for it.
    pub(crate) fn left(&self) -> MutexGuard<'_, Vec<Fault>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The fault for this request, counted down; a fault that is used up is removed.
    pub(crate) fn take(&self, method: &Method, path: &str) -> Option<Fault> {
        let mut plan = self.left();
        let at = plan.iter().position(|fault| fault.matches(method, path))?;
        let fault = &mut plan[at];
        if fault.skip > 0 {
            fault.skip -= 1;
            return None;
        }
        match &mut fault.times {
            Times::Count(0) => {
                plan.remove(at);
                None
            }
            Times::Count(1) => Some(plan.remove(at)),
            Times::Count(left) => {
                *left -= 1;
                Some(fault.clone())
            }
            Times::Forever(_) => Some(fault.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_one_part_of_the_path() {
        assert!(path_matches("/v1/nodes/*/events", "/v1/nodes/n/events"));
        assert!(!path_matches("/v1/nodes/*/events", "/v1/nodes/n/m/events"));
        assert!(!path_matches("/v1/nodes/*", "/v1/nodes"));
        assert!(path_matches("/files/**", "/files/a/b"));
    }
}
