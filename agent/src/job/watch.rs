//! Passes the events of an install from its thread to the engine, and records what a crash would leave.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use super::console::Console;
use super::engine::Event;
use crate::act::install::{Mark, Watch};
use crate::act::{Stage, State};
use crate::checkpoint::CrashMemory;

/// The watcher on the thread of an install.
#[derive(Debug)]
pub(super) struct Watcher {
    pub(super) events: Sender<Event>,
    pub(super) memory: CrashMemory,
    pub(super) console: Arc<Console>,
}

impl Watch for Watcher {
    fn stage(&self, stage: Stage, how: State, percent: Option<u8>, message: Option<&str>) {
        self.memory.update(|checkpoint| checkpoint.stage = Some(stage));
        self.console.works_at(stage, percent);
        let message = message.map(str::to_owned);
        // The receiver lives as long as this thread.
        self.events.send(Event { stage, state: how, percent, message }).ok();
    }

    fn note(&self, mark: Mark) {
        self.memory.update(|checkpoint| match mark {
            Mark::Disk(disk) => checkpoint.disk = Some(disk),
            Mark::State(state) => checkpoint.disk_state = Some(state),
            Mark::Tries(tries) => checkpoint.attempts = tries,
            Mark::TakenDown(steps) => checkpoint.taken_down = steps,
            Mark::Erased(erased) => checkpoint.erased = erased,
        });
    }
}
