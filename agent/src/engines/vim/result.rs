//! The outcome of an install as a result of VIM API v1.

use formats::time::rfc3339;

use crate::act::say::{Term, Words};
use crate::act::{
    DiskState, NextBoot, Outcome, Stage, certainty, describe, existing_data, identity_of,
};
use crate::api::{self, API_VERSION, JobResult, Neighbours};
use crate::checkpoint::Checkpoint;
use crate::clock::Clock;
use crate::job::{Crash, Node};

/// The longest message of a result, in characters.
const MAX_MESSAGE_CHARS: usize = 4000;
/// Most warnings in a result.
const MAX_WARNINGS: usize = 100;

/// The word of the API for how an install ended.
pub fn kind(outcome: &Outcome) -> api::Outcome {
    match outcome.state {
        _ if outcome.installed_before.is_some() => api::Outcome::AlreadyInstalled,
        _ if outcome.is_reignited => api::Outcome::Reignited,
        _ if outcome.failure.is_none() => api::Outcome::Installed,
        DiskState::Untouched => api::Outcome::Refused,
        DiskState::HalfWritten => api::Outcome::Failed,
        DiskState::Written | DiskState::Erased => api::Outcome::Unproven,
        DiskState::Installed => api::Outcome::Installed,
    }
}

/// The result of the order that a node carries out. It contains the warnings, which are then no longer the node's.
pub fn result(node: &mut Node, outcome: &Outcome, words: Words) -> JobResult {
    let mut warnings = std::mem::take(&mut node.warnings);
    warnings.truncate(MAX_WARNINGS);
    JobResult {
        node_id: node.id.clone(),
        request_id: node.request_id.clone(),
        request_digest: node.request_digest.clone(),
        findings: node.findings(),
        warnings,
        neighbours: node.settings.listener.known().unwrap_or_default(),
        started_at: rfc3339(node.started_at),
        finished_at: rfc3339(node.clock.time_of_day()),
        ..result_of(outcome, words)
    }
}

/// The result of an order whose process has crashed.
pub fn of_crash(crash: &Crash, words: Words, clock: &dyn Clock) -> JobResult {
    let Checkpoint { node_id, request_id, request_digest, started_at, disk, .. } =
        crash.found.clone();
    JobResult {
        node_id,
        request_id,
        request_digest,
        started_at,
        disk,
        finished_at: rfc3339(clock.time_of_day()),
        ..result_of(&crash.outcome, words)
    }
}

/// The parts of a result that follow from the outcome, in the words of an engine.
fn result_of(outcome: &Outcome, words: Words) -> JobResult {
    let disk = outcome.disk.as_deref();
    let failure = outcome.failure.as_ref();
    let named = disk.map(describe).unwrap_or_default();
    let message = match (failure, outcome.installed_before) {
        (Some(failure), _) => failure.message.in_words(words),
        (None, Some(next)) => {
            let next = match next {
                NextBoot::Disk => "it is the next to boot",
                NextBoot::Firmware => "whether it boots next is up to the firmware",
            };
            let again = words(Term::Reinstall);
            format!("{named} has what this request asks for, and {next}; to do it again, {again}")
        }
        (None, None) if outcome.is_reignited => {
            format!("the system on {named} applies the config at its next boot")
        }
        (None, None) => format!("{named} is {}", certainty(outcome.proof.as_ref())),
    };
    JobResult {
        api_version: API_VERSION.into(),
        request_id: None,
        request_digest: None,
        node_id: String::new(),
        outcome: kind(outcome),
        stage: if failure.is_some() { outcome.stage } else { Stage::Result },
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
        previous: outcome.previous.clone(),
        confirm: outcome.confirm.clone(),
        findings: Vec::new(),
        warnings: Vec::new(),
        log_tail: outcome.log_tail.clone(),
        neighbours: Neighbours::new(),
        live: Some(probes::live::live()),
        started_at: String::new(),
        finished_at: String::new(),
    }
}
