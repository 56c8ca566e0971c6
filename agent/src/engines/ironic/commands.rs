//! The command API of ironic-python-agent: `GET` and `POST /v1/commands`, one command at a time.
//!
//! Short commands run while their request waits. Steps and everything that ends the agent run on its main thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use tracing::{info, warn};

use super::http::{Answer, Permit};
use super::journal::{Journal, Record, Status};
use super::logs::Logs;
use super::steps::{Kind, MAX_DETAILS_CHARS, StepOrder, USE_CUSTOM_AGENT, error, offered};
use crate::act::System;
use crate::ask::ask_within;
use crate::clean;
use crate::clock::Clock;
use crate::http::server::Head;
use crate::random;
use crate::signals::Stop;
use crate::strict_json;

/// Time for which a request that waits for a long command is held; Ironic gives up after a minute.
const WAIT_LIMIT: Duration = Duration::from_secs(50);
/// Interval at which such a request checks whether its command has ended.
const POLL: Duration = Duration::from_millis(20);
/// Time limit for writing all caches to the disks.
const SYNC_LIMIT: Duration = Duration::from_secs(50);
/// A larger body is read only if no command runs, and only one at a time.
const LARGE_BODY_BYTES: usize = 64 * 1024;
/// Extensions of ironic-python-agent that this agent has.
const EXTENSIONS: [&str; 7] = ["deploy", "clean", "service", "standby", "log", "system", "image"];

/// Work for the main thread.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Work {
    Step(Box<StepOrder>),
    PowerOff,
    Reboot,
    Lockdown,
}

/// The action of a command.
enum Task {
    /// Its result is known at once.
    Known(Value),
    Sync,
    Logs,
    Long(Work),
}

/// The commands, as they are shared with the threads of the server.
#[derive(Debug)]
pub(super) struct Commands {
    journal: Mutex<Journal>,
    work: Sender<(String, Work)>,
    pub(super) clock: Arc<dyn Clock>,
    system: System,
    started_at: SystemTime,
    logs: Logs,
    /// True if the next heartbeat is due.
    pub(super) is_due: AtomicBool,
    is_closed: AtomicBool,
    large_body: Mutex<()>,
}

impl Commands {
    pub(super) fn new(
        journal: Journal,
        work: Sender<(String, Work)>,
        logs: Logs,
        system: System,
    ) -> Self {
        let clock = Arc::clone(system.clock());
        Self {
            journal: Mutex::new(journal),
            work,
            started_at: clock.time_of_day(),
            clock,
            system,
            logs,
            is_due: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            large_body: Mutex::new(()),
        }
    }

    pub(super) fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the next heartbeat due.
    pub(super) fn wake(&self) {
        self.is_due.store(true, Ordering::Relaxed);
    }

    /// Ends the command server and the heartbeats.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
        self.wake();
    }

    /// True if no further connection is accepted.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// Begins a command, and returns its record after at most `limit`.
    fn post(&self, body: Vec<u8>, limit: Duration, permit: Permit<'_>) -> Result<Answer, Answer> {
        let parsed = strict_json::parse(&body);
        drop(body);
        let mut body = parsed.map_err(|why| Answer::fault(400, format!("the body {why}")))?;
        let params = body.get_mut("params").map(Value::take).filter(Value::is_object);
        let name = body.get("name").and_then(Value::as_str);
        let (Some(name), Some(params)) = (name, params) else {
            return Err(Answer::fault(400, "the command needs a name and an object with params"));
        };
        self.check_node(&params)?;
        let (extension, command) = name.split_once('.').unwrap_or((name, ""));
        let task = task(extension, command, params)?;
        let id = random::uuid();
        self.begin(&id, command)?;
        drop(permit);
        info!("Ironic orders {name}");
        let mut logs = None;
        let outcome = match task {
            Task::Long(work) => {
                if self.work.send((id.clone(), work)).is_err() {
                    self.journal().end(&id, Err(error(Kind::Deploy, "the agent is ending")));
                }
                return Ok(self.shown(&id, limit));
            }
            Task::Known(result) => Ok(result),
            Task::Sync => ask_within("sync", SYNC_LIMIT, &Stop::default(), nix::unistd::sync)
                .map(|()| Value::Null)
                .map_err(|why| format!("writing all caches to the disks: {why}")),
            // The list of commands is read at each heartbeat, and need not repeat megabytes.
            Task::Logs => self.logs.collect(&self.system).map(|found| {
                logs = Some(found);
                Value::Null
            }),
        };
        self.journal().end(&id, outcome.map_err(|why| failure(&why)));
        let mut shown = self.shown(&id, Duration::ZERO);
        if let Some(logs) = logs {
            shown.body["command_result"] = json!({"system_logs": logs});
        }
        Ok(shown)
    }

    /// Checks that a command is for the node of this session.
    fn check_node(&self, params: &Value) -> Result<(), Answer> {
        let journal = self.journal();
        let ours = journal.session.as_ref().map(|session| session.node_uuid.as_str());
        let given = params.pointer("/node/uuid").and_then(Value::as_str);
        match ours.zip(given) {
            Some((ours, given)) if !ours.eq_ignore_ascii_case(given) => {
                let text = format!("this is node {ours}, but the command is for {given}");
                Err(Answer::fault(400, text))
            }
            _ => Ok(()),
        }
    }

    fn check_not_busy(journal: &Journal) -> Result<(), Answer> {
        journal.running().map_or(Ok(()), |running| {
            Err(Answer::fault(409, format!("Agent is busy: executing command {}", running.name)))
        })
    }

    /// Notes a command before it starts.
    fn begin(&self, id: &str, command: &str) -> Result<(), Answer> {
        let mut journal = self.journal();
        Self::check_not_busy(&journal)?;
        let record = Record { id: id.to_owned(), name: command.to_owned(), ..Record::default() };
        journal.add(record).map_err(|error| {
            // A command that a restarted agent does not know of would look as if it had never been ordered.
            warn!("refusing {command}: its record cannot be written: {error}");
            Answer::fault(500, format!("the record of the command cannot be written: {error}"))
        })
    }

    /// The record of a command, after waiting for its end for at most `limit`.
    fn shown(&self, id: &str, limit: Duration) -> Answer {
        let started = self.clock.now();
        loop {
            let record = self.journal().records.iter().find(|record| record.id == id).cloned();
            let Some(record) = record else {
                return Answer::fault(404, "there is no such command");
            };
            let is_late = self.clock.now().saturating_duration_since(started) >= limit;
            if record.status != Status::Running || is_late {
                return Answer::ok(json!(record));
            }
            // After a signal it waits on, for the process ends soon.
            self.clock.sleep(POLL, &Stop::default());
        }
    }

    fn status(&self) -> Answer {
        let since = self.started_at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Answer::ok(json!({"started_at": since.as_secs_f64(), "version": env!("CARGO_PKG_VERSION")}))
    }

    /// Decides by the head of a request whether it is read further.
    ///
    /// # Errors
    /// The answer to a request that is not read.
    pub(super) fn admit(&self, head: &Head) -> Result<Permit<'_>, Answer> {
        let is_large = head.body_bytes.is_some_and(|n_bytes| n_bytes > LARGE_BODY_BYTES);
        if !head.path.starts_with("/v1/commands") {
            let refusal = || Answer::fault(413, "this path has no body");
            return if is_large { Err(refusal()) } else { Ok(None) };
        }
        let journal = self.journal();
        let token = journal.session.as_ref().map(|session| session.token.expose());
        let tokens = head.value("agent_token").zip(token);
        if !tokens.is_some_and(|(given, token)| is_equal(given, token)) {
            return Err(Answer::fault(401, "Token invalid."));
        }
        if !is_large {
            return Ok(None);
        }
        Self::check_not_busy(&journal)?;
        let permit = self
            .large_body
            .try_lock()
            .map_err(|_| Answer::fault(409, "Agent is busy: receiving another command"))?;
        Ok(Some(permit))
    }

    /// Answers a request.
    pub(super) fn answer(&self, head: &Head, body: Vec<u8>, permit: Permit<'_>) -> Answer {
        let id = head.path.strip_prefix("/v1/commands").map(|rest| rest.trim_start_matches('/'));
        let waits = head.value("wait").is_some_and(|wait| wait.eq_ignore_ascii_case("true"));
        let limit = if waits { WAIT_LIMIT } else { Duration::ZERO };
        match (head.method.as_str(), head.path.as_str(), id) {
            ("GET", "/v1/status" | "/status", _) => self.status(),
            ("GET", "" | "/v1", _) => Answer::ok(json!({
                "name": "run-coreos-installer",
                "links": [{"href": "/v1/status", "rel": "status"}, {"href": "/v1/commands", "rel": "commands"}],
            })),
            ("GET", _, Some("")) => Answer::ok(json!({"commands": self.journal().records})),
            ("GET", _, Some(id)) => self.shown(id, limit),
            ("POST", _, Some("")) => self.post(body, limit, permit).unwrap_or_else(|fault| fault),
            (_, _, Some(_)) | (_, "" | "/v1" | "/v1/status" | "/status", _) => {
                Answer::fault(405, format!("{:.16} is not supported here", head.method))
            }
            _ => Answer::fault(404, "there is nothing at this path"),
        }
    }
}

/// Returns the action of a command.
///
/// # Errors
/// 404 for an extension and 400 for a command that this agent does not have; 400 for missing parameters.
fn task(extension: &str, command: &str, params: Value) -> Result<Task, Answer> {
    let kind = Kind::ALL.into_iter().find(|kind| kind.as_str() == extension);
    Ok(match (extension, command, kind) {
        ("standby", "sync", _) => Task::Sync,
        ("standby", "power_off", _) => Task::Long(Work::PowerOff),
        ("standby", "run_image", _) => Task::Long(Work::Reboot),
        ("standby", "get_partition_uuids", _) => Task::Known(json!({})),
        ("log", "collect_system_logs", _) => Task::Logs,
        ("system", "lockdown", _) => Task::Long(Work::Lockdown),
        (_, command, Some(kind)) if command == format!("get_{}_steps", kind.as_str()) => {
            Task::Known(offered(kind))
        }
        (_, command, Some(kind)) if command == format!("execute_{}_step", kind.as_str()) => {
            let order = StepOrder::parse(kind, params).map_err(|why| Answer::fault(400, why))?;
            Task::Long(Work::Step(Box::new(order)))
        }
        _ if EXTENSIONS.contains(&extension) => {
            let mut text = format!("Unknown command: {extension:.64}.{command:.64}");
            if ["standby", "image"].contains(&extension) {
                text = format!("{text}; {USE_CUSTOM_AGENT}");
            }
            return Err(Answer::fault(400, text));
        }
        _ => {
            return Err(Answer::fault(
                404,
                format!("Extension with id {extension:.64} not found."),
            ));
        }
    })
}

/// The error of a command that is not a step.
pub(super) fn failure(why: &str) -> Value {
    let details = clean::text(why, MAX_DETAILS_CHARS);
    let message = "Command execution failed";
    json!({"type": "CommandExecutionError", "code": 500, "message": message, "details": details})
}

/// Compares without revealing by its duration how much is equal.
fn is_equal(one: &str, other: &str) -> bool {
    let difference =
        one.bytes().zip(other.bytes()).fold(0, |difference, (a, b)| difference | (a ^ b));
    one.len() == other.len() && std::hint::black_box(difference) == 0
}

/// The record of a step that Ironic has ordered and this agent does not know, e.g. after a power failure. Ironic
/// would treat an empty list as a step that is done.
pub(super) fn unknown_step(kind: Kind) -> Record {
    Record {
        id: random::uuid(),
        name: format!("execute_{}_step", kind.as_str()),
        status: Status::Failed,
        error: error(
            kind,
            "INTERRUPTED: the machine rebooted, or the agent lost its state, in the middle of the step, and a disk may be half \
             written; what to do: do not boot it; deploy or clean the node again",
        ),
        ..Record::default()
    }
}
