//! The command API of ironic-python-agent: `GET` and `POST /v1/commands`, one command at a time.
//!
//! Short commands run while their request waits. Steps and everything that ends the agent run on its main thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};
use tracing::{info, warn};

use super::http::{Answer, Handler, Permit};
use super::journal::{Journal, Record, Status};
use super::steps::{Kind, MAX_DETAILS_CHARS, StepOrder, error, offered};
use super::{logs, steps};
use crate::ask::ask_within;
use crate::clean;
use crate::http::server::Head;
use crate::random;
use crate::secret::Secret;
use crate::signals::Stop;
use crate::strict_json;

/// Time for which a request that waits for a long command is held; Ironic gives up after a minute.
const WAIT_LIMIT: Duration = Duration::from_secs(50);
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
    Steps(Kind),
    Sync,
    Logs,
    PartitionUuids,
    Long(Work),
}

/// The commands, as they are shared with the threads of the server.
#[derive(Debug)]
pub(super) struct Commands {
    journal: Mutex<Journal>,
    ended: Condvar,
    work: Sender<(String, Work)>,
    started_at: SystemTime,
    /// Secrets of the node whose journal is read are hidden, whatever program logged them.
    journalctl: Vec<String>,
    is_closed: AtomicBool,
    large_body: Mutex<()>,
}

impl Commands {
    pub(super) fn new(
        journal: Journal,
        work: Sender<(String, Work)>,
        journalctl: Vec<String>,
    ) -> Self {
        let started_at = SystemTime::now();
        let (journal, ended) = (Mutex::new(journal), Condvar::new());
        let (is_closed, large_body) = (AtomicBool::new(false), Mutex::new(()));
        Self { journal, ended, work, started_at, journalctl, is_closed, large_body }
    }

    pub(super) fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes how a command ended.
    pub(super) fn end(&self, id: &str, outcome: Result<Value, Value>) {
        self.journal().end(id, outcome);
        self.ended.notify_all();
    }

    /// Ends the command server and the heartbeats.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    fn token(&self) -> Option<Secret> {
        self.journal().session.as_ref().map(|session| session.token.clone())
    }

    fn post(&self, head: &Head, body: Vec<u8>, permit: Permit<'_>) -> Result<Answer, Answer> {
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
        let waits = head.value("wait").is_some_and(|wait| wait.eq_ignore_ascii_case("true"));
        match task {
            Task::Long(work) => {
                if self.work.send((id.clone(), work)).is_err() {
                    self.end(&id, Err(error(Kind::Deploy, "the agent is ending")));
                }
                Ok(self.shown(&id, if waits { WAIT_LIMIT } else { Duration::ZERO }))
            }
            task => {
                let outcome = self.run(&task).map_err(|why| failure(&why));
                let is_log = matches!(task, Task::Logs);
                let (kept, answer) = match outcome {
                    // The list of commands is read at each heartbeat, and need not repeat megabytes.
                    Ok(result) if is_log => (Ok(Value::Null), Some(result)),
                    outcome => (outcome, None),
                };
                self.end(&id, kept);
                let mut shown = self.shown(&id, Duration::ZERO);
                if let Some(result) = answer {
                    shown.body["command_result"] = result;
                }
                Ok(shown)
            }
        }
    }

    /// Checks that a command is for the node of this session.
    fn check_node(&self, params: &Value) -> Result<(), Answer> {
        let Some(given) = params.pointer("/node/uuid").and_then(Value::as_str) else {
            return Ok(());
        };
        let journal = self.journal();
        match &journal.session {
            Some(session) if !session.node_uuid.eq_ignore_ascii_case(given) => {
                let text =
                    format!("this is node {}, but the command is for {given}", session.node_uuid);
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
        let record = Record {
            id: id.to_owned(),
            name: command.to_owned(),
            status: Status::Running,
            error: Value::Null,
            result: Value::Null,
        };
        journal.add(record).map_err(|error| {
            // A command that a restarted agent does not know of would look as if it had never been ordered.
            warn!("refusing {command}: its record cannot be written: {error}");
            Answer::fault(500, format!("the record of the command cannot be written: {error}"))
        })
    }

    fn run(&self, task: &Task) -> Result<Value, String> {
        match task {
            Task::Steps(kind) => Ok(offered(*kind)),
            Task::PartitionUuids => Ok(json!({})),
            Task::Logs => Ok(json!({"system_logs": logs::collect(&self.journalctl)?})),
            Task::Sync => {
                ask_within("sync", SYNC_LIMIT, &Stop::default(), nix::unistd::sync)
                    .map_err(|why| format!("writing all caches to the disks: {why}"))?;
                Ok(Value::Null)
            }
            Task::Long(_) => Err("this command does not run here".into()),
        }
    }

    /// The record of a command, after waiting for its end for at most `limit`.
    fn shown(&self, id: &str, limit: Duration) -> Answer {
        let started = Instant::now();
        let mut journal = self.journal();
        loop {
            let Some(record) = journal.records.iter().find(|record| record.id == id) else {
                return Answer::fault(404, "there is no such command");
            };
            let left = limit.saturating_sub(started.elapsed());
            if record.status != Status::Running || left.is_zero() {
                return Answer::ok(json!(record));
            }
            let waited = self.ended.wait_timeout(journal, left);
            journal = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn list(&self) -> Answer {
        Answer::ok(json!({"commands": self.journal().records}))
    }

    fn status(&self) -> Answer {
        let since = self.started_at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Answer::ok(json!({"started_at": since.as_secs_f64(), "version": env!("CARGO_PKG_VERSION")}))
    }
}

impl Handler for Commands {
    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    fn admit(&self, head: &Head) -> Result<Permit<'_>, Answer> {
        let is_large = head.body_bytes.is_some_and(|n_bytes| n_bytes > LARGE_BODY_BYTES);
        if !head.path.starts_with("/v1/commands") {
            let refusal = || Answer::fault(413, "this path has no body");
            return if is_large { Err(refusal()) } else { Ok(None) };
        }
        let is_known = |given: &str| {
            self.token().is_some_and(|token| is_equal(given.as_bytes(), token.expose().as_bytes()))
        };
        if !head.value("agent_token").is_some_and(is_known) {
            return Err(Answer::fault(401, "Token invalid."));
        }
        if !is_large {
            return Ok(None);
        }
        Self::check_not_busy(&self.journal())?;
        let permit = self
            .large_body
            .try_lock()
            .map_err(|_| Answer::fault(409, "Agent is busy: receiving another command"))?;
        Ok(Some(permit))
    }

    fn answer(&self, head: &Head, body: Vec<u8>, permit: Permit<'_>) -> Answer {
        let id = head.path.strip_prefix("/v1/commands").map(|rest| rest.trim_start_matches('/'));
        let waits = head.value("wait").is_some_and(|wait| wait.eq_ignore_ascii_case("true"));
        match (head.method.as_str(), head.path.as_str(), id) {
            ("GET", "/v1/status" | "/status", _) => self.status(),
            ("GET", "" | "/v1", _) => Answer::ok(json!({
                "name": "run-coreos-installer",
                "links": [{"href": "/v1/status", "rel": "status"}, {"href": "/v1/commands", "rel": "commands"}],
            })),
            ("GET", _, Some("")) => self.list(),
            ("GET", _, Some(id)) => self.shown(id, if waits { WAIT_LIMIT } else { Duration::ZERO }),
            ("POST", _, Some("")) => self.post(head, body, permit).unwrap_or_else(|fault| fault),
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
    let unknown = || {
        if EXTENSIONS.contains(&extension) {
            Answer::fault(400, format!("Unknown command: {extension:.64}.{command:.64}"))
        } else {
            Answer::fault(404, format!("Extension with id {extension:.64} not found."))
        }
    };
    let kind = Kind::of_command(command).filter(|kind| kind.as_str() == extension);
    Ok(match (extension, command, kind) {
        ("standby", "sync", _) => Task::Sync,
        ("standby", "power_off", _) => Task::Long(Work::PowerOff),
        ("standby", "run_image", _) => Task::Long(Work::Reboot),
        ("standby", "get_partition_uuids", _) => Task::PartitionUuids,
        ("log", "collect_system_logs", _) => Task::Logs,
        ("system", "lockdown", _) => Task::Long(Work::Lockdown),
        (_, command, Some(kind)) if command == format!("get_{}_steps", kind.as_str()) => {
            Task::Steps(kind)
        }
        (_, command, Some(kind)) if command == format!("execute_{}_step", kind.as_str()) => {
            let order = StepOrder::parse(kind, params).map_err(|why| Answer::fault(400, why))?;
            Task::Long(Work::Step(Box::new(order)))
        }
        _ => return Err(unknown()),
    })
}

/// The error of a command that is not a step.
pub(super) fn failure(why: &str) -> Value {
    let details = clean::text(why, MAX_DETAILS_CHARS);
    let message = "Command execution failed";
    json!({"type": "CommandExecutionError", "code": 500, "message": message, "details": details})
}

/// Compares without revealing by its duration how much is equal.
fn is_equal(one: &[u8], other: &[u8]) -> bool {
    let difference = one.iter().zip(other).fold(0, |difference, (a, b)| difference | (a ^ b));
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
        result: Value::Null,
    }
}

/// The error of a command that was running when the agent ended.
pub(super) fn lost(command: &str) -> Value {
    let kind = Kind::of_command(command).unwrap_or(Kind::Deploy);
    steps::error(
        kind,
        "AGENT_BUG: the agent ended in the middle of the step, and a disk may be half written; what to do: do not boot it; \
         deploy or clean the node again, and report the bug with the log of this boot",
    )
}
