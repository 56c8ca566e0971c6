//! The loop of the agent: register, ask for steps, answer them, until the host is installed.
//!
//! One thread sends every request, so the service never gets two at once from a host. Steps and the install run on
//! other threads, and the loop collects their results.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::{Value, json};
use tracing::{error, info, warn};

use super::api::{Api, Reply};
use super::installing::Installing;
use super::step::{Cache, Step, Steps};
use super::tasks::{Around, Tasks};
use super::{Assisted, Surveyed, logs};
use crate::clean;
use crate::engines::vim::ResultFile;
use crate::exit_status::ExitStatus;
use crate::http::client::GaveUp;
use crate::http::retry::{Backoff, Failed};
use crate::job::Next;

/// The longest name of an image.
const MAX_IMAGE_BYTES: usize = 1024;
/// Interval at which the loop looks for finished steps and for a signal.
const TICK: Duration = Duration::from_millis(250);
/// When to ask again if the service does not say.
const DEFAULT_WAIT_S: u64 = 60;
/// The shortest and the longest wait that the service may ask for.
const WAITS_S: (u64, u64) = (1, 3600);
/// Maximum age of a survey of the hardware: the service asks for the inventory every minute.
const SURVEY_LIMIT: Duration = Duration::from_mins(5);

/// The host at the service.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) api: Api,
    pub(super) surveyed: Surveyed,
    surveyed_at: Instant,
    is_registered: bool,
    cache: Cache,
    tasks: Tasks,
    pub(super) install: Option<Installing>,
    /// When steps are asked for next.
    ask_at: Instant,
    /// Counts requests for steps that failed.
    failures: Backoff,
    /// When a report of progress is tried again after a failure.
    pub(super) progress_at: Instant,
    /// The exit status if the agent is stopped now.
    pub(super) exit_status: ExitStatus,
    /// Counts registrations that led to another one at once.
    again: Backoff,
}

impl Session {
    pub(super) fn new(api: Api, surveyed: Surveyed, now: Instant) -> Self {
        Self {
            api,
            surveyed,
            surveyed_at: now,
            is_registered: false,
            cache: Cache::default(),
            tasks: Tasks::default(),
            install: None,
            ask_at: now,
            failures: Backoff::default(),
            progress_at: now,
            exit_status: ExitStatus::Untouched,
            again: Backoff::default(),
        }
    }
}

/// The action after a round of the loop.
pub(super) enum Round {
    Wait,
    Register,
    Next(Next),
}

impl Assisted<'_> {
    /// Reads the hardware, whose identifiers are those of the host.
    ///
    /// # Errors
    /// The hardware cannot be read.
    pub(super) fn survey_first(&mut self) -> anyhow::Result<()> {
        let surveyed = (self.survey.0)().context("reading the hardware")?;
        let host_id = surveyed.host_id.clone();
        self.node.id.clone_from(&host_id);
        let api = Api { host_id, ..self.session.api.clone() };
        self.session = Session::new(api, surveyed, self.node.clock.now());
        Ok(())
    }

    /// Answers steps until an install is to be carried out, or the agent ends.
    pub(super) fn serve(&mut self) -> Next {
        loop {
            if !self.session.is_registered
                && let Err(gave_up) = self.register()
            {
                return Next::End(self.give_up(&gave_up));
            }
            if self.node.stop.is_stopped() {
                return Next::End(self.session.exit_status);
            }
            match self.round() {
                Round::Next(next) => return next,
                Round::Wait => self.node.clock.sleep(TICK, &self.node.stop),
                Round::Register => {
                    let failed = Failed::unavailable(String::new());
                    let wait = self.session.again.wait(&failed, self.node.clock.as_ref());
                    self.node.clock.sleep(wait, &self.node.stop);
                    self.session.is_registered = false;
                }
            }
        }
    }

    fn register(&mut self) -> Result<(), GaveUp> {
        self.waits("its registration with");
        let api = &self.session.api;
        let client = &api.client;
        client.until_success("registering the host", client.time_left(), || api.register())?;
        info!(host_id = api.host_id, "registered with {}", api.shown());
        self.session.cache.clear();
        self.waits("steps from");
        let now = self.node.clock.now();
        let session = &mut self.session;
        (session.is_registered, session.ask_at, session.failures) = (true, now, Backoff::default());
        Ok(())
    }

    pub(super) fn waits(&self, what: &str) {
        let api = &self.session.api;
        self.node.console.waits_for(&format!("{what} {}", api.shown()), &api.host_id);
    }

    fn give_up(&self, gave_up: &GaveUp) -> ExitStatus {
        if let GaveUp::Stopped = gave_up {
            return self.session.exit_status;
        }
        error!("the host could not be registered: {gave_up}");
        match self.session.exit_status {
            ExitStatus::Untouched => ExitStatus::NotReported,
            of_install => of_install,
        }
    }

    /// Sends what has ended, and asks for steps if that is due.
    pub(super) fn round(&mut self) -> Round {
        for (step, reply) in self.session.tasks.finished(self.node.clock.now()) {
            self.reply(&step, &reply);
        }
        self.send_progress();
        if self.node.clock.now() >= self.session.ask_at {
            match self.ask() {
                Round::Wait => {}
                round => return round,
            }
        }
        let is_over = self.session.api.client.time_left().is_some_and(|left| left.is_zero());
        if is_over && self.session.install.is_none() {
            error!("no install was completed in the time of --give-up-after");
            return Round::Next(Next::End(self.session.exit_status));
        }
        Round::Wait
    }

    /// Asks for steps and starts each.
    fn ask(&mut self) -> Round {
        let steps = match self.session.api.instructions() {
            Ok(answer) => Steps::parse(&answer),
            Err(failed) => {
                self.session.cache.clear();
                // The service forgot the host: it was deleted, or belongs to another infra-env now.
                if failed.status == Some(404) && self.session.install.is_none() {
                    let why = failed.message;
                    warn!("the service does not know this host: {why}; registering again");
                    return Round::Register;
                }
                let wait = self.session.failures.wait(&failed, self.node.clock.as_ref());
                warn!("asking for steps: {}; next try in {} s", failed.message, wait.as_secs());
                self.session.ask_at = self.node.clock.now() + wait;
                return Round::Wait;
            }
        };
        self.session.failures.reset();
        let (mut next, version) = (None, self.session.api.version.clone());
        for step in steps.list {
            next = self.begin(step).or(next);
        }
        let is_renamed = self.session.api.version != version;
        if (steps.is_exit || is_renamed) && self.session.install.is_none() {
            info!("the service asks the host to register again");
            return Round::Register;
        }
        self.session.again.reset();
        let wait_s = steps.wait_s.filter(|wait_s| *wait_s > 0).unwrap_or(DEFAULT_WAIT_S);
        let wait = Duration::from_secs(wait_s.clamp(WAITS_S.0, WAITS_S.1));
        self.session.ask_at = self.node.clock.now() + wait;
        next.map_or(Round::Wait, Round::Next)
    }

    /// Starts a step. An install is returned.
    fn begin(&mut self, step: Step) -> Option<Next> {
        match step.kind.as_str() {
            "inventory" => {
                let (reply, fresh) = self.inventory(&step);
                // A choice of the service refers to the inventory that it has.
                if self.reply(&step, &reply)
                    && let Some(fresh) = fresh
                {
                    self.session.surveyed = fresh;
                }
            }
            "install" => return self.begin_install(&step),
            "upgrade-agent" => self.upgrade(&step),
            "stop-installation" => {
                if let Some(install) = &self.session.install {
                    warn!("the service stops the install");
                    install.interrupt.stop();
                }
                self.reply(&step, &Reply::default());
            }
            _ => {
                let around = Around {
                    api: self.session.api.clone(),
                    disks: self.session.surveyed.collected.disks.clone(),
                    logs: self.logs(),
                    root: self.settings.root.clone(),
                };
                if let Some((step, reply)) = self.session.tasks.start(step, &around) {
                    self.reply(&step, &reply);
                }
            }
        }
        None
    }

    /// Registers again as the image that the service asks for, whose API this agent serves: it compares nothing but this name
    /// (`compatible-agent` of its validations), and lets no host with another one install.
    fn upgrade(&mut self, step: &Step) {
        let request = step.json(0).unwrap_or_default();
        let image = request.get("agent_image").and_then(Value::as_str).unwrap_or_default();
        let is_known =
            !image.is_empty() && image.len() <= MAX_IMAGE_BYTES && self.session.install.is_none();
        let result = if is_known { "success" } else { "failure" };
        let output = json!({"agent_image": image, "result": result});
        self.reply(step, &Reply::done(&output));
        if is_known && self.session.api.version != image {
            info!(
                "the service wants an agent that is compatible with {}",
                clean::quoted(image, 200)
            );
            image.clone_into(&mut self.session.api.version);
        }
    }

    pub(super) fn logs(&self) -> logs::Sources {
        logs::Sources {
            report: self.session.surveyed.collected.report.clone(),
            result: ResultFile::of(&self.node.settings.site).0,
            log: self.node.settings.process.log.clone(),
        }
    }

    /// The inventory. While a disk is written, the one that the service has stays.
    fn inventory(&mut self, step: &Step) -> (Reply, Option<Surveyed>) {
        let mut fresh = None;
        let age = self.node.clock.now().saturating_duration_since(self.session.surveyed_at);
        if self.session.install.is_none() && age >= SURVEY_LIMIT {
            self.session.surveyed_at = self.node.clock.now();
            match (self.survey.0)() {
                // The session keeps its id: a port that appears late must not make another host of this one.
                Ok(surveyed) => fresh = Some(surveyed),
                Err(error) => {
                    let error = format!("reading the hardware: {error:#}");
                    return (Reply::failed(error), None);
                }
            }
        }
        let reply = Reply::done(&fresh.as_ref().unwrap_or(&self.session.surveyed).inventory);
        let limit = step.args.iter().find_map(|arg| arg.strip_prefix("--output-max-size="));
        match limit.and_then(|limit| limit.parse::<usize>().ok()) {
            Some(limit) if reply.output.len() > limit => {
                let n_bytes = reply.output.len();
                let error = format!("the inventory has {n_bytes} bytes, more than {limit}");
                (Reply::failed(error), None)
            }
            _ => (reply, fresh),
        }
    }

    /// Sends a reply, unless the service has an equal one. Returns true if the service has it now.
    pub(super) fn reply(&mut self, step: &Step, reply: &Reply) -> bool {
        let now = self.node.clock.now();
        if self.session.cache.contains(&step.kind, reply, now) {
            return true;
        }
        match self.session.api.reply(step, reply) {
            Ok(()) => {
                self.session.cache.add(&step.kind, reply, now);
                true
            }
            // The service asks again.
            Err(failed) => {
                warn!(step = step.kind, "sending a reply: {}", failed.message);
                false
            }
        }
    }
}
