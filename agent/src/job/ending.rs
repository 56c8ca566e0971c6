//! The end of the job: its log lines, its posts and its exit status.

use tracing::{error, info, warn};

use formats::time::rfc3339;

use super::Ended;
use super::power::{POWEROFF_LIMIT, run_until_stopped};
use super::sequence::Job;
use crate::act::{DiskState, Outcome, Stage, State, describe};
use crate::api::JobResult;
use crate::engines::vim::result::{Heading, result};
use crate::exit_status::ExitStatus;
use crate::http::client::GaveUp;

/// Most warnings in a result.
const MAX_WARNINGS: usize = 100;

impl Job<'_> {
    /// Ends the job with a failure: logs it, posts it, returns the exit status.
    pub(super) fn end_badly(&mut self, outcome: &Outcome) -> Ended {
        let mut result = self.result(outcome);
        let code = result.code.as_deref().unwrap_or_default();
        let code_and_message = format!("{code}: {}", result.message);
        error!("{} failed with {code_and_message}", result.stage);
        let disk = match result.disk_state {
            DiskState::Untouched if !result.taken_down.is_empty() => {
                "the disk was not written, but what was active on it was taken down"
            }
            DiskState::Untouched => "no disk was touched",
            DiskState::HalfWritten => "the disk may be half written and does not boot",
            DiskState::Written => "the disk was written, but it is not proved",
            DiskState::Installed => "the disk is installed and proved",
            DiskState::Erased => "the disk was written and its partition table erased",
        };
        let advice = result.advice.as_deref().unwrap_or("see the message above");
        error!("{disk}, no reboot; what to do: {advice}");
        self.event(result.stage, State::Failed, Some(&code_and_message));
        self.replace_unposted();
        self.complete(&mut result);
        if let Some(offline) = &self.settings.offline {
            self.deliver_failure(offline, &result);
        } else if !self.settings.is_dry_run {
            match self.post(&result, Some(self.settings.failure_limit)) {
                Ok(()) => info!("result posted"),
                Err(gave_up) => error!("the result could not be posted: {gave_up}"),
            }
        }
        Ended { exit_status: outcome.exit_status(), result: Some(Box::new(result)) }
    }

    /// Ends the job with an installed disk.
    ///
    /// The result is retried as long as the report: a VIM that does not know of the install would order it again. A
    /// server that only serves an Ignition config need not accept results.
    pub(super) fn end_well(&mut self, outcome: &Outcome) -> Ended {
        let mut result = self.result(outcome);
        result.stage = Stage::Result;
        let disk = outcome.disk.as_deref().map(describe).unwrap_or_default();
        result.message = format!("{disk} is installed and proved");
        self.replace_unposted();
        self.complete(&mut result);
        if let Some(offline) = &self.settings.offline {
            return self.end_offline(offline, result);
        }
        self.event(Stage::Result, State::Started, None);
        self.console.waits_for(&self.vim("the result to be accepted by"), &self.node_id);
        let limit = self.client.time_left().map(|left| left.max(self.settings.failure_limit));
        let limit = if self.is_bare { Some(self.settings.failure_limit) } else { limit };
        let exit_status = match self.post(&result, limit) {
            Ok(()) => {
                info!("result posted: {}", result.message);
                self.event(Stage::Result, State::Done, None);
                ExitStatus::Done
            }
            Err(GaveUp::Refused(failed) | GaveUp::Deadline(failed))
                if self.is_bare && failed.status.is_some() =>
            {
                warn!("{}; this VIM does not accept results: {}", result.message, failed.message);
                ExitStatus::Done
            }
            Err(gave_up) => {
                error!("{}, but the result could not be posted: {gave_up}", result.message);
                error!("what to do: make the VIM reachable, or reboot by hand; the disk is good");
                ExitStatus::NotReported
            }
        };
        Ended { exit_status, result: Some(Box::new(result)) }
    }

    /// Adds the final fields of every result.
    fn complete(&mut self, result: &mut JobResult) {
        result.warnings = std::mem::take(&mut self.warnings);
        result.warnings.truncate(MAX_WARNINGS);
        result.neighbours = self.settings.listener.known().unwrap_or_default();
        result.live = Some(probes::live::live());
        result.finished_at = rfc3339(self.clock.time_of_day());
    }

    /// Ends so that systemd reboots, because the VIM asks for it.
    pub(super) fn reboot(&mut self) -> Ended {
        self.announce("rebooting");
        Ended::with(ExitStatus::Done)
    }

    /// Announces the action on the machine that the VIM asks for; a dry run leaves the machine as it is.
    fn announce(&mut self, what: &str) {
        let message = format!("{what} as the VIM asks");
        let dry = if self.settings.is_dry_run { "dry run, so not " } else { "" };
        info!("{dry}{message}; no disk was touched");
        self.event(Stage::Result, State::Done, Some(&message));
    }

    /// Powers off because the VIM asks for it.
    pub(super) fn power_off(&mut self) -> Ended {
        self.announce("powering off");
        if self.settings.is_dry_run {
            return Ended::with(ExitStatus::Done);
        }
        Ended::with(self.switch_off(ExitStatus::Untouched, "no disk was touched"))
    }

    /// Asks systemd to power off and waits for it to end this program. If the machine stays on, returns `otherwise`;
    /// `disk` is the state of the disk for the advice.
    pub(super) fn switch_off(&mut self, otherwise: ExitStatus, disk: &str) -> ExitStatus {
        let (command, clock) = (&self.settings.poweroff, self.clock.as_ref());
        match run_until_stopped(command, POWEROFF_LIMIT, clock, &self.stop) {
            Ok(()) => return ExitStatus::Done,
            Err(why) => error!("{why}"),
        }
        error!("what to do: power the machine off by hand; {disk}");
        otherwise
    }

    /// The result of an outcome, so far.
    fn result(&self, outcome: &Outcome) -> JobResult {
        let heading = Heading {
            node_id: self.node_id.clone(),
            request_id: self.request_id.clone(),
            request_digest: self.request_digest.clone(),
            started_at: rfc3339(self.started_at),
        };
        let result = result(heading, outcome, self.settings.words);
        JobResult { findings: self.findings(), ..result }
    }
}
