//! Ironic: inspection, and the agent of a node that Ironic inspects, cleans and deploys, in the place of
//! ironic-python-agent.
//!
//! ```text
//! inspection → lookup → command server and heartbeats → steps → power off or reboot, both by systemd
//! ```
//! Two dangers shape it. Ironic believes the agent's answers: an empty list of commands in the middle of a step means
//! to it that the step is done, so the list outlives the agent (`journal.rs`). And a step that fails must say so with
//! FAILED and nothing else.

pub mod api;
mod certificate;
mod commands;
mod desk;
mod erase;
mod heartbeat;
mod http;
pub mod inspection;
mod instance;
mod journal;
mod logs;
mod lookup;
mod server;
mod steps;
mod words;

pub use words::words;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use anyhow::ensure;
use probes::guard;
use serde_json::{Value, json};
use tracing::{error, info};

use self::api::Api;
use self::commands::{Commands, Work};
use self::erase::Erasures;
use self::heartbeat::Contact;
use self::inspection::{Inspected, addresses, inspect};
use self::journal::Journal;
use self::logs::Logs;
use self::steps::StepOrder;
use super::vim::ResultFile;
use crate::act::say::Words;
use crate::act::{Code, Outcome, Stage, settle};
use crate::exit_status::ExitStatus;
use crate::http::ServerSettings;
use crate::job::power::wait_for_signal;
use crate::job::{AfterCrash, Collected, Crash, Engine, Next, Node, Settings as Common, Survey};
use crate::secret::Secret;

/// Stack of the thread that keeps in touch with Ironic; TLS needs some of it.
const STACK_BYTES: usize = 1 << 20;
/// The default port of ironic-python-agent.
pub const PORT: u16 = 9999;

/// Settings of the agent, apart from those of the job.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Connection settings of Ironic; the address may be a list, separated by commas.
    pub ironic: ServerSettings,
    /// True to stay after the inspection as the node's agent.
    pub is_agent: bool,
    /// The token that the configuration gives, for virtual media that carry one.
    pub token: Option<Secret>,
    /// The address for Ironic's commands; `None` for the one from which Ironic is reached.
    pub callback_url: Option<String>,
    /// The port on which commands are expected.
    pub port: u16,
    /// The disks that cleaning erases, apart from the node's root device.
    pub clean_disks: Vec<String>,
    /// The shortest time between two heartbeats.
    pub least_interval: Duration,
    /// Program and arguments that print the journal of this boot.
    pub journalctl: Vec<String>,
    /// Program and arguments that switch all networks off.
    pub lockdown: Vec<String>,
}

impl Settings {
    /// The settings of a live image.
    pub fn new(ironic: ServerSettings) -> Self {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect();
        Self {
            ironic,
            is_agent: true,
            token: None,
            callback_url: None,
            port: PORT,
            clean_disks: Vec::new(),
            least_interval: Duration::from_secs(5),
            journalctl: words("journalctl --boot --no-pager --output short-precise --lines 20000"),
            lockdown: words("nmcli networking off"),
        }
    }
}

/// The known facts of the machine.
#[derive(Debug, Clone)]
pub struct Surveyed {
    /// The data for the job.
    pub collected: Collected,
    /// The document for Ironic's inspection.
    pub document: Value,
}

/// The engine of Ironic: inspects, and then carries out Ironic's orders until it powers the machine off.
#[derive(Debug)]
pub struct Ironic<'a> {
    settings: Settings,
    node: Node,
    api: Arc<Api>,
    survey: Survey<'a, anyhow::Result<Surveyed>>,
    /// Set after the inspection.
    agent: Option<Agent>,
}

/// The agent on its main thread.
#[derive(Debug)]
struct Agent {
    commands: Arc<Commands>,
    /// The orders of Ironic, with the ids of their commands.
    work: Receiver<(String, Work)>,
    /// The end of the thread that keeps in touch with Ironic.
    is_over: Receiver<Result<(), guard::Panic>>,
    /// The erasures that have not ended.
    erasures: Erasures,
    /// The step that installs, with the id of its command.
    installing: Option<(String, Box<StepOrder>)>,
    /// The known state of the disks at the end.
    exit_status: ExitStatus,
}

impl Agent {
    /// Notes how a step ended. Ironic shows the error.
    fn end_step(&self, id: &str, order: &StepOrder, outcome: Result<Value, String>) {
        if let Err(details) = &outcome {
            error!("the step {} failed: {details}", order.name());
        }
        let result = outcome.map(|result| order.result(result));
        let result = result.map_err(|details| steps::error(order.kind, &details));
        self.commands.journal().end(id, result);
        self.commands.wake();
    }
}

impl Engine for Ironic<'_> {
    fn next(&mut self) -> Next {
        let mut agent = match self.agent.take().map_or_else(|| self.start(), Ok) {
            Ok(agent) => agent,
            Err(exit_status) => return Next::End(exit_status),
        };
        let next = self.work(&mut agent);
        self.agent = Some(agent);
        next
    }

    fn finish(&mut self, outcome: Outcome) -> Option<ExitStatus> {
        let result = ResultFile::conclude(&mut self.node, &outcome, words);
        let agent = self.agent.as_mut()?;
        let (id, order) = agent.installing.take()?;
        let ended = match &outcome.failure {
            None => {
                agent.exit_status = ExitStatus::Staying;
                Ok(json!({"message": result.message, "disk": result.disk, "image": result.image}))
            }
            Some(failure) => {
                agent.exit_status = outcome.exit_status();
                // With the last line of the program that wrote.
                let last =
                    outcome.log_tail.last().map(|line| format!("; coreos-installer: {line}"));
                Err(failure.in_words(words) + &last.unwrap_or_default())
            }
        };
        agent.end_step(&id, &order, ended);
        None
    }

    /// An agent that is gone cannot say that its step failed, so it is started again and reads its journal.
    fn crashed(&mut self, _: &Crash) -> AfterCrash {
        if self.settings.is_agent { AfterCrash::Restart } else { AfterCrash::End(None) }
    }

    fn term(&self) -> Words {
        words
    }

    fn node(&mut self) -> &mut Node {
        &mut self.node
    }
}

impl<'a> Ironic<'a> {
    /// Makes the engine without sending anything.
    ///
    /// # Errors
    /// It is a dry run, an address of Ironic is wrong, or a file of its connection settings cannot be read.
    pub fn new(
        settings: Settings,
        node: Node,
        survey: Survey<'a, anyhow::Result<Surveyed>>,
    ) -> anyhow::Result<Self> {
        ensure!(
            !node.settings.is_dry_run,
            "dry-run needs --backend vim: for Ironic every step is either done or failed"
        );
        let api = Arc::new(Api::new(&settings.ironic, &node.clock, &node.stop)?);
        Ok(Self { settings, node, api, survey, agent: None })
    }

    /// Inspects and starts the agent; the error is the exit status if there is none.
    fn start(&mut self) -> Result<Agent, ExitStatus> {
        let Node { settings: Common { site, process, .. }, stop, .. } = &self.node;
        // An inspection is posted once, so it waits for the disks.
        settle::wait(&site.system);
        let journal = Journal::open(&site.run_dir);
        let no_report = |why: &dyn std::fmt::Display| {
            error!("{}: {why:#}; nothing was installed", Code::NoReport);
            ExitStatus::NotReported
        };
        info!("reading the machine's hardware");
        let surveyed = (self.survey.0)().map_err(|error| no_report(&error))?;
        let mut inspected = None;
        // An agent that continues was inspected before; its node is in the middle of something else.
        if journal.session.is_none() {
            self.node.record(Stage::Report);
            let found = inspect(&self.api, &surveyed.document).map_err(|why| no_report(&why))?;
            inspection::log(&found);
            inspected = Some(found);
        }
        if !self.settings.is_agent {
            self.node.update(surveyed.collected);
            return Err(self.wait_for_the_end(inspected.as_ref()));
        }
        let (sender, work) = channel();
        let logs = Logs { journalctl: self.settings.journalctl.clone(), own: process.log.clone() };
        let commands = Arc::new(Commands::new(journal, sender, logs, site.system.clone()));
        let node_uuid = if let Some(Inspected::Accepted(uuid)) = inspected { uuid } else { None };
        let contact = Contact {
            api: Arc::clone(&self.api),
            commands: Arc::clone(&commands),
            macs: addresses(&surveyed.document),
            node_uuid,
            node_id: surveyed.collected.node_id,
            settings: self.settings.clone(),
            console: Arc::clone(&self.node.console),
            stop: stop.clone(),
        };
        let is_over =
            guard::ask("ironic", STACK_BYTES, move || contact.run()).map_err(|error| {
                error!("could not start a thread: {error}");
                ExitStatus::Bug
            })?;
        Ok(Agent {
            commands,
            work,
            is_over,
            erasures: Erasures::default(),
            installing: None,
            exit_status: ExitStatus::Untouched,
        })
    }

    /// Only the inspection was asked for: Ironic powers the machine off.
    fn wait_for_the_end(&self, inspected: Option<&Inspected>) -> ExitStatus {
        match inspected {
            Some(Inspected::Accepted(_) | Inspected::MaybeDelivered(_)) => {}
            Some(Inspected::NotExpected(why)) => {
                error!("{}: {why}", Code::NoReport);
                return ExitStatus::NotReported;
            }
            _ => return ExitStatus::NotReported,
        }
        info!("waiting for Ironic to power this machine off");
        self.node.console.waits_for("Ironic to power this machine off", &self.node.id);
        wait_for_signal(self.node.clock.as_ref(), &self.node.stop);
        ExitStatus::Untouched
    }
}
