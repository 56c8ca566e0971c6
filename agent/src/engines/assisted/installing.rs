//! The install of a session: its start, its progress, and the report at its end.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use probes::guard;
use tracing::{error, info, warn};

use super::api::Reply;
use super::install::{self, Finished, Request, Work};
use super::logs;
use super::progress::{self, Progress, Report};
use super::session::Session;
use super::step::Step;
use crate::act::Code;
use crate::act::Failure;
use crate::checkpoint;
use crate::exit_status::ExitStatus;
use crate::http::retry::{Failed, is_transient};
use crate::job::Collected;
use crate::signals::Stop;

/// Time limit for an interrupted install to end: coreos-installer is killed, and the disk is looked at.
const STOP_LIMIT: Duration = Duration::from_secs(40);
/// Stack of the install thread.
const STACK_BYTES: usize = 8 << 20;
/// Time to wait before a report of progress is sent again.
const PROGRESS_PAUSE: Duration = Duration::from_secs(5);

/// A running install.
pub(super) struct Installing {
    step: Step,
    cluster_id: String,
    progress: Arc<Progress>,
    answer: Receiver<Result<Finished, guard::Panic>>,
    pub(super) interrupt: Stop,
}

impl Session<'_> {
    pub(super) fn begin_install(&mut self, step: Step) {
        if self.install.is_some() {
            warn!("the service asks for an install while one is running; ignoring that");
            return;
        }
        let request = install::parse(&step, &self.api, self.job.site.is_insecure_image_allowed);
        match request {
            Ok(request) => self.start_install(step, request),
            Err(error) => {
                error!("the install is refused: {error}; no disk was touched");
                self.fail(&step, &Finished::refused_request(&error));
            }
        }
    }

    fn start_install(&mut self, step: Step, mut request: Request) {
        if let Err(failure) = install::pin(&mut request.order, &self.surveyed.collected.disks) {
            self.fail(&step, &Finished::refused(&failure));
            return;
        }
        info!("the service asks for an install");
        self.console.works();
        for note in &request.notes {
            warn!("{note}");
        }
        let progress = Arc::new(Progress::default());
        progress.add(progress::STARTING, request.notes.join("; "));
        let interrupt = Stop::default();
        let cluster_id = request.cluster_id.clone();
        let work = Work {
            api: self.api.clone(),
            request,
            settings: self.job.clone(),
            collected: Collected {
                node_id: self.api.host_id.clone(),
                ..self.surveyed.collected.clone()
            },
            progress: Arc::clone(&progress),
            clock: Arc::clone(&self.clock),
            stop: interrupt.clone(),
        };
        // From here on a crash is reported, until the service knows how the install ended.
        checkpoint::update(|checkpoint| {
            checkpoint.node_id.clone_from(&self.api.host_id);
            (checkpoint.awaits_service, checkpoint.is_over) = (true, false);
            (checkpoint.disk, checkpoint.disk_state, checkpoint.attempts) = (None, None, 0);
        });
        match guard::ask("install", STACK_BYTES, move || work.run()) {
            Ok(answer) => {
                self.install = Some(Installing { step, cluster_id, progress, answer, interrupt });
            }
            Err(error) => {
                let error = format!("no thread could be started: {error}");
                let failure = Failure::new(Code::AgentBug, error).advise("reboot the host");
                self.fail(&step, &Finished::refused(&failure));
            }
        }
    }

    /// Sends the oldest report of progress. One that the service refuses is dropped.
    pub(super) fn send_progress(&mut self) {
        let Some(install) = &self.install else { return };
        let now = self.clock.now();
        let Some(report) = install.progress.next().filter(|_| now >= self.progress_at) else {
            return;
        };
        match self.api.progress(report.stage, &report.info) {
            Ok(()) => install.progress.sent(&report),
            Err(failed) if is_refused(&failed) => {
                warn!("the service refuses the stage {}: {}", report.stage, failed.message);
                install.progress.sent(&report);
            }
            Err(failed) => {
                warn!("reporting progress: {}", failed.message);
                self.progress_at = now + PROGRESS_PAUSE;
            }
        }
    }

    /// Ends an install that has finished. Returns the exit status if the host is installed.
    pub(super) fn finish_install(&mut self) -> Option<ExitStatus> {
        let install = self.install.as_ref()?;
        let finished = match install.answer.try_recv() {
            Err(TryRecvError::Empty) => return None,
            Ok(Ok(finished)) => finished,
            Ok(Err(panic)) => Finished::bug(&panic),
            Err(TryRecvError::Disconnected) => Finished::bug("its thread ended"),
        };
        let install = self.install.take()?;
        self.conclude(&install, &finished)
    }

    fn conclude(&mut self, install: &Installing, finished: &Finished) -> Option<ExitStatus> {
        self.exit_status = finished.exit_status;
        if finished.failure.is_some() {
            self.fail(&install.step, finished);
            self.upload_logs(&install.cluster_id);
            self.waits("a reset or another install by");
            return None;
        }
        self.upload_logs(&install.cluster_id);
        install.progress.add(progress::REBOOTING, "");
        self.waits("the end of the install to be accepted by");
        // A service that does not know that the disk is installed would put the host into an error.
        let limit = self.api.client.time_left().map(|left| left.max(self.job.failure_limit));
        while let Some(report) = install.progress.next() {
            if let Err(gave_up) = self.api.insist(&report, limit) {
                error!("the disk is installed, but that could not be reported: {gave_up}");
                error!(
                    "what to do: make the service reachable, or reboot by hand; the disk is good"
                );
                return Some(ExitStatus::NotReported);
            }
            install.progress.sent(&report);
        }
        checkpoint::update(|checkpoint| checkpoint.awaits_service = false);
        self.reply(&install.step, &Reply::default());
        if self.settings.is_converged() {
            info!(
                "the disk is installed; ironic-agent.service is here, so Ironic reboots the host"
            );
            return Some(ExitStatus::Staying);
        }
        info!("the disk is installed");
        Some(ExitStatus::Done)
    }

    /// Reports that an install failed: the stage for people, the reply for the service's state of the host.
    fn fail(&mut self, step: &Step, finished: &Finished) {
        let failure = finished.failure.clone().unwrap_or_default();
        error!("the install failed: {failure}");
        let report = Report { stage: progress::FAILED, info: failure.clone() };
        if let Err(gave_up) = self.api.insist(&report, Some(self.job.failure_limit)) {
            error!("the failure could not be reported: {gave_up}");
        }
        self.reply(step, &Reply::failed(finished.exit_code, failure));
        checkpoint::update(|checkpoint| {
            (checkpoint.awaits_service, checkpoint.is_over) = (false, true);
        });
    }

    fn upload_logs(&self, cluster_id: &str) {
        match logs::upload(&self.api, cluster_id, &self.logs()) {
            Ok(()) => info!("the logs were uploaded"),
            Err(error) => warn!("uploading the logs: {error}"),
        }
    }

    /// A signal ends the agent: an install is interrupted and its end reported.
    pub(super) fn stopped(&mut self) -> ExitStatus {
        let Some(install) = self.install.take() else { return self.exit_status };
        install.interrupt.stop();
        let finished = match install.answer.recv_timeout(STOP_LIMIT) {
            Ok(Ok(finished)) => finished,
            Ok(Err(panic)) => Finished::bug(&panic),
            Err(_) => Finished::bug("it did not end after a signal"),
        };
        // The logs take too long now.
        if finished.failure.is_some() {
            self.fail(&install.step, &finished);
            return finished.exit_status;
        }
        self.conclude(&install, &finished).unwrap_or(finished.exit_status)
    }
}

/// True if the service will refuse the same again.
fn is_refused(failed: &Failed) -> bool {
    failed.status.is_some_and(|status| !is_transient(status))
}
