//! Ironic: inspection, and the agent of a node that Ironic inspects, cleans and deploys, in the place of
//! ironic-python-agent.
//!
//! ```text
//! inspection → lookup → command server and heartbeats → steps → power off or reboot, both by systemd
//! ```
//! Two dangers shape it. Ironic believes the agent's answers: an empty list of commands in the middle of a step means
//! to it that the step is done, so the list outlives the agent (`journal.rs`). And a step that fails must say so with
//! FAILED and nothing else. The step `install_coreos` runs the same job as an install with a VIM ([`crate::job`]).

pub mod api;
pub mod certificate;
mod commands;
mod ending;
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

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use probes::guard;
use serde_json::{Value, json};
use tracing::{error, info, warn};

use self::api::Api;
use self::commands::{Commands, Work};
use self::erase::Erasures;
use self::heartbeat::{Contact, Wake};
use self::inspection::{Inspected, addresses, inspect};
use self::journal::Journal;
use self::steps::{ERASE, INSTALL, Kind, StepOrder};
use crate::act::Code;
use crate::act::{Failure, Site, settle};
use crate::api::Outcome;
use crate::clean;
use crate::clock::Clock;
use crate::exit_status::ExitStatus;
use crate::http::ServerSettings;
use crate::job::{After, Collected, JobSettings, Offline, run_with};
use crate::secret::Secret;
use crate::signals::Stop;

/// Interval at which the main thread checks for a signal.
const POLL: Duration = Duration::from_millis(100);
/// Time for an answer to leave before the machine is switched off.
const ANSWER_TIME: Duration = Duration::from_secs(1);
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
    /// The name of the node on the console until Ironic says another one.
    pub node_id: String,
}

impl Settings {
    /// The settings of a live image.
    #[must_use]
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
            node_id: String::new(),
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

/// The agent on its main thread.
struct Agent<'a> {
    settings: &'a Settings,
    job: &'a JobSettings,
    survey: &'a mut dyn FnMut() -> anyhow::Result<Surveyed>,
    commands: Arc<Commands>,
    wake: Arc<Wake>,
    /// The erasures that have not ended.
    erasures: Erasures,
    clock: Arc<dyn Clock>,
    stop: Stop,
    /// The known state of the disks at the end.
    exit_status: ExitStatus,
}

/// Inspects, and then carries out Ironic's orders until it powers the machine off.
pub fn run(
    settings: &Settings,
    job: &JobSettings,
    survey: &mut dyn FnMut() -> anyhow::Result<Surveyed>,
    clock: &Arc<dyn Clock>,
    stop: &Stop,
) -> ExitStatus {
    clean::keep_recent_log();
    let api = match Api::new(&settings.ironic, clock, stop) {
        Ok(api) => Arc::new(api),
        Err(error) => {
            error!("CONFIG: {error:#}; nothing was installed");
            return ExitStatus::Usage;
        }
    };
    // An inspection is posted once, so it waits for the disks.
    settle::wait(&job.site.system, clock.as_ref(), stop);
    let journal = Journal::open(&job.site.run_dir, commands::lost);
    // An agent that continues was inspected before; its node is in the middle of something else.
    let is_inspected = journal.session.is_some();
    let (surveyed, inspected) = match survey_and_inspect(&api, survey, is_inspected) {
        Ok(found) => found,
        Err(error) => {
            error!("{}: {error:#}; nothing was installed", Code::NoReport);
            return ExitStatus::NotReported;
        }
    };
    if !settings.is_agent {
        return wait_for_the_end(inspected.as_ref(), clock, stop);
    }
    let (sender, work) = channel();
    let commands = Arc::new(Commands::new(journal, sender, settings.journalctl.clone()));
    let wake = Arc::new(Wake::default());
    let contact = Contact {
        api,
        commands: Arc::clone(&commands),
        macs: addresses(&surveyed.document),
        node_uuid: match inspected {
            Some(Inspected::Accepted(uuid)) => uuid,
            _ => None,
        },
        settings: Settings { node_id: surveyed.collected.node_id.clone(), ..settings.clone() },
        clock: Arc::clone(clock),
        stop: stop.clone(),
        wake: Arc::clone(&wake),
    };
    let is_over = match keep_in_touch(contact) {
        Ok(is_over) => is_over,
        Err(error) => {
            error!("could not start a thread: {error}");
            return ExitStatus::Bug;
        }
    };
    let mut agent = Agent {
        settings,
        job,
        survey,
        commands,
        wake,
        erasures: Erasures::default(),
        clock: Arc::clone(clock),
        stop: stop.clone(),
        exit_status: ExitStatus::Untouched,
    };
    agent.work(&work, &is_over)
}

/// Reads the hardware and, unless that was done before, posts the inspection.
fn survey_and_inspect(
    api: &Api,
    survey: &mut dyn FnMut() -> anyhow::Result<Surveyed>,
    is_inspected: bool,
) -> anyhow::Result<(Surveyed, Option<Inspected>)> {
    info!("reading the machine's hardware");
    let surveyed = survey()?;
    if is_inspected {
        return Ok((surveyed, None));
    }
    let inspected = inspect(api, &surveyed.document).map_err(|why| anyhow::anyhow!("{why}"))?;
    inspection::log(&inspected);
    Ok((surveyed, Some(inspected)))
}

/// Runs lookup, command server and heartbeats on a thread of their own. The end of it, or its panic, arrives on the channel.
fn keep_in_touch(contact: Contact) -> io::Result<Receiver<Option<guard::Panic>>> {
    let (over, is_over) = channel();
    let on_panic = over.clone();
    let work = move || {
        contact.run();
        over.send(None).ok();
    };
    let on_panic = move |panic| drop(on_panic.send(Some(panic)));
    guard::spawn("ironic", STACK_BYTES, work, on_panic).map(|()| is_over)
}

/// Only the inspection was asked for: Ironic powers the machine off.
fn wait_for_the_end(
    inspected: Option<&Inspected>,
    clock: &Arc<dyn Clock>,
    stop: &Stop,
) -> ExitStatus {
    match inspected {
        Some(Inspected::Accepted(_) | Inspected::MaybeDelivered(_)) => {}
        Some(Inspected::NotExpected(why)) => {
            error!("{}: {why}", Code::NoReport);
            return ExitStatus::NotReported;
        }
        _ => return ExitStatus::NotReported,
    }
    info!("waiting for Ironic to power this machine off");
    while !stop.is_stopped() {
        clock.sleep(Duration::from_mins(1), stop);
    }
    ExitStatus::Untouched
}

impl Agent<'_> {
    /// Carries out orders until a signal or an order to end arrives.
    fn work(
        &mut self,
        work: &Receiver<(String, Work)>,
        is_over: &Receiver<Option<guard::Panic>>,
    ) -> ExitStatus {
        loop {
            match is_over.try_recv() {
                Ok(Some(panic)) => {
                    error!(panic, "a bug ended the connection to Ironic");
                    return ExitStatus::Bug;
                }
                Ok(None) => return self.exit_status,
                Err(_) => {}
            }
            let (id, order) = match work.recv_timeout(POLL) {
                Ok(order) => order,
                Err(RecvTimeoutError::Timeout) if !self.stop.is_stopped() => continue,
                Err(_) => return self.exit_status,
            };
            match order {
                Work::Step(order) => {
                    let outcome = self.step(&order);
                    if let Err(details) = &outcome {
                        error!("the step {} failed: {details}", order.name());
                    }
                    let result = outcome.map(|result| order.result(result));
                    let outcome = result.map_err(|details| steps::error(order.kind, &details));
                    self.commands.end(&id, outcome);
                    self.wake.now();
                }
                Work::PowerOff => {
                    info!("powering off as Ironic asks");
                    if self.is_switched_off(&id) {
                        return self.exit_status;
                    }
                }
                Work::Reboot => {
                    info!("rebooting as Ironic asks");
                    self.answer(&id);
                    // systemd reboots after this status.
                    return ExitStatus::Done;
                }
                Work::Lockdown => {
                    info!("switching the networks off as Ironic asks");
                    if self.is_locked(&id) {
                        while !self.stop.is_stopped() {
                            self.clock.sleep(Duration::from_secs(1), &self.stop);
                        }
                        return self.exit_status;
                    }
                }
            }
        }
    }

    /// Notes that a command is done, and lets its answer out.
    fn answer(&self, id: &str) {
        self.commands.end(id, Ok(Value::Null));
        std::thread::sleep(ANSWER_TIME);
    }

    /// Carries out a step. Ironic shows the error.
    fn step(&mut self, order: &StepOrder) -> Result<Value, String> {
        if let Some(why) = &order.mismatch {
            return Err(format!("{}: {why}", Code::InstructionInvalid));
        }
        // An erasure that timed out may still write.
        self.erasures.check_none_runs().map_err(|failure| steps::details(&failure))?;
        match (order.kind, order.name()) {
            (Kind::Deploy, INSTALL) => self.install(order),
            (Kind::Clean, ERASE) => self.erase(order),
            (kind, name) => Err(format!(
                "{}: this agent has no {} step {name:.100}",
                Code::ActionUnknown,
                kind.as_str()
            )),
        }
    }

    fn install(&mut self, order: &StepOrder) -> Result<Value, String> {
        let hostname = nix::unistd::gethostname().unwrap_or_default();
        let hostname = hostname.to_str().unwrap_or_default();
        let is_allowed = self.job.site.is_insecure_image_allowed;
        let instance = instance::instance(order, hostname, is_allowed)
            .map_err(|failure| steps::details(&failure))?;
        instance.notes.iter().for_each(|note| warn!("{note}"));
        let offline = Offline {
            order: instance.order,
            request_id: INSTALL.to_owned(),
            reason: "as Ironic asks",
            result: self.job.site.run_dir.join("result.json"),
            after: After::Ordered,
        };
        let settings = JobSettings {
            // Only files are fetched, and an image has its own time limits.
            vim: ServerSettings {
                url: None,
                token_file: None,
                deadline: None,
                ..self.job.vim.clone()
            },
            offline: Some(offline),
            words,
            site: Site {
                is_insecure_image_allowed: is_allowed || instance.is_digest_known,
                ..self.job.site.clone()
            },
            ..self.job.clone()
        };
        let survey = &mut *self.survey;
        let mut collect = || survey().map(|surveyed| surveyed.collected);
        let ended = run_with(&settings, &mut collect, Arc::clone(&self.clock), self.stop.clone());
        self.exit_status = ended.exit_status;
        match ended.result {
            Some(result) if result.outcome == Outcome::Installed => {
                Ok(json!({"message": result.message, "disk": result.disk, "image": result.image}))
            }
            Some(result) => Err(steps::details_of(&result)),
            None => Err(format!("{}: {}", Code::AgentBug, ended.exit_status.meaning())),
        }
    }

    fn erase(&mut self, order: &StepOrder) -> Result<Value, String> {
        let failed = |failure: &Failure| steps::details(failure);
        let surveyed = (self.survey)()
            .map_err(|error| failed(&Failure::new(Code::NoReport, format!("{error:#}"))))?;
        let system = self.job.site.system.until(&self.stop);
        let around = erase::Surroundings {
            system: &system,
            reported: &surveyed.collected.disks,
            protect: &self.job.site.protect,
            clean_disks: &self.settings.clean_disks,
            erasures: &self.erasures,
        };
        erase::erase(order, &around).map_err(|failure| failed(&failure))
    }
}
