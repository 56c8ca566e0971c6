//! The job: an engine fetches an order, the order is carried out, and the engine passes on how it ended.
//!
//! ```text
//! next → settle → preflight → write → proof → finish → exit status
//!   ↑                                            └ another order
//! ```
//! systemd acts on the exit status: after 0 the unit's `ExecStartPost=` reboots (installed, or the VIM said `reboot`).
//! `poweroff` asks systemd to power off and waits for SIGTERM. `stop` and every failure exit with any other status (see
//! [`ExitStatus`]), and the unit's `OnFailure=` opens a shell on the console. A dry run from the configuration exits with
//! 4: after 0 the unit would reboot into the same dry run.

mod banner;
mod collected;
pub(crate) mod console;
mod engine;
mod findings;
mod listener;
mod load;
pub(crate) mod lock;
pub(crate) mod node;
pub(crate) mod power;
mod qr;
pub mod supervise;
mod watch;

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use tracing::error;

use self::watch::Watcher;
use crate::act::install::Act;
use crate::act::settle;
use crate::act::{Code, DiskState, Failure, Outcome, Site, Stage};
use crate::clock::Clock;
use crate::exit_status::ExitStatus;
use crate::signals::Stop;

pub use engine::{AfterCrash, Crash, Engine, Event, Hook, Next, Survey, Task};
pub use listener::Listener;
pub use load::WaitingLoad;
pub use node::{Collected, Node, Settings};

/// Stack of the thread that installs: as large as that of a main thread.
const STACK_BYTES: usize = 8 << 20;
/// Longest time between two calls of [`Engine::progress`].
const TICK: Duration = Duration::from_millis(250);

/// Catches SIGTERM, SIGINT and SIGHUP, so that the job can end in a clear state.
pub fn stop_on_signals() -> Stop {
    Stop::on_signals().unwrap_or_else(|error| {
        error!(%error, "no signal handler could be set: SIGTERM will end the agent at once");
        Stop::default()
    })
}

/// Carries out orders until the engine ends the program.
pub fn run(engine: &mut dyn Engine) -> ExitStatus {
    engine.node().record(Stage::Collect);
    let exit_status = loop {
        match engine.next() {
            Next::End(exit_status) => break exit_status,
            Next::Act(task) => {
                let outcome = carry_out(engine, *task);
                if let Some(exit_status) = engine.finish(outcome) {
                    break exit_status;
                }
            }
        }
    };
    engine.node().show_ending();
    if exit_status == ExitStatus::NotReported {
        engine.node().show_no_report();
    }
    exit_status
}

/// Carries out an order on a thread of its own, while the engine serves its fleet.
fn carry_out(engine: &mut dyn Engine, task: Task) -> Outcome {
    let node = engine.node();
    node.client = Some(task.client.clone());
    let known = node.known();
    node.record(Stage::Instruction);
    let locked = if node.settings.is_dry_run { Ok(()) } else { node.lock() };
    let (settings, clock) = (node.settings.clone(), Arc::clone(&node.clock));
    let (sender, events) = channel();
    let (memory, console) = (node.memory.clone(), Arc::clone(&node.console));
    let watch = Watcher { events: sender, memory, console };
    let act = move || {
        // It belongs to this thread, whose end closes the channel.
        let watch = watch;
        let Task { mut order, prepare, follow, site, client, stop, are_disks_settled } = task;
        if let Err(failure) = locked {
            return node::refused(failure);
        }
        let lock = settings.site.lock.clone();
        let site = Site { system: site.system.until(&stop), lock, ..site };
        if let Err(failure) = Hook::run(prepare, &mut order, &watch) {
            return node::refused(failure);
        }
        let limit = settings.wait_for_disk;
        let wait = || settle::until_writable(&site.system, limit);
        let warning = if are_disks_settled { None } else { wait() };
        let act = Act {
            site: &site,
            client: &client,
            watch: &watch,
            reported: &known.collected.disks,
            findings: &|unreadable| known.findings(unreadable),
            is_dry_run: settings.is_dry_run,
        };
        let mut outcome = act.carry_out(&order);
        outcome.warnings.splice(0..0, warning);
        if outcome.failure.is_none() {
            outcome.failure = Hook::run(follow, &mut order, &watch).err();
        }
        outcome
    };
    let mut outcome = thread::scope(|scope| {
        let builder = thread::Builder::new().name("install".into()).stack_size(STACK_BYTES);
        match builder.spawn_scoped(scope, act) {
            Ok(acting) => {
                pass_on(&events, engine, clock.as_ref());
                acting.join().unwrap_or_else(|panic| resume_unwind(panic))
            }
            Err(error) => node::refused(
                Failure::new(Code::AgentBug, format!("no thread could be started: {error}"))
                    .advise("reboot the machine, and report the bug with the log of this boot"),
            ),
        }
    });
    let words = engine.term();
    let node = engine.node();
    if outcome.state == DiskState::Untouched {
        node.unlock();
    }
    // Not the stage at which the install ended: the engine may report for minutes.
    node.console.works_at(Stage::Result, None);
    node.learn(&mut outcome);
    node.log_failure(&outcome, words);
    outcome
}

/// Passes events to the engine until the install has ended.
fn pass_on(events: &Receiver<Event>, engine: &mut dyn Engine, clock: &dyn Clock) {
    loop {
        let batch = match clock.receive(events, TICK) {
            Ok(first) => std::iter::once(first).chain(events.try_iter()).collect(),
            Err(RecvTimeoutError::Timeout) => Vec::new(),
            Err(RecvTimeoutError::Disconnected) => return,
        };
        engine.progress(batch);
    }
}
