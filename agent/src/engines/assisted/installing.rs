//! The install of a session: its start, its progress, and the report at its end.

use std::sync::Arc;
use std::time::Duration;

use tracing::{error, info, warn};

use super::api::Reply;
use super::bootstrap::Bootstrap;
use super::install::{self, Request};
use super::progress::{self, Progress, Report};
use super::step::Step;
use super::{Assisted, logs, words};
use crate::act::{Code, Failure, IgnitionSource, Order, Outcome, Site};
use crate::engines::vim::ResultFile;
use crate::exit_status::ExitStatus;
use crate::http::retry::is_transient;
use crate::http::{Client, ServerSettings};
use crate::job::node::refused;
use crate::job::{Collected, Hook, Next, Task};
use crate::signals::Stop;

/// Time to wait before a report of progress is sent again.
const PROGRESS_PAUSE: Duration = Duration::from_secs(5);

/// The exit code of a step for which the live medium is unreadable (assisted-installer-agent, `MediaDisconnected`).
const MEDIUM_LOST: i64 = 256;
/// The exit code of an install that failed.
const FAILED: i64 = 1;

/// A running install.
#[derive(Debug)]
pub(super) struct Installing {
    step: Step,
    cluster_id: String,
    pub(super) progress: Progress,
    pub(super) interrupt: Stop,
}

impl Assisted<'_> {
    pub(super) fn begin_install(&mut self, step: &Step) -> Option<Next> {
        if self.session.install.is_some() {
            warn!("the service asks for an install while one is running; ignoring that");
            return None;
        }
        let is_insecure_allowed = self.node.settings.site.is_insecure_image_allowed;
        let request = install::parse(step, &self.session.api, is_insecure_allowed);
        let started = match request {
            Ok(request) => self.start_install(step, request),
            Err(error) => {
                error!("the install is refused: {error}; no disk was touched");
                Err(Failure::new(Code::InstructionInvalid, error))
            }
        };
        started
            .map(|task| Next::Act(Box::new(task)))
            .map_err(|failure| self.fail(step, &refused(failure.clone()), &failure))
            .ok()
    }

    fn start_install(&mut self, step: &Step, mut request: Request) -> Result<Task, Failure> {
        install::pin(&mut request.order, &self.session.surveyed.collected.disks)?;
        let interrupt = Stop::default();
        // Images come from anywhere; the token is for the service only.
        let server = ServerSettings { url: None, token_file: None, ..self.server.clone() };
        let client = Client::new(&server, Arc::clone(&self.node.clock), interrupt.clone());
        let client = client.map_err(|error| Failure::new(Code::AgentBug, format!("{error:#}")))?;
        info!("the service asks for an install");
        if let Some(note) = &request.note {
            warn!("{note}");
        }
        let mut progress = Progress::default();
        progress.add(progress::STARTING, request.note.unwrap_or_default());
        let host_id = self.session.api.host_id.clone();
        let collected = self.session.surveyed.collected.clone();
        self.node.update(Collected { node_id: host_id, ..collected });
        // From here on a crash is reported, until the service knows how the install ended.
        self.node.begin(Some(&request.id), None);
        self.node.make_known();
        let mut task = Task::new(request.order, &self.node, Arc::new(client));
        task.stop = interrupt.clone();
        if let Some(network_dir) = request.network_dir {
            task.site.network_dir = network_dir.into();
        }
        let (api, is_bootstrap) = (self.session.api.clone(), request.is_bootstrap);
        let system = task.site.system.until(&interrupt);
        let bootstrap = Bootstrap {
            api: api.clone(),
            site: Site { system, ..task.site.clone() },
            cluster_id: request.cluster_id.clone(),
            is_single: request.is_single,
        };
        if is_bootstrap {
            progress.add(progress::INSTALLING, "");
        }
        if is_bootstrap && !request.is_single {
            self.node.memory.update(|checkpoint| checkpoint.has_more = true);
            let bootstrap = bootstrap.clone();
            task.follow = Some(Hook(Box::new(move |_, watch| bootstrap.follow(watch))));
        }
        task.prepare = Some(Hook(Box::new(move |order: &mut Order, watch| {
            let config =
                if is_bootstrap { bootstrap.begin(watch) } else { install::ignition(&api) };
            order.ignition = IgnitionSource { inline: Some(config?), ..IgnitionSource::default() };
            Ok(())
        })));
        self.session.install = Some(Installing {
            step: step.clone(),
            cluster_id: request.cluster_id,
            progress,
            interrupt,
        });
        Ok(task)
    }

    /// Sends the oldest report of progress. One that the service refuses is dropped.
    pub(super) fn send_progress(&mut self) {
        let session = &mut self.session;
        let Some(install) = &mut session.install else { return };
        let now = self.node.clock.now();
        let Some(report) = install.progress.next().filter(|_| now >= session.progress_at) else {
            return;
        };
        match session.api.progress(report.stage, &report.info) {
            Ok(()) => install.progress.sent(&report),
            // The service will refuse the same again.
            Err(failed) if failed.status.is_some_and(|status| !is_transient(status)) => {
                warn!("the service refuses the stage {}: {}", report.stage, failed.message);
                install.progress.sent(&report);
            }
            Err(failed) => {
                warn!("reporting progress: {}", failed.message);
                session.progress_at = now + PROGRESS_PAUSE;
            }
        }
    }

    /// Reports how an install ended. Returns the exit status if the host is installed, or a signal ends the agent.
    pub(super) fn conclude(&mut self, outcome: &Outcome) -> Option<ExitStatus> {
        let install = self.session.install.take()?;
        ResultFile::conclude(&mut self.node, outcome, words);
        self.session.exit_status = outcome.exit_status();
        let is_stopped = self.node.stop.is_stopped();
        if let Some(failure) = &outcome.failure {
            self.fail(&install.step, outcome, failure);
        }
        // The logs take too long after a signal.
        if !is_stopped {
            self.upload_logs(&install.cluster_id);
        }
        if outcome.failure.is_none() {
            self.node.memory.update(|checkpoint| checkpoint.has_more = false);
            return Some(self.report_installed(install));
        }
        self.waits("a reset or another install by");
        is_stopped.then_some(self.session.exit_status)
    }

    fn report_installed(&mut self, mut install: Installing) -> ExitStatus {
        install.progress.add(progress::REBOOTING, "");
        self.waits("the end of the install to be accepted by");
        let api = &self.session.api;
        // A service that does not know that the disk is installed would put the host into an error.
        let limit = api.client.time_left().map(|left| left.max(self.node.settings.failure_limit));
        while let Some(report) = install.progress.next() {
            if let Err(gave_up) = api.insist(&report, limit) {
                error!("the disk is installed, but that could not be reported: {gave_up}");
                error!(
                    "what to do: make the service reachable, or reboot by hand; the disk is good"
                );
                return ExitStatus::NotReported;
            }
            install.progress.sent(&report);
        }
        self.node.memory.update(|checkpoint| checkpoint.is_over = true);
        self.reply(&install.step, &Reply::default());
        if self.settings.is_converged() {
            info!(
                "the disk is installed; ironic-agent.service is here, so Ironic reboots the host"
            );
            return ExitStatus::Staying;
        }
        info!("the disk is installed");
        ExitStatus::Done
    }

    /// Reports that an install failed: the stage for people, the reply for the service's state of the host.
    fn fail(&mut self, step: &Step, outcome: &Outcome, failure: &Failure) {
        let text = install::describe(outcome, failure);
        error!("the install failed: {text}");
        let report = Report { stage: progress::FAILED, info: text.clone() };
        let limit = Some(self.node.settings.failure_limit);
        if let Err(gave_up) = self.session.api.insist(&report, limit) {
            error!("the failure could not be reported: {gave_up}");
        }
        let exit_code = if failure.code == Code::MediumLost { MEDIUM_LOST } else { FAILED };
        self.reply(step, &Reply { exit_code, ..Reply::failed(text) });
        self.node.memory.update(|checkpoint| checkpoint.is_over = true);
    }

    fn upload_logs(&self, cluster_id: &str) {
        match logs::upload(&self.session.api, cluster_id, &self.logs()) {
            Ok(()) => info!("the logs were uploaded"),
            Err(error) => warn!("uploading the logs: {error}"),
        }
    }
}
