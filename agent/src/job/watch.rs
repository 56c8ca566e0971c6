//! Passes the events of an install from its thread to the engine, and records what a crash would leave.

use std::sync::mpsc::Sender;

use super::engine::Event;
use crate::act::install::{Mark, Watch};
use crate::act::{Stage, State};
use crate::checkpoint;

/// The watcher on the thread of an install.
#[derive(Debug)]
pub(super) struct Watcher {
    pub(super) events: Sender<Event>,
    pub(super) request_id: Option<String>,
    pub(super) request_digest: Option<String>,
}

impl Watch for Watcher {
    fn stage(&self, stage: Stage, how: State, percent: Option<u8>, message: Option<&str>) {
        record_stage(stage, self.request_id.as_ref(), self.request_digest.as_ref());
        let message = message.map(str::to_owned);
        // The receiver lives as long as this thread.
        self.events.send(Event { stage, state: how, percent, message }).ok();
    }

    fn note(&self, mark: Mark) {
        checkpoint::update(|checkpoint| match mark {
            Mark::Disk(disk) => checkpoint.disk = Some(disk),
            Mark::State(state) => checkpoint.disk_state = Some(state),
            Mark::Tries(tries) => checkpoint.attempts = tries,
            Mark::TakenDown(steps) => checkpoint.taken_down = steps,
            Mark::Erased(erased) => checkpoint.erased = erased,
        });
    }
}

/// Records the stage for a crash.
pub(crate) fn record_stage(stage: Stage, request_id: Option<&String>, digest: Option<&String>) {
    checkpoint::update(|checkpoint| {
        checkpoint.stage = Some(stage);
        checkpoint.request_id = request_id.cloned();
        checkpoint.request_digest = digest.cloned();
    });
}
