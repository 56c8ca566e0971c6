//! The outcome of an install as a result of VIM API v1.

use crate::act::say::Words;
use crate::act::{DiskState, Outcome, existing_data, identity_of};
use crate::api::{self, API_VERSION, JobResult, Neighbours};

/// The longest message of a result, in characters.
const MAX_MESSAGE_CHARS: usize = 4000;

/// The fields of a result besides the outcome.
#[derive(Debug, Clone, Default)]
pub struct Heading {
    /// The node.
    pub node_id: String,
    /// The instruction that was carried out or refused.
    pub request_id: Option<String>,
    /// Digest of its bytes.
    pub request_digest: Option<String>,
    /// When the job started: RFC 3339, UTC.
    pub started_at: String,
}

/// The word of the API for how an install ended.
#[must_use]
pub fn kind(outcome: &Outcome) -> api::Outcome {
    match outcome.state {
        _ if outcome.failure.is_none() => api::Outcome::Installed,
        DiskState::Untouched => api::Outcome::Refused,
        DiskState::HalfWritten => api::Outcome::Failed,
        DiskState::Written | DiskState::Erased => api::Outcome::Unproven,
        DiskState::Installed => api::Outcome::Installed,
    }
}

/// The result in the words of an engine; findings, neighbours and the time of its end are still missing.
#[must_use]
pub fn result(heading: Heading, outcome: &Outcome, words: Words) -> JobResult {
    let disk = outcome.disk.as_deref();
    let failure = outcome.failure.as_ref();
    let message = failure.map(|failure| failure.message.in_words(words)).unwrap_or_default();
    JobResult {
        api_version: API_VERSION.into(),
        request_id: heading.request_id,
        request_digest: heading.request_digest,
        node_id: heading.node_id,
        outcome: kind(outcome),
        stage: outcome.stage,
        code: failure.map(|failure| failure.code.to_string()),
        message: message.chars().take(MAX_MESSAGE_CHARS).collect(),
        advice: failure.and_then(|failure| Some(failure.advice.as_ref()?.in_words(words))),
        disk: disk.map(identity_of),
        existing_data: disk.map(existing_data).unwrap_or_default(),
        disk_state: outcome.state,
        taken_down: outcome.taken_down.clone(),
        erased: outcome.erased.clone(),
        image: outcome.image.clone(),
        write: outcome.counters,
        attempts: outcome.tries,
        proof: outcome.proof.clone(),
        findings: Vec::new(),
        warnings: Vec::new(),
        log_tail: outcome.log_tail.clone(),
        neighbours: Neighbours::new(),
        live: None,
        started_at: heading.started_at,
        finished_at: String::new(),
    }
}
