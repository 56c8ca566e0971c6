//! Steps other than inventory and install: each runs on a thread of its own, with a time limit.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use probes::block::Disk;
use probes::guard;
use serde_json::Value;
use tracing::warn;

use super::api::{Api, Reply};
use super::step::Step;
use super::{connectivity, disk_speed, domains, free_addresses, images, logs, ntp, servers, vips};
use crate::clock::Clock;

/// Time limit for a step.
const LIMIT: Duration = Duration::from_mins(2);
/// Stack of the threads.
const STACK_BYTES: usize = 1 << 20;
/// Stack of the threads of one step.
const ASK_STACK_BYTES: usize = 1 << 20;

/// The resources that steps may need.
#[derive(Debug, Clone)]
pub(super) struct Around {
    pub(super) api: Api,
    /// The disks that the service knows.
    pub(super) disks: Vec<Disk>,
    /// The logs to upload.
    pub(super) logs: logs::Sources,
    /// The folder below which the pull secret and the settings of registries are.
    pub(super) root: PathBuf,
}

/// Carries out a step; returns the JSON for the reply, null for none, or why it was not done.
type Work = fn(&Step, &Around) -> Result<Value, String>;

/// Asks about every name at the same time, each on a thread called `thread`, for at most `limit` together. The answer of
/// one that does not end is `None`.
pub(super) fn ask_each<T: Send + 'static>(
    names: Vec<String>,
    thread: &'static str,
    limit: Duration,
    clock: &Arc<dyn Clock>,
    ask: impl Fn(&str, &dyn Clock) -> T + Clone + Send + 'static,
) -> Vec<(String, Option<T>)> {
    let started = clock.now();
    let start = |name: String| {
        let (of_thread, clock, ask) = (name.clone(), Arc::clone(clock), ask.clone());
        let work = move || ask(&of_thread, clock.as_ref());
        Some((name, guard::ask(thread, ASK_STACK_BYTES, work).ok()?))
    };
    let asked: Vec<_> = names.into_iter().filter_map(start).collect();
    let wait = |(name, answer): (_, Receiver<Result<T, guard::Panic>>)| {
        let left = limit.saturating_sub(clock.now().duration_since(started));
        (name, clock.receive(&answer, left).ok().and_then(Result::ok))
    };
    asked.into_iter().map(wait).collect()
}

/// The steps and their work.
const WORK: [(&str, Work); 10] = [
    ("connectivity-check", connectivity::check),
    ("free-network-addresses", free_addresses::search),
    ("ntp-synchronizer", ntp::check),
    ("installation-disk-speed-check", disk_speed::check),
    ("domain-resolution", domains::resolve),
    ("container-image-availability", images::availability),
    ("logs-gather", logs::gather),
    ("verify-vips", vips::verify),
    ("api-vip-connectivity-check", servers::api_vip),
    ("tang-connectivity-check", servers::tang),
];

/// The steps that are not carried out, and why.
const REFUSED: [(&str, &str); 5] = [
    ("dhcp-lease-allocate", "this agent requests no DHCP leases; give the cluster its addresses"),
    ("download-boot-artifacts", RECLAIM),
    ("reboot-for-reclaim", RECLAIM),
    ("execute", "this agent runs no commands of a server"),
    ("next-step-runner", "this agent carries out the steps itself"),
];
const RECLAIM: &str = "this agent changes the boot loader of no installed host; boot the host from the discovery image";

#[derive(Debug)]
struct Task {
    step: Step,
    answer: Receiver<Result<Result<Value, String>, guard::Panic>>,
    started: Instant,
    /// True if its time limit has passed; its thread may still run.
    is_given_up: bool,
}

/// The steps that are being carried out, by type.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    running: BTreeMap<String, Task>,
}

impl Tasks {
    /// Starts a step. A step of a type that is still running is not started again, and gets no reply.
    pub(super) fn start(&mut self, step: Step, around: &Around) -> Option<(Step, Reply)> {
        if let Some(task) = self.running.get(&step.kind) {
            let reply = Reply::failed("an earlier step of this type still hangs");
            return task.is_given_up.then_some((step, reply));
        }
        let Some((_, work)) = WORK.iter().find(|(kind, _)| *kind == step.kind) else {
            let refused = REFUSED.iter().find(|(kind, _)| *kind == step.kind);
            let error = refused.map_or("this agent does not know the step", |(_, why)| why);
            warn!(step = step.kind, "{error}");
            return Some((step, Reply::failed(error)));
        };
        let started = around.api.client.clock.now();
        let (work, of_thread, around) = (*work, step.clone(), around.clone());
        match guard::ask("step", STACK_BYTES, move || work(&of_thread, &around)) {
            Ok(answer) => {
                let kind = step.kind.clone();
                self.running.insert(kind, Task { step, answer, started, is_given_up: false });
                None
            }
            Err(why) => Some((step, Reply::failed(format!("no thread could be started: {why}")))),
        }
    }

    /// The steps that ended, with their replies.
    pub(super) fn finished(&mut self, now: Instant) -> Vec<(Step, Reply)> {
        let mut finished = Vec::new();
        self.running.retain(|_, task| {
            let reply = match task.answer.try_recv() {
                Ok(Ok(Ok(Value::Null))) => Reply::default(),
                Ok(Ok(Ok(output))) => Reply::done(&output),
                Ok(Ok(Err(error))) => Reply::failed(error),
                Ok(Err(panic)) => Reply::failed(format!("a bug ended the step: {panic}")),
                Err(TryRecvError::Disconnected) => Reply::failed("the step ended without a result"),
                Err(TryRecvError::Empty)
                    if task.is_given_up || now.duration_since(task.started) < LIMIT =>
                {
                    return true;
                }
                Err(TryRecvError::Empty) => {
                    task.is_given_up = true;
                    let error = format!("the step did not end within {} s", LIMIT.as_secs());
                    finished.push((task.step.clone(), Reply::failed(error)));
                    return true;
                }
            };
            if !task.is_given_up {
                finished.push((task.step.clone(), reply));
            }
            false
        });
        for (step, reply) in finished.iter().filter(|(_, reply)| reply.exit_code != 0) {
            warn!(step = step.kind, "{}", reply.error);
        }
        finished
    }
}
