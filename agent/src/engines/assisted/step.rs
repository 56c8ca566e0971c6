//! A step that the service asks for, and the cache of replies that it already has.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use formats::digest;
use serde_json::Value;
use tracing::warn;

use super::api::Reply;
use crate::clean;

/// Time for which the service keeps a reply, so that an equal one need not be sent again.
const CACHE_LIMIT: Duration = Duration::from_hours(1);
/// Most steps of one response that are carried out.
const MAX_STEPS: usize = 64;
/// The longest type or id of a step, in characters.
const MAX_NAME_CHARS: usize = 128;

/// A step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step {
    /// Its type, e.g. `inventory`.
    pub(super) kind: String,
    /// The service's id of the step; the reply repeats it.
    pub(super) id: String,
    /// Its arguments.
    pub(super) args: Vec<String>,
}

impl Step {
    /// The argument at this place, parsed as JSON.
    pub(super) fn json(&self, at: usize) -> Result<Value, String> {
        let text = self.args.get(at).ok_or("it has no argument")?;
        serde_json::from_str(text).map_err(|error| format!("its argument is not JSON: {error}"))
    }
}

/// The service's answer to a request for steps.
#[derive(Debug, Default)]
pub(super) struct Steps {
    pub(super) list: Vec<Step>,
    /// When to ask again.
    pub(super) wait_s: Option<u64>,
    /// True if the host must register again.
    pub(super) is_exit: bool,
}

impl Steps {
    /// Reads a response. Go writes an empty list as null.
    pub(super) fn parse(answer: &Value) -> Self {
        let given = answer.get("instructions").and_then(Value::as_array);
        let given = given.map_or(&[][..], Vec::as_slice);
        let list: Vec<Step> = given.iter().take(MAX_STEPS).filter_map(step).collect();
        let n_ignored = given.len() - list.len();
        if n_ignored > 0 {
            warn!(
                "steps of the service that are ignored, since they are malformed or too many: {n_ignored}"
            );
        }
        Self {
            list,
            wait_s: answer.get("next_instruction_seconds").and_then(Value::as_u64),
            is_exit: answer.get("post_step_action").and_then(Value::as_str) == Some("exit"),
        }
    }
}

fn step(value: &Value) -> Option<Step> {
    let name = |key: &str| Some(clean::text(value.get(key)?.as_str()?, MAX_NAME_CHARS));
    let args = value.get("args").and_then(Value::as_array);
    let args = args.into_iter().flatten().map(|arg| arg.as_str().map(str::to_owned));
    Some(Step {
        kind: name("step_type")?,
        id: name("step_id").unwrap_or_default(),
        args: args.collect::<Option<_>>()?,
    })
}

/// The last reply of each type that the service has.
#[derive(Debug, Default)]
pub(super) struct Cache {
    replies: BTreeMap<String, (String, Instant)>,
}

impl Cache {
    /// True if the service has an equal reply to a step of this type.
    pub(super) fn contains(&self, kind: &str, reply: &Reply, now: Instant) -> bool {
        let known = self.replies.get(kind).filter(|_| reply.exit_code == 0);
        known.is_some_and(|(known, at)| {
            now.saturating_duration_since(*at) < CACHE_LIMIT && *known == digest_of(reply)
        })
    }

    /// The service accepted this reply.
    pub(super) fn add(&mut self, kind: &str, reply: &Reply, now: Instant) {
        // The service names the types. A reply that is not kept is sent again.
        if self.replies.len() >= MAX_STEPS && !self.replies.contains_key(kind) {
            return;
        }
        self.replies.insert(kind.to_owned(), (digest_of(reply), now));
    }

    /// Forgets all replies, as the service may have lost them.
    pub(super) fn clear(&mut self) {
        self.replies.clear();
    }
}

fn digest_of(reply: &Reply) -> String {
    digest::sha256(format!("{}\n{}\n{}", reply.exit_code, reply.error, reply.output).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn response_is_read_whatever_is_missing_or_malformed() {
        let answer = json!({
            "next_instruction_seconds": 60, "post_step_action": "exit",
            "instructions": [
                {"step_type": "inventory", "step_id": "inventory-1", "args": ["x"]},
                {"step_type": "ntp-synchronizer", "args": null},
                {"step_type": "install", "args": [1]}, {"step_id": "a"}, 7,
            ],
        });
        let steps = Steps::parse(&answer);
        assert!(steps.is_exit && steps.wait_s == Some(60));
        let kinds: Vec<&str> = steps.list.iter().map(|step| step.kind.as_str()).collect();
        assert_eq!(kinds, ["inventory", "ntp-synchronizer"]);
        for odd in [json!(null), json!([]), json!({"instructions": null})] {
            assert!(Steps::parse(&odd).list.is_empty());
        }
    }

    #[test]
    fn only_an_equal_successful_reply_is_not_sent_again_within_an_hour() {
        let mut cache = Cache::default();
        let (now, reply) = (Instant::now(), Reply::done(&json!({"a": 1})));
        assert!(!cache.contains("inventory", &reply, now));
        cache.add("inventory", &reply, now);
        assert!(cache.contains("inventory", &reply, now));
        assert!(!cache.contains("inventory", &Reply::done(&json!({"a": 2})), now));
        assert!(!cache.contains("inventory", &reply, now + CACHE_LIMIT));
        let failed = Reply::failed("x");
        cache.add("inventory", &failed, now);
        assert!(!cache.contains("inventory", &failed, now));
        cache.clear();
        assert!(!cache.contains("inventory", &reply, now));
        (0..1000).for_each(|n| cache.add(&format!("type-{n}"), &reply, now));
        assert_eq!(cache.replies.len(), MAX_STEPS);
        cache.add("type-0", &Reply::done(&json!({"a": 3})), now);
        assert!(!cache.contains("type-0", &reply, now));
    }
}
