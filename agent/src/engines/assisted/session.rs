//! The loop of the agent: register, ask for steps, answer them, until the host is installed.
//!
//! One thread sends every request, so the service never gets two at once from a host. Steps and the install run on
//! other threads, and the loop collects their results.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::{error, info, warn};

use super::api::{Api, Reply};
use super::installing::Installing;
use super::step::{Cache, Step, Steps};
use super::tasks::{Around, Tasks};
use super::{Settings, Surveyed, logs};
use crate::clock::Clock;
use crate::exit_status::ExitStatus;
use crate::http::Client;
use crate::http::client::GaveUp;
use crate::http::retry::{Backoff, Failed};
use crate::job::console::Console;
use crate::job::{Ended, JobSettings};
use crate::signals::Stop;

/// Interval at which the loop looks for finished steps and for a signal.
const TICK: Duration = Duration::from_millis(250);
/// When to ask again if the service does not say.
const DEFAULT_WAIT_S: u64 = 60;
/// The shortest and the longest wait that the service may ask for.
const WAITS_S: (u64, u64) = (1, 3600);
/// Maximum age of a survey of the hardware: the service asks for the inventory every minute.
const SURVEY_LIMIT: Duration = Duration::from_mins(5);

/// The agent of one host.
pub(super) struct Session<'a> {
    pub(super) settings: &'a Settings,
    pub(super) job: &'a JobSettings,
    pub(super) api: Api,
    pub(super) surveyed: Surveyed,
    surveyed_at: Instant,
    pub(super) clock: Arc<dyn Clock>,
    stop: Stop,
    pub(super) console: Console,
    cache: Cache,
    tasks: Tasks,
    pub(super) install: Option<Installing>,
    /// When a report of progress is tried again after a failure.
    pub(super) progress_at: Instant,
    /// The exit status if the agent is stopped now.
    pub(super) exit_status: ExitStatus,
    /// Counts registrations that led to another one at once.
    again: Backoff,
}

/// The action after a round of the loop.
enum Next {
    Ask(Duration),
    Register,
}

impl<'a> Session<'a> {
    pub(super) fn new(
        settings: &'a Settings,
        job: &'a JobSettings,
        client: Arc<Client>,
        surveyed: Surveyed,
        clock: Arc<dyn Clock>,
        stop: Stop,
    ) -> Self {
        let infra_env_id = settings.infra_env_id.clone();
        let api = Api { client, infra_env_id, host_id: surveyed.host_id.clone() };
        let now = clock.now();
        Self {
            settings,
            job,
            api,
            surveyed,
            surveyed_at: now,
            clock,
            stop,
            console: Console::start(),
            cache: Cache::default(),
            tasks: Tasks::default(),
            install: None,
            progress_at: now,
            exit_status: ExitStatus::Untouched,
            again: Backoff::default(),
        }
    }

    pub(super) fn run(mut self, survey: &mut dyn FnMut() -> anyhow::Result<Surveyed>) -> Ended {
        loop {
            if let Err(gave_up) = self.register() {
                return self.give_up(&gave_up);
            }
            if let Some(exit_status) = self.serve(survey) {
                return Ended { exit_status, result: None };
            }
        }
    }

    fn register(&mut self) -> Result<(), GaveUp> {
        self.waits("its registration with");
        let client = &self.api.client;
        client.until_success("registering the host", client.time_left(), || self.api.register())?;
        info!(host_id = self.api.host_id, "registered with {}", self.api.shown());
        self.cache.clear();
        self.waits("steps from");
        Ok(())
    }

    pub(super) fn waits(&self, what: &str) {
        self.console.waits_for(&format!("{what} {}", self.api.shown()), &self.api.host_id);
    }

    fn give_up(&mut self, gave_up: &GaveUp) -> Ended {
        let exit_status = match gave_up {
            GaveUp::Stopped => self.stopped(),
            gave_up => {
                error!("the host could not be registered: {gave_up}");
                match self.exit_status {
                    ExitStatus::Untouched => ExitStatus::NotReported,
                    of_install => of_install,
                }
            }
        };
        Ended { exit_status, result: None }
    }

    /// Answers steps until the host must register again. Returns the exit status at the end.
    fn serve(
        &mut self,
        survey: &mut dyn FnMut() -> anyhow::Result<Surveyed>,
    ) -> Option<ExitStatus> {
        let mut backoff = Backoff::default();
        let mut ask_at = self.clock.now();
        loop {
            if self.stop.is_stopped() {
                return Some(self.stopped());
            }
            for (step, reply) in self.tasks.finished() {
                self.reply(&step, &reply);
            }
            self.send_progress();
            if let Some(exit_status) = self.finish_install() {
                return Some(exit_status);
            }
            if self.clock.now() >= ask_at {
                match self.ask(survey, &mut backoff) {
                    Next::Ask(wait) => ask_at = self.clock.now() + wait,
                    Next::Register => {
                        let failed = Failed::unavailable(String::new());
                        let wait = self.again.wait(&failed, self.clock.as_ref());
                        self.clock.sleep(wait, &self.stop);
                        return None;
                    }
                }
            }
            let is_over = self.api.client.time_left().is_some_and(|left| left.is_zero());
            if is_over && self.install.is_none() {
                error!("no install was completed in the time of --give-up-after");
                return Some(self.exit_status);
            }
            self.clock.sleep(TICK, &self.stop);
        }
    }

    /// Asks for steps and starts each.
    fn ask(
        &mut self,
        survey: &mut dyn FnMut() -> anyhow::Result<Surveyed>,
        backoff: &mut Backoff,
    ) -> Next {
        let steps = match self.api.instructions() {
            Ok(answer) => Steps::parse(&answer),
            Err(failed) => {
                self.cache.clear();
                // The service forgot the host: it was deleted, or belongs to another infra-env now.
                if failed.status == Some(404) && self.install.is_none() {
                    warn!(
                        "the service does not know this host: {}; registering again",
                        failed.message
                    );
                    return Next::Register;
                }
                let wait = backoff.wait(&failed, self.clock.as_ref());
                warn!("asking for steps: {}; next try in {} s", failed.message, wait.as_secs());
                return Next::Ask(wait);
            }
        };
        backoff.reset();
        for step in steps.list {
            self.begin(step, survey);
        }
        if steps.is_exit && self.install.is_none() {
            info!("the service asks the host to register again");
            return Next::Register;
        }
        self.again.reset();
        let wait_s = steps.wait_s.filter(|wait_s| *wait_s > 0).unwrap_or(DEFAULT_WAIT_S);
        Next::Ask(Duration::from_secs(wait_s.clamp(WAITS_S.0, WAITS_S.1)))
    }

    fn begin(&mut self, step: Step, survey: &mut dyn FnMut() -> anyhow::Result<Surveyed>) {
        match step.kind.as_str() {
            "inventory" => {
                let (reply, fresh) = self.inventory(&step, survey);
                // A choice of the service refers to the inventory that it has.
                if self.reply(&step, &reply)
                    && let Some(fresh) = fresh
                {
                    self.surveyed = fresh;
                }
            }
            "install" => self.begin_install(step),
            "stop-installation" => {
                if let Some(install) = &self.install {
                    warn!("the service stops the install");
                    install.interrupt.stop();
                }
                self.reply(&step, &Reply::default());
            }
            _ => {
                let around = self.around();
                if let Some((step, reply)) = self.tasks.start(step, &around) {
                    self.reply(&step, &reply);
                }
            }
        }
    }

    fn around(&self) -> Around {
        Around {
            api: self.api.clone(),
            disks: self.surveyed.collected.disks.clone(),
            logs: self.logs(),
        }
    }

    pub(super) fn logs(&self) -> logs::Sources {
        logs::Sources {
            report: self.surveyed.collected.report.clone(),
            result: self.job.site.run_dir.join("result.json"),
        }
    }

    /// The inventory. While a disk is written, the one that the service has stays.
    fn inventory(
        &mut self,
        step: &Step,
        survey: &mut dyn FnMut() -> anyhow::Result<Surveyed>,
    ) -> (Reply, Option<Surveyed>) {
        let mut fresh = None;
        let age = self.clock.now().saturating_duration_since(self.surveyed_at);
        if self.install.is_none() && age >= SURVEY_LIMIT {
            self.surveyed_at = self.clock.now();
            match survey() {
                // The id stays: a port that appears late must not make another host of this one.
                Ok(surveyed) => {
                    fresh = Some(Surveyed { host_id: self.api.host_id.clone(), ..surveyed });
                }
                Err(error) => {
                    let error = format!("reading the hardware: {error:#}");
                    return (Reply::failed(-1, error), None);
                }
            }
        }
        let reply = Reply::done(&fresh.as_ref().unwrap_or(&self.surveyed).inventory);
        let limit = step.args.iter().find_map(|arg| arg.strip_prefix("--output-max-size="));
        match limit.and_then(|limit| limit.parse::<usize>().ok()) {
            Some(limit) if reply.output.len() > limit => {
                let n_bytes = reply.output.len();
                let error = format!("the inventory has {n_bytes} bytes, more than {limit}");
                (Reply::failed(-1, error), None)
            }
            _ => (reply, fresh),
        }
    }

    /// Sends a reply, unless the service has an equal one. Returns true if the service has it now.
    pub(super) fn reply(&mut self, step: &Step, reply: &Reply) -> bool {
        let now = self.clock.now();
        if self.cache.contains(&step.kind, reply, now) {
            return true;
        }
        match self.api.reply(step, reply) {
            Ok(()) => {
                self.cache.add(&step.kind, reply, now);
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
